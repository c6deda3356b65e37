//! Renewals per CPU-second of the server: a cell's session with one and with twenty renewals a message, beside etcd's
//! lease keepalive and, where it is installed, r-nacos' beat. All in the same shape: 32 connections, one message in
//! flight on each; they take turns. Goals: one a message ≥ 3 × etcd and ≥ 5 × r-nacos; twenty ≥ 20 × etcd.

use std::future::Future;
use std::time::{Duration, Instant};

use crate::nacos::{Beat, Nacos};
use crate::region::Region;
use crate::session::{Session, small};
use crate::{cpu_time, load, machine, spread};
use etcd_client::Client;
use rollcall_proto::v1::renew_request::Item;

const ROUNDS: usize = 6;
const ROUND: Duration = Duration::from_secs(3);
const CONNECTIONS: usize = 32;
/// Registrations of each connection; all of them are renewed in turn.
const EACH: usize = 320;

/// One connection's session, with what it keeps alive.
struct Registrant {
    session: Session,
    items: Vec<Item>,
    next: usize,
}

impl Registrant {
    async fn open(url: &str, connection: usize) -> Self {
        let mut session = Session::open(url).await;
        let all = (0..EACH).map(|n| small(format!("bench/caller-{connection}/{n}"), 300));
        let items = session.register_all(all).await;
        Self { session, items, next: 0 }
    }
}

impl Connection for Registrant {
    async fn renew(&mut self, many: usize) -> u64 {
        let items: Vec<Item> = (0..many).map(|n| self.items[(self.next + n) % EACH].clone()).collect();
        self.next += many;
        self.session.renew(items).await as u64
    }
}

/// One connection to etcd, with a lease that it keeps alive.
struct Lease {
    keeper: etcd_client::LeaseKeeper,
    alive: etcd_client::LeaseKeepAliveStream,
}

impl Lease {
    async fn open(url: &str) -> Self {
        let mut client = Client::connect([url], None).await.expect("etcd answers");
        let lease = client.lease_grant(300, None).await.expect("a lease").id();
        let (keeper, alive) = client.lease_keep_alive(lease).await.expect("a stream");
        Self { keeper, alive }
    }
}

impl Connection for Lease {
    async fn renew(&mut self, _: usize) -> u64 {
        self.keeper.keep_alive().await.expect("etcd takes it");
        let answer = self.alive.message().await.expect("etcd answers").expect("the stream goes on");
        u64::from(answer.ttl() > 0)
    }
}

impl Connection for Beat {
    async fn renew(&mut self, _: usize) -> u64 {
        u64::from(self.send().await)
    }
}

pub(super) async fn run() {
    println!(
        "renewals per CPU-second of the server, {CONNECTIONS} connections x 1 message in flight, {} registrations",
        CONNECTIONS * EACH
    );
    println!("{}", machine());
    let region = Region::up();
    let (mut sessions, mut leases) = (Vec::new(), Vec::new());
    for connection in 0..CONNECTIONS {
        sessions.push(Registrant::open(&region.cell(), connection).await);
        leases.push(Lease::open(&region.etcd()).await);
    }
    let nacos = Nacos::start().await;
    let mut beats = match &nacos {
        Some(nacos) => nacos.beats(CONNECTIONS).await,
        None => Vec::new(),
    };
    let (mut one, mut twenty, mut etcd, mut rnacos) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let a = measure(region.cell_pid(), &mut sessions, 1).await;
        let b = measure(region.etcd_pid(), &mut leases, 1).await;
        let c = measure(region.cell_pid(), &mut sessions, 20).await;
        let d = match &nacos {
            Some(nacos) => measure(nacos.pid(), &mut beats, 1).await,
            None => 0.0,
        };
        if round == 0 {
            continue; // the first round warms all of them up
        }
        println!(
            "round {round}: cell {a:.0}, etcd {b:.0}, cell with 20 a message {c:.0}, r-nacos {d:.0} per CPU-second; load {}",
            load()
        );
        one.push(a);
        etcd.push(b);
        twenty.push(c);
        rnacos.push(d);
    }
    let ratio = |of: &[f64], to: &[f64]| of.iter().zip(to).map(|(a, b)| a / b).collect::<Vec<_>>();
    println!("per CPU-second, min / median / max");
    println!("  cell, 1 a message       {}", spread(&one, 0));
    println!("  cell, 20 a message      {}", spread(&twenty, 0));
    println!("  etcd lease keepalive    {}", spread(&etcd, 0));
    println!("  1 a message, to etcd    {}  (goal 3)", spread(&ratio(&one, &etcd), 2));
    println!("  20 a message, to etcd   {}  (goal 20)", spread(&ratio(&twenty, &etcd), 1));
    if nacos.is_some() {
        println!("  r-nacos beat            {}", spread(&rnacos, 0));
        println!("  1 a message, to r-nacos {}  (goal 5)", spread(&ratio(&one, &rnacos), 2));
    } else {
        println!("  r-nacos is not installed: infra/install.sh bench");
    }
}

/// Something that can be renewed again and again.
trait Connection: Send {
    /// Sends a message of so many renewals and waits for the answer; how many were renewed.
    fn renew(&mut self, many: usize) -> impl Future<Output = u64> + Send;
}

/// Renews on every connection for a round; renewals per CPU-second of the server.
async fn measure(pid: u32, connections: &mut [impl Connection], many: usize) -> f64 {
    let before = cpu_time(pid);
    let started = Instant::now();
    let each = connections.iter_mut().map(|connection| async move {
        let mut renewed = 0;
        while started.elapsed() < ROUND {
            renewed += connection.renew(many).await;
        }
        renewed
    });
    let renewed: u64 = futures_util::future::join_all(each).await.into_iter().sum();
    renewed as f64 / (cpu_time(pid) - before).as_secs_f64()
}
