//! Pages.

use serde_json::Value;

use super::cell::Cell;

async fn page(cell: &Cell, query: &str) -> (Vec<String>, Option<String>) {
    let answer = cell.get(&format!("/v1/agents?{query}")).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let body = answer.json();
    let ids =
        body["agents"].as_array().unwrap().iter().map(|a| a["id"].as_str().unwrap().to_owned()).collect();
    (ids, body["next_page_token"].as_str().map(str::to_owned))
}

#[tokio::test]
async fn pages_show_each_agent_once_while_others_come_and_go() {
    let cell = Cell::start().await;
    let mut epochs = Vec::new();
    for n in 0..5 {
        epochs.push(cell.register_plain(&format!("ops/mail/{n}")).await);
    }
    let (first, token) = page(&cell, "limit=2").await;
    assert_eq!(first, ["ops/mail/0", "ops/mail/1"]);
    let token = token.unwrap();
    // The last one shown goes, one before it comes: the next page begins where it would have.
    cell.fenced("DELETE", "/v1/registrations/ops/mail/1", &epochs[1], &Value::Null).await;
    cell.register_plain("ops/mail/00").await;
    let (second, token) = page(&cell, &format!("limit=2&page_token={token}")).await;
    assert_eq!(second, ["ops/mail/2", "ops/mail/3"]);
    let (third, token) = page(&cell, &format!("limit=2&page_token={}", token.unwrap())).await;
    assert_eq!((third, token), (vec!["ops/mail/4".to_owned()], None));
}

#[tokio::test]
async fn a_page_that_ends_with_the_list_has_no_next_one() {
    let cell = Cell::start().await;
    for n in 0..2 {
        cell.register_plain(&format!("ops/mail/{n}")).await;
    }
    let (ids, token) = page(&cell, "limit=2").await;
    assert_eq!((ids.len(), token), (2, None));
}

#[tokio::test]
async fn a_filtered_list_is_paged_too() {
    let cell = Cell::start().await;
    for n in 0..4 {
        let namespace = if n % 2 == 0 { "ops" } else { "lab" };
        cell.register_plain(&format!("{namespace}/mail/{n}")).await;
    }
    let (first, token) = page(&cell, "namespace=ops&limit=1").await;
    assert_eq!(first, ["ops/mail/0"]);
    let (second, token) = page(&cell, &format!("namespace=ops&limit=1&page_token={}", token.unwrap())).await;
    assert_eq!((second, token), (vec!["ops/mail/2".to_owned()], None));
}

#[tokio::test]
async fn a_token_goes_on_with_the_question_it_was_given_for_and_with_no_other() {
    let cell = Cell::start().await;
    for n in 0..3 {
        cell.register_plain(&format!("lab/mail/{n}")).await;
        cell.register_plain(&format!("ops/mail/{n}")).await;
    }
    let (_, token) = page(&cell, "namespace=ops&limit=1").await;
    let token = token.unwrap();
    for other in [
        "",
        "namespace=lab",
        "namespace=ops&name=mail",
        "namespace=ops&capability=email:send:v1",
        "namespace=ops&internal=true",
        "namespace=ops&zone=a&limit=1",
    ] {
        let refused = cell.get(&format!("/v1/agents?{other}&page_token={token}")).await;
        refused.faulty("invalid_parameter", &["page_token"]);
        assert!(refused.text.contains("ask the same again"), "{other}: {}", refused.text);
    }
    // What says the same in other words, and how much at once, is no other question.
    for same in
        ["namespace=ops", "limit=2&namespace=ops", "namespace=ops&region=us", "region=all&namespace=ops"]
    {
        let (ids, rest) = page(&cell, &format!("{same}&page_token={token}")).await;
        assert_eq!((ids, rest), (vec!["ops/mail/1".to_owned(), "ops/mail/2".to_owned()], None), "{same}");
    }
}
