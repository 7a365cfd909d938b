//! A store that fails at every commit, and at some of the gets. The error says so. The engine then
//! ends at the right set, and so does an engine that is opened again.

use super::options;
use crate::common::faults::FaultyStore;
use crate::common::generated::{FORK, Generated, HEIGHT, copy_all};
use crate::common::{CoreEngine, Settings, connect, figures, open_with};
use blockmill_chaingen::Profile;
use blockmill_coins::{CoinStore, StoreError};
use blockmill_engine::internals::Without;
use blockmill_engine::{ConnectError, Options, RunOutcome};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tempfile::TempDir;

/// Height from which on the commits fail one by one. Coins are spent from here on.
const BASE: u32 = 100;

static CHAIN: LazyLock<Generated> = LazyLock::new(|| Generated::new(Profile::Utxo));

/// A data directory and a store at some height, from which each attempt begins.
struct Base {
    directory: TempDir,
    store: FaultyStore,
}

/// One engine's directory and store.
struct Attempt {
    directory: TempDir,
    store: Arc<FaultyStore>,
}

/// Flushes after every block and keeps no coin in memory. Nothing is read ahead, so a block fails
/// if one of its reads does.
fn every_block(stop_at_height: Option<u32>) -> Settings {
    let options = Options {
        flush_interval: Duration::ZERO,
        stop_at_height,
        ..options(2, 0)
    };
    let without = Without {
        fetch: true,
        ..Without::default()
    };
    Settings::without(options, without)
}

impl Base {
    fn at(height: u32) -> Self {
        let base = Self {
            directory: tempfile::tempdir().unwrap(),
            store: FaultyStore::default(),
        };
        let attempt = base.attempt();
        let options = every_block(Some(height));
        connect(&mut attempt.open(options), &[&CHAIN.blocks()]);
        Self {
            store: FaultyStore::copy_of(&attempt.store),
            directory: attempt.directory,
        }
    }

    fn attempt(&self) -> Attempt {
        let directory = tempfile::tempdir().unwrap();
        copy_all(self.directory.path(), directory.path());
        Attempt {
            directory,
            store: Arc::new(FaultyStore::copy_of(&self.store)),
        }
    }
}

impl Attempt {
    fn open(&self, settings: impl Into<Settings>) -> CoreEngine {
        let store: Arc<dyn CoinStore> = self.store.clone();
        open_with(self.directory.path(), store, settings).unwrap()
    }
}

fn is_the_fault(error: &ConnectError) -> bool {
    matches!(error, ConnectError::Store(StoreError::Backend(text)) if text == "a fault of the test")
}

/// How a test goes on after a fault.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Then {
    /// With an engine that is opened again.
    Reopen,
    /// With the same engine, which reaches the end.
    GoOn,
    /// With the same engine, even if it refuses, and then with another.
    GoOnAnyhow,
}

/// Runs into a fault, then goes on.
fn check(base: &Base, sources: &[PathBuf], fail: &dyn Fn(&FaultyStore), check_end: &dyn Fn(&CoreEngine), then: Then) {
    let paths: Vec<&Path> = sources.iter().map(PathBuf::as_path).collect();
    let attempt = base.attempt();
    fail(&attempt.store);
    let mut engine = attempt.open(every_block(None));
    match engine.connect(sources, &mut ()) {
        Err(error) => assert!(is_the_fault(&error), "{error}"),
        // A read that failed in a window, and not again when the window was resolved once more.
        Ok(report) => assert!(attempt.store.has_failed(), "{report:?}"),
    }
    if then == Then::GoOnAnyhow {
        for _ in 0..2 {
            // An engine may refuse to go on, but it must not write a set that is wrong.
            let _ = engine.connect(sources, &mut ());
            let _ = engine.flush();
        }
    }
    if then != Then::GoOn {
        let stored = attempt.store.tip().unwrap();
        drop(engine);
        engine = attempt.open(every_block(None));
        assert_eq!(stored.map_or(0, |tip| tip.height), engine.height());
    }
    assert_eq!(connect(&mut engine, &paths).outcome(), RunOutcome::Complete);
    check_end(&engine);
    drop(engine);
    check_end(&attempt.open(every_block(None)));
}

/// Commits and gets of a run without a fault.
fn count_calls(base: &Base, sources: &[PathBuf]) -> (u64, u64) {
    let attempt = base.attempt();
    let mut engine = attempt.open(every_block(None));
    assert_eq!(
        engine.connect(sources, &mut ()).unwrap().outcome(),
        RunOutcome::Complete
    );
    attempt.store.counts()
}

fn at_the_tip(engine: &CoreEngine) {
    CHAIN.assert_tip(&figures(engine));
}

fn at_the_branch(engine: &CoreEngine) {
    assert_eq!(figures(engine), CHAIN.branch_figures);
}

