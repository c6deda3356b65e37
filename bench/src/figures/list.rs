//! A list of one agent's instances over HTTP: 5 of 10,000, and 50 of 100,000; how many a CPU-second of the server gives,
//! beside r-nacos' list of a service and the same answer read from Redis.
//!
//! All in the same shapes: so many connections, one call in flight on each, another agent each time. The shape decides: a
//! server that finds several calls at once reads, or answers, more of them for one turn of its loop, and some servers do
//! so better than others. Servers and shapes take turns. In Redis an agent is a hash of its instances, each as our
//! answer writes it, read by one command. Goals: ≥ 3 × r-nacos, and no dearer than Redis.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::nacos::Nacos;
use crate::plain::{self, Call, Plain};
use crate::region::Region;
use crate::session::{Session, small};
use crate::{cpu_time, load, machine, spread};
use serde_json::Value;

const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_secs(1);
const AGENTS: usize = 2_000;
/// Instances of each agent, and the numbers of connections that ask for them.
const ROWS: [(usize, &[usize]); 2] = [(5, &[1, 2, 8, 32]), (50, &[2, 32])];

pub(super) async fn run() {
    println!(
        "lists of one of {AGENTS} agents over HTTP, per CPU-second of the server, 1 call in flight on each connection"
    );
    println!("{}", machine());
    for (each, shapes) in ROWS {
        measure(each, shapes).await;
    }
}

async fn measure(each: usize, shapes: &[usize]) {
    println!("{each} of {} instances:", AGENTS * each);
    let region = Region::up();
    let mut session = Session::open(&region.cell()).await;
    let ids = (0..AGENTS * each).map(|n| format!("bench/agent-{}/{}", n / each, n % each));
    let leases = session.register_all(ids.map(|id| small(id, 300))).await;
    let agents = |of: fn(usize) -> Call| (0..AGENTS).map(of).collect::<Vec<_>>();
    let cell = agents(|n| Call::http(&format!("/v1/agents?namespace=bench&name=agent-{n}")));
    let ours = region.cell().trim_start_matches("http://").to_owned();
    let answer = plain::once(&ours, &cell[7]);
    let answer: Value = serde_json::from_slice(&answer).expect("JSON");
    assert!(answer["agents"].as_array().is_some_and(|all| all.len() == each), "a wrong answer: {answer}");

    let nacos = Nacos::start().await;
    if let Some(nacos) = &nacos {
        let services: Vec<String> = (0..AGENTS).map(|n| format!("agent-{n}")).collect();
        nacos.register(&services, each).await;
        assert!(nacos.count(&services[..1]).await == each, "r-nacos lists something else");
    }
    let listed = agents(|n| Call::http(&Nacos::list_path(&format!("agent-{n}"))));
    let redis = Redis::start();
    if let Some(redis) = &redis {
        redis.fill(&answer, AGENTS);
    }
    let read = agents(|n| Call::redis(&["HVALS", &format!("agent-{n}")]));

    // An answer of two bytes: what HTTP costs the cell before anything is listed.
    let edge = [Call::http("/livez")];

    let mut measured: Vec<Measured> = shapes.iter().map(|_| Measured::default()).collect();
    for round in 0..=ROUNDS {
        // Heard of in time, as a fleet is: a list with overdue leases in it is looked at again by every call.
        assert_eq!(session.renew_all(&leases).await, leases.len(), "all are kept");
        for (measured, connections) in measured.iter_mut().zip(shapes) {
            let per_second = |pid, authority: &str, calls| per_second(pid, authority, calls, *connections);
            let cell = per_second(region.cell_pid(), &ours, &cell);
            let edge = per_second(region.cell_pid(), &ours, &edge);
            let nacos = nacos.as_ref().map(|nacos| per_second(nacos.pid(), &nacos.authority(), &listed));
            let redis = redis.as_ref().map(|redis| per_second(redis.child.id(), &redis.authority, &read));
            if round == 0 {
                continue; // the first round warms all of them up
            }
            println!(
                "round {round}, {connections} connections: cell {cell:.0} (its /livez {edge:.0}), r-nacos {:.0}, \
                 Redis {:.0} per CPU-second; load {}",
                nacos.unwrap_or_default(),
                redis.unwrap_or_default(),
                load()
            );
            measured.cell.push(cell);
            measured.edge.push(edge);
            measured.nacos.extend(nacos);
            measured.redis.extend(redis);
        }
    }
    println!("min / median / max");
    for (measured, connections) in measured.iter().zip(shapes) {
        println!("  {each} instances, {connections} connections x 1 in flight:");
        measured.print();
    }
    if nacos.is_none() || redis.is_none() {
        println!("  what is not installed is not there: infra/install.sh bench");
    }
}

