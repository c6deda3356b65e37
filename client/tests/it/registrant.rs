//! A registration stays, whatever the registry does.

use std::time::{Duration, Instant};

use rollcall_client::model::{Code, Lifecycle, Load};
use rollcall_client::{CallError, Closed, Registrant, RegistrantOptions, RegistrantState, Status};

use crate::cell::{Call, Cell, DEADLINE, declaration};

pub(crate) fn start(urls: impl IntoIterator<Item = String>, id: &str) -> Registrant {
    Registrant::start(RegistrantOptions::new(urls, declaration(id))).unwrap()
}

pub(crate) async fn registered(registrant: &Registrant) -> Status {
    tokio::time::timeout(DEADLINE, registrant.registered()).await.expect("it is registered")
}

pub(crate) async fn until(
    registrant: &Registrant,
    what: &str,
    condition: impl FnMut(&Status) -> bool,
) -> Status {
    match tokio::time::timeout(DEADLINE, registrant.until(condition)).await {
        Ok(status) => status,
        Err(_) => panic!("never: {what}; status: {:?}", registrant.status()),
    }
}

fn renewals(calls: &[Call]) -> usize {
    calls.iter().filter(|call| matches!(call, Call::Renew { .. })).count()
}

pub(crate) fn registrations<'a>(calls: &'a [Call]) -> Vec<(&'a str, u64)> {
    let register = |call: &'a Call| match call {
        Call::Register { id, epoch, .. } => Some((id.as_str(), *epoch)),
        Call::Renew { .. } | Call::Deregister { .. } | Call::Watch { .. } => None,
    };
    calls.iter().filter_map(register).collect()
}

#[tokio::test]
async fn it_registers_once_and_renews_with_the_epoch() {
    let cell = Cell::new();
    let serving = cell.serve();
    let registrant = start([serving.url()], "ops/mail/1");
    let status = registered(&registrant).await;
    let calls = cell.saw("three renewals", |calls| renewals(calls) >= 3).await;
    let epoch = status.epoch.unwrap().get();
    assert_eq!(registrations(&calls), [("ops/mail/1", epoch)]);
    assert!(calls[1..].iter().all(|call| matches!(call, Call::Renew { epoch: told, .. } if *told == epoch)));
    let status = until(&registrant, "two renewals counted", |status| status.renewals >= 2).await;
    assert_eq!((status.region.unwrap().as_str(), status.failures, status.last_error), ("us", 0, None));
}

#[tokio::test]
async fn hlt_05_cancelled_with_its_owner_it_deregisters_by_itself() {
    let cell = Cell::new();
    let serving = cell.serve();
    let registrant = start([serving.url()], "ops/mail/1");
    let epoch = registered(&registrant).await.epoch.unwrap().get();
    let owner = tokio::spawn(async move {
        std::future::pending::<()>().await;
        drop(registrant);
    });
    owner.abort();
    let gone = |calls: &[Call]| {
        calls.iter().any(|call| matches!(call, Call::Deregister { epoch: told, .. } if *told == epoch))
    };
    cell.saw("a deregistration with the epoch", gone).await;
}

#[tokio::test]
async fn an_instance_made_by_the_client_is_the_same_in_every_registration() {
    let cell = Cell::new();
    let serving = cell.serve();
    let registrant = start([serving.url()], "ops/mail");
    let id = registered(&registrant).await.id;
    cell.forget(id.as_str());
    let calls = cell.saw("a second registration", |calls| registrations(calls).len() >= 2).await;
    assert!(registrations(&calls).iter().all(|(registered, _)| *registered == id.as_str()));
    assert_eq!(id.agent(), "ops/mail");
}

#[tokio::test]
async fn a_forgotten_registration_is_made_anew_at_once() {
    let cell = Cell::new();
    let serving = cell.serve();
    let registrant = start([serving.url()], "ops/mail/1");
    let before = registered(&registrant).await;
    cell.forget("ops/mail/1");
    let after = until(&registrant, "registered again", |status| status.registrations == 2).await;
    assert!(after.epoch > before.epoch && after.state == RegistrantState::Registered);
    let calls = cell.calls();
    let again = calls.iter().rposition(|(_, call)| matches!(call, Call::Register { .. })).unwrap();
    assert!(matches!(calls[again - 1].1, Call::Renew { .. }), "{calls:?}");
}

