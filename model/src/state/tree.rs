//! Registrations in order of id, in a tree that shares all but what changes.
//!
//! Promises: a clone costs nothing and never changes under its reader. Leaves are as long as what is in them; whoever
//! puts in order of id fills them to the brim. A walk allocates nothing, at any length. Never here: what an order means
//! to a query, which is the [listing](super::listed)'s.
//!
//! It is our own because the ordered sets at hand keep room for a whole node for each agent's ten instances, and
//! allocate for each walk.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::registration::Registration;

/// Children of a branch, and registrations of a leaf, at most. 16: a change copies a leaf and the branches above it, and
/// counts up each child that it copies, nearly always in memory that no cache has.
const WIDTH: usize = 16;
/// What has so few is put together with its neighbour, if there is room for both.
const FEW: usize = WIDTH / 4;

/// A tree all of whose leaves are equally deep. Only its root may be an empty leaf.
#[derive(Clone, Debug)]
pub(super) enum Tree {
    Leaf(Arc<[Arc<Registration>]>),
    Branch(Arc<Branch>),
}

#[derive(Clone, Debug)]
pub(super) struct Branch {
    /// Registrations below.
    many: usize,
    nodes: Vec<Tree>,
}

/// A tree on its way: what comes in order of id, no id twice. A leaf is made as soon as it is full, and nobody is held
/// twice, so that little is left to do at the end.
#[derive(Clone, Debug, Default)]
pub(super) struct Growing {
    leaves: Vec<Tree>,
    /// What stands behind them.
    last: Vec<Arc<Registration>>,
}

impl Growing {
    /// Takes the next one.
    pub(super) fn push(&mut self, one: Arc<Registration>) {
        self.last.push(one);
        if self.last.len() == WIDTH {
            self.leaves.push(Tree::Leaf(self.last.drain(..).collect()));
        }
    }

    /// The one that came last.
    pub(super) fn last(&self) -> Option<&Arc<Registration>> {
        self.last.last().or_else(|| self.leaves.last()?.last())
    }

    /// All that came.
    pub(super) fn finish(self) -> Tree {
        let Self { leaves: mut level, last } = self;
        if !last.is_empty() {
            level.push(Tree::Leaf(last.into()));
        }
        while level.len() > 1 {
            let mut below = level.into_iter();
            level = std::iter::from_fn(|| {
                let nodes: Vec<_> = below.by_ref().take(WIDTH).collect();
                (!nodes.is_empty()).then(|| Tree::branch(nodes))
            })
            .collect();
        }
        level.pop().unwrap_or_default()
    }
}

impl FromIterator<Arc<Registration>> for Growing {
    fn from_iter<I: IntoIterator<Item = Arc<Registration>>>(sorted: I) -> Self {
        let mut growing = Self::default();
        sorted.into_iter().for_each(|one| growing.push(one));
        growing
    }
}

/// A place among all, and who is near behind it.
pub(super) struct Seat<'a> {
    /// How many stand before it.
    pub(super) rank: usize,
    /// Those of its leaf who stand behind it: nobody, where it is the end of a leaf.
    pub(super) leaf: &'a [Arc<Registration>],
    /// The leaves behind that one, as far as they hang on the same branch.
    pub(super) next: &'a [Tree],
}

/// What an insertion led to.
enum Put {
    /// There was one of this id.
    Replaced(Arc<Registration>),
    /// There is one more.
    Grown,
    /// There is one more, and what had no room for it stands behind.
    Split(Tree),
}

impl Default for Tree {
    fn default() -> Self {
        Self::Leaf(Arc::default())
    }
}

