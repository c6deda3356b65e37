//! A row of agents as it is written into an answer: of bounded bytes, and with a breath now and then.
//!
//! Promises: at least one agent; no more bytes than [`limits::PAGE_BYTES_MAX`] otherwise; a large row has its room before
//! the most of it is written. Whoever writes a long one lets others in between, so that no renewal waits for all of it.
//! Never here: which agents, and what is said about those that had no room.

use std::sync::Arc;

use bytes::Bytes;
use rollcall_model::limits;
use serde::Serialize;

use crate::api::http::json;
use crate::api::unread::{Held, Unread};
use crate::refusal::Refusal;

/// So many bytes are written in one go: half a millisecond's work.
const BREATH: usize = 64 * 1024;

/// What is written so far.
pub(super) struct Row<'a> {
    unread: &'a Unread,
    to: Vec<u8>,
    many: usize,
    held: Option<Held>,
    breathed: usize,
}

impl<'a> Row<'a> {
    /// Begins with what stands before the first agent.
    pub(super) fn behind(head: &[u8], unread: &'a Unread) -> Self {
        Self { unread, to: head.to_vec(), many: 0, held: None, breathed: 0 }
    }

    /// Writes one more, if it has room; `false` if it has none, and the row ends before it.
    ///
    /// # Errors
    /// The process holds too much already.
    pub(super) async fn add(&mut self, agent: &(impl Serialize + Sync)) -> Result<bool, Refusal> {
        let before = self.to.len();
        if self.many > 0 {
            self.to.push(b',');
        }
        json::write(&mut self.to, agent)?;
        if self.many > 0 && self.to.len() > limits::PAGE_BYTES_MAX {
            self.to.truncate(before);
            return Ok(false);
        }
        self.many += 1;
        if self.held.is_none() && !Unread::passes(self.to.len()) {
            self.held = Some(self.unread.take(limits::PAGE_BYTES_MAX)?);
        }
        if self.to.len() - self.breathed > BREATH {
            self.breathed = self.to.len();
            tokio::task::yield_now().await;
        }
        Ok(true)
    }

    /// How many are written.
    pub(super) const fn many(&self) -> usize {
        self.many
    }

    /// Ends it with these, as bytes that hold their room themselves.
    pub(super) fn close(self, tail: &[u8]) -> Bytes {
        let (bytes, held) = self.end(tail);
        match held {
            Some(held) => Arc::new(held).over(bytes),
            None => bytes,
        }
    }

    /// Ends it with these: its bytes, and its room if it is large.
    pub(super) fn end(mut self, tail: &[u8]) -> (Bytes, Option<Held>) {
        self.to.extend_from_slice(tail);
        if let Some(held) = &mut self.held {
            held.shrink(self.to.len());
        }
        (self.to.into_boxed_slice().into(), self.held)
    }
}
