//! The key layout of a region's store, pure. Keys are relative; the adapter adds the region's prefix.

use rollcall_model::InstanceId;

/// The incarnation of this history.
pub const INCARNATION: &str = "meta/incarnation";
/// The keeper's beat, once a second.
pub const BEAT: &str = "beat";
/// Why the registrations that vanish at this revision do.
pub const REMOVAL: &str = "removal";
/// All registrations.
pub const REGISTRATIONS: &str = "reg/";
/// All owners' statements.
pub const OWNED: &str = "own/";

/// All candidates for the keeper's office, the one in office among them.
pub const OFFICE: &str = "keeper/";

/// What a key is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// A registration.
    Registration(InstanceId),
    /// What its owner said since.
    Owned(InstanceId),
    /// The incarnation.
    Incarnation,
    /// The beat.
    Beat,
    /// Reasons of removals.
    Removal,
    /// A candidate for the keeper's office: the adapter's key, with the candidate's address.
    Office,
    /// Not ours: ignored and counted (fault F54).
    Foreign,
}

/// Where a registration stands.
#[must_use]
pub fn registration(id: &InstanceId) -> String {
    format!("{REGISTRATIONS}{id}")
}

/// Where its owner's statements stand.
#[must_use]
pub fn owned(id: &InstanceId) -> String {
    format!("{OWNED}{id}")
}

/// Reads a key.
#[must_use]
pub fn parse(key: &str) -> Key {
    match key {
        INCARNATION => return Key::Incarnation,
        BEAT => return Key::Beat,
        REMOVAL => return Key::Removal,
        _ => {}
    }
    if let Some(id) = key.strip_prefix(REGISTRATIONS) {
        return InstanceId::parse(id).map_or(Key::Foreign, Key::Registration);
    }
    if let Some(id) = key.strip_prefix(OWNED) {
        return InstanceId::parse(id).map_or(Key::Foreign, Key::Owned);
    }
    if key.starts_with(OFFICE) { Key::Office } else { Key::Foreign }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_read_back() {
        let id = InstanceId::parse("ops/mail/1").unwrap();
        assert_eq!(parse(&registration(&id)), Key::Registration(id.clone()));
        assert_eq!(parse(&owned(&id)), Key::Owned(id));
        assert_eq!(parse("meta/incarnation"), Key::Incarnation);
        assert_eq!(parse("keeper/694d"), Key::Office);
        for foreign in ["", "reg/", "reg/a/b", "reg/A/b/c", "other", "own/../x/y"] {
            assert_eq!(parse(foreign), Key::Foreign, "{foreign}");
        }
    }
}
