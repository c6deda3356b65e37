//! Calls an agent, and goes to another instance or region when that fails:
//! `cargo run -p rollcall-client --example failover -- http://127.0.0.1:7400 us-east eu-west email:send:v1`.

use std::time::Duration;

use rollcall_client::model::{Endpoint, Query, Region};
use rollcall_client::{Called, Registry, RegistryOptions};
use tokio::net::TcpStream;

/// Rounds over all candidates: three failures eject one.
const ROUNDS: usize = 5;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().unwrap_or_else(|| "http://127.0.0.1:7400".into());
    let own = arguments.next().unwrap_or_else(|| "us-east".into());
    let other = arguments.next().unwrap_or_else(|| "eu-west".into());
    let capability = arguments.next().unwrap_or_else(|| "email:send:v1".into());
    let mut query = Query::default();
    query.set("capability", &capability)?;
    let options = RegistryOptions::new([url], Region::parse(&own)?).with_failover([Region::parse(&other)?]);
    let registry = Registry::connect(options).await?;
    for _ in 0..ROUNDS {
        // Each time anew: whoever failed often enough is no longer among them, and the other region is when nobody of the
        // own one is left.
        let resolution = registry.resolve(&query);
        if resolution.candidates.is_empty() {
            return Err(format!("nobody to call: {}", resolution.outcome.as_str()).into());
        }
        for candidate in resolution.candidates {
            let called = call(&candidate.registration.declared.endpoints).await;
            eprintln!("{} in {}: {called:?}", candidate.registration.declared.id, candidate.region);
            registry.report(&candidate.region, &candidate.registration, called);
            if called == Called::Succeeded {
                return Ok(());
            }
        }
    }
    Err(format!("nobody answered in {ROUNDS} rounds").into())
}

/// Stands for the call: connects to the first endpoint.
async fn call(endpoints: &[Endpoint]) -> Called {
    let host = endpoints.first().and_then(|endpoint| endpoint.url().split('/').nth(2)).unwrap_or_default();
    match tokio::time::timeout(Duration::from_secs(3), TcpStream::connect(host)).await {
        Ok(Ok(_)) => Called::Succeeded,
        Ok(Err(_)) => Called::Failed,
        Err(_) => Called::TimedOut,
    }
}
