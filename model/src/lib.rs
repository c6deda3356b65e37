//! The pure registry: every type that travels and every decision that is made.
//!
//! Promises: what is in here reads no clock, draws no chance and does no I/O; time and chance are arguments, so each
//! decision can be tested as a value. It never names a transport, a store or a log.
#![deny(missing_docs)]

pub mod admission;
pub mod backoff;
pub mod body;
pub mod breaker;
pub mod capability;
pub mod card;
pub mod change;
pub mod code;
pub mod deadlines;
pub mod declaration;
pub mod digest;
pub mod ejection;
pub mod elsewhere;
pub mod endpoint;
pub mod follow;
pub mod freshness;
pub mod guard;
mod hash;
pub mod head;
pub mod history;
pub mod holders;
pub mod lease;
pub mod lifecycle;
pub mod limits;
pub mod load;
mod moment;
pub mod name;
pub mod planted;
pub mod position;
pub mod problem;
pub mod profile;
pub mod query;
pub mod reach;
pub mod registration;
pub mod resolve;
pub mod route;
pub mod sharing;
pub mod snapshot;
pub mod state;
pub mod sweep;
#[cfg(feature = "testing")]
#[allow(
    clippy::expect_used,
    reason = "a fixture that cannot be built is a defect of the test that asks for it"
)]
pub mod testing;
pub mod time;
pub mod view;
pub mod watch;
pub mod way;
mod word;

pub use admission::{AddressShare, Admission, AdmissionLimits, NotAdmitted, Rate};
pub use backoff::{Backoff, jittered};
pub use breaker::{BreakerLimits, RegistryBreaker};
pub use capability::{Capability, CapabilityName, Details, Skill};
pub use card::Card;
pub use change::{Actor, Bookmark, Change, Delta, Removal, RemovalReason};
pub use code::{Code, Invalid};
pub use deadlines::{Deadlines, LettingGo, Renewal};
pub use declaration::{Declaration, Declared};
pub use digest::StateDigest;
pub use ejection::{Called, EjectionLimits, Ejections};
pub use elsewhere::Elsewhere;
pub use endpoint::{Endpoint, Endpoints};
pub use follow::{Follower, Next};
pub use freshness::{Freshness, Heard};
pub use guard::{Cohort, ExpiryGuard, GuardLimits, Phase};
pub use head::Heads;
pub use history::History;
pub use holders::{Hold, Holder, Holders};
pub use lease::{Lease, LeaseState, Verdict};
pub use lifecycle::{Kind, LastLoad, Lifecycle, Load, Scope};
pub use load::LoadLimits;
pub use moment::{Moment, Uptime};
pub use name::{InstanceId, Region, Zone};
pub use position::{Epoch, Incarnation, Position, Relation, Revision};
pub use problem::Problem;
pub use profile::{Metadata, Profile};
pub use query::Query;
pub use reach::{Failover, Reach};
pub use registration::{Owned, Registration, Replaced};
pub use route::{Route, Wish};
pub use sharing::Sharing;
pub use snapshot::{Snapshot, SnapshotBuilder, SnapshotHead};
pub use state::State;
pub use time::{Clock, Instant, Stamp, Timestamp};
pub use view::{Outcome, Resync, View};
pub use watch::{Cursor, Event};
pub use way::Way;
