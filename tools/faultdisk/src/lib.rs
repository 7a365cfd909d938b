//! A disk that keeps a journal of its calls and fails where a test wants it to.
//!
//! Each call goes to a real file and into the journal. From the journal a test can make the files
//! as they are after a kill or a power cut at any call. A kill keeps all writes. A power cut keeps
//! what was synced, and of the other writes none, or any part, with writes torn.

use blockmill_blockfiles::disk::{Disk, DiskFile, Open, SystemDisk};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

/// Bytes that a disk writes whole or not at all.
const SECTOR: usize = 512;

/// A call that changed something, and the number of such calls that had returned when it began.
#[derive(Debug, Clone)]
pub struct Step {
    begun_at: usize,
    call: Call,
}

#[derive(Debug, Clone)]
enum Call {
    Make { path: PathBuf, file: usize },
    Write { file: usize, offset: u64, bytes: Vec<u8> },
    SetLength { file: usize, length: u64 },
    Sync { file: usize },
    Rename { from: PathBuf, to: PathBuf },
    Remove { path: PathBuf },
    SyncDirectory { path: PathBuf },
}

/// Which call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failing {
    /// None.
    Nothing,
    /// This call alone, counted from 0.
    Once(usize, io::ErrorKind),
    /// This call and all later ones.
    From(usize, io::ErrorKind),
}

/// Called before each call, with the number of steps so far.
type Watcher = Arc<dyn Fn(usize) + Send + Sync>;

struct State {
    steps: Vec<Step>,
    /// Calls so far, reads included.
    calls: usize,
    failing: Failing,
    files: usize,
    names: BTreeMap<PathBuf, usize>,
    watcher: Option<Watcher>,
}

/// The disk. Clones are the same disk.
#[derive(Clone)]
pub struct JournalDisk(Arc<Mutex<State>>);

impl std::fmt::Debug for JournalDisk {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("JournalDisk")
    }
}

/// An open file of the disk.
struct JournalFile {
    disk: JournalDisk,
    number: usize,
    file: Box<dyn DiskFile>,
}

impl JournalDisk {
    /// A disk with an empty journal.
    pub fn new(failing: Failing) -> Self {
        Self(Arc::new(Mutex::new(State {
            steps: Vec::new(),
            calls: 0,
            failing,
            files: 0,
            names: BTreeMap::new(),
            watcher: None,
        })))
    }

    /// Has `watcher` called before each call, on the thread of the call, with the number of steps
    /// so far. It sees the files as they are between two calls.
    pub fn watch(&self, watcher: impl Fn(usize) + Send + Sync + 'static) {
        self.state().watcher = Some(Arc::new(watcher));
    }

    /// Changes which later calls fail.
    pub fn fail(&self, failing: Failing) {
        self.state().failing = failing;
    }

