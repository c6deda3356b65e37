//! A conversation that keeps to one snapshot while another instance comes and goes: `cargo run -p rollcall-client
//! --example pin -- http://127.0.0.1:7400 us-east email:send:v1`.

use std::time::Duration;

use rollcall_client::model::declaration::{RawCapability, RawEndpoint};
use rollcall_client::model::{Declaration, Query, Region};
use rollcall_client::{Registrant, RegistrantOptions, Registry, RegistryOptions, Resolution};

/// Longest wait for what another process is told in milliseconds.
const WAIT: Duration = Duration::from_secs(10);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().unwrap_or_else(|| "http://127.0.0.1:7400".into());
    let region = arguments.next().unwrap_or_else(|| "us-east".into());
    let capability = arguments.next().unwrap_or_else(|| "email:send:v1".into());
    let mut query = Query::default();
    query.set("capability", &capability)?;
    let registry = Registry::connect(RegistryOptions::new([url.clone()], Region::parse(&region)?)).await?;
    // An hour at most: a conversation that was forgotten does not hold an old state for ever.
    let conversation = registry.pin(Duration::from_secs(3600));
    let show = |when: &str| {
        eprintln!("{when}:");
        eprintln!("  pinned {}", names(&conversation.resolve(&query)));
        eprintln!("  now    {}", names(&registry.resolve(&query)));
    };
    show("when it begins");
    let newcomer = Registrant::start(RegistrantOptions::new(
        [url],
        Declaration {
            id: "demo/newcomer".into(),
            endpoints: vec![RawEndpoint { url: "http://127.0.0.1:8080/".into(), protocol: None }],
            capabilities: vec![RawCapability { name: capability, ..RawCapability::default() }],
            ..Declaration::default()
        },
    ))?;
    let id = newcomer.status().id;
    let is_there = || registry.resolve(&query).candidates.iter().any(|c| c.registration.declared.id == id);
    tokio::time::timeout(WAIT, registry.until(|_| is_there())).await?;
    show("another one has come");
    newcomer.close(WAIT).await;
    tokio::time::timeout(WAIT, registry.until(|_| !is_there())).await?;
    show("it has gone again");
    Ok(())
}

fn names(found: &Resolution) -> String {
    let ids = found.candidates.iter().map(|candidate| candidate.registration.declared.id.to_string());
    format!("{} {:?}", found.outcome.as_str(), ids.collect::<Vec<_>>())
}
