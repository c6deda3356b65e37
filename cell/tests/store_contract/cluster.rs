//! The store on etcds that this file starts itself, because they need flags or company: three members, or little
//! space.
//!
//! They are children and end with the test. The binary is the one that `infra/install.sh test` puts there.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rollcall_cell::config::CellConfig;
use rollcall_cell::keeper::KeeperHandle;
use rollcall_cell::store::contract::{commit, follow_until, put, within};
use rollcall_cell::store::etcd::Etcd;
use rollcall_cell::store::space::Bound;
use rollcall_cell::store::{Committed, Follow, Group, Op, Store, StoreError, keys};
use rollcall_cell::{Start, run};
use rollcall_model::Clock;
use rollcall_runtime::clock;
use rollcall_runtime::meter::Metrics;
use rollcall_runtime::tasks::Tasks;
use tempfile::TempDir;
use tokio::net::TcpListener;

use super::etcds::{free_base_port, tool};

struct Cluster {
    members: Vec<Member>,
    _folder: TempDir,
}

struct Member {
    child: Child,
    address: String,
}

impl Cluster {
    fn start(count: usize, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = free_base_port() + 400;
        let port = |n: usize| base + 10 * u16::try_from(n).unwrap();
        let peer = |n: usize| format!("http://127.0.0.1:{}", port(n) + 1);
        let all: Vec<_> = (0..count).map(|n| format!("m{n}={}", peer(n))).collect();
        let start = |n: usize| {
            let address = format!("http://127.0.0.1:{}", port(n));
            let child = Command::new(tool("etcd"))
                .args(["--name", &format!("m{n}"), "--log-level", "error"])
                .arg("--data-dir")
                .arg(folder.path().join(n.to_string()))
                .args(["--listen-client-urls", &address, "--advertise-client-urls", &address])
                .args(["--listen-peer-urls", &peer(n), "--initial-advertise-peer-urls", &peer(n)])
                .args(["--initial-cluster", &all.join(",")])
                .args(flags)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            Member { child, address }
        };
        Self { members: (0..count).map(start).collect(), _folder: folder }
    }

