//! The registrant: registers, keeps the registration alive, and takes it back.
//!
//! Promises: it never gives up and never holds the caller up; a registry that is away at the start, restarts or forgets
//! is no reason to act for anyone. A registration is made anew from the registrant's own copy. Never here: what to do
//! on a signal, or how long work in progress takes; [`Registrant::set_lifecycle`] and [`Registrant::close`] are for that.

mod beat;
mod summary;
mod task;

use std::time::{Duration, Instant};

use rollcall_model::{Declaration, Declared, Epoch, InstanceId, Lifecycle, Load, Region, Scope};
use tokio::sync::watch;

use crate::background;
use crate::error::{CallError, StartError};
use crate::kubernetes;
use crate::options::{self, RegistrantOptions};
use crate::transport::{Cells, Wire};

/// Longest budget of [`Registrant::close`]: no orchestrator waits longer for a process to end.
const BUDGET_MAX: Duration = Duration::from_secs(3600);

/// Keeps one registration alive, on a thread that a busy caller does not starve.
///
/// [`Registrant::close`] is the proper end. Dropped, as when the task that owns it is cancelled, it deregisters in the
/// background, for two seconds at most; if the process ends before that, its lease lapses.
#[derive(Debug)]
pub struct Registrant {
    told: watch::Sender<Told>,
    status: watch::Receiver<Status>,
}

/// How a registration is doing.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// The id as it is now: another instance than declared, once another process held that one.
    pub id: InstanceId,
    /// The region that registered it last.
    pub region: Option<Region>,
    /// The epoch it holds.
    pub epoch: Option<Epoch>,
    /// What the registrant is doing.
    pub state: RegistrantState,
    /// Why the last call failed; none when it succeeded.
    pub last_error: Option<CallError>,
    /// Registrations made.
    pub registrations: u64,
    /// Renewals that succeeded.
    pub renewals: u64,
    /// Calls that failed.
    pub failures: u64,
}

/// What a registrant is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegistrantState {
    /// Not registered, or no longer: it is trying.
    Registering,
    /// Registered, as far as it knows.
    Registered,
    /// On its way out.
    Draining,
    /// It has ended.
    Closed(Closed),
}

/// How a registrant ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// The registration is gone, or was gone before.
    Deregistered,
    /// There was none, as far as it knows: a registration whose answer never came lapses by itself.
    NotRegistered,
    /// The registry did not confirm within the budget: the lease lapses by itself.
    LeftToLapse,
}

/// What the owner told the registrant.
#[derive(Clone, Debug, Default)]
struct Told {
    lifecycle: Option<Lifecycle>,
    load: Option<Load>,
    close_by: Option<Instant>,
}

impl Registrant {
    /// Starts registering in the background and returns at once.
    ///
    /// # Errors
    /// The options are wrong, or the process has no thread to spare. A registry that is away is no error.
    pub fn start(options: RegistrantOptions) -> Result<Self, StartError> {
        let cells = Cells::shared(&options::cells(&options.urls, options::environment))?;
        Self::over(Wire::Cells(cells), options)
    }

    /// The same with the calls going this way.
    pub(crate) fn over(wire: Wire, mut options: RegistrantOptions) -> Result<Self, StartError> {
        if options.kubernetes {
            let is_shared = is_shared(&options.declaration);
            let environment = options::environment;
            kubernetes::fill(&mut options.declaration.metadata, is_shared, environment);
            kubernetes::address(&mut options.declaration, environment);
            if is_shared && let Some(url) = kubernetes::pods_own(&options.declaration, environment) {
                tracing::warn!(
                    id = options.declaration.id,
                    url,
                    "a shared entry names one pod's address: each replica declares another and replaces it; declare the service's"
                );
            }
        }
        let (declaration, declared) = checked(options.declaration)?;
        let (told, hears) = watch::channel(Told::default());
        let (says, status) = watch::channel(Status {
            id: declared.id.clone(),
            region: None,
            epoch: None,
            state: RegistrantState::Registering,
            last_error: None,
            registrations: 0,
            renewals: 0,
            failures: 0,
        });
        let keeping = task::Keeping::new(wire, declaration, &declared, hears, says);
        let keeping = keeping.wishing(options.heartbeat);
        // The task ends with the handle; its end is seen by the status channel, so its join handle is not needed.
        background::runtime()?.spawn(keeping.run());
        Ok(Self { told, status })
    }

    /// Waits until it is registered, for the first time or again, and gives the status then.
    pub async fn registered(&self) -> Status {
        self.until(|status| status.state == RegistrantState::Registered).await
    }

    /// Waits until the status fulfils the condition, and gives it. Returns as well when the registrant has ended.
    pub async fn until(&self, mut condition: impl FnMut(&Status) -> bool) -> Status {
        let mut status = self.status.clone();
        // An error says that the task is gone; the last word of it is still there.
        match status.wait_for(|status| condition(status)).await {
            Ok(status) => status.clone(),
            Err(_) => self.status(),
        }
    }

