//! Stamps in the header of an answer over gRPC: what the clock of the process that answers showed.

use std::time::Duration;

use rollcall_model::{Clock, Stamp};
use tonic::Response;
use tonic::metadata::MetadataMap;

/// The header, `<teller>-<milliseconds>`.
pub const STAMP: &str = "rollcall-stamp";

/// An answer that is made now, with its stamp.
#[must_use]
pub fn stamped<T>(answer: T, clock: &Clock) -> Response<T> {
    let mut response = Response::new(answer);
    let text = clock.stamp().map(|stamp| format!("{:x}-{}", stamp.teller, stamp.at.as_millis()));
    if let Some(Ok(value)) = text.map(|text| text.parse()) {
        response.metadata_mut().insert(STAMP, value);
    }
    response
}

/// The stamp of an answer; `None` where there is none that this version can read.
#[must_use]
pub fn stamp_of(headers: &MetadataMap) -> Option<Stamp> {
    let (teller, at) = headers.get(STAMP)?.to_str().ok()?.split_once('-')?;
    let (teller, at) = (u64::from_str_radix(teller, 16).ok()?, at.parse().ok()?);
    Some(Stamp { teller, at: Duration::from_millis(at) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_bears_what_the_clock_showed_and_whose_it_was() {
        let clock = Clock::new(|| Duration::from_micros(12_345_678), || 0);
        assert_eq!(stamp_of(stamped((), &clock).metadata()), None, "nobody follows this one");
        let answer = stamped((), &clock.with_teller(u64::MAX));
        let stamp = Stamp { teller: u64::MAX, at: Duration::from_millis(12_345) };
        assert_eq!(stamp_of(answer.metadata()), Some(stamp));
    }

    #[test]
    fn a_stamp_that_cannot_be_read_is_none() {
        for text in ["", "-", "7", "x-1", "1-x", "1--1", "11111111111111111-1"] {
            let mut headers = MetadataMap::new();
            headers.insert(STAMP, text.parse().expect("a header"));
            assert_eq!(stamp_of(&headers), None, "{text:?}");
        }
    }
}
