//! Deltas in their form on the wire, made once for each filter and shared by all watchers that have it.
//!
//! Watchers of one region that keep up are at the same place and are sent the same bytes. Making them costs more than
//! sending them does. Who is elsewhere makes its own: this is a store of work done, never the truth.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use rollcall_model::{Delta, Position, Query};

/// Deltas kept for a filter: watchers that keep up differ by a step or two.
const DELTAS: usize = 16;
/// Bytes kept for a filter.
const BYTES: usize = 1024 * 1024;

/// How a delta is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    /// A `WatchResponse`.
    Grpc,
    /// A server-sent event of a watch of this region alone.
    Sse,
}

/// What the watchers of one region share, by form and filter. Cloned for each reader of the region.
#[derive(Clone, Debug, Default)]
pub(crate) struct Encodings {
    by_filter: Arc<Mutex<ByFilter>>,
}

/// A filter as text: filters that look alike are alike.
type ByFilter = HashMap<(Form, String), Weak<Recent>>;

/// The deltas of one filter that were written lately.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    written: Mutex<Written>,
}

#[derive(Debug, Default)]
struct Written {
    deltas: VecDeque<(Arc<Delta>, Bytes)>,
    bytes: usize,
}

impl Encodings {
    /// The store of one filter; it lives as long as somebody has that filter.
    pub(crate) fn of(&self, form: Form, query: &Query) -> Arc<Recent> {
        let mut by_filter = self.by_filter.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (form, format!("{query:?}"));
        if let Some(recent) = by_filter.get(&key).and_then(Weak::upgrade) {
            return recent;
        }
        by_filter.retain(|_, recent| recent.strong_count() > 0);
        let recent = Arc::new(Recent::default());
        by_filter.insert(key, Arc::downgrade(&recent));
        recent
    }
}

impl Recent {
    fn written(&self) -> MutexGuard<'_, Written> {
        // A panic while writing leaves the store as it was.
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The delta that was written last of those that begin here.
    pub(crate) fn after(&self, from: &Position) -> Option<Arc<Delta>> {
        let written = self.written();
        written.deltas.iter().rev().find(|(delta, _)| delta.from == *from).map(|(delta, _)| Arc::clone(delta))
    }

    /// The delta as bytes. Those who want the same one wait for it rather than make it, too.
    pub(crate) fn bytes(&self, delta: &Arc<Delta>, write: impl FnOnce() -> Bytes) -> Bytes {
        let mut written = self.written();
        let same = |(other, _): &&(Arc<Delta>, Bytes)| other.to == delta.to && other.from == delta.from;
        if let Some((_, bytes)) = written.deltas.iter().rev().find(same) {
            return bytes.clone();
        }
        let bytes = write();
        written.bytes += bytes.len();
        written.deltas.push_back((Arc::clone(delta), bytes.clone()));
        while written.deltas.len() > DELTAS || (written.bytes > BYTES && written.deltas.len() > 1) {
            let Some((_, old)) = written.deltas.pop_front() else { break };
            written.bytes -= old.len();
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use rollcall_model::testing::{position, region};

    use super::*;

    fn delta(from: u64, to: u64) -> Arc<Delta> {
        Arc::new(Delta {
            region: region(),
            from: position(1, from),
            to: position(1, to),
            changes: Vec::new(),
        })
    }

    #[test]
    fn a_delta_is_written_once_for_all_that_have_the_filter() {
        let encodings = Encodings::default();
        let mail = Query { name: Some("mail".into()), ..Query::default() };
        let (one, other) = (encodings.of(Form::Grpc, &mail), encodings.of(Form::Grpc, &mail.clone()));
        let times = Cell::new(0);
        let write = |recent: &Recent, delta: &Arc<Delta>| {
            recent.bytes(delta, || {
                times.set(times.get() + 1);
                Bytes::from(format!("{} {}", delta.from, delta.to))
            })
        };
        assert_eq!(write(&one, &delta(1, 3)), write(&other, &delta(1, 3)));
        assert_eq!(times.get(), 1);
        assert_ne!(
            write(&one, &delta(2, 3)),
            write(&one, &delta(1, 3)),
            "another beginning is another delta"
        );
        assert_eq!(times.get(), 2);
        write(&encodings.of(Form::Sse, &mail), &delta(1, 3));
        write(&encodings.of(Form::Grpc, &Query::default()), &delta(1, 3));
        assert_eq!(times.get(), 4, "neither another form nor another filter has it");
        let after = |from| one.after(&position(1, from)).map(|delta| delta.to.clone());
        assert_eq!((after(1), after(3)), (Some(position(1, 3)), None), "found by where it begins");
    }

    #[test]
    fn what_is_kept_is_bounded_and_goes_with_the_last_watcher() {
        let encodings = Encodings::default();
        let recent = encodings.of(Form::Grpc, &Query::default());
        for step in 0..100 {
            let bytes = recent.bytes(&delta(step, step + 1), || Bytes::from(vec![0; 100_000]));
            assert_eq!(bytes.len(), 100_000);
        }
        assert!(recent.written().deltas.len() <= DELTAS && recent.written().bytes <= BYTES);
        recent.bytes(&delta(500, 501), || Bytes::from(vec![0; 3 * BYTES]));
        assert_eq!(recent.written().deltas.len(), 1, "one that is too large for the others stands alone");
        drop(recent);
        encodings.of(Form::Sse, &Query::default());
        assert_eq!(encodings.by_filter.lock().unwrap().len(), 1);
    }
}
