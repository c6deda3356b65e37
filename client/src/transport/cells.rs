//! A registrant's calls to its cell.
//!
//! All registrants of the process that name the same URLs share the addresses, the turn they are at, and one session.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use rollcall_model::{Code, Declaration, Epoch, InstanceId, Lifecycle, Load, Region};
use rollcall_proto::v1::renew_response::result::Outcome;
use rollcall_proto::v1::session_request::Request;
use rollcall_proto::v1::session_response::{Refusal, Response};
use rollcall_proto::{convert, v1};
use tokio::time::Instant;

use crate::error::{CallError, StartError};
use crate::transport::session::Session;
use crate::transport::turns::Turns;
use crate::transport::{Gone, LeaseTimes, Registered, Renewal};

/// The beat when the registry names one that is no duration.
const BEAT_DEFAULT: Duration = Duration::from_secs(10);

/// Those who are in use, by their URLs. Not the owner of any: with its last registrant a connection is closed.
static SHARED: Mutex<BTreeMap<Vec<String>, Weak<Cells>>> = Mutex::new(BTreeMap::new());

/// The processes of one cell. One session at a time.
#[derive(Debug)]
pub(crate) struct Cells {
    turns: Turns<Arc<Session>>,
}

impl Cells {
    /// Those with these URLs, in this order. Connects when the first call needs it.
    pub(crate) fn shared(urls: &[String]) -> Result<Arc<Self>, StartError> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cells) = shared.get(urls).and_then(Weak::upgrade) {
            return Ok(cells);
        }
        let cells = Arc::new(Self { turns: Turns::new(urls)? });
        shared.retain(|_, cells| cells.strong_count() > 0);
        shared.insert(urls.to_vec(), Arc::downgrade(&cells));
        Ok(cells)
    }

    /// Sends the whole declaration.
    pub(crate) async fn register(
        &self,
        declaration: &Declaration,
        patience: Duration,
    ) -> Result<Registered, CallError> {
        let request = Request::Register(convert::register_request(declaration));
        let response = self.call(patience, request).await?;
        let unreadable = |what: &str| CallError::Unreadable(format!("register response: {what}"));
        let Response::Register(response) = response else {
            return Err(unreadable("it is another call's"));
        };
        Ok(Registered {
            region: Region::parse(&response.region).map_err(|finding| unreadable(&finding.detail))?,
            epoch: Epoch::from_wire(response.epoch).ok_or_else(|| unreadable("no epoch"))?,
            lease: times(response.heartbeat_seconds, response.lease_seconds),
        })
    }

    /// Renews one lease; `holder` tells apart those that share the entry.
    pub(crate) async fn renew(
        &self,
        id: &InstanceId,
        holder: Option<String>,
        epoch: Epoch,
        lifecycle: Option<Lifecycle>,
        load: Option<Load>,
        patience: Duration,
    ) -> Result<Renewal, CallError> {
        let item = v1::renew_request::Item {
            id: id.as_str().to_owned(),
            epoch: epoch.get(),
            load: load.map(convert::registration::load),
            lifecycle: lifecycle.map_or(v1::Lifecycle::Unspecified, convert::registration::lifecycle).into(),
            holder,
        };
        let renewed = self.ask(patience, |session| {
            let item = item.clone();
            async move { judged(session.renew(item).await?) }
        });
        renewed.await
    }

    /// Takes the registration back.
    pub(crate) async fn deregister(
        &self,
        id: &InstanceId,
        holder: Option<String>,
        epoch: Epoch,
        patience: Duration,
    ) -> Result<Gone, CallError> {
        let request = v1::DeregisterRequest { id: id.as_str().to_owned(), epoch: epoch.get(), holder };
        match self.call(patience, Request::Deregister(request)).await {
            Ok(_) => Ok(Gone::Now),
            Err(CallError::Refused { code: Code::NotRegistered | Code::Superseded, .. }) => Ok(Gone::Before),
            Err(error) => Err(error),
        }
    }

    async fn call(&self, patience: Duration, request: Request) -> Result<Response, CallError> {
        let called = self.ask(patience, |session| {
            let request = request.clone();
            async move { session.call(request).await }
        });
        called.await
    }

    /// Asks the present process. One that is stopping has not begun the call, so the next one is asked at once: each
    /// address once at most, and all within the patience.
    async fn ask<T, F: Future<Output = Result<T, CallError>>>(
        &self,
        patience: Duration,
        ask: impl Fn(Arc<Session>) -> F,
    ) -> Result<T, CallError> {
        let by = Instant::now() + patience;
        let mut others = self.turns.count();
        loop {
            others = others.saturating_sub(1);
            let taken = self.turns.take(|session| session.is_over(), Session::open)?;
            let answer = match tokio::time::timeout_at(by, ask(Arc::clone(&taken.line))).await {
                Ok(answer) => answer,
                Err(_) => Err(CallError::Unanswered { url: taken.url.clone(), within: patience }),
            };
            match answer.map_err(|error| error.at(&taken.url)) {
                Ok(answer) => return Ok(answer),
                Err(error) => {
                    self.turns.judge(&taken, &error);
                    if others == 0 || !is_stopping(&error) {
                        return Err(error);
                    }
                }
            }
        }
    }
}

/// A refusal on a session is what a status is to a call of its own.
pub(super) fn refused(refusal: Refusal) -> CallError {
    CallError::Refused {
        url: String::new(),
        code: Code::parse(&refusal.code).unwrap_or(Code::Internal),
        detail: refusal.detail,
        retry_after: refusal.retry_after_ms.map(Duration::from_millis),
    }
}

fn judged(outcome: Outcome) -> Result<Renewal, CallError> {
    match outcome {
        // Also when another holder declared the shared entry anew: this one keeps it alive and has nothing to do.
        Outcome::Renewed(renewed) => {
            Ok(Renewal::Renewed(times(renewed.heartbeat_seconds, renewed.lease_seconds)))
        }
        Outcome::NotRegistered(_) => Ok(Renewal::NotRegistered),
        Outcome::Superseded(current) => Ok(Renewal::Superseded(current.endpoint)),
        Outcome::Refused(refused) => Err(CallError::Refused {
            url: String::new(),
            code: Code::parse(&refused.code).unwrap_or(Code::Internal),
            detail: "the renewal could not be judged".into(),
            retry_after: (refused.retry_after_ms > 0).then(|| Duration::from_millis(refused.retry_after_ms)),
        }),
    }
}

const fn is_stopping(error: &CallError) -> bool {
    matches!(error, CallError::Refused { code: Code::Draining, .. })
}

fn times(beat: f64, length: u32) -> LeaseTimes {
    LeaseTimes {
        beat: Duration::try_from_secs_f64(beat).unwrap_or(BEAT_DEFAULT),
        length: Duration::from_secs(u64::from(length)),
    }
}
