//! The store of a region that runs on etcd.
//!
//! Promises that a commit is sent once: where its outcome cannot be known it says so, and only where nothing can
//! have been written is another member asked. Reads are linearizable and asked again elsewhere. It starts without
//! etcd and answers `Unavailable` until there is one. A follower never sees half a revision.
//!
//! Never here: a decision about registrations. Nothing outside this folder sorts etcd's errors.

mod election;
mod error;
mod members;
mod txn;
mod watch;

use std::path::Path;
use std::sync::Arc;

use etcd_client::proto::PbTxnResponse;
use etcd_client::{GetOptions, Txn};
use rollcall_model::Revision;

use self::members::Members;
pub use self::watch::EtcdFollow;
use super::{Committed, Entry, Group, Op, Page, Store, StoreError, Tenure, limits, rules};

/// A region's keys in etcd. A clone is a handle to the same connections.
#[derive(Clone)]
pub struct Etcd {
    members: Arc<Members>,
    prefix: Arc<str>,
    memory: Option<Arc<Path>>,
}

impl Etcd {
    /// Makes the store of one region from the addresses of etcd's members, as `http://host:port` or `host:port`.
    /// Connects with the first call.
    #[must_use]
    pub fn connect(endpoints: &[String], region: &str) -> Self {
        Self {
            members: Arc::new(Members::new(endpoints)),
            prefix: format!("rollcall/v1/{region}/").into(),
            memory: None,
        }
    }

    /// Remembers the office in a file, so that a process that was killed and started again need not wait until what it
    /// held has lapsed. Nobody else may use the file while this process lives.
    #[must_use]
    pub fn remembering(self, file: &Path) -> Self {
        Self { memory: Some(file.into()), ..self }
    }

    fn full(&self, key: &str) -> Vec<u8> {
        [self.prefix.as_bytes(), key.as_bytes()].concat()
    }

    async fn send(&self, request: impl Fn() -> Txn + Send + Sync) -> Result<PbTxnResponse, StoreError> {
        let answer = self
            .members
            .once(|clients| {
                let request = request();
                async move { clients.kv.clone().txn(request).await }
            })
            .await?;
        Ok(answer.0)
    }

    /// The head, linearizable.
    async fn head(&self) -> Result<Revision, StoreError> {
        Ok(self.get("", None).await?.1)
    }
}

fn options(at: Option<Revision>) -> GetOptions {
    at.map_or_else(GetOptions::new, |at| GetOptions::new().with_revision(txn::to_etcd(at)))
}

impl Store for Etcd {
    type Follow = EtcdFollow;

    async fn commit(&self, group: Group) -> Result<Committed, StoreError> {
        rules::check(&group)?;
        if txn::is_worth_hoping(&group) {
            let answer = self.send(|| txn::hopeful(&self.prefix, &group)).await?;
            if let Some(committed) = txn::hoped(&group, &answer) {
                return Ok(committed);
            }
            // Nothing was written: who lost is found out by a request that lets the others win.
        }
        let answer = self.send(|| txn::request(&self.prefix, &group)).await?;
        txn::answer(&self.prefix, &group, answer)
    }

    async fn get(&self, key: &str, at: Option<Revision>) -> Result<(Option<Entry>, Revision), StoreError> {
        at.map_or(Ok(()), rules::check_revision)?;
        let answer = self
            .members
            .again(at.unwrap_or_default(), |clients| {
                let key = self.full(key);
                async move { clients.kv.clone().get(key, Some(options(at))).await }
            })
            .await?
            .0;
        let head = txn::head(answer.header.as_ref());
        Ok((answer.kvs.into_iter().next().and_then(|found| txn::entry(&self.prefix, found)), head))
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        at: Option<Revision>,
        most: usize,
    ) -> Result<Page, StoreError> {
        at.map_or(Ok(()), rules::check_revision)?;
        let prefix = self.full(prefix);
        let end = txn::end_of(&prefix);
        // A key's successor is the key with the least byte behind it.
        let mut from = match after {
            Some(after) => prefix.clone().max([&self.full(after)[..], &[0]].concat()),
            None => prefix,
        };
        let mut most = most.clamp(1, limits::PAGE_ENTRIES);
        loop {
            let answer = self
                .members
                .again(at.unwrap_or_default(), |clients| {
                    let key = from.clone();
                    let count = i64::try_from(most).unwrap_or(i64::MAX);
                    let options = options(at).with_range(end.clone()).with_limit(count);
                    async move { error::unless_too_large(clients.pages.clone().get(key, Some(options)).await) }
                })
                .await?;
            let Some(answer) = answer.map(|answer| answer.0) else {
                if most == 1 {
                    return Err(StoreError::Refused("an entry is larger than a page may be".to_owned()));
                }
                most /= 2;
                continue;
            };
            let at = at.unwrap_or_else(|| txn::head(answer.header.as_ref()));
            let last = answer.kvs.last().map(|last| last.key.clone());
            let entries: Vec<Entry> =
                answer.kvs.into_iter().filter_map(|found| txn::entry(&self.prefix, found)).collect();
            match last {
                // All of them were foreign: whoever asks goes on after an entry, so there must be one.
                Some(last) if entries.is_empty() && answer.more => from = [&last[..], &[0]].concat(),
                _ => return Ok(Page { entries, more: answer.more, at }),
            }
        }
    }

    async fn follow(&self, from: Revision) -> Result<EtcdFollow, StoreError> {
        rules::check_revision(from)?;
        // etcd would accept such a start and stay silent until the revision is reached, in whatever history.
        let head = self.head().await?;
        if from.0 > head.0 + 1 {
            return Err(StoreError::Ahead(from));
        }
        watch::open(&self.members, &self.prefix, from).await
    }

    async fn campaign(&self, candidate: &str) -> Result<Tenure, StoreError> {
        election::campaign(&self.members, &self.prefix, candidate, self.memory.as_deref()).await
    }

    async fn resign(&self, tenure: &Tenure) {
        // First this one knows, then others may win.
        tenure.lost.cancel();
        let leave = Op::Remove(rules::compared(&tenure.fence).to_owned());
        let group = Group { fence: vec![tenure.fence.clone()], also: vec![leave], ..Group::default() };
        // If this fails, the lease is revoked by its keeper or lapses.
        if let Err(error) = self.commit(group).await {
            tracing::warn!(%error, "office not vacated");
        }
    }

    async fn compact(&self, before: Revision) -> Result<(), StoreError> {
        rules::check_revision(before)?;
        let asked =
            self.members
                .again(before, |clients| async move {
                    clients.kv.clone().compact(txn::to_etcd(before), None).await
                })
                .await;
        match asked {
            Ok(_) | Err(StoreError::Compacted(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
