//! Faults of an agent's own process, with the SDK in it.

use std::time::Duration;

use rollcall_tests::http::Http;
use rollcall_tests::paths;
use rollcall_tests::process::{COMPANION, Process};
use serde_json::json;

use super::{Scenario, scenario};
use crate::game::Game;

const ID: &str = "chaos/paused/agent";
const OWN: &str = "http://127.0.0.1:9/own";
const OTHER: &str = "http://127.0.0.1:9/replacement";

pub(super) fn all() -> Vec<Scenario> {
    vec![scenario(
        "agent-paused",
        "F14",
        "an agent that wakes after its replacement takes nothing back, and returns as an instance of its own",
        |game| Box::pin(paused(game)),
    )]
}

async fn paused(game: &mut Game) {
    let urls = game.stage.urls();
    let http = Http::new(urls[0].clone());
    let lease = game.size.lease.as_secs().to_string();
    // The SDK takes one address here: this cell keeps the leases or not, and a client must live with either.
    let keeper = game.stage.keeper().unwrap_or_default();
    let arguments = ["run", "--url", &urls[keeper], "--id", ID, "--endpoint", OWN, "--lease", &lease, "--"];
    let arguments = arguments.iter().chain(&COMPANION).map(|&word| word.to_owned()).collect();
    let folder = game.stage.folder().to_owned();
    let agent = Process::start("agent", &folder, paths::rollcall(), arguments, &[]);
    let first = wait_for(game, &http, "the agent is registered", |found| found.contains_key(ID)).await;
    game.flow(Duration::from_secs(3)).await;
    agent.pause();
    game.landed("paused the agent");
    wait_for(game, &http, "its lease lapsed and it is gone", |found| !found.contains_key(ID)).await;
    let body = json!({"id": ID, "endpoints": [{"url": OTHER}], "lease_seconds": 60});
    let replacement = http.register(&body).await.expect("the replacement registers");
    game.note(format!("the replacement has epoch {}", replacement["epoch"]));
    agent.resume();
    game.note("the agent goes on");
    let found = wait_for(game, &http, "the agent is back under another id", |found| found.len() == 2).await;
    let held = found.get(ID).cloned().unwrap_or_default();
    game.demand(held.1 == OTHER, format!("I02: {ID} shows {held:?} and not its replacement"));
    let own = found.iter().find(|(id, _)| *id != ID).map(|(_, own)| own.clone()).unwrap_or_default();
    let before = first.get(ID).map_or(0, |(epoch, _)| *epoch);
    game.demand(own.1 == OWN && own.0 > before, format!("F14: the agent came back as {own:?}"));
    game.flow(game.size.lease * 2).await;
    let found = agents(&http).await.unwrap_or_default();
    game.demand(found.len() == 2, format!("F14: two leases later there are {found:?}"));
    drop(agent);
}

type Found = std::collections::BTreeMap<String, (u64, String)>;

async fn agents(http: &Http) -> Result<Found, String> {
    let answer = http.get("/v1/agents?namespace=chaos&name=paused").await?;
    let agents = answer["agents"].as_array().ok_or("no agents")?;
    let facts = |agent: &serde_json::Value| {
        let epoch = agent["epoch"].as_str().and_then(|epoch| epoch.parse().ok()).unwrap_or_default();
        let url = agent["endpoints"][0]["url"].as_str().unwrap_or_default().to_owned();
        (agent["id"].as_str().unwrap_or_default().to_owned(), (epoch, url))
    };
    Ok(agents.iter().map(facts).collect())
}

async fn wait_for(game: &mut Game, http: &Http, what: &str, is: impl Fn(&Found) -> bool) -> Found {
    let within = Duration::from_secs(30);
    let began = game.timeline.now();
    loop {
        let found = agents(http).await.unwrap_or_default();
        if is(&found) {
            game.note(format!("{what}: {found:?}"));
            return found;
        }
        if game.timeline.now() - began > within {
            game.demand(false, format!("F14: not within {within:?}: {what}; there are {found:?}"));
            return found;
        }
        game.flow(Duration::from_millis(100)).await;
    }
}
