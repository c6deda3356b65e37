//! A store whose answers are noticed on the way: whether it has space, and whether it answers at all.
//!
//! Promises to pass every call and every answer on as it is. Never here: a call of its own.

use rollcall_model::Revision;

use super::silence::{Lane, Silence};
use super::space::Space;
use super::{Committed, Effect, Entry, Follow, Group, Happened, Page, Store, StoreError, Tenure};

/// A store, and who is told.
pub struct Noticed<S> {
    store: S,
    space: Space,
    silence: Silence,
}

/// Its history, likewise.
pub struct NoticedFollow<F> {
    follow: F,
    space: Space,
    silence: Silence,
}

impl<S> Noticed<S> {
    /// Over a store.
    pub const fn new(store: S, space: Space, silence: Silence) -> Self {
        Self { store, space, silence }
    }
}

impl<F: Follow> Follow for NoticedFollow<F> {
    async fn next(&mut self) -> Result<Vec<Happened>, StoreError> {
        let happened = self.follow.next().await;
        match &happened {
            Ok(_) => self.silence.heard_history(),
            Err(_) => self.silence.told(Lane::Read, &happened),
        }
        let happened = happened?;
        let mut effects = happened.iter().flat_map(|revision| &revision.effects);
        if effects.any(|effect| matches!(effect, Effect::Put(_))) {
            self.space.heard_a_put();
        }
        Ok(happened)
    }
}

impl<S: Store> Store for Noticed<S> {
    type Follow = NoticedFollow<S::Follow>;

    async fn commit(&self, group: Group) -> Result<Committed, StoreError> {
        let puts = group.puts();
        let asked = self.silence.asks(Lane::Write);
        let committed = asked.answered(self.store.commit(group).await);
        match &committed {
            Err(StoreError::Full(bound)) => self.space.refused(*bound),
            Ok(Committed::Done { .. }) if puts => self.space.took(),
            Ok(_) | Err(_) => {}
        }
        committed
    }

    async fn get(&self, key: &str, at: Option<Revision>) -> Result<(Option<Entry>, Revision), StoreError> {
        let asked = self.silence.asks(Lane::Read);
        asked.answered(self.store.get(key, at).await)
    }

    async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        at: Option<Revision>,
        most: usize,
    ) -> Result<Page, StoreError> {
        let asked = self.silence.asks(Lane::Read);
        asked.answered(self.store.list(prefix, after, at, most).await)
    }

    async fn follow(&self, from: Revision) -> Result<Self::Follow, StoreError> {
        let asked = self.silence.asks(Lane::Read);
        let follow = asked.answered(self.store.follow(from).await)?;
        Ok(NoticedFollow { follow, space: self.space.clone(), silence: self.silence.clone() })
    }

    async fn campaign(&self, candidate: &str) -> Result<Tenure, StoreError> {
        // It may wait for years; what it does meanwhile is to read.
        let tenure = self.store.campaign(candidate).await;
        self.silence.told(Lane::Read, &tenure);
        if let Err(StoreError::Full(bound)) = tenure {
            self.space.refused(bound);
        }
        tenure
    }

    async fn resign(&self, tenure: &Tenure) {
        self.store.resign(tenure).await;
    }

    async fn compact(&self, before: Revision) -> Result<(), StoreError> {
        let asked = self.silence.asks(Lane::Write);
        asked.answered(self.store.compact(before).await)
    }
}
