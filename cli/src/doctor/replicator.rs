//! The checks of a replicator.

use serde_json::Value;

use super::Asked;
use super::check::{Check, build, copies, part_of, said};
use crate::table::{cell, counted, seconds};

/// `region` is that of the cell, where one answered: its replicator is of the same.
pub(super) fn judge(asked: &Asked, region: Option<&str>) -> Vec<Check> {
    let url = &asked.url;
    let answers = match &asked.answers {
        Ok(answers) => answers,
        Err(failure) => {
            let next = "start it with `rollcall replicator`, or name its HTTP address, [listen] http";
            return vec![Check::fail("replicator", said(failure), next)];
        }
    };
    if answers.version.get("role").and_then(Value::as_str) != Some("replicator") {
        let next = "name a replicator's HTTP address, [listen] http of its file";
        return vec![Check::fail("replicator", format!("what answers at {url} is no replicator"), next)];
    }
    let of = cell(answers.version.get("region"));
    let mut checks = vec![
        match region.filter(|region| *region != of) {
            None => Check::ok("replicator", format!("{url} answers, the replicator of region {of}")),
            Some(region) => Check::fail(
                "replicator",
                format!("{url} is the replicator of region {of}, and the cell is of region {region}"),
                format!("name the replicator of {region}, or the cell of {of} with --url"),
            ),
        },
        build("replicator version", &answers.version),
    ];
    let text = match &answers.ready {
        Ok(text) => text.clone(),
        // It is in the body of the refusal as well.
        Err(failure) => failure.body.clone().unwrap_or_default(),
    };
    match &answers.ready {
        Ok(_) => checks.push(Check::ok("replicator ready", "it serves its views")),
        Err(_) => {
            let waiting = text.lines().filter_map(|line| line.strip_prefix("waiting for "));
            let detail = format!("it waits for {}", waiting.collect::<Vec<_>>().join(", "));
            checks.push(Check::fail(
                "replicator ready",
                detail,
                "see that the log, [[follow]], is up and reached",
            ));
        }
    }
    checks.extend(text.lines().filter_map(publisher));
    checks.extend(text.lines().filter_map(topic));
    checks.extend(copies("replicator ", text.lines().filter_map(part_of).collect()));
    let regions = answers.regions.as_ref().ok().and_then(|regions| regions.get("regions")?.as_array());
    checks.extend(regions.into_iter().flatten().map(followed));
    checks
}

/// What to do about a cell's view of a region that is old or was never loaded, as far as these replicators can tell, in the
/// order in which a change travels.
///
/// `source` is what the cell says of where it takes the view from.
pub(super) fn advice(region: &str, source: Option<&str>, replicators: &[Asked]) -> String {
    if replicators.is_empty() {
        if let Some((url, _)) = source.and_then(|said| said.split_once(" fails: ")) {
            return format!(
                "start the replicator whose [listen] grpc is {url}, or correct `source` of the [[view]] of {region} in the \
                 cell's file; it goes on by itself then"
            );
        }
        return format!(
            "name the replicator that [[view]] takes it from as well, by its [listen] http: `rollcall doctor --replicator \
             URL` looks whether the copy of {region} is old there too"
        );
    }
    let answers = replicators.iter().filter_map(|asked| Some((&asked.url, asked.answers.as_ref().ok()?)));
    let mut views = answers.filter_map(|(url, answers)| {
        let regions = answers.regions.as_ref().ok()?.get("regions")?.as_array()?;
        let is_it = |view: &&Value| view.get("region").and_then(Value::as_str) == Some(region);
        Some((url, regions.iter().find(is_it)?.get("state")?.as_str()?))
    });
    match views.find(|(_, state)| *state == "current") {
        Some((url, _)) => format!(
            "{url} has it, current: see that `source` of its [[view]] in the cell's file is the [listen] grpc of that \
             replicator, and that the cell reaches it there; the cell's log says what it was told"
        ),
        None => "it does not come as far as to the replicator: see the lines of that".to_owned(),
    }
}

/// `publisher us-east: publishing`, or `starting`, or `waiting:` and for what.
fn publisher(line: &str) -> Option<Check> {
    let (_, state) = line.strip_prefix("publisher ")?.split_once(": ")?;
    Some(match state.strip_prefix("waiting: ") {
        None => Check::ok("publisher", state),
        Some(why) => Check::fail(
            "publisher",
            why,
            "until that is there other regions see this one grow old; it goes on by itself",
        ),
    })
}

/// `topic feed.us-east.v1: retention.ms is 1000, not 86400000`: what of a topic is not as it would be created.
fn topic(line: &str) -> Option<Check> {
    let (topic, drift) = line.strip_prefix("topic ")?.split_once(": ")?;
    let next = "change it on the brokers if it was not meant; infra/kafka/topics.toml says why it is so";
    Some(Check::warn(format!("topic {topic}"), drift, next))
}

