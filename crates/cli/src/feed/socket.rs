//! The socket of a server: an address, or a path, of which no other server is robbed.

use crate::arguments::Endpoint;
use crate::feed::peer::Peer;
use rustix::io::ioctl_fionbio;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, connect, socket};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A connection of either kind.
pub(super) trait Connection: Read + Write + AsFd + Send {
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

/// A socket that listens.
pub(super) enum Listener {
    Unix(UnixListener, Name),
    Tcp(TcpListener),
}

/// The name of a socket in the file system.
pub(super) struct Name {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
}

impl Listener {
    pub(super) fn bind(endpoint: &Endpoint) -> io::Result<Self> {
        let listener = match endpoint {
            Endpoint::Unix(path) => {
                let _turn = turn(path);
                remove_unused(path)?;
                let listener = UnixListener::bind(path)?;
                listener.set_nonblocking(true)?;
                let (path, identity) = (path.clone(), identity(path)?);
                Self::Unix(listener, Name { path, identity })
            }
            Endpoint::Tcp(address) => {
                let listener = TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                Self::Tcp(listener)
            }
        };
        Ok(listener)
    }

    pub(super) fn name(&self) -> io::Result<String> {
        Ok(match self {
            Self::Unix(_, name) => format!("unix:{}", name.path.display()),
            Self::Tcp(listener) => listener.local_addr()?.to_string(),
        })
    }

    /// The next connection, and its peer where that may be on another machine.
    pub(super) fn accept(&self) -> io::Result<(Box<dyn Connection>, Option<Peer>)> {
        Ok(match self {
            Self::Unix(listener, _) => (Box::new(listener.accept()?.0), None),
            Self::Tcp(listener) => {
                let stream = listener.accept()?.0;
                let peer = Peer::new(&stream)?;
                (Box::new(stream), Some(peer))
            }
        })
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        // The socket is still open, so no other file has its inode.
        let _turn = turn(&self.path);
        if identity(&self.path).is_ok_and(|found| found == self.identity) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

/// Removes a socket that no process listens at. One that cannot be connected to for another reason,
/// as that of another user, stays.
fn remove_unused(path: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket()) {
        return Ok(());
    }
    let socket = socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    // A server whose queue is full does not answer.
    ioctl_fionbio(&socket, true)?;
    match connect(&socket, &SocketAddrUnix::new(path)?) {
        Err(rustix::io::Errno::CONNREFUSED) => fs::remove_file(path),
        _ => Ok(()),
    }
}

/// Longest wait for the turn: any process may hold the lock of a folder that it may read.
const TURN_MAX: Duration = Duration::from_secs(1);

/// The lock of the folder of a path, so that a server which has found a socket unused removes no
/// other one. None where the folder has no locks.
fn turn(path: &Path) -> Option<File> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = File::open(folder.unwrap_or(Path::new("."))).ok()?;
    let end = Instant::now() + TURN_MAX;
    while let Err(fs::TryLockError::WouldBlock) = folder.try_lock() {
        if Instant::now() > end {
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Some(folder)
}
