//! The keeper's election: a lease, a key under it, and a task that keeps the lease alive.
//!
//! Promises that `lost` is cancelled before etcd could let the lease lapse, judged by our own clock from the moment
//! a renewal was sent, and that the task ends with the tenure and gives the lease back.
//!
//! Never here: trust in that alone. A process that was stopped learns of its loss too late; the fence does not.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use etcd_client::{Error, GetOptions};
use rollcall_model::Revision;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tonic::Code;

use super::error::{Meaning, sort};
use super::members::{CALL, Clients, Members};
use super::txn;
use crate::store::{Compare, Hold, StoreError, Tenure};

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
/// Waiting at one member. Then again, perhaps at another: this one may be cut off from the rest without knowing.
const ROUND: Duration = Duration::from_secs(30);
/// The election's name, under the region's prefix.
const OFFICE: &str = "keeper";

/// Stands for the office for one round; nothing if others held it all the time.
pub(super) async fn campaign(
    members: &Arc<Members>,
    prefix: &str,
    candidate: &str,
    memory: Option<&Path>,
) -> Result<Option<Tenure>, StoreError> {
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
        && let Err(error) = tokio::fs::write(file, lease.to_string()).await
    {
        // Without it a restart waits until the lease lapses, and no longer.
        tracing::warn!(%error, file = %file.display(), "office not remembered");
    }
    let lost = CancellationToken::new();
    let office = lost.clone().drop_guard();
    let hold = Hold::until(asked + HOLDS);
    tokio::spawn(keep(Arc::clone(members), lease, lost.clone(), asked, hold.clone()));

    clear_strangers(members, prefix).await?;
    let (index, clients) = members.current().await?;
    let mut election = clients.election.clone();
    let standing = timeout(ROUND, election.campaign(format!("{prefix}{OFFICE}"), candidate, lease));
    let answer = tokio::select! {
        answer = standing => answer,
        () = lost.cancelled() => return Err(StoreError::Unavailable("the lease was lost".to_owned())),
    };
    let leader = match answer {
        Err(_) => return Ok(None),
        Ok(Ok(mut won)) => won.take_leader(),
        Ok(Err(error)) => {
            members.leave(index);
            return Err(match sort(&error, Revision::default()) {
                Meaning::Answer(error) => error,
                Meaning::NotReached(why) | Meaning::Broken(why) => StoreError::Unavailable(why),
            });
        }
    };
    let leader = leader.ok_or_else(|| StoreError::Unavailable("a victory without an office".to_owned()))?;
    let key = txn::key(prefix, leader.key().to_vec())
        .ok_or_else(|| StoreError::Unavailable("an office under another prefix".to_owned()))?;
    let term = txn::from_etcd(leader.rev());
    Ok(Some(Tenure::new(term.0, Compare::CreateRevision(key, term), office, hold)))
}

/// Removes keys under the office's name that hang on no lease: no candidate of ours ever wrote one, nobody could ever
/// hold office behind it, and every candidate would wait for it for ever (F54).
async fn clear_strangers(members: &Arc<Members>, prefix: &str) -> Result<(), StoreError> {
    let office = format!("{prefix}{OFFICE}/");
    let under = office.clone();
    let found = members
        .again(Revision::default(), |clients| {
            let under = under.clone();
            async move { clients.kv.clone().get(under, Some(GetOptions::new().with_prefix())).await }
        })
        .await?;
    for entry in found.kvs().iter().filter(|entry| entry.lease() == 0) {
        let key = entry.key().to_vec();
        tracing::error!(key = %String::from_utf8_lossy(&key), "a key without a lease blocks the keeper's election; removed");
        members
            .again(Revision::default(), |clients| {
                let key = key.clone();
                async move { clients.kv.clone().delete(key, None).await }
            })
            .await?;
    }
    Ok(())
}

/// Keeps a lease alive until it is lost or given up, and then gives it back.
async fn keep(members: Arc<Members>, lease: i64, lost: CancellationToken, granted: Instant, hold: Hold) {
    let guard = lost.clone().drop_guard();
    tokio::select! {
        () = lost.cancelled() => {}
        why = renew(&members, lease, granted, &hold) => tracing::warn!(why, "keeper's lease lost"),
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
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
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
