//! What a connection does, as far as its limits need to know it.
//!
//! Promises: a request counts from its head until its answer's last byte is taken, whatever becomes of it in between.
//! Never here: a decision to close; that is the connection's.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::Limits;

/// What HTTP/2 begins with (RFC 9113, 3.4). It may come in pieces as small as a byte.
const PREFACE: &[u8; PREFACE_BYTES] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const PREFACE_BYTES: usize = 24;

/// The state of one connection, shared by its socket, its requests and its watch.
#[derive(Debug)]
pub(super) struct Pulse {
    state: Mutex<State>,
    /// As many as `requests` says, for who asks at every write.
    under_way: AtomicUsize,
    /// Answers with a piece that was handed over and is not taken yet.
    offered: AtomicUsize,
    /// Anything of any answer was handed over, taken or written since the last look: each of them is several times in every
    /// answer, and asking for the time at each would cost more than noting it.
    has_moved: AtomicBool,
}

#[derive(Debug)]
struct State {
    requests: usize,
    /// When the last request ended, or the connection began.
    resting_since: Instant,
    /// When the head that is not whole yet began.
    head_since: Option<Instant>,
    protocol: Protocol,
    /// The peer sent something that nobody read to its end.
    unread: bool,
    /// The last look before which anything of any answer had moved.
    moved: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    /// So many bytes came, all of them as HTTP/2's preface begins.
    Unknown(usize),
    /// Bytes without a request in flight are a head.
    Http1,
    /// Bytes may be anything: pings, windows, settings. Pings of our own tell whether the peer is there.
    Http2,
}

/// What came, as far as its bytes tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Came {
    /// The first of a head, or of a connection.
    Beginning,
    /// More of it.
    More,
    /// A body, or what is behind it: nobody has to know.
    Other,
    /// HTTP/2.
    Streams,
}

/// What is to be done about a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing.
    Alive,
    /// A head has not become whole in time.
    SlowHead,
    /// Nothing was asked for a long time.
    Idle,
    /// There is something for the peer, and it has taken nothing of any answer for a long time.
    Stalled,
}

impl Pulse {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        let state = State {
            requests: 0,
            resting_since: now,
            head_since: Some(now),
            protocol: Protocol::Unknown(0),
            unread: false,
            moved: now,
        };
        Self {
            state: Mutex::new(state),
            under_way: AtomicUsize::new(0),
            offered: AtomicUsize::new(0),
            has_moved: AtomicBool::new(false),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Plain values, whole whoever panicked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes bytes that came; says what they are.
    pub(super) fn came(&self, bytes: &[u8]) -> Came {
        let mut state = self.state();
        let came = match state.protocol {
            Protocol::Http2 => Came::Streams,
            Protocol::Unknown(before) => {
                let due = PREFACE.get(before..).unwrap_or_default();
                let came = bytes.len().min(due.len());
                state.protocol = match (bytes.get(..came) == due.get(..came), before + came) {
                    (false, _) => Protocol::Http1,
                    // Whole: until then it is a head like any other, and takes no longer than one.
                    (true, PREFACE_BYTES) => {
                        state.head_since = None;
                        Protocol::Http2
                    }
                    (true, so_far) => Protocol::Unknown(so_far),
                };
                if before == 0 { Came::Beginning } else { Came::More }
            }
            Protocol::Http1 if state.requests > 0 => Came::Other,
            Protocol::Http1 if state.head_since.is_some() => Came::More,
            Protocol::Http1 => {
                state.head_since = Some(Instant::now());
                Came::Beginning
            }
        };
        if state.protocol == Protocol::Http2 { Came::Streams } else { came }
    }

    /// A request begins; it lasts until what this returns is dropped.
    pub(super) fn begin(self: &Arc<Self>) -> Turn {
        let mut state = self.state();
        state.requests += 1;
        state.head_since = None;
        self.under_way.store(state.requests, Ordering::Relaxed);
        drop(state);
        Turn { pulse: Arc::clone(self) }
    }

    /// Whether several answers are under way: then what one of them says may have company.
    pub(super) fn has_several(&self) -> bool {
        self.under_way.load(Ordering::Relaxed) > 1
    }

    /// Whether what is written now can be the machine's own answer to a head that it could not read: of HTTP/1, with no
    /// request in flight, and with some of a head there.
    pub(super) fn awaits_head(&self) -> bool {
        let state = self.state();
        state.protocol == Protocol::Http1 && state.requests == 0 && state.head_since.is_some()
    }

    /// A body was let go of before its end.
    pub(super) fn left_unread(&self) {
        self.state().unread = true;
    }

    /// Whether the peer may still be sending what nobody will read.
    pub(super) fn has_unread(&self) -> bool {
        let state = self.state();
        match state.protocol {
            // A stream is let go of by itself there.
            Protocol::Http2 => false,
            Protocol::Unknown(_) | Protocol::Http1 => state.unread || state.head_since.is_some(),
        }
    }

    /// A piece of an answer is handed over: until it is taken, the answer waits for its peer.
    pub(super) fn offers(&self) {
        self.offered.fetch_add(1, Ordering::Relaxed);
        self.wrote();
    }

    /// It was taken, or its answer was let go of.
    pub(super) fn took(&self) {
        self.offered.fetch_sub(1, Ordering::Relaxed);
        self.wrote();
    }

    /// The network took some of an answer.
    pub(super) fn wrote(&self) {
        self.has_moved.store(true, Ordering::Relaxed);
    }

    /// Counts the rest anew.
    pub(super) fn rest(&self) {
        self.state().resting_since = Instant::now();
    }

    /// When to look again: nobody wakes the watch when a request ends or a head begins, so never later than the
    /// shorter limit from now.
    pub(super) fn next_look(&self, limits: &Limits) -> Instant {
        let state = self.state();
        let latest = Instant::now() + limits.head.min(limits.idle).min(limits.stalled);
        match (state.requests, state.head_since) {
            (0, Some(since)) => latest.min(since + limits.head),
            (0, None) => latest.min(state.resting_since + limits.idle),
            _ => latest,
        }
    }

    /// What is to be done now.
    pub(super) fn look(&self, limits: &Limits) -> Verdict {
        let mut state = self.state();
        if self.has_moved.swap(false, Ordering::Relaxed) {
            state.moved = Instant::now();
        }
        let is_offered = self.offered.load(Ordering::Relaxed) > 0;
        match (state.requests, state.head_since) {
            (0, Some(since)) if since.elapsed() >= limits.head => Verdict::SlowHead,
            (0, None) if state.resting_since.elapsed() >= limits.idle => Verdict::Idle,
            (1.., _) if is_offered && state.moved.elapsed() >= limits.stalled => Verdict::Stalled,
            _ => Verdict::Alive,
        }
    }
}

/// One request's time on its connection.
#[derive(Debug)]
pub(super) struct Turn {
    pulse: Arc<Pulse>,
}

impl Turn {
    /// The connection it is on.
    pub(super) fn pulse(&self) -> Arc<Pulse> {
        Arc::clone(&self.pulse)
    }

    /// A piece of its answer is handed over.
    pub(super) fn offers(&self) {
        self.pulse.offers();
    }

    /// It was taken.
    pub(super) fn took(&self) {
        self.pulse.took();
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.pulse.state();
        state.requests -= 1;
        state.resting_since = Instant::now();
        self.pulse.under_way.store(state.requests, Ordering::Relaxed);
    }
}
