//! A soak: registrations, renewals, words and deregistrations without end on a real etcd, and what they leave behind.
//!
//! Promises a verdict on sizes that must level off (I49, I25): of etcd's file and what is used of it, its keys, and each
//! cell process's memory, descriptors, threads and tasks, looked at from outside but for the tasks. `planted` leaks on
//! purpose, and must be seen. Never here: a fault; what must hold under faults is the scenarios' affair.

mod sizes;

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rollcall_tests::agents::agent;
use rollcall_tests::http::Http;
use rollcall_tests::stage::{Shape, Stage};
use serde_json::json;

use self::sizes::{KINDS, Sizes, judge};
use crate::timeline::Timeline;

/// The verb.
pub const VERB: &str = "soak";
/// What it shows.
pub const SHOWS: &str = "churn for minutes or hours leaves nothing behind: [MINUTES] [planted]";
/// How long it runs when nothing is said: three histories of what is kept, twice.
const MINUTES: u64 = 3;
/// Seconds of history that the keeper keeps here: the default would not be over in a short run.
const HISTORY: u64 = 20;
/// Owners, each with a few instances of its own.
const OWNERS: u64 = 24;
/// Instances of one owner.
const EACH: u64 = 25;
/// The least a run must have done in a second, or it was too quiet to prove anything.
const WRITES_LEAST: usize = 20;
/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Leaks of a planted run in a second.
const LEAKS: u64 = 20;

/// What it is called with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// How long.
    pub time: Duration,
    /// Whether something is leaked on purpose.
    pub planted: bool,
}

impl Plan {
    /// From `[MINUTES] [planted]`.
    ///
    /// # Errors
    /// What is wrong with the words.
    pub fn parse(words: &[String]) -> Result<Self, String> {
        let mut plan = Self { time: Duration::from_secs(MINUTES * 60), planted: false };
        for word in words {
            match word.parse::<u64>() {
                Ok(minutes @ 1..=1_440) => plan.time = Duration::from_secs(minutes * 60),
                Err(_) if word == "planted" => plan.planted = true,
                Ok(_) | Err(_) => {
                    return Err(format!("usage: {VERB} [MINUTES] [planted]; {word:?} is neither"));
                }
            }
        }
        Ok(plan)
    }
}

/// What was seen.
#[derive(Clone, Debug)]
pub struct Report {
    /// For people.
    pub text: String,
    /// What does not level off, or was too quiet.
    pub broken: Vec<String>,
}

/// Runs it; `say` hears how it goes.
///
/// # Panics
/// When the region does not start.
pub async fn run(plan: Plan, say: impl Fn(&str)) -> Report {
    let settings = format!(
        "history_seconds = {HISTORY}\n\n[guard]\nprobe = false\n\n[admission]\naddress_share = \"whole\"\n"
    );
    let mut stage = Stage::up(&Shape { settings, ..Shape::default() }).await;
    let timeline = Timeline::begin();
    let stopped = Arc::new(AtomicBool::new(false));
    let done: Arc<[AtomicUsize; 4]> = Arc::default();
    let mut owners = tokio::task::JoinSet::new();
    for n in 0..OWNERS {
        owners.spawn(own(n, stage.urls(), Arc::clone(&stopped), Arc::clone(&done)));
    }
    let mut looks: Vec<Sizes> = Vec::new();
    let mut leaked = Vec::new();
    let mut every = tokio::time::interval(LOOK_EVERY);
    while timeline.now() < plan.time {
        every.tick().await;
        if plan.planted {
            leak(&stage, &mut leaked).await;
        }
        match Sizes::of(&mut stage, timeline.now()).await {
            Ok(sizes) => {
                if looks.len().is_multiple_of(10) {
                    say(&sizes.line());
                }
                looks.push(sizes);
            }
            Err(why) => say(&format!("not looked at: {why}")),
        }
    }
    stopped.store(true, Ordering::Relaxed);
    while owners.join_next().await.is_some() {}
    let counts: Vec<usize> = done.iter().map(|count| count.load(Ordering::Relaxed)).collect();
    tell(plan, &looks, &counts)
}

