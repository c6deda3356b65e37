//! Registering: an instance's first time, or a takeover with a higher epoch.
//!
//! Promises: the last writer wins, and each is answered with an epoch of its own (I03), also when many come at once. The
//! write's compare holds only for what it was decided on (I02).

use std::sync::Arc;
use std::time::Duration;

use rollcall_model::{Declared, Epoch, Holder, Owned, Position, Registration, Replaced, Revision, Scope};
use rollcall_proto::store::encode_registration;

use super::{Registered, Registrar, TRIES, contended};
use crate::group::Outcome;
use crate::refusal::Refusal;
use crate::store::{Compare, Op, Write, keys};
use crate::translate;

impl Registrar {
    /// Registers, or takes the instance over with a higher epoch.
    ///
    /// # Errors
    /// As [`Registrar::register_as`].
    pub async fn register(&self, declared: Declared) -> Result<Registered, Refusal> {
        self.register_as(declared, &Holder::default()).await
    }

    /// The same for one holder of an entry that may be shared: with the same data as the entry's it joins.
    ///
    /// # Errors
    /// The store is away or full, the outcome is unknown, or others were faster again and again; no keeper that could
    /// take in who joins.
    pub async fn register_as(&self, declared: Declared, holder: &Holder) -> Result<Registered, Refusal> {
        let is_shared = declared.scope == Scope::Service;
        let epoch = |current: &Option<Arc<Registration>>| current.as_ref().map(|current| current.epoch);
        for _ in 0..TRIES {
            let before = self.current(&declared.id);
            if let Some(joined) = self.join(&declared, holder).await? {
                return Ok(joined);
            }
            let turn = self.turns.take(&declared.id).await?;
            let current = self.current(&declared.id);
            // Processes of one deployment start together: the others join whoever was first.
            let may_be_joined = is_shared && current.as_ref().is_some_and(|now| now.declared == declared);
            if may_be_joined && epoch(&current) != epoch(&before) {
                continue;
            }
            if let Some(registered) = self.write_registration(&declared, current.as_deref()).await? {
                drop(turn);
                if is_shared {
                    self.wrote(&declared.id, holder, registered.registration.epoch).await;
                }
                return Ok(registered);
            }
        }
        Err(contended(&declared.id))
    }

    /// Writes a registration over the current one, or over what stands there by then; `None` when that may be joined.
    async fn write_registration(
        &self,
        declared: &Declared,
        current: Option<&Registration>,
    ) -> Result<Option<Registered>, Refusal> {
        let id = &declared.id;
        let (mut seen, mut replaced) = before(current, declared);
        for _ in 0..TRIES {
            let founding = self.founding()?;
            let ordinal = founding.incarnation.ordinal();
            let registered_at = self.clock.wall();
            let value = encode_registration(declared, ordinal, registered_at, &replaced);
            let mut then = vec![Op::Put(keys::registration(id), value)];
            // What the owner said of the registration before goes with it; a first registration has no such key,
            // because a removal takes both.
            if seen > Revision(0) {
                then.push(Op::Remove(keys::owned(id)));
            }
            let write = Write {
                compare: vec![Compare::ModRevision(keys::registration(id), seen)],
                then,
                otherwise_read: keys::registration(id),
            };
            match self.commit(id, write, None, &founding).await? {
                Outcome::Won(revision) => {
                    let length = Duration::from_secs(u64::from(declared.lease_seconds));
                    let registration = Registration {
                        epoch: Epoch::new(ordinal, revision),
                        registered_at,
                        revision,
                        owned: Owned::of(declared),
                        declared: declared.clone(),
                        replaced,
                    };
                    return Ok(Some(Registered {
                        registration: Arc::new(registration),
                        position: Position::new(founding.incarnation.clone(), revision),
                        lease: self.times(length),
                        joined: false,
                    }));
                }
                Outcome::Lost(entry) => {
                    let current = entry.as_ref().and_then(|entry| translate::join(id, entry, None));
                    (seen, replaced) = before(current.as_ref(), declared);
                    // What stands there may be nothing of ours; it is replaced all the same.
                    seen = entry.map_or(seen, |entry| entry.mod_revision);
                    if declared.scope == Scope::Service && seen > Revision(0) {
                        self.moved_on(Revision(seen.0 - 1)).await;
                        return Ok(None);
                    }
                }
                Outcome::OtherHistory => self.other_history(&founding).await?,
            }
        }
        Err(contended(id))
    }
}

/// What a registration is written over: the revision it compares, and the registrations it replaces.
fn before(current: Option<&Registration>, declared: &Declared) -> (Revision, Replaced) {
    current.map_or_else(Default::default, |current| (current.epoch.revision(), current.replaced_by(declared)))
}
