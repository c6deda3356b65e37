//! A registry in memory, for unit tests of what registers and of what calls (acceptance EXT-03).
//!
//! Promises: it answers as a cell does. Epochs rise, a late owner is superseded, what is gone is not registered, and what
//! is registered is resolved at once. No process, no network and no waiting: a lease lapses when the test says so. Never
//! here: another region, an expiry guard, admission.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rollcall_model::load::news;
use rollcall_model::{
    Change, Code, Declaration, Declared, Delta, Epoch, Heard, Incarnation, InstanceId, Instant, Lifecycle,
    Load, LoadLimits, Owned, Position, Region, Registration, Removal, RemovalReason, Replaced, Revision,
    Scope, Snapshot, State, Timestamp, View, lease,
};

use crate::error::{CallError, StartError};
use crate::options::RegistrantOptions;
use crate::registrant::Registrant;
use crate::registry::Registry;
use crate::role::{Agent, Tool};
use crate::transport::{Gone, LeaseTimes, Registered, Renewal, Wire};

/// What stands in errors where a cell's URL would.
const PLACE: &str = "memory:";

/// A registry in memory. Clones share it; it lives as long as one of them, or anything that it made.
#[derive(Clone, Debug)]
pub struct MemoryRegistry {
    held: Arc<Held>,
}

#[derive(Debug)]
struct Held {
    view: Mutex<View>,
    readers: Registry,
}

impl MemoryRegistry {
    /// An empty registry of this region.
    ///
    /// # Errors
    /// The text is no region.
    pub fn new(region: &str) -> Result<Self, StartError> {
        let region = Region::parse(region).map_err(|finding| StartError::Declaration(vec![finding]))?;
        let incarnation =
            Incarnation::new(1, "memory").map_err(|finding| StartError::Declaration(vec![finding]))?;
        let empty = Snapshot::of(region.clone(), Position::new(incarnation, Revision(1)), State::default());
        let mut view = View::new(region).without_history();
        let heard = Heard { at: Instant::default(), age: Duration::ZERO };
        view.install(empty, Some(heard), "started", Timestamp(0));
        let readers = Registry::offline(vec![view.clone()]);
        Ok(Self { held: Arc::new(Held { view: Mutex::new(view), readers }) })
    }

    /// Registers as any program would, with the same checks and the same upkeep in the background.
    ///
    /// # Errors
    /// As [`Registrant::start`].
    pub fn registrant(&self, declaration: Declaration) -> Result<Registrant, StartError> {
        Registrant::over(self.wire(), options(declaration))
    }

    /// Registers a tool.
    ///
    /// # Errors
    /// As [`Registrant::start`].
    pub fn tool(&self, declaration: Declaration) -> Result<Tool, StartError> {
        Tool::over(self.wire(), options(declaration))
    }

    /// Registers an agent, which discovers here as well.
    ///
    /// # Errors
    /// As [`Registrant::start`].
    pub fn agent(&self, declaration: Declaration) -> Result<Agent, StartError> {
        Agent::over(self.wire(), options(declaration), self.registry())
    }

    /// What resolves what is registered here.
    #[must_use]
    pub fn registry(&self) -> Registry {
        self.held.readers.clone()
    }

    /// Ends a lease as if nobody had renewed it for its length; `false` when there is no such registration. Its owner
    /// hears of it with its next beat.
    pub fn lapse(&self, id: &InstanceId) -> bool {
        let mut view = self.view();
        match of(&view, id) {
            Some(current) => {
                self.remove(&mut view, &current, RemovalReason::Expired, "keeper");
                true
            }
            None => false,
        }
    }

