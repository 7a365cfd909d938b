//! What a mirror refuses, and how it ends.

use super::super::{PATIENCE, Place, Running, stop};
use super::server::Server;
use super::{begin, check_table, kill, mirror_command, mirrored_tip};
use crate::common::{Scratch, blockmill, check_seconds, run};
use crate::follow::node::Node;
use rustix::process::{Pid, Signal, kill_process};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// A directory that is connected, and its node.
pub(super) fn connected(scratch: &Scratch) -> (Place, Node) {
    let place = Place::new(scratch);
    let node = Node::new(&place.blocks, 23);
    connect(&place);
    (place, node)
}

pub(super) fn connect(place: &Place) {
    let mut command = blockmill();
    command
        .args(["connect", "--network", "regtest", "--blocks"])
        .arg(&place.blocks);
    run(command.arg("--data").arg(&place.data)).ends_with(0);
}

pub(super) fn wait_for_tip(server: &Server, node: &Node) {
    let (mut client, end) = (server.client(), Instant::now() + PATIENCE);
    while mirrored_tip(&mut client) != Some(node.hash()) {
        assert!(Instant::now() < end, "the mirror does not come to the tip");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_schema_has_one_mirror() {
    let Some(server) = Server::start() else { return };
    let scratch = Scratch::new();
    let (place, node) = connected(&scratch);
    let first = begin(&place, &server);
    wait_for_tip(&server, &node);
    let second = run(&mut mirror_command(&place.data, &server)).ends_with(4);
    second.says(&[
        "another mirror has the schema blockmill",
        &format!("process {}", first.0.id()),
    ]);
    // Another schema is another mirror's. The role may make none.
    let mut other = mirror_command(&place.data, &server);
    run(other.args(["--schema", "Other \"one\""]))
        .ends_with(2)
        .says(&["permission denied"]);
    server
        .superuser()
        .batch_execute("CREATE SCHEMA \"Other \"\"one\"\"\" AUTHORIZATION mirror")
        .unwrap();
    let made = run(&mut other).ends_with(0);
    assert!(made.stdout.contains(&node.hash()), "{made:?}");
    assert_eq!(stop(first), Some(0));
}

/// What the tables say is changed by hand, which no mirror goes on from.
#[test]
fn what_a_mirror_cannot_go_on_from_is_said() {
    let Some(server) = Server::start() else { return };
    let scratch = Scratch::new();
    let (place, mut node) = connected(&scratch);
    let mirror = || run(&mut mirror_command(&place.data, &server));
    mirror().ends_with(0);
    let mut client = server.client();
    let mut check = |statement: &str, back: &str, words: &[&str], status: i32| {
        client.batch_execute(statement).unwrap();
        mirror().ends_with(status).says(words);
        client.batch_execute(back).unwrap();
    };
    let anew = "DROP SCHEMA \"blockmill\" CASCADE";
    let change = |what: &str| {
        format!("CREATE TABLE blockmill.kept AS TABLE blockmill.mirror; UPDATE blockmill.mirror SET {what}")
    };
    let back =
        "DELETE FROM blockmill.mirror; INSERT INTO blockmill.mirror TABLE blockmill.kept; DROP TABLE blockmill.kept";
    for (what, words, status) in [
        ("network = 'bitcoin'", "not regtest", 2),
        ("block_hash = sha256('other')", "was never connected", 2),
        ("schema_version = 999", "another version", 2),
        ("step = 'nothing'", "does not say how far", 3),
        ("block_hash = 'short'", "does not say how far", 3),
    ] {
        check(&change(what), back, &[words, anew], status);
    }
    let mut other = mirror_command(&place.data, &server);
    run(other.args(["--tables", "coins"]))
        .ends_with(2)
        .says(&["has the tables blocks, coins, not coins", anew]);
    let mut other = mirror_command(&place.data, &server);
    run(other.args(["--from", "5"]))
        .ends_with(2)
        .says(&["has blocks from height 0, not 5", anew]);
    mirror().ends_with(0);
    // A coin that is spent next was removed.
    client.batch_execute("DELETE FROM blockmill.coins").unwrap();
    (0..8).for_each(|_| node.mine());
    connect(&place);
    mirror()
        .ends_with(3)
        .says(&["blockmill\".coins has 0 of", "somebody else has changed it", anew]);
    client.batch_execute(&format!("{anew}; ")).unwrap();
    server
        .superuser()
        .batch_execute("CREATE SCHEMA blockmill AUTHORIZATION mirror")
        .unwrap();
    mirror().ends_with(0);
    check_table(&mut client, &place.data, "coins");
}

#[test]
fn blocks_may_begin_at_a_height_and_tables_be_left_out() {
    let Some(server) = Server::start() else { return };
    let scratch = Scratch::new();
    let (place, mut node) = connected(&scratch);
    let mut command = mirror_command(&place.data, &server);
    run(command.args(["--tables", "blocks,outputs", "--from", "112"])).ends_with(0);
    let mut client = server.client();
    let mut blocks = || {
        let query = "SELECT count(*), min(height), (SELECT min(height) FROM blockmill.outputs) FROM blockmill.blocks";
        let row = client.query_one(query, &[]).unwrap();
        (
            row.get::<_, i64>(0),
            row.get::<_, Option<i64>>(1),
            row.get::<_, Option<i64>>(2),
        )
    };
    // The chain has 110.
    assert_eq!(blocks(), (0, None, None));
    (0..4).for_each(|_| node.mine());
    connect(&place);
    run(&mut mirror_command(&place.data, &server)).ends_with(0);
    assert_eq!(blocks(), (3, Some(112), Some(112)));
    // A branch from below that height.
    node.chain.truncate(109);
    (0..7).for_each(|_| node.mine());
    connect(&place);
    run(&mut mirror_command(&place.data, &server)).ends_with(0);
    assert_eq!(blocks(), (4, Some(112), Some(112)));
}

#[test]
fn a_password_on_the_command_line_is_refused() {
    let scratch = Scratch::new();
    let mut command = blockmill();
    command.arg("mirror").arg("--data").arg(scratch.join("data"));
    command.args(["--to", "postgresql://me:hunter2@127.0.0.1:1/d", "--log", "json"]);
    let refused = run(&mut command).ends_with(2).says(&["~/.pgpass", "PGPASSWORD"]);
    assert!(!refused.stderr.contains("hunter2"), "{refused:?}");
    // Nor is one repeated that comes from elsewhere.
    let mut command = blockmill();
    command
        .arg("mirror")
        .arg("--data")
        .arg(scratch.join("data"))
        .env("PGPASSWORD", "hunter2");
    let refused = run(command.args(["--to", "postgresql://me@127.0.0.1:1/d"])).ends_with(4);
    let refused = refused.says(&["PostgreSQL: error connecting to server"]);
    assert!(!refused.stderr.contains("hunter2"), "{refused:?}");
}

/// Sends a signal, and returns the status and the time that the process took to end.
fn stopped(running: &mut Running) -> (Option<i32>, Duration) {
    let start = Instant::now();
    kill_process(Pid::from_child(&running.0), Signal::INT).unwrap();
    (running.0.wait().unwrap().code(), start.elapsed())
}

#[test]
fn a_signal_ends_it_whatever_the_server_does() {
    let Some(server) = Server::start() else { return };
    let scratch = Scratch::new();
    let (place, mut node) = connected(&scratch);
    let mut mirror = begin(&place, &server);
    wait_for_tip(&server, &node);
    // It waits for blocks.
    let (status, time) = stopped(&mut mirror);
    assert_eq!(status, Some(0));
    check_seconds(time.as_secs_f64(), 1.5);
    // It waits for a lock, which the server ends when it is asked to.
    let mut client = server.client();
    let mut lock = client.transaction().unwrap();
    lock.batch_execute("LOCK TABLE blockmill.mirror").unwrap();
    let mut mirror = begin(&place, &server);
    std::thread::sleep(Duration::from_millis(300));
    let (status, time) = stopped(&mut mirror);
    assert_eq!(status, Some(130));
    check_seconds(time.as_secs_f64(), 1.5);
    drop(lock);
    // The server does not answer.
    let mut mirror = begin(&place, &server);
    wait_for_tip(&server, &node);
    server.signal(Signal::STOP);
    node.mine();
    connect(&place);
    std::thread::sleep(Duration::from_millis(300));
    let (status, time) = stopped(&mut mirror);
    server.signal(Signal::CONT);
    assert!(matches!(status, Some(0 | 130)), "{status:?}");
    check_seconds(time.as_secs_f64(), 2.0);
    kill(&mut mirror);
    run(mirror_command(&place.data, &server).stdout(Stdio::piped())).ends_with(0);
    wait_for_tip(&server, &node);
}
