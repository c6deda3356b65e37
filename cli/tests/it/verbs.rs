use std::net::TcpListener;
use std::process::Command;

use std::io::{Read as _, Write as _};

use crate::process::{Dev, Process, eventually, rollcall, say};

#[test]
fn a_registration_lives_from_register_to_deregister() {
    let dev = Dev::start(&["--agents", "0"]);
    let url = dev.urls[0].as_str();
    let line = [
        "register",
        "--id",
        "ops/mail",
        "--endpoint",
        "http://h:1/x",
        "--capability",
        "email:send:v1",
        "--zone",
        "a",
    ];
    let registered =
        say(url, &[&line[..], &["--metadata", "team=x", "--lease", "60", "-o", "json"]].concat());
    assert_eq!(registered.code, Some(0), "{registered:?}");
    let body = registered.json();
    let (id, epoch) = (body["id"].as_str().expect("an id"), body["epoch"].as_str().expect("an epoch"));
    assert!(id.starts_with("ops/mail/"), "{id}");
    assert_eq!(body["lease_seconds"], 60);

    let table = say(url, &["agents", "--capability", "email:send:v1", "--metadata", "team=x"]);
    assert_eq!(table.code, Some(0), "{table:?}");
    assert!(table.stdout.starts_with("ID ") && table.stdout.contains(id), "{table:?}");
    let other = say(url, &["agents", "--metadata", "team=y"]);
    assert!(!other.stdout.contains(id), "{other:?}");
    assert!(other.stderr.contains("no agent fits"), "{other:?}");
    let agent = say(url, &["agent", id]);
    assert!(agent.stdout.contains("http://h:1/x"), "{agent:?}");

    let renewed = say(url, &["renew", id, "--epoch", epoch, "-o", "json"]);
    assert_eq!((renewed.code, &renewed.json()["lease_seconds"]), (Some(0), &serde_json::json!(60)));
    let gone = say(url, &["deregister", id, "--epoch", epoch, "-o", "json"]);
    assert_eq!((gone.code, gone.stdout.as_str()), (Some(0), "{}\n"), "{gone:?}");
    let removals = say(url, &["removals", "--id", id, "-o", "json"]).json();
    assert_eq!(removals["removals"][0]["reason"], "deregistered", "{removals}");
    assert_eq!(say(url, &["agent", id]).code, Some(3));
    assert_eq!(dev.stop().code, Some(0));
}

#[test]
fn refusals_end_with_their_code_and_give_their_body() {
    let dev = Dev::start(&["--agents", "0", "--regions", "solo"]);
    let url = dev.urls[0].as_str();
    let register = ["register", "--id", "a/b/c", "--endpoint", "http://h:1/", "-o", "json"];
    let first = say(url, &register).json()["epoch"].as_str().expect("an epoch").to_owned();
    let second = say(url, &register).json()["epoch"].as_str().expect("an epoch").to_owned();
    assert_ne!(first, second);
    for (line, code, problem) in [
        (&["renew", "a/b/c", "--epoch", &first][..], 4, "superseded"),
        (&["deregister", "a/b/c", "--epoch", &first], 4, "superseded"),
        (&["renew", "a/b/d", "--epoch", &first], 3, "not_registered"),
        (
            &["register", "--id", "a/b/c", "--endpoint", "http://h:1/", "--capability", "email.send"],
            2,
            "invalid_capability",
        ),
        (&["register", "--id", "A/b/c", "--endpoint", "http://h:1/"], 2, "invalid_id"),
        (&["agents", "--region", "nowhere"], 2, "invalid_parameter"),
        (&["agents", "--limit", "many"], 2, "invalid_parameter"),
        (&["agent", "a/b/d"], 3, "not_found"),
    ] {
        let json = say(url, &[line, &["-o", "json"]].concat());
        assert_eq!(json.code, Some(code), "{line:?}: {json:?}");
        assert_eq!(json.json()["code"], problem, "{line:?}: {json:?}");
        let table = say(url, line);
        assert_eq!((table.code, table.stdout.as_str()), (Some(code), ""), "{line:?}: {table:?}");
        assert!(
            table.stderr.starts_with("refused (") && table.stderr.contains(problem),
            "{line:?}: {table:?}"
        );
    }
    // What this program judges itself is told in the same form.
    for (line, code) in
        [(&["agent", "bad"][..], "invalid_id"), (&["renew", "a/b/c", "--epoch", "abc"], "invalid_epoch")]
    {
        let json = say(url, &[line, &["-o", "json"]].concat());
        assert_eq!((json.code, &json.json()["code"]), (Some(2), &code.into()), "{line:?}: {json:?}");
        let table = say(url, line);
        assert_eq!((table.code, table.stdout.as_str()), (Some(2), ""), "{line:?}: {table:?}");
        assert!(!table.stderr.contains("If-Match"), "{table:?}");
    }
    assert_eq!(dev.stop().code, Some(0));
}

