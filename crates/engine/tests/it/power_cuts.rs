//! Crashes, enumerated. A run is stopped after every call that changes a file: by a kill, by a
//! power cut that keeps only what was synced, and by power cuts that keep any part of the rest. The
//! doctor finds no damage then. In other runs every call of a file fails, once or from then on. The
//! next run must come to the same set.

use crate::common::generated::{Generated, scratch};
use crate::common::{
    self, Chain, CoreEngine, LARGE, SUBSIDY, builder, figures, figures_of, options, regtest, spend_failing, verifier,
    write_blocks,
};
use bitcoin::Block;
use blockmill_blockfiles::disk::Disk;
use blockmill_chaingen::Profile;
use blockmill_coins::stats::Hashes;
use blockmill_coins::{StatsBuilder, StoreError, UtxoStats};
use blockmill_engine::datadir::{snapshot, store_file};
use blockmill_engine::inspect::doctor::examine;
use blockmill_engine::{
    ConnectError, DataDir, LoadSnapshotError, OpenError, Options, RunOutcome, Status, UtxoSet, Verdict,
};
use blockmill_faultdisk::{Cut, Failing, JournalDisk, Step, files_after, write_files};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// Work on a data directory. Its outcome is the same however often the work was begun before.
trait Scenario: Sync {
    /// Does the work, on whatever an earlier run has left.
    fn run(&self, disk: Arc<dyn Disk>, data: &Path) -> Result<UtxoStats, ScenarioError>;

    fn expected(&self) -> UtxoStats;

    fn name(&self) -> &'static str;
}

/// Flushes after every block.
fn flushing() -> Options {
    Options {
        flush_interval: Duration::ZERO,
        ..options(1, 1 << 20)
    }
}

/// Any error of a scenario.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScenarioError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Load(#[from] LoadSnapshotError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The figures of the set, where the store can be read.
fn stored_figures(engine: &CoreEngine) -> Result<UtxoStats, ScenarioError> {
    let coins = engine.coins().coins()?;
    Ok(StatsBuilder::new(Hashes::Serialized)
        .add_all(coins)?
        .finish(&engine.tip()))
}

pub(crate) fn open_on(disk: Arc<dyn Disk>, data: &Path, options: Options) -> Result<CoreEngine, ScenarioError> {
    let verifier = verifier(options.signatures);
    // One thread for the store, whatever the engine has: its steps have one order.
    let directory = DataDir::open_on(Arc::clone(&disk), data, Some(&regtest()))?;
    let store = store_file::open_store(&directory, Default::default())?;
    drop(directory);
    let builder = builder(data).disk(disk).store(store);
    Ok(builder.options(options).open(verifier)?)
}

/// Whether a failing disk may cause this error.
fn is_of_the_disk(error: &ScenarioError) -> bool {
    use {ConnectError as Connect, LoadSnapshotError as Load, OpenError as Open, ScenarioError as Any};
    matches!(
        error,
        Any::Open(Open::File(_) | Open::Store(_) | Open::UndoLog(_) | Open::Damaged { .. } | Open::Locked { .. })
            | Any::Connect(Connect::File(_) | Connect::Store(_) | Connect::UndoLog(_) | Connect::Flush(_))
            | Any::Store(StoreError::Backend(_))
            | Any::Load(Load::File(_) | Load::Store(_) | Load::Log(_) | Load::Content { .. })
    )
}

/// Block files are connected; another branch, in a second file, is longer.
struct Connect {
    first: PathBuf,
    second: PathBuf,
    expected: UtxoStats,
    _files: TempDir,
}

