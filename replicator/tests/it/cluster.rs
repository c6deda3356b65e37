//! Brokers of a test's own: several that hold copies for each other, or one behind TLS and SASL.
//!
//! Each is a process that a small shell ends when this one does, in whatever way.

use std::fmt::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use tempfile::TempDir;

/// Three brokers on a busy machine.
const UP_WITHIN: Duration = Duration::from_secs(90);

/// The passwords of everything that is made here and lives as long as a test.
pub(crate) const PASSWORD: &str = "of-no-worth";

pub(crate) struct Cluster {
    /// The plain listeners, by commas.
    pub(crate) brokers: String,
    members: Vec<Member>,
    folder: TempDir,
}

struct Member {
    pid: String,
    // Its standard input is what ends it.
    _undertaker: Child,
}

/// What a single broker listens with beside the plain listener.
pub(crate) struct Secured {
    pub(crate) cluster: Cluster,
    /// Mutual TLS.
    pub(crate) tls: String,
    /// SASL over TLS.
    pub(crate) sasl: String,
}

fn free_ports(count: usize) -> Vec<u16> {
    let held: Vec<_> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port")).collect();
    held.iter().map(|port| port.local_addr().expect("bound").port()).collect()
}

/// Settings in the manner of `infra/kafka/server.properties.template`, for one of several.
fn properties(id: usize, controllers: &[u16], port: u16, more: &[(&str, u16)], data: &Path) -> String {
    let (count, least) = (controllers.len(), controllers.len().saturating_sub(1).max(1));
    let voters: Vec<String> =
        controllers.iter().enumerate().map(|(at, port)| format!("{}@127.0.0.1:{port}", at + 1)).collect();
    let (mut listeners, mut protocols) =
        (format!("PLAIN://127.0.0.1:{port}"), "PLAIN:PLAINTEXT,CONTROLLER:PLAINTEXT".to_owned());
    for (name, port) in more {
        let _ = write!(listeners, ",{name}://127.0.0.1:{port}");
        let _ = write!(protocols, ",{name}:{name}");
    }
    let (controller, voters, data) = (controllers[id - 1], voters.join(","), data.display());
    format!(
        "process.roles=broker,controller\nnode.id={id}\ncontroller.quorum.voters={voters}\n\
         listeners={listeners},CONTROLLER://127.0.0.1:{controller}\nadvertised.listeners={listeners}\n\
         inter.broker.listener.name=PLAIN\ncontroller.listener.names=CONTROLLER\n\
         listener.security.protocol.map={protocols}\nlog.dirs={data}\nauto.create.topics.enable=false\n\
         broker.session.timeout.ms=2000\nbroker.heartbeat.interval.ms=500\n\
         offsets.topic.replication.factor={count}\noffsets.topic.num.partitions=1\n\
         transaction.state.log.replication.factor={count}\ntransaction.state.log.min.isr={least}\n\
         transaction.state.log.num.partitions=1\nshare.coordinator.state.topic.replication.factor={count}\n\
         share.coordinator.state.topic.min.isr={least}\nshare.coordinator.state.topic.num.partitions=1\n\
         num.network.threads=2\nnum.io.threads=2\nlog.cleaner.dedupe.buffer.size=8388608\n"
    )
}

impl Member {
    fn start(settings: &Path, options: &[String]) -> Self {
        let infra = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../infra/kafka/start.sh");
        let log = std::fs::File::create(settings.with_extension("log")).expect("a log file");
        // The broker takes its script's process over, so the id of the one is that of the other. A frozen one ends, too.
        let script = "setsid \"$@\" </dev/null & echo $!; exec >&2; cat; kill -9 $!; wait";
        let mut undertaker = Command::new("setsid")
            .args(["bash", "-c", script, "bash"])
            .arg(infra)
            .arg(settings)
            .args(options)
            .env("KAFKA_CLUSTER_ID", "AAAAAAAAAAAAAAAAAAAAAA")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("a shell");
        let mut said = std::io::BufReader::new(undertaker.stdout.take().expect("piped"));
        let mut pid = String::new();
        std::io::BufRead::read_line(&mut said, &mut pid).expect("an id");
        Self { pid: pid.trim().to_owned(), _undertaker: undertaker }
    }
}

impl Cluster {
    /// As many brokers, each with a copy of everything; up when this returns.
    pub(crate) fn of(count: usize) -> Self {
        Self::start(count, &[], "", &[])
    }

    fn start(count: usize, more: &[(&str, u16)], settings: &str, options: &[String]) -> Self {
        let folder = tempfile::Builder::new().prefix("rollcall-cluster-").tempdir().expect("a folder");
        Self::start_in(folder, count, more, settings, options)
    }

