//! Leases, expiry and the guard.

use std::time::{Duration, Instant};

use rollcall_tests::agents::agent;
use rollcall_tests::convergence::agent_ids;
use rollcall_tests::eventually::eventually;
use rollcall_tests::http::Http;
use rollcall_tests::paths;
use rollcall_tests::process::{COMPANION, Process};
use serde_json::Value;

use crate::{REGION, registry};

/// The shortest lease, so that a test sees it end.
const LEASE: u64 = 5;
/// A lease, the keeper's start, a look at the evidence and two sweeps, on a busy machine.
const GONE: Duration = Duration::from_secs(30);

fn brief(id: &str) -> Value {
    let mut body = agent(id, "museum:stay:v1");
    body["lease_seconds"] = LEASE.into();
    body
}

async fn epoch(cell: &Http, id: &str) -> String {
    cell.register(&brief(id)).await.unwrap()["epoch"].as_str().unwrap().to_owned()
}

async fn ids(cell: &Http) -> Result<Vec<String>, String> {
    agent_ids(cell, "/v1/agents?namespace=museum").await
}

/// B01: once a fifth of a fleet had died for good, a guard on the rate of renewals stayed on for ever and the dead
/// were never removed.
#[tokio::test]
async fn b01_a_fifth_that_is_dead_for_good_goes_by_evidence_and_nobody_else() {
    let dev = registry(&[]);
    let cell = dev.cell(REGION);
    let mut living = Vec::new();
    for n in 0..10 {
        let id = format!("museum/fleet/{n}");
        let epoch = epoch(&cell, &id).await;
        if n >= 2 {
            living.push((id, epoch));
        }
    }
    let started = Instant::now();
    loop {
        for (id, epoch) in &living {
            let answer = cell.renew(id, epoch).await.unwrap();
            assert_eq!(answer.status, 200, "{id} keeps its lease and its epoch");
        }
        let left = ids(&cell).await.unwrap();
        if left.len() == living.len() {
            assert!(living.iter().all(|(id, _)| left.contains(id)), "{left:?}");
            break;
        }
        assert!(started.elapsed() < GONE, "the dead are still there: {left:?}");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert!(started.elapsed() >= Duration::from_secs(LEASE), "nobody goes before the lease is over");
}

/// B21: records were written without any lease and lived for ever after their processes' exit.
#[tokio::test]
async fn b21_every_record_has_a_deadline_and_none_outlives_its_process() {
    let dev = registry(&[]);
    let cell = dev.cell(REGION);
    for n in 0..6 {
        let id = format!("museum/mayfly/{n}");
        epoch(&cell, &id).await;
        let lease = eventually("the keeper knows it", GONE, || async {
            cell.get(&format!("/v1/registrations/{id}/lease")).await
        })
        .await;
        assert!(lease["lease_expires_at"].is_string(), "{lease}");
    }
    eventually("all are gone", GONE, || async {
        let left = ids(&cell).await?;
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
}

/// B17, B19: a node that had lapsed rejoined without its services, or its registering anew returned early and it never
/// came back.
#[tokio::test]
async fn b17_b19_an_agent_that_slept_past_its_lease_is_back_whole_under_a_higher_epoch() {
    let dev = registry(&[]);
    let cell = dev.cell(REGION);
    let folder = tempfile::tempdir().unwrap();
    let url = dev.url(REGION);
    let id = "museum/sleeper/1";
    let lease = LEASE.to_string();
    let arguments = [
        "run",
        "--url",
        &url,
        "--id",
        id,
        "--endpoint",
        "http://127.0.0.1:9/",
        "--lease",
        &lease,
        "--capability",
        "museum:wake:v1",
        "--metadata",
        "bed=soft",
        "--",
    ];
    let arguments = arguments.iter().chain(&COMPANION).map(|&word| word.to_owned()).collect();
    let sleeper = Process::start("sleeper", folder.path(), paths::rollcall(), arguments, &[]);
    let one = format!("/v1/agents/{id}");
    let before = eventually("it is registered", GONE, || async { cell.get(&one).await }).await;
    sleeper.pause();
    eventually("its lease is over", GONE, || async {
        match cell.get(&one).await {
            Ok(_) => Err("still there".to_owned()),
            Err(_) => Ok(()),
        }
    })
    .await;
    sleeper.resume();
    let after = eventually("it is back", GONE, || async { cell.get(&one).await }).await;
    let number = |agent: &Value| agent["epoch"].as_str().unwrap().parse::<u64>().unwrap();
    assert!(number(&after) > number(&before), "{} after {}", after["epoch"], before["epoch"]);
    for member in ["endpoints", "capabilities", "metadata", "kind"] {
        assert_eq!(after[member], before[member], "{member}");
    }
    assert_eq!(agent_ids(&cell, "/v1/agents?capability=museum:wake:v1").await.unwrap(), [id]);
}

/// B93: after a restart of the registry an expired entry still counted as alive, or flipped back to it.
#[tokio::test]
async fn b93_a_restart_just_before_a_lease_ends_delays_its_end_by_one_lease_and_never_undoes_it() {
    let folder = tempfile::tempdir().unwrap();
    let data = ["--data-dir", folder.path().to_str().unwrap()];
    let dev = registry(&data);
    epoch(&dev.cell(REGION), "museum/mortal/1").await;
    tokio::time::sleep(Duration::from_secs(LEASE - 1)).await;
    assert_eq!(dev.stop(), Some(0));
    let dev = registry(&data);
    let restarted = Instant::now();
    let cell = dev.cell(REGION);
    eventually("it is gone", GONE, || async {
        let left = ids(&cell).await?;
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
    assert!(
        restarted.elapsed() + Duration::from_secs(1) >= Duration::from_secs(LEASE),
        "a full lease of grace"
    );
    for _ in 0..20 {
        assert_eq!(ids(&cell).await.unwrap(), Vec::<String>::new(), "what is gone stays gone");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
