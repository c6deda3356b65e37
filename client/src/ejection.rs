//! Whom this process avoids for a while, told by its own calls; the decisions are the model's.
//!
//! Promises: who resolves never waits here; a report takes a lock only when it says something new, and holds it for a
//! few steps of a map. Never here: a call of ours to an instance; the probe is one of the caller's own.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use rollcall_model::ejection::{Ejected, EjectedZone, Reported};
use rollcall_model::resolve::Trust;
use rollcall_model::{Called, EjectionLimits, Ejections, Instant, Region, Registration, View};

/// How often what is remembered is compared with the views: as often as a view has news at the least.
const TEND_EVERY: Duration = Duration::from_secs(1);

/// The ejections of one registry handle and its clones.
#[derive(Debug)]
pub(crate) struct Book {
    /// Written under the lock, then shown.
    written: Mutex<Written>,
    shown: ArcSwap<Ejections>,
    /// Whether anything is shown: a page of nothing is not even opened.
    is_empty: AtomicBool,
}

#[derive(Debug)]
struct Written {
    ejections: Ejections,
    tended: Instant,
}

impl Book {
    pub(crate) fn new(limits: EjectionLimits) -> Self {
        let ejections = Ejections::new(limits);
        let shown = ArcSwap::from_pointee(ejections.clone());
        let written = Mutex::new(Written { ejections, tended: Instant::default() });
        Self { written, shown, is_empty: AtomicBool::new(true) }
    }

    /// What is thought of everybody at this moment; `None` when nothing bad is known of anybody.
    #[inline]
    pub(crate) fn now(&self, now: Instant) -> Option<Page<'_>> {
        // It is set after what it speaks of; a reader that is a moment late calls one of whom nothing was known.
        if self.is_empty.load(Ordering::Acquire) {
            return None;
        }
        Some(Page { book: self, shown: self.shown.load(), now })
    }

    /// Takes what became of a call.
    pub(crate) fn report(
        &self,
        views: &[View],
        region: &Region,
        registration: &Registration,
        called: Called,
        now: Instant,
    ) {
        if !self.shown.load().is_news(region, registration, called, now) {
            return;
        }
        let reported = {
            let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
            let chance = rand::random();
            let reported = written.ejections.report(views, region, registration, called, now, chance);
            self.show(&written);
            reported
        };
        let id = &registration.declared.id;
        match reported {
            Reported::Ejected(wait) => {
                tracing::info!(%region, %id, ?called, ?wait, "instance ejected");
            }
            Reported::Readmitted => tracing::info!(%region, %id, "instance called again"),
            Reported::Spared => {
                tracing::debug!(%region, %id, ?called, "instance not ejected, too many of its agent are");
            }
            Reported::ZoneEjected(EjectedZone { region, zone, agent, .. }) => {
                let agent = agent.as_deref().unwrap_or("any");
                tracing::warn!(%region, %zone, agent, "zone ejected, its instances fail while others answer");
            }
            Reported::ZoneReadmitted(zone) => tracing::info!(%region, %zone, "zone called again"),
            Reported::Nothing => {}
        }
    }

    /// Compares what is remembered with the views, once a second at most.
    pub(crate) fn tend(&self, views: &[View], now: Instant) {
        if self.shown.load().is_empty() {
            return;
        }
        // Whoever holds the lock writes something; the next bookmark comes soon.
        let Ok(mut written) = self.written.try_lock() else { return };
        if now.since(written.tended) < TEND_EVERY {
            return;
        }
        written.tended = now;
        if written.ejections.tend(views, now) {
            self.show(&written);
        }
    }

    pub(crate) fn ejected(&self) -> Vec<Ejected> {
        self.shown.load().ejected()
    }

    pub(crate) fn ejected_zones(&self) -> Vec<EjectedZone> {
        self.shown.load().ejected_zones()
    }

    fn show(&self, written: &Written) {
        self.shown.store(Arc::new(written.ejections.clone()));
        self.is_empty.store(written.ejections.is_empty(), Ordering::Release);
    }

    fn take_probe(&self, region: &Region, registration: &Registration, now: Instant) -> bool {
        // Not waited for: another call takes it then.
        let Ok(mut written) = self.written.try_lock() else { return false };
        let is_taken = written.ejections.take_probe(region, registration, now);
        if is_taken {
            self.show(&written);
        }
        is_taken
    }
}

/// What was thought of everybody when a caller began to resolve.
pub(crate) struct Page<'a> {
    book: &'a Book,
    shown: Guard<Arc<Ejections>>,
    now: Instant,
}

impl Page<'_> {
    /// What is thought of an instance; the probe that is due is taken with the answer.
    pub(crate) fn trust(&self, region: &Region, registration: &Registration) -> Trust {
        match self.shown.trust(region, registration, self.now) {
            Trust::Probe if !self.book.take_probe(region, registration, self.now) => Trust::Ejected,
            trust => trust,
        }
    }
}
