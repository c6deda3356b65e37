//! What is left in the store.

use std::time::Duration;

use rollcall_tests::agents::agent;
use rollcall_tests::eventually::eventually;
use rollcall_tests::stage::{REGION, Shape, Stage};

/// B81: leases and keys of the store leaked, one for each write, until it was full.
#[tokio::test]
async fn b81_the_store_holds_a_key_for_each_living_instance_and_no_lease_for_any() {
    let stage = Stage::up(&Shape { members: 1, cells: 1, ..Shape::default() }).await;
    let cell = stage.http(0);
    // A process is ready when it can be asked; its first write may still have to wait for the store.
    eventually("the store is reached", Duration::from_secs(30), || async {
        cell.register(&agent("museum/leak/0", "museum:be:v1")).await.map(|_| ())
    })
    .await;
    let mut registrations = 0;
    for round in 0..3 {
        for n in 0..30 {
            let id = format!("museum/leak/{n}");
            let registered = cell.register(&agent(&id, "museum:be:v1")).await.unwrap();
            let epoch = registered["epoch"].as_str().unwrap();
            registrations += 1;
            let _ = cell.renew(&id, epoch).await.unwrap();
            if round < 2 || n >= 7 {
                assert_eq!(cell.deregister(&id, epoch).await.unwrap().status, 204);
            }
        }
    }
    assert_eq!(registrations, 90);
    let keys = |prefix: &str| {
        let prefix = format!("rollcall/v1/{REGION}/{prefix}");
        let found = stage.etcd.ctl(0, &["get", "--prefix", &prefix, "--keys-only"]).unwrap();
        found.lines().filter(|line| !line.is_empty()).count()
    };
    assert_eq!((keys("reg/"), keys("own/")), (7, 0), "one record for each that lives");
    // The incarnation, the beat, the last removal and the keeper's office.
    assert_eq!(keys(""), 7 + 4);
    let leases = stage.etcd.ctl(0, &["lease", "list"]).unwrap();
    assert!(leases.contains("found 1 leases"), "the keeper's alone: {leases}");
}
