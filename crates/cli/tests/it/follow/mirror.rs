//! `mirror`: the tables of a PostgreSQL database are those of `export`, whoever is killed.

mod changed;
mod limits;
mod load;
mod outages;
mod server;
mod tls;

use super::node::Node;
use super::{PATIENCE, Place, Running, stop};
use crate::common::{Rng, Scratch, blockmill, run};
use postgres::Client;
use serde_json::Value;
use server::Server;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const TABLES: &str = "coins,blocks,transactions,inputs,outputs";

/// Reorganisations of the long test, and kills: `BLOCKMILL_TEST_MIRROR`.
fn steps() -> usize {
    let asked = std::env::var("BLOCKMILL_TEST_MIRROR").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or_else(|| {
        eprintln!("short: 40 steps; BLOCKMILL_TEST_MIRROR sets the number");
        40
    })
}

fn mirror_command(data: &Path, server: &Server) -> Command {
    mirror_to(data, &server.url())
}

fn mirror_to(data: &Path, url: &str) -> Command {
    let mut command = blockmill();
    command.arg("mirror").arg("--data").arg(data).args(["--to", url]);
    command
}

fn begin(place: &Place, server: &Server) -> Running {
    let mut command = mirror_command(&place.data, server);
    command.args(["--follow", "--tables", TABLES]);
    let log = File::options().create(true).append(true).open(log_of(place)).unwrap();
    Running::of(command.stdout(Stdio::null()).stderr(log))
}

/// Where the mirrors of a test write what they say.
fn log_of(place: &Place) -> PathBuf {
    place.socket.with_extension("log")
}

/// The rows that `export` has of a table, each as its values with a line between, sorted.
fn exported(data: &Path, table: &str) -> Vec<String> {
    let mut command = blockmill();
    command.args(["export", table, "--format", "jsonl", "--out", "-", "--quiet", "--data"]);
    let out = run(command.arg(data)).ends_with(0).stdout;
    let mut rows: Vec<String> = out.lines().map(row).collect();
    rows.sort_unstable();
    rows
}

fn row(line: &str) -> String {
    let row: serde_json::Map<String, Value> = serde_json::from_str(line).unwrap();
    let mut values: Vec<(String, String)> = row
        .into_iter()
        .map(|(name, value)| match value {
            Value::String(text) => (name, text),
            value => (name, value.to_string()),
        })
        .collect();
    values.sort_unstable();
    let values: Vec<String> = values
        .into_iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    values.join("|")
}

/// The same rows of the database.
fn mirrored(client: &mut Client, table: &str) -> Vec<String> {
    let columns = client
        .query(
            "SELECT column_name, data_type FROM information_schema.columns
                WHERE table_schema = 'blockmill' AND table_name = $1 ORDER BY column_name COLLATE \"C\"",
            &[&table],
        )
        .unwrap();
    let value = |row: postgres::Row| {
        let (name, kind): (String, String) = (row.get(0), row.get(1));
        let text = match &*kind {
            "bytea" => format!("encode({name}, 'hex')"),
            "timestamp with time zone" => format!("extract(epoch FROM {name})::bigint::text"),
            _ => format!("{name}::text"),
        };
        format!("'{name}=' || coalesce({text}, 'null')")
    };
    let values: Vec<String> = columns.into_iter().map(value).collect();
    let query = format!("SELECT concat_ws('|', {}) FROM blockmill.{table}", values.join(", "));
    let rows = client.query(&query, &[]).unwrap();
    let mut rows: Vec<String> = rows.into_iter().map(|row| row.get(0)).collect();
    rows.sort_unstable();
    rows
}

#[track_caller]
fn check_table(client: &mut Client, data: &Path, table: &str) {
    let (found, wanted) = (mirrored(client, table), exported(data, table));
    let first = found.iter().zip(&wanted).find(|(found, wanted)| found != wanted);
    assert!(
        found == wanted,
        "{table}: {} rows of {}, first {first:#?}",
        found.len(),
        wanted.len()
    );
}

/// The block that the tables are at, once blocks come and go.
fn mirrored_tip(client: &mut Client) -> Option<String> {
    let query = "SELECT encode(block_hash, 'hex') FROM blockmill.mirror WHERE step = 'follow'";
    client.query_opt(query, &[]).ok()??.get(0)
}

