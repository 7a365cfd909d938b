//! A socket at which consumers get their feeds.
//!
//! A consumer sends one line, a [`Request`]. It gets its events from then on, and ends the feed by
//! closing the connection. Each consumer has a thread of its own, and they share what is known of
//! the chain and the watch for more, so one that does not read delays no other.

use crate::arguments::Endpoint;
use crate::failure::Failure;
use crate::feed::encoder::Encoder;
use crate::feed::peer::Peer;
use crate::feed::socket::{Connection, Listener};
use crate::feed::{follow, tell};
use crate::log;
use blockmill_block::Network;
use blockmill_datadir::Feed;
use blockmill_datadir::feed::request::{FeedFormat, NoRequest, REQUEST_MAX, Request, RequestReader};
use blockmill_datadir::feed::watching::{EndOfWatch, SharedWatch, WatchShare};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::json;
use std::cell::RefCell;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Consumers at a time. Each takes a thread, and memory for the events of some blocks.
const CONSUMERS_MAX: usize = 32;

/// Time that a consumer has to send its line, or to take the reason why it is refused.
const PATIENCE: Duration = Duration::from_secs(10);

/// The same on the thread that accepts connections.
const NO_TIME: Duration = Duration::from_millis(1);

/// Pieces of what a consumer sends that are read before it is refused.
const UNREAD_MAX: usize = 64;

/// Between two looks whether a connection has come, or whether the process is to stop.
const STEP: Duration = Duration::from_millis(20);

/// Between two looks whether the machines of consumers are still there.
const PEER_STEP: Duration = Duration::from_secs(1);

/// A consumer that was let in.
struct Consumer {
    /// Dead once its thread has ended.
    served: Weak<()>,
    peer: Option<Peer>,
}

/// What consumers are served from.
pub(crate) struct Server<'a> {
    pub(crate) data: &'a Path,
    pub(crate) network: Network,
    /// For consumers that name none.
    pub(crate) format: FeedFormat,
    /// What is known of the chain.
    pub(crate) feed: &'a Feed,
    pub(crate) stop: &'a AtomicBool,
}

