//! A cell killed with 10,000 registered and started again: how long from its start to the first correct answer, and
//! whether anything was lost; with its store up, and from its disk with the store down. Beside it r-nacos, killed the same
//! way.
//!
//! A correct answer is a list of one agent that names all its five instances. That nothing is lost is judged by its
//! owners: every one of the 10,000 is then counted, and renewed by the epoch it had. Goals: ≤ 0.5 s with the store up,
//! ≤ 0.2 s from disk, 0 lost.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use crate::nacos::Nacos;
use crate::region::Region;
use crate::session::{Session, small};
use crate::{load, machine, spread};
use rollcall_proto::v1::renew_request::Item;

const ROUNDS: usize = 5;
const REGISTERED: usize = 10_000;
/// Instances of one agent.
const EACH: usize = 5;
/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) async fn run() {
    println!("a cell killed with {REGISTERED} registered: from its start to the first correct answer");
    println!("{}", machine());
    let region = Region::up();
    let mut session = Session::open(&region.cell()).await;
    let ids = (0..REGISTERED).map(|n| format!("bench/agent-{}/{}", n / EACH, n % EACH));
    let items = session.register_all(ids.map(|id| small(id, 300))).await;
    drop(session);
    saved(&region).await;
    let mut cell = Cell::of(&region);
    let (mut up, mut down) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let with_store = cell.restart(&region).await;
        renewed(&region, &items).await;
        region.regions().control("kill", "us-east/etcd").expect("it is killed");
        let from_disk = cell.restart(&region).await;
        start_etcd(&region).await;
        renewed(&region, &items).await;
        if round == 0 {
            continue; // the first round brings the binary into memory
        }
        println!(
            "round {round}: store up {with_store:.3} s, store down {from_disk:.3} s, 0 lost; load {}",
            load()
        );
        up.push(with_store);
        down.push(from_disk);
    }
    println!("min / median / max");
    println!("  store up, s             {}  (goal 0.5)", spread(&up, 3));
    println!("  store down, s           {}  (goal 0.2)", spread(&down, 3));
    nacos().await;
}

/// The cell's process, started by this one.
struct Cell {
    program: PathBuf,
    arguments: Vec<String>,
    folder: PathBuf,
    settings: Vec<(String, String)>,
    child: Option<Child>,
}

impl Cell {
    /// What the region's cell was started as; it is killed.
    fn of(region: &Region) -> Self {
        let pid = region.cell_pid();
        let texts = |name: &str| -> Vec<String> {
            let all = std::fs::read(format!("/proc/{pid}/{name}")).expect("a process of ours");
            let all = String::from_utf8(all).expect("text");
            all.split_terminator('\0').map(str::to_owned).collect()
        };
        let pair = |text: String| text.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
        let mut arguments = texts("cmdline");
        let cell = Self {
            program: arguments.remove(0).into(),
            arguments,
            folder: std::fs::read_link(format!("/proc/{pid}/cwd")).expect("a process of ours"),
            settings: texts("environ").into_iter().filter_map(pair).collect(),
            child: None,
        };
        region.regions().control("kill", "us-east/cell").expect("it is killed");
        cell
    }

    /// Kills it and starts it again: seconds from the start to the first correct answer.
    async fn restart(&mut self, region: &Region) -> f64 {
        self.kill();
        let started = Instant::now();
        let child = Command::new(&self.program)
            .args(&self.arguments)
            .current_dir(&self.folder)
            .envs(self.settings.iter().map(|(key, value)| (key, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.child = Some(child.expect("the cell starts"));
        let cell = region.regions().cell("us-east");
        let path = format!("/v1/agents?namespace=bench&name=agent-{}", REGISTERED / EACH / 2);
        let correct = async {
            loop {
                let answer = cell.get(&path).await;
                if answer
                    .is_ok_and(|answer| answer["agents"].as_array().is_some_and(|five| five.len() == EACH))
                {
                    return started.elapsed().as_secs_f64();
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let took = tokio::time::timeout(PATIENCE, correct).await.expect("a correct answer");
        let regions = cell.get("/v1/regions").await.expect("the cell answers");
        assert!(regions["regions"][0]["count"] == REGISTERED, "some were lost: {regions}");
        took
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Waits until the copy on disk is younger than this call.
async fn saved(region: &Region) {
    let now = SystemTime::now();
    let file = region.regions().run_dir().join("us-east/cell/data/replica.us-east.state");
    let young = async {
        while !std::fs::metadata(&file).and_then(|file| file.modified()).is_ok_and(|written| written > now) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(PATIENCE, young).await.expect("a copy on disk");
    // The file may have been begun before; the next one was not.
    let first = std::fs::metadata(&file).and_then(|file| file.modified()).expect("it is there");
    let next = async {
        while std::fs::metadata(&file).and_then(|file| file.modified()).is_ok_and(|written| written == first)
        {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(PATIENCE, next).await.expect("another copy on disk");
}

/// On a busy machine the threads of the killed one may hold its port for a while.
async fn start_etcd(region: &Region) {
    let started = async {
        while region.regions().control("start", "us-east/etcd").is_err() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::time::timeout(PATIENCE, started).await.expect("etcd starts");
    region.regions().control("wait", "us-east/etcd").expect("it can be used");
}

/// Every owner renews by the epoch it has: nothing was lost or replaced.
async fn renewed(region: &Region, items: &[Item]) {
    let url = region.cell();
    let all = async {
        // A keeper is elected first.
        loop {
            let renewed = Session::open(&url).await.renew_all(items).await;
            if renewed == items.len() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(PATIENCE, all).await.expect("every lease is renewed");
}

/// The same with r-nacos: how many it still answers.
async fn nacos() {
    let Some(mut nacos) = Nacos::start().await else {
        println!("  r-nacos is not installed: infra/install.sh bench");
        return;
    };
    let services: Vec<String> = (0..REGISTERED / EACH).map(|agent| format!("agent-{agent}")).collect();
    nacos.register(&services, EACH).await;
    let before = nacos.count(&services).await;
    let took = nacos.restart().await;
    let after = nacos.count(&services).await;
    println!(
        "  r-nacos: {before} instances answered, killed, ready again after {took:.2} s: {after} answered"
    );
}
