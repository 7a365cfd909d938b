//! What holds for all processes that tests start: signals reach them, and they end.

use rustix::process::{Pid, Signal, getpid, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::collections::HashMap;
use std::fs;
use std::process::Command;
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

/// The longest that a process runs which a test has started. A test that waits for its end, or for
/// its output, waits no longer.
const TIME_MAX: Duration = Duration::from_secs(3_600);

/// Between two looks at the processes.
const STEP: Duration = Duration::from_secs(5);

/// To be called before a process is started.
pub(crate) fn prepare() {
    static PREPARED: Once = Once::new();
    PREPARED.call_once(|| {
        pass_no_ignored_signals();
        // Long tests are asked for by such variables.
        let is_long = std::env::vars_os().any(|(name, _)| name.to_string_lossy().starts_with("BLOCKMILL_TEST_"));
        if !is_long {
            std::thread::spawn(kill_what_runs_too_long);
        }
    });
}

/// A process inherits which signals are ignored: `nohup` and a shell's background jobs ignore some.
/// Caught signals it does not inherit, so those that are ignored are caught here, and ignored by
/// the handler.
fn pass_no_ignored_signals() {
    for (signal, name) in [(SIGHUP, "HUP"), (SIGINT, "INT"), (SIGTERM, "TERM")] {
        let mut shell = Command::new("sh");
        let survived = shell.args(["-c", &format!("kill -{name} $$")]).status().unwrap();
        if survived.success() {
            flag::register(signal, Arc::default()).unwrap();
        }
    }
}

/// Children of this process. There are none to be found where the system has no /proc.
fn children() -> Vec<Pid> {
    let own = getpid().as_raw_nonzero().to_string();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let children = processes.filter_map(|process| {
        let number = process.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(process.path().join("stat")).ok()?;
        let parent = stat.rsplit(") ").next()?.split(' ').nth(1)?;
        (parent == own).then(|| Pid::from_raw(number)).flatten()
    });
    children.collect()
}

fn kill_what_runs_too_long() {
    let mut seen: HashMap<Pid, Instant> = HashMap::new();
    loop {
        let children = children();
        seen.retain(|child, _| children.contains(child));
        for child in children {
            if seen.entry(child).or_insert_with(Instant::now).elapsed() > TIME_MAX {
                eprintln!("process {child:?} has run for {TIME_MAX:?}: it is killed");
                let _ = kill_process(child, Signal::KILL);
            }
        }
        std::thread::sleep(STEP);
    }
}

/// Waits for something, a minute at most.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "it does not come: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
