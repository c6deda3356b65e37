//! What a group may be, whichever adapter commits it.
//!
//! Promises that a defect of ours is refused with the same words by every adapter, before anything is sent.
//!
//! Never here: compares and effects. Those are the adapters'.

use std::collections::HashSet;

use super::{Compare, Group, Op, StoreError, limits};

/// Refuses a group that breaks a rule of the store.
pub(super) fn check(group: &Group) -> Result<(), StoreError> {
    if group.writes.len() > limits::WRITES_MAX {
        return refuse(format!("{} writes in one group; {} at most", group.writes.len(), limits::WRITES_MAX));
    }
    let widest = group.writes.iter().map(|write| write.then.len().max(write.compare.len()).max(1)).max();
    let branch = (group.also.len() + group.writes.len()).max(group.fence.len()) + widest.unwrap_or(0);
    if branch > limits::OPERATIONS_MAX {
        return refuse(format!("{branch} operations down one branch; {} at most", limits::OPERATIONS_MAX));
    }
    check_keys(group)?;
    let bytes = bytes(group);
    if bytes > limits::GROUP_BYTES_MAX {
        return refuse(format!("{bytes} bytes in one group; {} at most", limits::GROUP_BYTES_MAX));
    }
    Ok(())
}

fn check_keys(group: &Group) -> Result<(), StoreError> {
    let compares = group.fence.iter().chain(group.writes.iter().flat_map(|write| &write.compare));
    let reads = group.writes.iter().map(|write| write.otherwise_read.as_str());
    if compares.map(compared).chain(reads).any(str::is_empty) {
        return refuse("a key is empty".to_owned());
    }
    let mut touched = HashSet::new();
    for op in group.effects() {
        let key = touches(op);
        if key.is_empty() {
            return refuse("a key is empty".to_owned());
        }
        if !touched.insert(key) {
            return refuse(format!("the key {key} is touched twice in one group"));
        }
    }
    Ok(())
}

/// Counts keys and values; what the wire adds fits in the half MiB between our limit and etcd's.
fn bytes(group: &Group) -> usize {
    let compares = group.fence.iter().chain(group.writes.iter().flat_map(|write| &write.compare));
    let values = group.effects().map(|op| match op {
        Op::Put(key, value) => key.len() + value.len(),
        Op::Remove(key) => key.len(),
    });
    let reads = group.writes.iter().map(|write| write.otherwise_read.len());
    compares.map(|compare| compared(compare).len()).chain(values).chain(reads).sum()
}

/// The key that a compare looks at.
pub(super) fn compared(compare: &Compare) -> &str {
    match compare {
        Compare::ModRevision(key, _) | Compare::CreateRevision(key, _) => key,
    }
}

fn touches(op: &Op) -> &str {
    match op {
        Op::Put(key, _) | Op::Remove(key) => key,
    }
}

/// Refuses the revision that stands before every history: etcd would take it for the head.
pub(super) fn check_revision(at: super::Revision) -> Result<(), StoreError> {
    if at.0 == 0 { refuse("revision 0 is before every history".to_owned()) } else { Ok(()) }
}

fn refuse<T>(why: String) -> Result<T, StoreError> {
    Err(StoreError::Refused(why))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::super::{Revision, Write};
    use super::*;

    fn put(key: &str, bytes: usize) -> Op {
        Op::Put(key.to_owned(), Bytes::from(vec![0; bytes]))
    }

    fn write(then: Vec<Op>) -> Write {
        Write {
            compare: vec![Compare::ModRevision("k".into(), Revision(0))],
            then,
            otherwise_read: "k".into(),
        }
    }

    fn is_refused(group: &Group) -> bool {
        matches!(check(group), Err(StoreError::Refused(_)))
    }

    #[test]
    fn a_full_group_of_two_effects_each_is_a_group_and_one_more_is_not() {
        let of = |count: usize| Group {
            writes: (0..count)
                .map(|n| write(vec![put(&format!("a{n}"), 1), put(&format!("b{n}"), 1)]))
                .collect(),
            ..Group::default()
        };
        assert_eq!(check(&of(limits::WRITES_MAX)), Ok(()));
        assert!(is_refused(&of(limits::WRITES_MAX + 1)));
    }

    #[test]
    fn the_operations_down_one_branch_are_limited() {
        let of = |also: usize| Group {
            also: (0..also).map(|n| put(&format!("a{n}"), 1)).collect(),
            writes: vec![write(vec![put("x", 1), put("y", 1)])],
            ..Group::default()
        };
        assert_eq!(check(&of(125)), Ok(()));
        assert!(is_refused(&of(126)));
    }

    #[test]
    fn a_key_is_touched_once_in_a_group() {
        let twice = Group { also: vec![put("x", 1), Op::Remove("x".into())], ..Group::default() };
        assert!(is_refused(&twice));
    }

    #[test]
    fn a_group_has_a_limit_of_bytes() {
        let of = |bytes| Group { also: vec![put("x", bytes)], ..Group::default() };
        assert_eq!(check(&of(limits::GROUP_BYTES_MAX - 1)), Ok(()));
        assert!(is_refused(&of(limits::GROUP_BYTES_MAX)));
    }
}
