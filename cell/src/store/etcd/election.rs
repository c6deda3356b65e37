//! The keeper's election: a lease, a key under it, and a task that keeps the lease alive. Of the keys the one that was
//! written first holds the office.
//!
//! Promises that `lost` is cancelled before etcd could let the lease lapse, judged by our own clock from the moment
//! a renewal was sent, and that the task ends with the tenure and gives the lease back.
//!
//! Never here: trust in that alone. A process that was stopped learns of its loss too late; the fence does not.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use etcd_client::{Compare as Condition, CompareOp, Error, GetOptions, PutOptions, Txn, TxnOp};
use rollcall_model::Revision;
use rollcall_runtime::files;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tonic::Code;

use super::members::{CALL, Clients, Members};
use super::txn;
use crate::store::{Compare, Hold, StoreError, Tenure, keys};

/// How long an office outlives its keeper's silence. Sweeps stand still that long, and expiry allows for it.
const TTL: Duration = Duration::from_secs(5);
/// Without a renewal for this long the office counts as lost: the rest is for the way to etcd and its clock.
const HOLDS: Duration = Duration::from_millis(3_500);
/// Between two renewals: so that `HOLDS` outlasts the 2.2 s in which etcd elects a new leader.
const RENEW: Duration = Duration::from_millis(500);
/// Between two tries of a renewal, and the longest that one may take.
const RETRY: Duration = Duration::from_millis(200);
const TRY: Duration = Duration::from_secs(1);
/// Between two tries to give a lost lease back.
const GIVE_BACK: Duration = Duration::from_millis(500);
/// Between two looks at who is in office: what a change of office waits for on top, half of it as a rule. Five reads a
/// second of each process that waits are nothing to etcd.
const LOOK: Duration = Duration::from_millis(200);

/// Stands for the office until it is won.
pub(super) async fn campaign(
    members: &Arc<Members>,
    prefix: &str,
    candidate: &str,
    memory: Option<&Path>,
) -> Result<Tenure, StoreError> {
    if let Some(before) = memory.and_then(remembered) {
        give_back(members, before).await?;
    }
    let asked = Instant::now();
    let ttl = i64::try_from(TTL.as_secs()).unwrap_or(i64::MAX);
    // A grant that was asked for twice leaves a lease that lapses unused.
    let lease = members
        .again(Revision::default(), |clients| async move { clients.lease.clone().grant(ttl, None).await })
        .await?
        .id();
    if let Some(file) = memory
        && let Err(error) = remember(file, lease).await
    {
        // Without it a restart waits until the lease lapses, and no longer.
        tracing::warn!(%error, file = %file.display(), "office not remembered");
    }
    let lost = CancellationToken::new();
    let office = lost.clone().drop_guard();
    let hold = Hold::until(asked + HOLDS);
    let won = Arc::new(AtomicBool::new(false));
    tokio::spawn(keep(Arc::clone(members), lease, lost.clone(), Arc::clone(&won), asked, hold.clone()));

    let place = Place { office: format!("{prefix}{}", keys::OFFICE), lease };
    let term = tokio::select! {
        term = place.wait(members, candidate) => term?,
        () = lost.cancelled() => return Err(StoreError::Unavailable("the lease was lost".to_owned())),
    };
    let key = txn::key(prefix, place.key())
        .ok_or_else(|| StoreError::Unavailable("an office under another prefix".to_owned()))?;
    won.store(true, Ordering::Relaxed);
    Ok(Tenure::new(term.0, Compare::CreateRevision(key, term), office, hold))
}

/// A candidate's place in the row of those that wait.
///
/// It is written once, and from then on only read: an etcd without space takes no write, and still lets a lease be
/// renewed and revoked and a key be read. So whoever stood before it was full takes over while it is.
struct Place {
    office: String,
    lease: i64,
}

impl Place {
    /// Named as etcd's own elections name it.
    fn key(&self) -> Vec<u8> {
        format!("{}{:x}", self.office, self.lease).into_bytes()
    }