    pub(crate) fn register(&self, declaration: &Declaration) -> Result<Registered, CallError> {
        let fresh = || uuid::Uuid::new_v4().to_string();
        let declared = Declared::check(declaration.clone(), fresh).map_err(|found| {
            let first = found.into_iter().next();
            let (code, detail) = first.map_or((Code::InvalidBody, String::new()), |f| (f.code, f.detail));
            CallError::Refused { url: PLACE.into(), code, detail, retry_after: None }
        })?;
        let lease = times(&declared);
        let mut view = self.view();
        let region = view.region().clone();
        let before = of(&view, &declared.id);
        if let Some(before) = before.as_ref().filter(|before| joins(before, &declared)) {
            return Ok(Registered { region, epoch: before.epoch, lease });
        }
        let replaced = before.map_or_else(Replaced::default, |before| before.replaced_by(&declared));
        let revision = next(&view);
        let epoch = Epoch::new(1, revision);
        let owned = Owned::of(&declared);
        let registered_at = Timestamp(0);
        self.put(&mut view, Registration { declared, epoch, registered_at, revision, owned, replaced });
        Ok(Registered { region, epoch, lease })
    }

    pub(crate) fn renew(
        &self,
        id: &InstanceId,
        epoch: Epoch,
        lifecycle: Option<Lifecycle>,
        load: Option<Load>,
    ) -> Renewal {
        let mut view = self.view();
        let Some(current) = of(&view, id) else { return Renewal::NotRegistered };
        let times = times(&current.declared);
        if current.epoch != epoch {
            // An older holder of a shared entry keeps it alive.
            return if current.replaced.contains(&epoch) {
                Renewal::Renewed(times)
            } else {
                Renewal::Superseded(
                    current.declared.endpoints.first().map_or_else(String::new, |e| e.url().to_owned()),
                )
            };
        }
        let told = news(&current.declared, &current.owned, lifecycle, load, &LoadLimits::default());
        if let Some(told) = told {
            let revision = next(&view);
            self.put(&mut view, Registration { owned: told.owned, revision, ..(*current).clone() });
        }
        Renewal::Renewed(times)
    }

    pub(crate) fn deregister(&self, id: &InstanceId, epoch: Epoch) -> Gone {
        let mut view = self.view();
        match of(&view, id).filter(|current| current.epoch == epoch) {
            Some(current) => {
                self.remove(&mut view, &current, RemovalReason::Deregistered, "owner");
                Gone::Now
            }
            None => Gone::Before,
        }
    }

    fn wire(&self) -> Wire {
        Wire::Memory(self.clone())
    }

    fn view(&self) -> MutexGuard<'_, View> {
        // A view is whole after each change; a panic elsewhere leaves it so.
        self.held.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, view: &mut View, registration: Registration) {
        self.apply(view, Change::Put(Arc::new(registration)));
    }

    fn remove(&self, view: &mut View, current: &Registration, reason: RemovalReason, actor: &str) {
        let removal = Removal {
            id: current.declared.id.clone(),
            epoch: current.epoch,
            reason,
            actor: actor.into(),
            term: None,
            at: Timestamp(0),
            revision: next(view),
        };
        self.apply(view, Change::Remove(Arc::new(removal)));
    }

    fn apply(&self, view: &mut View, change: Change) {
        let Some(from) = view.position().cloned() else { return };
        let to = Position::new(from.incarnation.clone(), change.revision());
        let delta = Delta { region: view.region().clone(), from, to, changes: vec![change] };
        // It continues the view by construction.
        let _ = view.apply(&Arc::new(delta));
        self.held.readers.show(view);
    }
}

/// A test's declaration is all there is of it, wherever the test runs.
fn options(declaration: Declaration) -> RegistrantOptions {
    let mut options = RegistrantOptions::new([PLACE], declaration);
    options.kubernetes = false;
    options
}

fn of(view: &View, id: &InstanceId) -> Option<Arc<Registration>> {
    view.state()?.get(id.as_str()).cloned()
}

fn next(view: &View) -> Revision {
    Revision(view.position().map_or(0, |position| position.revision.0) + 1)
}

/// Whether a replica of a deployment says what its entry says already.
fn joins(before: &Registration, declared: &Declared) -> bool {
    declared.scope == Scope::Service && before.declared == *declared
}

fn times(declared: &Declared) -> LeaseTimes {
    let length = Duration::from_secs(u64::from(declared.lease_seconds));
    LeaseTimes { beat: lease::heartbeat(length), length }
}
