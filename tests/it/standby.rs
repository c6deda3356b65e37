//! Two replicators of one region, each a process of its own: one publishes, the other waits for it to fail.

use std::time::Duration;

use rollcall_tests::agents::agent;
use rollcall_tests::eventually::eventually;
use rollcall_tests::http::Http;
use rollcall_tests::paths;
use rollcall_tests::process::Process;
use rollcall_tests::regions::Regions;

const SOON: Duration = Duration::from_secs(60);

/// A second replicator of us-east, beside the one of the script: its settings with other ports and another folder.
fn second(regions: &Regions, port: u16) -> Process {
    let folder = regions.run_dir().join("us-east/second");
    std::fs::create_dir_all(&folder).expect("a folder");
    let first = regions.run_dir().join("us-east/replicator/replicator.toml");
    let first = std::fs::read_to_string(first).expect("the first one's settings");
    let mut text = String::new();
    for line in first.lines() {
        let line = match line.split(" = ").next() {
            Some("data_dir") => format!("data_dir = {:?}", folder.join("data").display().to_string()),
            Some("grpc") => format!("grpc = \"127.0.0.1:{}\"", port + 1),
            Some("http") => format!("http = \"127.0.0.1:{port}\""),
            _ => line.to_owned(),
        };
        text.push_str(&line);
        text.push('\n');
    }
    let file = folder.join("replicator.toml");
    std::fs::write(&file, text).expect("written");
    let arguments = vec!["replicator".to_owned(), "--config".to_owned(), file.display().to_string()];
    Process::start("second", &folder, paths::rollcall(), arguments, &[])
}

/// Lets the cell of us-east take its views from either of the two.
fn follow_both(regions: &Regions, port: u16) {
    let file = regions.run_dir().join("us-east/cell/cell.toml");
    let text = std::fs::read_to_string(&file).expect("the cell's settings");
    let line = |line: &str| match line.strip_prefix("source = \"") {
        Some(first) => {
            format!("source = \"{},http://127.0.0.1:{}\"\n", first.trim_end_matches('"'), port + 1)
        }
        None => format!("{line}\n"),
    };
    std::fs::write(&file, text.lines().map(line).collect::<String>()).expect("written");
    for verb in ["stop", "start", "wait"] {
        regions.control(verb, "us-east/cell").expect("the cell starts again");
    }
}

async fn is_current(cell: &Http, region: &str) {
    eventually(&format!("{} sees {region} as current", cell.base()), SOON, || async {
        let regions = cell.get("/v1/regions").await?;
        let view = regions["regions"].as_array().into_iter().flatten().find(|view| view["region"] == region);
        match view {
            Some(view) if view["state"] == "current" => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

async fn says(replicator: &Http, state: &str) {
    let line = format!("publisher us-east: {state}");
    eventually(&line, SOON, || async {
        let answer = replicator.send("GET", "/readyz?verbose", &[], None).await?;
        let text = String::from_utf8_lossy(&answer.bytes).into_owned();
        if text.contains(&line) { Ok(()) } else { Err(text) }
    })
    .await;
}

/// What is written in us-east now is seen in eu-west, which is current and never had to begin anew.
async fn reaches(us: &Http, eu: &Http, id: &str) {
    us.register(&agent(id, "a:b:v1")).await.expect("the cell takes it");
    eventually(&format!("eu-west has {id} and is current"), SOON, || async {
        let list = eu.get("/v1/agents?region=us-east&namespace=standby").await?;
        let is_there = list["agents"].as_array().is_some_and(|agents| agents.iter().any(|a| a["id"] == id));
        let regions = eu.get("/v1/regions").await?;
        let view = regions["regions"].as_array().into_iter().flatten().find(|r| r["region"] == "us-east");
        let view = view.cloned().unwrap_or_default();
        if is_there && view["state"] == "current" { Ok(()) } else { Err(view.to_string()) }
    })
    .await;
}

#[tokio::test]
async fn a_standby_goes_on_when_the_publisher_is_killed_and_when_it_is_frozen() {
    let regions = Regions::up(Some("kafka,us-east,eu-west"));
    let (us, eu) = (regions.cell("us-east"), regions.cell("eu-west"));
    let port = rollcall_tests::regions::free_base_port();
    let first = Http::new(us.base().rsplit_once(':').map_or_else(String::new, |(host, at)| {
        format!("{host}:{}", at.parse::<u16>().expect("a port") + 101)
    }));
    let beside = Http::new(format!("http://127.0.0.1:{port}"));
    reaches(&us, &eu, "standby/mail/0").await;
    let mut second = second(&regions, port);
    follow_both(&regions, port);
    says(&beside, "standing by").await;
    let resynced = resyncs(&eu).await;

    regions.control("kill", "us-east/replicator").expect("killed");
    reaches(&us, &eu, "standby/mail/1").await;
    says(&beside, "publishing").await;
    is_current(&us, "eu-west").await;

    // Who was killed finds the other at work.
    regions.control("start", "us-east/replicator").expect("started");
    says(&first, "standing by").await;
    reaches(&us, &eu, "standby/mail/2").await;

    second.pause();
    reaches(&us, &eu, "standby/mail/3").await;
    says(&first, "publishing").await;

    // Who was frozen goes on as if nothing had been: both publish for a while, and then one of them.
    second.resume();
    for n in 4..40 {
        us.register(&agent(&format!("standby/mail/{n}"), "a:b:v1")).await.expect("the cell takes it");
    }
    reaches(&us, &eu, "standby/mail/40").await;
    eventually("one publishes and one stands by", SOON, || async {
        let mut texts = Vec::new();
        for replicator in [&first, &beside] {
            let answer = replicator.send("GET", "/readyz?verbose", &[], None).await?;
            texts.push(String::from_utf8_lossy(&answer.bytes).into_owned());
        }
        let standing = texts.iter().filter(|text| text.contains("publisher us-east: standing by")).count();
        let publishing = texts.iter().filter(|text| text.contains("publisher us-east: publishing")).count();
        if (standing, publishing) == (1, 1) { Ok(()) } else { Err(texts.join("\n")) }
    })
    .await;
    reaches(&us, &eu, "standby/mail/41").await;
    assert_eq!(resyncs(&eu).await, resynced, "everything came by delta");
    second.kill();
}

/// When and why eu-west last took us-east whole.
async fn resyncs(eu: &Http) -> serde_json::Value {
    let regions = eu.get("/v1/regions").await.expect("the list");
    let view = regions["regions"].as_array().into_iter().flatten().find(|r| r["region"] == "us-east");
    view.expect("followed")["last_resync"].clone()
}
