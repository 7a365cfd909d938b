//! `follow` and `feed --listen` as services: what a service manager, a container, another server
//! and a network that goes away do with them.

use super::node::Node;
use super::{PATIENCE, Place, Running, stop};
use crate::common::children::wait_until;
use crate::common::growth::sample;
use crate::common::{Scratch, blockmill, generate_command, run};
use rustix::process::geteuid;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A service manager, and what it is sent.
struct Manager(UnixDatagram);

impl Manager {
    fn new(socket: &Path) -> Self {
        let manager = UnixDatagram::bind(socket).unwrap();
        manager.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(manager)
    }

    /// The next message.
    fn next(&self) -> String {
        let mut bytes = [0; 4096];
        let length = self.0.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    }

    /// Reads until a message begins like this.
    fn wait_for(&self, wanted: &str) {
        let end = Instant::now() + PATIENCE;
        while !self.next().starts_with(wanted) {
            assert!(Instant::now() < end, "{wanted}");
        }
    }

    /// Fails unless the command says that it is alive, several times.
    fn hears_of_life(&self) {
        (0..4).for_each(|_| self.wait_for("WATCHDOG=1"));
    }
}

#[test]
fn the_watchdog_is_fed_while_the_command_waits() {
    let scratch = Scratch::new();
    let place = Place::new(&scratch);
    let mut node = Node::new(&place.blocks, 4);
    let managers = ["first", "second"].map(|name| {
        let socket = scratch.join(name);
        (Manager::new(&socket), socket)
    });
    let [(first, first_socket), (second, second_socket)] = &managers;
    let follower = Running::of(place.follow_command().env("NOTIFY_SOCKET", first_socket));
    first.wait_for("READY=1");
    // The block files cannot be read.
    let away = scratch.join("away");
    std::fs::rename(&place.blocks, &away).unwrap();
    first.wait_for("STATUS=retrying: ");
    first.hears_of_life();
    std::fs::rename(&away, &place.blocks).unwrap();
    // Another process has the lock.
    let mut waiting = place.follow_command();
    let waiting = Running::of(waiting.arg("--wait").env("NOTIFY_SOCKET", second_socket));
    second.wait_for("STATUS=waiting");
    second.hears_of_life();
    node.mine();
    assert_eq!(stop(follower), Some(0));
    first.wait_for("STOPPING=1");
    second.wait_for("READY=1");
    second.hears_of_life();
    assert_eq!(stop(waiting), Some(0));
}

/// Zombies among the children of a process.
fn zombies(parent: u32) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let stats = processes.filter_map(|process| std::fs::read_to_string(process.path().join("stat")).ok());
    let wanted = format!("Z {parent} ");
    stats
        .filter(|stat| stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(&wanted)))
        .count()
}

/// The command of a container has no init above it.
#[test]
fn process_1_leaves_no_zombies() {
    if !geteuid().is_root() {
        eprintln!("skipped: namespaces need root");
        return;
    }
    let scratch = Scratch::new();
    let place = Place::new(&scratch);
    let mut node = Node::new(&place.blocks, 4);
    let log = scratch.join("handled");
    let exec = format!("(sleep 0.05 &); (exit 3 &); cat >> {}", log.display());
    let inner = place.follow_command();
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--mount-proc", "--kill-child"]);
    command
        .arg(inner.get_program())
        .args(inner.get_args())
        .args(["--exec", &exec]);
    let outer = Running::of(command.stdout(Stdio::null()).stderr(Stdio::null()));
    place.wait_for_data();
    wait_until("the cursor", || place.data.join("exec.cursor").exists());
    let parent = || -> Option<u32> {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let mut numbers = processes.filter_map(|process| process.file_name().to_str()?.parse::<u32>().ok());
        numbers.find(|number| {
            let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
            let parent = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1));
            parent == Some(&outer.0.id().to_string())
        })
    };
    let process_1 = parent().expect("process 1");
    (0..20).for_each(|_| node.mine());
    // Its own children's statuses are not taken away: the command goes from block to block.
    wait_until("20 events", || {
        let handled = std::fs::read_to_string(&log).unwrap_or_default();
        handled.lines().count() == 20
    });
    wait_until("that zombies are gone", || zombies(process_1) == 0);
    drop(outer);
}

fn listen(place: &Place, user: Option<u32>) -> Running {
    let mut command = blockmill();
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    command.arg("feed").arg("--data").arg(&place.data);
    command.arg("--listen").arg(format!("unix:{}", place.socket.display()));
    Running::of(command.stdout(Stdio::null()).stderr(Stdio::piped()))
}

/// Whether a server answers at a socket.
fn answers(socket: &Path) -> bool {
    let Ok(mut stream) = UnixStream::connect(socket) else {
        return false;
    };
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"blockmill-feed 1 0\n").is_ok() && matches!(stream.read(&mut [0; 10]), Ok(1..))
}

