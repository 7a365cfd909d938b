//! What was changed by somebody else, which no mirror builds on.

use super::super::Place;
use super::limits::{connect, connected};
use super::mirror_command;
use super::server::Server;
use crate::common::{Run, Scratch, blockmill, run};
use crate::follow::node::Node;
use postgres::Client;

/// How one begins anew.
const ANEW: &str = "to begin anew: DROP SCHEMA \"blockmill\" CASCADE";

fn mirror(place: &Place, server: &Server, tables: &str) -> Run {
    run(mirror_command(&place.data, server).args(["--tables", tables]))
}

fn empty_schema(server: &Server) {
    server
        .superuser()
        .batch_execute("DROP SCHEMA blockmill CASCADE; CREATE SCHEMA blockmill AUTHORIZATION mirror")
        .unwrap();
}

/// The hash of the block at a height, as a part of a statement.
fn hash_at(node: &Node, height: usize) -> String {
    format!("decode('{}', 'hex')", node.chain[height].block_hash())
}

#[test]
fn a_table_of_somebody_else_is_no_mirror() {
    let Some(server) = Server::start() else { return };
    let scratch = Scratch::new();
    let (place, _) = connected(&scratch);
    for statement in [
        "CREATE TABLE blockmill.mirror (schema_version bigint); INSERT INTO blockmill.mirror VALUES (1)",
        "CREATE TABLE blockmill.mirror (schema_version text); INSERT INTO blockmill.mirror VALUES ('1')",
        "CREATE TABLE blockmill.mirror (schema_version integer); INSERT INTO blockmill.mirror VALUES (NULL)",
        "CREATE TABLE blockmill.mirror (schema_version integer); INSERT INTO blockmill.mirror VALUES (1)",
        "CREATE TABLE blockmill.mirror (schema_version integer); INSERT INTO blockmill.mirror VALUES (1), (1)",
        "CREATE TABLE blockmill.mirror (schema_version integer)",
        "CREATE TABLE blockmill.mirror (height integer)",
        "CREATE SEQUENCE blockmill.mirror",
        "CREATE TABLE blockmill.kept (height integer); CREATE INDEX mirror ON blockmill.kept (height)",
    ] {
        server.client().batch_execute(statement).unwrap();
        let refused = mirror(&place, &server, "coins").ends_with(3).says(&["blockmill", ANEW]);
        assert!(!refused.stderr.contains("panicked"), "{statement}: {refused:#?}");
        empty_schema(&server);
    }
    mirror(&place, &server, "coins").ends_with(0);
}

#[test]
fn tables_that_are_not_what_a_mirror_made_are_said() {
    let Some(server) = Server::start() else { return };
    let scratch = Scratch::new();
    let (place, _) = connected(&scratch);
    for statement in [
        "UPDATE blockmill.mirror SET tables = '{}'",
        "UPDATE blockmill.mirror SET tables = '{coins,coins}'",
        "UPDATE blockmill.mirror SET tables = '{coins,NULL}'",
        "UPDATE blockmill.mirror SET tables = '{coins,transactions,inputs}'",
        "ALTER TABLE blockmill.mirror ALTER schema_version TYPE bigint",
        "ALTER TABLE blockmill.mirror ALTER height TYPE text",
        "ALTER TABLE blockmill.mirror DROP blocks_from",
        "UPDATE blockmill.mirror SET step = 'blocks';
            ALTER TABLE blockmill.mirror_loaded ALTER after DROP NOT NULL;
            INSERT INTO blockmill.mirror_loaded VALUES ('blocks', NULL, '\\x00')",
        "UPDATE blockmill.mirror SET step = 'blocks';
            ALTER TABLE blockmill.mirror_loaded ALTER upto TYPE text;
            INSERT INTO blockmill.mirror_loaded VALUES ('blocks', '\\x00', 'x')",
        "UPDATE blockmill.mirror SET step = 'blocks'; DROP TABLE blockmill.mirror_loaded",
        "DROP TABLE blockmill.transactions",
        "DROP TABLE blockmill.coins CASCADE",
        "ALTER TABLE blockmill.transactions DROP height",
        "ALTER TABLE blockmill.coins DROP vout CASCADE",
        "DELETE FROM blockmill.transactions",
    ] {
        mirror(&place, &server, "coins,transactions").ends_with(0);
        server.client().batch_execute(statement).unwrap();
        let refused = run(&mut mirror_command(&place.data, &server)).ends_with(3);
        let refused = refused.says(&["blockmill", ANEW]);
        assert!(!refused.stderr.contains("panicked"), "{statement}: {refused:#?}");
        empty_schema(&server);
    }
}

