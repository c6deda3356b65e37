//! Whether every cell shows the same state of every region, by digest and count.

use std::time::Duration;

use crate::eventually::eventually;
use crate::http::Http;

/// Waits until every cell shows every region current, with one digest and count for each.
///
/// # Panics
/// At the deadline, with what was seen last.
pub async fn equal_digests(cells: &[Http], deadline: Duration) {
    eventually("every view equals its origin", deadline, || are_equal(cells)).await;
}

/// One look: `Ok` when all are equal and current.
///
/// # Errors
/// What differs.
pub async fn are_equal(cells: &[Http]) -> Result<(), String> {
    let mut seen: Vec<(String, String, String)> = Vec::new();
    for cell in cells {
        for status in cell.get("/v1/regions").await?["regions"].as_array().ok_or("no regions")? {
            let text = |name: &str| status[name].to_string();
            if text("state") != "\"current\"" {
                return Err(format!("{}: {status}", cell.base()));
            }
            seen.push((text("region"), text("digest"), text("count")));
        }
    }
    seen.sort();
    seen.dedup();
    if seen.len() == cells.len() { Ok(()) } else { Err(format!("{seen:?}")) }
}

/// Ids of a list, all pages. `path` has a query already.
///
/// # Errors
/// A page did not come, or is no list.
pub async fn agent_ids(cell: &Http, path: &str) -> Result<Vec<String>, String> {
    let mut ids = Vec::new();
    let mut token = String::new();
    loop {
        let page = cell.get(&format!("{path}{token}")).await?;
        for agent in page["agents"].as_array().ok_or("no agents member")? {
            ids.push(agent["id"].as_str().ok_or("no id")?.to_owned());
        }
        match page["next_page_token"].as_str() {
            Some(next) => token = format!("&page_token={next}"),
            None => return Ok(ids),
        }
    }
}
