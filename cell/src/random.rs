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
