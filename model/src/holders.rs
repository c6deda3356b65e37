//! Who keeps a shared entry alive: the processes of a deployment that registered one id with scope `service`.
//!
//! They are known from their renewals alone, so a new keeper knows none of them. Promises: an entry is not called
//! unheld while a holder that was heard within a lease is left, and not while there may be one that this keeper has not
//! heard by name. The memory of one entry is bounded.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::code::{Code, Invalid};
use crate::limits;
use crate::position::Epoch;
use crate::registration::Replaced;
use crate::time::{Instant, Timestamp};

/// The name of one process among those that share an entry: its process id or a uuid.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Holder(Arc<str>);

/// When somebody was last heard, by both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct HeardAt {
    /// What is decided on.
    pub at: Instant,
    /// The same for people.
    pub wall: Timestamp,
}

/// One holder, as the keeper knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The registration that the holder speaks of; an older one than the entry's in a rollout.
    pub epoch: Epoch,
    /// Its last renewal.
    pub heard: HeardAt,
}

/// The holders of one shared entry.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Holders {
    /// By name and by the registration it speaks of: of two processes with one name neither lets go for the other,
    /// as long as they hold two registrations.
    named: BTreeMap<(Holder, Epoch), HeardAt>,
    /// Registrations of the entry that came before its present one and may still be held.
    replaced: Replaced,
    /// Registrations that stand in the store while their holders' names are on the way here.
    newcomers: BTreeMap<Epoch, HeardAt>,
    /// When a holder that is not listed was last heard, or may have been: by the keeper before, or as one too many.
    unnamed: Option<HeardAt>,
}

impl Holder {
    /// Checks a name.
    ///
    /// # Errors
    /// It is empty, longer than 64 characters, or has control characters. Nothing is repaired.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let fits = (1..=limits::SHORT_TEXT_CHARS_MAX).contains(&text.chars().count())
            && !text.chars().any(char::is_control);
        if fits {
            return Ok(Self(text.into()));
        }
        Err(Invalid::new(
            Code::InvalidBody,
            "/holder",
            "a holder is 1-64 characters, none a control character",
        ))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is the name of one process. Whoever gives none is `default`, and that may be several.
    fn is_one(&self) -> bool {
        *self.0 != *UNNAMED
    }
}

const UNNAMED: &str = "default";

