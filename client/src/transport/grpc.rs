//! The gRPC adapter: the only place of the client that knows tonic and the wire's messages.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rollcall_model::{Code, Declaration, Epoch, Event, InstanceId, Lifecycle, Load, Position, Region};
use rollcall_proto::v1::discovery_client::DiscoveryClient;
use rollcall_proto::v1::registrar_client::RegistrarClient;
use rollcall_proto::v1::renew_response::result::Outcome;
use rollcall_proto::{convert, refusal, v1};
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status, Streaming};

use crate::error::{CallError, StartError};
use crate::options::check_urls;
use crate::transport::{Gone, Registered, Renewal};

/// Longest wait for a connection (acceptance LEA-04).
const CONNECT_MAX: Duration = Duration::from_secs(2);
/// Ping of a connection with an open watch, and the wait for its answer: a connection whose other end fell silent is
/// noticed within ten seconds (fault F23 allows fifteen).
const PING: Duration = Duration::from_secs(5);
/// Longest wait for a watch to open; what it then sends may take as long as it likes.
const OPEN_MAX: Duration = Duration::from_secs(5);
/// Largest message: a page is under 1 MiB; a delta never splits a revision, and one commit of the store is 1 MiB of
/// values. Room for both with what wraps them.
const MESSAGE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// The beat when the registry names one that is no duration.
const BEAT_DEFAULT: Duration = Duration::from_secs(10);

/// The processes of one cell. One connection at a time.
#[derive(Debug)]
pub(crate) struct Cells {
    urls: Vec<Endpoint>,
    place: Mutex<Place>,
}

#[derive(Debug, Default)]
struct Place {
    at: usize,
    turn: u64,
    channel: Option<Channel>,
}

/// A connection, and the turn it was taken at: of several calls that fail on one connection, one moves on.
struct Line {
    channel: Channel,
    turn: u64,
}

impl Cells {
    /// Takes the URLs; connects when the first call needs it.
    pub(crate) fn new(urls: &[String]) -> Result<Self, StartError> {
        check_urls(urls)?;
        let urls = urls.iter().map(|url| endpoint(url)).collect::<Result<_, _>>()?;
        Ok(Self { urls, place: Mutex::default() })
    }