#[test]
fn no_connection_ends_with_5_and_a_sentence() {
    let port =
        TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port").port();
    let url = format!("http://127.0.0.1:{port}");
    for line in [
        &["regions"][..],
        &["watch"],
        &["agents"],
        &["agent", "a/b/c"],
        &["resolve"],
        &["removals"],
        &["renew", "a/b/c", "--epoch", "1"],
        &["deregister", "a/b/c", "--epoch", "1"],
        &["guard"],
        &["guard", "release", "a/b/c"],
        &["evict", "a/b/c", "--reason", "x"],
        &["mute", "a/b/c", "--seconds", "1"],
        &["register", "--id", "a/b", "--endpoint", "http://h:1/"],
    ] {
        let json = say(&url, &[line, &["-o", "json"]].concat());
        assert_eq!((json.code, json.stdout.as_str()), (Some(5), "{}\n"), "{line:?}: {json:?}");
        assert!(json.stderr.contains(&url) && json.stderr.contains("rollcall dev"), "{line:?}: {json:?}");
    }
}

#[test]
fn a_process_says_which_commit_it_is_made_from() {
    let mut command = rollcall();
    command.arg("--version");
    let printed = Process::start(command).end().stdout;
    let dev = Dev::start(&["--agents", "0", "--regions", "solo"]);
    let mut curl = Command::new("curl");
    curl.args(["-sf", &format!("{}/version", dev.urls[0])]);
    let version = Process::start(curl).end().json();
    let (number, commit) =
        (version["version"].as_str().expect("text"), version["commit"].as_str().expect("text"));
    assert_eq!(printed, format!("rollcall {number} ({commit})\n"));
    // Of a clone its commit, of anything else why there is none.
    let is_commit = commit.len() >= 7 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    assert!(
        is_commit || commit.starts_with("unknown (built ") || option_env!("ROLLCALL_COMMIT").is_some(),
        "{commit}"
    );
    let mut git = Command::new("git");
    git.args(["-C", env!("CARGO_MANIFEST_DIR"), "cat-file", "-t", commit]);
    assert!(
        !is_commit || Process::start(git).end().stdout == "commit\n",
        "{commit} is no commit of this clone"
    );
}

#[test]
fn the_environment_names_the_cell_and_the_flag_wins() {
    let dev = Dev::start(&["--agents", "0", "--regions", "solo"]);
    let mut command = rollcall();
    command.env("ROLLCALL_URL", &dev.urls[0]).args(["regions", "-o", "json"]);
    assert_eq!(Process::start(command).end().json()["regions"][0]["region"], "solo");
    let mut command = rollcall();
    command.env("ROLLCALL_URL", "http://127.0.0.1:1").args(["regions", "--url", &dev.urls[0]]);
    assert_eq!(Process::start(command).end().code, Some(0));
}

