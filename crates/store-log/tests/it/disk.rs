//! A disk that tests can turn against a store: a bit is flipped when it is read, or nothing is
//! written any more.

use blockmill_blockfiles::disk::{Disk, DiskFile, Open, SystemDisk};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Bytes of a page of the log.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// The file system of the operating system, until a test says otherwise. Clones are the same disk.
#[derive(Debug, Clone, Default)]
pub(crate) struct HostileDisk(Arc<State>);

#[derive(Debug, Default)]
struct State {
    /// Whether nothing is written any more.
    is_dead: AtomicBool,
    /// Whether reads have to look at `damage`.
    is_watching: AtomicBool,
    damage: Mutex<Damage>,
}

#[derive(Debug, Default)]
struct Damage {
    /// A file, and the number of the bit in it that is flipped when it is read.
    flipped: Option<(PathBuf, u64)>,
    /// Files and offsets of pages that were read, where a test wants to know them.
    reads: Option<Vec<(PathBuf, u64)>>,
}

struct HostileFile {
    disk: HostileDisk,
    path: PathBuf,
    file: Box<dyn DiskFile>,
}

impl HostileDisk {
    /// As when the process is killed: from now on nothing on the disk changes.
    pub(crate) fn kill(&self) {
        self.0.is_dead.store(true, Ordering::SeqCst);
    }

    /// Flips a bit of a file for those who read it, instead of the one before.
    pub(crate) fn flip(&self, path: &Path, bit: u64) {
        let mut damage = self.damage();
        match &mut damage.flipped {
            Some((old, old_bit)) if old == path => *old_bit = bit,
            flipped => *flipped = Some((path.to_owned(), bit)),
        }
        self.0.is_watching.store(true, Ordering::SeqCst);
    }

    /// No bit is flipped any more.
    pub(crate) fn heal(&self) {
        self.damage().flipped = None;
        self.0.is_watching.store(false, Ordering::SeqCst);
    }

    /// Files and offsets of the pages that some work reads.
    pub(crate) fn reads_of(&self, work: impl FnOnce()) -> Vec<(PathBuf, u64)> {
        self.damage().reads = Some(Vec::new());
        self.0.is_watching.store(true, Ordering::SeqCst);
        work();
        self.0.is_watching.store(false, Ordering::SeqCst);
        self.damage().reads.take().unwrap_or_default()
    }

    fn damage(&self) -> MutexGuard<'_, Damage> {
        self.0.damage.lock().unwrap()
    }

    fn living(&self) -> io::Result<&SystemDisk> {
        if self.0.is_dead.load(Ordering::SeqCst) {
            return Err(io::Error::other("the process was killed"));
        }
        Ok(&SystemDisk)
    }
}

impl Disk for HostileDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(HostileFile {
            disk: self.clone(),
            path: path.to_owned(),
            file: self.living()?.open(path, how)?,
        }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.living()?.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.living()?.remove(path)
    }

    fn create_directories(&self, path: &Path) -> io::Result<()> {
        self.living()?.create_directories(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        self.living()?.sync_directory(path)
    }
}

impl DiskFile for HostileFile {
    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.disk.living()?;
        self.file.set_length(length)
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(bytes, offset)?;
        if !self.disk.0.is_watching.load(Ordering::SeqCst) {
            return Ok(());
        }
        let mut damage = self.disk.damage();
        if let Some((path, bit)) = &damage.flipped
            && *path == self.path
            && let Some(byte) = (bit / 8)
                .checked_sub(offset)
                .and_then(|index| bytes.get_mut(index as usize))
        {
            *byte ^= 1 << (bit % 8);
        }
        if let Some(reads) = &mut damage.reads {
            let offsets = (offset..offset + bytes.len() as u64).step_by(PAGE_BYTES as usize);
            reads.extend(offsets.map(|offset| (self.path.clone(), offset)));
        }
        Ok(())
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.disk.living()?;
        self.file.write_all_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.living()?;
        self.file.sync_data()
    }
}
