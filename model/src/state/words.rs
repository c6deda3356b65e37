//! What is known of each word, found by its hash, in a trie that shares all but what changes.
//!
//! Promises: a clone costs nothing and never changes under its reader. A look-up touches one line of memory for each
//! level and one for what it finds; a node is as long as what is in it. Never here: a hash, which a word is already, and
//! so nothing depends on chance.
//!
//! It is our own because the hash maps at hand keep room for a whole node where three words are, a third of a kilobyte
//! for each agent.

use std::sync::Arc;

use crate::word::Word;

/// Bits of a word that one level looks at.
const BITS: u32 = 6;

/// A map of words.
#[derive(Clone, Debug)]
pub(super) struct Words<V> {
    root: Node<V>,
    len: usize,
}

/// Which of its 64 places are taken, and what is there.
#[derive(Clone, Debug)]
struct Node<V> {
    taken: u64,
    slots: Arc<[Slot<V>]>,
}

#[derive(Clone, Debug)]
enum Slot<V> {
    One(Word, V),
    Several(Node<V>),
}

impl<V> Default for Words<V> {
    fn default() -> Self {
        Self { root: Node::default(), len: 0 }
    }
}

impl<V> Default for Node<V> {
    fn default() -> Self {
        Self { taken: 0, slots: Arc::default() }
    }
}

impl<V> FromIterator<(Word, V)> for Words<V> {
    /// All at once, no word twice: nothing is copied, as it is where one word comes after the other.
    fn from_iter<I: IntoIterator<Item = (Word, V)>>(all: I) -> Self {
        let all: Vec<_> = all.into_iter().collect();
        Self { len: all.len(), root: Node::of(all, 0) }
    }
}

