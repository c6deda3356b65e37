//! The sample fleet: agents that are really there. Each has an endpoint that answers, a card, and a registrant of the SDK.
//!
//! Promises: an agent registers, renews and deregisters as any other does, over the network. Its id is the same at each
//! start, so that data kept over a restart show it once. It never acts outside of this process.

mod answer;
mod cast;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use rollcall_client::{Registrant, RegistrantOptions};
use rollcall_runtime::{Tasks, listen};

use super::region::Running;

use self::cast::Member;

/// Longest wait for the fleet to deregister; it shares the machine with the cells it tells.
const CLOSE_BUDGET: Duration = Duration::from_secs(3);

/// The running fleet.
pub(crate) struct Fleet {
    members: Vec<(Arc<Member>, Registrant)>,
}

impl Fleet {
    /// Starts `agents` of them, spread over regions and zones; they register in the background.
    pub(crate) async fn start(agents: u16, running: &[Running], tasks: &Tasks) -> Result<Self, String> {
        let mut members = Vec::new();
        if agents == 0 {
            return Ok(Self { members });
        }
        let listener =
            listen::bind("127.0.0.1:0").await.map_err(|error| format!("no port for the fleet: {error}"))?;
        let at = listener.local_addr().map_err(|error| format!("no port for the fleet: {error}"))?;
        let regions: Vec<_> = running.iter().map(|region| region.name.clone()).collect();
        let cast: Vec<_> =
            cast::cast(agents, &regions, &format!("http://{at}")).into_iter().map(Arc::new).collect();
        let by_path: BTreeMap<_, _> = cast.iter().map(|member| (member.path(), Arc::clone(member))).collect();
        tasks.spawn("fleet_endpoints", answer::serve(listener, by_path, tasks.cancelled()));
        for member in cast {
            let Some(home) = running.iter().find(|region| region.name == member.region) else { continue };
            let options = RegistrantOptions::new([format!("http://{}", home.http)], member.declaration());
            let registrant = Registrant::start(options).map_err(|error| format!("{}: {error}", member.id))?;
            members.push((member, registrant));
        }
        Ok(Self { members })
    }

    /// Waits until all are registered.
    pub(crate) async fn registered(&self) {
        join_all(self.members.iter().map(|(_, registrant)| registrant.registered())).await;
    }

    /// Where the first one is called.
    pub(crate) fn first_endpoint(&self) -> Option<&str> {
        self.members.first().map(|(member, _)| member.url.as_str())
    }

    /// Deregisters all.
    pub(crate) async fn close(self) {
        join_all(self.members.into_iter().map(|(_, registrant)| registrant.close(CLOSE_BUDGET))).await;
    }
}