impl Default for Holder {
    /// Whoever gives no name.
    fn default() -> Self {
        Self(UNNAMED.into())
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl HeardAt {
    fn lives(&self, lease: Duration, now: Instant) -> bool {
        now < self.at.plus(lease)
    }
}

impl Holders {
    /// Of an entry that was there before its keeper: whoever holds it has not been heard by name.
    #[must_use]
    pub fn unheard(since: HeardAt) -> Self {
        Self { unnamed: Some(since), ..Self::default() }
    }

    /// The registrations that the entry's present one replaced.
    pub fn succeed(&mut self, replaced: &[Epoch]) {
        self.replaced = replaced.into();
    }

    /// Whether this is a registration that the entry's present one replaced.
    #[must_use]
    pub fn knows(&self, epoch: Epoch) -> bool {
        self.replaced.contains(&epoch)
    }

    /// A registration of the entry was written; its holder's name comes with [`Holders::wrote`].
    pub fn expect(&mut self, epoch: Epoch, lease: Duration, heard: HeardAt) {
        self.newcomers.retain(|_, was| was.lives(lease, heard.at));
        if self.newcomers.len() < limits::NEWCOMERS_MAX {
            self.newcomers.insert(epoch, heard);
        } else {
            self.unnamed = self.unnamed.max(Some(heard));
        }
    }

    /// The holder that wrote this epoch is heard by name.
    pub fn wrote(&mut self, holder: &Holder, epoch: Epoch, lease: Duration, heard: HeardAt) {
        self.newcomers.remove(&epoch);
        self.hear(holder, epoch, lease, heard);
    }

    /// A holder renews; one that was not known joins.
    pub fn hear(&mut self, holder: &Holder, epoch: Epoch, lease: Duration, heard: HeardAt) {
        let hold = (holder.clone(), epoch);
        if let Some(was) = self.named.get_mut(&hold) {
            *was = heard;
            return;
        }
        if holder.is_one() {
            // It registered anew, and holds nothing of before.
            let before = (holder.clone(), Epoch::default())..hold.clone();
            while let Some((past, _)) = self.named.range(before.clone()).next() {
                let past = past.clone();
                self.named.remove(&past);
            }
        }
        if self.named.len() >= limits::HOLDERS_MAX {
            self.named.retain(|_, was| was.lives(lease, heard.at));
        }
        if self.named.len() < limits::HOLDERS_MAX {
            self.named.insert(hold, heard);
        } else {
            self.unnamed = self.unnamed.max(Some(heard));
        }
    }

    /// A holder lets this registration go, and no other that has its name. Nothing happens when it does not hold it.
    pub fn let_go(&mut self, holder: &Holder, epoch: Epoch) {
        self.named.remove(&(holder.clone(), epoch));
    }

    /// When any of them was last heard.
    #[must_use]
    pub fn latest(&self) -> Option<HeardAt> {
        self.named.values().chain(self.newcomers.values()).copied().chain(self.unnamed).max()
    }

    /// Whether one is left that was heard within a lease, or may have been.
    #[must_use]
    pub fn is_held(&self, lease: Duration, now: Instant) -> bool {
        self.latest().is_some_and(|heard| heard.lives(lease, now))
    }

    /// Whether all that speaks for a holder is that nobody heard it by name yet.
    #[must_use]
    pub fn is_doubtful(&self, lease: Duration, now: Instant) -> bool {
        self.living(lease, now).next().is_none()
            && !self.newcomers.values().any(|heard| heard.lives(lease, now))
    }

    /// Those known by name that were heard within a lease.
    pub fn living(&self, lease: Duration, now: Instant) -> impl Iterator<Item = (&Holder, Hold)> {
        let living = self.named.iter().filter(move |(_, heard)| heard.lives(lease, now));
        living.map(|((holder, epoch), heard)| (holder, Hold { epoch: *epoch, heard: *heard }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::position::Revision;

    const LEASE: Duration = Duration::from_secs(30);

    fn heard(seconds: u64) -> HeardAt {
        HeardAt { at: Instant(Duration::from_secs(seconds)), wall: Timestamp(0) }
    }

    #[test]
    fn a_name_is_short_and_visible() {
        for text in ["1", "pod-1", "ö x", &"h".repeat(64)] {
            assert_eq!(Holder::parse(text).unwrap().as_str(), text);
        }
        for text in ["", "a\nb", "\u{0}", &"h".repeat(65)] {
            assert_eq!(Holder::parse(text).unwrap_err().code, Code::InvalidBody, "{text:?}");
        }
    }

    #[test]
    fn one_too_many_is_not_listed_and_still_holds_the_entry() {
        let epoch = Epoch::new(1, Revision(2));
        let mut holders = Holders::default();
        for n in 0..=limits::HOLDERS_MAX {
            holders.hear(&Holder::parse(&n.to_string()).unwrap(), epoch, LEASE, heard(n as u64 / 100));
        }
        assert_eq!(holders.living(LEASE, heard(20).at).count(), limits::HOLDERS_MAX);
        for n in 0..limits::HOLDERS_MAX {
            holders.let_go(&Holder::parse(&n.to_string()).unwrap(), epoch);
        }
        assert!(holders.is_held(LEASE, heard(20).at));
        assert!(!holders.is_held(LEASE, heard(40).at));
    }

    #[test]
    fn the_dead_make_room() {
        let epoch = Epoch::new(1, Revision(2));
        let mut holders = Holders::default();
        for n in 0..limits::HOLDERS_MAX {
            holders.hear(&Holder::parse(&n.to_string()).unwrap(), epoch, LEASE, heard(0));
        }
        holders.hear(&Holder::parse("late").unwrap(), epoch, LEASE, heard(30));
        let living: Vec<_> = holders.living(LEASE, heard(30).at).map(|(holder, _)| holder.as_str()).collect();
        assert_eq!(living, ["late"]);
    }
}