fn kill(process: &mut Running) {
    // It may have ended.
    let _ = process.0.kill();
    process.0.wait().unwrap();
}

/// A reorganisation, or the next block. Nothing is removed from the block files.
fn step(node: &mut Node, random: &mut Rng) {
    let depth = match random.below(3) {
        0 => 1 + random.below(12),
        _ => 0,
    };
    node.chain.truncate(node.chain.len() - depth);
    (0..=depth).for_each(|_| node.mine());
}

/// A server, a node, and what moves blocks between them.
struct World {
    server: Server,
    place: Place,
    node: Node,
    follower: Running,
    mirror: Running,
    random: Rng,
    kills: [usize; 4],
}

impl World {
    /// Kills something, or nothing.
    fn disturb(&mut self) {
        match self.random.below(6) {
            0 => {
                self.kills[0] += 1;
                kill(&mut self.mirror);
                self.mirror = begin(&self.place, &self.server);
            }
            1 => {
                self.kills[1] += 1;
                self.server.crash();
                std::thread::sleep(Duration::from_millis(self.random.below(200) as u64));
                self.server.start_again();
            }
            2 => {
                self.kills[2] += 1;
                // The next one may have the directory once the first is gone.
                kill(&mut self.follower);
                self.follower = self.place.follow();
            }
            3 if self.random.below(3) == 0 => {
                // The first load is cut off.
                self.kills[3] += 1;
                kill(&mut self.mirror);
                let mut client = self.server.superuser();
                client
                    .batch_execute(
                        "DROP SCHEMA IF EXISTS blockmill CASCADE; CREATE SCHEMA blockmill AUTHORIZATION mirror",
                    )
                    .unwrap();
                self.mirror = begin(&self.place, &self.server);
                std::thread::sleep(Duration::from_millis(self.random.below(120) as u64));
                kill(&mut self.mirror);
                self.mirror = begin(&self.place, &self.server);
            }
            _ => {}
        }
    }

    /// Waits until the tables are at the tip of the node. Returns a connection.
    fn wait(&mut self) -> Client {
        let (tip, end) = (self.node.hash(), Instant::now() + PATIENCE);
        loop {
            // One that came while the killed one still had the schema ends.
            if let Some(status) = self.mirror.0.try_wait().unwrap() {
                assert_eq!(status.code(), Some(4), "{status}");
                self.mirror = begin(&self.place, &self.server);
            }
            let mut client = self.server.client();
            for _ in 0..20 {
                if mirrored_tip(&mut client).as_ref() == Some(&tip) {
                    return client;
                }
                if Instant::now() >= end {
                    let log = std::fs::read_to_string(log_of(&self.place)).unwrap();
                    let lines: Vec<&str> = log.lines().rev().take(20).collect();
                    panic!("the mirror does not come to {tip}: {lines:#?}");
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

#[test]
fn the_tables_are_those_of_export_whoever_is_killed() {
    let Some(server) = Server::start() else { return };
    let scratch = Scratch::new();
    let place = Place::new(&scratch);
    let node = Node::new(&place.blocks, 17);
    let follower = place.follow();
    place.wait_for_data();
    let mirror = begin(&place, &server);
    let mut world = World {
        server,
        place,
        node,
        follower,
        mirror,
        random: Rng::new(31),
        kills: [0; 4],
    };
    let steps = steps();
    for number in 0..steps {
        step(&mut world.node, &mut world.random);
        std::thread::sleep(Duration::from_millis(world.random.below(60) as u64));
        world.disturb();
        let mut client = world.wait();
        check_table(&mut client, &world.place.data, "coins");
        if number % 10 == 9 {
            for table in ["transactions", "inputs", "outputs"] {
                check_table(&mut client, &world.place.data, table);
            }
        }
        let blocks: i64 = client
            .query_one("SELECT count(*) FROM blockmill.blocks", &[])
            .unwrap()
            .get(0);
        assert_eq!(blocks as usize, world.node.chain.len());
    }
    let [mirrors, servers, followers, loads] = world.kills;
    eprintln!("killed: mirror {mirrors} times, server {servers}, follow {followers}, in the first load {loads}");
    assert!(mirrors > 0 && servers > 0 && followers > 0 && loads > 0);
    assert_eq!(stop(world.mirror), Some(0));
    assert_eq!(stop(world.follower), Some(0));
}