#[test]
fn resolve_tells_whom_to_call_and_if_nobody_why() {
    let dev = Dev::start(&["--agents", "0", "--regions", "us,eu"]);
    let (us, eu) = (dev.urls[0].as_str(), dev.urls[1].as_str());
    assert_eq!(say(us, &["register", "--id", "a/b/c", "--endpoint", "http://h:1/"]).code, Some(0));
    let other = eventually("the other region fails over", || {
        let other = say(eu, &["resolve", "--name", "b", "-o", "json"]).json();
        (other["outcome"] == "found").then_some(other)
    });
    assert_eq!(
        (&other["candidates"][0]["id"], &other["candidates"][0]["region"]),
        (&"a/b/c".into(), &"us".into())
    );
    let table = say(us, &["resolve", "--name", "b", "--policy", "round_robin"]);
    assert_eq!(table.code, Some(0), "{table:?}");
    assert!(table.stdout.contains("\na/b/c  us ") && table.stderr.is_empty(), "{table:?}");
    let nobody = say(eu, &["resolve", "--name", "b", "--residency", "eu"]);
    assert_eq!(nobody.code, Some(0), "{nobody:?}");
    assert!(nobody.stderr.contains("nobody who fits"), "{nobody:?}");
    let refused = say(us, &["resolve", "--policy", "sticky"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("needs affinity_key"), "{refused:?}");
}

#[test]
fn res_05_a_capability_that_nobody_has_is_told_apart_from_one_that_nobody_has_here() {
    let dev = Dev::start(&["--agents", "0", "--regions", "us,eu"]);
    let (us, eu) = (dev.urls[0].as_str(), dev.urls[1].as_str());
    let line = ["register", "--id", "a/b/c", "--endpoint", "http://h:1/", "--capability", "email:send:v1"];
    assert_eq!(say(us, &line).code, Some(0));
    eventually("the other region sees it", || {
        (say(eu, &["agent", "a/b/c", "--region", "us"]).code == Some(0)).then_some(())
    });
    let strange = "nobody in any region that is loaded has email:sned:v1: is it spelt right?";
    for verb in [&["agents"][..], &["resolve"], &["resolve", "--failover", "false"]] {
        let typo = say(eu, &[verb, &["--capability", "email:sned:v1"]].concat());
        assert!(typo.code == Some(0) && typo.stderr.contains(strange), "{typo:?}");
        let known = say(eu, &[verb, &["--capability", "email:send:v1", "--namespace", "x"]].concat());
        assert!(known.code == Some(0) && !known.stderr.contains("spelt"), "{known:?}");
        let json = say(eu, &[verb, &["--capability", "email:sned:v1", "-o", "json"]].concat());
        assert_eq!((json.code, json.stderr.as_str()), (Some(0), ""), "{json:?}");
    }
}

#[test]
fn a_card_is_handed_out_byte_for_byte() {
    let dev = Dev::start(&["--agents", "0", "--regions", "solo"]);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("card.json");
    let card =
        "{ \"name\" : \"t\\u0041\",\n\t\"url\":\"http://h:1/\", \"protocolVersion\":\"0.3.0\", \"x\": 1.50 }";
    std::fs::write(&file, card).expect("written");
    let line = ["register", "--id", "a/b/c", "--card", file.to_str().expect("text")];
    let registered = say(&dev.urls[0], &line);
    assert_eq!(registered.code, Some(0), "{registered:?}");
    let mut curl = Command::new("curl");
    curl.args(["-sf", &format!("{}/v1/agents/a/b/.well-known/agent-card.json", dev.urls[0])]);
    assert_eq!(Process::start(curl).end().stdout.trim_end(), card);
}

#[test]
fn a_watch_tells_what_is_there_and_then_what_changes() {
    let dev = Dev::start(&["--agents", "1", "--regions", "solo"]);
    let mut command = rollcall();
    command.args(["watch", "-o", "json", "--url", &dev.urls[0]]);
    let watch = Process::start(command);
    let events = || -> Vec<serde_json::Value> {
        watch.stdout().lines().map(|line| serde_json::from_str(line).expect("one object a line")).collect()
    };
    eventually("the snapshot", || events().iter().any(|e| e["event"] == "snapshot_end").then_some(()));
    let first: Vec<_> =
        events().iter().take(3).map(|e| e["event"].as_str().expect("a name").to_owned()).collect();
    assert_eq!(first, ["snapshot_begin", "put", "snapshot_end"]);
    assert_eq!(say(&dev.urls[0], &["register", "--id", "a/b/c", "--endpoint", "http://h:1/"]).code, Some(0));
    let delta = eventually("the delta", || {
        let put =
            |e: &serde_json::Value| e["event"] == "delta" && e["data"]["changes"][0]["put"]["id"] == "a/b/c";
        events().into_iter().find(put)
    });
    let since = delta["id"].as_str().expect("a delta carries an id").to_owned();
    drop(watch);
    assert_eq!(say(&dev.urls[0], &["register", "--id", "a/b/d", "--endpoint", "http://h:1/"]).code, Some(0));
    let mut command = rollcall();
    command.args(["watch", "--since", &since, "--url", &dev.urls[0]]);
    let watch = Process::start(command);
    eventually("what came after", || watch.stdout().contains("a/b/d").then_some(()));
    assert!(!watch.stdout().contains("snapshot"), "{}", watch.stdout());
    // The stream ends with the cell: that is told, with where it goes on, and it waits for one.
    assert_eq!(dev.stop().code, Some(0));
    eventually("it says where it goes on", || watch.stderr().contains("; going on from ").then_some(()));
}

/// Serves one stream after the other: answers each call with the next of these and hangs up. Gives the heads of the calls.
fn streams(answers: Vec<String>) -> (String, std::sync::mpsc::Receiver<String>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let (heads, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().expect("a caller");
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                assert_eq!(stream.read(&mut byte).expect("a head"), 1);
                head.push(byte[0]);
            }
            heads.send(String::from_utf8(head).expect("text")).expect("the test listens");
            stream.write_all(answer.as_bytes()).expect("sent");
        }
    });
    (url, heard)
}

