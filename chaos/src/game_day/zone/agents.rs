//! The zone's agents: each answers HTTP on a port of its own and is kept registered by the SDK.

use std::collections::BTreeMap;

use axum::Router;
use axum::routing::get;
use rollcall_client::{Registrant, RegistrantOptions, RegistrantState};
use rollcall_model::Declaration;
use rollcall_model::declaration::RawEndpoint;
use tokio::net::TcpListener;

use super::Voice;
use crate::game_day::layout::AGENT_PORT;
use crate::game_day::record::{FLEET, Granted, Tick};
use crate::game_day::words::{Orders, Said};
use crate::timeline::Timeline;

/// The name of agents that stand in one region alone.
pub(super) fn only(region: &str) -> String {
    format!("only-{region}")
}

pub(super) struct Agents {
    zone: String,
    registrants: Vec<Registrant>,
    told: BTreeMap<String, u64>,
    timeline: Timeline,
}

impl Agents {
    /// Starts them all; each listens before it registers.
    pub(super) async fn start(orders: &Orders, timeline: Timeline) -> Result<Self, String> {
        let mut registrants = Vec::new();
        for n in 0..orders.instances {
            let name = match n % orders.names.max(1) {
                // Of this name there are agents in this region alone: callers of others find them by its view.
                0 => only(&orders.region),
                name => format!("agent-{name}"),
            };
            let id = format!("{FLEET}{name}/{}-{n}", orders.zone);
            let port = u16::try_from(u32::from(AGENT_PORT) + n).map_err(|_| "too many agents".to_owned())?;
            let listener = TcpListener::bind((orders.address, port)).await;
            let listener = listener.map_err(|error| format!("{}:{port}: {error}", orders.address))?;
            let answer = id.clone();
            let router = Router::new().route("/", get(move || async move { answer }));
            tokio::spawn(async move { axum::serve(listener, router).await });
            let declaration = Declaration {
                id,
                endpoints: vec![RawEndpoint {
                    url: format!("http://{}:{port}/", orders.address),
                    protocol: None,
                }],
                zone: Some(orders.zone.clone()),
                lease_seconds: Some(orders.lease.as_secs()),
                ..Declaration::default()
            };
            let options = RegistrantOptions::new(orders.cells.iter().cloned(), declaration);
            registrants.push(Registrant::start(options).map_err(|error| error.to_string())?);
        }
        Ok(Self { zone: orders.zone.clone(), registrants, told: BTreeMap::new(), timeline })
    }

    /// Whether every one of them is registered.
    pub(super) fn are_settled(&mut self, voice: &Voice) -> bool {
        self.tick(voice).settled == self.registrants.len() as u64
    }

    /// How they fare now; says which of them hold a new epoch.
    pub(super) fn tick(&mut self, voice: &Voice) -> Tick {
        let at = self.timeline.now();
        let mut tick = Tick { zone: self.zone.clone(), at, ..Tick::default() };
        for registrant in &self.registrants {
            let status = registrant.status();
            tick.renewals += status.renewals;
            tick.failures += status.failures;
            let registered = status.state == RegistrantState::Registered;
            tick.settled += u64::from(registered && status.last_error.is_none());
            let Some(epoch) = status.epoch.map(|epoch| epoch.get()) else { continue };
            let id = status.id.to_string();
            if self.told.get(&id) != Some(&epoch) {
                self.told.insert(id.clone(), epoch);
                voice.say(Said::Granted(Granted { id, zone: self.zone.clone(), epoch, at }));
            }
        }
        tick
    }
}
