//! Entries of scope `service` in virtual time: holders join, leave, die and roll out, keepers change (I01–I11).
//!
//! The model beside them knows when each holder was last acknowledged, by whatever keeper, and nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use rollcall_model::lifecycle::Scope;
use rollcall_model::testing::{declared, registered, removal};
use rollcall_model::{
    Change, Deadlines, Epoch, Holder, Instant, LeaseState, LettingGo, Registration, Renewal, Revision, State,
    Timestamp,
};

use crate::cases;

const WALL: Timestamp = Timestamp(0);
const ORDINAL: u16 = 3;
const LEASE: Duration = Duration::from_secs(30);
const ID: &str = "a/b/service";

fn epoch(revision: u64) -> Epoch {
    Epoch::new(ORDINAL, Revision(revision))
}

fn shared(revision: u64) -> Registration {
    let mut declared = declared(ID);
    declared.scope = Scope::Service;
    registered(declared, epoch(revision), Revision(revision))
}

fn over(revision: u64, replaced: &[Epoch]) -> Registration {
    Registration { replaced: replaced.into(), ..shared(revision) }
}

/// The last two give no name, as processes of one deployment that was not told to.
const HOLDERS: usize = 5;

fn holder(n: usize) -> Holder {
    if n < HOLDERS - 2 { Holder::parse(&format!("pod-{n}")).unwrap() } else { Holder::default() }
}

#[derive(Clone, Debug)]
enum Act {
    /// A holder registers other data than the entry's; its name follows at once or with its next call.
    Register(usize, bool),
    /// The name of a holder that registered reaches the keeper.
    Named,
    Renew(usize),
    LetGo(usize),
    /// The holder stops without a word.
    Die(usize),
    Pass(u64),
    Sweep,
    /// The store says that the removal under way happened, or did not.
    Settle(bool),
    NewKeeper,
}

fn act() -> impl Strategy<Value = Act> {
    let who = || 0..HOLDERS;
    prop_oneof![
        2 => (who(), prop::bool::weighted(0.7)).prop_map(|(n, named)| Act::Register(n, named)),
        1 => Just(Act::Named),
        8 => who().prop_map(Act::Renew),
        4 => who().prop_map(Act::LetGo),
        2 => who().prop_map(Act::Die),
        6 => (1..25_000_u64).prop_map(Act::Pass),
        4 => Just(Act::Sweep),
        3 => any::<bool>().prop_map(Act::Settle),
        1 => Just(Act::NewKeeper),
    ]
}

struct World {
    now: Instant,
    head: u64,
    /// The epoch in the store, and those it replaced.
    current: Option<u64>,
    replaced: Vec<Epoch>,
    /// What each holder believes to hold, and when it was last acknowledged.
    holds: BTreeMap<usize, (u64, Instant)>,
    /// A holder whose registration stands and whose name is on its way.
    nameless: Option<(usize, u64)>,
    removing: bool,
    keeper_since: Instant,
    /// When somebody was last heard whose name never came, or who gives none and holds something else by now: it counts
    /// as a holder for a lease.
    never_named: Instant,
    deadlines: Deadlines,
}

impl World {
    fn new() -> Self {
        Self {
            now: Instant::default(),
            head: 1,
            current: None,
            replaced: Vec::new(),
            holds: BTreeMap::new(),
            nameless: None,
            removing: false,
            keeper_since: Instant::default(),
            never_named: Instant::default(),
            deadlines: Deadlines::begin(&State::default(), ORDINAL, Revision(1), Instant::default(), WALL, 0),
        }
    }

    fn living(&self) -> usize {
        self.holds.values().filter(|(_, heard)| self.now < heard.plus(LEASE)).count()
    }

    /// Whether this epoch is of the entry's present life.
    fn is_known(&self, held: u64) -> bool {
        self.current == Some(held) || self.replaced.contains(&epoch(held))
    }

    fn put(&mut self) -> u64 {
        self.head += 1;
        self.replaced.splice(0..0, self.current.map(epoch));
        self.current = Some(self.head);
        self.removing = false;
        let put = over(self.head, &self.replaced);
        self.deadlines.follow(&Change::Put(Arc::new(put)), self.now, WALL);
        self.head
    }

