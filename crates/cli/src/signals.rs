//! Stopping on SIGINT, SIGTERM and SIGHUP. A thread answers the first one at once, whatever the
//! command is in the midst of. A second one ends the process. SIGXFSZ does nothing.

use crate::doing::{say_stopped, say_stopping};
use crate::output::wait_for_blocked_write;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::{flag, low_level};
use std::ffi::c_int;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Once};
use std::thread::Builder;
use std::time::Duration;

/// How long a write to standard output may wait for its reader after a signal.
const PATIENCE: Duration = Duration::from_secs(2);

/// The signal that came last.
static SIGNAL: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

/// Done once the first signal is answered.
static ANSWERED: Once = Once::new();

/// Has a write beyond the file-size limit (`ulimit -f`, `LimitFSIZE=`) fail with EFBIG, where the
/// default disposition of SIGXFSZ ends the process without a message. A handler, not `SIG_IGN`: exec
/// gives what `--exec` starts the default back.
pub(crate) fn survive_file_size_limit() {
    // Without a handler such a write ends the process, which loses no more than a kill does.
    let _ = flag::register(SIGXFSZ, Arc::default());
}

/// Returns a flag that the first signal sets. A second one ends the process at once. A signal that
/// the parent has set to be ignored stays so: `nohup` does that, and a shell for what runs in the
/// background.
pub(crate) fn stop_flag() -> io::Result<Arc<AtomicBool>> {
    on_first(|_| answer())
}

/// As [`stop_flag`], for commands whose work is what they write to standard output, and that lose
/// nothing else: the first signal ends the process, too, where that waits for a reader that does
/// not read.
pub(crate) fn stop_flag_of_output() -> io::Result<Arc<AtomicBool>> {
    on_first(|signal| {
        answer();
        wait_for_blocked_write(PATIENCE);
        low_level::exit(status_of(signal));
    })
}

/// Answers the signal that has set the flag, if one has, unless that is done. A command that ends
/// before the thread comes to it calls this, so that the answer is there, and comes first.
pub(crate) fn answer() {
    let signal = SIGNAL.load(Ordering::Relaxed) as c_int;
    if signal != 0 {
        ANSWERED.call_once(|| say_stopping(name(signal)));
    }
}

/// Has the first signal end the process, with an answer. It is for commands that have nothing to
/// lose.
pub(crate) fn end_at_once() -> io::Result<()> {
    on_first(|signal| {
        ANSWERED.call_once(|| {
            say_stopped(name(signal));
            // Inside: a command that is done meanwhile waits here, and does not end with 0.
            low_level::exit(status_of(signal));
        });
    })?;
    Ok(())
}

/// Has a thread answer the first signal. Returns a flag that this signal sets.
fn on_first(answer: impl FnOnce(c_int) + Send + 'static) -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let (mut woken, wake) = UnixStream::pair()?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        if is_ignored(signal) {
            continue;
        }
        // It runs before the flag is set below, so the first signal finds it clear.
        flag::register_conditional_shutdown(signal, status_of(signal), Arc::clone(&stop))?;
        flag::register_usize(signal, Arc::clone(&SIGNAL), signal as usize)?;
        flag::register(signal, Arc::clone(&stop))?;
        // A handler may do next to nothing, so it wakes a thread.
        low_level::pipe::register(signal, wake.try_clone()?)?;
    }
    Builder::new().name("signals".to_owned()).spawn(move || {
        // It ends without a byte where all signals are ignored.
        if woken.read_exact(&mut [0]).is_ok() {
            answer(SIGNAL.load(Ordering::Relaxed) as c_int);
        }
    })?;
    Ok(stop)
}

/// The exit status of a command that was stopped before its result was there.
pub(crate) fn status() -> u8 {
    status_of(SIGNAL.load(Ordering::Relaxed) as c_int) as u8
}

/// The status by which shells say that a signal ended a command.
fn status_of(signal: c_int) -> c_int {
    128 + signal
}

fn name(signal: c_int) -> &'static str {
    low_level::signal_name(signal).unwrap_or("a signal")
}

/// Whether a signal is ignored.
#[expect(unsafe_code, reason = "what a signal does has no safe wrapper")]
fn is_ignored(signal: c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action the call changes nothing. It writes the action of now to
    // `action`, which outlives the call. All zeros are an action, too, if it fails.
    let action = unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    action.sa_sigaction == libc::SIG_IGN
}
