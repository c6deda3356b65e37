//! Positions.

use rollcall_model::{Incarnation, Position, Revision};

use crate::{Unreadable, v1};

/// To the wire.
#[must_use]
pub fn position(position: &Position) -> v1::Position {
    v1::Position { incarnation: position.incarnation.to_string(), revision: position.revision.0 }
}

/// From the wire.
///
/// # Errors
/// Missing, or no incarnation.
pub fn position_from(wire: Option<v1::Position>, field: &'static str) -> Result<Position, Unreadable> {
    let wire = wire.ok_or_else(|| Unreadable::missing(field))?;
    let incarnation =
        Incarnation::parse(&wire.incarnation).map_err(|finding| Unreadable::new(field, finding.detail))?;
    Ok(Position::new(incarnation, Revision(wire.revision)))
}