    /// A disk after the first `count` steps of another and a cut. Its files lie in `to`, as those
    /// of the other lay in `from`. After a kill the journal goes on: what was not synced still is
    /// not.
    pub fn after(steps: &[Step], count: usize, cut: Cut, (from, to): (&Path, &Path)) -> Self {
        let files = files_after(steps, count, cut);
        write_files(&files, from, to);
        let disk = Self::new(Failing::Nothing);
        let mut guard = disk.state();
        let state = &mut *guard;
        if cut == Cut::Kill {
            // They stay pending, so a later power cut may still lose them.
            state.steps = steps[..count].iter().map(|step| step.moved(from, to)).collect();
        } else {
            for (file, (path, bytes)) in files.into_iter().enumerate() {
                let path = moved(&path, from, to);
                let directory = path.parent().unwrap_or(to).to_owned();
                let calls = [
                    Call::Make { path, file },
                    Call::Write { file, offset: 0, bytes },
                    Call::Sync { file },
                    Call::SyncDirectory { path: directory },
                ];
                for call in calls {
                    let begun_at = state.steps.len();
                    state.steps.push(Step { begun_at, call });
                }
            }
        }
        let mut names = BTreeMap::new();
        for step in &state.steps {
            match &step.call {
                Call::Make { file, .. } => {
                    state.files = state.files.max(file + 1);
                    rename(&mut names, &step.call);
                }
                Call::Rename { .. } | Call::Remove { .. } => rename(&mut names, &step.call),
                Call::Write { .. } | Call::SetLength { .. } | Call::Sync { .. } | Call::SyncDirectory { .. } => {}
            }
        }
        state.names = names;
        drop(guard);
        disk
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Calls so far.
    pub fn calls(&self) -> usize {
        self.state().calls
    }

    /// The journal so far.
    pub fn steps(&self) -> Vec<Step> {
        self.state().steps.clone()
    }

    /// Counts a call. Fails if the call is to fail. Otherwise returns the number of earlier calls
    /// that changed something.
    fn begin(&self) -> io::Result<usize> {
        let (watcher, steps) = {
            let state = self.state();
            (state.watcher.clone(), state.steps.len())
        };
        if let Some(watcher) = watcher {
            watcher(steps);
        }
        let mut state = self.state();
        let number = state.calls;
        state.calls += 1;
        let error = |kind| Err(io::Error::new(kind, "a fault of the test"));
        match state.failing {
            Failing::Once(at, kind) if at == number => error(kind),
            Failing::From(at, kind) if number >= at => error(kind),
            _ => Ok(state.steps.len()),
        }
    }

    fn done(&self, begun_at: usize, call: Call) {
        self.state().steps.push(Step { begun_at, call });
    }
}

impl Disk for JournalDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Box<dyn DiskFile>> {
        let begun_at = self.begin()?;
        // Asked first, since opening the file makes it.
        let existed = path.exists();
        let file = SystemDisk.open(path, how)?;
        let mut state = self.state();
        let known = state.names.get(path).copied().filter(|_| existed);
        let number = known.unwrap_or(state.files);
        if known.is_none() {
            state.files += 1;
            state.names.insert(path.to_owned(), number);
            let call = Call::Make {
                path: path.to_owned(),
                file: number,
            };
            state.steps.push(Step { begun_at, call });
        }
        if how == Open::Empty {
            let call = Call::SetLength {
                file: number,
                length: 0,
            };
            state.steps.push(Step { begun_at, call });
        }
        Ok(Box::new(JournalFile {
            disk: self.clone(),
            number,
            file,
        }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let begun_at = self.begin()?;
        SystemDisk.rename(from, to)?;
        let mut state = self.state();
        rename_all(&mut state.names, from, to);
        let call = Call::Rename {
            from: from.to_owned(),
            to: to.to_owned(),
        };
        state.steps.push(Step { begun_at, call });
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let begun_at = self.begin()?;
        SystemDisk.remove(path)?;
        self.state().names.remove(path);
        self.done(begun_at, Call::Remove { path: path.to_owned() });
        Ok(())
    }

    fn create_directories(&self, path: &Path) -> io::Result<()> {
        self.begin()?;
        SystemDisk.create_directories(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        let begun_at = self.begin()?;
        self.done(begun_at, Call::SyncDirectory { path: path.to_owned() });
        Ok(())
    }
}

impl DiskFile for JournalFile {
    fn length(&self) -> io::Result<u64> {
        self.disk.begin()?;
        self.file.length()
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        let begun_at = self.disk.begin()?;
        self.file.set_length(length)?;
        let file = self.number;
        self.disk.done(begun_at, Call::SetLength { file, length });
        Ok(())
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.disk.begin()?;
        self.file.read_exact_at(bytes, offset)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let begun = self.disk.begin();
        // A write that fails leaves its first half.
        let written = if begun.is_ok() {
            bytes
        } else {
            &bytes[..bytes.len() / 2]
        };
        self.file.write_all_at(written, offset)?;
        let call = Call::Write {
            file: self.number,
            offset,
            bytes: written.to_vec(),
        };
        // Of a write nobody asks when it began.
        let begun_at = *begun.as_ref().unwrap_or(&usize::MAX);
        self.disk.done(begun_at, call);
        begun.map(|_| ())
    }

    fn sync_data(&self) -> io::Result<()> {
        let begun_at = self.disk.begin()?;
        // The journal alone says what is durable, so the real file is not synced.
        self.disk.done(begun_at, Call::Sync { file: self.number });
        Ok(())
    }
}

/// What stops, and what it leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// The process. All writes stay.
    Kill,
    /// The power. Only what was synced stays.
    Power,
    /// The power. What was synced stays, and a part of the rest that follows from a seed. Writes
    /// are torn.
    Torn(u64),
}

/// A file's content at its last sync, and the calls since.
#[derive(Debug, Default, Clone)]
struct Content {
    durable: Vec<u8>,
    pending: Vec<(usize, Call)>,
}

fn apply(content: &mut Vec<u8>, call: &Call) {
    match call {
        Call::Write { offset, bytes, .. } => {
            let (from, to) = (*offset as usize, *offset as usize + bytes.len());
            if content.len() < to {
                content.resize(to, 0);
            }
            content[from..to].copy_from_slice(bytes);
        }
        Call::SetLength { length, .. } => content.resize(*length as usize, 0),
        _ => unreachable!("it is not about a file's content"),
    }
}

fn rename(names: &mut BTreeMap<PathBuf, usize>, call: &Call) {
    match call {
        Call::Make { path, file } => {
            names.insert(path.clone(), *file);
        }
        Call::Rename { from, to } => rename_all(names, from, to),
        Call::Remove { path } => {
            names.remove(path);
        }
        _ => unreachable!("it is not about names"),
    }
}

/// Renames a file, or all files in a folder. What has the new name is gone.
fn rename_all(names: &mut BTreeMap<PathBuf, usize>, from: &Path, to: &Path) {
    // A rename replaces what has the new name.
    names.retain(|path, _| !path.starts_with(to));
    let inside: Vec<PathBuf> = names.keys().filter(|path| path.starts_with(from)).cloned().collect();
    for path in inside {
        let (Some(file), Ok(rest)) = (names.remove(&path), path.strip_prefix(from)) else {
            continue;
        };
        let renamed = if rest.as_os_str().is_empty() {
            to.to_owned()
        } else {
            to.join(rest)
        };
        names.insert(renamed, file);
    }
}

/// Draws that follow from a seed (splitmix64).
struct Rng(u64);

impl Rng {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end as u64) as usize
    }
}