    fn start_in(
        folder: TempDir,
        count: usize,
        more: &[(&str, u16)],
        settings: &str,
        options: &[String],
    ) -> Self {
        let ports = free_ports(2 * count);
        let (controllers, listening) = ports.split_at(count);
        let start = |(at, port): (usize, &u16)| {
            let file = folder.path().join(format!("{}.properties", at + 1));
            let data = folder.path().join(format!("data-{}", at + 1));
            let text = properties(at + 1, controllers, *port, more, &data) + settings;
            std::fs::write(&file, text).expect("written");
            Member::start(&file, options)
        };
        let members = listening.iter().enumerate().map(start).collect();
        let brokers: Vec<String> = listening.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let cluster = Self { brokers: brokers.join(","), members, folder };
        cluster.wait_for(count);
        cluster
    }

    fn wait_for(&self, count: usize) {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.brokers).set("reconnect.backoff.max.ms", "500");
        let asker: BaseConsumer = config.create().expect("a client");
        let deadline = Instant::now() + UP_WITHIN;
        loop {
            let known = asker.fetch_metadata(None, Duration::from_secs(1));
            if known.as_ref().is_ok_and(|known| known.brokers().len() == count) {
                return;
            }
            let logs = self.folder.path().display();
            assert!(Instant::now() < deadline, "{count} brokers are not up: {known:?}; see {logs}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// The place in the list of the broker that leads a topic, and those of the others.
    pub(crate) fn leader(&self, topic: &str) -> (usize, Vec<usize>) {
        let asker: BaseConsumer =
            ClientConfig::new().set("bootstrap.servers", &self.brokers).create().expect("a client");
        let known = asker.fetch_metadata(Some(topic), Duration::from_secs(10)).expect("an answer");
        let leader = usize::try_from(known.topics()[0].partitions()[0].leader()).expect("led") - 1;
        (leader, (0..self.members.len()).filter(|at| *at != leader).collect())
    }

    pub(crate) fn signal(&self, at: usize, signal: &str) {
        let pid = &self.members[at].pid;
        let sent = Command::new("kill").args(["-s", signal, pid]).status().expect("kill runs");
        assert!(sent.success(), "kill -s {signal} {pid}");
    }
}

fn run(program: &str, folder: &Path, arguments: &[&str]) -> Vec<u8> {
    let output =
        Command::new(program).args(arguments).current_dir(folder).output().expect("the program is there");
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

impl Secured {
    /// One broker that takes `us-east` by mutual TLS, by SCRAM over TLS, and by nothing on its plain listener.
    pub(crate) fn start() -> Self {
        let folder = tempfile::Builder::new().prefix("rollcall-secured-").tempdir().expect("a folder");
        let at = folder.path();
        let pair = |name: &str, more: &[&str]| {
            let (store, dname) = (format!("{name}.p12"), format!("CN={name}"));
            let arguments = [
                "-genkeypair",
                "-alias",
                name,
                "-keyalg",
                "EC",
                "-dname",
                &dname,
                "-validity",
                "2",
                "-storetype",
                "PKCS12",
                "-keystore",
                &store,
                "-storepass",
                PASSWORD,
            ];
            run("keytool", at, &[&arguments[..], more].concat());
            let export = ["-exportcert", "-rfc", "-alias", name, "-keystore", &store, "-storepass", PASSWORD];
            std::fs::write(at.join(format!("{name}.pem")), run("keytool", at, &export)).expect("written");
        };
        pair("broker", &["-ext", "SAN=ip:127.0.0.1"]);
        pair("us-east", &[]);
        let trust = [
            "-importcert",
            "-noprompt",
            "-alias",
            "us-east",
            "-file",
            "us-east.pem",
            "-storetype",
            "PKCS12",
            "-keystore",
            "trust.p12",
            "-storepass",
            PASSWORD,
        ];
        run("keytool", at, &trust);
        let pass = format!("pass:{PASSWORD}");
        let key =
            ["pkcs12", "-in", "us-east.p12", "-passin", &pass, "-nocerts", "-nodes", "-out", "us-east.key"];
        run("openssl", at, &key);
        let settings = format!(
            "ssl.keystore.type=PKCS12\nssl.keystore.location={0}/broker.p12\nssl.keystore.password={PASSWORD}\n\
             ssl.truststore.type=PKCS12\nssl.truststore.location={0}/trust.p12\nssl.truststore.password={PASSWORD}\n\
             listener.name.ssl.ssl.client.auth=required\n\
             sasl.enabled.mechanisms=SCRAM-SHA-512\nlistener.name.sasl_ssl.scram-sha-512.sasl.jaas.config=\
             org.apache.kafka.common.security.scram.ScramLoginModule required;\n",
            at.display()
        );
        let ports = free_ports(2);
        let user = format!("SCRAM-SHA-512=[name=us-east,password={PASSWORD}]");
        let options = ["--add-scram".to_owned(), user];
        let listeners = [("SSL", ports[0]), ("SASL_SSL", ports[1])];
        let cluster = Cluster::start_in(folder, 1, &listeners, &settings, &options);
        let [tls, sasl] = [ports[0], ports[1]].map(|port| format!("127.0.0.1:{port}"));
        Self { cluster, tls, sasl }
    }

    /// A file that was made for it.
    pub(crate) fn file(&self, name: &str) -> String {
        self.cluster.folder.path().join(name).display().to_string()
    }
}
