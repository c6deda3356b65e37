//! What owners say beside their declaration: updates, and what a renewal reports.
//!
//! Promises: a word is written only for the registration that it was said of (I02), and it does not move the epoch.
//! A report is written only when readers would route otherwise for it.

use std::sync::Arc;

use rollcall_model::declaration::check_metadata;
use rollcall_model::{Epoch, InstanceId, Lifecycle, Owned, Registration, load};

use super::{Registrar, Report, TRIES, Update, contended, lost_to};
use crate::group::Outcome;
use crate::keeper::owned_write;
use crate::refusal::Refusal;

impl Registrar {
    /// Changes what an owner may change; the epoch stays.
    ///
    /// # Errors
    /// Superseded, not registered, metadata over its limits, or the store's refusals.
    pub async fn update(
        &self,
        id: &InstanceId,
        epoch: Epoch,
        update: Update,
    ) -> Result<Arc<Registration>, Refusal> {
        let updated = self.write_owned(id, epoch, |current| updated(&current.owned, &update)).await?;
        if update.lifecycle.is_some() {
            self.unwritten.forget(id);
        }
        Ok(updated)
    }

    /// Writes what a renewal reports, if readers are to know of it now; with `against`, only while they see that
    /// lifecycle.
    pub(super) async fn write_report(
        &self,
        id: &InstanceId,
        epoch: Epoch,
        report: &Report,
        against: Option<Lifecycle>,
    ) -> Result<(), Refusal> {
        let words = |current: &Registration| {
            if against.is_some_and(|against| against != current.owned.lifecycle) {
                return Ok(current.owned.clone());
            }
            let news = self.news(current, report);
            let owned = news.map_or_else(|| current.owned.clone(), |news| news.owned);
            // It was renewed just now.
            Ok(Owned { overdue: false, ..owned })
        };
        if self.is_to_be_written(id, epoch, report).await {
            self.write_owned(id, epoch, words).await?;
        }
        Ok(())
    }

    /// Writes what `words` make of the registration beside its declaration; nothing when they change nothing.
    pub(super) async fn write_owned(
        &self,
        id: &InstanceId,
        epoch: Epoch,
        words: impl Fn(&Registration) -> Result<Owned, Refusal>,
    ) -> Result<Arc<Registration>, Refusal> {
        let _turn = self.turns.take(id).await?;
        for _ in 0..TRIES {
            let founding = self.founding()?;
            let current = self.fenced(id, epoch).await?;
            let owned = words(&current)?;
            if owned == current.owned {
                return Ok(current);
            }
            match self.commit(id, owned_write(&current, &owned), None, &founding).await? {
                Outcome::Won(revision) => {
                    return Ok(Arc::new(Registration { owned, revision, ..(*current).clone() }));
                }
                Outcome::Lost(None) => return Err(Refusal::not_registered(id.as_str())),
                Outcome::Lost(Some(entry)) if entry.mod_revision != epoch.revision() => {
                    return Err(lost_to(id, &entry, epoch));
                }
                // Another word of the owner was faster: wait until it is known here, and decide anew.
                Outcome::Lost(Some(_)) => self.moved_on(current.revision).await,
                Outcome::OtherHistory => self.other_history(&founding).await?,
            }
        }
        Err(contended(id))
    }

    pub(super) fn news(&self, current: &Registration, report: &Report) -> Option<load::News> {
        load::news(&current.declared, &current.owned, report.lifecycle, report.load, &self.load_limits)
    }

    /// Whether a report would change anything for readers.
    pub(super) fn is_news(&self, id: &InstanceId, epoch: Epoch, report: &Report) -> bool {
        self.news_now(id, epoch, report).is_some()
    }

    /// Whether it may be written now: an owner's own word at once, its load at the rate that the keeper allows.
    pub(super) async fn is_to_be_written(&self, id: &InstanceId, epoch: Epoch, report: &Report) -> bool {
        match self.news_now(id, epoch, report) {
            Some(news) => news.is_told || self.may_write_load(id, epoch).await,
            None => false,
        }
    }

    fn news_now(&self, id: &InstanceId, epoch: Epoch, report: &Report) -> Option<load::News> {
        let current = self.current(id).filter(|current| current.epoch == epoch)?;
        self.news(&current, report)
    }
}

fn updated(owned: &Owned, update: &Update) -> Result<Owned, Refusal> {
    let mut owned = owned.clone();
    if let Some(lifecycle) = update.lifecycle {
        owned.lifecycle = lifecycle;
        owned.strained = false;
    }
    if let Some(load) = update.load {
        owned.load = load.into();
    }
    for (key, value) in &update.metadata {
        match value {
            Some(value) => drop(owned.metadata.insert(key.clone(), value.clone())),
            None => drop(owned.metadata.remove(key)),
        }
    }
    if !update.metadata.is_empty() {
        check_metadata(&owned.metadata).map_err(Refusal::invalid)?;
    }
    Ok(owned)
}
