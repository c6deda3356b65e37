//! The SDK of Rollcall: keep a registration alive, and resolve others from memory.
//!
//! ```no_run
//! use rollcall_client::model::{Declaration, Query, Region, declaration::RawEndpoint};
//! use rollcall_client::{Agent, RegistrantOptions, RegistryOptions};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let (cells, own) = (["http://127.0.0.1:7400"], Region::parse("us-east")?);
//! let endpoints = vec![RawEndpoint { url: "http://10.0.0.7:8080/".into(), protocol: None }];
//! let mail = Declaration { id: "ops/mail".into(), endpoints, ..Declaration::default() };
//! let agent = Agent::start(RegistrantOptions::new(cells, mail), RegistryOptions::new(cells, own)).await?;
//! let billing = Query { name: Some("billing".into()), ..Query::default() };
//! let found = agent.registry().resolve(&billing).candidates;
//! found.iter().for_each(|one| println!("{} in {}", one.registration.declared.id, one.region));
//! agent.close(std::time::Duration::from_secs(5)).await;
//! # Ok(())
//! # }
//! ```
//!
//! Promises: the caller is never held up by a registry that is slow, restarting or away; a registration outlives all
//! of that, and what was known stays known with an honest age. Never here: a global subscriber, a signal handler, a
//! call to the registry on the path of a call, a transport's type in a public signature.
#![deny(missing_docs)]

mod background;
mod cache;
mod clock;
mod disk;
mod ejection;
mod error;
mod follow;
mod kubernetes;
mod local_snapshot;
mod memory;
mod options;
mod pin;
mod reading;
mod registrant;
mod registry;
mod resolver;
mod role;
mod transport;

pub use cache::CacheProfile;
pub use error::{CallError, StartError};
pub use local_snapshot::{Failing, LocalSnapshot, RegionStatus};
pub use memory::MemoryRegistry;
pub use options::{RegistrantOptions, RegistryOptions};
pub use pin::Pin;
pub use reading::Reading;
pub use registrant::{Closed, Registrant, RegistrantState, Status};
pub use registry::Registry;
pub use resolver::{Candidate, Resolution};
pub use role::{Agent, Tool};
/// The words of the API: declarations, queries, registrations.
pub use rollcall_model as model;
pub use rollcall_model::BreakerLimits;
pub use rollcall_model::ejection::{Called, Ejected, EjectedZone, EjectionLimits};
pub use rollcall_model::resolve::{Outcome, Resolving};
