//! Ids, names, and what an owner says about itself.

use rollcall_tests::agents::agent;
use serde_json::json;

use crate::{REGION, registry};

/// B85: an instance could be fetched through a name that it did not belong to.
#[tokio::test]
async fn b85_an_instance_is_found_under_its_own_name_alone() {
    let dev = registry(&[]);
    let cell = dev.cell(REGION);
    cell.register(&agent("museum/own/x1", "museum:be:v1")).await.unwrap();
    cell.register(&agent("museum/other/x2", "museum:be:v1")).await.unwrap();
    for path in ["museum/other/x1", "elsewhere/own/x1", "museum/own/x2"] {
        let answer = cell.send("GET", &format!("/v1/agents/{path}"), &[], None).await.unwrap();
        assert_eq!(answer.status, 404, "{path}");
        let answer = cell.deregister(path, "1").await.unwrap();
        assert_eq!(answer.status, 404, "{path}");
    }
    assert_eq!(cell.get("/v1/agents/museum/own/x1").await.unwrap()["id"], "museum/own/x1");
}

/// B87: ids with slashes, line separators, templates or URLs in them could be registered and never be looked up or
/// taken back.
#[tokio::test]
async fn b87_an_id_that_gets_in_can_be_read_and_taken_back_and_all_others_are_refused() {
    let dev = registry(&[]);
    let cell = dev.cell(REGION);
    for part in [
        "a/b",
        "..",
        "a..b",
        "a\u{2028}b",
        "#1",
        "{{x}}",
        "http://h/",
        "%2F",
        "a%00b",
        "a\nb",
        "A",
        "",
        "-a",
        "a.",
        "ä",
    ] {
        let body = agent(&format!("museum/odd/{part}"), "museum:be:v1");
        let answer = cell.send("POST", "/v1/registrations", &[], Some(&body.to_string())).await.unwrap();
        assert_eq!(answer.status, 400, "{part:?}: {}", answer.json());
    }
    let long = "x".repeat(64);
    for part in ["a", "a.b-c_d", "0", "93655573-1b6a-4898-9ef0-fe219e0df302", long.as_str()] {
        let id = format!("museum/odd/{part}");
        let epoch = cell.register(&agent(&id, "museum:be:v1")).await.unwrap()["epoch"].clone();
        assert_eq!(cell.get(&format!("/v1/agents/{id}")).await.unwrap()["id"], id.as_str());
        assert_eq!(cell.deregister(&id, epoch.as_str().unwrap()).await.unwrap().status, 204, "{id}");
    }
}

/// B89: IPv6 endpoints were refused, cut at their first colon, or lost or doubled their brackets.
#[tokio::test]
async fn b89_an_ipv6_endpoint_comes_back_as_it_was_given_and_can_be_dialled() {
    let dev = registry(&[]);
    let cell = dev.cell(REGION);
    let id = "museum/six/1";
    let register = async |url: &str| {
        let body = json!({"id": id, "endpoints": [{"url": url}]}).to_string();
        cell.send("POST", "/v1/registrations", &[], Some(&body)).await.unwrap()
    };
    for url in ["http://[::1]:80/", "https://[2001:db8::a2a]/x?y=1", "grpc://[::ffff:10.0.0.1]:50051"] {
        assert_eq!(register(url).await.status, 201, "{url}");
        let agent = cell.get(&format!("/v1/agents/{id}")).await.unwrap();
        assert_eq!(agent["endpoints"][0]["url"], url);
    }
    for url in [
        "http://::1:80/",
        "http://[::1/",
        "http://::1]/",
        "http://[[::1]]/",
        "http://[::]:80/",
        "http://[fe80::1%eth0]:80/",
    ] {
        let answer = register(url).await;
        assert_eq!((answer.status, &answer.json()["code"]), (400, &json!("invalid_endpoint")), "{url}");
    }
    let listener = tokio::net::TcpListener::bind("[::1]:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    assert_eq!(register(&format!("http://[::1]:{port}/callback")).await.status, 201);
    let agent = cell.get(&format!("/v1/agents/{id}")).await.unwrap();
    let given: reqwest::Url = agent["endpoints"][0]["url"].as_str().unwrap().parse().unwrap();
    let dialled = tokio::net::TcpStream::connect(&*given.socket_addrs(|| None).unwrap()).await.unwrap();
    assert_eq!(dialled.peer_addr().unwrap(), listener.local_addr().unwrap());
}

/// B95: a status could not be taken back because the client's time stamp lost a comparison.
#[tokio::test]
async fn b95_draining_is_taken_back_whatever_the_callers_clock_says() {
    let dev = registry(&[]);
    let cell = dev.cell(REGION);
    let id = "museum/drain/1";
    let registered = cell.register(&agent(id, "museum:be:v1")).await.unwrap();
    let tag = format!("\"{}\"", registered["epoch"].as_str().unwrap());
    for (lifecycle, date) in
        [("draining", "Fri, 01 Jan 2100 00:00:00 GMT"), ("healthy", "Thu, 01 Jan 1970 00:00:00 GMT")]
    {
        let body = json!({ "lifecycle": lifecycle }).to_string();
        let headers = [("if-match", tag.as_str()), ("date", date)];
        let answer =
            cell.send("PATCH", &format!("/v1/registrations/{id}"), &headers, Some(&body)).await.unwrap();
        assert_eq!((answer.status, &answer.json()["lifecycle"]), (200, &json!(lifecycle)));
        assert_eq!(cell.get(&format!("/v1/agents/{id}")).await.unwrap()["lifecycle"], lifecycle);
    }
}
