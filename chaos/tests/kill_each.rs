//! The first scenario, as a test.

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i01_i32_every_process_killed_in_turn_loses_nothing_and_all_views_converge() {
    let report = rollcall_chaos::kill_each::run(1, |line| eprintln!("{line}")).await;
    eprintln!("{}", report.text());
    assert!(report.broken.is_empty(), "{}", report.text());
}
