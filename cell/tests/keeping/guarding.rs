//! What operators and callers notice of the guard, of a sweep and of a lease.

use std::time::Duration;

use rollcall_cell::registrar::Report;
use rollcall_model::{LeaseState, Lifecycle, Load};

use super::cell::{Cell, declared, id, memory};
use super::leases::half_dead;
use super::logged::Logged;

async fn read(cell: &Cell, path: &str) -> String {
    reqwest::get(format!("http://{}{path}", cell.running.http)).await.unwrap().text().await.unwrap()
}

#[tokio::test]
async fn exp_02_obs_06_a_guard_that_holds_raises_one_alert_with_its_figures_and_tells_its_end() {
    let logged = Logged::begin();
    let (cell, _folder) = memory().await;
    let _listener = half_dead(&cell, 4, 4).await;
    cell.until("all four are held", |cell| {
        cell.running.keeper.guard().is_some_and(|guard| guard.held.len() == 4)
    })
    .await;
    let alerts = || logged.lines(&["expiry held"]);
    let first = alerts();
    assert_eq!(first.len(), 1, "{first:?}");
    for part in ["ERROR", "cohort=region", "registered=8", "suspects=4", "limit=1", "nothing is removed"] {
        assert!(first[0].contains(part), "{part} is not in {}", first[0]);
    }
    let metrics = read(&cell, "/metrics").await;
    for line in [
        r#"rollcall_cell_guard_holding{cohort="region"} 1"#,
        r#"rollcall_cell_guard_suspects{cohort="region"} 4"#,
    ] {
        assert!(metrics.lines().any(|told| told == line), "{line} is not in:\n{metrics}");
    }
    // The silent ones come back; the end is told too, and nobody is woken twice for one hold.
    for at in 0..4 {
        let held = id(&format!("a/silent/{at}"));
        let epoch = cell.running.regions.own_view().state().unwrap().get(held.as_str()).unwrap().epoch;
        cell.registrar().renew(&held, epoch, Report::default()).await.unwrap();
    }
    cell.until("it settles", |_| !logged.lines(&["expiry settles"]).is_empty()).await;
    assert_eq!(alerts().len(), 1);
    cell.stop().await;
}

#[tokio::test]
async fn exp_06_a_lapsed_instance_is_gone_from_every_answer_within_one_sweep() {
    let (cell, _folder) = memory().await;
    let mut epochs = Vec::new();
    for name in ["lives", "dies"] {
        let registered = cell.registrar().register(declared(&format!("ops/{name}/1"), "http://h:1/")).await;
        epochs.push(registered.unwrap().registration.epoch);
    }
    for _ in 0..3 {
        cell.pass(Duration::from_secs(11));
        cell.registrar().renew(&id("ops/lives/1"), epochs[0], Report::default()).await.unwrap();
    }
    // The condition waits for one sweep; every answer is one of the state after it.
    cell.until("it is removed", |cell| !cell.has("ops/dies/1")).await;
    for path in ["/v1/agents", "/v1/agents?name=dies", "/v1/resolve?name=dies", "/v1/agents/ops/dies/1"] {
        let answer = read(&cell, path).await;
        assert!(!answer.contains("\"id\":\"ops/dies/1\""), "{path}: {answer}");
    }
    let refused = cell.registrar().renew(&id("ops/dies/1"), epochs[1], Report::default()).await.unwrap_err();
    assert_eq!(refused.code, rollcall_model::Code::NotRegistered);
    assert!(read(&cell, "/v1/agents").await.contains("ops/lives/1"));
    cell.stop().await;
}

