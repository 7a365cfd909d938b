//! `follow --exec`: a command that hangs, a note that is damaged, and a wait that is cut off.

use super::node::Node;
use super::{Place, Running, stop};
use crate::common::children::wait_until;
use crate::common::{Scratch, blockmill, check_seconds, doctor, run};
use rustix::process::{Pid, Signal, kill_process};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

#[track_caller]
fn wait_for_file(path: &Path) {
    wait_until(&path.display().to_string(), || path.exists());
}

fn cursor_file(place: &Place) -> PathBuf {
    place.data.join("exec.cursor")
}

fn cursor(place: &Place) -> String {
    std::fs::read_to_string(cursor_file(place))
        .unwrap()
        .trim_end()
        .to_owned()
}

/// How a `follow` ended whose command had an event.
struct Stopped {
    status: Option<i32>,
    said: String,
    /// Until nothing ran that it had started.
    seconds: f64,
    before: String,
    after: String,
    tip: String,
}

/// Sends a signal while the command has an event. The command is told of a file to make first.
fn stopped(signal: Signal, command: &dyn Fn(&str) -> String) -> Stopped {
    let scratch = Scratch::new();
    let place = Place::new(&scratch);
    let mut node = Node::new(&place.blocks, 6);
    let begun = scratch.join("begun");
    let mut follow = place.follow_command();
    follow.arg("--exec").arg(command(&begun.display().to_string()));
    let mut follower = Running::of(follow.stderr(Stdio::piped()));
    wait_for_file(&cursor_file(&place));
    let before = cursor(&place);
    node.mine();
    wait_for_file(&begun);
    let start = Instant::now();
    kill_process(Pid::from_child(&follower.0), signal).unwrap();
    // Everything that it has started has this end of the pipe, too.
    let mut said = String::new();
    follower.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    Stopped {
        status: follower.0.wait().unwrap().code(),
        said,
        seconds: start.elapsed().as_secs_f64(),
        before,
        after: cursor(&place),
        tip: node.hash(),
    }
}

/// Whoever stops it sends one signal, to this process alone, and waits.
#[test]
fn a_signal_ends_a_command_that_hangs() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        // The shell has a child of its own. It makes the file itself: where a child that made it
        // ended as SIGINT came, a shell goes on.
        let end = stopped(signal, &|begun| format!(": > {begun}; sleep 60; : > {begun}"));
        assert_eq!(end.status, Some(0), "{}", end.said);
        assert!(end.said.contains("--exec: waiting for the command"), "{}", end.said);
        // The block comes again.
        assert_eq!(end.after, end.before);
        assert!(!end.said.contains("has not ended"), "{}", end.said);
        check_seconds(end.seconds, 40.0);
    }
}

#[test]
fn a_command_that_passes_over_a_signal_is_killed() {
    let end = stopped(Signal::TERM, &|begun| {
        format!("trap '' TERM; touch {begun}; sleep 60; exit 0")
    });
    assert_eq!(end.status, Some(0), "{}", end.said);
    assert!(end.said.contains("has not ended"), "{}", end.said);
    assert_eq!(end.after, end.before);
    check_seconds(end.seconds, 20.0);
}

#[test]
fn a_command_may_handle_its_event_after_a_signal() {
    let end = stopped(Signal::TERM, &|begun| {
        format!("trap 'exit 0' TERM; touch {begun}; while true; do sleep 0.1; done")
    });
    assert_eq!(end.status, Some(0), "{}", end.said);
    assert_eq!(end.after, end.tip);
    check_seconds(end.seconds, 40.0);
}

/// SIGXFSZ does nothing to `follow`, and ends what it starts, whose parent has not asked for more.
#[test]
fn a_command_has_the_default_disposition_of_sigxfsz() {
    let scratch = Scratch::new();
    let place = Place::new(&scratch);
    let mut node = Node::new(&place.blocks, 6);
    let status = scratch.join("status");
    let mut follow = place.follow_command();
    let command = format!(
        "grep ^Sig /proc/self/status > {0}.new; mv {0}.new {0}",
        status.display()
    );
    let follower = Running::of(follow.arg("--exec").arg(command));
    wait_for_file(&cursor_file(&place));
    let of_follower = format!("/proc/{}/status", follower.0.id());
    let is_in = |text: &str, set: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(set)).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap() >> (Signal::XFSZ.as_raw() - 1) & 1 == 1
    };
    assert!(is_in(&std::fs::read_to_string(of_follower).unwrap(), "SigCgt:"));
    node.mine();
    wait_for_file(&status);
    let of_command = std::fs::read_to_string(&status).unwrap();
    assert!(
        !is_in(&of_command, "SigCgt:") && !is_in(&of_command, "SigIgn:"),
        "{of_command}"
    );
    assert_eq!(stop(follower), Some(0));
}

