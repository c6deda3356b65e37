//! The history as etcd's watch tells it, made whole.
//!
//! Promises that a revision is delivered complete or not at all: etcd splits large answers, and says so. A watch
//! that went wrong ends with an error and is never resumed in silence.
//!
//! Never here: a second try. Whoever follows knows from where.

use std::sync::Arc;

use etcd_client::proto::{PbEvent, PbWatchResponse};
use etcd_client::{Error, WatchOptions, WatchStream};
use rollcall_model::Revision;

use super::error::{Meaning, sort};
use super::members::Members;
use super::txn;
use crate::store::{Effect, Follow, Happened, StoreError};

/// The history of one region as it happens.
pub struct EtcdFollow {
    stream: WatchStream,
    prefix: Arc<str>,
    assembly: Assembly,
}

/// Opens a watch and waits until etcd has confirmed it.
pub(super) async fn open(
    members: &Members,
    prefix: &Arc<str>,
    from: Revision,
) -> Result<EtcdFollow, StoreError> {
    let (stream, first) = members
        .again(from, |clients| {
            let options = WatchOptions::new()
                .with_prefix()
                .with_start_revision(txn::to_etcd(from))
                .with_progress_notify()
                .with_fragment();
            let prefix = prefix.as_bytes().to_vec();
            async move {
                let mut stream = clients.watch.clone().watch(prefix, Some(options)).await?;
                let first = stream.message().await?;
                let first = first.ok_or_else(|| Error::WatchError("the watch ended".to_owned()))?;
                Ok((stream, first))
            }
        })
        .await?;
    let mut assembly = Assembly::new(from);
    // The confirmation carries no events; if it were a refusal instead, this is where it is told.
    assembly.take(prefix, first.0)?;
    Ok(EtcdFollow { stream, prefix: Arc::clone(prefix), assembly })
}

impl Follow for EtcdFollow {
    async fn next(&mut self) -> Result<Vec<Happened>, StoreError> {
        loop {
            let response = match self.stream.message().await {
                Ok(Some(response)) => response.0,
                Ok(None) => return Err(StoreError::Unavailable("the watch ended".to_owned())),
                Err(error) => return Err(ended(&error, self.assembly.next)),
            };
            let happened = self.assembly.take(&self.prefix, response)?;
            if !happened.is_empty() {
                return Ok(happened);
            }
        }
    }
}

fn ended(error: &Error, next: Revision) -> StoreError {
    match sort(error, next) {
        Meaning::Answer(answer) => answer,
        Meaning::Broken(why) | Meaning::NotReached(why) => StoreError::Unavailable(why),
    }
}

/// Puts revisions together from a watch's messages; pure.
struct Assembly {
    /// The least revision that may come next.
    next: Revision,
    /// The revision that more may come of, and what has come of it.
    open: Vec<(Revision, Option<Effect>)>,
}

impl Assembly {
    fn new(from: Revision) -> Self {
        Self { next: from, open: Vec::new() }
    }

    /// Takes a message and gives the revisions that are complete with it.
    fn take(&mut self, prefix: &str, response: PbWatchResponse) -> Result<Vec<Happened>, StoreError> {
        if response.canceled {
            return Err(match response.compact_revision {
                0 => StoreError::Unavailable(format!("the watch was cancelled: {}", response.cancel_reason)),
                revision => StoreError::Compacted(txn::from_etcd(revision)),
            });
        }
        for event in response.events {
            let effect = effect(prefix, event);
            let behind = self.open.last().map_or(self.next, |last| last.0);
            if effect.0 < behind {
                return Err(StoreError::Unavailable(format!("revision {} came after {behind}", effect.0)));
            }
            self.open.push(effect);
        }
        // What stands at the last revision of a split message may be continued by the next one; what stands
        // before it is complete, and need not wait.
        let complete = match self.open.last() {
            Some((last, _)) if response.fragment => {
                let last = *last;
                self.open.partition_point(|(revision, _)| *revision < last)
            }
            _ => self.open.len(),
        };
        let mut happened: Vec<Happened> = Vec::new();
        for (revision, effect) in self.open.drain(..complete) {
            self.next = Revision(revision.0 + 1);
            let Some(effect) = effect else { continue };
            match happened.last_mut() {
                Some(last) if last.revision == revision => last.effects.push(effect),
                _ => happened.push(Happened { revision, effects: vec![effect] }),
            }
        }
        Ok(happened)
    }
}