impl Connect {
    fn new() -> Self {
        let files = scratch();
        let mut chain = Chain::of(102);
        // Some spending, in blocks of their own.
        for height in 1..=3 {
            let spending = blockmill_chaingen::builder::spend_any(chain.coinbase(height), SUBSIDY);
            chain.push(chain.next().transaction(spending).build());
        }
        let first = write_blocks(&files.path().join("first.dat"), &chain.blocks);
        let mut branch = chain.up_to(103);
        branch.push(branch.next().header(|header| header.time += 1).build());
        branch.mine(3);
        let second = write_blocks(&files.path().join("second.dat"), &branch.blocks[104..]);
        Self {
            first,
            second,
            expected: figures_of(&branch),
            _files: files,
        }
    }
}

impl Scenario for Connect {
    fn run(&self, disk: Arc<dyn Disk>, data: &Path) -> Result<UtxoStats, ScenarioError> {
        // The bulk in one flush, then one for each block, and for the change to the other branch.
        let bulk = Options {
            stop_at_height: Some(100),
            ..options(1, LARGE)
        };
        let mut engine = open_on(Arc::clone(&disk), data, bulk)?;
        if engine.height() < 100 {
            engine.connect(std::slice::from_ref(&self.first), &mut ())?;
        }
        drop(engine);
        let mut engine = open_on(disk, data, flushing())?;
        if engine.height() == 100 {
            engine.connect(std::slice::from_ref(&self.first), &mut ())?;
        }
        let report = engine.connect(&[self.first.clone(), self.second.clone()], &mut ())?;
        assert_eq!(report.outcome(), RunOutcome::Complete, "{report:?}");
        stored_figures(&engine)
    }

    fn expected(&self) -> UtxoStats {
        self.expected.clone()
    }

    fn name(&self) -> &'static str {
        "connect"
    }
}

/// A chain of many coins is connected by two threads with a cache that is too small for it, so that
/// flushes go on beside the work.
struct Background {
    chain: Generated,
    expected: UtxoStats,
}

impl Background {
    fn new() -> Self {
        let chain = Generated::new(Profile::Utxo);
        let data = scratch();
        let mut engine = common::open(&data.path().join("data"), options(1, LARGE));
        engine.connect(&[chain.blocks()], &mut ()).unwrap();
        let expected = figures(&engine);
        chain.assert_tip(&expected);
        Self { chain, expected }
    }
}

impl Scenario for Background {
    fn run(&self, disk: Arc<dyn Disk>, data: &Path) -> Result<UtxoStats, ScenarioError> {
        let options = Options {
            flush_interval: Duration::from_millis(2),
            ..options(2, 400_000)
        };
        let mut engine = open_on(disk, data, options)?;
        let report = engine.connect(&[self.chain.blocks()], &mut ())?;
        assert_eq!(report.outcome(), RunOutcome::Complete, "{report:?}");
        stored_figures(&engine)
    }

    fn expected(&self) -> UtxoStats {
        self.expected.clone()
    }

    fn name(&self) -> &'static str {
        "background"
    }
}

/// Blocks are submitted one by one, a bad one among them. Then a longer branch is submitted, and
/// some of the first blocks are disconnected.
struct Submit {
    blocks: Vec<Block>,
    bad: Block,
    branch: Vec<Block>,
    expected: UtxoStats,
}

impl Submit {
    fn new() -> Self {
        let mut chain = Chain::of(101);
        let bad = chain
            .next()
            .transaction(spend_failing(chain.coinbase(1), SUBSIDY))
            .build();
        chain.mine(4);
        let mut branch = chain.up_to(102);
        branch.push(branch.next().header(|header| header.time += 1).build());
        branch.mine(3);
        Self {
            expected: figures_of(&branch),
            blocks: chain.blocks,
            bad,
            branch: branch.blocks[103..].to_vec(),
        }
    }
}

