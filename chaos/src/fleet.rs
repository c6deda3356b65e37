//! Many registrants of the SDK in a process of their own, which says every second how they fare.

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use rollcall_client::{Registrant, RegistrantOptions, RegistrantState};
use rollcall_model::Declaration;
use rollcall_model::declaration::RawEndpoint;
use rollcall_tests::process::Process;
use serde_json::{Value, json};

/// The verb of this program that is such a process.
pub const VERB: &str = "registrants";

/// A running process of them.
#[derive(Debug)]
pub struct Fleet {
    process: Process,
}

impl Fleet {
    /// Starts it.
    #[must_use]
    pub fn start(name: &str, folder: &Path, count: usize, lease: Duration, urls: &[String]) -> Self {
        let own = std::env::current_exe().expect("a program knows its own path");
        let arguments = vec![
            VERB.to_owned(),
            name.to_owned(),
            count.to_string(),
            lease.as_secs().to_string(),
            urls.join(","),
        ];
        Self { process: Process::start(name, folder, own, arguments, &[]) }
    }

    /// What it said last: how many are registered, registrations and the fewest and the most renewals of one.
    #[must_use]
    pub fn status(&self) -> Option<Value> {
        let text = std::fs::read_to_string(self.process.log()).ok()?;
        text.lines().rev().find_map(|line| serde_json::from_str(line).ok())
    }
}

/// The process itself; runs until it is killed.
///
/// # Errors
/// Its arguments are wrong.
pub async fn run(arguments: &[String]) -> Result<(), String> {
    let [name, count, lease, urls] = arguments else {
        return Err(format!("{VERB} NAME COUNT LEASE URL,URL"));
    };
    let count: usize = count.parse().map_err(|error| format!("COUNT: {error}"))?;
    let lease: u64 = lease.parse().map_err(|error| format!("LEASE: {error}"))?;
    let mut registrants = Vec::with_capacity(count);
    for n in 0..count {
        let declaration = Declaration {
            id: format!("chaos/{name}/{n}"),
            endpoints: vec![RawEndpoint { url: "http://127.0.0.1:9/".into(), protocol: None }],
            lease_seconds: Some(lease),
            zone: Some("a".into()),
            ..Declaration::default()
        };
        let options = RegistrantOptions::new(urls.split(','), declaration);
        registrants.push(Registrant::start(options).map_err(|error| error.to_string())?);
    }
    loop {
        let statuses: Vec<_> = registrants.iter().map(Registrant::status).collect();
        let registered = statuses.iter().filter(|status| status.state == RegistrantState::Registered).count();
        let renewals = statuses.iter().map(|status| status.renewals);
        let line = json!({
            "registered": registered,
            "registrations": statuses.iter().map(|status| status.registrations).sum::<u64>(),
            "failures": statuses.iter().map(|status| status.failures).sum::<u64>(),
            "fewest_renewals": renewals.clone().min(),
            "most_renewals": renewals.max(),
        });
        // Its end is the reader's end.
        if writeln!(std::io::stdout(), "{line}").is_err() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}