/// Answers per CPU-second in one shape, round by round.
#[derive(Default)]
struct Measured {
    cell: Vec<f64>,
    edge: Vec<f64>,
    nacos: Vec<f64>,
    redis: Vec<f64>,
}

impl Measured {
    fn print(&self) {
        let micros = |of: &[f64]| spread(&of.iter().map(|rate| 1e6 / rate).collect::<Vec<_>>(), 1);
        let ratio =
            |to: &[f64]| spread(&self.cell.iter().zip(to).map(|(of, to)| of / to).collect::<Vec<_>>(), 2);
        println!("    cell, µs each           {}", micros(&self.cell));
        println!("    its /livez, µs each     {}", micros(&self.edge));
        if !self.nacos.is_empty() {
            println!("    r-nacos, µs each        {}", micros(&self.nacos));
            println!("    cell to r-nacos         {}  (goal 3)", ratio(&self.nacos));
        }
        if !self.redis.is_empty() {
            println!("    Redis, µs each          {}", micros(&self.redis));
            println!("    cell to Redis           {}  (goal 1)", ratio(&self.redis));
        }
    }
}

/// Calls on so many connections for a round; answers per CPU-second of the server.
fn per_second(pid: u32, authority: &str, calls: &[Call], connections: usize) -> f64 {
    let mut connections: Vec<_> = (0..connections).map(|_| Plain::open(authority)).collect();
    let before = cpu_time(pid);
    let answered = std::thread::scope(|scope| {
        let threads: Vec<_> = connections
            .iter_mut()
            .enumerate()
            .map(|(at, connection)| scope.spawn(move || connection.call_for(ROUND, calls, at * 61)))
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a caller")).sum::<usize>()
    });
    answered as f64 / (cpu_time(pid) - before).as_secs_f64()
}

/// A Redis of our own; it ends when this is dropped.
struct Redis {
    child: Child,
    authority: String,
}

impl Redis {
    /// Starts it on a free port with nothing on disk; `None` where it is not installed.
    fn start() -> Option<Self> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port().to_string();
        drop(listener);
        let child = Command::new("redis-server")
            .args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .ok()?;
        let redis = Self { child, authority: format!("127.0.0.1:{port}") };
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        while std::net::TcpStream::connect(&redis.authority).is_err() {
            assert!(std::time::Instant::now() < deadline, "Redis does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(redis)
    }

    /// Gives it so many agents, with the instances of this answer.
    fn fill(&self, answer: &Value, agents: usize) {
        let instances: Vec<String> =
            answer["agents"].as_array().expect("a list").iter().map(Value::to_string).collect();
        let mut connection = Plain::open(&self.authority);
        for n in 0..agents {
            let key = format!("agent-{n}");
            let fields: Vec<String> = (0..instances.len()).map(|n| n.to_string()).collect();
            let mut words = vec!["HSET", &key];
            for (field, instance) in fields.iter().zip(&instances) {
                words.extend([field.as_str(), instance.as_str()]);
            }
            connection.call(&Call::redis(&words));
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
