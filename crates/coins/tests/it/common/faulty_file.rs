//! A file in memory that counts calls, and that waits and fails as a test demands.

use blockmill_blockfiles::disk::DiskFile;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

/// The text of the file's error.
pub(crate) const FAULT: &str = "a fault of the test";

/// The file; clones are the same file.
#[derive(Clone, Default)]
pub(crate) struct FaultyFile(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
pub(crate) struct State {
    /// Everything that was written.
    pub(crate) written: Vec<u8>,
    /// The content at the start of the last successful sync.
    pub(crate) synced: Vec<u8>,
    pub(crate) writes: u32,
    pub(crate) syncs: u32,
    /// Writes at this moment, and their maximum.
    pub(crate) writes_now: u32,
    pub(crate) writes_now_max: u32,
    /// The number of the write and of the sync, from 1, that fail.
    pub(crate) failing_write: Option<u32>,
    pub(crate) failing_sync: Option<u32>,
    /// Whether failing calls panic.
    pub(crate) panics: bool,
    /// The number of the write and of the sync, from 1, that wait until the test resets the field.
    pub(crate) held_write: Option<u32>,
    pub(crate) held_sync: Option<u32>,
    pub(crate) write_time: Duration,
    pub(crate) sync_time: Duration,
}

impl FaultyFile {
    /// The state.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap()
    }

    /// Changes the state, and wakes the calls that wait.
    pub(crate) fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.0.changed.notify_all();
    }

    /// Waits until a condition holds.
    pub(crate) fn wait_until(&self, holds: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let unwanted = |state: &mut State| !holds(state);
        self.0.changed.wait_while(self.state(), unwanted).unwrap()
    }
}

impl DiskFile for FaultyFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.state().written.len() as u64)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        self.state().written.resize(length as usize, 0);
        Ok(())
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let state = self.state();
        let range = offset as usize..offset as usize + bytes.len();
        let found = state.written.get(range).ok_or(io::ErrorKind::UnexpectedEof)?;
        bytes.copy_from_slice(found);
        Ok(())
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if bytes.is_empty() {
            // As with a real file, an empty write does nothing.
            return Ok(());
        }
        let mut state = self.state();
        state.writes += 1;
        state.writes_now += 1;
        state.writes_now_max = state.writes_now_max.max(state.writes_now);
        let (number, time) = (state.writes, state.write_time);
        drop(state);
        self.0.changed.notify_all();
        thread::sleep(time);
        let mut state = self.wait_until(|state| state.held_write != Some(number));
        state.writes_now -= 1;
        if state.failing_write == Some(number) {
            return fail(state);
        }
        let end = offset as usize + bytes.len();
        if state.written.len() < end {
            state.written.resize(end, 0);
        }
        state.written[offset as usize..end].copy_from_slice(bytes);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.state();
        state.syncs += 1;
        let (number, time) = (state.syncs, state.sync_time);
        let written = state.written.clone();
        drop(state);
        self.0.changed.notify_all();
        thread::sleep(time);
        let mut state = self.wait_until(|state| state.held_sync != Some(number));
        if state.failing_sync == Some(number) {
            return fail(state);
        }
        state.synced = written;
        Ok(())
    }
}

fn fail(state: MutexGuard<'_, State>) -> io::Result<()> {
    let panics = state.panics;
    drop(state);
    assert!(!panics, "{FAULT}");
    Err(io::Error::other(FAULT))
}