fn rows(client: &mut Client, table: &str) -> i64 {
    let counted = client.query_one(&format!("SELECT count(*) FROM blockmill.{table}"), &[]);
    counted.unwrap().get(0)
}

/// The row of the mirror names another block than that which the tables are at.
#[test]
fn a_block_that_the_tables_are_not_at_is_not_built_on() {
    let Some(server) = Server::start() else { return };
    for table in ["coins", "blocks", "transactions", "inputs", "outputs"] {
        let scratch = Scratch::new();
        let (place, mut node) = connected(&scratch);
        mirror(&place, &server, table).ends_with(0);
        (0..5).for_each(|_| node.mine());
        connect(&place);
        mirror(&place, &server, table).ends_with(0);
        let (tip, mut client) = (node.chain.len() - 1, server.client());
        let count = rows(&mut client, table);
        let mut check = |what: &str| {
            let statement = format!("UPDATE blockmill.mirror SET {what}");
            client.batch_execute(&statement).unwrap();
            mirror(&place, &server, table).ends_with(3).says(&[ANEW]);
            assert_eq!(rows(&mut client, table), count, "{table}: {what}");
            let back = format!("height = {tip}, block_hash = {}, blocks_from = 0", hash_at(&node, tip));
            client
                .batch_execute(&format!("UPDATE blockmill.mirror SET {back}"))
                .unwrap();
        };
        check(&format!(
            "height = {}, block_hash = {}",
            tip - 5,
            hash_at(&node, tip - 5)
        ));
        check(&format!("height = {}", tip - 1));
        check(&format!("height = {}", tip + 1));
        check(&format!("block_hash = {}", hash_at(&node, tip - 1)));
        if table != "coins" {
            check("blocks_from = 3");
        }
        mirror(&place, &server, table).ends_with(0);
        // Blocks come that the tables do not get.
        (0..3).for_each(|_| node.mine());
        connect(&place);
        if table != "coins" {
            let tip = node.chain.len() - 1;
            let ahead = format!("height = {tip}, block_hash = {}", hash_at(&node, tip));
            client
                .batch_execute(&format!("UPDATE blockmill.mirror SET {ahead}"))
                .unwrap();
            mirror(&place, &server, table).ends_with(3).says(&[ANEW]);
        }
        empty_schema(&server);
    }
}

#[test]
fn a_name_that_no_schema_has_is_refused() {
    let scratch = Scratch::new();
    let long = "s".repeat(64);
    for name in ["", "pg_mine", &*long, &*"\u{e4}".repeat(32)] {
        let mut command = blockmill();
        command.arg("mirror").arg("--data").arg(scratch.join("data"));
        command.args(["--to", "postgresql://me@127.0.0.1:1/d", "--schema", name]);
        run(&mut command).ends_with(2).says(&["--schema <NAME>"]);
    }
    // The directory is looked at only after the server.
    let mut command = blockmill();
    command.arg("mirror").arg("--data").arg(scratch.join("data"));
    command.args(["--to", "postgresql://me@127.0.0.1:1/d", "--schema", &long[1..]]);
    run(&mut command).ends_with(4);
}
