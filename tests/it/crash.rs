//! One of an agent's three replicas is killed, in both modes of an id: each its own entry, or one entry for all.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rollcall_client::model::ejection::Called;
use rollcall_client::model::{Query, Region};
use rollcall_client::{Registry, RegistryOptions};
use rollcall_tests::dev::Dev;
use rollcall_tests::eventually::eventually;
use rollcall_tests::http::Http;
use rollcall_tests::process::Process;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A lease of five seconds, a sweep, and a busy machine.
const SOON: Duration = Duration::from_secs(40);
/// Tries of one caller that meet the killed one: three in a row leave it out, later ones are tries to bring it back.
const TRIES_LOST_MOST: u32 = 8;

/// A process, and where it listens.
struct Replica {
    process: Process,
    address: SocketAddr,
}

impl Replica {
    async fn start(folder: &Path, n: usize, url: &str, scope: &str, endpoint: &str) -> Self {
        let (name, file) = (format!("replica{n}"), folder.join(format!("replica{n}.address")));
        let id = "ops/biller";
        let arguments = [url, id, scope, endpoint, file.to_str().unwrap()].map(str::to_owned).to_vec();
        let program = env!("CARGO_BIN_EXE_replica").into();
        let process = Process::start(&name, folder, program, arguments, &[]);
        let address = eventually(&format!("{name} is registered"), SOON, || async {
            std::fs::read_to_string(&file).map_err(|error| error.to_string())
        })
        .await;
        Self { process, address: address.parse().unwrap() }
    }
}

/// What became of the tries of a caller: who answered how often, and who did not.
#[derive(Default)]
struct Tries {
    answered: BTreeMap<String, u32>,
    lost: BTreeMap<String, u32>,
}