fn tell(plan: Plan, looks: &[Sizes], counts: &[usize]) -> Report {
    let mut text = format!("soak of {} min: what churn leaves behind\n", plan.time.as_secs() / 60);
    let [registered, renewed, said, deregistered] = counts else {
        return Report { text, broken: vec!["quiet: nothing was counted".to_owned()] };
    };
    let _ = writeln!(
        text,
        "  {registered} registrations, {renewed} renewals, {said} words, {deregistered} deregistrations, {} looks",
        looks.len()
    );
    let mut broken = Vec::new();
    let writes = registered + said + deregistered;
    let least = WRITES_LEAST * usize::try_from(plan.time.as_secs()).unwrap_or(usize::MAX);
    if writes < least {
        broken.push(format!("quiet: {writes} writes, and {least} are needed"));
    }
    for kind in &KINDS {
        let judged = judge(kind, looks);
        let _ = writeln!(text, "  {}", judged.line);
        broken.extend(judged.broken);
    }
    for words in &broken {
        let _ = writeln!(text, "  BROKEN {words}");
    }
    let _ = writeln!(text, "{}", if broken.is_empty() { "held" } else { "broken" });
    Report { text, broken }
}

/// One owner: registers, renews, speaks and takes back, and now and then leaves one to lapse.
async fn own(n: u64, urls: Vec<String>, stopped: Arc<AtomicBool>, done: Arc<[AtomicUsize; 4]>) {
    let cells: Vec<Http> = urls.iter().map(|url| Http::new(url.clone())).collect();
    let mut chance = StdRng::seed_from_u64(n);
    let count = |at: usize| done[at].fetch_add(1, Ordering::Relaxed);
    while !stopped.load(Ordering::Relaxed) {
        let id = format!("chaos/soak/{n}-{}", chance.random_range(0..EACH));
        let http = &cells[chance.random_range(0..cells.len())];
        let mut body = agent(&id, "chaos:act:v1");
        body["lease_seconds"] = json!(5);
        let Ok(registered) = http.register(&body).await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        count(0);
        let epoch = registered["epoch"].as_str().unwrap_or_default().to_owned();
        let tag = format!("\"{epoch}\"");
        for turn in 0..3 {
            if http.renew(&id, &epoch).await.is_ok_and(|answer| answer.status == 200) {
                count(1);
            }
            let word = json!({ "metadata": { "said": turn.to_string() } }).to_string();
            let path = format!("/v1/registrations/{id}");
            let said = http.send("PATCH", &path, &[("if-match", &tag)], Some(&word)).await;
            if said.is_ok_and(|answer| answer.status == 200) {
                count(2);
            }
        }
        let stays = chance.random_bool(0.05);
        if !stays && http.deregister(&id, &epoch).await.is_ok_and(|answer| answer.status == 204) {
            count(3);
        }
    }
}

/// Keys in the store that nobody takes back, and connections that nobody closes.
async fn leak(stage: &Stage, leaked: &mut Vec<tokio::net::TcpStream>) {
    let address = stage.urls()[0].trim_start_matches("http://").to_owned();
    for n in 0..LEAKS * LOOK_EVERY.as_secs() {
        if let Ok(stream) = tokio::net::TcpStream::connect(&address).await {
            leaked.push(stream);
        }
        if n % 4 == 0 {
            let key = format!("rollcall/leak/{}", leaked.len());
            let _ = stage.etcd.ctl(0, &["put", &key, "x"]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_is_called_with_is_read_or_refused() {
        let parse =
            |words: &[&str]| Plan::parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
        assert_eq!(parse(&[]), Ok(Plan { time: minutes(3), planted: false }));
        assert_eq!(parse(&["60", "planted"]), Ok(Plan { time: minutes(60), planted: true }));
        assert!(parse(&["0"]).is_err() && parse(&["long"]).is_err());
    }
}
