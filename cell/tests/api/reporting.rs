//! What reported load does: a lifecycle derived from it, and few writes (HLT-02, HLT-06).

use serde_json::{Value, json};

use super::cell::{Cell, plain};

const LEASE: &str = "/v1/registrations/ops/mail/1/lease";
const AGENT: &str = "/v1/agents/ops/mail/1";

async fn report(cell: &Cell, epoch: &str, body: &Value) -> Value {
    assert_eq!(cell.fenced("PUT", LEASE, epoch, body).await.status, 200);
    cell.get(AGENT).await.json()
}

fn load(queue_depth: u32, in_flight: u32, error_rate: f64) -> Value {
    json!({"load": {"queue_depth": queue_depth, "in_flight": in_flight, "error_rate": error_rate}})
}

#[tokio::test]
async fn a_healthy_instance_is_degraded_by_its_load_and_recovers_with_it() {
    let cell = Cell::start().await;
    let epoch = cell.register_plain("ops/mail/1").await;
    let filtered = "/v1/agents?lifecycle=degraded";
    assert_eq!(report(&cell, &epoch, &load(0, 1, 0.2)).await["lifecycle"], "healthy");
    let agent = report(&cell, &epoch, &load(200, 1, 0.2)).await;
    assert_eq!((&agent["lifecycle"], &agent["load"]["queue_depth"]), (&json!("degraded"), &json!(200)));
    assert_eq!(cell.get(filtered).await.json()["agents"].as_array().unwrap().len(), 1);
    // Under the limit and above the way back: as it was.
    assert_eq!(report(&cell, &epoch, &load(60, 1, 0.2)).await["lifecycle"], "degraded");
    assert_eq!(report(&cell, &epoch, &load(5, 1, 0.0)).await["lifecycle"], "healthy");
    assert_eq!(cell.get(filtered).await.json()["agents"], json!([]));
}

#[tokio::test]
async fn load_that_swings_is_not_written_and_an_owners_word_is_never_delayed() {
    let cell = Cell::start().await;
    let epoch = cell.register_plain("ops/mail/1").await;
    let first = report(&cell, &epoch, &load(10, 10, 0.1)).await["revision"].clone();
    for n in 0..20 {
        let agent = report(&cell, &epoch, &load(8 + n % 4, 12 - n % 4, 0.12)).await;
        assert_eq!(agent["revision"], first, "within the band of what readers see");
    }
    // However it moves, only so often in a while.
    let mut revisions = std::collections::BTreeSet::new();
    for n in 0..30 {
        let agent = report(&cell, &epoch, &load(if n % 2 == 0 { 400 } else { 0 }, 1, 0.0)).await;
        revisions.insert(agent["revision"].as_str().unwrap().to_owned());
    }
    assert!(revisions.len() <= 5, "{revisions:?}");
    for word in ["draining", "healthy", "degraded", "healthy"] {
        assert_eq!(report(&cell, &epoch, &json!({"lifecycle": word})).await["lifecycle"], word);
    }
}

#[tokio::test]
async fn full_is_load_and_not_lifecycle() {
    let cell = Cell::start().await;
    let mut body = plain("ops/mail/1");
    body["max_concurrency"] = json!(2);
    let epoch = cell.register(&body).await;
    let agent = report(&cell, &epoch, &load(0, 2, 0.0)).await;
    assert_eq!((&agent["lifecycle"], &agent["load"]["in_flight"]), (&json!("healthy"), &json!(2)));
    assert_eq!(report(&cell, &epoch, &load(0, 0, 0.0)).await["load"]["in_flight"], 0);
}

#[tokio::test]
async fn what_the_owner_calls_degraded_is_not_healed_by_its_load() {
    let cell = Cell::start().await;
    let epoch = cell.register_plain("ops/mail/1").await;
    let said = json!({"lifecycle": "degraded"});
    assert_eq!(report(&cell, &epoch, &said).await["lifecycle"], "degraded");
    assert_eq!(report(&cell, &epoch, &load(0, 0, 0.0)).await["lifecycle"], "degraded");
    assert_eq!(report(&cell, &epoch, &load(500, 0, 1.0)).await["lifecycle"], "degraded");
    assert_eq!(report(&cell, &epoch, &load(0, 0, 0.0)).await["lifecycle"], "degraded");
    // And its own word overrules what its load said.
    let patch = json!({"lifecycle": "healthy"});
    let path = "/v1/registrations/ops/mail/1";
    assert_eq!(cell.fenced("PATCH", path, &epoch, &patch).await.json()["lifecycle"], "healthy");
}
