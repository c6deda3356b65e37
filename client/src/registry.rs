//! The registry as a caller sees it: resolve from memory, followed in the background.
//!
//! Promises: [`Registry::resolve`] does no I/O and waits for nobody; it works while every registry process is down,
//! until the hard limit of age. Never here: a call to the registry on the path of a call (promise I27).

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use rollcall_model::ejection::{Ejected, EjectedZone};
use rollcall_model::{Called, Clock, EjectionLimits, Instant, Query, Reach, Region, Registration, View};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::cache::CacheProfile;
use crate::clock::clock;
use crate::disk::Copies;
use crate::ejection::Book;
use crate::error::StartError;
use crate::follow::{Following, News};
use crate::local_snapshot::{LocalSnapshot, RegionStatus};
use crate::options::{self, RegistryOptions};
use crate::pin::Pin;
use crate::reading::Reading;
use crate::resolver::Resolution;
use crate::transport::Watches;

/// A handle to what is known of the followed regions. Cheap to clone; following ends with the last clone.
#[derive(Clone, Debug)]
pub struct Registry {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    current: Arc<Current>,
    clock: Clock,
    _stop: DropGuard,
}

/// The state to resolve from, and a bell for those who wait for a change.
#[derive(Debug)]
struct Current {
    snapshot: ArcSwap<LocalSnapshot>,
    changed: watch::Sender<()>,
    /// None when the caller reports nothing.
    ejections: Option<Book>,
}

impl Current {
    fn publish(&self, view: &View, now: Instant) {
        // Several regions publish at once; none may undo another's.
        self.snapshot.rcu(|snapshot| snapshot.with(view));
        if let Some(book) = &self.ejections {
            book.tend(self.snapshot.load().views(), now);
        }
        self.changed.send_replace(());
    }

    fn take(&self, region: &Region, news: News<'_>, now: Instant) {
        match news {
            News::State(view) => self.publish(view, now),
            News::Failure(failure) => {
                self.snapshot.rcu(|snapshot| snapshot.with_failure(region, failure.clone()));
                self.changed.send_replace(());
            }
        }
    }
}

impl Registry {
    /// Starts following the regions on the caller's runtime.
    ///
    /// Waits a while for the own region's state and its age, and returns all the same if they do not come: a registry
    /// that is away does not hold up a start. Until then it resolves from the copies on disk, or to "view not loaded"
    /// without one.
    ///
    /// # Errors
    /// The options are wrong.
    pub async fn connect(options: RegistryOptions) -> Result<Self, StartError> {
        let regions = options.order()?;
        // One connection carries the watches of all regions.
        let watches = Arc::new(Watches::new(&options::cells(&options.urls, options::environment))?);
        let clock = clock();
        let mut views = Vec::new();
        let mut copies = Vec::new();
        for region in regions {
            let mut view = View::new(region).without_history();
            let mut copy = options.directory.as_ref().map(|directory| Copies::new(directory, view.region()));
            if let Some(copy) = &mut copy {
                copy.load(&mut view, &clock).await;
            }
            views.push(view);
            copies.push(copy);
        }
        let current = Arc::new(Current {
            snapshot: ArcSwap::from_pointee(LocalSnapshot::of(views.clone(), options.cache)),
            changed: watch::Sender::new(()),
            ejections: options.ejection.map(Book::new),
        });
        let loaded = views.first().and_then(View::position).cloned();
        let stop = CancellationToken::new();
        for (view, copies) in views.into_iter().zip(copies) {
            let publish = {
                let (current, clock, region) = (Arc::clone(&current), clock.clone(), view.region().clone());
                move |news: News<'_>| current.take(&region, news, clock.now())
            };
            let (watches, breaker) = (Arc::clone(&watches), options.cache.breaker);
            let following = Following::new(watches, view, copies, breaker, clock.clone(), publish);
            // Ends by the token, which goes with the last handle.
            tokio::spawn(following.run(stop.clone()));
        }
        let registry = Self { inner: Arc::new(Inner { current, clock, _stop: stop.drop_guard() }) };
        // A state is worth what is known of its age: the bookmark behind it says that, and moves on what came from disk.
        // Not in time: later, in the background.
        let is_heard = |snapshot: &LocalSnapshot| {
            let Some(own) = snapshot.views().first() else { return true };
            let is_new = own.position().is_some_and(|position| Some(position) != loaded.as_ref());
            is_new && own.heard_age(Instant::default()).is_some()
        };
        let _ = tokio::time::timeout(options.first_load, registry.until(is_heard)).await;
        Ok(registry)
    }