    /// A store that asks this member first, once it answers.
    async fn store(&self, first: usize) -> Etcd {
        let mut addresses: Vec<_> = self.members.iter().map(|member| member.address.clone()).collect();
        addresses.rotate_left(first);
        let store = Etcd::connect(&addresses, "cluster");
        within("the cluster answers", async {
            while store.get("", None).await.is_err() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
        .await;
        // Reading may have moved on from a member that was not there yet.
        Etcd::connect(&addresses, "cluster")
    }

    /// The member that leads.
    fn leader(&self) -> usize {
        let leads = |member: &Member| {
            let status = etcdctl(&member.address, &["endpoint", "status", "--write-out", "fields"]);
            let field = |name: &str| {
                let label = format!("\"{name}\" : ");
                status.lines().find_map(|line| line.strip_prefix(&label)).map(str::to_owned)
            };
            field("MemberID").is_some() && field("MemberID") == field("Leader")
        };
        self.members.iter().position(leads).unwrap()
    }

    fn kill(&mut self, n: usize) {
        self.members[n].child.kill().unwrap();
        self.members[n].child.wait().unwrap();
    }

    fn signal(&self, n: usize, signal: &str) {
        let pid = self.members[n].child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for member in &mut self.members {
            // One that has ended already cannot be killed.
            let _ = member.child.kill();
            let _ = member.child.wait();
        }
    }
}

fn etcdctl(address: &str, arguments: &[&str]) -> String {
    let done = Command::new(tool("etcdctl")).args(["--endpoints", address]).args(arguments).output().unwrap();
    assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// Commits until one is done, and gives what came before it.
async fn commit_until_done(store: &Etcd, key: &str) -> Vec<StoreError> {
    let mut errors = Vec::new();
    within("a commit is done again", async {
        loop {
            let group = Group { also: vec![put(key, "1")], ..Group::default() };
            match store.commit(group).await {
                Ok(Committed::Done { .. }) => break,
                Ok(Committed::Fenced) => panic!("fenced"),
                Err(error) => errors.push(error),
            }
        }
    })
    .await;
    errors
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_leader_costs_no_commit_that_was_answered() {
    let mut cluster = Cluster::start(3, &[]);
    cluster.store(0).await;
    let leader = cluster.leader();
    let store = cluster.store(leader).await;
    let tenure = within("the office", store.campaign("here")).await.unwrap();
    let first = commit(&store, vec![put("before", "1")]).await;
    let mut follow = within("a follower", store.follow(first)).await.unwrap();
    follow_until(&mut follow, first).await;

    cluster.kill(leader);
    let errors = commit_until_done(&store, "after").await;
    let harmless = |error: &StoreError| matches!(error, StoreError::Unknown(_) | StoreError::Unavailable(_));
    assert!(errors.iter().all(harmless), "{errors:?}");
    // Once the dead one has been left, nothing fails any more.
    for n in 0..100 {
        commit(&store, vec![put(&format!("k{n}"), "1")]).await;
    }
    let last = commit(&store, vec![put("last", "1")]).await;
    let broken = within("the end of the watch", follow.next()).await;
    assert!(matches!(broken, Err(StoreError::Unavailable(_))), "{broken:?}");
    let mut follow = within("a follower", store.follow(first)).await.unwrap();
    let keys: usize = follow_until(&mut follow, last).await.iter().map(|one| one.effects.len()).sum();
    assert!(keys >= 103, "{keys}");
    // The election of another leader is shorter than an office holds.
    assert!(!tenure.lost.is_cancelled());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_member_is_left_after_one_call() {
    let cluster = Cluster::start(3, &[]);
    cluster.store(0).await;
    let frozen = (cluster.leader() + 1) % 3;
    let store = cluster.store(frozen).await;
    let first = commit(&store, vec![put("a", "1")]).await;
    cluster.signal(frozen, "STOP");

    let group = Group { also: vec![put("a", "2")], ..Group::default() };
    let answer = within("an answer", store.commit(group)).await;
    assert!(matches!(answer, Err(StoreError::Unknown(_))), "{answer:?}");
    // Another commit through the frozen one would be unknown as well.
    let last = commit(&store, vec![put("a", "3")]).await;
    let mut follow = within("a follower", store.follow(first)).await.unwrap();
    follow_until(&mut follow, last).await;
    cluster.signal(frozen, "CONT");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_quorum_calls_end_and_a_watch_says_so() {
    let mut cluster = Cluster::start(3, &[]);
    cluster.store(0).await;
    let store = cluster.store(0).await;
    let tenure = within("the office", store.campaign("here")).await.unwrap();
    let first = commit(&store, vec![put("a", "1")]).await;
    let mut follow = within("a follower", store.follow(first)).await.unwrap();
    follow_until(&mut follow, first).await;
    cluster.kill(1);
    cluster.kill(2);

    let broken = loop {
        if let Err(error) = within("the end of the watch", follow.next()).await {
            break error;
        }
    };
    assert!(matches!(broken, StoreError::Unavailable(_)), "{broken:?}");
    within("the office is lost", tenure.lost.cancelled()).await;
    let group = Group { also: vec![put("a", "2")], ..Group::default() };
    let answer = within("an answer", store.commit(group)).await;
    assert!(matches!(answer, Err(StoreError::Unavailable(_) | StoreError::Unknown(_))), "{answer:?}");
    let answer = within("an answer", store.get("a", None)).await;
    assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
}

/// B09: a leader that slept was deposed, woke, and ended leases that had been renewed at its successor. etcd asks
/// itself whether it leads before it revokes, but one that has just woken may still answer yes, so the office can fall
/// to it. That costs no record, and the holder hears of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b09_a_leader_that_slept_past_an_election_takes_no_record_and_at_most_the_office_which_is_then_lost()
{
    let cluster = Cluster::start(3, &[]);
    cluster.store(0).await;
    let slept = cluster.leader();
    let store = cluster.store((slept + 1) % 3).await;
    let tenure = within("the office", store.campaign("here")).await.unwrap();
    let held = |value: &str| Group {
        fence: vec![tenure.fence.clone()],
        also: vec![put("held", value)],
        ..Group::default()
    };
    cluster.signal(slept, "STOP");
    // For longer than the office's lease, so that the sleeper would have ended it by its own clock.
    let began = Instant::now();
    let mut written = 0;
    while began.elapsed() < Duration::from_secs(12) {
        let done = within("an answer", store.commit(held("asleep"))).await;
        assert_ne!(done, Ok(Committed::Fenced), "the office was ended");
        written += usize::from(done.is_ok());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(written > 20, "{written} writes while it slept");
    cluster.signal(slept, "CONT");
    // Through the sleeper, which may believe in itself still: what it answers counts only if all have it.
    let awake = cluster.store(slept).await;
    let errors = commit_until_done(&awake, "through the sleeper").await;
    assert!(errors.iter().all(|error| matches!(error, StoreError::Unknown(_) | StoreError::Unavailable(_))));
    assert!(store.get("through the sleeper", None).await.unwrap().0.is_some());
    let value = match within("an answer", store.commit(held("awake"))).await {
        Ok(Committed::Done { .. }) => "awake",
        Ok(Committed::Fenced) => {
            within("the holder hears of it", tenure.lost.cancelled()).await;
            let next = within("the office again", store.campaign("here")).await.unwrap();
            assert!(next.term > tenure.term, "{} after {}", next.term, tenure.term);
            "asleep"
        }
        other => panic!("{other:?}"),
    };
    let kept = store.get("held", None).await.unwrap().0.unwrap();
    assert_eq!(kept.value, value.as_bytes());
}

async fn fill(store: &Etcd) {
    let large = "x".repeat(500 * 1024);
    within("the store is full", async {
        loop {
            let group = Group { also: vec![put("a", &large)], ..Group::default() };
            match store.commit(group).await {
                Err(StoreError::Full(Bound::Quota)) => break,
                // A busy machine may make etcd late.
                Ok(Committed::Done { .. }) | Err(StoreError::Unknown(_) | StoreError::Unavailable(_)) => {}
                other => panic!("{other:?}"),
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f08_whoever_stood_for_office_before_the_store_was_full_wins_it_while_it_is() {
    let cluster = Cluster::start(1, &["--quota-backend-bytes", "4194304"]);
    let store = cluster.store(0).await;
    let first = within("the office", store.campaign("first")).await.unwrap();
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { store.campaign("second").await }
    });
    within("the second stands", async {
        while store.list(keys::OFFICE, None, None, 9).await.unwrap().entries.len() < 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    fill(&store).await;
    let late = within("an answer", store.campaign("third")).await;
    assert!(matches!(late, Err(StoreError::Full(Bound::Quota))), "{late:?}");

    // As when its process is killed: nobody resigns, and the lease is revoked or lapses.
    let term = first.term;
    drop(first);
    let second = within("the office again", waiting).await.unwrap().unwrap();
    assert!(second.term > term && !second.lost.is_cancelled());
    let leave =
        Group { also: vec![Op::Remove("a".into())], fence: vec![second.fence.clone()], ..Group::default() };
    let left = within("an answer", store.commit(leave)).await;
    assert!(matches!(left, Ok(Committed::Done { .. })), "its office stands: {left:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_store_says_so_and_takes_writes_again_when_there_is_space() {
    let cluster = Cluster::start(1, &["--quota-backend-bytes", "4194304"]);
    let store = cluster.store(0).await;
    fill(&store).await;
    let last = store.get("a", None).await.unwrap().0.unwrap().mod_revision;
    // What the operator does.
    within("the compaction", store.compact(last)).await.unwrap();
    let address = &cluster.members[0].address;
    etcdctl(address, &["defrag"]);
    etcdctl(address, &["alarm", "disarm"]);
    commit(&store, vec![Op::Remove("a".into())]).await;
}

/// A process of the cell on an etcd; it stops when it is dropped.
struct Cell {
    url: String,
    keeper: KeeperHandle,
    tasks: Tasks,
    client: reqwest::Client,
}

impl Drop for Cell {
    fn drop(&mut self) {
        self.tasks.cancelled().cancel();
    }
}

impl Cell {
    async fn on(address: &str) -> Self {
        let text = format!(
            "region = \"cluster\"\ndata_dir = \"unused\"\n[listen]\nhttp = \"127.0.0.1:0\"\ngrpc = \"127.0.0.1:0\"\n\
             [store]\nkind = \"etcd\"\nendpoints = [{address:?}]\n"
        );
        let tasks = Tasks::new();
        let start = Start {
            commit: "none",
            config: toml::from_str::<CellConfig>(&text).unwrap(),
            clock: Clock::new(clock::monotonic, clock::wall_ms),
            tasks: tasks.clone(),
            metrics: Metrics::new(),
            http: TcpListener::bind("127.0.0.1:0").await.unwrap(),
            grpc: TcpListener::bind("127.0.0.1:0").await.unwrap(),
            keep_on_disk: false,
        };
        let running = run(Etcd::connect(&[address.to_owned()], "cluster"), start).await.unwrap();
        let (url, keeper) = (format!("http://{}", running.http), running.keeper);
        Self { url, keeper, tasks, client: reqwest::Client::new() }
    }

    /// What it says to a registration: the status and the body.
    async fn register(&self, id: &str) -> (u16, String) {
        let body = format!("{{\"id\":{id:?},\"endpoints\":[{{\"url\":\"http://127.0.0.1:9/\"}}]}}");
        let call = self.client.post(format!("{}/v1/registrations", self.url));
        let answer = call.header("content-type", "application/json").body(body).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    async fn ready(&self) -> String {
        let call = self.client.get(format!("{}/readyz?verbose", self.url));
        call.send().await.unwrap().text().await.unwrap()
    }

    /// It has found out that there is no space, says so with what to do, and keeps nothing.
    async fn lacks_space(&self) {
        within("a refusal for want of space", async {
            loop {
                let (status, told) = self.register("ops/mail/late").await;
                assert_eq!(status, 503, "{told}");
                assert!(told.contains("store_unavailable"), "{told}");
                if told.contains("out of space") && told.contains("alarm disarm") {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
        .await;
        within("readiness says so", async {
            while !self.ready().await.contains("out of space") {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
        .await;
        assert_eq!(self.keeper.term(), None, "nobody who starts now gets into office");
    }

    /// It got into office by itself, and takes a registration.
    async fn keeps(&self, id: &str) {
        within("a keeper in office", async {
            while self.keeper.term().is_none() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
        .await;
        let (status, told) = self.register(id).await;
        assert_eq!(status, 201, "{told}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f08_a_cell_that_starts_while_the_store_is_full_gets_into_office_by_itself_once_it_is_not() {
    let cluster = Cluster::start(1, &["--quota-backend-bytes", "4194304"]);
    let store = cluster.store(0).await;
    let address = &cluster.members[0].address;
    let free = async || {
        let last = store.get("a", None).await.unwrap().0.unwrap().mod_revision;
        within("the compaction", store.compact(last)).await.unwrap();
        etcdctl(address, &["defrag"]);
        etcdctl(address, &["alarm", "disarm"]);
    };
    // One that was never founded, and then one that was.
    for id in ["ops/mail/1", "ops/mail/2"] {
        fill(&store).await;
        let cell = Cell::on(address).await;
        cell.lacks_space().await;
        free().await;
        cell.keeps(id).await;
    }
}