    /// Takes the place and waits until it is the first; gives the revision that it was taken at.
    async fn wait(&self, members: &Members, candidate: &str) -> Result<Revision, StoreError> {
        let options = || PutOptions::new().with_lease(self.lease);
        members
            .again(Revision::default(), |clients| {
                // Asked twice it is taken once.
                let stand = Txn::new()
                    .when([Condition::create_revision(self.key(), CompareOp::Equal, 0)])
                    .and_then([TxnOp::put(self.key(), candidate, Some(options()))]);
                async move { clients.kv.clone().txn(stand).await }
            })
            .await?;
        loop {
            match self.look(members).await {
                Ok(Standing::First(term)) => return Ok(term),
                Ok(Standing::Waits) => {}
                Ok(Standing::Gone) => {
                    return Err(StoreError::Unavailable("the place among the candidates is gone".to_owned()));
                }
                // The place stands as long as its lease does, and who keeps that says when it is lost.
                Err(error) => tracing::debug!(%error, "candidates not read"),
            }
            sleep(LOOK).await;
        }
    }

    /// Reads the row at any member; linearizable, so that one which is cut off from the rest does not answer.
    async fn look(&self, members: &Members) -> Result<Standing, StoreError> {
        let found = members
            .again(Revision::default(), |clients| async move {
                let under = Some(GetOptions::new().with_prefix());
                clients.kv.clone().get(self.office.clone(), under).await
            })
            .await?;
        let mut row = Vec::with_capacity(found.kvs().len());
        for entry in found.kvs() {
            if entry.lease() == 0 {
                clear_stranger(members, entry.key()).await?;
            } else {
                row.push((entry.create_revision(), entry.key()));
            }
        }
        let own = self.key();
        let Some(since) = row.iter().find(|(_, key)| *key == own).map(|(since, _)| *since) else {
            return Ok(Standing::Gone);
        };
        let is_first = row.iter().all(|(other, _)| *other >= since);
        Ok(if is_first { Standing::First(txn::from_etcd(since)) } else { Standing::Waits })
    }
}

/// Where a candidate stands.
enum Standing {
    /// In office, from this revision on.
    First(Revision),
    /// Behind another.
    Waits,
    /// Nowhere: its key was removed.
    Gone,
}

/// Removes a key under the office's name that hangs on no lease: no candidate of ours ever wrote one, nobody could ever
/// hold office behind it, and every candidate would wait for it for ever (F54).
async fn clear_stranger(members: &Members, key: &[u8]) -> Result<(), StoreError> {
    tracing::error!(key = %String::from_utf8_lossy(key), "a key without a lease blocks the keeper's election; removed");
    members
        .again(Revision::default(), |clients| async move { clients.kv.clone().delete(key, None).await })
        .await?;
    Ok(())
}

/// Keeps a lease alive until it is lost or given up, and then gives it back. On it hangs a place in the row, and the
/// office once that was `won`.
async fn keep(
    members: Arc<Members>,
    lease: i64,
    lost: CancellationToken,
    won: Arc<AtomicBool>,
    granted: Instant,
    hold: Hold,
) {
    let guard = lost.clone().drop_guard();
    tokio::select! {
        () = lost.cancelled() => {}
        why = renew(&members, lease, granted, &hold) => {
            if won.load(Ordering::Relaxed) {
                tracing::warn!(why, "the lease on the keeper's office is lost");
            } else {
                tracing::warn!(why, "the place among the candidates for the keeper's office is lost");
            }
        }
    }
    drop(guard);
    // Whoever waits need not wait for the lease to lapse. An etcd that was away for so long that the office was lost
    // gives every lease its whole time again when it is back, so it is told as soon as it can be.
    while !matches!(timeout(CALL, give_back(&members, lease)).await, Ok(Ok(()))) {
        sleep(GIVE_BACK).await;
    }
}

