//! Renewals per CPU-second of the server: a cell's session with one and with twenty renewals a message, beside etcd's
//! lease keepalive and, where it is installed, r-nacos' beat. All in the same shape: 32 connections, one message in
//! flight on each; they take turns. Goals: one a message ≥ 3 × etcd and ≥ 5 × r-nacos; twenty ≥ 20 × etcd.
#![allow(
    clippy::cast_precision_loss,
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench fails by panicking and prints"
)]

use std::future::Future;
use std::time::{Duration, Instant};

use etcd_client::Client;
use rollcall_bench::nacos::{Beat, Nacos};
use rollcall_bench::region::Region;
use rollcall_bench::{cpu_time, load, machine, spread};
use rollcall_proto::v1::registrar_client::RegistrarClient;
use rollcall_proto::v1::renew_response::result::Outcome;
use rollcall_proto::v1::session_request::Request;
use rollcall_proto::v1::session_response::Response;
use rollcall_proto::v1::{Endpoint, RegisterRequest, RenewRequest, SessionRequest, renew_request::Item};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

const ROUNDS: usize = 6;
const ROUND: Duration = Duration::from_secs(3);
const CONNECTIONS: usize = 32;
/// Registrations of each connection; all of them are renewed in turn.
const EACH: usize = 320;

/// One connection's session.
struct Session {
    asks: mpsc::Sender<SessionRequest>,
    answers: Streaming<rollcall_proto::v1::SessionResponse>,
    items: Vec<Item>,
    next: usize,
}

impl Session {
    async fn open(url: &str, connection: usize) -> Self {
        let mut registrar = RegistrarClient::connect(url.to_owned()).await.expect("the cell answers");
        let (asks, asked) = mpsc::channel(EACH);
        let mut answers =
            registrar.session(ReceiverStream::new(asked)).await.expect("a session").into_inner();
        for call in 0..EACH as u64 {
            let register = RegisterRequest {
                id: format!("bench/caller-{connection}/{call}"),
                endpoints: vec![Endpoint { url: "http://10.0.0.1:8080/".into(), protocol: None }],
                lease_seconds: Some(300),
                ..RegisterRequest::default()
            };
            let ask = SessionRequest { call, request: Some(Request::Register(register)) };
            asks.send(ask).await.expect("the session is open");
        }
        let mut items = Vec::with_capacity(EACH);
        while items.len() < EACH {
            match answers.message().await.expect("an answer").expect("the stream goes on").response {
                Some(Response::Register(registered)) => {
                    items.push(Item { id: registered.id, epoch: registered.epoch, ..Item::default() });
                }
                other => panic!("not registered: {other:?}"),
            }
        }
        Self { asks, answers, items, next: 0 }
    }
}

impl Connection for Session {
    async fn renew(&mut self, many: usize) -> u64 {
        let items: Vec<Item> = (0..many).map(|n| self.items[(self.next + n) % EACH].clone()).collect();
        self.next += many;
        let request = Some(Request::Renew(RenewRequest { items }));
        self.asks.send(SessionRequest { call: 0, request }).await.expect("the session is open");
        match self.answers.message().await.expect("an answer").expect("the stream goes on").response {
            Some(Response::Renew(renewed)) => {
                let renewed =
                    renewed.results.iter().filter(|one| matches!(one.outcome, Some(Outcome::Renewed(_))));
                renewed.count() as u64
            }
            other => panic!("not renewed: {other:?}"),
        }
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

#[tokio::main]
async fn main() {
    println!(
        "renewals per CPU-second of the server, {CONNECTIONS} connections x 1 message in flight, {} registrations",
        CONNECTIONS * EACH
    );
    println!("{}", machine());
    let region = Region::up();
    let (mut sessions, mut leases) = (Vec::new(), Vec::new());
    for connection in 0..CONNECTIONS {
        sessions.push(Session::open(&region.cell(), connection).await);
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
