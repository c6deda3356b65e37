//! The registration: declared data, epoch, and what its owner said since.

use std::ops::Deref;
use std::sync::Arc;

use crate::declaration::Declared;
use crate::hash;
use crate::lifecycle::{LastLoad, Lifecycle, Scope};
use crate::limits;
use crate::position::{Epoch, Revision};
use crate::profile::{FRAME, Metadata};
use crate::time::Timestamp;

/// The registry's statement that an instance exists.
#[derive(Clone, Debug, PartialEq)]
pub struct Registration {
    /// What the owner declared at registration.
    pub declared: Declared,
    /// Fences late writers.
    pub epoch: Epoch,
    /// When the cell wrote it, for people.
    pub registered_at: Timestamp,
    /// The newest revision at which anything of it changed.
    pub revision: Revision,
    /// What the owner says now.
    pub owned: Owned,
    /// Of a shared entry the registrations that this one replaced, newest first: who holds one of them still keeps the
    /// entry alive. At most [`limits::REPLACED_MAX`].
    pub replaced: Replaced,
}

/// Epochs of the registrations that another one replaced, read as the list that they are.
///
/// Hardly any registration replaced one that matters, and whoever holds a million of them holds one word for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replaced(Option<Box<Box<[Epoch]>>>);

impl Deref for Replaced {
    type Target = [Epoch];

    fn deref(&self) -> &[Epoch] {
        self.0.as_deref().map_or(&[], |epochs| epochs)
    }
}

impl FromIterator<Epoch> for Replaced {
    fn from_iter<I: IntoIterator<Item = Epoch>>(epochs: I) -> Self {
        let epochs: Box<[Epoch]> = epochs.into_iter().collect();
        Self((!epochs.is_empty()).then(|| Box::new(epochs)))
    }
}

impl From<&[Epoch]> for Replaced {
    fn from(epochs: &[Epoch]) -> Self {
        epochs.iter().copied().collect()
    }
}

/// What an owner may change without registering anew; it does not move the epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct Owned {
    /// How it says it is doing.
    pub lifecycle: Lifecycle,
    /// Metadata as patched.
    pub metadata: Metadata,
    /// Load as last published.
    pub load: LastLoad,
    /// `degraded` is what its load says, not its owner, who says `healthy`.
    pub strained: bool,
    /// Past its deadline and kept by the guard: the keeper's word beside the owner's.
    pub overdue: bool,
}

impl Owned {
    /// What a fresh registration starts with.
    #[must_use]
    pub fn of(declared: &Declared) -> Self {
        Self {
            lifecycle: declared.lifecycle,
            metadata: declared.metadata.clone(),
            load: LastLoad::NONE,
            strained: false,
            overdue: false,
        }
    }
}

impl Registration {
    /// Holds what it has in common with another one as that one does, so that both hold it once. It says what it said.
    pub fn share(&mut self, other: &Self) {
        if self.declared.profile == other.declared.profile {
            self.declared.profile = Arc::clone(&other.declared.profile);
        }
        // Nearly always nobody patched it.
        if self.owned.metadata == self.declared.metadata {
            self.owned.metadata = self.declared.metadata.clone();
        }
    }

    /// What a declaration that replaces this one is to say of the registrations before it.
    #[must_use]
    pub fn replaced_by(&self, declared: &Declared) -> Replaced {
        if declared.scope != Scope::Service {
            return Replaced::default();
        }
        let all = std::iter::once(self.epoch).chain(self.replaced.iter().copied());
        all.take(limits::REPLACED_MAX).collect()
    }

    /// Bytes it takes on any wire at most, for bounded buffers and pages.
    ///
    /// Each part counts with what frames it (field, length, nesting), because a record may consist of thousands of
    /// texts of one letter, and pages are cut by this number.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        self.weight_beside(self.declared.profile.weight_bytes() + self.owned.metadata.weight_bytes())
    }

    /// The same, of a registration whose profile and metadata are known to weigh so much: whoever weighs many weighs once
    /// what they share.
    pub(crate) fn weight_beside(&self, shared: usize) -> usize {
        /// Everything of fixed size: numbers, words, the frames around a record and around its two parts.
        const FIXED: usize = 128;
        /// 52 bits, seven to a byte.
        const EPOCH: usize = 8;
        let d = &self.declared;
        let text = |text: &str| text.len() + FRAME;
        FIXED
            + shared
            + text(d.id.as_str())
            + d.zone.as_ref().map_or(0, |zone| text(zone.as_str()))
            + d.endpoints.iter().map(|endpoint| endpoint.text_bytes() + 3 * FRAME).sum::<usize>()
            + self.replaced.len() * EPOCH
    }

    /// The newest-first order among usable instances: by epoch, then id.
    #[must_use]
    pub fn is_newer_than(&self, other: &Self) -> bool {
        (self.epoch, &self.declared.id) > (other.epoch, &other.declared.id)
    }

    /// A hash over everything a reader sees, the same in every process and version.
    #[must_use]
    pub fn hash128(&self) -> u128 {
        hash::hash128(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process holds a million of them: a word more in each is eight megabytes, and goes in knowingly.
    #[test]
    fn a_registration_takes_fourteen_words() {
        assert_eq!(size_of::<Registration>(), 14 * size_of::<usize>());
    }
}
