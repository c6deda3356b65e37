//! A new version of an agent takes over from the old one while callers call.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rollcall_client::model::declaration::RawEndpoint;
use rollcall_client::model::{Declaration, Lifecycle, Query, Region};
use rollcall_client::{Closed, Registrant, RegistrantOptions, Registry, RegistryOptions};
use rollcall_tests::dev::Dev;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

const SOON: Duration = Duration::from_secs(20);

/// One process of the agent: answers with its version, and refuses connections once it has ended.
struct Instance {
    registrant: Registrant,
    ends: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl Instance {
    async fn start(url: &str, version: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}/", listener.local_addr().unwrap());
        // It serves before anybody can find it.
        let (ends, mut ended) = oneshot::channel();
        let serving = tokio::spawn(async move {
            loop {
                tokio::select! {
                    // Who has connected is answered first: work in progress is finished.
                    biased;
                    accepted = listener.accept() => {
                        let _ = accepted.unwrap().0.write_all(version.as_bytes()).await;
                    }
                    _ = &mut ended => return,
                }
            }
        });
        let declaration = Declaration {
            id: "ops/biller".into(),
            endpoints: vec![RawEndpoint { url: endpoint, protocol: None }],
            version: Some(version.into()),
            ..Declaration::default()
        };
        let registrant = Registrant::start(RegistrantOptions::new([url], declaration)).unwrap();
        tokio::time::timeout(SOON, registrant.registered()).await.expect("it is registered");
        Self { registrant, ends, serving }
    }

    /// As a process does on SIGTERM: says that it drains, works on until callers have heard, deregisters, and ends.
    async fn drain(self, callers: &Registry) {
        let id = self.registrant.status().id;
        self.registrant.set_lifecycle(Lifecycle::Draining);
        let heard = callers.until(|_| {
            let found = callers.resolve(&biller());
            found.candidates.iter().all(|candidate| candidate.registration.declared.id != id)
        });
        tokio::time::timeout(SOON, heard).await.expect("callers hear that it drains");
        assert_eq!(self.registrant.close(Duration::from_secs(5)).await, Closed::Deregistered);
        self.ends.send(()).unwrap();
        self.serving.await.unwrap();
    }
}

fn biller() -> Query {
    Query { name: Some("biller".into()), ..Query::default() }
}

/// Calls like any caller: resolves from memory and asks one of the candidates, the next one each time.
async fn call(registry: &Registry, turn: usize) -> Result<String, String> {
    let candidates = registry.resolve(&biller()).candidates;
    let candidate = candidates.get(turn % candidates.len().max(1)).ok_or("no candidate")?;
    let url = candidate.registration.declared.endpoints[0].url();
    let address: SocketAddr = url.split('/').nth(2).unwrap().parse().unwrap();
    let asked = async {
        let mut answer = String::new();
        TcpStream::connect(address).await?.read_to_string(&mut answer).await.map(|_| answer)
    };
    let answer = tokio::time::timeout(Duration::from_secs(5), asked).await.map_err(|_| "no answer")?;
    let answer = answer.map_err(|error| format!("{}: {error}", candidate.registration.declared.id))?;
    if answer.is_empty() { Err("it ended in the middle".into()) } else { Ok(answer) }
}

#[tokio::test]
async fn hlt_07_scn_11_a_new_version_takes_over_with_no_failed_call_and_no_word_to_callers() {
    let dev = Dev::start(&["--agents", "0"]);
    let url = dev.url("us-east");
    let mut old = Vec::new();
    for _ in 0..3 {
        old.push(Instance::start(&url, "1.0.0").await);
    }
    let own = Region::parse("us-east").unwrap();
    let registry = Registry::connect(RegistryOptions::new([url.clone()], own)).await.unwrap();
    let ready = registry.until(|_| registry.resolve(&biller()).candidates.len() == 3);
    tokio::time::timeout(SOON, ready).await.expect("the caller sees all three");

    let calls = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let callers: Vec<JoinHandle<Result<(), String>>> = (0..4)
        .map(|caller| {
            let (registry, calls) = (registry.clone(), Arc::clone(&calls));
            tokio::spawn(async move {
                for turn in caller.. {
                    let is_new = call(&registry, turn).await? == "2.0.0";
                    calls[usize::from(is_new)].fetch_add(1, Ordering::Relaxed);
                    tokio::task::yield_now().await;
                }
                Ok(())
            })
        })
        .collect();
    let answered = async |version: usize, least: u64| {
        let enough = async {
            while calls[version].load(Ordering::Relaxed) < least {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(SOON, enough)
            .await
            .unwrap_or_else(|_| panic!("version {version} got too few calls"));
    };
    answered(0, 50).await;

    // One by one: a new one comes up, then an old one goes.
    let mut new = Vec::new();
    for instance in old {
        new.push(Instance::start(&url, "2.0.0").await);
        let before = calls[1].load(Ordering::Relaxed);
        answered(1, before + 50).await;
        instance.drain(&registry).await;
    }
    let before = calls[1].load(Ordering::Relaxed);
    answered(1, before + 50).await;
    for caller in callers {
        assert!(!caller.is_finished(), "a call failed: {:?}", caller.await);
        caller.abort();
    }
    let found = registry.resolve(&biller()).candidates;
    let versions: Vec<_> = found.iter().map(|found| found.registration.declared.version.as_deref()).collect();
    assert_eq!(versions, [Some("2.0.0"); 3]);
}
