//! The first load of tables, cut off.

use super::super::{PATIENCE, Running};
use super::server::Server;
use super::{TABLES, check_table, kill, mirror_command};
use crate::common::{Rng, Scratch, connect, generate_command, run};
use postgres::Client;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Blocks of the chain, and those that are connected when the load begins.
const BLOCKS: u32 = 140;
const BLOCKS_AT_FIRST: u32 = 138;

/// How often a load is cut off.
const CUTS: usize = 4;

/// Waits until there are more pieces than before, or the mirror has ended. Returns their number.
fn wait_for_pieces(client: &mut Client, mirror: &mut Running, more: i64) -> i64 {
    let mut pieces = || {
        let loaded = client.query_one("SELECT count(*) FROM blockmill.mirror_loaded", &[]);
        loaded.map_or(0, |row| row.get::<_, i64>(0))
    };
    let before = pieces();
    loop {
        let now = pieces();
        if now >= before + more || mirror.0.try_wait().unwrap().is_some() {
            return now;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_first_load_that_is_cut_off_goes_on() {
    let Some(mut server) = Server::start() else { return };
    let scratch = Scratch::new();
    let (blocks, data) = (scratch.join("blocks"), scratch.join("data"));
    let mut command = generate_command(&blocks, "utxo", BLOCKS);
    run(command.args(["--inputs", "20000", "--coins", "200000"])).ends_with(0);
    let mut random = Rng::new(5);
    let mut with_pieces = 0;
    for round in 0..2 {
        let _ = std::fs::remove_dir_all(&data);
        let first = BLOCKS_AT_FIRST.to_string();
        run(connect(&blocks, &data, "regtest").args(["--stop-at-height", &first])).ends_with(0);
        server
            .superuser()
            .batch_execute("DROP SCHEMA blockmill CASCADE; CREATE SCHEMA blockmill AUTHORIZATION mirror")
            .unwrap();
        let end = Instant::now() + PATIENCE;
        for number in 0.. {
            assert!(Instant::now() < end, "the load does not end");
            let mut command = mirror_command(&data, &server);
            command.args(["--tables", TABLES, "--quiet"]);
            let mut mirror = Running::of(command.stdout(Stdio::null()).stderr(Stdio::null()));
            if number == CUTS {
                assert_eq!(mirror.0.wait().unwrap().code(), Some(0));
                break;
            }
            let pieces = match number % 2 {
                1 => {
                    std::thread::sleep(Duration::from_millis(random.below(80) as u64));
                    0
                }
                _ => wait_for_pieces(&mut server.client(), &mut mirror, 1 + random.below(3) as i64),
            };
            if number >= 2 {
                server.crash();
                server.start_again();
            }
            kill(&mut mirror);
            with_pieces += usize::from(pieces > 0);
            drop(server.client());
            // The set goes on meanwhile; the load goes on with the one that it began with.
            if round == 1 {
                run(&mut connect(&blocks, &data, "regtest")).ends_with(0);
            }
        }
        let mut client = server.client();
        for table in ["coins", "transactions", "inputs", "outputs"] {
            check_table(&mut client, &data, table);
        }
        let last = client
            .query_one("SELECT count(*), max(height) FROM blockmill.blocks", &[])
            .unwrap();
        let height = if round == 0 { BLOCKS_AT_FIRST } else { BLOCKS };
        assert_eq!(
            (last.get::<_, i64>(0), last.get::<_, i64>(1)),
            ((height + 1).into(), height.into())
        );
    }
    eprintln!("cut off {} times, {with_pieces} of them with pieces", 2 * CUTS);
    assert!(with_pieces >= 2);
}
