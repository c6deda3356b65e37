//! What is written by the million is what is written one by one, to the byte.

use std::sync::Arc;

use prost::Message as _;
use rollcall_model::testing::{Chance, any_declared, any_owned, full_registration, ids, registered};
use rollcall_model::{Epoch, Event, Registration, Revision, Timestamp};
use rollcall_proto::{Writer, convert};

/// Registrations of which neighbours often declare the same, or say the same.
pub(crate) fn records(seed: u64) -> Vec<Arc<Registration>> {
    let mut chance = Chance::new(seed);
    let mut last: Option<Registration> = None;
    let mut records = Vec::new();
    for id in ids(24) {
        let mut one = registered(
            any_declared(&mut chance, id),
            Epoch::from_wire(chance.number() >> 12).unwrap(),
            Revision(chance.number() >> (32 * chance.below(3)).min(63)),
        );
        one.registered_at = Timestamp(i64::from_le_bytes(chance.number().to_le_bytes()));
        one.replaced =
            (0..chance.below(3)).map(|_| Epoch::from_wire(chance.number() >> 12).unwrap()).collect();
        one.owned = any_owned(&mut chance);
        if let Some(last) = &last {
            if chance.one_in(2) {
                one.declared.profile = Arc::clone(&last.declared.profile);
            }
            if chance.one_in(2) {
                one.owned.metadata = last.owned.metadata.clone();
            }
        }
        last = Some(one.clone());
        records.push(Arc::new(one));
    }
    records.push(Arc::new(full_registration()));
    records
}

#[test]
fn a_page_is_the_bytes_that_the_plain_conversions_write() {
    let mut writer = Writer::default();
    for seed in 0..200 {
        let records = records(seed);
        for many in [records.len(), 1, 0] {
            let page = records[..many].to_vec();
            let plain = convert::event(&Event::Page(page.clone())).encode_to_vec();
            assert!(writer.page(&page) == plain, "seed {seed}, {many} records");
        }
    }
}
