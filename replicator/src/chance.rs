//! The one place where this crate draws chance; everything that decides is told it.

/// Evenly from [0, 1).
#[must_use]
pub(crate) fn draw() -> f64 {
    rand::random()
}