impl Tree {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Leaf(leaf) => leaf.len(),
            Self::Branch(branch) => branch.many,
        }
    }

    pub(super) fn first(&self) -> Option<&Arc<Registration>> {
        let mut node = self;
        loop {
            match node {
                Self::Leaf(leaf) => return leaf.first(),
                Self::Branch(branch) => node = branch.nodes.first()?,
            }
        }
    }

    pub(super) fn last(&self) -> Option<&Arc<Registration>> {
        let mut node = self;
        loop {
            match node {
                Self::Leaf(leaf) => return leaf.last(),
                Self::Branch(branch) => node = branch.nodes.last()?,
            }
        }
    }

    pub(super) fn get(&self, id: &str) -> Option<&Arc<Registration>> {
        let mut node = self;
        loop {
            match node {
                Self::Leaf(leaf) => return leaf.get(place(leaf, id).ok()?),
                Self::Branch(branch) => node = branch.nodes.get(branch.child(id))?,
            }
        }
    }

    /// How many stand before a place, which is told by whether one stands before it.
    pub(super) fn rank(&self, is_before: impl Fn(&Registration) -> bool) -> usize {
        self.seek(is_before).rank
    }

    /// A place, which is told by whether one stands before it.
    pub(super) fn seek(&self, is_before: impl Fn(&Registration) -> bool) -> Seat<'_> {
        let (mut node, mut before, mut next): (_, _, &[Self]) = (self, 0, &[]);
        loop {
            match node {
                Self::Leaf(leaf) => {
                    let at = leaf.partition_point(|one| is_before(one));
                    return Seat { rank: before + at, leaf: leaf.get(at..).unwrap_or_default(), next };
                }
                Self::Branch(branch) => {
                    let begins_before = |node: &Self| node.first().is_some_and(|first| is_before(first));
                    let at = branch.nodes.partition_point(begins_before).saturating_sub(1);
                    let (passed, rest) = branch.nodes.split_at(at);
                    before += passed.iter().map(Self::len).sum::<usize>();
                    let Some((child, behind)) = rest.split_first() else {
                        return Seat { rank: before, leaf: &[], next: &[] };
                    };
                    (node, next) = (child, behind);
                }
            }
        }
    }

    /// The place behind so many; nobody stands there when that is all.
    pub(super) fn at(&self, rank: usize) -> Seat<'_> {
        let (mut node, mut rest, mut next): (_, _, &[Self]) = (self, rank, &[]);
        loop {
            match node {
                Self::Leaf(leaf) => return Seat { rank, leaf: leaf.get(rest..).unwrap_or_default(), next },
                Self::Branch(branch) => {
                    let mut below = None;
                    for (at, child) in branch.nodes.iter().enumerate() {
                        let many = child.len();
                        if rest < many {
                            below = Some((child, branch.nodes.get(at + 1..).unwrap_or_default()));
                            break;
                        }
                        rest -= many;
                    }
                    let Some(below) = below else { return Seat { rank, leaf: &[], next: &[] } };
                    (node, next) = below;
                }
            }
        }
    }

    /// Puts one in the place of its id; gives back what was there.
    pub(super) fn insert(&mut self, registration: Arc<Registration>) -> Option<Arc<Registration>> {
        match self.put(registration) {
            Put::Replaced(before) => Some(before),
            Put::Grown => None,
            Put::Split(behind) => {
                let before = std::mem::take(self);
                *self = Self::branch(vec![before, behind]);
                None
            }
        }
    }

    pub(super) fn remove(&mut self, id: &str) -> Option<Arc<Registration>> {
        // Looked for first: nothing is copied for one that is not there.
        self.get(id)?;
        let before = self.take(id);
        while let Self::Branch(branch) = self
            && branch.nodes.len() <= 1
        {
            *self = branch.nodes.first().cloned().unwrap_or_default();
        }
        before
    }

    fn branch(nodes: Vec<Self>) -> Self {
        Self::Branch(Arc::new(Branch { many: nodes.iter().map(Self::len).sum(), nodes }))
    }

    fn put(&mut self, registration: Arc<Registration>) -> Put {
        let branch = match self {
            Self::Branch(branch) => Arc::make_mut(branch),
            Self::Leaf(leaf) => {
                let at = match place(leaf, registration.declared.id.as_str()) {
                    Ok(at) => {
                        return Put::Replaced(std::mem::replace(&mut Arc::make_mut(leaf)[at], registration));
                    }
                    Err(at) => at,
                };
                let (before, behind) = leaf.split_at(at);
                let one = std::iter::once(registration);
                if leaf.len() < WIDTH {
                    *leaf = before.iter().cloned().chain(one).chain(behind.iter().cloned()).collect();
                    return Put::Grown;
                }
                // Who puts in order leaves full leaves behind.
                let (left, right): (Arc<_>, Arc<_>) = if behind.is_empty() {
                    (Arc::clone(leaf), one.collect())
                } else if at <= WIDTH / 2 {
                    let (stays, goes) = behind.split_at(WIDTH / 2 - at);
                    (before.iter().cloned().chain(one).chain(stays.iter().cloned()).collect(), goes.into())
                } else {
                    let (stays, goes) = before.split_at(WIDTH / 2);
                    (stays.into(), goes.iter().cloned().chain(one).chain(behind.iter().cloned()).collect())
                };
                *leaf = left;
                return Put::Split(Self::Leaf(right));
            }
        };
        let at = branch.child(registration.declared.id.as_str());
        let Some(child) = branch.nodes.get_mut(at) else { return Put::Grown };
        let put = child.put(registration);
        match put {
            Put::Replaced(_) => return put,
            Put::Grown => branch.many += 1,
            Put::Split(behind) => {
                branch.many += 1;
                branch.nodes.insert(at + 1, behind);
            }
        }
        if branch.nodes.len() <= WIDTH {
            return Put::Grown;
        }
        let stays = if at + 1 == WIDTH { WIDTH } else { WIDTH / 2 };
        let behind = Self::branch(branch.nodes.split_off(stays));
        branch.many -= behind.len();
        Put::Split(behind)
    }

    /// Takes out one that is there.
    fn take(&mut self, id: &str) -> Option<Arc<Registration>> {
        match self {
            Self::Leaf(leaf) => {
                let at = place(leaf, id).ok()?;
                let (before, rest) = leaf.split_at(at);
                let (one, behind) = rest.split_first()?;
                let one = Arc::clone(one);
                *leaf = before.iter().chain(behind).cloned().collect();
                Some(one)
            }
            Self::Branch(branch) => {
                let branch = Arc::make_mut(branch);
                let at = branch.child(id);
                let taken = branch.nodes.get_mut(at)?.take(id);
                branch.many -= usize::from(taken.is_some());
                branch.gather(at);
                taken
            }
        }
    }

    /// How much stands directly in this node.
    fn width(&self) -> usize {
        match self {
            Self::Leaf(leaf) => leaf.len(),
            Self::Branch(branch) => branch.nodes.len(),
        }
    }

    /// Takes up what stands in the next node of the same depth.
    fn join(&mut self, next: &Self) {
        match (self, next) {
            (Self::Leaf(leaf), Self::Leaf(next)) => {
                *leaf = leaf.iter().chain(next.iter()).cloned().collect();
            }
            (Self::Branch(branch), Self::Branch(next)) => {
                let branch = Arc::make_mut(branch);
                branch.nodes.extend(next.nodes.iter().cloned());
                branch.many += next.many;
            }
            (Self::Leaf(_), Self::Branch(_)) | (Self::Branch(_), Self::Leaf(_)) => {}
        }
    }
}

