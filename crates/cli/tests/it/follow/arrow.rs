//! `feed --format arrow`, read by pyarrow.

use super::consumer::{Consumer, set_of};
use super::document::{code_of_document, path_with_command};
use super::node::Node;
use super::{Events, PATIENCE, Place, Running, TRUNK, stop};
use crate::common::children::wait_until;
use crate::common::python::Python;
use crate::common::{Scratch, blockmill, run};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Stdio;

/// Prints a line of JSON for each event of a file, without what it has not.
const ROWS: &str = "import json, sys, pyarrow.ipc as ipc
for row in ipc.open_stream(sys.argv[1]).read_all().to_pylist():
    print(json.dumps({name: value for name, value in row.items() if value is not None}))";

/// Prints the columns of a file as docs/feed.md has them.
const SCHEMA: &str = "import sys, pyarrow as pa
def say(fields, path):
    for field in fields:
        kind, rest = field.type, ''
        while pa.types.is_list(kind): kind, rest = kind.value_type, rest + '[]'
        is_row = pa.types.is_struct(kind)
        print(f\"{path}{field.name}: {'row' if is_row else kind}{rest}{', or null' if field.nullable else ''}\")
        if is_row: say(kind, path + '  ')
schema = pa.ipc.open_stream(sys.argv[1]).schema
assert schema.metadata == {b'blockmill-feed': b'1'}, schema.metadata
say(schema, '')";

/// Cuts a file at many places. A reader fails, or gets no `tip`: only the end of the stream may be
/// cut off unseen.
const CUTS: &str = "import io, sys, pyarrow as pa
whole = open(sys.argv[1], 'rb').read()
assert whole[-8:] == b'\\xff\\xff\\xff\\xff\\0\\0\\0\\0'
def words(stream): return pa.ipc.open_stream(io.BytesIO(stream)).read_all().column('event').to_pylist()
assert words(whole)[-1] == 'tip' and words(whole[:-8])[-1] == 'tip'
failed = ended = 0
for end in [*range(0, len(whole) - 8, len(whole) // 300), *range(len(whole) - 200, len(whole) - 8)]:
    try: assert 'tip' not in words(whole[:end]), end
    except (pa.ArrowInvalid, OSError): failed += 1
    else: ended += 1
print(failed, ended)";

/// A consumer at a socket, which prints each event once it has come.
const SOCKET: &str = "import json, socket, sys, pyarrow as pa
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
connection.sendall(b'blockmill-feed 1 0 arrow\\n')
for batch in pa.ipc.open_stream(connection.makefile('rb')):
    for row in batch.to_pylist(): print(json.dumps(row), flush=True)
print('ended', flush=True)";

/// A chain of which three blocks were replaced by five, and the tip before.
struct Reorganised {
    scratch: Scratch,
    place: Place,
    old: String,
}

impl Reorganised {
    fn new() -> Self {
        let scratch = Scratch::new();
        let place = Place::new(&scratch);
        let mut node = Node::new(&place.blocks, 12);
        (0..12).for_each(|_| node.mine());
        let connect = || {
            let mut command = blockmill();
            command.args(["connect", "--network", "regtest", "--blocks"]);
            run(command.arg(&place.blocks).arg("--data").arg(&place.data)).ends_with(0);
        };
        connect();
        let old = node.hash();
        node.chain.truncate(node.chain.len() - 3);
        (0..5).for_each(|_| node.mine());
        connect();
        Self { scratch, place, old }
    }

    /// A feed in a file.
    fn feed(&self, cursor: &str, format: &str) -> PathBuf {
        let mut command = blockmill();
        command.args(["feed", "--from", cursor, "--format", format, "--data"]);
        let output = command.arg(&self.place.data).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        self.scratch.write(&format!("{format}.{cursor}"), &output.stdout)
    }
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn arrow_has_the_events_of_json_field_by_field() {
    let Some(python) = Python::with(&["pyarrow"]) else {
        return;
    };
    let chain = Reorganised::new();
    for (cursor, count) in [("0", TRUNK + 12 + 2 + 1), (&*chain.old, 3 + 5 + 1)] {
        let expected = lines(&std::fs::read_to_string(chain.feed(cursor, "jsonl")).unwrap());
        assert_eq!(expected.len(), count);
        let file = chain.feed(cursor, "arrow");
        assert!(lines(&python.run(ROWS, &file)) == expected, "from {cursor}");
        let columns = code_of_document("text", "event: ");
        assert_eq!(python.run(SCHEMA, &file), columns);
    }
}

/// The example of docs/feed.md prints a line for each event.
#[test]
fn the_consumer_of_the_document_works() {
    let Some(python) = Python::with(&["pyarrow"]) else {
        return;
    };
    let chain = Reorganised::new();
    let mut command = python.command();
    command.args(["-c", &code_of_document("python", "import pyarrow")]);
    command
        .current_dir(chain.scratch.join(""))
        .env("PATH", path_with_command());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), TRUNK + 12 + 2 + 1);
    assert!(
        lines[0].contains("connected") && lines[TRUNK + 14].contains("tip"),
        "{text}"
    );
}

#[test]
fn a_cut_stream_of_arrow_is_seen() {
    let Some(python) = Python::with(&["pyarrow"]) else {
        return;
    };
    let chain = Reorganised::new();
    let counts = python.run(CUTS, &chain.feed(&chain.old, "arrow"));
    let (failed, _) = counts.trim().split_once(' ').unwrap();
    assert!(failed.parse::<u32>().unwrap() > 100, "{counts}");
}

/// An event comes when it happens, and not with the next one.
#[test]
fn a_consumer_of_arrow_has_the_coins() {
    let Some(python) = Python::with(&["pyarrow"]) else {
        return;
    };
    let scratch = Scratch::new();
    let place = Place::new(&scratch);
    let mut node = Node::new(&place.blocks, 13);
    let follower = place.follow();
    place.wait_for_data();
    let server = place.listen();
    wait_until("the socket", || place.socket.exists());
    let mut command = python.command();
    command.args(["-c", SOCKET]).arg(&place.socket).stdout(Stdio::piped());
    let mut process = Running::of(&mut command);
    let stdout = process.0.stdout.take().unwrap();
    let events = Events::new(stdout, Some(process));
    let mut consumer = Consumer::default();
    for _ in 0..15 {
        while consumer.apply(&events.lines.recv_timeout(PATIENCE).unwrap()) != Some(node.hash()) {}
        assert!(
            set_of(&place.data).0 == consumer.coins,
            "the coins differ at {}",
            node.hash()
        );
        node.step();
    }
    assert_eq!(stop(server), Some(0));
    while events.lines.recv_timeout(PATIENCE).unwrap() != "ended" {}
    assert_eq!(stop(follower), Some(0));
}