/// What the calls of some steps have left, before a cut.
#[derive(Default)]
struct Written {
    contents: BTreeMap<usize, Content>,
    /// Durable names.
    names: BTreeMap<PathBuf, usize>,
    /// Changes of names that are not durable, with the numbers of their steps.
    pending_names: Vec<(usize, Call)>,
}

impl Written {
    fn take(&mut self, number: usize, step: &Step) {
        match &step.call {
            Call::Write { file, .. } | Call::SetLength { file, .. } => {
                let content = self.contents.entry(*file).or_default();
                content.pending.push((number, step.call.clone()));
            }
            Call::Sync { file } => {
                let content = self.contents.entry(*file).or_default();
                let (before, after): (Vec<_>, Vec<_>) = std::mem::take(&mut content.pending)
                    .into_iter()
                    // A sync covers the writes that had returned when it began.
                    .partition(|(number, _)| *number < step.begun_at);
                before.iter().for_each(|(_, call)| apply(&mut content.durable, call));
                content.pending = after;
            }
            Call::SyncDirectory { path } => self.sync_directory(path, step.begun_at),
            Call::Make { .. } | Call::Rename { .. } | Call::Remove { .. } => {
                self.pending_names.push((number, step.call.clone()));
            }
        }
    }

    fn sync_directory(&mut self, path: &Path, begun_at: usize) {
        let inside = |call: &Call| match call {
            Call::Make { path: created, .. } => created.parent() == Some(path),
            // Both folders of a rename are the same, or the new one counts.
            Call::Rename { to, .. } => to.parent() == Some(path),
            Call::Remove { path: removed } => removed.parent() == Some(path),
            _ => false,
        };
        // New names that are durable now.
        let mut replaced: Vec<(usize, PathBuf)> = Vec::new();
        let names = &mut self.names;
        self.pending_names.retain(|(number, call)| {
            let durable = *number < begun_at && inside(call);
            if durable {
                rename(names, call);
                if let Call::Rename { to, .. } = call {
                    replaced.push((*number, to.clone()));
                }
            }
            !durable
        });
        // What was removed from a folder is gone with the folder that was replaced.
        self.pending_names.retain(|(number, call)| {
            let Call::Remove { path } = call else { return true };
            let is_inside = |(later, folder): &(usize, PathBuf)| number < later && path.starts_with(folder);
            !replaced.iter().any(is_inside)
        });
    }

