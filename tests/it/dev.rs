//! `rollcall dev`: three regions in one process.

use std::time::Duration;

use rollcall_tests::agents::agent;
use rollcall_tests::convergence::{agent_ids, equal_digests};
use rollcall_tests::dev::Dev;
use rollcall_tests::eventually::eventually;

const SOON: Duration = Duration::from_secs(10);

#[tokio::test]
async fn the_sample_fleet_is_found_from_every_region() {
    let dev = Dev::start(&[]);
    for region in ["us-east", "eu-west", "ap-south"] {
        let cell = dev.cell(region);
        eventually("twelve agents in all regions", SOON, || async {
            let ids = agent_ids(&cell, "/v1/agents?region=all").await?;
            if ids.len() == 12 { Ok(()) } else { Err(format!("{ids:?}")) }
        })
        .await;
    }
    equal_digests(&[dev.cell("us-east"), dev.cell("eu-west"), dev.cell("ap-south")], SOON).await;
    assert_eq!(dev.stop(), Some(0), "SIGTERM drains and exits 0");
}

#[tokio::test]
async fn a_registration_survives_a_restart_with_a_data_directory() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let dev = Dev::start(&["--agents", "0", "--data-dir", data]);
    let registered = dev.cell("us-east").register(&agent("ops/keeper/1", "disk:keep:v1")).await.unwrap();
    let epoch = registered["epoch"].as_str().unwrap().to_owned();
    assert_eq!(dev.stop(), Some(0));

    let dev = Dev::start(&["--agents", "0", "--data-dir", data]);
    let found = dev.cell("us-east").get("/v1/agents/ops/keeper/1").await.unwrap();
    assert_eq!(found["epoch"], epoch.as_str());
    let renewed = eventually("the keeper judges again", SOON, || async {
        let answer = dev.cell("us-east").renew("ops/keeper/1", &epoch).await?;
        if answer.status == 503 { Err("503".into()) } else { Ok(answer.status) }
    })
    .await;
    assert_eq!(renewed, 200, "the old epoch renews after a restart");
    let other = dev.cell("eu-west");
    eventually("the other region sees it", SOON, || async {
        other.get("/v1/agents/ops/keeper/1?region=us-east").await
    })
    .await;
}

#[tokio::test]
async fn a_process_that_dies_disappears_everywhere_with_its_reason() {
    let dev = Dev::start(&["--agents", "0"]);
    let mut body = agent("ops/mayfly/1", "live:short:v1");
    body["lease_seconds"] = 5.into();
    let us = dev.cell("us-east");
    us.register(&body).await.unwrap();
    let eu = dev.cell("eu-west");
    eventually("the other region sees it", SOON, || async {
        eu.get("/v1/agents/ops/mayfly/1?region=us-east").await
    })
    .await;
    eventually("it is gone in the other region", Duration::from_secs(15), || async {
        match eu.send("GET", "/v1/agents/ops/mayfly/1?region=us-east", &[], None).await?.status {
            404 => Ok(()),
            other => Err(other.to_string()),
        }
    })
    .await;
    let removals = us.get("/v1/removals?id=ops/mayfly/1").await.unwrap();
    assert_eq!(removals["removals"][0]["reason"], "expired");
    assert_eq!(removals["removals"][0]["actor"], "keeper");
}