impl Scenario for Submit {
    fn run(&self, disk: Arc<dyn Disk>, data: &Path) -> Result<UtxoStats, ScenarioError> {
        let mut engine = open_on(Arc::clone(&disk), data, options(1, LARGE))?;
        let submit = |engine: &mut CoreEngine, block: &Block| -> Result<Verdict, ScenarioError> {
            Ok(engine.submit(bitcoin::consensus::serialize(block), &mut ())?.verdict)
        };
        let (bulk, rest) = self.blocks[1..].split_at(98);
        for block in bulk {
            submit(&mut engine, block)?;
        }
        engine.flush()?;
        drop(engine);
        let mut engine = open_on(disk, data, flushing())?;
        for block in rest {
            submit(&mut engine, block)?;
        }
        let verdict = submit(&mut engine, &self.bad)?;
        assert!(!matches!(verdict, Verdict::Connected), "{verdict:?}");
        for block in &self.branch {
            submit(&mut engine, block)?;
        }
        engine.flush()?;
        stored_figures(&engine)
    }

    fn expected(&self) -> UtxoStats {
        self.expected.clone()
    }

    fn name(&self) -> &'static str {
        "submit"
    }
}

/// A snapshot is loaded, and the chain is connected from there.
struct Snapshot {
    blocks: PathBuf,
    snapshot: PathBuf,
    base: UtxoStats,
    expected: UtxoStats,
    _files: TempDir,
}

impl Snapshot {
    fn new() -> Self {
        let files = scratch();
        let chain = Chain::of(40);
        let blocks = write_blocks(&files.path().join("blocks.dat"), &chain.blocks);
        let data = files.path().join("data");
        let early = Options {
            stop_at_height: Some(30),
            ..options(1, LARGE)
        };
        let mut engine = common::open(&data, early);
        engine.connect(std::slice::from_ref(&blocks), &mut ()).unwrap();
        drop(engine);
        let snapshot = files.path().join("snapshot");
        let set = UtxoSet::open(&data, 1).unwrap();
        let stop = AtomicBool::new(false);
        let base = snapshot::dump(&set, &snapshot, &stop, &mut ()).unwrap();
        Self {
            blocks,
            snapshot,
            base,
            expected: figures_of(&chain),
            _files: files,
        }
    }
}

impl Scenario for Snapshot {
    fn run(&self, disk: Arc<dyn Disk>, data: &Path) -> Result<UtxoStats, ScenarioError> {
        let sources = [self.blocks.clone()];
        let engine = open_on(Arc::clone(&disk), data, options(1, LARGE))?;
        if engine.height() == 0 {
            let wanted = Some(self.base.hash_serialized_3);
            engine.load_snapshot(&sources, &self.snapshot, wanted, &mut ())?;
        } else {
            drop(engine);
        }
        let mut engine = open_on(disk, data, options(1, LARGE))?;
        assert_eq!(engine.directory().snapshot().map(|mark| mark.height), Some(30));
        engine.connect(&sources, &mut ())?;
        stored_figures(&engine)
    }

    fn expected(&self) -> UtxoStats {
        self.expected.clone()
    }

    fn name(&self) -> &'static str {
        "snapshot"
    }
}

/// Does some work for all numbers below `count`, on a few threads.
pub(crate) fn for_all(count: usize, work: impl Fn(usize) + Sync) {
    const THREADS: usize = 4;
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        break;
                    }
                    work(number);
                }
            });
        }
    });
}

/// Readers take what a cut has left for the last set, and `Status` says what it comes to.
fn check_readers(left: &Path, at: &str) {
    let set = match UtxoSet::open(left, 1) {
        Ok(set) => set,
        Err(OpenError::NotThere { .. }) => return,
        Err(error) => panic!("{at}: {error}"),
    };
    let coins = set.coins().unwrap().count() as u64;
    let tip = set.tip();
    drop(set);
    let status = Status::of(left).unwrap_or_else(|error| panic!("{at}: {error}"));
    assert_eq!((status.tip, status.coins), (tip, coins), "{at}");
}

fn run_on_system(scenario: &dyn Scenario, data: &Path) -> Result<UtxoStats, ScenarioError> {
    scenario.run(Arc::new(blockmill_blockfiles::disk::SystemDisk), data)
}

