//! Fault runs that are short enough for every change. The others run by command: `cargo run -p rollcall-chaos -- list`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use rollcall_chaos::{cycles, scenarios};

async fn holds(name: &str) {
    let scenario = scenarios::find(name).unwrap();
    let report = scenarios::run(&scenario, 1, |line| eprintln!("{line}")).await;
    eprintln!("{}", report.text());
    assert!(report.holds(), "{}", report.text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f01_an_etcd_leader_that_is_killed_costs_no_acknowledged_write_and_no_lease() {
    holds("etcd-leader-killed").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rcv_02_watchers_that_reconnect_under_churn_miss_no_change_and_are_told_none_twice() {
    holds("watchers-reconnect-short").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f17_a_third_of_the_owners_cut_off_lose_nothing_and_renew_their_old_epochs() {
    holds("cut-both-ways").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i25_b79_watches_that_come_and_go_leave_no_task_no_descriptor_and_no_memory() {
    let report = cycles::run(600, |line| eprintln!("{line}")).await;
    assert!(report.broken.is_empty(), "{}", report.text());
}
