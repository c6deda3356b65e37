//! All registrants of a process that go to one cell share a connection and a session.

use std::time::Duration;

use rollcall_client::model::{Code, Lifecycle};
use rollcall_client::{CallError, Registrant};

use crate::cell::{Call, Cell, DEADLINE, Serving};
use crate::line::Line;
use crate::registrant::{registered, registrations, start, until};

async fn fleet(urls: &[String], many: usize) -> Vec<Registrant> {
    let fleet: Vec<_> = (0..many).map(|n| start(urls.to_vec(), &format!("ops/mail/{n}"))).collect();
    for registrant in &fleet {
        registered(registrant).await;
    }
    fleet
}

fn urls(servings: &[&Serving]) -> Vec<String> {
    servings.iter().map(|serving| serving.url()).collect()
}

async fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let by = tokio::time::Instant::now() + DEADLINE;
    while !condition() {
        assert!(tokio::time::Instant::now() < by, "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn made(cell: &Cell) -> usize {
    let calls: Vec<Call> = cell.calls().into_iter().map(|(_, call)| call).collect();
    registrations(&calls).len()
}

#[tokio::test]
async fn a_hundred_registrants_share_one_connection_and_renew_together() {
    let cell = Cell::new();
    let serving = cell.serve();
    // No beat comes by itself within this test: all are due when their owner speaks.
    cell.ask_for_beat(DEADLINE * 3);
    let fleet = fleet(&urls(&[&serving]), 100).await;
    for word in [Lifecycle::Degraded, Lifecycle::Healthy, Lifecycle::Degraded] {
        let before: Vec<_> = fleet.iter().map(|registrant| registrant.status().renewals).collect();
        for registrant in &fleet {
            registrant.set_lifecycle(word);
        }
        for (registrant, before) in fleet.iter().zip(before) {
            until(registrant, "renewed", |status| status.renewals > before).await;
        }
    }
    let (messages, renewals) = (cell.renewals().len(), cell.renewals().iter().sum::<usize>());
    assert!(renewals >= 300, "{renewals} renewals");
    assert!(messages < renewals / 2, "{messages} messages for {renewals} renewals");
    assert_eq!((cell.connections(), cell.sessions(), made(&cell)), (1, 1, 100));
    assert!(fleet.iter().all(|registrant| registrant.status().failures == 0));
}

#[tokio::test]
async fn with_the_last_registrant_the_session_ends() {
    let cell = Cell::new();
    let serving = cell.serve();
    let mut fleet = fleet(&urls(&[&serving]), 2).await;
    drop(fleet.pop());
    let renewals = fleet[0].status().renewals;
    until(&fleet[0], "two more renewals", |status| status.renewals >= renewals + 2).await;
    assert_eq!((cell.open_sessions(), cell.sessions()), (1, 1));
    drop(fleet);
    wait_until("no session is open", || cell.open_sessions() == 0).await;
}

#[tokio::test]
async fn a_broken_session_is_opened_anew_and_nobody_registers_anew() {
    let cell = Cell::new();
    let serving = cell.serve();
    let fleet = fleet(&urls(&[&serving]), 5).await;
    serving.break_sessions();
    wait_until("another session", || cell.sessions() == 2).await;
    for registrant in &fleet {
        let before = registrant.status().renewals;
        let status = until(registrant, "renewed again", |status| status.renewals >= before + 2).await;
        assert_eq!((status.registrations, status.last_error), (1, None));
    }
    assert_eq!((cell.sessions(), made(&cell)), (2, 5));
}

#[tokio::test]
async fn a_session_that_falls_silent_is_left_for_the_next_address() {
    let cell = Cell::new();
    let serving = cell.serve();
    let line = Line::to(serving.address).await;
    let fleet = fleet(&[line.url(), serving.url()], 5).await;
    line.cut();
    for registrant in &fleet {
        let status = until(registrant, "no answer in time", |status| status.failures > 0).await;
        // One that renewed again by now does not know the error any more.
        if let Some(error) = status.last_error {
            let told = format!("the cell at {} gave no answer within ", line.url());
            assert!(error.to_string().starts_with(&told), "{error}");
        }
        let before = registrant.status().renewals;
        let status = until(registrant, "renewed again", |status| status.renewals >= before + 2).await;
        assert_eq!((status.registrations, status.last_error), (1, None));
    }
    assert_eq!((cell.sessions(), made(&cell)), (2, 5));
}

#[tokio::test]
async fn a_stopping_process_hands_its_registrants_over_without_a_failed_call() {
    let cell = Cell::new();
    let (first, second) = (cell.serve(), cell.serve());
    let fleet = fleet(&urls(&[&first, &second]), 5).await;
    first.stop();
    wait_until("a session with the second", || cell.sessions() == 2).await;
    for registrant in &fleet {
        let before = registrant.status().renewals;
        let status = until(registrant, "renewed again", |status| status.renewals >= before + 2).await;
        assert_eq!((status.registrations, status.failures), (1, 0));
    }
    assert_eq!((cell.sessions(), cell.connections(), made(&cell)), (2, 2, 5));
}

#[tokio::test]
async fn what_a_stopping_process_did_not_begin_is_asked_elsewhere_at_once() {
    let cell = Cell::new();
    let (first, second) = (cell.serve(), cell.serve());
    first.stop();
    let registrant = start(urls(&[&first, &second]), "ops/mail/1");
    let status = registered(&registrant).await;
    assert_eq!((status.failures, made(&cell)), (0, 1));
    // All are stopping: each is asked once, and then it waits.
    second.stop();
    let status = until(&registrant, "a failed renewal", |status| status.failures > 0).await;
    assert!(
        matches!(status.last_error, Some(CallError::Refused { code: Code::Draining, .. })),
        "{:?}",
        status.last_error
    );
}

#[tokio::test]
async fn a_refusal_on_a_session_keeps_its_code_its_words_and_its_wait() {
    let cell = Cell::new();
    let serving = cell.serve();
    let wait = Duration::from_millis(1_500);
    cell.refuse(Some((Code::RateLimited, wait)));
    let registrant = start(urls(&[&serving]), "ops/mail/1");
    let status = until(&registrant, "refused", |status| status.failures == 1).await;
    let refused = CallError::Refused {
        url: urls(&[&serving])[0].clone(),
        code: Code::RateLimited,
        detail: "as told".into(),
        retry_after: Some(wait),
    };
    assert_eq!(status.last_error, Some(refused));
    cell.refuse(None);
    registered(&registrant).await;
    let calls = cell.calls();
    assert!(calls[1].0 - calls[0].0 >= wait, "it came again after {:?}", calls[1].0 - calls[0].0);
    assert_eq!((cell.sessions(), cell.connections()), (1, 1));
}

#[tokio::test]
async fn a_renewal_that_cannot_be_read_costs_those_beside_it_nothing() {
    let cell = Cell::new();
    let serving = cell.serve();
    cell.ask_for_beat(DEADLINE * 3);
    let fleet = fleet(&urls(&[&serving]), 20).await;
    cell.cannot_read("ops/mail/7");
    let mut word = Lifecycle::Healthy;
    for _ in 0..20 {
        word = if word == Lifecycle::Healthy { Lifecycle::Degraded } else { Lifecycle::Healthy };
        let before: Vec<_> = fleet.iter().map(Registrant::status).collect();
        for registrant in &fleet {
            registrant.set_lifecycle(word);
        }
        for (registrant, before) in fleet.iter().zip(before) {
            let judged = before.renewals + before.failures;
            until(registrant, "judged", |status| status.renewals + status.failures > judged).await;
        }
        if cell.spoiled() >= 3 {
            break;
        }
    }
    assert!(cell.spoiled() >= 3, "its renewal never went with others");
    for (n, registrant) in fleet.iter().enumerate() {
        assert_eq!(registrant.status().failures > 0, n == 7, "ops/mail/{n}: {:?}", registrant.status());
    }
}
