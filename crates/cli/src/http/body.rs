//! Bodies of answers: a whole one, or events without end.
//!
//! An event has the newest figures. A client that is slow misses those between, and nothing waits
//! for it.

use hyper::body::{Bytes, Frame, SizeHint};
use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// The newest events.
#[derive(Debug, Default)]
struct Newest {
    /// Numbers of the newest two. Nothing has been told before the first.
    status_number: u64,
    history_number: u64,
    status: Bytes,
    history: Bytes,
    is_over: bool,
}

/// What those who watch are told. It lives on one thread.
#[derive(Debug, Default)]
pub(super) struct Broadcast {
    newest: RefCell<Newest>,
    wakers: RefCell<Vec<Waker>>,
    watching: Cell<usize>,
}

/// An event as it is sent.
fn event(name: &str, data: &str) -> Bytes {
    // JSON has no line break.
    Bytes::from(format!("event: {name}\ndata: {data}\n\n"))
}

impl Broadcast {
    /// How many watch.
    pub(super) fn watching(&self) -> usize {
        self.watching.get()
    }

    /// Tells the newest figures.
    pub(super) fn status(&self, json: &str) {
        let mut newest = self.newest.borrow_mut();
        newest.status = event("status", json);
        newest.status_number += 1;
        drop(newest);
        self.wake();
    }

    /// The same of the past. It goes out with the next figures.
    pub(super) fn history(&self, json: &str) {
        let mut newest = self.newest.borrow_mut();
        newest.history = event("history", json);
        newest.history_number += 1;
    }

    /// Ends all events, after those that were told last.
    pub(super) fn end(&self) {
        self.newest.borrow_mut().is_over = true;
        self.wake();
    }

    fn wake(&self) {
        self.wakers.take().into_iter().for_each(Waker::wake);
    }

    /// A new client that watches.
    pub(super) fn watch(self: &Rc<Self>) -> Watch {
        self.watching.set(self.watching.get() + 1);
        Watch {
            broadcast: Rc::clone(self),
            has_begun: false,
            status_number: 0,
            history_number: 0,
        }
    }
}

/// The events of one client.
pub(super) struct Watch {
    broadcast: Rc<Broadcast>,
    has_begun: bool,
    /// The numbers of those that it was told last.
    status_number: u64,
    history_number: u64,
}

/// What a browser is told first: the milliseconds after which it connects again.
const BEGIN: &[u8] = b"retry: 1000\n\n";

impl Watch {
    /// What it is told next; none at the end.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        // The head goes out with it, whether there are figures or not.
        if !std::mem::replace(&mut self.has_begun, true) {
            return Poll::Ready(Some(Bytes::from_static(BEGIN)));
        }
        let newest = self.broadcast.newest.borrow();
        if self.history_number != newest.history_number {
            self.history_number = newest.history_number;
            return Poll::Ready(Some(newest.history.clone()));
        }
        if self.status_number != newest.status_number {
            self.status_number = newest.status_number;
            return Poll::Ready(Some(newest.status.clone()));
        }
        if newest.is_over {
            return Poll::Ready(None);
        }
        let mut wakers = self.broadcast.wakers.borrow_mut();
        // A connection is woken for other reasons, too.
        if !wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            wakers.push(context.waker().clone());
        }
        Poll::Pending
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let watching = self.broadcast.watching.get() - 1;
        self.broadcast.watching.set(watching);
        if watching == 0 {
            self.broadcast.wakers.take();
        }
    }
}

/// The body of an answer.
pub(super) enum Body {
    Whole(Bytes),
    Events(Watch),
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match self.get_mut() {
            Self::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Whole(bytes) => Poll::Ready(Some(std::mem::take(bytes))),
            Self::Events(watch) => watch.poll_next(context),
        };
        next.map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Events(_) => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_client_gets_the_newest_figures_alone() {
        let broadcast = Rc::new(Broadcast::default());
        let mut watch = broadcast.watch();
        let mut context = Context::from_waker(Waker::noop());
        let mut next = || match watch.poll_next(&mut context) {
            Poll::Ready(next) => next.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap()),
            Poll::Pending => Some("nothing".to_owned()),
        };
        assert_eq!(next().unwrap(), "retry: 1000\n\n");
        assert_eq!(next().unwrap(), "nothing");
        for number in 0..1000 {
            broadcast.history(&format!("[{number}]"));
            broadcast.status(&format!("{{\"height\":{number}}}"));
        }
        assert_eq!(next().unwrap(), "event: history\ndata: [999]\n\n");
        assert_eq!(next().unwrap(), "event: status\ndata: {\"height\":999}\n\n");
        assert_eq!(next().unwrap(), "nothing");
        broadcast.status("{}");
        broadcast.end();
        assert_eq!(next().unwrap(), "event: status\ndata: {}\n\n");
        assert_eq!(next(), None);
        assert_eq!(broadcast.watching(), 1);
        drop(watch);
        assert_eq!(broadcast.watching(), 0);
        assert!(broadcast.wakers.borrow().is_empty());
    }
}