#[tokio::test]
async fn lea_13_a_lease_that_is_not_the_registered_one_is_registered_anew_and_then_believed() {
    let cell = Cell::new();
    let serving = cell.serve();
    let registrant = start([serving.url()], "ops/mail/1");
    let before = registered(&registrant).await;
    cell.say_of_leases(300);
    let after = until(&registrant, "registered again", |status| status.registrations == 2).await;
    assert!(after.epoch > before.epoch && after.id == before.id, "{after:?}");
    let renewed = after.renewals;
    let status = until(&registrant, "three more beats", |status| status.renewals >= renewed + 3).await;
    assert_eq!((status.registrations, status.failures, status.epoch), (2, 0, after.epoch));
}

#[tokio::test]
async fn superseded_by_its_own_endpoint_it_keeps_its_id() {
    let cell = Cell::new();
    let serving = cell.serve();
    let registrant = start([serving.url()], "ops/mail/1");
    registered(&registrant).await;
    cell.take_over("ops/mail/1", "http://own:1/");
    let status = until(&registrant, "registered again", |status| status.registrations == 2).await;
    assert_eq!(status.id.as_str(), "ops/mail/1");
}

#[tokio::test]
async fn superseded_by_a_foreign_endpoint_it_leaves_the_id_to_the_other() {
    let cell = Cell::new();
    let serving = cell.serve();
    let registrant = start([serving.url()], "ops/mail/1");
    registered(&registrant).await;
    cell.take_over("ops/mail/1", "http://other:1/");
    let status = until(&registrant, "registered again", |status| status.registrations == 2).await;
    assert_eq!(status.id.agent(), "ops/mail");
    assert_ne!(status.id.instance(), "1");
    let id = status.id.clone();
    let renewed = |calls: &[Call]| {
        calls.iter().any(|call| matches!(call, Call::Renew { id: renewed, .. } if *renewed == id.as_str()))
    };
    let calls = cell.saw("a renewal of the new id", renewed).await;
    assert_eq!(registrations(&calls).iter().filter(|(id, _)| *id == "ops/mail/1").count(), 1);
}

#[tokio::test]
async fn a_holder_of_a_shared_entry_goes_on_through_a_rollout_and_leaves_without_draining_the_service() {
    let cell = Cell::new();
    let serving = cell.serve();
    let mut shared = declaration("ops/mail");
    shared.scope = Some("service".into());
    let registrant = Registrant::start(RegistrantOptions::new([serving.url()], shared)).unwrap();
    let status = registered(&registrant).await;
    let epoch = status.epoch.unwrap().get();
    assert_eq!(status.id.as_str(), "ops/mail/service");
    // A newer version of the deployment registers other data, elsewhere.
    cell.take_over("ops/mail/service", "http://other:1/");
    registrant.set_lifecycle(Lifecycle::Draining);
    let renewals_before = registrant.status().renewals;
    until(&registrant, "it goes on", |status| status.renewals >= renewals_before + 3).await;
    assert_eq!(registrant.close(Duration::from_secs(5)).await, Closed::Deregistered);
    let calls: Vec<_> = cell.calls().into_iter().map(|(_, call)| call).collect();
    let Some(Call::Register { holder: Some(own), .. }) = calls.first() else { panic!("{calls:?}") };
    for call in &calls[1..calls.len() - 1] {
        let Call::Renew { holder, epoch: told, lifecycle, .. } = call else { panic!("{calls:?}") };
        assert_eq!((holder.as_ref(), *told, *lifecycle), (Some(own), epoch, None), "{calls:?}");
    }
    let gone = Call::Deregister { id: "ops/mail/service".into(), holder: Some(own.clone()), epoch };
    assert_eq!(calls.last(), Some(&gone));
}