impl<V> Words<V> {
    #[inline]
    pub(super) fn get(&self, word: Word) -> Option<&V> {
        let (mut node, mut rest) = (&self.root, word.0);
        loop {
            match node.slots.get(node.place(rest)?)? {
                Slot::One(found, value) => return (*found == word).then_some(value),
                Slot::Several(below) => node = below,
            }
            rest >>= BITS;
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Calls it with all that there is, in no order that means anything, as long as it says yes; whether it always did.
    pub(super) fn all(&self, mut is_so: impl FnMut(Word, &V) -> bool) -> bool {
        self.root.all(&mut is_so)
    }
}

impl<V: Clone> Words<V> {
    /// What is known of a word, to change it.
    pub(super) fn get_mut(&mut self, word: Word) -> Option<&mut V> {
        // Looked for first: nothing is copied for one that is not there.
        self.get(word)?;
        let (mut node, mut rest) = (&mut self.root, word.0);
        loop {
            let place = node.place(rest)?;
            match Arc::make_mut(&mut node.slots).get_mut(place)? {
                Slot::One(_, value) => return Some(value),
                Slot::Several(below) => node = below,
            }
            rest >>= BITS;
        }
    }

    /// Puts what is known of a word in the place of what was.
    pub(super) fn insert(&mut self, word: Word, value: V) {
        self.len += usize::from(self.root.insert(word, value, 0));
    }

    pub(super) fn remove(&mut self, word: Word) {
        if self.get(word).is_some() {
            self.root.remove(word.0);
            self.len -= 1;
        }
    }
}

impl<V> Node<V> {
    /// Those whose words are alike on all levels above.
    fn of(mut all: Vec<(Word, V)>, level: u32) -> Self {
        let bit = |word: Word| Self::bit(word.0 >> (BITS * level));
        all.sort_unstable_by_key(|(word, _)| bit(*word));
        let taken = all.iter().fold(0, |taken, (word, _)| taken | bit(*word));
        let mut all = all.into_iter().peekable();
        let slots = std::iter::from_fn(|| {
            let (word, value) = all.next()?;
            let is_there = |(other, _): &(Word, V)| bit(*other) == bit(word);
            let Some(next) = all.next_if(is_there) else { return Some(Slot::One(word, value)) };
            let mut several = vec![(word, value), next];
            several.extend(std::iter::from_fn(|| all.next_if(is_there)));
            Some(Slot::Several(Self::of(several, level + 1)))
        });
        Self { slots: slots.collect(), taken }
    }

    /// Bit of the place that the lowest bits of what is left of a word mean.
    #[allow(clippy::cast_possible_truncation, reason = "only the lowest bits are meant")]
    const fn bit(rest: u128) -> u64 {
        1 << (rest as u32 & ((1 << BITS) - 1))
    }

    /// Where it stands among the slots, if its place is taken.
    #[inline]
    const fn place(&self, rest: u128) -> Option<usize> {
        let bit = Self::bit(rest);
        if self.taken & bit == 0 { None } else { Some(self.before(bit)) }
    }

    const fn before(&self, bit: u64) -> usize {
        (self.taken & (bit - 1)).count_ones() as usize
    }

    fn all(&self, is_so: &mut impl FnMut(Word, &V) -> bool) -> bool {
        self.slots.iter().all(|slot| match slot {
            Slot::One(word, value) => is_so(*word, value),
            Slot::Several(below) => below.all(is_so),
        })
    }
}

impl<V: Clone> Node<V> {
    /// Whether there is one more.
    fn insert(&mut self, word: Word, value: V, level: u32) -> bool {
        let rest = word.0 >> (BITS * level);
        let Some(place) = self.place(rest) else {
            let bit = Self::bit(rest);
            let (before, behind) = self.slots.split_at(self.before(bit));
            let one = std::iter::once(Slot::One(word, value));
            self.slots = before.iter().cloned().chain(one).chain(behind.iter().cloned()).collect();
            self.taken |= bit;
            return true;
        };
        let Some(slot) = Arc::make_mut(&mut self.slots).get_mut(place) else { return false };
        match slot {
            Slot::Several(below) => below.insert(word, value, level + 1),
            Slot::One(found, known) if *found == word => {
                *known = value;
                false
            }
            Slot::One(found, known) => {
                // Two words differ somewhere, and so this ends above the last level.
                let mut below = Self::default();
                below.insert(*found, known.clone(), level + 1);
                below.insert(word, value, level + 1);
                *slot = Slot::Several(below);
                true
            }
        }
    }

    /// Takes out one that is there.
    fn remove(&mut self, rest: u128) {
        let Some(place) = self.place(rest) else { return };
        if let Some(Slot::Several(below)) = Arc::make_mut(&mut self.slots).get_mut(place) {
            below.remove(rest >> BITS);
            // One alone stands where its node stood.
            let alone = match &*below.slots {
                [Slot::One(word, value)] => Slot::One(*word, value.clone()),
                _ => return,
            };
            if let Some(slot) = Arc::make_mut(&mut self.slots).get_mut(place) {
                *slot = alone;
            }
            return;
        }
        let (before, rest_of) = self.slots.split_at(place);
        self.slots = before.iter().chain(rest_of.iter().skip(1)).cloned().collect();
        self.taken &= !Self::bit(rest);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Words whose bits are alike for several levels, as hostile ones are.
    fn word(n: u32) -> Word {
        let n = u128::from(n);
        Word(((n % 3) << 126) | ((n / 3 % 70) << 60) | (n / 210))
    }

    fn check(words: &Words<u32>, model: &BTreeMap<u32, u32>) {
        let mut seen = 0;
        assert!(words.all(|found, value| {
            seen += 1;
            model.iter().any(|(n, known)| word(*n) == found && known == value)
        }));
        assert_eq!((seen, words.len()), (model.len(), model.len()));
        for n in 0..840 {
            assert_eq!(words.get(word(n)), model.get(&n));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn it_holds_what_a_map_holds_and_its_clones_stay(
            steps in prop::collection::vec((0_u32..840, 0_u32..4), 0..300),
        ) {
            let (mut words, mut model) = (Words::default(), BTreeMap::new());
            let mut kept = None;
            for (at, (n, what)) in steps.into_iter().enumerate() {
                match what {
                    0 => {
                        words.remove(word(n));
                        model.remove(&n);
                    }
                    1 => {
                        if let Some(value) = words.get_mut(word(n)) {
                            *value += 1;
                        }
                        model.entry(n).and_modify(|value| *value += 1);
                    }
                    _ => {
                        words.insert(word(n), n);
                        model.insert(n, n);
                    }
                }
                if at == 100 {
                    kept = Some((words.clone(), model.clone()));
                }
            }
            check(&words, &model);
            check(&model.iter().map(|(n, known)| (word(*n), *known)).collect(), &model);
            if let Some((words, model)) = kept {
                check(&words, &model);
            }
            for n in 0..840 {
                words.remove(word(n));
            }
            check(&words, &BTreeMap::new());
        }
    }
}
