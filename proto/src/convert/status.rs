//! How a holder stands to a region: the answer of `regions`.

use rollcall_model::{Freshness, Instant, View};

use crate::convert::position;
use crate::v1;

/// One region as its holder sees it, ready for JSON, gRPC and tables.
#[derive(Clone, Debug)]
pub struct RegionStatus {
    /// The region.
    pub view: View,
    /// Whether the holder is the region's own cell.
    pub own: bool,
}

/// To the wire.
#[must_use]
pub fn region_status(status: &RegionStatus, now: Instant) -> v1::RegionStatus {
    let view = &status.view;
    let age = view.age(now);
    v1::RegionStatus {
        region: view.region().as_str().to_owned(),
        role: if status.own { "own" } else { "view" }.to_owned(),
        state: Freshness::of(age).as_str().to_owned(),
        age_ms: age.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
        position: view.position().map(position),
        count: view.state().map(rollcall_model::State::count),
        digest: view.state().map(|state| state.digest().to_bytes().to_vec().into()),
        last_resync_at_ms: view.last_resync().map(|resync| resync.at.0),
        last_resync_reason: view.last_resync().map(|resync| resync.reason.to_owned()),
    }
}
