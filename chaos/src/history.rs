//! What clients asked and what they were told: the history that promises are judged on.
//!
//! A call has an outcome that the caller knows, or it is unknown: no answer came, or the answer says that nobody
//! knows. Unknown is never taken for failed or for done.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::timeline::Timeline;

/// What was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Act {
    /// Register, with a tag that no other registration has.
    Register {
        /// Stands in the record's metadata.
        tag: String,
        /// Asked for.
        lease: Duration,
    },
    /// Renew the lease of an epoch.
    Renew(u64),
    /// Say something of an epoch, with a word that nobody said before.
    Update(u64, String),
    /// Deregister an epoch.
    Deregister(u64),
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// Registered with this epoch.
    Registered(u64),
    /// Done.
    Done,
    /// Another epoch holds the instance.
    Superseded(Option<u64>),
    /// There is no such registration.
    NotRegistered,
    /// Nothing was done; the status, and whether it says when to come back.
    Refused {
        /// The HTTP status.
        status: u16,
        /// `Retry-After` in seconds.
        retry_after: Option<u64>,
    },
    /// It may have been done or not.
    Unknown(String),
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Op {
    /// Which client, of those that call one after another.
    pub client: u32,
    /// Which process of the cell was asked.
    pub cell: usize,
    /// The instance.
    pub id: String,
    /// What was asked.
    pub act: Act,
    /// When it was sent.
    pub invoked: Duration,
    /// When the answer was there; none while it is not.
    pub returned: Option<Duration>,
    /// What it was; unknown while it is not there.
    pub outcome: Outcome,
}

impl Op {
    /// Whether its effect was acknowledged.
    #[must_use]
    pub const fn is_acknowledged(&self) -> bool {
        matches!(self.outcome, Outcome::Registered(_) | Outcome::Done)
    }
}

/// The log that all clients of a run write. A clone is the same log.
#[derive(Clone, Debug)]
pub struct History {
    ops: Arc<Mutex<Vec<Op>>>,
    timeline: Timeline,
}

impl History {
    /// An empty one.
    #[must_use]
    pub fn new(timeline: Timeline) -> Self {
        Self { ops: Arc::default(), timeline }
    }

    /// Writes down that a call is sent, and gives its place.
    #[must_use]
    pub fn invoke(&self, client: u32, cell: usize, id: &str, act: Act) -> usize {
        let op = Op {
            client,
            cell,
            id: id.to_owned(),
            act,
            invoked: self.timeline.now(),
            returned: None,
            outcome: Outcome::Unknown("no answer yet".to_owned()),
        };
        let mut ops = self.ops.lock().unwrap();
        ops.push(op);
        ops.len() - 1
    }

    /// Writes down what came of it.
    pub fn returns(&self, place: usize, outcome: Outcome) {
        let now = self.timeline.now();
        let mut ops = self.ops.lock().unwrap();
        ops[place].returned = Some(now);
        ops[place].outcome = outcome;
    }

    /// How many calls were acknowledged so far, those of this kind.
    #[must_use]
    pub fn acknowledged(&self, of: impl Fn(&Op) -> bool) -> usize {
        self.ops.lock().unwrap().iter().filter(|op| op.is_acknowledged() && of(op)).count()
    }

    /// All calls so far, in the order they were sent.
    #[must_use]
    pub fn ops(&self) -> Vec<Op> {
        self.ops.lock().unwrap().clone()
    }
}

/// One JSON object a line, for people and their tools.
#[must_use]
pub fn lines(ops: &[Op]) -> String {
    let mut text = String::new();
    for op in ops {
        let line = serde_json::json!({
            "client": op.client,
            "cell": op.cell,
            "id": op.id,
            "act": format!("{:?}", op.act),
            "invoked_ns": u64::try_from(op.invoked.as_nanos()).unwrap_or(u64::MAX),
            "returned_ns": op.returned.map(|at| u64::try_from(at.as_nanos()).unwrap_or(u64::MAX)),
            "outcome": format!("{:?}", op.outcome),
        });
        let _ = writeln!(text, "{line}");
    }
    text
}
