//! Keeps an agent registered until Ctrl-C: `cargo run -p rollcall-client --example register -- http://127.0.0.1:7400`.

use std::time::Duration;

use rollcall_client::model::Declaration;
use rollcall_client::model::declaration::{RawCapability, RawEndpoint};
use rollcall_client::{Registrant, RegistrantOptions};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "http://127.0.0.1:7400".into());
    let capability = RawCapability { name: "email:send:v1".into(), ..RawCapability::default() };
    let registrant = Registrant::start(RegistrantOptions::new(
        [url],
        Declaration {
            id: "ops/mail".into(),
            endpoints: vec![RawEndpoint { url: "http://127.0.0.1:8080/".into(), protocol: None }],
            capabilities: vec![capability],
            ..Declaration::default()
        },
    ))?;
    let status = loop {
        match tokio::time::timeout(Duration::from_secs(2), registrant.registered()).await {
            Ok(status) => break status,
            Err(_) => eprintln!("not registered yet, trying on: {:?}", registrant.status().last_error),
        }
    };
    eprintln!("registered {} with epoch {:?}", status.id, status.epoch);
    tokio::signal::ctrl_c().await?;
    eprintln!("{:?}", registrant.close(Duration::from_secs(5)).await);
    Ok(())
}