/// A caller that calls all the time, each time beginning with another candidate; who does not answer is told to the
/// SDK, and the next candidate asked. It ends with a sentence when nobody is left to be asked.
fn call_on(registry: Registry) -> (Arc<Mutex<Tries>>, JoinHandle<String>) {
    let tries = Arc::new(Mutex::new(Tries::default()));
    let seen = Arc::clone(&tries);
    let calling = tokio::spawn(async move {
        for turn in 0_usize.. {
            if let Err(why) = call(&registry, turn, &seen).await {
                return format!("call {turn}: {why}");
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        String::new()
    });
    (tries, calling)
}

async fn call(registry: &Registry, turn: usize, tries: &Mutex<Tries>) -> Result<(), String> {
    let mut candidates = registry.resolve(&biller()).candidates;
    let count = candidates.len();
    candidates.rotate_left(turn % count.max(1));
    for candidate in &candidates {
        let url = candidate.registration.declared.endpoints[0].url();
        let address: SocketAddr = url.split('/').nth(2).unwrap().parse().unwrap();
        let outcome = ask(address).await;
        let called = if outcome.is_some() { Called::Succeeded } else { Called::Failed };
        registry.report(&candidate.region, &candidate.registration, called);
        let mut tries = tries.lock().unwrap();
        match outcome {
            Some(who) => {
                *tries.answered.entry(who).or_default() += 1;
                return Ok(());
            }
            None => *tries.lost.entry(address.to_string()).or_default() += 1,
        }
    }
    Err(format!("none of {count} answered"))
}

/// Who answers at an address.
async fn ask(address: SocketAddr) -> Option<String> {
    let mut answer = String::new();
    TcpStream::connect(address).await.ok()?.read_to_string(&mut answer).await.ok()?;
    (!answer.is_empty()).then_some(answer)
}

fn biller() -> Query {
    Query { name: Some("biller".into()), ..Query::default() }
}

async fn caller(url: &str, entries: usize) -> Registry {
    let own = Region::parse("us-east").unwrap();
    let registry = Registry::connect(RegistryOptions::new([url], own)).await.unwrap();
    let seen = registry.until(|_| registry.resolve(&biller()).candidates.len() == entries);
    tokio::time::timeout(SOON, seen).await.expect("the caller sees all that is registered");
    registry
}

/// Waits until each of these has answered once more; fails when a call failed meanwhile.
async fn all_answer(replicas: &[&Replica], tries: &Mutex<Tries>, calling: &JoinHandle<String>) {
    let before = tries.lock().unwrap().answered.clone();
    eventually("each of those that live answers", SOON, || async {
        assert!(!calling.is_finished(), "a call failed");
        let now = tries.lock().unwrap().answered.clone();
        let has_answered = |replica: &&Replica| {
            let who = replica.address.to_string();
            now.get(&who) > before.get(&who)
        };
        if replicas.iter().all(has_answered) { Ok(()) } else { Err(format!("{before:?}, then {now:?}")) }
    })
    .await;
}

async fn removal(cell: &Http, id: &str) -> Result<Value, String> {
    let removals = cell.get("/v1/removals").await?["removals"].clone();
    let found = removals.as_array().into_iter().flatten().find(|removal| removal["id"] == id).cloned();
    found.ok_or_else(|| format!("not among {removals}"))
}

#[tokio::test]
async fn scn_10_of_three_instances_the_killed_one_goes_with_its_reason_and_no_call_fails() {
    let (dev, folder) = (Dev::start(&["--agents", "0"]), tempfile::tempdir().unwrap());
    let (cell, url) = (dev.cell("us-east"), dev.url("us-east"));
    let mut replicas = Vec::new();
    for n in 0..3 {
        replicas.push(Replica::start(folder.path(), n, &url, "instance", "-").await);
    }
    let registry = caller(&url, 3).await;
    let (tries, calling) = call_on(registry.clone());
    all_answer(&replicas.iter().collect::<Vec<_>>(), &tries, &calling).await;

    let mut killed = replicas.remove(1);
    let endpoint = format!("http://{}/", killed.address);
    let agents = cell.get("/v1/agents?name=biller").await.unwrap()["agents"].clone();
    let (gone, stay): (Vec<_>, Vec<_>) =
        agents.as_array().unwrap().iter().partition(|agent| agent["endpoints"][0]["url"] == endpoint);
    assert_eq!((gone.len(), stay.len()), (1, 2), "{agents}");
    killed.process.kill();
    all_answer(&replicas.iter().collect::<Vec<_>>(), &tries, &calling).await;
    let id = gone[0]["id"].as_str().unwrap();
    let removal = eventually("the killed one is removed", SOON, || removal(&cell, id)).await;
    assert_eq!(
        (&removal["reason"], &removal["actor"], &removal["epoch"]),
        (&json!("expired"), &json!("keeper"), &gone[0]["epoch"])
    );
    let two = registry.until(|_| registry.resolve(&biller()).candidates.len() == 2);
    tokio::time::timeout(SOON, two).await.expect("callers hear that it is gone");
    all_answer(&replicas.iter().collect::<Vec<_>>(), &tries, &calling).await;
    let left = cell.get("/v1/agents?name=biller").await.unwrap()["agents"].clone();
    let told = |agent: &Value| (agent["id"].clone(), agent["epoch"].clone());
    assert_eq!(
        left.as_array().unwrap().iter().map(told).collect::<Vec<_>>(),
        stay.into_iter().map(told).collect::<Vec<_>>()
    );
    calling.abort();
    let lost = std::mem::take(&mut tries.lock().unwrap().lost);
    assert_eq!(
        lost.keys().collect::<Vec<_>>(),
        [&killed.address.to_string()],
        "who lives has answered each time"
    );
    assert!(lost.values().all(|tries| *tries <= TRIES_LOST_MOST), "the SDK left it out: {lost:?}");
}

/// One address before all replicas, as a cluster puts it: whoever connects gets one that takes the connection.
async fn front(addresses: Arc<Mutex<Vec<SocketAddr>>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let own = listener.local_addr().unwrap();
    tokio::spawn(async move {
        for turn in 0_usize.. {
            let mut caller = listener.accept().await.unwrap().0;
            let mut behind = addresses.lock().unwrap().clone();
            let count = behind.len();
            behind.rotate_left(turn % count.max(1));
            tokio::spawn(async move {
                for address in behind {
                    if let Some(answer) = ask(address).await {
                        return caller.write_all(answer.as_bytes()).await;
                    }
                }
                Ok(())
            });
        }
    });
    own
}

#[tokio::test]
async fn scn_10_of_three_holders_of_one_entry_a_killed_one_is_forgotten_and_the_entry_goes_with_the_last() {
    const ENTRY: &str = "ops/biller/service";
    let (dev, folder) = (Dev::start(&["--agents", "0"]), tempfile::tempdir().unwrap());
    let (cell, url) = (dev.cell("us-east"), dev.url("us-east"));
    let addresses = Arc::new(Mutex::new(Vec::new()));
    let endpoint = format!("http://{}/", front(Arc::clone(&addresses)).await);
    let mut replicas = Vec::new();
    for n in 0..3 {
        let replica = Replica::start(folder.path(), n, &url, "service", &endpoint).await;
        addresses.lock().unwrap().push(replica.address);
        replicas.push(replica);
    }
    let registry = caller(&url, 1).await;
    let (tries, calling) = call_on(registry.clone());
    all_answer(&replicas.iter().collect::<Vec<_>>(), &tries, &calling).await;
    let entry = cell.get(&format!("/v1/agents/{ENTRY}")).await.unwrap();
    let lease = format!("/v1/registrations/{ENTRY}/lease");
    let holders = async || {
        let lease = cell.get(&lease).await?;
        Ok::<_, String>(lease["holders"].as_array().map_or(0, Vec::len))
    };
    assert_eq!(holders().await, Ok(3));

    while replicas.len() > 1 {
        replicas.remove(0).process.kill();
        let left = replicas.len();
        eventually(&format!("{left} hold it"), SOON, || async {
            assert!(!calling.is_finished(), "a call failed while {left} of three were left");
            match holders().await? {
                holding if holding == left => Ok(()),
                holding => Err(format!("{holding} hold it")),
            }
        })
        .await;
        all_answer(&replicas.iter().collect::<Vec<_>>(), &tries, &calling).await;
        let now = cell.get(&format!("/v1/agents/{ENTRY}")).await.unwrap();
        assert_eq!(
            (&now["epoch"], &now["revision"]),
            (&entry["epoch"], &entry["revision"]),
            "nothing was written"
        );
        removal(&cell, ENTRY).await.expect_err("the entry lives as long as one renews");
    }
    calling.abort();
    assert_eq!(tries.lock().unwrap().lost, BTreeMap::new(), "no try was lost");

    replicas.remove(0).process.kill();
    let removal = eventually("the entry goes with its last holder", SOON, || removal(&cell, ENTRY)).await;
    assert_eq!(
        (&removal["reason"], &removal["actor"], &removal["epoch"]),
        (&json!("expired"), &json!("keeper"), &entry["epoch"])
    );
}
