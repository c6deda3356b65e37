//! What the protocol's machine lets through in a request's head and an application should not.

use hyper::header::{HOST, TRANSFER_ENCODING};
use hyper::{Request, Version};

use super::{ADDRESS_BYTES_MAX, FIELDS_BYTES_MAX, FIELDS_MAX};

/// What is wrong with a request's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadHead {
    /// The address is over [`ADDRESS_BYTES_MAX`].
    Address,
    /// The header fields are over [`FIELDS_BYTES_MAX`] or [`FIELDS_MAX`].
    Fields,
    /// Not one `Host`: in HTTP/1.1 there is exactly one (RFC 9112 section 3.2).
    Host,
}

/// Judges a request's head, for an application that refuses in its own words.
#[must_use]
pub fn bad_head<B>(request: &Request<B>) -> Option<BadHead> {
    let address = request.uri().path_and_query().map_or(0, |address| address.as_str().len());
    if address > ADDRESS_BYTES_MAX {
        return Some(BadHead::Address);
    }
    let fields = request.headers();
    let bytes: usize = fields.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    if bytes > FIELDS_BYTES_MAX || fields.len() > FIELDS_MAX {
        return Some(BadHead::Fields);
    }
    // HTTP/2 says it in another way, and older clients than HTTP/1.1 need not name the host.
    let has_none = request.version() == Version::HTTP_11 && fields.get_all(HOST).iter().count() != 1;
    has_none.then_some(BadHead::Host)
}

/// Whether its connection ends with the answer, however it is answered. A body in chunks may have had a length beside
/// them, which the protocol's machine drops unseen: another reader in front may have gone by it, so what comes next on
/// that connection is not to be trusted (RFC 9112 section 6.1).
#[must_use]
pub fn is_last<B>(request: &Request<B>) -> bool {
    request.headers().contains_key(TRANSFER_ENCODING)
}
