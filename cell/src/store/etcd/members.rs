//! Etcd's members: a connection to each, and which of them is asked.
//!
//! Promises that no call takes longer than its limit, that a write which may have reached a member is never sent to
//! another, and that a member which does not answer is not asked first again.
//!
//! Never here: tonic's balancer over all members. It goes on choosing one that is dead.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use etcd_client::{Client, ConnectOptions, Error, KvClient, LeaseClient, WatchClient};
use rollcall_model::Revision;
use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout, timeout_at};

use super::error::{Meaning, sort};
use crate::store::StoreError;

/// One call: etcd answers in milliseconds, and elects a leader in about two seconds.
pub(super) const CALL: Duration = Duration::from_secs(3);
/// All tries of one call that may be repeated: two members may be frozen.
const CALLS: Duration = Duration::from_secs(6);
/// A connection is there at once or not at all; less than `CALL`, so that nothing has been sent then.
const CONNECT: Duration = Duration::from_secs(1);
/// Pings while a call or a watch is open. etcd hangs up on those that ping more often than every five seconds.
const PING: Duration = Duration::from_secs(6);
/// Without an answer to a ping for this long the connection is dead.
const PONG: Duration = Duration::from_secs(3);
/// The answer to a commit: a full group of lost writes, each with a value of 800 KiB, thrice the largest registration.
const ANSWER_BYTES: usize = 96 * 1024 * 1024;
/// A page; larger ones are asked for in smaller pages.
const PAGE_BYTES: usize = 8 * 1024 * 1024;
/// A message of a watch: etcd splits at about 2 MiB, as it was asked to.
const WATCH_BYTES: usize = 8 * 1024 * 1024;

pub(super) struct Members {
    members: Vec<Member>,
    /// The one that is asked first.
    current: AtomicUsize,
}

struct Member {
    address: String,
    clients: OnceCell<Arc<Clients>>,
}

/// What one connection is used for, each with its limit.
pub(super) struct Clients {
    pub(super) kv: KvClient,
    pub(super) pages: KvClient,
    pub(super) watch: WatchClient,
    pub(super) lease: LeaseClient,
}

impl Members {
    pub(super) fn new(endpoints: &[String]) -> Self {
        let member = |address: &String| Member { address: address.clone(), clients: OnceCell::new() };
        Self { members: endpoints.iter().map(member).collect(), current: AtomicUsize::new(0) }
    }

    /// Makes a call that must not happen twice. Another member is asked only if this one cannot have heard of it.
    pub(super) async fn once<T, F>(&self, call: impl Fn(Arc<Clients>) -> F + Send) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, Error>> + Send,
    {
        let mut why = None;
        for _ in 0..self.members.len() {
            let (index, clients) = self.current().await?;
            let meaning = match timeout(CALL, call(clients)).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) => sort(&error, Revision::default()),
                Err(_) => Meaning::Broken(self.silent(index)),
            };
            match meaning {
                Meaning::Answer(error) => return Err(error),
                Meaning::Broken(why) => {
                    self.leave(index);
                    return Err(StoreError::Unknown(why));
                }
                Meaning::NotReached(reason) => {
                    self.leave(index);
                    why = Some(self.at(index, &reason));
                }
            }
        }
        Err(StoreError::Unavailable(why.unwrap_or_else(|| "no member is known".to_owned())))
    }

    /// Makes a call that may happen twice: each member is asked, and one that is alone a second time, since a
    /// connection often turns out to be dead only when it is used. `asked` is the revision that it is about.
    pub(super) async fn again<T, F>(
        &self,
        asked: Revision,
        call: impl Fn(Arc<Clients>) -> F + Send,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, Error>> + Send,
    {
        let end = Instant::now() + CALLS;
        let mut why = None;
        let mut is_late = false;
        for _ in 0..self.members.len().max(2) {
            let (index, clients) = self.current().await?;
            let meaning = match timeout_at(end.min(Instant::now() + CALL), call(clients)).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) => sort(&error, asked),
                Err(_) => {
                    is_late = true;
                    Meaning::Broken(self.silent(index))
                }
            };
            match meaning {
                Meaning::Answer(error) => return Err(error),
                Meaning::Broken(reason) | Meaning::NotReached(reason) => {
                    self.leave(index);
                    why = Some(self.at(index, &reason));
                }
            }
            if Instant::now() >= end {
                break;
            }
        }
        let why = why.unwrap_or_else(|| "no member is known".to_owned());
        // One that was late may answer a smaller call, even if another is away.
        Err(if is_late { StoreError::Late(why) } else { StoreError::Unavailable(why) })
    }

    /// The connection that is asked first, for calls that end when they end.
    pub(super) async fn current(&self) -> Result<(usize, Arc<Clients>), StoreError> {
        let index = self.current.load(Ordering::Relaxed);
        let Some(member) = self.members.get(index) else {
            return Err(StoreError::Refused("no address of etcd is configured".to_owned()));
        };
        let clients = member.clients.get_or_try_init(|| connect(&member.address)).await?;
        Ok((index, Arc::clone(clients)))
    }

    /// Asks the next member from now on, unless somebody has moved on already.
    pub(super) fn leave(&self, index: usize) {
        let next = (index + 1) % self.members.len().max(1);
        // Failing means that another call left the same member.
        let _ = self.current.compare_exchange(index, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Which member it was that did not do it.
    fn at(&self, index: usize, reason: &str) -> String {
        let address = self.members.get(index).map_or("", |member| member.address.as_str());
        if reason.contains(address) { reason.to_owned() } else { format!("{address}: {reason}") }
    }

    fn silent(&self, index: usize) -> String {
        let address = self.members.get(index).map_or("", |member| member.address.as_str());
        format!("no answer from {address} within {} s", CALL.as_secs())
    }
}

/// Prepares a connection; nothing is sent before the first call.
async fn connect(address: &str) -> Result<Arc<Clients>, StoreError> {
    let options = ConnectOptions::new()
        .with_connect_timeout(CONNECT)
        .with_keep_alive(PING, PONG)
        // etcd counts pings without a call as abuse.
        .with_keep_alive_while_idle(false)
        // A member without a leader says so at once, instead of holding the call until it times out.
        .with_require_leader(true);
    let client = Client::connect([address], Some(options))
        .await
        .map_err(|error| StoreError::Refused(format!("{address}: {error}")))?;
    Ok(Arc::new(Clients {
        kv: client.kv_client().max_decoding_message_size(ANSWER_BYTES),
        pages: client.kv_client().max_decoding_message_size(PAGE_BYTES),
        watch: client.watch_client().max_decoding_message_size(WATCH_BYTES),
        lease: client.lease_client(),
    }))
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    /// Nothing is sent: a connection is made with the first call that uses it.
    fn two() -> Members {
        Members::new(&["http://127.0.0.1:1".to_owned(), "http://127.0.0.1:2".to_owned()])
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_without_an_answer_is_late_within_its_limit() {
        let began = Instant::now();
        let late = two().again(Revision(1), |_| pending::<Result<(), Error>>()).await;
        let Err(StoreError::Late(why)) = late else { panic!("{late:?}") };
        assert_eq!(why, "no answer from http://127.0.0.1:2 within 3 s");
        assert_eq!(began.elapsed(), CALLS);
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_that_every_member_breaks_off_is_not_late() {
        let broken = || Err(Error::GRpcStatus(tonic::Status::unavailable("transport error")));
        let away = two().again(Revision(1), |_| ready::<Result<(), Error>>(broken())).await;
        assert!(matches!(away, Err(StoreError::Unavailable(_))), "{away:?}");
    }
}