#[tokio::test]
async fn a_registry_that_is_away_at_the_start_is_waited_for() {
    let cell = Cell::new();
    let address = cell.serve().address;
    let url = format!("http://{address}");
    let registrant = start([url.clone()], "ops/mail/1");
    let status = until(&registrant, "a failed try", |status| status.failures >= 2).await;
    assert_eq!(status.state, RegistrantState::Registering);
    let error = status.last_error.unwrap();
    assert!(matches!(error, CallError::Unreachable { .. }), "{error:?}");
    let told = format!("the cell at {url} cannot be reached: Connection refused");
    assert!(error.to_string().starts_with(&told), "{error}");
    let _serving = cell.serve_at(address);
    assert_eq!(registered(&registrant).await.last_error, None);
}

#[tokio::test]
async fn a_restart_of_the_registry_is_survived_with_the_same_epoch() {
    let cell = Cell::new();
    let serving = cell.serve();
    let address = serving.address;
    let registrant = start([serving.url()], "ops/mail/1");
    let before = registered(&registrant).await;
    drop(serving);
    let status = until(&registrant, "a failed renewal", |status| status.failures >= 2).await;
    assert_eq!((status.state, status.epoch), (RegistrantState::Registered, before.epoch));
    let _serving = cell.serve_at(address);
    let renewed = status.renewals;
    let status = until(&registrant, "renewed again", |status| status.renewals > renewed).await;
    assert_eq!((status.epoch, status.registrations, status.last_error), (before.epoch, 1, None));
}

#[tokio::test]
async fn a_dead_cell_process_and_a_frozen_one_are_passed_over() {
    let cell = Cell::new();
    let serving = cell.serve();
    let dead = cell.serve().url();
    // Takes connections into its backlog and never answers.
    let frozen = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let frozen_url = format!("http://{}", frozen.local_addr().unwrap());
    let registrant = start([dead, frozen_url, serving.url()], "ops/mail/1");
    let status = registered(&registrant).await;
    assert_eq!((status.failures, status.registrations), (2, 1));
    cell.saw("renewals at the third", |calls| renewals(calls) >= 2).await;
}

#[tokio::test]
async fn a_refusal_is_left_alone_as_long_as_it_asks() {
    let cell = Cell::new();
    let serving = cell.serve();
    let asked = Duration::from_millis(1_500);
    cell.refuse(Some((Code::Overloaded, asked)));
    let registrant = start([serving.url()], "ops/mail/1");
    let status = until(&registrant, "refused", |status| status.failures == 1).await;
    let overloaded = |error: &CallError| matches!(error, CallError::Refused { code: Code::Overloaded, .. });
    assert!(status.last_error.as_ref().is_some_and(overloaded), "{:?}", status.last_error);
    cell.refuse(None);
    registered(&registrant).await;
    let calls = cell.calls();
    assert!(calls[1].0 - calls[0].0 >= asked, "it came again after {:?}", calls[1].0 - calls[0].0);
}

#[tokio::test]
async fn a_lifecycle_is_told_at_once_and_again_after_a_loss() {
    let cell = Cell::new();
    let serving = cell.serve();
    // No beat comes by itself within this test.
    cell.ask_for_beat(DEADLINE * 3);
    let registrant = start([serving.url()], "ops/mail/1");
    registered(&registrant).await;
    registrant.report_load(Load { queue_depth: 7, in_flight: 1, error_rate: 0.0 });
    registrant.set_lifecycle(Lifecycle::Degraded);
    let degraded = Call::Renew {
        holder: None,
        id: "ops/mail/1".into(),
        epoch: registrant.status().epoch.unwrap().get(),
        lifecycle: Some(Lifecycle::Degraded),
        queue_depth: Some(7),
    };
    cell.saw("degraded, with its load", |calls| calls.contains(&degraded)).await;
    cell.forget("ops/mail/1");
    registrant.set_lifecycle(Lifecycle::Draining);
    let calls = cell.saw("draining, after the loss", |calls| {
        matches!(calls, [.., Call::Register { .. }, Call::Renew { lifecycle: Some(Lifecycle::Draining), .. }])
    });
    let calls = calls.await;
    // Nobody calls it in the moment between.
    let again = &calls[calls.len() - 2];
    assert!(matches!(again, Call::Register { lifecycle: Some(Lifecycle::Starting), .. }), "{again:?}");
}

