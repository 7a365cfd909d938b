//! Input that is read once, from a file, a pipe or standard input, until somebody asks to stop.
//!
//! A read of a pipe waits for its writer, and so does the open of a FIFO. Here the open does not
//! wait, and each read waits only until the flag is set. Elsewhere than on Linux the open of a FIFO
//! waits: without a writer its first read would say that this is the end.

use crate::FileError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use thiserror::Error;

/// The path of standard input.
const STANDARD_INPUT: &str = "/dev/stdin";

/// How long a read waits before it looks at the flag again: 20 ms.
const PATIENCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};

/// The error of a read that was asked to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("stopped before the end")]
struct StopAsked;

/// Input that is read once.
///
/// ```
/// # use blockmill_blockfiles::Input;
/// # use std::io::Read;
/// # use std::sync::Arc;
/// # use std::sync::atomic::{AtomicBool, Ordering};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("headers");
/// # std::fs::write(&path, "ab")?;
/// let stop = Arc::new(AtomicBool::new(false));
/// let mut input = Input::open(&path, Arc::clone(&stop))?;
/// assert_eq!(input.read(&mut [0])?, 1);
/// stop.store(true, Ordering::Relaxed);
/// let error = input.read(&mut [0]).unwrap_err();
/// assert!(Input::is_stop(&error));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Input {
    path: PathBuf,
    file: File,
    /// A read of a regular file does not wait.
    is_regular: bool,
    length: u64,
    stop: Arc<AtomicBool>,
}

impl Input {
    /// Opens a file or a pipe. On Linux it waits for nobody. Setting `stop` ends all reads.
    ///
    /// # Errors
    /// [`FileError::Io`].
    pub fn open(path: &Path, stop: Arc<AtomicBool>) -> Result<Self, FileError> {
        let failed = FileError::io(path);
        let file = if path == Path::new(STANDARD_INPUT) {
            // Opened by its name it would be read from the start, and a socket could not be opened.
            io::stdin().as_fd().try_clone_to_owned().map(File::from)
        } else {
            open_file(path)
        };
        let file = file.map_err(failed)?;
        let metadata = file.metadata().map_err(FileError::io(path))?;
        Ok(Self {
            path: path.to_owned(),
            file,
            is_regular: metadata.is_file(),
            length: metadata.len(),
            stop,
        })
    }

    /// The path that was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Length in bytes; 0 where it is not known.
    pub fn length(&self) -> u64 {
        if self.is_regular { self.length } else { 0 }
    }

    /// Whether a read failed since it was asked to stop.
    pub fn is_stop(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|error| error.is::<StopAsked>())
    }

    /// Waits until there are bytes, or the end is there.
    fn wait(&self) -> io::Result<()> {
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Err(io::Error::other(StopAsked));
            }
            if self.is_regular {
                return Ok(());
            }
            match poll(&mut [PollFd::new(&self.file, PollFlags::IN)], Some(&PATIENCE)) {
                // A signal.
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(target_os = "linux")]
fn open_file(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    File::options().read(true).custom_flags(nonblocking).open(path)
}

#[cfg(not(target_os = "linux"))]
fn open_file(path: &Path) -> io::Result<File> {
    File::open(path)
}

impl Read for &Input {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            self.wait()?;
            match (&self.file).read(bytes) {
                // Another process has taken the bytes.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
    }
}

impl Read for Input {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        (&*self).read(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::make_fifo;
    use std::io::Write;
    use std::thread::{scope, sleep};
    use std::time::Duration;

    fn fifo(directory: &Path) -> PathBuf {
        let path = directory.join("fifo");
        make_fifo(&path);
        path
    }

    fn open(path: &Path) -> Input {
        Input::open(path, Arc::default()).unwrap()
    }

    #[test]
    fn a_pipe_is_read_to_its_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = fifo(directory.path());
        let wanted: Vec<u8> = (0..300_000_u32).map(|number| number as u8).collect();
        scope(|scope| {
            scope.spawn(|| {
                // The reader waits for its writer, and for what it writes.
                sleep(Duration::from_millis(60));
                let mut writer = File::options().write(true).open(&path).unwrap();
                for part in wanted.chunks(70_000) {
                    sleep(Duration::from_millis(30));
                    writer.write_all(part).unwrap();
                }
            });
            let mut input = open(&path);
            assert_eq!(input.length(), 0);
            let mut read = Vec::new();
            input.read_to_end(&mut read).unwrap();
            assert!(read == wanted, "{} bytes", read.len());
        });
    }

    /// Whether a writer is there or not, and has written or not.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_read_that_waits_is_stopped() {
        use std::time::Instant;
        let directory = tempfile::tempdir().unwrap();
        let path = fifo(directory.path());
        let input = open(&path);
        let mut writer = None;
        for round in 0..3 {
            if round == 1 {
                writer = Some(File::options().write(true).open(&path).unwrap());
            }
            if let Some(writer) = writer.as_mut().filter(|_| round == 2) {
                writer.write_all(b"ab").unwrap();
            }
            input.stop.store(false, Ordering::Relaxed);
            scope(|scope| {
                let reader = scope.spawn(|| {
                    let error = (&input).read_to_end(&mut Vec::new()).unwrap_err();
                    assert!(Input::is_stop(&error), "{error}");
                    Instant::now()
                });
                sleep(Duration::from_millis(50));
                assert!(!reader.is_finished());
                let asked = Instant::now();
                input.stop.store(true, Ordering::Relaxed);
                let waited = reader.join().unwrap() - asked;
                assert!(waited < Duration::from_millis(500), "{waited:?}");
            });
        }
    }

    #[test]
    fn a_file_has_a_length() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "abc").unwrap();
        let mut input = open(&path);
        let mut text = String::new();
        assert_eq!((input.length(), input.read_to_string(&mut text).unwrap()), (3, 3));
        assert_eq!(text, "abc");
        let missing = Input::open(&directory.path().join("missing"), Arc::default());
        assert!(matches!(missing, Err(FileError::Io { .. })));
    }
}
