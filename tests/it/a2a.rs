//! Agents and callers made with the stock A2A SDK for Python, on Rollcall as it is: the main job on real input.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rollcall_tests::dev::Dev;
use rollcall_tests::eventually::eventually;
use rollcall_tests::http::Http;
use rollcall_tests::paths;
use rollcall_tests::regions::Regions;

/// One SDK generation of the example.
struct Generation {
    /// Version of the card, and name of the environment.
    card: &'static str,
    /// The example's agent.
    agent: &'static str,
    /// What it answers with.
    says: &'static str,
}

const GENERATIONS: [Generation; 2] = [
    Generation { card: "1.0", agent: "agent_v1.py", says: "v1 agent heard: hello" },
    Generation { card: "0.3", agent: "agent_v03.py", says: "v0.3 agent heard: hello" },
];

fn example() -> PathBuf {
    paths::repository().join("examples/a2a-python")
}

fn python(card: &str) -> PathBuf {
    let installed = Command::new(example().join("install.sh")).arg(card).output().expect("install.sh runs");
    assert!(installed.status.success(), "install.sh: {}", String::from_utf8_lossy(&installed.stderr));
    paths::tools().join(format!("a2a-{card}/bin/python"))
}

/// `rollcall run … -- python agent`, ended with its child when dropped.
struct Agent(Child);

impl Agent {
    fn end(mut self) -> Option<i32> {
        let _ = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status();
        self.0.wait().ok().and_then(|status| status.code())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status();
        let _ = self.0.wait();
    }
}

fn run_agent(generation: &Generation, url: &str, folder: &Path) -> (Agent, PathBuf, String) {
    let python = python(generation.card);
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let script = example().join(generation.agent);
    let card = folder.join(format!("card-{}.json", generation.card));
    let wrote = Command::new(&python)
        .arg(&script)
        .args(["--port", &port, "--write-card"])
        .arg(&card)
        .status()
        .unwrap();
    assert!(wrote.success());
    let name = format!("translator-{}", generation.card.replace('.', "-"));
    let child = Command::new(paths::rollcall())
        .args([
            "run",
            "--url",
            url,
            "--id",
            &format!("a2a/{name}/1"),
            "--capability",
            "text:translate:v1",
            "--card",
        ])
        .arg(&card)
        .arg("--")
        .arg(&python)
        .arg(&script)
        .args(["--port", &port])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    (Agent(child), card, name)
}

async fn the_main_job(us: &Http, eu: &Http) {
    let folder = tempfile::tempdir().unwrap();
    for generation in &GENERATIONS {
        let (agent, card, name) = run_agent(generation, us.base(), folder.path());
        let path = format!("/v1/agents/a2a/{name}/.well-known/agent-card.json");
        let served = eventually("the card is served in eu-west", Duration::from_secs(20), || async {
            let answer = eu.send("GET", &path, &[], None).await?;
            if answer.status == 200 { Ok(answer.bytes) } else { Err(answer.status.to_string()) }
        })
        .await;
        assert_eq!(served, std::fs::read(&card).unwrap(), "byte for byte as registered");
        for (flag, word) in [("--skill", "translate"), ("--capability", "text:translate:v1")] {
            let heard = eventually("the stock caller gets its answer", Duration::from_secs(20), || async {
                let caller = Command::new(python(generation.card))
                    .arg(example().join("caller.py"))
                    .args([
                        "--rollcall",
                        eu.base(),
                        "--region",
                        "us-east",
                        "--name",
                        &name,
                        flag,
                        word,
                        "--text",
                        "hello",
                    ])
                    .output()
                    .map_err(|error| error.to_string())?;
                let said = String::from_utf8_lossy(&caller.stdout).trim().to_owned();
                if caller.status.success() {
                    Ok(said)
                } else {
                    Err(String::from_utf8_lossy(&caller.stderr).into_owned())
                }
            })
            .await;
            assert_eq!(heard, generation.says);
        }
        assert_eq!(agent.end(), Some(0), "the agent ends cleanly and so does rollcall run");
        let id = format!("/v1/agents/a2a/{name}/1?region=us-east");
        eventually("it deregistered", Duration::from_secs(20), || async {
            match eu.send("GET", &id, &[], None).await?.status {
                404 => Ok(()),
                other => Err(other.to_string()),
            }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stock_a2a_agents_meet_across_regions_on_rollcall_dev() {
    let dev = Dev::start(&["--agents", "0"]);
    the_main_job(&dev.cell("us-east"), &dev.cell("eu-west")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stock_a2a_agents_meet_across_regions_on_real_etcd_and_kafka() {
    let regions = Regions::shared();
    the_main_job(&regions.cell("us-east"), &regions.cell("eu-west")).await;
}