    /// A registry that follows nobody and knows these states for ever, the own region's first: for tests of what calls.
    ///
    /// Its time begins with it; a view that was heard of at time zero ages from then on.
    #[must_use]
    pub fn offline(views: Vec<View>) -> Self {
        let limits = EjectionLimits::default();
        let current = Arc::new(Current {
            snapshot: ArcSwap::from_pointee(LocalSnapshot::of(views, CacheProfile::default())),
            changed: watch::Sender::new(()),
            ejections: Some(Book::new(limits)),
        });
        let stop = CancellationToken::new().drop_guard();
        Self { inner: Arc::new(Inner { current, clock: clock(), _stop: stop }) }
    }

    /// Shows what a view of one of its regions is now.
    pub(crate) fn show(&self, view: &View) {
        self.inner.current.publish(view, self.inner.clock.now());
    }

    /// Finds the instances that fit: the own region's, and those of other regions only if it has none. Immediate.
    #[must_use]
    pub fn resolve(&self, query: &Query) -> Resolution {
        self.resolve_within(query, &Reach::default())
    }

    /// Finds the instances that fit in the regions that this answer may come from, in the order given here. Immediate.
    ///
    /// A region of the list that is not followed is as one that was never loaded.
    #[must_use]
    pub fn resolve_within(&self, query: &Query, reach: &Reach) -> Resolution {
        self.read().resolution(query, reach)
    }

    /// Pins what is known now, for a conversation: what the pin resolves comes from this one state until it is dropped
    /// or the limit passes.
    #[must_use]
    pub fn pin(&self, limit: Duration) -> Pin {
        Pin::new(self.clone(), limit)
    }

    /// What is known at this moment, to resolve from without copying anything. Immediate.
    #[must_use]
    #[inline]
    pub fn read(&self) -> Reading<'_> {
        let (current, now) = (&self.inner.current, self.inner.clock.now());
        let page = current.ejections.as_ref().and_then(|book| book.now(now));
        Reading { snapshot: current.snapshot.load(), page, now }
    }

    /// Tells what became of a call to an instance. Immediate.
    ///
    /// Those that fail again and again are left out of what this handle and its clones resolve to, for a while and as
    /// long as enough others of the agent are left; so is a zone as a whole when several of its instances fail in a row
    /// while another zone answers (promise I28). A candidate that [is a probe](crate::Candidate::is_probe) is best called
    /// first: it tells whether what was left out is back. The registry does not hear of it.
    pub fn report(&self, region: &Region, registration: &Registration, called: Called) {
        let current = &self.inner.current;
        if let Some(book) = &current.ejections {
            let snapshot = current.snapshot.load();
            book.report(snapshot.views(), region, registration, called, self.inner.clock.now());
        }
    }

    /// The zones that this handle and its clones avoid as a whole, or for one agent, at the moment.
    #[must_use]
    pub fn ejected_zones(&self) -> Vec<EjectedZone> {
        self.inner.current.ejections.as_ref().map(Book::ejected_zones).unwrap_or_default()
    }

    /// Whom alone this handle and its clones avoid at the moment.
    #[must_use]
    pub fn ejected(&self) -> Vec<Ejected> {
        self.inner.current.ejections.as_ref().map(Book::ejected).unwrap_or_default()
    }

    /// The time that ages are told by.
    pub(crate) fn now(&self) -> Instant {
        self.inner.clock.now()
    }

    /// How each followed region stands, in the order they are asked.
    #[must_use]
    pub fn regions(&self) -> Vec<RegionStatus> {
        self.inner.current.snapshot.load().regions(self.inner.clock.now())
    }

    /// Everything that is known now; stays as it is while the registry goes on.
    #[must_use]
    pub fn snapshot(&self) -> Arc<LocalSnapshot> {
        self.inner.current.snapshot.load_full()
    }

    /// Waits until this region's state is there. For ever, if the region is not followed or its registry stays away.
    pub async fn loaded(&self, region: &Region) {
        self.until(|snapshot| snapshot.is_loaded(region)).await;
    }

    /// Waits until what is known fulfils the condition, which is looked at now and after each change.
    pub async fn until(&self, mut condition: impl FnMut(&LocalSnapshot) -> bool) {
        let mut changed = self.inner.current.changed.subscribe();
        while !condition(&self.snapshot()) {
            // The sender lives as long as this handle.
            let _ = changed.changed().await;
        }
    }
}