fn followed(region: &Value) -> Check {
    let member = |name: &str| cell(region.get(name));
    let name = format!("replicator view {}", member("region"));
    let next = format!(
        "see that the log that [[follow]] names for it is up and reached; then ask where it comes from, with the addresses of \
         {0}: `rollcall doctor --url CELL --replicator REPLICATOR` tells whether {0} publishes",
        member("region")
    );
    let detail = match member("state").as_str() {
        "not_loaded" => "never loaded: nothing is known of it".to_owned(),
        state => {
            let agents = counted(&member("count"), "agent");
            format!("{state}, {} old, {agents}", seconds(region.get("age_ms")))
        }
    };
    match member("state").as_str() {
        "current" => Check::ok(name, detail),
        "behind" => Check::warn(name, detail, next),
        _ => Check::fail(name, detail, next),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::doctor::Answers;
    use crate::doctor::check::Verdict;
    use crate::exit::Exit;
    use crate::http::Failure;

    fn judged(ready: Result<String, Failure>, state: &str) -> Vec<(String, Verdict)> {
        judged_beside(Some("us"), ready, state)
    }

    fn judged_beside(
        cell: Option<&str>,
        ready: Result<String, Failure>,
        state: &str,
    ) -> Vec<(String, Verdict)> {
        let answers = Answers {
            took: Duration::ZERO,
            clocks: None,
            version: json!({"version": env!("CARGO_PKG_VERSION"), "commit": crate::COMMIT, "region": "us", "role": "replicator"}),
            ready,
            regions: Ok(
                json!({"regions": [{"region": "eu", "role": "view", "state": state, "age_ms": 5, "count": 1}]}),
            ),
            guard: Ok(Value::Null),
        };
        let checks = judge(&Asked { url: "http://h:1".into(), answers: Ok(answers) }, cell);
        checks.into_iter().map(|check| (check.name, check.verdict)).collect()
    }

    #[test]
    fn a_view_that_is_old_is_followed_to_where_it_stops_and_nobody_is_sent_in_a_circle() {
        let replicator = |state: &str| {
            let regions = json!({"regions": [{"region": "eu", "role": "view", "state": state}]});
            let answers = Answers {
                took: Duration::ZERO,
                clocks: None,
                version: Value::Null,
                ready: Ok(String::new()),
                regions: Ok(regions),
                guard: Ok(Value::Null),
            };
            Asked { url: "http://h:1".into(), answers: Ok(answers) }
        };
        let silent = || {
            let failure = Failure { exit: Exit::Unavailable, body: None, words: "nobody".into() };
            Asked { url: "http://h:2".into(), answers: Err(failure) }
        };
        let asks = "--replicator";
        assert!(advice("eu", None, &[]).contains(asks));
        assert!(advice("eu", Some("http://h:1 answers and has not loaded it either"), &[]).contains(asks));
        let away = advice("eu", Some("http://h:1 fails: refused"), &[]);
        assert!(away.starts_with("start the replicator whose [listen] grpc is http://h:1, or"), "{away}");
        for (asked, words) in [
            (vec![silent(), replicator("current")], "http://h:1 has it, current: see that `source`"),
            (vec![replicator("stale")], "see the lines of that"),
            (vec![replicator("not_loaded"), silent()], "see the lines of that"),
            (vec![silent()], "see the lines of that"),
        ] {
            let advice = advice("eu", Some("http://h:1 fails: refused"), &asked);
            assert!(advice.contains(words) && !advice.contains(asks), "{advice}");
        }
    }

    fn unwell(checks: Vec<(String, Verdict)>) -> Vec<(String, Verdict)> {
        checks.into_iter().filter(|(_, verdict)| *verdict != Verdict::Ok).collect()
    }

    #[test]
    fn a_replicator_that_publishes_and_follows_is_well() {
        let text = "view eu: current, age 5 ms\npublisher us: publishing\nready\n";
        let checks = judged(Ok(text.into()), "current");
        let names: Vec<_> = checks.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            ["replicator", "replicator version", "replicator ready", "publisher", "replicator view eu"]
        );
        assert_eq!(unwell(checks), []);
    }

    #[test]
    fn a_replicator_of_another_region_than_the_cells_is_a_failure() {
        let text = "view eu: current, age 5 ms\npublisher us: publishing\nready\n";
        let beside = |cell| unwell(judged_beside(cell, Ok(text.into()), "current"));
        assert_eq!(beside(Some("eu")), [("replicator".to_owned(), Verdict::Fail)]);
        assert_eq!(beside(None), [], "nothing is known of a cell that does not answer");
    }

    #[test]
    fn what_it_waits_for_is_a_failure_by_name() {
        let text = "publisher us: waiting: the cell at http://h:2 cannot be reached: x\nready\n";
        let fail = |name: &str| (name.to_owned(), Verdict::Fail);
        assert_eq!(unwell(judged(Ok(text.into()), "current")), [fail("publisher")]);
        let drifts = "publisher us: publishing\ntopic feed.us.v1: retention.ms is 1, not 86400000\nready\n";
        let warn = ("topic feed.us.v1".to_owned(), Verdict::Warn);
        assert_eq!(unwell(judged(Ok(drifts.into()), "current")), [warn]);
        let unsaved = "publisher us: publishing\ncopy of eu (not needed to be ready): not written: /d: full: make room\nready\n";
        let warn = ("replicator copy of eu".to_owned(), Verdict::Warn);
        assert_eq!(unwell(judged(Ok(unsaved.into()), "current")), [warn]);
        let body = Some("view eu: not_loaded, age -\nwaiting for view eu\nnot ready\n".to_owned());
        let refused = Failure { exit: Exit::Unavailable, body, words: "refused (503)".into() };
        assert_eq!(
            unwell(judged(Err(refused), "not_loaded")),
            [fail("replicator ready"), fail("replicator view eu")]
        );
    }
}
