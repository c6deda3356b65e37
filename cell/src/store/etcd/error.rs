//! What an error of etcd or of the way to it means: the only place that reads its codes and sentences.
//!
//! Promises that an error is called harmless only where etcd's source says that nothing was proposed.

use std::error::Error as _;

use etcd_client::Error;
use rollcall_model::Revision;
use tonic::{Code, ConnectError, Status};

use crate::store::StoreError;
use crate::store::space::Bound;

/// What to do about it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The member was not reached, or turned the call away before doing anything: ask another.
    NotReached(String),
    /// It may have been done or not.
    Broken(String),
    /// This is etcd's answer; another member would give the same.
    Answer(StoreError),
}

/// Sentences with which a member turns a call away before it proposes anything.
const TURNED_AWAY: [&str; 3] =
    ["etcdserver: no leader", "etcdserver: too many requests", "etcdserver: rpc not supported for learner"];
const COMPACTED: &str = "required revision has been compacted";
const AHEAD: &str = "required revision is a future revision";
const FULL: &str = "database space exceeded";
/// Of tonic, on our side of the wire.
const TOO_LARGE: &str = "decoded message length too large";

/// Sorts an error; `asked` is the revision that the call was about, if it was about one.
pub(super) fn sort(error: &Error, asked: Revision) -> Meaning {
    match error {
        Error::GRpcStatus(status) => sort_status(status, asked),
        Error::InvalidArgs(_) | Error::InvalidUri(_) | Error::InvalidMetadataValue(_) => {
            Meaning::Answer(StoreError::Refused(error.to_string()))
        }
        other => Meaning::Broken(other.to_string()),
    }
}

fn sort_status(status: &Status, asked: Revision) -> Meaning {
    let message = status.message();
    let told = || format!("{:?}: {message}", status.code());
    if never_connected(status) {
        return Meaning::NotReached(told());
    }
    match status.code() {
        Code::OutOfRange if message.contains(COMPACTED) => Meaning::Answer(StoreError::Compacted(asked)),
        Code::OutOfRange if message.contains(AHEAD) => Meaning::Answer(StoreError::Ahead(asked)),
        Code::ResourceExhausted if message.contains(FULL) => Meaning::Answer(StoreError::Full(Bound::Quota)),
        Code::Unavailable | Code::ResourceExhausted if TURNED_AWAY.contains(&message) => {
            Meaning::NotReached(told())
        }
        Code::InvalidArgument => Meaning::Answer(StoreError::Refused(message.to_owned())),
        // Rights are the operator's to mend; nothing was done.
        Code::PermissionDenied | Code::Unauthenticated => Meaning::Answer(StoreError::Unavailable(told())),
        // Everything else, "request timed out" and "leader changed" among it, may come after the proposal.
        _ => Meaning::Broken(told()),
    }
}

/// Whether the connection failed before the request could leave.
fn never_connected(status: &Status) -> bool {
    let mut source = status.source();
    while let Some(error) = source {
        if error.is::<ConnectError>() {
            return true;
        }
        source = error.source();
    }
    false
}

/// Nothing instead of an error, where the answer was thrown away for its size: no other member helps then.
pub(super) fn unless_too_large<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Err(Error::GRpcStatus(status))
            if status.code() == Code::OutOfRange && status.message().contains(TOO_LARGE) =>
        {
            Ok(None)
        }
        other => other.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(code: Code, message: &str) -> Meaning {
        sort(&Error::GRpcStatus(Status::new(code, message)), Revision(7))
    }

    #[test]
    fn the_history_that_is_gone_or_not_reached_names_the_revision() {
        let gone = sorted(Code::OutOfRange, "etcdserver: mvcc: required revision has been compacted");
        assert_eq!(gone, Meaning::Answer(StoreError::Compacted(Revision(7))));
        let ahead = sorted(Code::OutOfRange, "etcdserver: mvcc: required revision is a future revision");
        assert_eq!(ahead, Meaning::Answer(StoreError::Ahead(Revision(7))));
    }

    #[test]
    fn no_space_is_full_and_not_worth_another_member() {
        let full = sorted(Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded");
        assert_eq!(full, Meaning::Answer(StoreError::Full(Bound::Quota)));
    }

    #[test]
    fn what_may_come_after_the_proposal_is_broken() {
        for message in [
            "etcdserver: request timed out",
            "etcdserver: request timed out, possibly due to previous leader failure",
            "etcdserver: leader changed",
            "etcdserver: server stopped",
            "transport error",
        ] {
            assert!(matches!(sorted(Code::Unavailable, message), Meaning::Broken(_)), "{message}");
        }
        assert!(matches!(sorted(Code::Unknown, "transport error"), Meaning::Broken(_)));
        assert!(matches!(sorted(Code::Cancelled, "Timeout expired"), Meaning::Broken(_)));
        assert!(matches!(sorted(Code::OutOfRange, "decoded message length too large"), Meaning::Broken(_)));
    }

    #[test]
    fn what_is_turned_away_may_go_to_another_member() {
        assert!(matches!(sorted(Code::Unavailable, "etcdserver: no leader"), Meaning::NotReached(_)));
        let busy = sorted(Code::ResourceExhausted, "etcdserver: too many requests");
        assert!(matches!(busy, Meaning::NotReached(_)));
    }
}