impl Server<'_> {
    /// Serves consumers until the flag is set.
    pub(crate) fn serve(&self, endpoint: &Endpoint) -> Result<(), Failure> {
        let usage = |error: io::Error| Failure::Usage(format!("--listen {endpoint}: {error}"));
        let listener = Listener::bind(endpoint).map_err(usage)?;
        let name = listener.name().map_err(usage)?;
        log::info("listening", &format!("feeds at {name}"), json!({"address": name}));
        // It is what those get that are refused before they have named a format.
        let encoder = Encoder::new(self.format, self.network)?;
        let mut consumers: Vec<Consumer> = Vec::new();
        let mut looked = Instant::now();
        let shared = &SharedWatch::default();
        std::thread::scope(|scope| {
            let _end = EndOfWatch(shared);
            let watching = || shared.run(self.feed, self.data, self.stop);
            std::thread::Builder::new().spawn_scoped(scope, watching)?;
            while !self.is_stopped() {
                consumers.retain(|consumer| consumer.served.strong_count() > 0);
                if looked.elapsed() >= PEER_STEP {
                    looked = Instant::now();
                    for peer in consumers.iter_mut().filter_map(|consumer| consumer.peer.as_mut()) {
                        // It may have gone by itself.
                        let _ = peer.look();
                    }
                }
                let Ok((mut connection, peer)) = listener.accept() else {
                    // None has come, or it has gone before it was accepted.
                    std::thread::sleep(STEP);
                    continue;
                };
                if consumers.len() == CONSUMERS_MAX {
                    let why = format!("there are {CONSUMERS_MAX} consumers already");
                    refuse(&mut *connection, &encoder, why, NO_TIME);
                    continue;
                }
                let (encoder, served) = (&encoder, Arc::new(()));
                consumers.push(Consumer {
                    served: Arc::downgrade(&served),
                    peer,
                });
                let consumer = move || {
                    let _served = served;
                    self.answer(&mut *connection, encoder, shared);
                };
                // Without a thread the connection is closed.
                if let Err(error) = std::thread::Builder::new().spawn_scoped(scope, consumer) {
                    log::warning("feed_refused", &error.to_string(), json!({"detail": error.to_string()}));
                }
            }
            Ok(())
        })
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Serves one consumer.
    fn answer(&self, connection: &mut dyn Connection, default: &Encoder, shared: &SharedWatch) {
        let _ = connection.set_limits(STEP, STEP);
        let request = self.read_request(connection).and_then(|request| {
            let format = request.format.unwrap_or(self.format);
            Ok((Encoder::new(format, self.network)?, request.cursor))
        });
        let (encoder, cursor) = match request {
            Ok(request) => request,
            Err(Failure::Stream(_)) => return,
            Err(failure) => return refuse(connection, default, failure.message(), PATIENCE),
        };
        let mut feed = match self.feed.another(cursor) {
            Ok(feed) => feed,
            Err(error) => return refuse(connection, &encoder, Failure::from(error).message(), PATIENCE),
        };
        match self.give(connection, &encoder, &mut feed, shared) {
            Ok(()) => {
                let _ = connection.write_all(encoder.end());
            }
            // It is gone, or the process ends while it does not read.
            Err(Failure::Stream(_)) => {}
            Err(failure) => {
                let _ = connection.set_limits(STEP, PATIENCE);
                let _ = say_why(connection, &encoder, failure.message());
            }
        }
    }

    /// Gives a consumer its feed, until it is gone or the flag is set.
    fn give(
        &self,
        connection: &mut dyn Connection,
        encoder: &Encoder,
        feed: &mut Feed,
        shared: &SharedWatch,
    ) -> Result<(), Failure> {
        self.write(connection, &encoder.head()?)?;
        // Both take the connection, one after the other.
        let connection = RefCell::new(connection);
        let mut tell = |feed: &mut Feed| {
            let mut write = |bytes: Vec<u8>| self.write(&mut **connection.borrow_mut(), &bytes);
            tell(feed, encoder, 1, &mut write).map(drop)
        };
        let mut is_there = || !is_gone(&mut **connection.borrow_mut());
        follow(feed, &mut WatchShare::new(shared), &mut tell, &mut is_there)
    }

    /// What a consumer sends first.
    fn read_request(&self, connection: &mut dyn Connection) -> Result<Request, Failure> {
        let (mut reader, end) = (RequestReader::default(), Instant::now() + PATIENCE);
        let mut bytes = [0; REQUEST_MAX];
        loop {
            let read = match connection.read(&mut bytes) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Ok(length) => reader.take(&bytes[..length]),
                Err(error) if is_timeout(&error) && !self.is_stopped() => Ok(None),
                Err(error) => return Err(error.into()),
            };
            match read {
                Ok(Some(request)) => return Ok(request),
                Ok(None) if Instant::now() < end => {}
                Ok(None) => return Err(Failure::Usage(NoRequest.to_string())),
                Err(wrong) => return Err(Failure::Usage(wrong.to_string())),
            }
        }
    }

    /// Writes, for as long as the consumer takes, until the flag is set.
    fn write(&self, connection: &mut dyn Connection, mut bytes: &[u8]) -> Result<(), Failure> {
        while !bytes.is_empty() {
            match connection.write(bytes) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                Ok(written) => bytes = &bytes[written..],
                Err(error) if is_timeout(&error) && !self.is_stopped() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Tells a consumer why it gets no more.
fn say_why(connection: &mut dyn Connection, encoder: &Encoder, why: String) -> Result<(), Failure> {
    connection.write_all(&encoder.error(why)?)?;
    Ok(connection.write_all(encoder.end())?)
}

/// Tells a consumer that has got nothing why it gets nothing.
fn refuse(connection: &mut dyn Connection, encoder: &Encoder, why: String, patience: Duration) {
    let _ = connection.set_limits(STEP.min(patience), STEP.max(patience));
    // Over TCP, what was not read would make the system take back what was written.
    for _ in 0..UNREAD_MAX {
        if !matches!(connection.read(&mut [0; 1024]), Ok(1..)) {
            break;
        }
    }
    // Whoever is gone need not know.
    let head = encoder.head().unwrap_or_default();
    let _ = connection.write_all(&head);
    let _ = say_why(connection, encoder, why);
}

fn is_timeout(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}

/// Whether a consumer has closed its connection. What it sends is not read.
fn is_gone(connection: &mut dyn Connection) -> bool {
    // A read would wait for something to come.
    let mut polled = [PollFd::from_borrowed_fd(connection.as_fd(), PollFlags::IN)];
    if matches!(poll(&mut polled, Some(&Timespec::default())), Ok(0)) {
        return false;
    }
    match connection.read(&mut [0]) {
        Ok(count) => count == 0,
        Err(error) => !is_timeout(&error),
    }
}
