//! Resolves a capability: `cargo run -p rollcall-client --example resolve -- http://127.0.0.1:7400 us-east email:send:v1`.

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
    let resolution = registry.resolve(&query);
    eprintln!("{}", resolution.outcome.as_str());
    for candidate in resolution.candidates {
        let declared = &candidate.registration.declared;
        eprintln!(
            "{} in {}, {:?} old: {:?}",
            declared.id, candidate.region, candidate.age, declared.endpoints
        );
    }
    Ok(())
}
