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
    query.set("capability", &capability)?;
    let registry = Registry::connect(RegistryOptions::new([url], Region::parse(&region)?)).await?;
    let resolution = registry.resolve(&query);
    eprintln!("{}", resolution.outcome.as_str());
    // Whatever was found: what is known may be old, or nothing, because no cell is there to be heard.
    for status in registry.regions() {
        if let Some(failing) = status.failing {
            eprintln!("{} is not heard for {:?}: {}", status.region, failing.lasting, failing.why);
        }
    }
    for candidate in resolution.candidates {
        let declared = &candidate.registration.declared;
        eprintln!(
            "{} in {}, {:?} old: {:?}",
            declared.id, candidate.region, candidate.age, declared.endpoints
        );
    }
    Ok(())
}
