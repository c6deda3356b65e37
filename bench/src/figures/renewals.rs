//! Renewals per CPU-second of the server: a cell's session with one and with twenty renewals a message, beside etcd's
//! lease keepalive and, where it is installed, r-nacos' beat. All in the same shape: 32 connections, one message in
//! flight on each; they take turns. Goals: one a message ≥ 3 × etcd and ≥ 5 × r-nacos; twenty ≥ 20 × etcd. Beside them
//! the floor: a stream of the same messages where nothing is judged, bare and behind our serving edge.

use std::future::Future;
use std::time::{Duration, Instant};

use crate::floor::{self, Floor, Place};
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

    /// The same words to a floor, which knows nobody.
    async fn with(floor: &Floor, known: &Self) -> Self {
        Self { session: Session::open(floor.url()).await, items: known.items.clone(), next: 0 }
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

pub(super) async fn run(words: &[String]) {
    if let [place, address] = words {
        return floor::serve(place, address).await;
    }
    println!(
        "renewals per CPU-second of the server, {CONNECTIONS} connections x 1 message in flight, {} registrations",
        CONNECTIONS * EACH
    );
    println!("{}", machine());
    let region = Region::up();
    let floors = [Floor::start("renewals", Place::Bare).await, Floor::start("renewals", Place::Edge).await];
    let (mut sessions, mut leases, mut bare, mut edge) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for connection in 0..CONNECTIONS {
        let session = Registrant::open(&region.cell(), connection).await;
        bare.push(Registrant::with(&floors[0], &session).await);
        edge.push(Registrant::with(&floors[1], &session).await);
        sessions.push(session);
        leases.push(Lease::open(&region.etcd()).await);
    }
    let nacos = Nacos::start().await;
    let mut beats = match &nacos {
        Some(nacos) => nacos.beats(CONNECTIONS).await,
        None => Vec::new(),
    };
    let mut told = Told::default();
    for round in 0..=ROUNDS {
        let of = Told {
            one: vec![measure(region.cell_pid(), &mut sessions, 1).await],
            etcd: vec![measure(region.etcd_pid(), &mut leases, 1).await],
            bare: vec![measure(floors[0].pid(), &mut bare, 1).await],
            edge: vec![measure(floors[1].pid(), &mut edge, 1).await],
            twenty: vec![measure(region.cell_pid(), &mut sessions, 20).await],
            bare_twenty: vec![measure(floors[0].pid(), &mut bare, 20).await],
            nacos: match &nacos {
                Some(nacos) => vec![measure(nacos.pid(), &mut beats, 1).await],
                None => Vec::new(),
            },
        };
        if round > 0 {
            told.add(round, of);
        } // the first round warms all of them up
    }
    told.print();
}

/// What was measured of each, per CPU-second, round by round.
#[derive(Default)]
struct Told {
    one: Vec<f64>,
    twenty: Vec<f64>,
    etcd: Vec<f64>,
    bare: Vec<f64>,
    edge: Vec<f64>,
    bare_twenty: Vec<f64>,
    nacos: Vec<f64>,
}

impl Told {
    fn add(&mut self, round: usize, of: Self) {
        println!(
            "round {round}: cell {:.0}, etcd {:.0}, floor {:.0}, behind the edge {:.0}, with 20 a message cell {:.0}, floor {:.0}, r-nacos {:.0} per CPU-second; load {}",
            of.one[0],
            of.etcd[0],
            of.bare[0],
            of.edge[0],
            of.twenty[0],
            of.bare_twenty[0],
            of.nacos.first().copied().unwrap_or_default(),
            load()
        );
        self.one.extend(of.one);
        self.twenty.extend(of.twenty);
        self.etcd.extend(of.etcd);
        self.bare.extend(of.bare);
        self.edge.extend(of.edge);
        self.bare_twenty.extend(of.bare_twenty);
        self.nacos.extend(of.nacos);
    }

    fn print(&self) {
        let ratio = |of: &[f64], to: &[f64]| of.iter().zip(to).map(|(a, b)| a / b).collect::<Vec<_>>();
        println!("per CPU-second, min / median / max");
        println!("  cell, 1 a message       {}", spread(&self.one, 0));
        println!("  cell, 20 a message      {}", spread(&self.twenty, 0));
        println!("  floor, 1 a message      {}", spread(&self.bare, 0));
        println!("  floor behind our edge   {}", spread(&self.edge, 0));
        println!("  floor, 20 a message     {}", spread(&self.bare_twenty, 0));
        println!("  etcd lease keepalive    {}", spread(&self.etcd, 0));
        println!("  1 a message, to etcd    {}  (goal 3)", spread(&ratio(&self.one, &self.etcd), 2));
        println!("  20 a message, to etcd   {}  (goal 20)", spread(&ratio(&self.twenty, &self.etcd), 1));
        println!("  floor, to etcd          {}", spread(&ratio(&self.bare, &self.etcd), 2));
        println!("  1 a message, to floor   {}", spread(&ratio(&self.one, &self.bare), 2));
        println!("  our edge, to floor      {}", spread(&ratio(&self.edge, &self.bare), 2));
        println!("  20 a message, to floor  {}", spread(&ratio(&self.twenty, &self.bare_twenty), 2));
        if self.nacos.is_empty() {
            println!("  r-nacos is not installed: infra/install.sh bench");
        } else {
            println!("  r-nacos beat            {}", spread(&self.nacos, 0));
            println!("  1 a message, to r-nacos {}  (goal 5)", spread(&ratio(&self.one, &self.nacos), 2));
        }
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
