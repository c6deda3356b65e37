//! The door to the registrar: who calls from where is asked, and what is too much is refused at once.
//!
//! Promises: a refusal here has changed nothing, carries the bucket's own wait and takes no wait itself: the lock
//! guards a few numbers. An instance that the cell's view shows is known, however often it registers anew: it goes
//! with the renewals, because a fleet that restarts must find its place again while strangers wait (ADM-02). What
//! bounds its writes is the queue before the store. Never here: a limit; those are the model's and the configuration's.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::ConnectInfo;
use axum::http::Extensions;
use rollcall_model::{Admission, AdmissionLimits, Clock, Code, NotAdmitted};
use rollcall_runtime::meter::{Counter, KeyValue, Metrics};

use crate::refusal::Refusal;

/// Least wait that is told: seconds are the unit of `Retry-After`, and the face spreads the wait by a part of it, so
/// that those who were refused together do not come back together.
const WAIT_LEAST: Duration = Duration::from_secs(1);

/// Whether the cell has heard of an instance before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Its view shows the instance.
    Known,
    /// It does not.
    New,
}

/// The admission of this process, shared by its faces. Cheap to clone.
#[derive(Clone)]
pub struct AdmissionHandle {
    admission: Arc<Mutex<Admission>>,
    clock: Clock,
    refusals: Counter<u64>,
}

impl AdmissionHandle {
    /// Full buckets, and a figure of what they refuse.
    #[must_use]
    pub fn new(limits: AdmissionLimits, clock: Clock, metrics: &Metrics) -> Self {
        let admission = Arc::new(Mutex::new(Admission::new(limits, clock.now())));
        let refusals = metrics.counter(
            "rollcall.cell.admission.refusals",
            "{call}",
            "Calls of writers that were refused because there were too many.",
        );
        Self { admission, clock, refusals }
    }

    /// Admits one registration.
    ///
    /// # Errors
    /// `rate_limited`, with the wait.
    pub fn register(&self, standing: Standing, address: Option<IpAddr>) -> Result<(), Refusal> {
        self.judge(|admission, clock| match standing {
            Standing::Known => admission.renew(1, clock.now()),
            Standing::New => admission.register(address, clock.now()),
        })
    }

    /// Admits so many renewals together.
    ///
    /// # Errors
    /// `rate_limited`, with the wait.
    pub fn renew(&self, many: usize) -> Result<(), Refusal> {
        let many = u32::try_from(many).unwrap_or(u32::MAX);
        self.judge(|admission, clock| admission.renew(many, clock.now()))
    }

    fn judge(
        &self,
        ask: impl FnOnce(&mut Admission, &Clock) -> Result<(), NotAdmitted>,
    ) -> Result<(), Refusal> {
        let judged = {
            // Plain numbers without invariants across a panic. The clock is read under the lock, so that it never
            // seems to go back between two calls.
            let mut admission = self.admission.lock().unwrap_or_else(PoisonError::into_inner);
            ask(&mut admission, &self.clock)
        };
        judged.map_err(|not| {
            // A figure and no log line: a storm must not become a storm of lines.
            self.refusals.add(1, &[KeyValue::new("reason", reason(not))]);
            refused(not)
        })
    }
}

/// Where a request came from, as the listener saw it; `None` for a face that no listener serves.
#[must_use]
pub fn address(extensions: &Extensions) -> Option<IpAddr> {
    extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(address)| address.ip())
}

const fn reason(not: NotAdmitted) -> &'static str {
    match not {
        NotAdmitted::TooMany { .. } => "too_many",
        NotAdmitted::AddressShare { .. } => "address_share",
        NotAdmitted::KnownFirst { .. } => "known_first",
    }
}

fn refused(not: NotAdmitted) -> Refusal {
    let detail = match not {
        NotAdmitted::TooMany { .. } => "too many new registrations at once; this one may come a little later",
        NotAdmitted::AddressShare { .. } => {
            "this address has used up its share of new registrations; others may still register"
        }
        NotAdmitted::KnownFirst { .. } => "too many renewals at once; known instances go first",
    };
    Refusal { retry_after: Some(not.wait().max(WAIT_LEAST)), ..Refusal::new(Code::RateLimited, detail) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rollcall_model::{AddressShare, Rate};

    fn frozen(limits: AdmissionLimits) -> AdmissionHandle {
        AdmissionHandle::new(limits, Clock::new(|| Duration::from_secs(5), || 0), &Metrics::new())
    }

    #[test]
    fn a_refusal_has_its_code_and_the_buckets_own_wait() {
        let new = Rate { per_second: 1, burst: 10 };
        let door = frozen(AdmissionLimits { new, ..AdmissionLimits::default() });
        let address = Some("192.0.2.1".parse().unwrap());
        assert_eq!(door.register(Standing::New, address), Ok(()));
        let refusal = door.register(Standing::New, address).unwrap_err();
        assert_eq!((refusal.code, refusal.retry_after), (Code::RateLimited, Some(Duration::from_secs(1))));
        assert!(refusal.detail.contains("this address"), "{}", refusal.detail);
        assert_eq!(door.register(Standing::New, None), Ok(()), "others still register");
    }

    #[test]
    fn known_instances_register_anew_in_the_lane_of_renewals() {
        let new = Rate { per_second: 1, burst: 1 };
        let known = Rate { per_second: 1, burst: 4 };
        let door = frozen(AdmissionLimits { new, known, share: AddressShare::Whole });
        for _ in 0..3 {
            assert_eq!(door.register(Standing::Known, None), Ok(()));
        }
        // Half of the lane belongs to the known alone.
        let refusal = door.register(Standing::New, None).unwrap_err();
        assert!(refusal.detail.contains("known instances go first"), "{}", refusal.detail);
        assert_eq!(door.renew(1), Ok(()));
        let refusal = door.renew(3).unwrap_err();
        assert_eq!((refusal.code, refusal.retry_after), (Code::RateLimited, Some(Duration::from_secs(3))));
    }

    #[test]
    fn the_address_is_the_listeners() {
        let mut extensions = Extensions::new();
        assert_eq!(address(&extensions), None);
        extensions.insert(ConnectInfo(SocketAddr::from(([192, 0, 2, 1], 4711))));
        assert_eq!(address(&extensions), Some(IpAddr::from([192, 0, 2, 1])));
    }
}