#[tokio::test]
async fn hlt_01_a_lease_says_that_an_instance_lives_and_not_that_it_answers_well() {
    let (cell, _folder) = memory().await;
    let registered = cell.registrar().register(declared("ops/mail/1", "http://h:1/")).await.unwrap();
    let epoch = registered.registration.epoch;
    let load = Some(Load { queue_depth: 9_999, in_flight: 9, error_rate: 1.0 });
    for _ in 0..6 {
        cell.pass(Duration::from_secs(11));
        let report = Report { load, ..Report::default() };
        cell.registrar().renew(&id("ops/mail/1"), epoch, report).await.unwrap();
    }
    // It fails every call for two leases: readers hear that it is degraded, and nobody removes it.
    let view = cell.running.regions.own_view();
    let shown = view.state().unwrap().get("ops/mail/1").unwrap();
    assert_eq!((shown.owned.lifecycle, shown.epoch), (Lifecycle::Degraded, epoch));
    assert_eq!(cell.registrar().lease(&id("ops/mail/1")).await.unwrap().state, LeaseState::Live);
    cell.stop().await;
}

#[tokio::test]
async fn f15_f16_scn_08_lea_10_no_wall_clock_moves_a_lease_the_cells_or_an_owners() {
    let (cell, _folder) = memory().await;
    let registered = cell.registrar().register(declared("ops/mail/1", "http://h:1/")).await.unwrap();
    let epoch = registered.registration.epoch;
    let state = async || cell.registrar().lease(&id("ops/mail/1")).await.unwrap().state;
    // The cell's own clock is set forth and back by minutes, a day and a century, in the middle of leases.
    for off in [120, -120, 86_400, -86_400, 3_153_600_000, 30, 0] {
        cell.wall_clock_is_off_by(off);
        assert_eq!(state().await, LeaseState::Live, "{off} s off");
        cell.pass(Duration::from_secs(9));
        cell.registrar().renew(&id("ops/mail/1"), epoch, Report::default()).await.unwrap();
    }
    assert!(cell.has("ops/mail/1"), "it was renewed in time all along");
    // No call of an owner has a place for a time, so a wrong one cannot come in: what is sent all the same is refused.
    let url = format!("http://{}", cell.running.http);
    let client = reqwest::Client::new();
    for member in ["last_heartbeat_at", "timestamp", "lease_expires_at", "now"] {
        let item = format!(
            r#"{{"renewals":[{{"id":"ops/mail/1","epoch":"{epoch}","{member}":"2100-01-01T00:00:00Z"}}]}}"#
        );
        let whole = format!(r#"{{"id":"ops/mail/1","endpoints":[{{"url":"http://h:1/"}}],"{member}":0}}"#);
        for (path, body) in [("/v1/renewals", item), ("/v1/registrations", whole)] {
            let request =
                client.post(format!("{url}{path}")).header("content-type", "application/json").body(body);
            let answer = request.send().await.unwrap().text().await.unwrap();
            assert!(answer.contains("unknown_member"), "{member} at {path}: {answer}");
        }
    }
    // And with nobody renewing it ends after its length by the monotonic clock, whatever the wall clock says.
    cell.wall_clock_is_off_by(-86_400);
    cell.pass(Duration::from_secs(31));
    cell.until("it lapses", |cell| !cell.has("ops/mail/1")).await;
    cell.stop().await;
}

/// Museum B83: status that was written with every beat filled the store's history up to its quota.
#[tokio::test]
async fn b83_a_status_that_moves_with_every_beat_is_a_few_writes_an_hour_and_not_one_a_beat() {
    let (cell, _folder) = memory().await;
    let registered = cell.registrar().register(declared("ops/mail/1", "http://h:1/")).await.unwrap();
    let epoch = registered.registration.epoch;
    let (mut writes, mut last) = (0, None);
    for beat in 0..90_u32 {
        cell.pass(Duration::from_secs(10));
        // From nothing to very much and back: each report is one that readers would route by.
        let load = Some(Load { queue_depth: beat % 2 * 5_000, in_flight: beat % 2 * 500, error_rate: 0.0 });
        cell.registrar().renew(&id("ops/mail/1"), epoch, Report { load, ..Report::default() }).await.unwrap();
        let view = cell.running.regions.own_view();
        let revision = view.state().unwrap().get("ops/mail/1").unwrap().revision;
        writes += u32::from(last.replace(revision).is_some_and(|last| last != revision));
    }
    // A burst of four, then one in thirty seconds, of a quarter of an hour.
    assert!((10..=4 + 900 / 30).contains(&writes), "{writes} writes of 90 beats");
    cell.stop().await;
}