    fn gone(&mut self) {
        assert_eq!(self.living(), 0, "an entry went while it had living holders: {:?}", self.holds);
        self.head += 1;
        self.current = None;
        self.replaced.clear();
        self.removing = false;
        self.nameless = None;
        self.deadlines.follow(&Change::Remove(Arc::new(removal(ID, 1, self.head))), self.now, WALL);
    }

    fn act(&mut self, act: &Act) {
        match *act {
            Act::Register(who, named) => {
                self.name();
                let revision = self.put();
                let before = self.holds.insert(who, (revision, self.now));
                // Nobody can tell that it was this one that held the registration before.
                if let Some((_, heard)) = before.filter(|_| holder(who) == Holder::default()) {
                    self.never_named = self.never_named.max(heard);
                }
                self.nameless = Some((who, revision));
                if named {
                    self.name();
                }
            }
            Act::Named => self.name(),
            Act::Renew(who) => self.renew(who),
            Act::LetGo(who) => self.let_go(who),
            Act::Die(who) => {
                // What it was promised stays promised: its last acknowledgement still counts for a lease.
                if self.nameless.is_some_and(|(nameless, _)| nameless == who) {
                    self.nameless = None;
                    self.never_named = self.now;
                }
            }
            Act::Pass(ms) => self.now = self.now.plus(Duration::from_millis(ms)),
            Act::Sweep => self.sweep(),
            Act::Settle(happened) if self.removing => {
                if happened {
                    self.gone();
                } else {
                    self.removing = false;
                    let id = shared(1).declared.id;
                    self.deadlines.put_back(&id, epoch(self.current.unwrap()));
                }
            }
            Act::Settle(_) => {}
            Act::NewKeeper => {
                let mut state = State::default();
                if let Some(current) = self.current {
                    state.put(Arc::new(over(current, &self.replaced)));
                }
                self.removing = false;
                self.keeper_since = self.now;
                self.deadlines = Deadlines::begin(&state, ORDINAL, Revision(self.head), self.now, WALL, 0);
            }
        }
    }

    fn name(&mut self) {
        if let Some((who, revision)) = self.nameless.take() {
            let answer = self.deadlines.wrote(ID, &holder(who), epoch(revision), self.now, WALL);
            if matches!(answer, Renewal::Renewed(_) | Renewal::KeptAlive(_)) {
                self.holds.insert(who, (revision, self.now));
            }
        }
    }

    fn renew(&mut self, who: usize) {
        let Some((held, _)) = self.holds.get(&who).copied() else { return };
        let answer = self.deadlines.renew(ID, &holder(who), epoch(held), self.now, WALL);
        let expected = match self.current {
            None => Renewal::NotRegistered,
            Some(_) if self.removing && self.is_known(held) => Renewal::Wait,
            Some(current) if current == held => Renewal::Renewed(LEASE),
            Some(_) if self.is_known(held) => Renewal::KeptAlive(LEASE),
            // I11: what was removed is over, also under a registration that came later.
            Some(_) => Renewal::Superseded,
        };
        assert_eq!(answer, expected);
        if matches!(answer, Renewal::Renewed(_) | Renewal::KeptAlive(_)) {
            self.holds.insert(who, (held, self.now));
        } else if matches!(answer, Renewal::NotRegistered | Renewal::Superseded) {
            self.holds.remove(&who);
        }
    }