    /// How the registration is doing now.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status.borrow().clone()
    }

    /// Says how the instance is doing; goes out at once, and again whenever it is registered anew. Of an entry that is
    /// shared `draining` and `offline` are not told: one process that ends is not the end of the service.
    pub fn set_lifecycle(&self, lifecycle: Lifecycle) {
        self.told.send_if_modified(|told| told.lifecycle.replace(lifecycle) != Some(lifecycle));
    }

    /// Says how much the instance has to do; goes out with the next beat. A share of failures outside of 0 to 1 is taken
    /// for the nearest one in it, and what is no number for 0: a wrong figure must not cost the lease that it goes with.
    pub fn report_load(&self, mut load: Load) {
        load.error_rate = within_one(load.error_rate);
        // Nobody is woken: load is told all the time, and a beat is soon enough.
        self.told.send_if_modified(|told| {
            told.load = Some(load);
            false
        });
    }

    /// Ends it: says `draining`, then deregisters with the epoch; lets go of an entry that is shared. Returns within the
    /// budget.
    ///
    /// Work in progress is the caller's: set the lifecycle to draining, finish the work, then close.
    pub async fn close(mut self, budget: Duration) -> Closed {
        let close_by = Instant::now() + budget.min(BUDGET_MAX);
        self.told.send_modify(|told| told.close_by = Some(close_by));
        let closed = self.status.wait_for(|status| matches!(status.state, RegistrantState::Closed(_))).await;
        match closed.map(|status| status.state) {
            Ok(RegistrantState::Closed(closed)) => closed,
            Ok(_) | Err(_) => Closed::LeftToLapse,
        }
    }
}

const fn within_one(share: f64) -> f64 {
    if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) }
}

fn is_shared(raw: &Declaration) -> bool {
    raw.scope.as_deref() == Some(Scope::Service.as_str())
}

/// Checks the declaration as a registry would, and fixes its id and its holder: a registration that is
/// repeated must not become two.
fn checked(mut raw: Declaration) -> Result<(Declaration, Declared), StartError> {
    let fresh = || uuid::Uuid::new_v4().to_string();
    if is_shared(&raw) && raw.holder.is_none() {
        raw.holder = Some(fresh());
    }
    let declared = Declared::check(raw.clone(), fresh).map_err(StartError::Declaration)?;
    raw.id = declared.id.as_str().to_owned();
    Ok((raw, declared))
}

#[cfg(test)]
mod tests {
    use rollcall_model::declaration::RawEndpoint;

    use super::*;

    fn declaration(id: &str) -> Declaration {
        Declaration {
            id: id.into(),
            endpoints: vec![RawEndpoint { url: "http://h:1/".into(), protocol: None }],
            ..Declaration::default()
        }
    }

    #[test]
    fn an_id_of_two_parts_is_made_whole_once() {
        let (raw, declared) = checked(declaration("ops/mail")).unwrap();
        assert_eq!(declared.id.agent(), "ops/mail");
        assert_eq!(raw.id, declared.id.as_str());
    }

    #[test]
    fn each_process_that_shares_an_entry_is_a_holder_of_its_own() {
        let shared = || Declaration { scope: Some("service".into()), ..declaration("ops/mail") };
        let (one, declared) = checked(shared()).unwrap();
        let (other, _) = checked(shared()).unwrap();
        assert_eq!((declared.id.as_str(), &one.id), ("ops/mail/service", &other.id));
        assert!(one.holder.is_some() && one.holder != other.holder);
        let (named, _) = checked(Declaration { holder: Some("pod-1".into()), ..shared() }).unwrap();
        assert_eq!(named.holder.as_deref(), Some("pod-1"));
    }

    #[test]
    fn a_share_that_every_registry_would_refuse_is_never_reported() {
        let options = RegistrantOptions::new(["http://127.0.0.1:1"], declaration("ops/mail"));
        let registrant = Registrant::start(options).unwrap();
        for (told, reported) in [(0.25, 0.25), (1.5, 1.0), (-0.1, 0.0), (f64::INFINITY, 1.0), (f64::NAN, 0.0)]
        {
            registrant.report_load(Load { error_rate: told, ..Load::default() });
            assert_eq!(registrant.told.borrow().load.unwrap().error_rate, reported, "{told}");
        }
    }

    #[test]
    fn what_every_registry_would_refuse_is_no_start() {
        let refused =
            Registrant::start(RegistrantOptions::new(["http://127.0.0.1:1"], declaration("Ops/mail")));
        assert!(matches!(refused, Err(StartError::Declaration(found)) if found[0].pointer == "/id"));
    }

    #[test]
    fn urls_that_are_none_of_a_cell_are_no_start() {
        let start = |urls: &[&str]| {
            Registrant::start(RegistrantOptions::new(urls.iter().copied(), declaration("ops/mail")))
                .unwrap_err()
        };
        assert_eq!(start(&[]), StartError::NoUrl);
        for url in ["", "localhost:7400", "https://h:1", "ftp://h:1", "http://"] {
            assert!(matches!(start(&[url]), StartError::Url { .. }), "{url:?} was accepted");
        }
    }

    #[tokio::test]
    async fn a_dropped_registrant_ends() {
        let options = RegistrantOptions::new(["http://127.0.0.1:1"], declaration("ops/mail"));
        let registrant = Registrant::start(options).unwrap();
        let mut status = registrant.status.clone();
        drop(registrant);
        let ended = status.wait_for(|status| matches!(status.state, RegistrantState::Closed(_)));
        tokio::time::timeout(Duration::from_secs(10), ended).await.unwrap().unwrap();
    }
}