    /// The files that a cut leaves.
    fn cut(mut self, cut: Cut) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut dice = match cut {
            Cut::Torn(seed) => Rng(seed),
            // Nothing is drawn.
            Cut::Kill | Cut::Power => Rng(0),
        };
        let kept_names = match cut {
            Cut::Kill => self.pending_names.len(),
            Cut::Power => 0,
            // A journal of names keeps their order.
            Cut::Torn(_) => dice.below(self.pending_names.len() + 1),
        };
        for (_, call) in &self.pending_names[..kept_names] {
            rename(&mut self.names, call);
        }
        let mut files = BTreeMap::new();
        for (path, file) in self.names {
            let content = self.contents.remove(&file).unwrap_or_default();
            let mut bytes = content.durable;
            for (_, call) in &content.pending {
                match cut {
                    Cut::Kill => apply(&mut bytes, call),
                    Cut::Power => {}
                    // Pages reach the disk in any order, and in part.
                    Cut::Torn(_) => match dice.below(4) {
                        0 | 1 => apply(&mut bytes, call),
                        2 => apply(&mut bytes, &torn(call, &mut dice)),
                        _ => {}
                    },
                }
            }
            files.insert(path, bytes);
        }
        files
    }
}

/// The files, by their names, after the first `count` steps and a cut.
pub fn files_after(steps: &[Step], count: usize, cut: Cut) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut written = Written::default();
    for (number, step) in steps[..count].iter().enumerate() {
        written.take(number, step);
    }
    written.cut(cut)
}

/// A part of a write: some of its sectors.
fn torn(call: &Call, dice: &mut Rng) -> Call {
    let Call::Write { file, offset, bytes } = call else {
        return call.clone();
    };
    let sectors = bytes.len().div_ceil(SECTOR);
    let (from, to) = (dice.below(sectors + 1), dice.below(sectors + 1));
    let (from, to) = (from.min(to) * SECTOR, (from.max(to) * SECTOR).min(bytes.len()));
    // The end was cut to the length. The beginning may still be one sector beyond it.
    let from = from.min(to);
    Call::Write {
        file: *file,
        offset: offset + from as u64,
        bytes: bytes[from..to].to_vec(),
    }
}

/// A path inside `from`, inside `to`.
fn moved(path: &Path, from: &Path, to: &Path) -> PathBuf {
    path.strip_prefix(from)
        .map_or_else(|_| path.to_owned(), |name| to.join(name))
}

/// Writes to `to` the files that lie in `from`.
pub fn write_files(files: &BTreeMap<PathBuf, Vec<u8>>, from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for (path, bytes) in files {
        let Ok(name) = path.strip_prefix(from) else { continue };
        let target = to.join(name);
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::write(target, bytes).unwrap();
    }
}

impl Step {
    /// Whether this gives a file a name.
    pub fn renames_to(&self, name: &str) -> bool {
        matches!(&self.call, Call::Rename { to, .. } if to.ends_with(name))
    }

    /// The same step in another folder.
    fn moved(&self, from: &Path, to: &Path) -> Self {
        let mut step = self.clone();
        match &mut step.call {
            Call::Make { path, .. } | Call::Remove { path } | Call::SyncDirectory { path } => {
                *path = moved(path, from, to);
            }
            Call::Rename { from: old, to: new, .. } => {
                *old = moved(old, from, to);
                *new = moved(new, from, to);
            }
            Call::Write { .. } | Call::SetLength { .. } | Call::Sync { .. } => {}
        }
        step
    }