/// The status of a server that does not begin, and its message.
fn refused(mut server: Running) -> (Option<i32>, String) {
    let mut said = String::new();
    let end = Instant::now() + PATIENCE;
    while server.0.try_wait().unwrap().is_none() {
        assert!(Instant::now() < end, "it is not refused");
        std::thread::sleep(Duration::from_millis(10));
    }
    server.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    (server.0.wait().unwrap().code(), said)
}

#[test]
fn a_server_removes_its_own_socket_alone() {
    let scratch = Scratch::new();
    let place = Place::new(&scratch);
    Node::new(&place.blocks, 4);
    let follower = place.follow();
    place.wait_for_data();
    let first = listen(&place, None);
    wait_until("the first server", || answers(&place.socket));
    // A live one is refused.
    let (status, said) = refused(listen(&place, None));
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("in use") && answers(&place.socket), "{said}");
    // Somebody removes the name, and another server takes it.
    std::fs::remove_file(&place.socket).unwrap();
    let second = listen(&place, None);
    wait_until("the second server", || answers(&place.socket));
    assert_eq!(stop(first), Some(0));
    assert!(answers(&place.socket));
    assert_eq!(stop(second), Some(0));
    assert!(!place.socket.exists());
    // What a kill has left is removed.
    let killed = listen(&place, None);
    wait_until("the third server", || answers(&place.socket));
    drop(killed);
    assert!(place.socket.exists());
    let next = listen(&place, None);
    wait_until("the next server", || answers(&place.socket));
    assert_eq!(stop(next), Some(0));
    // A file, and a socket of another kind that is in use, are not.
    std::fs::write(&place.socket, "a file").unwrap();
    let (status, said) = refused(listen(&place, None));
    assert_eq!(status, Some(2), "{said}");
    std::fs::remove_file(&place.socket).unwrap();
    let other = UnixDatagram::bind(&place.socket).unwrap();
    let (status, said) = refused(listen(&place, None));
    assert_eq!(status, Some(2), "{said}");
    assert!(other.local_addr().is_ok() && place.socket.symlink_metadata().is_ok());
    std::fs::remove_file(&place.socket).unwrap();
    // A server whose queue is full, and that accepts none.
    let full = UnixListener::bind(&place.socket).unwrap();
    rustix::net::listen(&full, 0).unwrap();
    let _waiting = UnixStream::connect(&place.socket).unwrap();
    let (status, said) = refused(listen(&place, None));
    assert_eq!(status, Some(2), "{said}");
    assert_eq!(stop(follower), Some(0));
}

#[test]
fn servers_that_begin_together_leave_one() {
    let scratch = Scratch::new();
    let place = Place::new(&scratch);
    Node::new(&place.blocks, 4);
    let follower = place.follow();
    place.wait_for_data();
    for _ in 0..5 {
        // Nobody listens at it.
        drop(UnixListener::bind(&place.socket).unwrap());
        let mut servers: Vec<_> = (0..4).map(|_| listen(&place, None)).collect();
        wait_until("one server", || {
            servers.retain_mut(|server| server.0.try_wait().unwrap().is_none());
            servers.len() == 1
        });
        wait_until("its answer", || answers(&place.socket));
        std::thread::sleep(Duration::from_millis(100));
        assert!(answers(&place.socket));
        servers.into_iter().for_each(|server| assert_eq!(stop(server), Some(0)));
        assert!(!place.socket.exists());
    }
    assert_eq!(stop(follower), Some(0));
}

/// A user with no rights of its own.
const NOBODY: u32 = 65_534;

#[test]
fn the_live_socket_of_another_user_is_refused() {
    if !geteuid().is_root() {
        eprintln!("skipped: another user's processes need root");
        return;
    }
    let scratch = Scratch::new();
    let place = Place::new(&scratch);
    Node::new(&place.blocks, 4);
    let follower = place.follow();
    place.wait_for_data();
    assert_eq!(stop(follower), Some(0));
    let folder = place.data.parent().unwrap();
    for path in [folder, &place.data, &place.data.join("coins.log")] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    let first = listen(&place, None);
    wait_until("the first server", || answers(&place.socket));
    let (status, said) = refused(listen(&place, Some(NOBODY)));
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("in use"), "{said}");
    assert!(answers(&place.socket));
    assert_eq!(place.socket.symlink_metadata().unwrap().uid(), 0);
    assert_eq!(stop(first), Some(0));
}

/// A network namespace, which goes with its owner.
struct Namespace(String);

impl Namespace {
    fn new(name: &str) -> Option<Self> {
        let name = format!("bm-{name}-{}", std::process::id());
        ip(&["netns", "add", &name]).then_some(Self(name))
    }

    /// A command in it.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0]).arg(program);
        command
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        ip(&["netns", "del", &self.0]);
    }
}

