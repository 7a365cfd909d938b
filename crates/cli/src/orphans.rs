//! The duty of process 1, which a container's command is without an init: orphans become its
//! children, and stay zombies until it waits for them.

use rustix::process::{Pid, WaitId, WaitIdOptions, getpid, waitid};
use std::fs;
use std::io;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

/// Between two looks for orphans that have ended.
const INTERVAL: Duration = Duration::from_secs(1);

/// The child that [`spawn`] has started last, which its starter waits for.
static OWN: Mutex<Option<Pid>> = Mutex::new(None);

fn own() -> MutexGuard<'static, Option<Pid>> {
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts a child whose status the caller needs. There is one at a time.
pub(crate) fn spawn(command: &mut Command) -> io::Result<Child> {
    // Held until the child is noted: it may end before.
    let mut own = own();
    let child = command.spawn()?;
    *own = Some(Pid::from_child(&child));
    Ok(child)
}

/// Reaps orphans from now on, if this is process 1.
pub(crate) fn reap_as_process_1() {
    if !getpid().is_init() {
        return;
    }
    // Without a thread zombies stay.
    let _ = Builder::new().name("orphans".to_owned()).spawn(|| {
        loop {
            std::thread::sleep(INTERVAL);
            // Any child that has ended, left as it is.
            let any = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            if matches!(waitid(WaitId::All, any), Ok(Some(_))) {
                let own = own();
                for orphan in children().filter(|&child| Some(child) != *own) {
                    let _ = waitid(WaitId::Pid(orphan), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
                }
            }
        }
    });
}

/// The children of this process, by /proc/PID/stat: `PID (NAME) STATE PARENT ...`.
fn children() -> impl Iterator<Item = Pid> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|process| {
        let number = process.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(process.path().join("stat")).ok()?;
        let parent = stat.rsplit(") ").next()?.split(' ').nth(1)?;
        (parent == "1").then(|| Pid::from_raw(number)).flatten()
    })
}
