//! What the runner and the process of a zone say to each other: one JSON object a line.

use std::net::Ipv4Addr;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::record::{Empty, Failed, Granted, Sight, Tick};
use crate::history::Op;

/// What a zone's process is told first; after it, [`Told`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Orders {
    /// The run's time when this was told.
    pub now: Duration,
    /// The machine's time then.
    pub told: SystemTime,
    /// The zone.
    pub zone: String,
    /// Its region.
    pub region: String,
    /// The other regions, in the order that callers fail over to.
    pub failover: Vec<String>,
    /// The address to listen on.
    pub address: Ipv4Addr,
    /// The cell's processes, the own zone's first.
    pub cells: Vec<String>,
    /// Agents to keep registered.
    pub instances: u32,
    /// How many names they share.
    pub names: u32,
    /// Their leases.
    pub lease: Duration,
    /// Callers.
    pub callers: u32,
    /// Between two calls of one.
    pub call_every: Duration,
    /// Writers.
    pub writers: u32,
    /// Between two writes of one.
    pub write_every: Duration,
    /// Whether writers also say something under an epoch that they have replaced.
    pub stale_words: bool,
    /// Where their chance begins.
    pub seed: u64,
}

/// What a zone's process is told later. The end of its input is the end of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Told {
    /// Callers and writers begin.
    Begin,
    /// Callers and writers end; agents go on.
    Finish,
}

/// What a zone's process says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Said {
    /// All agents answer and are registered.
    Ready,
    /// An agent was given an epoch.
    Granted(Granted),
    /// How the last second was.
    Tick(Tick),
    /// A call failed.
    Failed(Failed),
    /// A question found nobody.
    Empty(Empty),
    /// What a caller resolves from.
    Sight(Sight),
    /// A write was answered, or given up.
    Wrote(Op),
    /// Callers and writers have ended, and everything was said.
    Finished,
}
