//! A region's topics, past the product: removed as an operator's mistake would remove them.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;

/// How long the broker may take.
const WITHIN: Duration = Duration::from_secs(10);

/// Removes both topics of a region.
///
/// # Errors
/// What the broker said.
pub async fn remove(broker: &str, region: &str) -> Result<(), String> {
    let mut settings = ClientConfig::new();
    settings.set("bootstrap.servers", broker);
    let admin: AdminClient<DefaultClientContext> = settings.create().map_err(|error| error.to_string())?;
    let topics = [format!("feed.{region}.v1"), format!("snapshot.{region}.v1")];
    let names: Vec<&str> = topics.iter().map(String::as_str).collect();
    let options = AdminOptions::new().request_timeout(Some(WITHIN)).operation_timeout(Some(WITHIN));
    let removed = admin.delete_topics(&names, &options).await.map_err(|error| error.to_string())?;
    for outcome in removed {
        outcome.map_err(|(topic, why)| format!("{topic}: {why}"))?;
    }
    Ok(())
}