/// An event's revision, and its effect unless the key is foreign. Both kinds carry the revision with the key.
fn effect(prefix: &str, event: PbEvent) -> (Revision, Option<Effect>) {
    let removed = event.r#type() == etcd_client::EventType::Delete;
    let Some(found) = event.kv else { return (Revision::default(), None) };
    let revision = txn::from_etcd(found.mod_revision);
    let effect = if removed {
        txn::key(prefix, found.key).map(Effect::Removed)
    } else {
        txn::entry(prefix, found).map(Effect::Put)
    };
    (revision, effect)
}

#[cfg(test)]
mod tests {
    use etcd_client::proto::PbKeyValue;

    use super::*;

    fn event(key: &str, revision: i64) -> PbEvent {
        let kv = PbKeyValue {
            key: format!("p/{key}").into_bytes(),
            mod_revision: revision,
            create_revision: revision,
            ..PbKeyValue::default()
        };
        PbEvent { kv: Some(kv), ..PbEvent::default() }
    }

    fn message(events: &[(&str, i64)], fragment: bool) -> PbWatchResponse {
        let events = events.iter().map(|(key, revision)| event(key, *revision)).collect();
        PbWatchResponse { events, fragment, ..PbWatchResponse::default() }
    }

    fn brief(happened: &[Happened]) -> Vec<(u64, usize)> {
        happened.iter().map(|one| (one.revision.0, one.effects.len())).collect()
    }

    #[test]
    fn a_message_may_hold_several_revisions() {
        let mut assembly = Assembly::new(Revision(3));
        let happened = assembly.take("p/", message(&[("a", 3), ("b", 3), ("a", 5)], false)).unwrap();
        assert_eq!(brief(&happened), [(3, 2), (5, 1)]);
    }

    #[test]
    fn a_revision_that_is_split_over_messages_is_delivered_whole() {
        let mut assembly = Assembly::new(Revision(3));
        let first = assembly.take("p/", message(&[("a", 3), ("a", 4), ("b", 4)], true)).unwrap();
        assert_eq!(brief(&first), [(3, 1)]);
        let second = assembly.take("p/", message(&[("c", 4)], true)).unwrap();
        assert_eq!(brief(&second), []);
        let third = assembly.take("p/", message(&[("d", 4), ("a", 5)], true)).unwrap();
        assert_eq!(brief(&third), [(4, 4)]);
        let last = assembly.take("p/", message(&[("b", 5)], false)).unwrap();
        assert_eq!(brief(&last), [(5, 2)]);
    }

    #[test]
    fn a_watch_that_goes_back_is_an_error() {
        let mut assembly = Assembly::new(Revision(3));
        assembly.take("p/", message(&[("a", 4)], false)).unwrap();
        assert!(assembly.take("p/", message(&[("a", 4)], false)).is_err());
        assert!(assembly.take("p/", message(&[("a", 5)], false)).is_ok());
    }

    #[test]
    fn a_cancelled_watch_tells_compaction_from_the_rest() {
        let mut assembly = Assembly::new(Revision(3));
        let canceled = |compact_revision| PbWatchResponse {
            canceled: true,
            compact_revision,
            ..PbWatchResponse::default()
        };
        assert_eq!(assembly.take("p/", canceled(9)), Err(StoreError::Compacted(Revision(9))));
        assert!(matches!(assembly.take("p/", canceled(0)), Err(StoreError::Unavailable(_))));
    }

    #[test]
    fn a_foreign_key_leaves_no_trace() {
        let mut assembly = Assembly::new(Revision(3));
        let mut foreign = message(&[("a", 3), ("b", 4)], false);
        foreign.events[0].kv.as_mut().unwrap().key = vec![b'p', b'/', 0xff];
        assert_eq!(brief(&assembly.take("p/", foreign).unwrap()), [(4, 1)]);
    }
}