    /// Whether this removes a file.
    pub fn removes(&self) -> bool {
        matches!(self.call, Call::Remove { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_cut_takes_what_a_kill_left() {
        let directory = tempfile::tempdir().unwrap();
        let (one, other) = (directory.path().join("one"), directory.path().join("other"));
        let disk = JournalDisk::new(Failing::Nothing);
        disk.create_directories(&one).unwrap();
        let file = disk.open(&one.join("x"), Open::Empty).unwrap();
        file.write_all_at(b"abc", 0).unwrap();
        file.sync_data().unwrap();
        disk.sync_name(&one.join("x")).unwrap();
        file.write_all_at(b"d", 3).unwrap();
        let steps = disk.steps();
        // What the power leaves after this cut, and after one more write.
        let left = |cut| {
            let disk = JournalDisk::after(&steps, steps.len(), cut, (&one, &other));
            let file = disk.open(&other.join("x"), Open::Keep).unwrap();
            file.write_all_at(b"e", 4).unwrap();
            let steps = disk.steps();
            let content = |cut| files_after(&steps, steps.len(), cut).remove(&other.join("x")).unwrap();
            (content(Cut::Power), content(Cut::Kill))
        };
        assert_eq!(left(Cut::Kill), (b"abc".to_vec(), b"abcde".to_vec()));
        assert_eq!(left(Cut::Power), (b"abc".to_vec(), b"abc\0e".to_vec()));
    }

    #[test]
    fn a_replaced_file_is_whole_at_each_cut_and_new_at_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x");
        let disk = JournalDisk::new(Failing::Nothing);
        disk.replace(&path, b"old").unwrap();
        let before = disk.steps().len();
        disk.replace(&path, b"new, and longer").unwrap();
        let steps = disk.steps();
        let mut seen = Vec::new();
        for count in before..=steps.len() {
            for cut in [Cut::Kill, Cut::Power, Cut::Torn(count as u64)] {
                let content = files_after(&steps, count, cut).remove(&path).unwrap();
                assert!([&b"old"[..], b"new, and longer"].contains(&&content[..]), "{content:?}");
                seen.push(content);
            }
        }
        assert!(seen.starts_with(&vec![b"old".to_vec(); 3]));
        assert!(seen.ends_with(&vec![b"new, and longer".to_vec(); 3]));
    }

    #[test]
    fn a_folder_replaces_an_empty_one() {
        let directory = tempfile::tempdir().unwrap();
        let (old, new) = (directory.path().join("old"), directory.path().join("new"));
        let disk = JournalDisk::new(Failing::Nothing);
        for folder in [&old, &new] {
            disk.create_directories(folder).unwrap();
            disk.open(&folder.join("x"), Open::Empty).unwrap();
            disk.sync_name(&folder.join("x")).unwrap();
        }
        disk.remove(&new.join("x")).unwrap();
        disk.rename(&old, &new).unwrap();
        disk.sync_name(&new).unwrap();
        disk.sync_directory(&new).unwrap();
        let steps = disk.steps();
        let names = |count| files_after(&steps, count, Cut::Power).into_keys().collect::<Vec<_>>();
        // The old file was removed, which was never synced; the new one is there.
        for count in [steps.len() - 1, steps.len()] {
            assert_eq!(names(count), [new.join("x")]);
        }
    }

    #[test]
    fn a_folder_takes_its_files_along() {
        let directory = tempfile::tempdir().unwrap();
        let (old, new) = (directory.path().join("old"), directory.path().join("new"));
        let disk = JournalDisk::new(Failing::Nothing);
        disk.create_directories(&old).unwrap();
        let file = disk.open(&old.join("x.new"), Open::Empty).unwrap();
        file.write_all_at(b"abc", 0).unwrap();
        file.sync_data().unwrap();
        disk.rename(&old.join("x.new"), &old.join("x")).unwrap();
        disk.sync_name(&old.join("x")).unwrap();
        disk.rename(&old, &new).unwrap();
        let steps = disk.steps();
        let names = |count, cut| files_after(&steps, count, cut).into_keys().collect::<Vec<_>>();
        assert_eq!(names(steps.len() - 1, Cut::Power), [old.join("x")]);
        assert_eq!(names(steps.len(), Cut::Power), [old.join("x")]);
        assert_eq!(names(steps.len(), Cut::Kill), [new.join("x")]);
        disk.sync_name(&new).unwrap();
        let steps = disk.steps();
        let files = files_after(&steps, steps.len(), Cut::Power);
        assert_eq!(
            files.into_iter().collect::<Vec<_>>(),
            [(new.join("x"), b"abc".to_vec())]
        );
    }
}
