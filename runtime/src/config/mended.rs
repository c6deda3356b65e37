//! What is done to settings that are wrong, so that the type that refused them says what else is.
//!
//! Promises: nothing that was mended is ever used; settings with a fault are refused, however much was mended.

use serde::de::DeserializeOwned;
use toml::de::DeTable;

use super::environment::{Override, stand_in};
use super::places;

/// The keys that were mended, by how.
#[derive(Default)]
pub(super) struct Mended {
    taken_out: Vec<String>,
    stood_in: Vec<String>,
}

impl Mended {
    pub(super) fn is_empty(&self) -> bool {
        self.taken_out.is_empty() && self.stood_in.is_empty()
    }

    /// Whether this one was mended before: what is wrong with it now is no fault of the person's.
    pub(super) fn knows(&self, key: &String) -> bool {
        self.taken_out.contains(key) || self.stood_in.contains(key)
    }

    /// Takes out what is to be.
    pub(super) fn take_out(&self, root: &mut DeTable<'_>) {
        self.taken_out.iter().for_each(|key| places::take_out(root, key));
    }

    /// Mends one more: what was given is taken out, what is missing gets a stand-in among the overrides. `false` when
    /// there is no way.
    pub(super) fn mend<T: DeserializeOwned>(
        &mut self,
        key: String,
        is_given: bool,
        overrides: &mut Vec<Override>,
    ) -> bool {
        if is_given && !self.knows(&key) {
            // Those behind an element of a list would change their numbers, so the list goes as a whole.
            self.taken_out.push(match key.rsplit_once('[') {
                Some((list, index)) if index.ends_with(']') => list.to_owned(),
                Some(_) | None => key,
            });
            return true;
        }
        match stand_in::<T>(&key).filter(|_| !self.stood_in.contains(&key)) {
            Some(stand_in) => {
                self.taken_out.retain(|taken| *taken != key);
                overrides.push(stand_in);
                self.stood_in.push(key);
                true
            }
            None => false,
        }
    }
}
