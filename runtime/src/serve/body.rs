//! Bodies on their way in, with a time limit, and on their way out, counted.

use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep};

use super::pulse::{Pulse, Turn};

type Failure = axum::Error;

/// A request's body did not arrive in time.
#[derive(Debug, thiserror::Error)]
#[error("the body had not arrived {} s after its head", .0.as_secs_f64())]
struct BodyTimeout(Duration);

/// Says that an answer has begun, from when on its request's body has all the time there is: what goes on while the
/// answer streams is a conversation.
pub(super) struct Answered(Option<Arc<AtomicBool>>);

impl Answered {
    pub(super) fn begun(&self) {
        if let Some(answered) = &self.0 {
            answered.store(true, Ordering::Release);
        }
    }
}

/// The request with a body that fails when it has not arrived in time.
pub(super) fn timed(
    request: hyper::Request<Incoming>,
    most: Duration,
    turn: &Turn,
) -> (hyper::Request<Body>, Answered) {
    if http_body::Body::is_end_stream(request.body()) {
        return (request.map(|_| Body::empty()), Answered(None));
    }
    let answered = Arc::new(AtomicBool::new(false));
    let request = request.map(|inner| {
        Body::new(Timed {
            inner,
            most,
            until: Instant::now() + most,
            alarm: None,
            answered: Arc::clone(&answered),
            pulse: turn.pulse(),
            is_whole: false,
        })
    });
    (request, Answered(Some(answered)))
}

struct Timed {
    inner: Incoming,
    most: Duration,
    until: Instant,
    /// Set at the first wait: most bodies come with their head.
    alarm: Option<Pin<Box<Sleep>>>,
    answered: Arc<AtomicBool>,
    pulse: Arc<Pulse>,
    is_whole: bool,
}

impl http_body::Body for Timed {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        let this = self.get_mut();
        if let Poll::Ready(frame) = Pin::new(&mut this.inner).poll_frame(cx) {
            this.is_whole = frame.is_none() || http_body::Body::is_end_stream(&this.inner);
            return Poll::Ready(frame.map(|frame| frame.map_err(Failure::new)));
        }
        if this.answered.load(Ordering::Acquire) {
            return Poll::Pending;
        }
        let until = this.until;
        let alarm = this.alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        match alarm.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Some(Err(Failure::new(BodyTimeout(this.most))))),
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        http_body::Body::is_end_stream(&self.inner)
    }

    fn size_hint(&self) -> SizeHint {
        http_body::Body::size_hint(&self.inner)
    }
}

impl Drop for Timed {
    fn drop(&mut self) {
        if !self.is_whole {
            self.pulse.left_unread();
        }
    }
}

/// The answer's body, holding its request's turn until it is taken whole or let go of.
pub(super) const fn counted(body: Body, turn: Turn) -> Counted {
    Counted { inner: body, turn, offered: false }
}

pub(super) struct Counted {
    inner: Body,
    turn: Turn,
    /// The last piece was handed over, and nobody has asked for more yet.
    offered: bool,
}

impl Counted {
    /// Who asks for more has taken what there was.
    fn taken(&mut self) {
        if std::mem::take(&mut self.offered) {
            self.turn.took();
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.taken();
    }
}

impl http_body::Body for Counted {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        self.taken();
        let polled = Pin::new(&mut self.inner).poll_frame(cx);
        if matches!(polled, Poll::Ready(Some(Ok(_)))) {
            self.offered = true;
            self.turn.offers();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
