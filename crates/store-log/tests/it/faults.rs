//! Every fault point: kills, power cuts, torn and reordered writes, calls that fail, a full disk.
//! The store is then as before the commit or as after it, and goes on from there.

use crate::common::{Rng, is_whole, small, tip};
use crate::model::{Known, changes};
use blockmill_block::{Coin, OutPoint};
use blockmill_blockfiles::disk::{Disk, SystemDisk};
use blockmill_coins::{CoinStore, StoreError};
use blockmill_faultdisk::{Cut, Failing, JournalDisk, files_after, write_files};
use blockmill_store_log::{LogOptions, LogStore};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

type Set = BTreeMap<OutPoint, Coin>;

const KEYS: u64 = 700;

/// Commits, and the sets that they lead to. Their segments are small, and garbage and checkpoints
/// come early, so that all of it is among the steps.
struct Scenario {
    commits: Vec<Known>,
    /// The set before each commit, and after the last.
    sets: Vec<Set>,
}

fn options() -> LogOptions {
    LogOptions {
        checkpoint_changes: 400,
        garbage_bytes_min: 0,
        ..small(1)
    }
}

impl Scenario {
    fn new(seed: u64) -> Self {
        let (mut set, mut rng) = (Set::new(), Rng(seed << 40));
        let mut sets = vec![set.clone()];
        let commits = (0..22).map(|number| {
            let count = if number == 0 { KEYS } else { 60 + rng.below(120) };
            let known = changes(&mut set, &mut rng, KEYS, count);
            sets.push(set.clone());
            known
        });
        Self {
            commits: commits.collect(),
            sets,
        }
    }

    /// Commits everything that is not in the store yet. The store is closed and opened again in the
    /// middle. `done` is called after each commit.
    fn run(&self, disk: &Arc<dyn Disk>, path: &Path, mut done: impl FnMut(usize)) -> Result<(), StoreError> {
        let middle = self.commits.len() / 2;
        for until in [middle, self.commits.len()] {
            let store = LogStore::open_on(Arc::clone(disk), path, "regtest", options())?;
            let first = self.check(&store)?;
            for number in first..until {
                store.commit(&self.commits[number], &tip(number as u32 + 1))?;
                done(number + 1);
            }
        }
        Ok(())
    }

    /// The number of commits that the store has seen. It has exactly what they lead to.
    fn check(&self, store: &LogStore) -> Result<usize, StoreError> {
        let number = store.tip()?.map_or(0, |tip| tip.height as usize);
        let found: Set = store.coins()?.collect::<Result<_, _>>()?;
        assert!(found == self.sets[number], "after commit {number}");
        let outpoints: Vec<OutPoint> = self.sets[number].keys().copied().collect();
        let mut coins = Vec::new();
        store.get_many(&outpoints, &mut coins)?;
        assert!(
            coins
                .iter()
                .map(Option::as_ref)
                .eq(self.sets[number].values().map(Some))
        );
        Ok(number)
    }

    /// Opens what is left and finishes the work. `least` commits were reported as done.
    fn go_on(&self, path: &Path, least: usize) {
        let system: Arc<dyn Disk> = Arc::new(SystemDisk);
        let reader = LogStore::open_to_read(path, None, options());
        if blockmill_store_log::is_there(path).unwrap() {
            let found = self.check(&reader.unwrap()).unwrap();
            assert!(found == least || found == least + 1, "{found} instead of {least}");
        } else {
            assert_eq!(least, 0);
        }
        // An opening leaves nothing of files that were never finished.
        drop(LogStore::open(path, "regtest", options()).unwrap());
        let unfinished = std::fs::read_dir(path).unwrap().filter(|entry| {
            let path = entry.as_ref().unwrap().path();
            path.extension().is_some_and(|extension| extension == "new")
        });
        assert_eq!(unfinished.count(), 0);
        self.run(&system, path, |_| {}).unwrap();
        let store = LogStore::open(path, "regtest", options()).unwrap();
        assert_eq!(self.check(&store).unwrap(), self.commits.len());
    }
}

/// A folder for files that need no disk.
fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        tempfile::tempdir_in(memory).unwrap()
    } else {
        tempfile::tempdir().unwrap()
    }
}

