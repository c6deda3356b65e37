//! Two regions joined by one broker, measured: us-east publishes, eu-west follows, over a way that can be made long.

use std::time::{Duration, Instant};

use rollcall_tests::http::Http;
use rollcall_tests::regions::{Regions, free_base_port};
use rollcall_tests::slow_link::{SlowLink, Way};
use serde_json::Value;

/// What is measured comes from one address and as fast as it can; admission would refuse it, as it should.
const ADMISSION: &str = "\n[admission]\nregistrations_per_second = 1000000\nburst = 1000000\n\
                         renewals_per_second = 1000000\naddress_share = \"whole\"\n";
/// How long anything may take to be as it should.
const WITHIN: Duration = Duration::from_secs(120);

/// The regions; their processes end when this is dropped.
#[derive(Debug)]
pub struct Pair {
    /// Both, as they are deployed.
    pub regions: Regions,
    way: SlowLink,
}

impl Pair {
    /// Starts both and waits until each sees the other.
    ///
    /// # Panics
    /// When they do not start.
    pub async fn up() -> Self {
        let regions = Regions::up(Some("kafka,us-east,eu-west"));
        let far = format!("127.0.0.1:{}", free_base_port());
        let way = SlowLink::open("127.0.0.1:0", &far, Way::NONE).await.expect("a way");
        // The broker listens a second time, for whoever comes by the long way, and sends them back onto it.
        let near = regions.kafka();
        regions.control("stop", "kafka").expect("stopped");
        let file = regions.run_dir().join("kafka/server.properties");
        let text = std::fs::read_to_string(&file).expect("its settings");
        let controller = text
            .lines()
            .find_map(|line| line.strip_prefix("listeners=")?.split_once(",CONTROLLER://").map(|(_, at)| at))
            .expect("a controller");
        let far_settings = format!(
            "\nlisteners=BROKER://{near},FAR://{far},CONTROLLER://{controller}\n\
             advertised.listeners=BROKER://{near},FAR://{}\n\
             listener.security.protocol.map=BROKER:PLAINTEXT,FAR:PLAINTEXT,CONTROLLER:PLAINTEXT\n",
            way.address()
        );
        std::fs::write(&file, text.clone() + &far_settings).expect("written");
        regions.control("start", "kafka").expect("started");
        regions.control("wait", "kafka").expect("up");
        let file = regions.run_dir().join("eu-west/replicator/replicator.toml");
        let text = std::fs::read_to_string(&file).expect("its settings");
        let (publish, follow) = text.split_once("[[follow]]").expect("it follows");
        let follow = follow.replacen(&near, &way.address(), 1);
        std::fs::write(&file, format!("{publish}[[follow]]{follow}")).expect("written");
        let pair = Self { regions, way };
        for region in ["us-east", "eu-west"] {
            let file = pair.regions.run_dir().join(format!("{region}/cell/cell.toml"));
            let text = std::fs::read_to_string(&file).expect("its settings");
            std::fs::write(&file, text + ADMISSION).expect("written");
            pair.again(&format!("{region}/cell"));
        }
        pair.again("eu-west/replicator");
        pair.sees("eu-west", "us-east", |view| view["state"] == "current").await;
        pair.sees("us-east", "eu-west", |view| view["state"] == "current").await;
        pair
    }

    /// Makes the way from us-east to eu-west so long.
    pub fn set_way(&self, delay: Duration) {
        self.way.set(Way::delayed(delay));
    }

    /// Ends a process and starts it again.
    ///
    /// # Panics
    /// When the script cannot.
    pub fn again(&self, name: &str) {
        self.regions.control("stop", name).expect("stopped");
        self.regions.control("start", name).expect("started");
    }

    /// The process of this name.
    ///
    /// # Panics
    /// When it does not run.
    #[must_use]
    pub fn pid(&self, name: &str) -> u32 {
        self.regions.control("pid", name).expect("it runs").trim().parse().expect("a number")
    }

    /// Freezes a process, or lets it go on.
    ///
    /// # Panics
    /// When it does not run.
    pub fn signal(&self, name: &str, signal: &str) {
        let pid = self.pid(name).to_string();
        let sent = std::process::Command::new("kill").args(["-s", signal, &pid]).status().expect("kill");
        assert!(sent.success(), "{name} got no {signal}");
    }

    /// Waits until what a region's cell says of a region fulfils a condition; gives how long that took and what it was.
    ///
    /// # Panics
    /// When it does not in two minutes.
    pub async fn sees(&self, cell: &str, region: &str, holds: impl Fn(&Value) -> bool) -> (Duration, Value) {
        status(&self.regions.cell(cell), region, holds).await
    }
}

/// Waits until what a cell or replicator says of a region fulfils a condition.
///
/// # Panics
/// When it does not in two minutes.
pub async fn status(of: &Http, region: &str, holds: impl Fn(&Value) -> bool) -> (Duration, Value) {
    let began = Instant::now();
    let mut last = Value::Null;
    while began.elapsed() < WITHIN {
        if let Ok(answer) = of.get("/v1/regions").await {
            let all = answer["regions"].as_array().into_iter().flatten();
            if let Some(status) = all.into_iter().find(|status| status["region"] == region) {
                if holds(status) {
                    return (began.elapsed(), status.clone());
                }
                last = status.clone();
            }
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{} of {region}: {last}", of.base());
}