#[tokio::test]
async fn closing_says_draining_and_then_deregisters_with_the_epoch() {
    let cell = Cell::new();
    let serving = cell.serve();
    let registrant = start([serving.url()], "ops/mail/1");
    let epoch = registered(&registrant).await.epoch.unwrap().get();
    assert_eq!(registrant.close(Duration::from_secs(5)).await, Closed::Deregistered);
    let calls: Vec<_> = cell.calls().into_iter().map(|(_, call)| call).collect();
    let [.., draining, gone] = calls.as_slice() else { panic!("{calls:?}") };
    assert!(
        matches!(draining, Call::Renew { epoch: told, lifecycle: Some(Lifecycle::Draining), .. } if *told == epoch),
        "{draining:?}"
    );
    assert_eq!(*gone, Call::Deregister { id: "ops/mail/1".into(), holder: None, epoch });
}

#[tokio::test]
async fn closing_ends_within_its_budget_when_the_registry_is_away() {
    let cell = Cell::new();
    let serving = cell.serve();
    let registrant = start([serving.url()], "ops/mail/1");
    registered(&registrant).await;
    drop(serving);
    let budget = Duration::from_millis(700);
    let before = Instant::now();
    let closed = tokio::time::timeout(DEADLINE, registrant.close(budget)).await;
    assert_eq!(closed.unwrap(), Closed::LeftToLapse);
    assert!(before.elapsed() >= budget, "it took {:?}", before.elapsed());
}

#[tokio::test]
async fn closing_what_was_never_registered_is_immediate() {
    let cell = Cell::new();
    let address = cell.serve().address;
    let registrant = start([format!("http://{address}")], "ops/mail/1");
    until(&registrant, "a failed try", |status| status.failures >= 1).await;
    let closed = tokio::time::timeout(DEADLINE, registrant.close(Duration::from_secs(3_600))).await;
    assert_eq!(closed.unwrap(), Closed::NotRegistered);
}

#[test]
fn sdk_04_a_blocked_runtime_does_not_starve_the_heartbeat() {
    let cell = Cell::new();
    let serving = cell.serve();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let renewed = || renewals(&cell.calls().into_iter().map(|(_, call)| call).collect::<Vec<_>>());
    runtime.block_on(async {
        let _registrant = start([serving.url()], "ops/mail/1");
        // Blocks the only thread of the runtime, as long work of an agent does.
        let by = Instant::now() + DEADLINE;
        while renewed() < 3 {
            assert!(Instant::now() < by, "starved after {} renewals", renewed());
            std::thread::sleep(Duration::from_millis(5));
        }
    });
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn all_registrants_of_a_process_share_one_thread() {
    let cell = Cell::new();
    let serving = cell.serve();
    let fleet: Vec<_> = (0..12).map(|n| start([serving.url()], &format!("ops/mail/{n}"))).collect();
    for registrant in &fleet {
        registered(registrant).await;
    }
    let names = std::fs::read_dir("/proc/self/task")
        .unwrap()
        .filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok());
    // The system cuts a thread's name after fifteen characters.
    assert_eq!(names.filter(|name| name.starts_with("rollcall-regis")).count(), 1);
}

/// Its queue of connections is full and nobody takes any: what asks for one more is not answered at all.
#[tokio::test]
async fn lea_04_an_address_that_answers_no_connection_is_given_up_before_the_call_is() {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    loop {
        let one = tokio::net::TcpStream::connect(address);
        match tokio::time::timeout(Duration::from_millis(300), one).await {
            Ok(connected) => waiting.push(connected.unwrap()),
            Err(_) => break,
        }
        assert!(waiting.len() < 64, "its queue has no end");
    }
    let registrant = start([format!("http://{address}")], "ops/mail/1");
    let status = until(&registrant, "it is given up", |status| status.failures > 0).await;
    // An answer is waited for longer than a connection: had that no bound, this would be an answer that did not come.
    let error = status.last_error.unwrap();
    assert!(matches!(error, CallError::Unreachable { .. }), "{error}");
}
