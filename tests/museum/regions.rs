//! What a region does while others are away, and what it must not do to them.

use std::time::Duration;

use rollcall_tests::agents::agent;
use rollcall_tests::convergence::agent_ids;
use rollcall_tests::eventually::eventually;
use rollcall_tests::http::Http;
use rollcall_tests::regions::{NAMES, Regions};
use serde_json::Value;

/// How long a busy machine may need for what a quiet one does at once.
const SOON: Duration = Duration::from_secs(60);

async fn fleet(cell: &Http, namespace: &str, count: usize) {
    for n in 0..count {
        let mut body = agent(&format!("{namespace}/agent/{n}"), "museum:be:v1");
        body["lease_seconds"] = 300.into();
        cell.register(&body).await.unwrap();
    }
}

/// What a cell says of a region; nothing where it does not know it.
async fn told(cell: &Http, region: &str) -> Result<Value, String> {
    let regions = cell.get("/v1/regions").await?;
    let all = regions["regions"].as_array().into_iter().flatten();
    Ok(all.into_iter().find(|told| told["region"] == region).cloned().unwrap_or_default())
}

async fn sees(cell: &Http, region: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    eventually(&format!("{}: {region}: {what}", cell.base()), SOON, || async {
        let told = told(cell, region).await?;
        if holds(&told) { Ok(told) } else { Err(told.to_string()) }
    })
    .await
}

/// B45: a source that held its election answered with an empty list, and 127,739 entries were deleted at the target.
#[tokio::test]
async fn b45_a_view_never_shrinks_while_its_origin_is_killed_again_and_again() {
    let regions = Regions::up(Some("kafka,us-east,eu-west"));
    let (us, eu) = (regions.cell("us-east"), regions.cell("eu-west"));
    fleet(&us, "museum", 200).await;
    sees(&eu, "us-east", "200 instances", |told| told["count"] == 200).await;
    for round in 1..=3 {
        for name in ["us-east/etcd", "us-east/cell"] {
            regions.control("kill", name).unwrap();
            regions.control("start", name).unwrap();
        }
        // Something new is the sign that what came after the round has arrived.
        let new = format!("museum/new/{round}");
        eventually("us-east takes a write again", SOON, || async {
            us.register(&agent(&new, "museum:be:v1")).await.map(drop)
        })
        .await;
        eventually("it arrives, and at no moment is one of the others missing", SOON, || async {
            let told = told(&eu, "us-east").await?;
            let count = told["count"].as_u64().unwrap_or(0);
            assert!(count >= 200, "round {round}: the view shrank: {told}");
            let all = agent_ids(&eu, "/v1/agents?region=us-east&namespace=museum&limit=500").await?;
            if all.contains(&new) { Ok(()) } else { Err(told.to_string()) }
        })
        .await;
    }
}

/// B47, I35: the clean-up of one region removed what belonged to another; and its store filled with it.
#[tokio::test]
async fn b47_i35_a_keeper_touches_no_other_regions_entries_and_its_store_holds_none() {
    let regions = Regions::up(Some("kafka,us-east,eu-west"));
    let (us, eu) = (regions.cell("us-east"), regions.cell("eu-west"));
    for n in 0..20 {
        let mut body = agent(&format!("museum/short/{n}"), "museum:be:v1");
        body["lease_seconds"] = 5.into();
        us.register(&body).await.unwrap();
    }
    fleet(&eu, "museum", 3).await;
    let known = sees(&eu, "us-east", "20 instances", |told| told["count"] == 20).await;
    for role in ["replicator", "cell", "etcd"] {
        regions.control("kill", &format!("us-east/{role}")).unwrap();
    }
    // Its own clean-up works meanwhile: one that is not renewed goes.
    let mut body = agent("museum/mayfly/1", "museum:be:v1");
    body["lease_seconds"] = 5.into();
    eu.register(&body).await.unwrap();
    let aged =
        sees(&eu, "us-east", "older than five leases", |told| told["age_ms"].as_u64() > Some(25_000)).await;
    sees(&eu, "eu-west", "the mayfly is gone", |told| told["count"] == 3).await;
    assert_eq!((&aged["count"], &aged["digest"]), (&known["count"], &known["digest"]));
    let etcd = regions.etcd("eu-west");
    let all = rollcall_tests::etcd::ctl(&etcd, &["get", "--prefix", "", "--keys-only"]).unwrap();
    let foreign: Vec<&str> =
        all.lines().filter(|key| !key.is_empty() && !key.starts_with("rollcall/v1/eu-west/")).collect();
    assert_eq!(foreign, [""; 0], "I35: the store of eu-west holds only its own");
    assert!(!all.contains("museum/short"), "I35: {all}");
    assert!(all.contains("rollcall/v1/eu-west/reg/museum/agent/0"), "the walk saw what is there: {all}");
}