    /// Sends the whole declaration.
    pub(crate) async fn register(
        &self,
        declaration: &Declaration,
        patience: Duration,
    ) -> Result<Registered, CallError> {
        let request = convert::register_request(declaration);
        let line = self.line()?;
        let mut client = RegistrarClient::new(line.channel.clone());
        let response = self.judge(&line, bounded(patience, client.register(request)).await)?;
        let unreadable = |what: &str| CallError::Unreadable(format!("register response: {what}"));
        Ok(Registered {
            region: Region::parse(&response.region).map_err(|finding| unreadable(&finding.detail))?,
            epoch: Epoch::from_wire(response.epoch).ok_or_else(|| unreadable("no epoch"))?,
            beat: beat(response.heartbeat_seconds),
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
        let request = v1::RenewRequest { items: vec![item] };
        let line = self.line()?;
        let mut client = RegistrarClient::new(line.channel.clone());
        let response = self.judge(&line, bounded(patience, client.renew(request)).await)?;
        let outcome = response.results.into_iter().next().and_then(|result| result.outcome);
        match outcome {
            // Also when another holder declared the shared entry anew: this one keeps it alive and has nothing to do.
            Some(Outcome::Renewed(renewed)) => Ok(Renewal::Renewed(beat(renewed.heartbeat_seconds))),
            Some(Outcome::NotRegistered(_)) => Ok(Renewal::NotRegistered),
            Some(Outcome::Superseded(current)) => Ok(Renewal::Superseded(current.endpoint)),
            Some(Outcome::Refused(refused)) => {
                let error = CallError::Refused {
                    code: Code::parse(&refused.code).unwrap_or(Code::Internal),
                    detail: "the renewal could not be judged".into(),
                    retry_after: (refused.retry_after_ms > 0)
                        .then(|| Duration::from_millis(refused.retry_after_ms)),
                };
                self.move_on(&line, &error);
                Err(error)
            }
            None => Err(CallError::Unreadable("renew response: no outcome".into())),
        }
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
        let line = self.line()?;
        let mut client = RegistrarClient::new(line.channel.clone());
        match self.judge(&line, bounded(patience, client.deregister(request)).await) {
            Ok(_) => Ok(Gone::Now),
            Err(CallError::Refused { code: Code::NotRegistered | Code::Superseded, .. }) => Ok(Gone::Before),
            Err(error) => Err(error),
        }
    }

    /// Opens a watch on one region, from a position or from nothing.
    pub(crate) async fn watch(
        &self,
        region: &Region,
        since: Option<&Position>,
    ) -> Result<Watching, CallError> {
        let request = v1::WatchRequest {
            region: region.as_str().to_owned(),
            query: None,
            since: since.map(convert::position),
        };
        let line = self.line()?;
        let mut client =
            DiscoveryClient::new(line.channel.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX);
        let stream = self.judge(&line, bounded(OPEN_MAX, client.watch(request)).await)?;
        Ok(Watching { stream, turn: line.turn })
    }

    /// After a watch broke: the next one goes to the next address.
    pub(crate) fn watch_broke(&self, watching: &Watching) {
        self.turn(watching.turn);
    }

    fn line(&self) -> Result<Line, CallError> {
        let mut place = self.place();
        let Place { at, turn, channel } = &mut *place;
        // Never empty by construction; an index cannot fail here, and still it is not trusted blindly.
        let url = self.urls.get(*at).ok_or_else(|| CallError::Unreachable("there is no URL".into()))?;
        let channel = channel.get_or_insert_with(|| url.connect_lazy());
        Ok(Line { channel: channel.clone(), turn: *turn })
    }

    /// The answer, or the error, which may send the next call elsewhere.
    fn judge<T>(&self, line: &Line, answer: Result<Response<T>, CallError>) -> Result<T, CallError> {
        match answer {
            Ok(response) => Ok(response.into_inner()),
            Err(error) => {
                self.move_on(line, &error);
                Err(error)
            }
        }
    }

    fn move_on(&self, line: &Line, error: &CallError) {
        if error.is_of_this_cell() {
            self.turn(line.turn);
        }
    }

    /// Leaves the connection behind even if there is but one address: a half-open one answers nothing for minutes.
    fn turn(&self, seen: u64) {
        let mut place = self.place();
        if place.turn == seen {
            place.turn += 1;
            place.at = (place.at + 1) % self.urls.len().max(1);
            place.channel = None;
        }
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An open watch.
pub(crate) struct Watching {
    stream: Streaming<v1::WatchResponse>,
    turn: u64,
}

impl Watching {
    /// The next event; waits as long as nothing happens. `None` when the cell ended the stream.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>, CallError> {
        match self.stream.message().await {
            Ok(Some(message)) => convert::event_from(message)
                .map(Some)
                .map_err(|unreadable| CallError::Unreadable(unreadable.to_string())),
            Ok(None) => Ok(None),
            Err(status) => Err(call_error(&status)),
        }
    }
}

fn endpoint(url: &str) -> Result<Endpoint, StartError> {
    let bad = |why: String| StartError::Url { url: url.to_owned(), why };
    let endpoint = Endpoint::from_shared(url.to_owned()).map_err(|error| bad(chain(&error)))?;
    match endpoint.uri().scheme_str() {
        Some("http") => {}
        Some(other) => return Err(bad(format!("the scheme {other:?} is unknown: http is"))),
        None => return Err(bad("it has no scheme: http://host:port".into())),
    }
    Ok(endpoint.connect_timeout(CONNECT_MAX).http2_keep_alive_interval(PING).keep_alive_timeout(PING))
}

async fn bounded<T>(
    patience: Duration,
    call: impl Future<Output = Result<Response<T>, Status>>,
) -> Result<Response<T>, CallError> {
    match tokio::time::timeout(patience, call).await {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(status)) => Err(call_error(&status)),
        Err(_) => Err(CallError::Unanswered(patience)),
    }
}

fn call_error(status: &Status) -> CallError {
    match refusal::code_of(status) {
        Some(code) => CallError::Refused {
            code,
            detail: status.message().to_owned(),
            retry_after: refusal::retry_after_of(status),
        },
        None => CallError::Unreachable(chain(status)),
    }
}

/// The innermost cause says most: "connection refused", where the outer ones say "transport error".
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

fn beat(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(BEAT_DEFAULT)
}
