//! Chance, drawn at the edge and handed to the core as a value.

/// Evenly from [0, 1).
#[must_use]
pub fn chance() -> f64 {
    rand::random()
}

/// A fresh unique id, lower-case hex.
#[must_use]
pub fn id() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

/// The key of a table that others choose the contents of.
#[must_use]
pub fn key() -> u64 {
    rand::random()
}