#[test]
fn cut_at_every_step() {
    let folder = scratch();
    let scenario = Scenario::new(1);
    let journal = JournalDisk::new(Failing::Nothing);
    let disk: Arc<dyn Disk> = Arc::new(journal.clone());
    let whole = folder.path().join("whole");
    let mut marks = Vec::new();
    scenario
        .run(&disk, &whole, |_| marks.push(journal.steps().len()))
        .unwrap();
    let steps = journal.steps();
    let checkpoints = steps.iter().filter(|step| step.renames_to("checkpoint")).count();
    let removed = steps.iter().filter(|step| step.removes()).count();
    assert!(checkpoints >= 3 && removed >= 3, "{checkpoints}, {removed}");
    for count in 0..=steps.len() {
        let least = marks.iter().filter(|&&mark| mark <= count).count();
        let torn = (0..4).map(|seed| Cut::Torn(seed * 1_000_003 + count as u64));
        for cut in [Cut::Kill, Cut::Power].into_iter().chain(torn) {
            let left = folder.path().join("left");
            write_files(&files_after(&steps, count, cut), &whole, &left);
            if left.exists() {
                let found = std::panic::catch_unwind(|| scenario.go_on(&left, least));
                assert!(found.is_ok(), "step {count} of {}, {cut:?}", steps.len());
                std::fs::remove_dir_all(&left).unwrap();
            }
        }
    }
    eprintln!("{} steps, 6 cuts each", steps.len());
}

/// The opening after a cut, and a commit after it, are cut themselves. What the opening found
/// stays.
#[test]
fn cut_twice() {
    let every = if is_whole("every 29th step is cut", "cuts every step") {
        1
    } else {
        29
    };
    let folder = scratch();
    let scenario = Scenario::new(3);
    let journal = JournalDisk::new(Failing::Nothing);
    let disk: Arc<dyn Disk> = Arc::new(journal.clone());
    let (whole, middle, left) = (
        folder.path().join("whole"),
        folder.path().join("middle"),
        folder.path().join("left"),
    );
    let mut marks = Vec::new();
    scenario
        .run(&disk, &whole, |_| marks.push(journal.steps().len()))
        .unwrap();
    let (steps, mut cuts) = (journal.steps(), 0);
    for count in (0..=steps.len()).step_by(every) {
        let least = marks.iter().filter(|&&mark| mark <= count).count();
        for first in [Cut::Kill, Cut::Power, Cut::Torn(count as u64)] {
            let journal = JournalDisk::after(&steps, count, first, (&whole, &middle));
            let begin = journal.steps().len();
            let disk: Arc<dyn Disk> = Arc::new(journal.clone());
            // Steps, and commits that are in the set from there on.
            let mut marks = vec![(0, least)];
            let store = LogStore::open_on(disk, &middle, "regtest", options()).unwrap();
            let found = scenario.check(&store).unwrap();
            marks.push((journal.steps().len(), found));
            if found < scenario.commits.len() {
                store.commit(&scenario.commits[found], &tip(found as u32 + 1)).unwrap();
                marks.push((journal.steps().len(), found + 1));
            }
            drop(store);
            let steps = journal.steps();
            for count in begin..=steps.len() {
                let done = marks.iter().filter(|&&(mark, _)| mark <= count);
                let least = done.map(|&(_, commits)| commits).max().unwrap();
                for second in [Cut::Kill, Cut::Power, Cut::Torn(count as u64)] {
                    write_files(&files_after(&steps, count, second), &middle, &left);
                    if left.exists() {
                        let found = std::panic::catch_unwind(|| scenario.go_on(&left, least));
                        assert!(
                            found.is_ok(),
                            "{first:?}, then step {count} of {begin} to {}, {second:?}",
                            steps.len()
                        );
                        std::fs::remove_dir_all(&left).unwrap();
                    }
                    cuts += 1;
                }
            }
            std::fs::remove_dir_all(&middle).unwrap();
        }
    }
    eprintln!("{cuts} second cuts");
}

#[test]
fn every_call_fails() {
    let folder = scratch();
    let scenario = Scenario::new(2);
    let whole = JournalDisk::new(Failing::Nothing);
    let disk: Arc<dyn Disk> = Arc::new(whole.clone());
    scenario.run(&disk, &folder.path().join("whole"), |_| {}).unwrap();
    let mut reported = 0;
    for call in 0..whole.calls() {
        for failing in [
            Failing::Once(call, ErrorKind::Other),
            Failing::From(call, ErrorKind::Other),
            Failing::From(call, ErrorKind::StorageFull),
        ] {
            let left = folder.path().join("left");
            let disk: Arc<dyn Disk> = Arc::new(JournalDisk::new(failing));
            let mut least = 0;
            let outcome = scenario.run(&disk, &left, |number| least = number);
            reported += usize::from(outcome.is_err());
            // What a failed call of the disk causes is never called damage.
            assert!(
                matches!(outcome, Ok(()) | Err(StoreError::Backend(_))),
                "{failing:?} {outcome:?}"
            );
            let found = std::panic::catch_unwind(|| scenario.go_on(&left, least));
            assert!(found.is_ok(), "{failing:?} of {} calls", whole.calls());
            let _ = std::fs::remove_dir_all(&left);
        }
    }
    assert!(reported > whole.calls(), "{reported}");
    eprintln!("{} calls, 3 faults each, {reported} reported", whole.calls());
}
