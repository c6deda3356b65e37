//! The addresses of one cell's processes, tried in turn, and the one connection to the present one.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tonic::transport::Endpoint;

use crate::error::{CallError, StartError};
use crate::options::check_urls;
use crate::transport::grpc::{self, endpoint};

/// Addresses with one line to the present one. A line is what its user makes of a connection.
#[derive(Debug)]
pub(super) struct Turns<L> {
    urls: Vec<Endpoint>,
    place: Mutex<Place<L>>,
}

#[derive(Debug)]
struct Place<L> {
    at: usize,
    turn: u64,
    line: Option<L>,
}

/// A line, and the turn it was taken at: of several calls that fail on one line, one moves on.
#[derive(Debug)]
pub(super) struct Taken<L> {
    pub(super) line: L,
    pub(super) turn: u64,
    /// Where it leads, for people.
    pub(super) url: String,
}

impl<L: Clone> Turns<L> {
    /// Takes the URLs; connects when the first call needs it.
    pub(super) fn new(urls: &[String]) -> Result<Self, StartError> {
        check_urls(urls)?;
        let urls = urls.iter().map(|url| endpoint(url)).collect::<Result<_, _>>()?;
        Ok(Self { urls, place: Mutex::new(Place { at: 0, turn: 0, line: None }) })
    }

    /// How many addresses there are.
    pub(super) const fn count(&self) -> usize {
        self.urls.len()
    }

    /// The present line; one that is over by itself is left for the next address.
    pub(super) fn take(
        &self,
        is_over: impl FnOnce(&L) -> bool,
        open: impl FnOnce(&Endpoint) -> L,
    ) -> Result<Taken<L>, CallError> {
        let mut place = self.place();
        if place.line.as_ref().is_some_and(is_over) {
            self.next(&mut place);
        }
        let Place { at, turn, line } = &mut *place;
        // Never empty by construction; an index cannot fail here, and still it is not trusted blindly.
        let url = self.urls.get(*at).ok_or_else(|| grpc::unreachable("no URL", "none was given"))?;
        let line = line.get_or_insert_with(|| open(url)).clone();
        Ok(Taken { line, turn: *turn, url: grpc::url(url) })
    }

    /// After this error on this line: the next call goes elsewhere if that may help.
    pub(super) fn judge(&self, taken: &Taken<L>, error: &CallError) {
        if error.is_of_this_cell() {
            self.leave(taken.turn);
        }
    }

    /// Leaves the connection behind even if there is but one address: a half-open one answers nothing for minutes.
    pub(super) fn leave(&self, seen: u64) {
        let mut place = self.place();
        if place.turn == seen {
            self.next(&mut place);
        }
    }

    fn next(&self, place: &mut Place<L>) {
        place.turn += 1;
        place.at = (place.at + 1) % self.urls.len().max(1);
        place.line = None;
    }

    fn place(&self) -> MutexGuard<'_, Place<L>> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
