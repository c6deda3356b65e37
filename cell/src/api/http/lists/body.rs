//! An answer on its way out: what is kept is shared with all who ask for it, and never copied for one of them.
//!
//! Promises: its length is known from the start, so that callers are told it.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::HttpBody;
use bytes::Bytes;
use http_body::{Frame, SizeHint};

/// At most two pieces, neither of them empty when it goes out.
pub(in crate::api::http) struct Written {
    kept: Bytes,
    rest: Bytes,
}

impl Written {
    /// What is kept, and what was written for one caller behind it.
    pub(super) fn new(kept: Bytes, rest: Vec<u8>) -> Self {
        Self { kept, rest: rest.into() }
    }

    const fn len(&self) -> usize {
        self.kept.len() + self.rest.len()
    }
}

impl HttpBody for Written {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = match (self.kept.is_empty(), self.rest.is_empty()) {
            (false, _) => std::mem::take(&mut self.kept),
            (true, false) => std::mem::take(&mut self.rest),
            (true, true) => return Poll::Ready(None),
        };
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.len() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.len() as u64)
    }
}
