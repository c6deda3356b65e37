//! Three regions as they are deployed: etcd, cell, replicator and Kafka, each a process of its own.

use std::time::Duration;

use rollcall_tests::agents::agent;
use rollcall_tests::convergence::equal_digests;
use rollcall_tests::eventually::eventually;
use rollcall_tests::http::Http;
use rollcall_tests::regions::{NAMES, Regions};

const SOON: Duration = Duration::from_secs(20);

fn cells(regions: &Regions) -> Vec<Http> {
    NAMES.iter().map(|name| regions.cell(name)).collect()
}

#[tokio::test]
async fn a_registration_in_one_region_is_found_from_another_and_goes_with_its_owner() {
    let regions = Regions::shared();
    let (us, eu) = (regions.cell("us-east"), regions.cell("eu-west"));
    let registered = us.register(&agent("real/mailer/1", "email:send:v1")).await.unwrap();
    let found = eventually("eu-west finds it by capability", SOON, || async {
        let list = eu.get("/v1/agents?capability=email:send:v1&region=us-east&namespace=real").await?;
        list["agents"].as_array().and_then(|agents| agents.first().cloned()).ok_or_else(|| list.to_string())
    })
    .await;
    assert_eq!(found["epoch"], registered["epoch"]);
    assert_eq!(found["region"], "us-east");
    equal_digests(&cells(&regions), SOON).await;

    let epoch = registered["epoch"].as_str().unwrap();
    assert_eq!(us.deregister("real/mailer/1", epoch).await.unwrap().status, 204);
    eventually("it is gone from eu-west", SOON, || async {
        match eu.send("GET", "/v1/agents/real/mailer/1?region=us-east", &[], None).await?.status {
            404 => Ok(()),
            other => Err(other.to_string()),
        }
    })
    .await;
    let removals = eu.get("/v1/removals?id=real/mailer/1").await.unwrap();
    assert_eq!(removals["removals"][0]["reason"], "deregistered", "{removals}");
}

#[tokio::test]
async fn a_stale_epoch_never_wins() {
    let regions = Regions::shared();
    let us = regions.cell("us-east");
    let old =
        us.register(&agent("real/fenced/1", "a:b:v1")).await.unwrap()["epoch"].as_str().unwrap().to_owned();
    let new =
        us.register(&agent("real/fenced/1", "a:b:v1")).await.unwrap()["epoch"].as_str().unwrap().to_owned();
    assert!(new.parse::<u64>().unwrap() > old.parse::<u64>().unwrap());
    for answer in
        [us.renew("real/fenced/1", &old).await.unwrap(), us.deregister("real/fenced/1", &old).await.unwrap()]
    {
        assert_eq!(answer.status, 412);
        assert_eq!(answer.json()["current"]["epoch"], new.as_str());
    }
    assert_eq!(us.renew("real/fenced/1", &new).await.unwrap().status, 200);
    let found = us.get("/v1/agents/real/fenced/1").await.unwrap();
    assert_eq!(found["epoch"], new.as_str());
}

#[tokio::test]
async fn a_watch_from_another_region_tells_put_and_removal_in_order() {
    let regions = Regions::shared();
    let (us, eu) = (regions.cell("us-east"), regions.cell("eu-west"));
    let url = format!("{}/v1/watch?region=us-east&namespace=watched", eu.base());
    let mut stream = reqwest::get(url).await.unwrap();
    let registered = us.register(&agent("watched/one/1", "a:b:v1")).await.unwrap();
    us.deregister("watched/one/1", registered["epoch"].as_str().unwrap()).await.unwrap();
    let mut text = String::new();
    let told = async {
        while let Some(chunk) = stream.chunk().await.unwrap() {
            text.push_str(&String::from_utf8_lossy(&chunk));
            let put = text.find("\"put\":");
            let removal = text.find("\"reason\":\"deregistered\"");
            if let (Some(put), Some(removal)) = (put, removal) {
                return put < removal;
            }
        }
        false
    };
    let in_order = tokio::time::timeout(SOON, told).await.expect("both within the deadline");
    assert!(in_order);
}