/// Cuts a run after every n-th of its steps, and goes on from what is left.
fn cut_everywhere(scenario: &dyn Scenario, every: usize, seeds: u64) {
    let folder = scratch();
    let data = folder.path().join("data");
    let disk = JournalDisk::new(Failing::Nothing);
    let figures = scenario.run(Arc::new(disk.clone()), &data).unwrap();
    assert_eq!(figures, scenario.expected());
    let steps: Vec<Step> = disk.steps();
    let cuts: Vec<Cut> = [Cut::Kill, Cut::Power]
        .into_iter()
        .chain((0..seeds).map(Cut::Torn))
        .collect();
    let points = (steps.len() + 1).div_ceil(every);
    for_all(points * cuts.len(), |number| {
        let count = number / cuts.len() * every;
        let cut = match cuts[number % cuts.len()] {
            // Another seed for each point.
            Cut::Torn(seed) => Cut::Torn(seed * 1_000_003 + count as u64),
            cut => cut,
        };
        let left = folder.path().join(format!("left-{number}"));
        write_files(&files_after(&steps, count, cut), &data, &left);
        match examine(&left, &AtomicBool::new(false), &mut ()) {
            Ok(findings) => assert_ne!(findings.is_sound(), Some(false), "{count} {cut:?}: {findings:?}"),
            Err(OpenError::NotThere { .. }) => {}
            Err(error) => panic!("{}, step {count}, {cut:?}: {error}", scenario.name()),
        }
        check_readers(&left, &format!("{}, step {count}, {cut:?}", scenario.name()));
        match run_on_system(scenario, &left) {
            Ok(figures) => assert_eq!(figures, scenario.expected(), "{} {count} {cut:?}", scenario.name()),
            Err(error) => panic!("{}, step {count}, {cut:?}: {error}", scenario.name()),
        }
        std::fs::remove_dir_all(&left).unwrap();
    });
    eprintln!(
        "{}: {} steps, {points} points, {} cuts each: every one passed",
        scenario.name(),
        steps.len(),
        cuts.len()
    );
}

/// Cuts a run after every `first`-th of its steps, the run that goes on from there after every
/// `second`-th of its own, and goes on from what is left.
fn cut_twice(scenario: &dyn Scenario, first: usize, second: usize) {
    let folder = scratch();
    let data = folder.path().join("data");
    let disk = JournalDisk::new(Failing::Nothing);
    scenario.run(Arc::new(disk.clone()), &data).unwrap();
    let steps: Vec<Step> = disk.steps();
    let points = (steps.len() + 1).div_ceil(first);
    let second_cuts = AtomicUsize::new(0);
    for_all(points * 2, |number| {
        let count = number / 2 * first;
        let one = [Cut::Kill, Cut::Torn(count as u64)][number % 2];
        let left = |name| folder.path().join(format!("left-{number}-{name}"));
        let (middle, end) = (left("middle"), left("end"));
        let disk = JournalDisk::after(&steps, count, one, (&data, &middle));
        let begin = disk.steps().len();
        match scenario.run(Arc::new(disk.clone()), &middle) {
            Ok(figures) => assert_eq!(figures, scenario.expected(), "{} {count} {one:?}", scenario.name()),
            Err(error) => panic!("{}, step {count}, {one:?}: {error}", scenario.name()),
        }
        let steps: Vec<Step> = disk.steps();
        for count_again in (begin + number % second..=steps.len()).step_by(second) {
            for other in [Cut::Power, Cut::Torn(count_again as u64)] {
                let case = format!(
                    "{}: {one:?} after step {count}, {other:?} after step {count_again} of {begin} to {}",
                    scenario.name(),
                    steps.len()
                );
                write_files(&files_after(&steps, count_again, other), &middle, &end);
                match examine(&end, &AtomicBool::new(false), &mut ()) {
                    Ok(findings) => assert_ne!(findings.is_sound(), Some(false), "{case}: {findings:?}"),
                    Err(OpenError::NotThere { .. }) => {}
                    Err(error) => panic!("{case}: {error}"),
                }
                check_readers(&end, &case);
                match run_on_system(scenario, &end) {
                    Ok(figures) => assert_eq!(figures, scenario.expected(), "{case}"),
                    Err(error) => panic!("{case}: {error}"),
                }
                std::fs::remove_dir_all(&end).unwrap();
                second_cuts.fetch_add(1, Ordering::Relaxed);
            }
        }
        std::fs::remove_dir_all(&middle).unwrap();
    });
    eprintln!(
        "{}: {} second cuts: every one passed",
        scenario.name(),
        second_cuts.into_inner()
    );
}