/// B51, B55: a registry refused to serve its own region because another was down, and two could not begin without each
/// other. MRG-04, SCN-03: nothing on the way of a call asks anybody outside of the region.
#[tokio::test]
async fn b51_b55_mrg_04_a_region_that_starts_alone_serves_its_own_at_once() {
    let regions = Regions::up(Some("eu-west/etcd,eu-west/cell"));
    let eu = regions.cell("eu-west");
    fleet(&eu, "museum", 5).await;
    let epoch = eu.get("/v1/agents/museum/agent/0").await.unwrap()["epoch"].as_str().unwrap().to_owned();
    assert_eq!(eu.renew("museum/agent/0", &epoch).await.unwrap().status, 200);
    let found = eu.get("/v1/resolve?capability=museum:be:v1&namespace=museum").await.unwrap();
    assert_eq!(found["candidates"].as_array().map(Vec::len), Some(5), "{found}");
    assert_eq!(eu.deregister("museum/agent/0", &epoch).await.unwrap().status, 204);
    let own = told(&eu, "eu-west").await.unwrap();
    assert_eq!(own["state"], "current", "{own}");
    let other = told(&eu, "us-east").await.unwrap();
    assert_eq!(other["state"], "not_loaded", "never called empty: {other}");
}

/// B57, B49, I38: taking one region away dropped the others, or left its entries behind, or ended every stream.
#[tokio::test]
async fn b49_b57_i38_a_region_that_is_taken_out_goes_whole_and_no_other_with_it() {
    let regions = Regions::up(None);
    for name in NAMES {
        fleet(&regions.cell(name), "museum", 4).await;
    }
    let eu = regions.cell("eu-west");
    for name in NAMES {
        sees(&eu, name, "4 instances", |told| told["count"] == 4 && told["state"] == "current").await;
    }
    let before = told(&eu, "us-east").await.unwrap();
    for role in ["replicator", "cell"] {
        take_out(&regions, role);
        let name = format!("eu-west/{role}");
        regions.control("stop", &name).unwrap();
        regions.control("start", &name).unwrap();
        regions.control("wait", &name).unwrap();
    }
    // A connection to the process that ended is of no use.
    let eu = regions.cell("eu-west");
    let answer = eu.send("GET", "/v1/agents?region=ap-south", &[], None).await.unwrap();
    assert_eq!(answer.status, 400, "an unknown region: {}", answer.json());
    assert!(told(&eu, "ap-south").await.unwrap().is_null(), "it is not spoken of");
    let all = agent_ids(&eu, "/v1/agents?region=all&namespace=museum").await.unwrap();
    assert_eq!(all.len(), 8, "the own region's and us-east's: {all:?}");
    let after = sees(&eu, "us-east", "current", |told| told["state"] == "current").await;
    assert_eq!((&after["count"], &after["digest"]), (&before["count"], &before["digest"]));
    // Nobody else has taken it out.
    let us = regions.cell("us-east");
    for name in NAMES {
        sees(&us, name, "4 instances, current", |told| told["count"] == 4 && told["state"] == "current")
            .await;
    }
}

/// Removes the section about ap-south from the settings of one of eu-west's processes.
fn take_out(regions: &Regions, role: &str) {
    let file = regions.run_dir().join(format!("eu-west/{role}/{role}.toml"));
    let text = std::fs::read_to_string(&file).unwrap();
    let sections = text.split("\n[").filter(|section| !section.contains("region = \"ap-south\""));
    let kept: Vec<&str> = sections.collect();
    let kept = kept.join("\n[");
    assert!(kept.len() < text.len() && kept.contains("us-east"), "{text}");
    std::fs::write(&file, kept).unwrap();
}
