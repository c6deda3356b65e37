//! Registrations to measure with.

use std::collections::BTreeMap;
use std::sync::Arc;

use rollcall_model::declaration::{Declaration, RawEndpoint};
use rollcall_model::{
    Capability, CapabilityName, Declared, Details, Epoch, Owned, Registration, Replaced, Revision, Timestamp,
    Zone,
};

/// So many instances, ten to an agent, each with an endpoint of its own, a zone, a version, two entries of metadata and
/// one of so many capabilities; all healthy.
///
/// # Panics
/// When the model refuses what is made here.
#[must_use]
pub fn fleet(many: usize, capabilities: usize) -> Vec<Arc<Registration>> {
    (0..many).map(|n| Arc::new(registration(n, capabilities))).collect()
}

/// One of them.
///
/// # Panics
/// When the model refuses what is made here.
#[must_use]
pub fn registration(n: usize, capabilities: usize) -> Registration {
    let agent = n / 10;
    let raw = Declaration {
        id: format!("bench/agent-{agent}/{:08x}", n.wrapping_mul(2_654_435_761) & 0xffff_ffff),
        endpoints: vec![RawEndpoint {
            url: format!("http://127.0.0.1:{}/", 1024 + n % 60_000),
            protocol: None,
        }],
        ..Declaration::default()
    };
    let mut declared = Declared::check(raw, String::new).expect("a declaration");
    let name =
        CapabilityName::parse(&format!("bench:word_{}:v1", agent % capabilities)).expect("a capability");
    declared.capabilities = vec![Capability::new(name, false, Details::default())];
    declared.zone = Some(Zone::parse(["a", "b", "c"][n % 3]).expect("a zone"));
    declared.version = Some("1.4.2".into());
    declared.metadata =
        BTreeMap::from([("team".into(), "bench".into()), ("tier".into(), "gold".into())]).into();
    declared.lifecycle = rollcall_model::Lifecycle::Healthy;
    let owned = Owned::of(&declared);
    let revision = Revision(n as u64 + 1);
    Registration {
        declared,
        epoch: Epoch::new(1, revision),
        registered_at: Timestamp(0),
        replaced: Replaced::default(),
        revision,
        owned,
    }
}
