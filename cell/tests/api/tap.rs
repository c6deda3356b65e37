//! What truly happened in a region: its store's own history, read beside every cell.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use rollcall_cell::store::embedded::Embedded;
use rollcall_cell::store::keys::{self, Key};
use rollcall_cell::store::{Effect, Follow as _, Happened, Store as _};
use rollcall_model::{Epoch, InstanceId, Owned, Registration, Revision, State};
use rollcall_proto::store::{Gone as Reason, decode_owned, decode_registration, decode_removal};
use tokio::sync::watch;

use super::cell::DEADLINE;
use super::told::{Change, Fact, Gone, History, Record};

/// A follower of a store from its beginning.
pub(super) struct Tap {
    history: Arc<Mutex<History>>,
    upto: watch::Receiver<u64>,
}

impl Tap {
    /// On a store that is empty yet.
    pub(super) async fn on(store: &Embedded) -> Self {
        // An empty store is at revision 1, as etcd is.
        let mut follow = store.follow(Revision(2)).await.unwrap();
        let history = Arc::new(Mutex::new(History::default()));
        let (heard, upto) = watch::channel(0);
        let written = Arc::clone(&history);
        tokio::spawn(async move {
            let mut state = State::default();
            while !heard.is_closed() {
                let happened = follow.next().await.unwrap();
                for revision in &happened {
                    write_down(&mut state, revision, &mut written.lock().unwrap());
                }
                heard.send_replace(happened.last().unwrap().revision.0);
            }
        });
        Self { history, upto }
    }

    /// What happened, once it is known at least up to here.
    pub(super) async fn upto(&self, revision: u64) -> History {
        let mut upto = self.upto.clone();
        let reached = upto.wait_for(|upto| *upto >= revision);
        tokio::time::timeout(DEADLINE, reached).await.expect("the store's history in time").unwrap();
        self.history.lock().unwrap().clone()
    }
}

fn write_down(state: &mut State, happened: &Happened, history: &mut History) {
    let revision = happened.revision.0;
    for (id, now) in registrations(state, happened) {
        let before = match &now {
            Some(now) => state.put(Arc::new(now.clone())),
            None => state.take(&id),
        };
        let before = before.map(|before| Record::of(&before));
        let change = match now {
            Some(now) => Change::Put(Record::of(&now)),
            None => Change::Remove(gone(&id, before.as_ref(), happened)),
        };
        history.facts.push(Fact { revision, change, before });
        history.figures.insert(revision, (state.count(), state.digest().to_string()));
    }
}

/// What each registration that a revision touches is after it: written anew with its declaration, or changed by its
/// owner's statement, or gone.
fn registrations(state: &State, happened: &Happened) -> BTreeMap<InstanceId, Option<Registration>> {
    let mut changed = BTreeMap::new();
    for effect in &happened.effects {
        match effect {
            Effect::Put(entry) => {
                let Key::Registration(id) = keys::parse(&entry.key) else { continue };
                let stored = decode_registration(&entry.value).unwrap();
                let registration = Registration {
                    epoch: Epoch::new(stored.ordinal, happened.revision),
                    registered_at: stored.registered_at,
                    revision: happened.revision,
                    owned: Owned::of(&stored.declared),
                    declared: stored.declared,
                    replaced: stored.replaced,
                };
                changed.insert(id, Some(registration));
            }
            Effect::Removed(key) => {
                if let Key::Registration(id) = keys::parse(key) {
                    changed.insert(id, None);
                }
            }
        }
    }
    for effect in &happened.effects {
        let Effect::Put(entry) = effect else { continue };
        let Key::Owned(id) = keys::parse(&entry.key) else { continue };
        let stands =
            changed.get(&id).cloned().unwrap_or_else(|| state.get(id.as_str()).map(|was| (**was).clone()));
        let stands = stands.expect("nobody speaks of what is gone");
        let owned = decode_owned(&entry.value).unwrap();
        changed.insert(id, Some(Registration { owned, revision: happened.revision, ..stands }));
    }
    changed
}

fn gone(id: &InstanceId, before: Option<&Record>, happened: &Happened) -> Gone {
    let said: Option<Vec<Reason>> = happened.effects.iter().find_map(|effect| match effect {
        Effect::Put(entry) if entry.key == keys::REMOVAL => Some(decode_removal(&entry.value).unwrap().0),
        Effect::Put(_) | Effect::Removed(_) => None,
    });
    let said = said.into_iter().flatten().find(|gone| gone.id == *id).expect("a removal has its reason");
    Gone {
        id: id.to_string(),
        epoch: before.expect("what is removed stood").epoch,
        reason: said.reason.as_str().to_owned(),
        actor: said.actor.to_string(),
        revision: Some(happened.revision.0),
    }
}
