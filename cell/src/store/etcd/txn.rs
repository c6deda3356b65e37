//! A group as one transaction, and back; pure.
//!
//! Hoping that nobody loses, all compares and all effects of a group stand side by side: half the work for etcd. Where
//! one does not hold nothing is written, and the group is asked again as nested transactions: the fence is the outer
//! compare, each write an inner transaction with its own, so that all share one revision and none fails another.

use bytes::Bytes;
use etcd_client::proto::{PbKeyValue, PbResponseHeader, PbTxnOpResponse, PbTxnResponse};
use etcd_client::{Compare as Condition, CompareOp, Txn, TxnOp};
use rollcall_model::Revision;

use crate::store::{Committed, Compare, Entry, Group, Op, StoreError, Verdict, Write, limits};

/// Whether a group fits side by side. A single write does not gain by it: alone it tells what it lost against at once.
pub(super) fn is_worth_hoping(group: &Group) -> bool {
    let compares = group.fence.len() + group.writes.iter().map(|write| write.compare.len()).sum::<usize>();
    let operations = group.also.len() + group.writes.iter().map(|write| write.then.len()).sum::<usize>();
    group.writes.len() > 1 && compares.max(operations) <= limits::OPERATIONS_MAX
}

/// The request that wins or loses as a whole.
pub(super) fn hopeful(prefix: &str, group: &Group) -> Txn {
    let mut when = Vec::with_capacity(limits::OPERATIONS_MAX);
    let mut then = Vec::with_capacity(limits::OPERATIONS_MAX);
    when.extend(conditions(prefix, &group.fence));
    then.extend(group.also.iter().map(|op| operation(prefix, op)));
    for write in &group.writes {
        when.extend(conditions(prefix, &write.compare));
        then.extend(write.then.iter().map(|op| operation(prefix, op)));
    }
    Txn::new().when(when).and_then(then)
}

/// What became of a hopeful request; `None` when somebody lost and nothing was written.
pub(super) fn hoped(group: &Group, answer: &PbTxnResponse) -> Option<Committed> {
    answer.succeeded.then(|| Committed::Done {
        revision: head(answer.header.as_ref()),
        verdicts: vec![Verdict::Won; group.writes.len()],
    })
}

/// The request for a group whose writes may lose one by one.
pub(super) fn request(prefix: &str, group: &Group) -> Txn {
    let mut then: Vec<TxnOp> = group.also.iter().map(|op| operation(prefix, op)).collect();
    then.extend(group.writes.iter().map(|write| TxnOp::txn(nested(prefix, write))));
    Txn::new().when(conditions(prefix, &group.fence).collect::<Vec<_>>()).and_then(then)
}

fn nested(prefix: &str, write: &Write) -> Txn {
    let then: Vec<TxnOp> = write.then.iter().map(|op| operation(prefix, op)).collect();
    let otherwise = TxnOp::get(full(prefix, &write.otherwise_read), None);
    Txn::new()
        .when(conditions(prefix, &write.compare).collect::<Vec<_>>())
        .and_then(then)
        .or_else([otherwise])
}

fn conditions<'a>(prefix: &'a str, compares: &'a [Compare]) -> impl Iterator<Item = Condition> + 'a {
    let condition = move |compare: &Compare| match compare {
        Compare::ModRevision(key, revision) => {
            Condition::mod_revision(full(prefix, key), CompareOp::Equal, to_etcd(*revision))
        }
        Compare::CreateRevision(key, revision) => {
            Condition::create_revision(full(prefix, key), CompareOp::Equal, to_etcd(*revision))
        }
    };
    compares.iter().map(condition)
}

fn operation(prefix: &str, op: &Op) -> TxnOp {
    match op {
        Op::Put(key, value) => TxnOp::put(full(prefix, key), value.to_vec(), None),
        Op::Remove(key) => TxnOp::delete(full(prefix, key), None),
    }
}

/// What became of a group.
pub(super) fn answer(prefix: &str, group: &Group, answer: PbTxnResponse) -> Result<Committed, StoreError> {
    if !answer.succeeded {
        return Ok(Committed::Fenced);
    }
    let revision = head(answer.header.as_ref());
    let mut verdicts = Vec::with_capacity(group.writes.len());
    for response in answer.responses.into_iter().skip(group.also.len()) {
        match response.response {
            Some(PbTxnOpResponse::ResponseTxn(nested)) => verdicts.push(verdict(prefix, nested)),
            // It was committed, but what became of whom is not to be seen.
            _ => return Err(StoreError::Unknown("an answer of another kind than asked for".to_owned())),
        }
    }
    if verdicts.len() != group.writes.len() {
        return Err(StoreError::Unknown(format!(
            "{} answers to {} writes",
            verdicts.len(),
            group.writes.len()
        )));
    }
    Ok(Committed::Done { revision, verdicts })
}

fn verdict(prefix: &str, nested: PbTxnResponse) -> Verdict {
    if nested.succeeded {
        return Verdict::Won;
    }
    let read = nested.responses.into_iter().find_map(|response| match response.response {
        Some(PbTxnOpResponse::ResponseRange(range)) => range.kvs.into_iter().next(),
        _ => None,
    });
    Verdict::Lost(read.and_then(|found| entry(prefix, found)))
}

/// An entry of ours; nothing for a foreign key that happens to stand under our prefix.
pub(super) fn entry(prefix: &str, found: PbKeyValue) -> Option<Entry> {
    Some(Entry {
        key: key(prefix, found.key)?,
        value: Bytes::from(found.value),
        create_revision: from_etcd(found.create_revision),
        mod_revision: from_etcd(found.mod_revision),
    })
}

/// A key without the prefix. Ours are all text.
pub(super) fn key(prefix: &str, key: Vec<u8>) -> Option<String> {
    String::from_utf8(key).ok()?.strip_prefix(prefix).map(str::to_owned)
}

/// The store's revision in an answer.
pub(super) fn head(header: Option<&PbResponseHeader>) -> Revision {
    from_etcd(header.map_or(0, |header| header.revision))
}

/// Etcd counts in signed numbers that are never negative.
pub(super) fn from_etcd(revision: i64) -> Revision {
    Revision(u64::try_from(revision).unwrap_or(0))
}

/// A revision that etcd cannot have is told by it as ahead.
pub(super) fn to_etcd(revision: Revision) -> i64 {
    i64::try_from(revision.0).unwrap_or(i64::MAX)
}

fn full(prefix: &str, key: &str) -> Vec<u8> {
    [prefix.as_bytes(), key.as_bytes()].concat()
}

/// The first key behind all that begin with this one, which is not empty and is text.
pub(super) fn end_of(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    // No byte of UTF-8 is 255, so that the last one can always be raised.
    if let Some(last) = end.last_mut() {
        *last = last.saturating_add(1);
    }
    end
}