/// Ends a lease, and with it the office that hangs on it.
async fn give_back(members: &Members, lease: i64) -> Result<(), StoreError> {
    let revoke = |clients: Arc<Clients>| async move {
        match clients.lease.clone().revoke(lease).await {
            Ok(_) => Ok(()),
            // It has lapsed.
            Err(Error::GRpcStatus(status)) if status.code() == Code::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    };
    members.again(Revision::default(), revoke).await
}

/// The lease of a process that had this file before. It is gone, or this one would not have its directory.
fn remembered(file: &Path) -> Option<i64> {
    std::str::from_utf8(&files::read(file).ok()?).ok()?.trim().parse().ok()
}

/// Writes a lease down for a process that has this file later.
async fn remember(file: &Path, lease: i64) -> std::io::Result<()> {
    let file = file.to_owned();
    let write = move || files::write_over(&file, lease.to_string().as_bytes());
    tokio::task::spawn_blocking(write).await.map_err(std::io::Error::other)?
}

/// Renews until it no longer holds, and says why.
async fn renew(members: &Members, lease: i64, granted: Instant, hold: &Hold) -> &'static str {
    let mut renewed = granted;
    let mut next = renewed + RENEW;
    loop {
        let end = renewed + HOLDS;
        sleep_until(next.min(end)).await;
        let sent = Instant::now();
        if sent >= end {
            return "no renewal in time";
        }
        match timeout_at(end.min(sent + TRY), renew_once(members, lease)).await {
            Ok(Renewal::Done) => {
                renewed = sent;
                hold.prolong(sent + HOLDS);
                next = sent + RENEW;
            }
            Ok(Renewal::Gone) => return "the lease has lapsed",
            Ok(Renewal::Failed) | Err(_) => next = Instant::now() + RETRY,
        }
    }
}

enum Renewal {
    Done,
    Gone,
    Failed,
}

/// Renews at the current member, with a stream of its own, so that nothing of a broken one is left over.
async fn renew_once(members: &Members, lease: i64) -> Renewal {
    let Ok((index, clients)) = members.current().await else { return Renewal::Failed };
    match clients.lease.clone().keep_alive(lease).await {
        Ok(_) => Renewal::Done,
        // A ttl of 0, which is how etcd says that it knows no such lease.
        Err(Error::LeaseKeepAliveError(_)) => Renewal::Gone,
        Err(_) => {
            members.leave(index);
            Renewal::Failed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logged::Logged;

    /// Whoever listens there, it is no etcd.
    fn nowhere() -> Members {
        Members::new(&["http://127.0.0.1:9".to_owned()])
    }

    #[tokio::test(start_paused = true)]
    async fn who_only_waited_for_the_office_does_not_say_that_it_lost_it() {
        for (is_in_office, says, says_not) in
            [(false, "place among the candidates", "lease on"), (true, "lease on", "place among")]
        {
            let logged = Logged::begin();
            let (lost, granted) = (CancellationToken::new(), Instant::now());
            let won = Arc::new(AtomicBool::new(is_in_office));
            let hold = Hold::until(granted + HOLDS);
            let keeping = keep(Arc::new(nowhere()), 1, lost.clone(), won, granted, hold);
            // It goes on to give the lease back, which nobody takes here.
            tokio::select! {
                () = keeping => {}
                () = lost.cancelled() => {}
            }
            assert_eq!(logged.lines(&["WARN", says, "no renewal in time"]).len(), 1);
            assert_eq!(logged.lines(&[says_not]), Vec::<String>::new());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_office_that_cannot_be_renewed_is_lost_before_its_lease_lapses() {
        let members = nowhere();
        let granted = Instant::now();
        let hold = Hold::until(granted + HOLDS);
        let why = renew(&members, 1, granted, &hold).await;
        assert_eq!((why, granted.elapsed()), ("no renewal in time", HOLDS));
        assert!(!hold.lasts());
        assert!(HOLDS < TTL, "etcd lets it lapse later than that, by its own clock");
    }
}
