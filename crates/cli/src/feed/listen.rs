//! A socket at which consumers get their feeds.
//!
//! A consumer sends one line: `blockmill-feed 1 CURSOR`, the cursor being the block that it has
//! handled last, by hash or height. It gets lines of JSON from then on, and ends the feed by
//! closing the connection. Each consumer has a thread of its own, and they share what is known of
//! the chain, so one that does not read delays no other.

use crate::arguments::{Endpoint, cursor_of};
use crate::failure::Failure;
use crate::feed::{follow, tell};
use crate::log;
use blockmill_block::Network;
use blockmill_datadir::{Cursor, Feed};
use serde_json::json;
use std::cell::RefCell;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Consumers at a time. Each takes a thread, and memory for some blocks as JSON.
const CONSUMERS_MAX: usize = 32;

/// Most bytes of the line that a consumer sends: the words, and a hash.
const LINE_MAX: usize = 128;

/// Time that a consumer has to send its line, or to take the reason why it is refused.
const PATIENCE: Duration = Duration::from_secs(10);

/// Between two looks whether a connection has come, or whether the process is to stop.
const STEP: Duration = Duration::from_millis(20);

/// What the line begins with: the protocol and its version.
const WORDS: &str = "blockmill-feed 1 ";

/// A connection of either kind.
trait Connection: Read + Write + Send {
    /// Limits the time of each read, and of each write.
    fn set_limits(&self, read: Duration, write: Duration) -> io::Result<()>;
}

impl Connection for UnixStream {
    fn set_limits(&self, read: Duration, write: Duration) -> io::Result<()> {
        self.set_nonblocking(false)?;
        self.set_read_timeout(Some(read))?;
        self.set_write_timeout(Some(write))
    }
}

impl Connection for TcpStream {
    fn set_limits(&self, read: Duration, write: Duration) -> io::Result<()> {
        self.set_nonblocking(false)?;
        self.set_nodelay(true)?;
        self.set_read_timeout(Some(read))?;
        self.set_write_timeout(Some(write))
    }
}

/// A socket that listens. A path goes with it.
enum Listener {
    Unix(UnixListener, PathBuf),
    Tcp(TcpListener),
}

impl Listener {
    fn bind(endpoint: &Endpoint) -> io::Result<Self> {
        Ok(match endpoint {
            Endpoint::Unix(path) => {
                remove_unused(path)?;
                let listener = UnixListener::bind(path)?;
                listener.set_nonblocking(true)?;
                Self::Unix(listener, path.clone())
            }
            Endpoint::Tcp(address) => {
                let listener = TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                Self::Tcp(listener)
            }
        })
    }

    fn name(&self) -> io::Result<String> {
        Ok(match self {
            Self::Unix(_, path) => format!("unix:{}", path.display()),
            Self::Tcp(listener) => listener.local_addr()?.to_string(),
        })
    }

    fn accept(&self) -> io::Result<Box<dyn Connection>> {
        Ok(match self {
            Self::Unix(listener, _) => Box::new(listener.accept()?.0),
            Self::Tcp(listener) => Box::new(listener.accept()?.0),
        })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            let _ = fs::remove_file(path);
        }
    }
}

/// Removes a socket at which nobody listens any more.
fn remove_unused(path: &Path) -> io::Result<()> {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket());
    if is_socket && UnixStream::connect(path).is_err() {
        fs::remove_file(path)?;
    }
    Ok(())
}

/// What consumers are served from.
pub(crate) struct Server<'a> {
    pub(crate) data: &'a Path,
    pub(crate) network: Network,
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
        let consumers = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            while !self.is_stopped() {
                let Ok(mut connection) = listener.accept() else {
                    // None has come, or it has gone before it was accepted.
                    std::thread::sleep(STEP);
                    continue;
                };
                if consumers.load(Ordering::Relaxed) == CONSUMERS_MAX {
                    let _ = connection.set_limits(STEP, STEP);
                    refuse(
                        &mut *connection,
                        &format!("there are {CONSUMERS_MAX} consumers already"),
                    );
                    continue;
                }
                consumers.fetch_add(1, Ordering::Relaxed);
                let consumers = &consumers;
                scope.spawn(move || {
                    self.answer(&mut *connection);
                    consumers.fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
        Ok(())
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Serves one consumer.
    fn answer(&self, connection: &mut dyn Connection) {
        let _ = connection.set_limits(STEP, STEP);
        let outcome = self.read_cursor(connection).and_then(|cursor| {
            let mut feed = self.feed.another(cursor)?;
            // Both take the connection, one after the other.
            let connection = RefCell::new(&mut *connection);
            let mut tell = |feed: &mut Feed| {
                let mut write = |line: Vec<u8>| self.write(&mut **connection.borrow_mut(), &line);
                tell(feed, self.network, 1, &mut write).map(drop)
            };
            let mut is_there = || !is_gone(&mut **connection.borrow_mut());
            follow(&mut feed, self.data, self.stop, &mut tell, &mut is_there)
        });
        match outcome {
            Ok(()) | Err(Failure::Stream(_)) => {}
            Err(failure) => {
                let _ = connection.set_limits(STEP, PATIENCE);
                refuse(connection, &failure.message());
            }
        }
    }

    /// The cursor that a consumer sends.
    fn read_cursor(&self, connection: &mut dyn Connection) -> Result<Cursor, Failure> {
        let wrong = || Failure::Usage(format!("send one line: {WORDS}HEIGHT|HASH"));
        let (mut line, end) = (Vec::new(), Instant::now() + PATIENCE);
        while !line.ends_with(b"\n") {
            if line.len() == LINE_MAX || Instant::now() > end {
                return Err(wrong());
            }
            let mut byte = [0];
            match connection.read(&mut byte) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Ok(_) => line.push(byte[0]),
                Err(error) if is_timeout(&error) && !self.is_stopped() => {}
                Err(error) => return Err(error.into()),
            }
        }
        let line = String::from_utf8(line).map_err(|_| wrong())?;
        let cursor = line.trim_end().strip_prefix(WORDS).ok_or_else(wrong)?;
        cursor_of(cursor).map_err(|_| wrong())
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
fn refuse(connection: &mut dyn Connection, why: &str) {
    // Whoever is gone need not know.
    let _ = writeln!(connection, "{}", json!({"event": "error", "error": why}));
}

fn is_timeout(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}

/// Whether a consumer has closed its connection. What it sends is not read.
fn is_gone(connection: &mut dyn Connection) -> bool {
    match connection.read(&mut [0]) {
        Ok(count) => count == 0,
        Err(error) => !is_timeout(&error),
    }
}
