//! The port onto the log between regions: append to a topic, follow it from an offset, ask where it begins and ends.
//!
//! The log is a pipe that may lose, duplicate, delay and forget; what makes that harmless stands in the records and is
//! judged by the model. Two adapters, one contract suite: `kafka` for regions that run, `memory` for one process.
//!
//! Promises: of what one appender was given, a beginning stands in the log, in the order of the calls and without a hole;
//! an offset means the same for ever within one topic; a follower is told when what it wants is not there, and is never
//! moved elsewhere in silence. Never here: what a record means for a view.

#[cfg(any(test, feature = "testing"))]
pub mod contract;
pub mod kafka;
pub mod memory;
pub mod newest;
pub mod record;
pub mod topic;

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use rollcall_model::Region;

pub use topic::{Drift, Topic};

/// Largest body of a record: no message of ours is over 1 MiB. The topics allow 64 KiB more, for headers and framing.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;

/// How long a bounded read waits for the next record that the log said is there.
const READ_PATIENCE: Duration = Duration::from_secs(5);

/// A record to append.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Names and values; the same facts as in the body, for tools that do not know it.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Bytes,
}

/// A record as it stands in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Where it stands.
    pub offset: u64,
    /// Names and values; a value that is no text is left out.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
    /// It has lain in the log for at most this long, by this process's monotonic clock alone. `None` when the adapter
    /// cannot tell, as for what was there before the follower came.
    pub lain_at_most: Option<Duration>,
}

/// Why the log did not do it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// Try again later. A record that was being appended may or may not stand in the log: its tail tells.
    #[error("the log cannot be reached: {0}")]
    Away(String),
    /// There is no such topic, or not yet.
    #[error("there is no topic {0}")]
    NoTopic(String),
    /// The offset is not in the log: forgotten, or of a topic that was there before. These are.
    #[error("the offset is outside of {0:?}")]
    OutOfRange(Range<u64>),
    /// The record is over the topic's limit; nothing was appended.
    #[error("the record is too large")]
    TooLarge,
    /// The log refuses for a reason that trying again does not change: settings or rights.
    #[error("the log refuses: {0}")]
    Refused(String),
}

/// An append under way: the record's offset, once it is safe.
pub type Appending = Pin<Box<dyn Future<Output = Result<u64, LogError>> + Send>>;

/// The log between regions. Clones share one connection.
pub trait FeedLog: Clone + Send + Sync + 'static {
    /// A topic being followed.
    type Follow: Follow;
    /// Where a writer's records go in.
    type Appender: Appender;

    /// Where the log is, for sentences about it.
    fn address(&self) -> &str;

    /// Creates the two topics of a region where they are missing. Topics that are there are only checked: what of them
    /// is otherwise than it would be created, and could be changed, is told.
    ///
    /// # Errors
    /// [`LogError::Refused`] for a topic that cannot carry a feed: with more than one partition there is no order.
    fn ensure(&self, region: &Region) -> impl Future<Output = Result<Vec<Drift>, LogError>> + Send;

    /// A new beginning for a writer, which first reads the log's end: what earlier appenders had under way when they
    /// failed or were let go of may stand there or not, and may even still arrive.
    ///
    /// # Errors
    /// [`LogError::Refused`] for settings that the client refuses, [`LogError::Away`] when it cannot be made now.
    fn appender(&self) -> Result<Self::Appender, LogError>;

    /// The first offset that is there and the one that the next record will get.
    ///
    /// # Errors
    /// [`LogError::NoTopic`], [`LogError::Away`].
    fn ends(&self, topic: &Topic) -> impl Future<Output = Result<Range<u64>, LogError>> + Send;

    /// Follows a topic from an offset, itself included. The end is a good start: the next record is the first.
    ///
    /// # Errors
    /// [`LogError::OutOfRange`] for an offset that is not there.
    fn follow(&self, topic: &Topic, from: u64)
    -> impl Future<Output = Result<Self::Follow, LogError>> + Send;
}

/// Where one writer's records go in. Clones are one and the same.
///
/// Of what it was given for a topic, a beginning stands in the log: after a record that was not taken, none behind it is,
/// so an appender that failed once fails for good. (A record that is refused for its size was never under way.) Letting go
/// of the last clone gives up what is still under way.
pub trait Appender: Clone + Send + Sync + 'static {
    /// Appends a record. It is queued when this returns, so that calls in order are records in order; the future is
    /// only the answer, and waits for as long as the log is away. The caller bounds how many it has under way, and how
    /// long it waits.
    fn append(&self, topic: &Topic, record: Outgoing) -> Appending;

    /// What the way to the log last complained of while records wait, where the adapter knows. It may pass by itself, and
    /// may not even be why they wait.
    fn trouble(&self) -> Option<String> {
        None
    }
}

/// A topic's records as they come.
pub trait Follow: Send + 'static {
    /// The next record. Waits for ever when nothing comes, also when the log is away and the adapter still hopes.
    /// Dropping the future loses nothing.
    ///
    /// # Errors
    /// The end of this follow; [`LogError::OutOfRange`] when the log forgot what comes next.
    fn next(&mut self) -> impl Future<Output = Result<Record, LogError>> + Send;
}

/// Reads the records of a range that the log said is there.
///
/// # Errors
/// As for following; [`LogError::Away`] when one does not come in time.
pub async fn read<L: FeedLog>(log: &L, topic: &Topic, range: Range<u64>) -> Result<Vec<Record>, LogError> {
    let mut records = Vec::new();
    if range.is_empty() {
        return Ok(records);
    }
    let mut follow = log.follow(topic, range.start).await?;
    loop {
        let record = tokio::time::timeout(READ_PATIENCE, follow.next())
            .await
            .map_err(|_| LogError::Away(format!("no record of {topic} came in {READ_PATIENCE:?}")))??;
        let offset = record.offset;
        // A log may have holes; what stands behind the range does not belong to it.
        if offset < range.end {
            records.push(record);
        }
        if offset + 1 >= range.end {
            return Ok(records);
        }
    }
}