/// Lets one call in `every` fail, and goes on from what is left.
fn fail_everywhere(scenario: &dyn Scenario, every: usize) {
    let folder = scratch();
    let whole = JournalDisk::new(Failing::Nothing);
    scenario
        .run(Arc::new(whole.clone()), &folder.path().join("whole"))
        .unwrap();
    let points = whole.calls().div_ceil(every);
    let reported = AtomicUsize::new(0);
    for_all(points * 3, |number| {
        let call = number / 3 * every;
        let failing = match number % 3 {
            0 => Failing::Once(call, ErrorKind::Other),
            1 => Failing::From(call, ErrorKind::Other),
            _ => Failing::From(call, ErrorKind::StorageFull),
        };
        let left = folder.path().join(format!("left-{number}"));
        match scenario.run(Arc::new(JournalDisk::new(failing)), &left) {
            // The engine may do without this call: the work has succeeded.
            Ok(figures) => assert_eq!(figures, scenario.expected(), "{failing:?}"),
            Err(error) => {
                reported.fetch_add(1, Ordering::Relaxed);
                assert!(is_of_the_disk(&error), "{failing:?}: {error}");
            }
        }
        match run_on_system(scenario, &left) {
            Ok(figures) => assert_eq!(figures, scenario.expected(), "{} {failing:?}", scenario.name()),
            Err(error) => panic!("{}, {failing:?}: {error}", scenario.name()),
        }
        std::fs::remove_dir_all(&left).unwrap();
    });
    let reported = reported.into_inner();
    assert!(reported * 2 > points, "{reported} of {points}");
    eprintln!(
        "{}: {} calls, {points} points, 3 faults each ({reported} reported): every one passed",
        scenario.name(),
        whole.calls()
    );
}

#[test]
fn connecting_survives_cuts() {
    cut_everywhere(&Connect::new(), 1, 3);
}

#[test]
fn connecting_survives_two_cuts() {
    cut_twice(&Connect::new(), 11, 17);
}

#[test]
fn connecting_survives_faults() {
    fail_everywhere(&Connect::new(), 1);
}

#[test]
fn flushes_beside_the_work_survive_cuts() {
    cut_everywhere(&Background::new(), 7, 2);
}

#[test]
fn flushes_beside_the_work_survive_faults() {
    fail_everywhere(&Background::new(), 13);
}

#[test]
fn submitting_survives_cuts() {
    cut_everywhere(&Submit::new(), 1, 3);
}

#[test]
fn submitting_survives_two_cuts() {
    cut_twice(&Submit::new(), 13, 19);
}

#[test]
fn submitting_survives_faults() {
    fail_everywhere(&Submit::new(), 1);
}

#[test]
fn loading_a_snapshot_survives_cuts() {
    cut_everywhere(&Snapshot::new(), 1, 3);
}

#[test]
fn loading_a_snapshot_survives_two_cuts() {
    cut_twice(&Snapshot::new(), 7, 11);
}

#[test]
fn loading_a_snapshot_survives_faults() {
    fail_everywhere(&Snapshot::new(), 1);
}

#[test]
#[ignore = "minutes: flushes beside the work at every point"]
fn flushes_beside_the_work_survive_everything() {
    cut_everywhere(&Background::new(), 1, 3);
    fail_everywhere(&Background::new(), 1);
}
