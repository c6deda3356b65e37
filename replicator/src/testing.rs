//! A region's history made up for tests: registrations come and go, bookmarks state what is true, and every state that
//! ever was is known by its digest.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot make its own data has failed"
)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rollcall_model::declaration::{Declaration, RawEndpoint};
use rollcall_model::{
    Bookmark, Change, Declared, Delta, Epoch, Incarnation, Instant, Outcome, Owned, Position, Region,
    Registration, Removal, RemovalReason, Replaced, Revision, Snapshot, State, StateDigest, Timestamp, View,
};

/// The origin of one region.
#[derive(Clone, Debug)]
pub struct Origin {
    view: View,
    states: BTreeMap<(String, Revision), StateDigest>,
}

impl Origin {
    /// A region without registrations, at revision 1.
    #[must_use]
    pub fn new(region: &str, incarnation: &str) -> Self {
        let mut origin = Self { view: View::new(Region::parse(region).unwrap()), states: BTreeMap::new() };
        origin.rebuild(incarnation);
        origin
    }

    /// Begins another history, without registrations.
    pub fn rebuild(&mut self, incarnation: &str) {
        let position = Position::new(Incarnation::parse(incarnation).unwrap(), Revision(1));
        let snapshot = Snapshot::of(self.view.region().clone(), position, State::default());
        let at = Timestamp::default();
        assert_eq!(self.view.install(snapshot, None, "new_incarnation", at), Outcome::Applied);
        self.note();
    }

    /// What the region is now.
    #[must_use]
    pub const fn view(&self) -> &View {
        &self.view
    }

    /// Where it is.
    #[must_use]
    pub fn position(&self) -> Position {
        self.view.position().unwrap().clone()
    }

    /// Its digest now.
    #[must_use]
    pub fn digest(&self) -> StateDigest {
        self.view.state().unwrap().digest()
    }

    /// Whether a view is a state that the region was once in (promise I30). A view without a state claims nothing.
    #[must_use]
    pub fn was_once(&self, view: &View) -> bool {
        let (Some(position), Some(state)) = (view.position(), view.state()) else { return true };
        let key = (position.incarnation.to_string(), position.revision);
        self.states.get(&key) == Some(&state.digest()) && state.prove().is_ok()
    }

    /// One more registration, or the same id anew.
    pub fn put(&mut self, id: &str) -> Arc<Delta> {
        let at = self.next();
        let declaration = Declaration {
            id: id.to_owned(),
            endpoints: vec![RawEndpoint { url: "http://10.0.0.1:80/".into(), protocol: None }],
            ..Declaration::default()
        };
        let declared = Declared::check(declaration, || "made".into()).unwrap();
        let registration = Registration {
            owned: Owned::of(&declared),
            declared,
            epoch: Epoch::new(at.incarnation.ordinal(), at.revision),
            registered_at: Timestamp(1),
            revision: at.revision,
            replaced: Replaced::default(),
        };
        self.commit(at, Change::Put(Arc::new(registration)))
    }

    /// One registration less.
    pub fn remove(&mut self, id: &str) -> Arc<Delta> {
        let at = self.next();
        let known = self.view.state().unwrap().get(id).expect("registered").clone();
        let removal = Removal {
            id: known.declared.id.clone(),
            epoch: known.epoch,
            reason: RemovalReason::Deregistered,
            actor: "owner".into(),
            term: None,
            at: Timestamp(1),
            revision: at.revision,
        };
        self.commit(at, Change::Remove(Arc::new(removal)))
    }

    /// The beat: moves the revision and states what is true at it.
    pub fn beat(&mut self, now: Instant) -> Bookmark {
        let bookmark = Bookmark {
            region: self.view.region().clone(),
            from: self.view.changed().unwrap().clone(),
            position: self.next(),
            count: self.view.state().unwrap().count(),
            digest: self.digest(),
            age: Some(Duration::ZERO),
            stamp: None,
        };
        assert_eq!(self.view.mark(&bookmark, now), Outcome::Applied);
        self.note();
        bookmark
    }

    fn next(&self) -> Position {
        let mut position = self.position();
        position.revision.0 += 1;
        position
    }

    fn commit(&mut self, to: Position, change: Change) -> Arc<Delta> {
        let delta = Arc::new(Delta {
            region: self.view.region().clone(),
            from: self.view.changed().unwrap().clone(),
            to,
            changes: vec![change],
        });
        assert_eq!(self.view.apply(&delta), Outcome::Applied);
        self.note();
        delta
    }

    fn note(&mut self) {
        let position = self.position();
        self.states.insert((position.incarnation.to_string(), position.revision), self.digest());
    }
}
