//! SIGKILL in each stage, with shards in use and flushes beside them. The run that goes on comes to
//! the tip, the set and the undo data of a run that nobody has disturbed.
//!
//! The test starts its own program again, for itself alone. A variable tells the child when to kill
//! itself: at the end of a certain piece of work of a stage. No other test is in this program: a
//! child has the locks of its parent until it executes.

#[expect(dead_code, reason = "other tests use the rest")]
#[path = "../it/common/mod.rs"]
mod common;

use crate::common::generated::{Generated, HEIGHT, copy_all, scratch};
use crate::common::{Settings, figures, open, options};
use blockmill_block::BlockUndo;
use blockmill_chaingen::Profile;
use blockmill_coins::UtxoStats;
use blockmill_engine::inspect::doctor::examine;
use blockmill_engine::internals::{StageHook, WindowSizes};
use blockmill_engine::report::stages::Stage;
use blockmill_engine::{ConnectReport, Options, RunOutcome, UtxoSet};
use rustix::process::{Signal, getpid, kill_process};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Set for a child: a stage, and the number of the piece of work at whose end the child dies.
const KILL_AT: &str = "BLOCKMILL_TEST_KILL_AT";

/// Set for a child: the data directory, and the blocks.
const DATA: &str = "BLOCKMILL_TEST_KILL_DATA";
const BLOCKS: &str = "BLOCKMILL_TEST_KILL_BLOCKS";

/// Height at which all runs begin. Nothing is spent before it.
const BASE: u32 = 100;

/// Children for each stage.
const KILLS: usize = 4;

/// Pieces of work done, for each stage.
type Counts = [AtomicUsize; Stage::ALL.len()];

/// Connects all blocks, in small windows. A flush begins whenever no block is in flight, and the
/// cache is too small for all coins. `at_work` is called at the end of each piece of work.
fn connect(data: &Path, blocks: &Path, at_work: impl Fn(Stage) + Send + Sync + 'static) -> (ConnectReport, UtxoStats) {
    let mut settings = Settings::from(Options {
        flush_interval: Duration::from_nanos(1),
        trace: true,
        ..options(2, 300_000)
    });
    settings.internals.windows = Some(WindowSizes { blocks: 2, jobs: 8 });
    settings.internals.without.shards = false;
    settings.internals.stage_hook = Some(StageHook(Arc::new(at_work)));
    let mut engine = open(data, settings);
    let report = engine.connect(&[blocks.to_owned()], &mut ()).unwrap();
    (report, figures(&engine))
}

/// Connects until it is time to die.
fn run_as_child(kill_at: &str) {
    let variable = |name| PathBuf::from(std::env::var_os(name).expect("set for a child"));
    let (stage, number) = kill_at.split_once(' ').expect("a stage and a number");
    let (stage, number) = (stage.to_owned(), number.parse::<usize>().expect("a number"));
    let done = AtomicUsize::new(0);
    let at_work = move |at: Stage| {
        if at.name() == stage && done.fetch_add(1, Ordering::Relaxed) + 1 == number {
            kill_process(getpid(), Signal::KILL).expect("a process may kill itself");
        }
    };
    let _ = connect(&variable(DATA), &variable(BLOCKS), at_work);
}

/// Runs a child. Returns whether it was killed; if not, it has come to the end.
fn is_killed(data: &Path, blocks: &Path, stage: Stage, number: usize) -> bool {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed_in_each_stage_it_goes_on"])
        .env(KILL_AT, format!("{} {number}", stage.name()))
        .envs([(DATA, data), (BLOCKS, blocks)])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let is_killed = output.status.signal() == Some(Signal::KILL.as_raw());
    assert!(is_killed || output.status.success(), "{stage:?} {number}: {output:?}");
    is_killed
}

/// The coins that each block spends, as the data directory has them.
fn undo_data(data: &Path, blocks: &Path) -> Vec<BlockUndo> {
    let mut chain = UtxoSet::open(data, 1).unwrap().blocks().unwrap();
    let stop = AtomicBool::new(false);
    assert!(chain.add_files(&[blocks.to_owned()], &stop, &mut ()).unwrap());
    let undo = chain.iter(0..=HEIGHT).map(|block| block.unwrap().undo);
    undo.collect()
}

#[test]
fn killed_in_each_stage_it_goes_on() {
    if let Ok(kill_at) = std::env::var(KILL_AT) {
        return run_as_child(&kill_at);
    }
    let chain = Generated::new(Profile::Mixed);
    let blocks = chain.blocks();
    let directory = scratch();
    let base = directory.path().join("base");
    let to_base = Options {
        stop_at_height: Some(BASE),
        ..options(2, 1 << 20)
    };
    let base_report = common::connect(&mut open(&base, to_base), &[&blocks]);
    assert_eq!(base_report.height, BASE);

    let data = directory.path().join("undisturbed");
    copy_all(&base, &data);
    let counts = Arc::new(Counts::default());
    let (report, found) = {
        let counts = Arc::clone(&counts);
        connect(&data, &blocks, move |stage| {
            counts[stage as usize].fetch_add(1, Ordering::Relaxed);
        })
    };
    chain.assert_tip(&found);
    assert_eq!(report.height, HEIGHT, "{report:?}");
    assert_eq!(report.totals.windows_rolled_back, 0);
    let expected = (found, undo_data(&data, &blocks));

    let mut resumed = 0;
    for (stage, _) in Stage::ALL {
        let count = counts[stage as usize].load(Ordering::Relaxed);
        let mut killed = 0;
        for kill in 0..KILLS {
            // Mostly early ones: how many there are depends on which threads are faster.
            let number = 1 + count * kill * kill / (KILLS * KILLS);
            let case = format!("{stage:?}, piece {number} of about {count}");
            let data = directory.path().join("killed");
            copy_all(&base, &data);
            killed += usize::from(is_killed(&data, &blocks, stage, number));
            let findings = examine(&data, &AtomicBool::new(false), &mut ()).unwrap();
            assert_ne!(findings.is_sound(), Some(false), "{case}: {findings:?}");
            let (report, found) = connect(&data, &blocks, |_| ());
            assert_eq!(
                (report.height, report.outcome()),
                (HEIGHT, RunOutcome::Complete),
                "{case}"
            );
            assert_eq!((found, undo_data(&data, &blocks)), expected, "{case}");
            resumed += usize::from((BASE + 1..HEIGHT).contains(&report.start_height));
            std::fs::remove_dir_all(&data).unwrap();
        }
        assert!(killed >= KILLS / 2, "{stage:?}: {killed} kills, {count} pieces of work");
    }
    // Usually about half of them.
    assert!(resumed > 0, "no run went on from a flush of a child that was killed");
}
