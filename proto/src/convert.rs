//! Model to wire and back, one file per kind of value.
//!
//! To the wire is a plain function; from the wire checks everything, because the other side may be another version.

pub mod declaration;
pub mod feed;
pub mod position;
pub mod query;
pub mod registration;
pub mod status;
pub mod watch;

pub use declaration::{declaration_from_request, register_request};
pub use feed::{FeedItem, change, change_from, removal, removal_from, snapshot_pages};
pub use feed::{bookmark, bookmark_from, delta, delta_from, feed_record, feed_record_from, head, head_from};
pub use position::{position, position_from};
pub use query::{query, query_from};
pub use registration::{declared, declared_from, owned, owned_from, registration, registration_from};
pub(crate) use registration::{epochs, epochs_from};
pub use status::{RegionStatus, region_status};
pub use watch::{event, event_from};