    fn let_go(&mut self, who: usize) {
        let Some((held, heard)) = self.holds.remove(&who) else { return };
        // Who gives no name speaks for all that give none and hold the same registration.
        let namesakes: Vec<_> = self
            .holds
            .iter()
            .map(|(n, hold)| (*n, *hold))
            .filter(|(n, hold)| holder(*n) == holder(who) && hold.0 == held)
            .collect();
        self.holds.retain(|n, _| namesakes.iter().all(|(namesake, _)| namesake != n));
        if self.nameless.is_some_and(|(nameless, _)| nameless == who) {
            self.name();
            self.holds.remove(&who);
        }
        let answer = self.deadlines.let_go(ID, &holder(who), epoch(held), self.now);
        match answer {
            LettingGo::Last(of) => {
                assert_eq!(self.living(), 0, "let go over the heads of {:?}", self.holds);
                assert_eq!(Some(of), self.current.map(epoch));
                self.removing = true;
            }
            LettingGo::Others => {
                let doubt = self.now < self.keeper_since.max(self.never_named).plus(LEASE);
                assert!(self.living() > 0 || doubt, "the last one left, and the entry stays");
            }
            LettingGo::NotRegistered => assert_eq!(self.current, None),
            LettingGo::Wait => {
                assert!(self.removing);
                self.holds.insert(who, (held, heard));
                self.holds.extend(namesakes);
            }
            LettingGo::Superseded => {
                assert!(!self.is_known(held), "{held} is refused");
            }
            LettingGo::NotShared => panic!("{answer:?}"),
        }
    }

    fn sweep(&mut self) {
        let overdue = self.deadlines.overdue(self.now);
        for due in self.deadlines.take(&overdue, usize::MAX, |_| true) {
            assert_eq!(self.living(), 0, "I05: swept over the heads of {:?}", self.holds);
            assert!(self.now >= self.keeper_since.plus(LEASE), "I09");
            assert_eq!(Some(due.epoch), self.current.map(epoch));
            self.removing = true;
        }
    }
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn i05_an_entry_with_a_living_holder_never_goes_by_another_holders_delete(acts in vec(act(), 0..60)) {
        let mut world = World::new();
        for act in &acts {
            world.act(act);
            prop_assert_eq!(world.deadlines.len(), usize::from(world.current.is_some()));
        }
        // I06: nobody renews any more, and a lease later it is gone.
        world.act(&Act::Settle(false));
        world.act(&Act::Pass(31_000));
        world.sweep();
        prop_assert!(world.current.is_none() || world.removing);
    }
}

#[test]
fn the_deadline_is_that_of_the_holder_heard_last() {
    let at = |seconds| Instant(Duration::from_secs(seconds));
    let mut deadlines = Deadlines::default();
    deadlines.follow(&Change::Put(Arc::new(shared(2))), at(0), WALL);
    let _ = deadlines.wrote(ID, &holder(1), epoch(2), at(0), WALL);
    assert_eq!(deadlines.renew(ID, &holder(2), epoch(2), at(10), WALL), Renewal::Renewed(LEASE));
    assert_eq!(deadlines.renew(ID, &holder(1), epoch(2), at(25), WALL), Renewal::Renewed(LEASE));
    assert_eq!(deadlines.get(ID).unwrap().deadline(), at(55));
    assert_eq!(deadlines.let_go(ID, &holder(1), epoch(2), at(26)), LettingGo::Others);
    assert_eq!(deadlines.get(ID).unwrap().deadline(), at(40), "holder 2 is left");
    assert_eq!(deadlines.overdue(at(39)).census.values().map(|census| census.suspects).max(), Some(1));
    assert_eq!(deadlines.let_go(ID, &holder(2), epoch(2), at(27)), LettingGo::Last(epoch(2)));
}

#[test]
fn i02_a_newer_declaration_does_not_fight_an_older_holder_and_an_epoch_never_issued_loses() {
    let now = Instant::default();
    let mut deadlines = Deadlines::begin(&State::default(), ORDINAL, Revision(1), now, WALL, 0);
    let replaced = [epoch(2), Epoch::new(ORDINAL - 1, Revision(90))];
    deadlines.follow(&Change::Put(Arc::new(shared(2))), now, WALL);
    deadlines.follow(&Change::Put(Arc::new(over(5, &replaced))), now, WALL);
    deadlines.advance(Revision(9));
    let mut renew = |epoch| deadlines.renew(ID, &holder(1), epoch, now, WALL);
    assert_eq!(renew(epoch(2)), Renewal::KeptAlive(LEASE));
    assert_eq!(renew(epoch(5)), Renewal::Renewed(LEASE));
    for never in [epoch(7), epoch(4), epoch(1), Epoch::default(), Epoch::new(ORDINAL - 1, Revision(91))] {
        assert_eq!(renew(never), Renewal::Superseded, "{never:?}");
    }
    assert_eq!(renew(epoch(10)), Renewal::Wait);
    assert_eq!(
        renew(Epoch::new(ORDINAL + 1, Revision(2))),
        Renewal::Wait,
        "of a history that is not known here yet"
    );
    assert_eq!(
        renew(Epoch::new(ORDINAL - 1, Revision(90))),
        Renewal::KeptAlive(LEASE),
        "of a history before"
    );
    for never in [epoch(7), epoch(4), Epoch::default()] {
        assert_eq!(deadlines.let_go(ID, &holder(1), never, now), LettingGo::Superseded);
    }
}