/// Lets every commit of a run fail, one after the other.
fn check_every_commit(base: &Base, sources: &[PathBuf], expected: u32, check_end: &dyn Fn(&CoreEngine)) {
    let (commits, _) = count_calls(base, sources);
    assert_eq!(commits, u64::from(expected));
    for number in 1..=commits {
        for then in [Then::Reopen, Then::GoOn] {
            check(base, sources, &|store| store.fail_at_commit(number), check_end, then);
        }
    }
}

#[test]
fn every_commit_of_the_blocks_with_spends() {
    check_every_commit(&Base::at(BASE), &[CHAIN.blocks()], HEIGHT - BASE, &at_the_tip);
}

#[test]
fn the_first_commits_of_all() {
    let base = Base::at(0);
    for number in [1, 2, 3, 50] {
        let fail = |store: &FaultyStore| store.fail_at_commit(number);
        for then in [Then::Reopen, Then::GoOn] {
            check(&base, &[CHAIN.blocks()], &fail, &at_the_tip, then);
        }
    }
}

#[test]
fn every_commit_of_a_reorganisation() {
    let sources = [CHAIN.blocks(), CHAIN.branch.clone()];
    check_every_commit(&Base::at(HEIGHT), &sources, HEIGHT + 1 - FORK, &at_the_branch);
}

#[test]
fn gets_here_and_there() {
    const CHECKED: u64 = 25;
    for (height, sources, check_end) in [
        (BASE, vec![CHAIN.blocks()], at_the_tip as fn(&CoreEngine)),
        (HEIGHT, vec![CHAIN.blocks(), CHAIN.branch.clone()], at_the_branch),
    ] {
        let base = Base::at(height);
        let (_, gets) = count_calls(&base, &sources);
        assert!(gets > 1_000, "{gets}");
        for index in 0..CHECKED {
            // The first, the last, and between them.
            let number = 1 + index * (gets - 1) / (CHECKED - 1);
            for then in [Then::Reopen, Then::GoOnAnyhow] {
                check(&base, &sources, &|store| store.fail_at_get(number), &check_end, then);
            }
        }
    }
}

/// A get fails, and so do all after it: first in a window, then when the block is judged, which names
/// the error. When the store is mended the engine goes on, or another one does.
#[test]
fn gets_that_fail_for_good() {
    const CHECKED: u64 = 12;
    let mut rolled_back = 0;
    for (height, sources, check_end) in [
        (BASE, vec![CHAIN.blocks()], at_the_tip as fn(&CoreEngine)),
        (HEIGHT, vec![CHAIN.blocks(), CHAIN.branch.clone()], at_the_branch),
    ] {
        let base = Base::at(height);
        let (_, gets) = count_calls(&base, &sources);
        for index in 0..CHECKED {
            let number = 1 + index * (gets - 1) / (CHECKED - 1);
            let attempt = base.attempt();
            attempt.store.fail_from_get(number);
            let mut engine = attempt.open(every_block(None));
            let error = engine.connect(&sources, &mut ()).unwrap_err();
            assert!(is_the_fault(&error), "{error}");
            rolled_back += engine.totals().windows_rolled_back;
            // Nothing wrong is written meanwhile.
            let _ = engine.connect(&sources, &mut ());
            let _ = engine.flush();
            attempt.store.mend_gets();
            let outcome = engine.connect(&sources, &mut ());
            let goes_on = outcome.is_ok_and(|report| report.outcome() == RunOutcome::Complete);
            if goes_on {
                check_end(&engine);
            }
            drop(engine);
            let mut engine = attempt.open(every_block(None));
            let paths: Vec<&Path> = sources.iter().map(PathBuf::as_path).collect();
            assert_eq!(connect(&mut engine, &paths).outcome(), RunOutcome::Complete);
            check_end(&engine);
        }
    }
    assert!(rolled_back > 0);
}

/// When a read ahead fails, resolve reads the coin again, and the run goes on. A run ends only when
/// the read by resolve fails.
#[test]
fn reads_ahead_that_fail() {
    let base = Base::at(BASE);
    let sources = [CHAIN.blocks()];
    let options = || every_block(None).options;
    let mut went_on = 0;
    for number in (1..2_000).step_by(67) {
        let attempt = base.attempt();
        attempt.store.fail_at_get(number);
        let mut engine = attempt.open(options());
        match engine.connect(&sources, &mut ()) {
            Ok(report) => {
                assert_eq!(report.outcome(), RunOutcome::Complete);
                went_on += u32::from(report.totals.fetch.reads.failed > 0);
            }
            Err(error) => {
                assert!(is_the_fault(&error), "{error}");
                drop(engine);
                engine = attempt.open(options());
                assert_eq!(connect(&mut engine, &[&CHAIN.blocks()]).outcome(), RunOutcome::Complete);
            }
        }
        at_the_tip(&engine);
    }
    assert!(went_on > 0);
}
