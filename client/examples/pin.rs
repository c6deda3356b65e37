//! A conversation of three turns that keeps to one snapshot: `cargo run -p rollcall-client --example pin -- http://127.0.0.1:7400 us-east email:send:v1`.

use std::time::Duration;

use rollcall_client::model::{Query, Region};
use rollcall_client::{Registry, RegistryOptions};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().unwrap_or_else(|| "http://127.0.0.1:7400".into());
    let region = arguments.next().unwrap_or_else(|| "us-east".into());
    let capability = arguments.next().unwrap_or_else(|| "email:send:v1".into());
    let mut query = Query::default();
    query.set("capability", &capability).map_err(|finding| finding.to_string())?;
    let region = Region::parse(&region).map_err(|finding| finding.to_string())?;
    let registry = Registry::connect(RegistryOptions::new([url], region)).await?;
    // An hour at most: a conversation that was forgotten does not hold an old state for ever.
    let conversation = registry.pin(Duration::from_secs(3600));
    for turn in 1..=3 {
        let found = conversation.resolve(&query);
        let first = found.candidates.first().map(|candidate| candidate.registration.declared.id.to_string());
        eprintln!("turn {turn}: {} {}", found.outcome.as_str(), first.unwrap_or_default());
    }
    Ok(())
}