#[test]
fn i02_a_farewell_lets_go_of_what_was_held_under_its_epoch_and_of_nothing_newer() {
    let at = |seconds| Instant(Duration::from_secs(seconds));
    for name in [Holder::default(), holder(1)] {
        let mut deadlines = Deadlines::default();
        deadlines.follow(&Change::Put(Arc::new(shared(2))), at(0), WALL);
        let _ = deadlines.wrote(ID, &name, epoch(2), at(0), WALL);
        deadlines.follow(&Change::Put(Arc::new(over(5, &[epoch(2)]))), at(1), WALL);
        let _ = deadlines.wrote(ID, &name, epoch(5), at(1), WALL);
        assert_eq!(deadlines.let_go(ID, &name, epoch(2), at(2)), LettingGo::Others);
        assert_eq!(deadlines.let_go(ID, &name, epoch(2), at(2)), LettingGo::Others, "said twice");
        assert_eq!(deadlines.get(ID).unwrap().deadline(), at(31), "the newer one stays as it was");
        // Whoever was replaced may still renew, and leaves the newer one alone all the same.
        assert_eq!(deadlines.renew(ID, &name, epoch(2), at(3), WALL), Renewal::KeptAlive(LEASE));
        assert_eq!(deadlines.let_go(ID, &name, epoch(2), at(4)), LettingGo::Others);
        assert_eq!(deadlines.let_go(ID, &name, epoch(5), at(5)), LettingGo::Last(epoch(5)));
    }
}

#[test]
fn an_entry_of_one_process_has_no_holders() {
    let now = Instant::default();
    let mut deadlines = Deadlines::begin(&State::default(), ORDINAL, Revision(1), now, WALL, 0);
    deadlines.follow(&Change::Put(Arc::new(registered(declared(ID), epoch(5), Revision(5)))), now, WALL);
    assert_eq!(deadlines.renew(ID, &holder(1), epoch(2), now, WALL), Renewal::Superseded);
    assert_eq!(deadlines.let_go(ID, &holder(1), epoch(5), now), LettingGo::NotShared);
    assert_eq!(deadlines.get(ID).unwrap().holders(), None);
}

#[test]
fn what_its_last_known_holder_let_go_in_a_new_keepers_first_lease_is_no_suspect_and_goes_with_its_lease() {
    let at = |seconds| Instant(Duration::from_secs(seconds));
    let mut state = State::default();
    state.put(Arc::new(shared(2)));
    let mut deadlines = Deadlines::begin(&state, ORDINAL, Revision(2), at(100), WALL, 0);
    assert_eq!(deadlines.let_go(ID, &holder(1), epoch(2), at(105)), LettingGo::Others);
    let overdue = deadlines.overdue(at(125));
    assert!(overdue.census.values().all(|census| census.suspects == 0), "I08: {overdue:?}");
    // Another one is heard after all.
    let mut other = deadlines.clone();
    let _ = other.renew(ID, &holder(2), epoch(2), at(126), WALL);
    assert_eq!(other.get(ID).unwrap().verdict(), None);
    assert_eq!(deadlines.get(ID).unwrap().state(at(130)), LeaseState::Lapsed);
    let overdue = deadlines.overdue(at(130));
    let gone = deadlines.take(&overdue, 1, |lease| lease.verdict().is_some());
    assert_eq!(gone.len(), 1, "also while its cohort is held");
}