/// A note that cannot be gone on from is said to be so, with the way out.
#[test]
fn a_damaged_note_of_the_block_that_was_handled_is_said() {
    let scratch = Scratch::new();
    let place = Place::new(&scratch);
    Node::new(&place.blocks, 6);
    let follow = || {
        let mut follow = place.follow_command();
        follow.args(["--exec", "cat > /dev/null"]);
        follow
    };
    let first = Running::of(&mut follow());
    let file = cursor_file(&place);
    wait_for_file(&file);
    assert_eq!(stop(first), Some(0));
    let part = || {
        let found = doctor(&place.data);
        let json = found.json();
        let parts = json["parts"].as_array().unwrap();
        let part = parts.iter().find(|part| part["part"] == "exec.cursor").unwrap().clone();
        (
            found.status,
            part["health"].as_str().unwrap().to_owned(),
            part["detail"].to_string(),
        )
    };
    let (status, health, detail) = part();
    assert_eq!((status, &*health), (0, "sound"), "{detail}");
    let unknown = "11".repeat(32);
    for (bytes, why) in [
        (&b""[..], "expected a height or the hash of a block"),
        (b"x", "expected a height or the hash of a block"),
        (&[0xff; 40], "expected a height or the hash of a block"),
        (b"99999\n", "is above the tip"),
        (unknown.as_bytes(), "was never connected"),
    ] {
        std::fs::write(&file, bytes).unwrap();
        let words = [
            "exec.cursor",
            why,
            "write the hash of the block that the command has handled last into the file",
        ];
        let ended = run(follow().stderr(Stdio::piped())).ends_with(3).says(&words);
        assert!(!ended.stderr.contains("--from"), "{ended:#?}");
        let (status, health, detail) = part();
        assert_eq!((status, &*health), (3, "damaged"), "{detail}");
        assert!(
            detail.contains(why) && detail.contains("handled last into the file"),
            "{detail}"
        );
    }
    std::fs::remove_file(&file).unwrap();
    let again = Running::of(&mut follow());
    wait_for_file(&file);
    assert_eq!(stop(again), Some(0));
    assert_eq!(doctor(&place.data).status, 0);
}

/// A process that a signal ends while another one has the directory has lost nothing.
#[test]
fn a_wait_for_another_writer_is_cut_off_by_a_signal() {
    let scratch = Scratch::new();
    let place = Place::new(&scratch);
    Node::new(&place.blocks, 4);
    let follower = place.follow();
    place.wait_for_data();
    let tip = place.data.join("headers.dat").metadata().unwrap().modified().unwrap();
    for (name, signal) in [
        ("connect", Signal::TERM),
        ("connect", Signal::INT),
        ("follow", Signal::TERM),
    ] {
        let mut command = blockmill();
        command
            .args([name, "--wait", "--log", "json", "--blocks"])
            .arg(&place.blocks);
        command.arg("--data").arg(&place.data);
        let mut waiting = Running::of(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
        let mut stderr = waiting.0.stderr.take().unwrap();
        let (mut said, mut byte) = (Vec::new(), [0]);
        while !String::from_utf8_lossy(&said).contains("waiting for it to end") {
            assert_eq!(stderr.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&said));
            said.push(byte[0]);
        }
        kill_process(Pid::from_child(&waiting.0), signal).unwrap();
        stderr.read_to_end(&mut said).unwrap();
        let said = String::from_utf8(said).unwrap();
        assert_eq!(waiting.0.wait().unwrap().code(), Some(0), "{name}: {said}");
        assert!(
            said.contains("nothing was done") && !said.contains("failed"),
            "{name}: {said}"
        );
    }
    assert_eq!(
        place.data.join("headers.dat").metadata().unwrap().modified().unwrap(),
        tip
    );
    assert_eq!(stop(follower), Some(0));
}