#[test]
fn a_watch_whose_stream_breaks_off_goes_on_from_its_position_and_says_so_beside_the_results() {
    let sse = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    let event = |name: &str, id: &str| {
        let id = if id.is_empty() { String::new() } else { format!("id: {id}\n") };
        format!("event: {name}\n{id}data: {{\"region\":\"us\"}}\n\n")
    };
    let away = "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\nconnection: close\r\n\
                content-length: 2\r\n\r\n{}";
    let body = r#"{"code":"invalid_parameter","detail":"no such region"}"#;
    let refused = format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: application/problem+json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let (url, heads) = streams(vec![
        // A snapshot that breaks off has no position yet.
        format!("{sse}{}{}", event("snapshot_begin", ""), event("put", "")),
        format!(
            "{sse}{}{}{}",
            event("snapshot_end", "1-ab:7"),
            event("delta", "1-ab:9"),
            "event: delta\nid: 1-ab:11\n"
        ),
        away.to_owned(),
        format!("{sse}{}", event("bookmark", "1-ab:12")),
        refused,
    ]);
    let ended = say(&url, &["watch", "-o", "json", "--namespace", "ops"]);
    let first = |head: String| head.lines().next().expect("a line").to_owned();
    let called: Vec<_> = heads.iter().map(first).collect();
    let call = |since: &str| format!("GET /v1/watch?namespace=ops{since} HTTP/1.1");
    let expected = ["", "", "&since=1-ab%3A9", "&since=1-ab%3A9", "&since=1-ab%3A12"].map(call);
    assert_eq!(called, expected);
    let names: Vec<_> = ended.stdout.lines().filter_map(|line| line.split('"').nth(3)).collect();
    assert_eq!(names[..5], ["snapshot_begin", "put", "snapshot_end", "delta", "bookmark"], "{ended:?}");
    assert_eq!(ended.code, Some(2), "what is refused is not tried again: {ended:?}");
    for words in ["going on from the beginning", "going on from 1-ab:9", "open again", "--since 1-ab:12"] {
        assert!(ended.stderr.contains(words), "{words}: {}", ended.stderr);
    }
}

#[test]
fn an_address_that_is_no_cells_is_said_and_nothing_is_claimed_to_be_done() {
    let dev = Dev::start(&["--agents", "0", "--regions", "us-east"]);
    let (host, port) = dev.urls[0].rsplit_once(':').expect("an address");
    let grpc = format!("{host}:{}", port.parse::<u16>().expect("a port") + 1);
    // Of another server, that takes anything.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let other = format!("http://{}", listener.local_addr().expect("bound"));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a caller");
            let mut head = [0; 1024];
            let _ = stream.read(&mut head);
            let _ = stream.write_all(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/grpc\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
            );
        }
    });
    for line in [
        &["register", "--id", "a/b/c", "--endpoint", "http://h:1/"] as &[&str],
        &["deregister", "a/b/c", "--epoch", "5"],
        &["agents"],
        &["regions"],
    ] {
        for (url, code, words) in [(&grpc, 2, "gRPC alone"), (&other, 1, "check --url")] {
            let ended = say(url, line);
            assert_eq!((ended.code, ended.stdout.as_str()), (Some(code), ""), "{line:?}: {ended:?}");
            assert!(ended.stderr.contains(words), "{ended:?}");
        }
    }
    dev.stop();
}