impl Branch {
    /// The child that has an id, if any has it.
    fn child(&self, id: &str) -> usize {
        let begins_before = |node: &Tree| node.first().is_some_and(|first| first.declared.id.as_str() <= id);
        self.nodes.partition_point(begins_before).saturating_sub(1)
    }

    /// After a child lost something: nothing empty stays, and what has few goes to a neighbour.
    fn gather(&mut self, at: usize) {
        let Some(width) = self.nodes.get(at).map(Tree::width) else { return };
        if width == 0 {
            self.nodes.remove(at);
            return;
        }
        if width > FEW {
            return;
        }
        for left in [at.checked_sub(1), Some(at)].into_iter().flatten() {
            if let Some([one, next]) = self.nodes.get_mut(left..left + 2)
                && one.width() + next.width() <= WIDTH
            {
                one.join(next);
                self.nodes.remove(left + 1);
                return;
            }
        }
    }
}

fn place(leaf: &[Arc<Registration>], id: &str) -> Result<usize, usize> {
    // Whoever puts in order goes to the end.
    if leaf.last().is_some_and(|last| last.declared.id.as_str().cmp(id) == Ordering::Less) {
        return Err(leaf.len());
    }
    leaf.binary_search_by(|one| one.declared.id.as_str().cmp(id))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::testing;

    fn one(id: u16) -> Arc<Registration> {
        Arc::new(testing::registration(&format!("a/b/{id:05}"), 1, u64::from(id) + 1))
    }

    /// That it is a tree of just these: in order, counted, equally deep, and nowhere too wide.
    fn check(tree: &Tree, model: &BTreeMap<String, Arc<Registration>>) {
        let mut walked = Vec::new();
        while let seat = tree.at(walked.len())
            && !seat.leaf.is_empty()
        {
            walked.extend(seat.leaf.iter().cloned());
        }
        assert_eq!(walked.len(), model.len());
        assert!(walked.iter().zip(model.values()).all(|(one, other)| Arc::ptr_eq(one, other)));
        assert_eq!((tree.len(), tree.first(), tree.last()), (model.len(), walked.first(), walked.last()));
        fn depth(tree: &Tree, is_root: bool) -> usize {
            assert!(tree.width() <= WIDTH && (is_root || tree.width() > 0));
            match tree {
                Tree::Leaf(_) => 0,
                Tree::Branch(branch) => {
                    assert_eq!(branch.many, branch.nodes.iter().map(Tree::len).sum::<usize>());
                    let depths: Vec<_> = branch.nodes.iter().map(|node| depth(node, false)).collect();
                    assert!(depths.iter().all(|depth| *depth == depths[0]));
                    depths[0] + 1
                }
            }
        }
        depth(tree, true);
    }

    /// That a place told by an id and the same told by its rank are one, and what is near behind it stands behind it.
    fn near_is_what_stands_behind(tree: &Tree, model: &BTreeMap<String, Arc<Registration>>, text: &str) {
        let told = tree.seek(|one| one.declared.id.as_str() < text);
        let counted = tree.at(told.rank);
        for seat in [&told, &counted] {
            let leaves = seat.next.iter().flat_map(|node| match node {
                Tree::Leaf(leaf) => leaf.iter(),
                Tree::Branch(_) => panic!("no leaf"),
            });
            let near = seat.leaf.iter().chain(leaves);
            assert!(
                near.zip(model.range(text.to_owned()..)).all(|(one, (_, other))| Arc::ptr_eq(one, other))
            );
        }
        assert!(!counted.leaf.is_empty() || told.rank == model.len());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn it_holds_what_an_ordered_map_holds_and_its_clones_stay(
            begin in 0_u16..600,
            steps in prop::collection::vec((0_u16..700, prop::bool::weighted(0.4)), 0..600),
        ) {
            let mut model: BTreeMap<String, Arc<Registration>> = BTreeMap::new();
            for id in 0..begin {
                model.insert(format!("a/b/{id:05}"), one(id));
            }
            let mut tree = model.values().cloned().collect::<Growing>().finish();
            check(&tree, &model);
            let (kept, of_then) = (tree.clone(), model.clone());
            for (id, goes) in steps {
                let text = format!("a/b/{id:05}");
                let (ours, theirs) = if goes {
                    (tree.remove(&text), model.remove(&text))
                } else {
                    let one = one(id);
                    (tree.insert(Arc::clone(&one)), model.insert(text.clone(), one))
                };
                prop_assert_eq!(ours, theirs);
                prop_assert_eq!(tree.get(&text).is_some(), model.contains_key(&text));
                let rank = tree.rank(|one| one.declared.id.as_str() < text.as_str());
                prop_assert_eq!(rank, model.range(..text.clone()).count());
                near_is_what_stands_behind(&tree, &model, &text);
            }
            check(&tree, &model);
            check(&kept, &of_then);
        }
    }

    #[test]
    fn one_who_puts_in_order_leaves_full_leaves() {
        let mut tree = Tree::default();
        for id in 0..1_000 {
            tree.insert(one(id));
        }
        fn leaves(tree: &Tree) -> Vec<usize> {
            match tree {
                Tree::Leaf(leaf) => vec![leaf.len()],
                Tree::Branch(branch) => branch.nodes.iter().flat_map(leaves).collect(),
            }
        }
        let leaves = leaves(&tree);
        assert_eq!(leaves.len(), 1_000_usize.div_ceil(WIDTH));
    }
}