fn ip(arguments: &[&str]) -> bool {
    let status = Command::new("ip").args(arguments).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// A namespace with a server, and two others that reach it over links of their own.
fn network() -> Option<[Namespace; 3]> {
    let all = [Namespace::new("s")?, Namespace::new("a")?, Namespace::new("b")?];
    for (number, other) in all[1..].iter().enumerate() {
        let (here, there) = (format!("s{number}"), format!("c{number}"));
        let (own, peer) = (format!("10.77.{number}.1/24"), format!("10.77.{number}.2/24"));
        let is_made = ip(&[
            "-n", &all[0].0, "link", "add", &here, "type", "veth", "peer", "name", &there, "netns", &other.0,
        ]);
        let is_up = is_made
            && ip(&["-n", &all[0].0, "addr", "add", &own, "dev", &here])
            && ip(&["-n", &other.0, "addr", "add", &peer, "dev", &there])
            && ip(&["-n", &all[0].0, "link", "set", &here, "up"])
            && ip(&["-n", &other.0, "link", "set", &there, "up"]);
        if !is_up {
            return None;
        }
    }
    Some(all)
}

/// A consumer that reads nothing before it is sent a line.
fn pausing(namespace: &Namespace, address: &str, begin: &str) -> Child {
    let script = format!(
        "exec 3<>/dev/tcp/{address}/8335; printf 'blockmill-feed 1 0\\n' >&3; {begin}; read -r _; exec cat <&3"
    );
    let mut command = namespace.command("bash");
    command
        .args(["-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command.stderr(Stdio::null()).spawn().unwrap()
}

/// A consumer whose machine is gone frees its slot within two minutes, whether data waits for it or
/// not. One that pauses with a full window keeps it for as long as it likes.
#[test]
fn a_consumer_that_is_gone_frees_its_slot_and_one_that_pauses_keeps_it() {
    /// The limit of docs/feed.md.
    const GONE_WITHIN: Duration = Duration::from_secs(120);
    /// Longer than `TCP_USER_TIMEOUT` and than the silence of a peer that is gone.
    const PAUSE: Duration = Duration::from_secs(100);
    let Some([server_side, alive_side, gone_side]) = network() else {
        eprintln!("skipped: network namespaces need root and ip of iproute2");
        return;
    };
    let scratch = Scratch::new();
    let place = Place::new(&scratch);
    run(generate_command(&place.blocks, "mixed", 300).args(["--inputs", "40000"])).ends_with(0);
    let follower = place.follow();
    place.wait_for_data();
    let mut events = run(blockmill().args(["feed", "--from", "0", "--data"]).arg(&place.data)).ends_with(0);
    while !events.stdout.contains("\"height\":300") {
        std::thread::sleep(Duration::from_millis(100));
        events = run(blockmill().args(["feed", "--from", "0", "--data"]).arg(&place.data)).ends_with(0);
    }
    let mut command = server_side.command(blockmill().get_program());
    command.arg("feed").arg("--data").arg(&place.data);
    command.args(["--log", "json", "--listen", "0.0.0.0:8335"]);
    let mut server = Running::of(command.stdout(Stdio::null()).stderr(Stdio::piped()));
    let mut lines = BufReader::new(server.0.stderr.take().unwrap()).lines();
    let listening: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(listening["event"], "listening");
    std::thread::spawn(move || lines.for_each(drop));
    let threads = || sample(server.0.id(), 0).unwrap().threads;
    // Its own threads begin after that line.
    let mut before = 0;
    wait_until("its threads", || {
        std::thread::sleep(Duration::from_secs(1));
        std::mem::replace(&mut before, threads()) == before
    });
    let started = Instant::now();
    let mut alive = pausing(&alive_side, "10.77.0.1", ":");
    let gone = [
        // Data waits for it; it has all and is idle.
        pausing(&gone_side, "10.77.1.1", ":"),
        pausing(&gone_side, "10.77.1.1", "timeout 10 cat <&3 >/dev/null"),
    ];
    wait_until("three consumers", || threads() == before + 3);
    std::thread::sleep(Duration::from_secs(12));
    assert_eq!(threads(), before + 3);
    assert!(ip(&["-n", &gone_side.0, "link", "set", "c1", "down"]));
    let link_down = Instant::now();
    while threads() > before + 1 {
        assert!(
            link_down.elapsed() < GONE_WITHIN,
            "consumers that are gone keep their slots"
        );
        std::thread::sleep(Duration::from_millis(200));
    }
    eprintln!("gone after {:?}", link_down.elapsed());
    std::thread::sleep(PAUSE.saturating_sub(started.elapsed()));
    assert_eq!(threads(), before + 1, "a consumer that pauses has lost its slot");
    // It has missed nothing.
    alive.stdin.take().unwrap().write_all(b"\n").unwrap();
    let mut lines = BufReader::new(alive.stdout.take().unwrap()).lines();
    let (mut blocks, mut tip) = (0, None);
    while tip.is_none() {
        let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        blocks += u64::from(line["event"] == "connected");
        tip = (line["event"] == "tip").then(|| line["height"].as_u64());
    }
    assert_eq!((blocks, tip.flatten()), (300, Some(300)));
    for mut consumer in gone.into_iter().chain([alive]) {
        consumer.kill().unwrap();
        consumer.wait().unwrap();
    }
    assert_eq!(stop(server), Some(0));
    assert_eq!(stop(follower), Some(0));
}
