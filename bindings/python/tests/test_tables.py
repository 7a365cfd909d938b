"""Coins, blocks and events as tables, beside the files of `blockmill export` and the events of
`blockmill feed`, and read by each of the libraries that take Arrow."""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import pickle
import queue
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.compute
import pyarrow.parquet
import pytest
from conftest import Data, Site

import blockmill
from blockmill import Table, UtxoSet

duckdb = pytest.importorskip("duckdb")
pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")

NAMES = ["transactions", "inputs", "outputs", "spenders", "positions", "filters", "statistics"]


def exported(data: Data, name: str, out: Path, *options: str) -> Any:
    """The table that the command writes."""
    file = out / f"{name}.parquet"
    data.run("export", name, "--data", str(data.folder), "--out", str(file), *options)
    return pyarrow.parquet.read_table(file).replace_schema_metadata()


def without_metadata(table: Table) -> Any:
    return table.to_arrow().replace_schema_metadata()


def test_tables_are_those_of_the_command(data: Data, tmp_path: Path) -> None:
    utxos = blockmill.open(data.folder)
    assert without_metadata(utxos.coins()).equals(exported(data, "coins", tmp_path))
    found = blockmill.blocks(data.site.blocks, data.site.network)
    assert (found.tip, found.height, found.network, found.why) == (utxos.tip, utxos.height, utxos.network, ())
    for name in NAMES:
        expected = exported(data, name, tmp_path)
        assert expected.num_rows > utxos.height
        for tables in (utxos, found):
            assert without_metadata(tables.table(name)).equals(expected), name
            assert without_metadata(getattr(tables, name)()).equals(expected), name
        part = exported(data, name, tmp_path, "--from", "110", "--to", "130", "--force")
        assert 0 < part.num_rows < expected.num_rows
        assert without_metadata(utxos.table(name, first=110, last=130)).equals(part), name


def test_what_takes_arrow_takes_a_table(data: Data) -> None:
    utxos = blockmill.open(data.folder)
    made = table = utxos.outputs()
    rows = table.to_arrow()
    total = pyarrow.compute.sum(rows["value"]).as_py()
    assert rows.num_rows > 1_000 and tuple(rows.column_names) == table.columns
    assert pyarrow.table(table).equals(rows)
    assert pyarrow.schema(table).names == rows.column_names
    assert sum(batch.num_rows for batch in table.batches()) == rows.num_rows
    assert polars.DataFrame(table)["value"].sum() == total
    assert table.to_polars().height == rows.num_rows
    assert table.to_pandas()["value"].sum() == total
    query = "select sum(value)::bigint, count(*), max(epoch(block_time))::bigint from made"
    last = pyarrow.compute.max(rows["block_time"]).as_py()
    assert duckdb.sql(query).fetchall()[0] == (total, rows.num_rows, int(last.timestamp()))
    if hasattr(pandas.DataFrame, "from_arrow"):
        assert len(pandas.DataFrame.from_arrow(table)) == rows.num_rows


def test_ids_may_be_bytes(data: Data) -> None:
    utxos = blockmill.open(data.folder)
    for texts, binary in [
        (utxos.coins(), utxos.coins(binary=True)),
        (utxos.spenders(), utxos.spenders(binary=True)),
    ]:
        hex_ids, ids = texts.to_arrow()["txid"].to_pylist(), binary.to_arrow()["txid"]
        assert ids.type == pyarrow.binary(32)
        assert [value.hex() for value in ids.to_pylist()] == hex_ids


def test_coins_balances_and_figures(data: Data) -> None:
    utxos = blockmill.open(data.folder)
    rows = utxos.coins().to_arrow().to_pylist()
    by_address: dict[str, int] = defaultdict(int)
    for row in rows:
        if row["address"]:
            by_address[row["address"]] += row["value"]
    stats = utxos.stats(muhash=True)
    expected = json.loads(data.run("stats", "--data", str(data.folder), "--hash", "both", "--json"))
    for name in ("height", "bestblock", "txouts", "bogosize", "hash_serialized_3", "muhash"):
        assert getattr(stats, name) == expected[name], name
    assert (stats.txouts, stats.total_amount) == (len(rows), sum(row["value"] for row in rows))

    some = list(by_address)[:50]
    balance = utxos.balance(some)
    assert balance.by_text == {address: by_address[address] for address in some}
    assert balance.satoshi == sum(balance.by_text.values())
    # A script under two names is two texts, and its coins are there once.
    row = next(row for row in rows if row["address"] == some[0])
    twice = utxos.balance([some[0], "raw:" + row["script"]])
    assert twice.satoshi == by_address[some[0]] and len(set(twice.by_text.values())) == 1
    where = utxos.coins(where=some[:2]).to_arrow().to_pylist()
    assert where == [row for row in rows if row["address"] in some[:2]] != []

    coin = utxos.coin(row["txid"], row["vout"])
    assert coin is not None and coin == utxos.coin(f"{row['txid']}:{row['vout']}")
    assert vars(coin) == {name: value for name, value in row.items() if name != "block_time"}
    assert utxos.coin("11" * 32, 0) is None


def test_the_set_as_it_was(data: Data) -> None:
    utxos = blockmill.open(data.folder)
    earlier = utxos.at(120)
    expected = json.loads(data.run("stats", "--data", str(data.folder), "--at", "120", "--json"))
    assert earlier.height == 120
    assert (earlier.tip, earlier.stats().txouts) == (expected["bestblock"], expected["txouts"])
    assert earlier.coins().to_arrow().equals(utxos.coins(at=120).to_arrow())
    assert earlier.stats().hash_serialized_3 == expected["hash_serialized_3"]
    spent = earlier.coins().to_arrow().to_pylist()
    gone = next(row for row in spent if utxos.coin(row["txid"], row["vout"]) is None)
    assert earlier.coin(gone["txid"], gone["vout"]) is not None
    with pytest.raises(blockmill.UsageError, match="height 121 is above it"):
        earlier.at(121)
    assert earlier.transactions().to_arrow().num_rows < utxos.transactions().to_arrow().num_rows


def test_an_open_set_stays_as_it_is(data: Data, tmp_path: Path) -> None:
    folder = tmp_path / "grows"
    data.connect(folder, "--stop-at-height", "100")
    utxos = blockmill.open(folder)
    before = utxos.stats()
    data.connect(folder)
    now = blockmill.open(folder)
    assert (utxos.height, now.height) == (100, 160)
    assert utxos.stats().hash_serialized_3 == before.hash_serialized_3 != now.stats().hash_serialized_3
    assert utxos.coins().to_arrow().num_rows == before.txouts
    row = now.coins().to_arrow().to_pylist()[-1]
    assert now.coin(row["txid"], row["vout"]) is not None
    assert max(utxos.transactions().to_arrow()["height"].to_pylist()) == 100


def test_a_feed_tells_what_the_command_tells(data: Data) -> None:
    utxos = blockmill.open(data.folder)
    lines = data.run("feed", "--data", str(data.folder), "--from", "140").splitlines()
    events = list(utxos.feed(140))
    assert events == [json.loads(line) for line in lines]
    assert [event["event"] for event in events] == ["connected"] * 20 + ["tip"]
    again = utxos.feed(events[4]["block_hash"])
    assert list(again) == events[5:]
    rows = again.table().to_arrow().to_pylist()
    assert [row["block_hash"] for row in rows] == [event["block_hash"] for event in events[5:]]
    assert pyarrow.table(utxos.feed(140)).num_rows == 21


def test_a_feed_that_follows_hears_of_new_blocks(data: Data, tmp_path: Path) -> None:
    folder = tmp_path / "grows"
    data.connect(folder, "--stop-at-height", "100")
    feed = blockmill.open(folder).feed(90, follow=True)
    heights = [next(feed).get("height") for _ in range(11)]
    assert heights == [*range(91, 101), 100]
    connecting = threading.Thread(target=data.connect, args=(folder,))
    connecting.start()
    later = [next(feed) for _ in range(60)]
    connecting.join()
    assert [event["height"] for event in later] == list(range(101, 161))


def wait_for_words(log: pytest.LogCaptureFixture, count: int) -> None:
    """Waits until the log says so often that a feed tries again."""
    deadline = time.monotonic() + 30
    while log.text.count("tried again") < count:
        assert time.monotonic() < deadline, log.text
        time.sleep(0.01)


@pytest.mark.parametrize("as_table", [False, True])
def test_a_feed_that_follows_waits_for_what_cannot_be_read(
    small: Site, data: Data, tmp_path: Path, caplog: pytest.LogCaptureFixture, as_table: bool
) -> None:
    folder, blocks = tmp_path / "data", tmp_path / "blocks"
    shutil.copytree(small.blocks, blocks)
    own = Data(Site(tmp_path, small.network), folder)
    own.connect(folder, "--stop-at-height", "100")
    # Retained blocks could be read.
    shutil.rmtree(folder / "kept")
    feed = blockmill.open(folder).feed(90, follow=True)
    heights: queue.Queue[int] = queue.Queue()

    def take() -> None:
        if as_table:
            for batch in feed.table().batches():
                for height in batch["height"].to_pylist():
                    heights.put(height)
        for event in feed:
            heights.put(event["height"])

    def taken(count: int) -> list[int]:
        return [heights.get(timeout=30) for _ in range(count)]

    away, said = tmp_path / "away", 0
    if not as_table:
        # Block files that a node writes anew.
        blocks.rename(away)
        threading.Thread(target=take, daemon=True).start()
        wait_for_words(caplog, said := 1)
        away.rename(blocks)
    else:
        threading.Thread(target=take, daemon=True).start()
    assert taken(11) == [*range(91, 101), 100]
    # A data directory that is moved.
    folder.rename(away)
    wait_for_words(caplog, said := said + 1)
    # Each reason is said once.
    time.sleep(2)
    assert caplog.text.count("tried again") == said
    away.rename(folder)
    own.connect(folder)
    assert taken(60) == list(range(101, 161))
    # Without `follow` it is an error.
    blocks.rename(away)
    shutil.rmtree(folder / "kept")
    with pytest.raises(blockmill.FileError, match="in no block file"):
        list(blockmill.open(folder).feed(90))


def test_errors_are_its_own(data: Data, tmp_path: Path) -> None:
    utxos = blockmill.open(data.folder)
    row = "raw:51"
    for cause, error, said in [
        (lambda: blockmill.open(tmp_path / "none"), blockmill.FileError, "no data directory"),
        (lambda: blockmill.open(data.folder, threads=0), blockmill.UsageError, "threads"),
        (lambda: utxos.at(161), blockmill.UsageError, "height 161 is above it"),
        (lambda: utxos.coin("11"), blockmill.UsageError, "no outpoint"),
        (lambda: utxos.balance("bcrt1qx"), blockmill.UsageError, "cut off"),
        (lambda: utxos.coins(where="pk(00)"), blockmill.UsageError, "a key in it is not valid"),
        (lambda: utxos.balance(row, range=1_000_000), blockmill.UsageError, "range"),
        (lambda: utxos.feed("11" * 32), blockmill.CursorError, "never connected"),
        (lambda: utxos.feed(161), blockmill.CursorError, "above the tip"),
        (lambda: utxos.feed("x"), blockmill.UsageError, "cursor"),
        (lambda: utxos.outputs(first=161), blockmill.UsageError, "no blocks from height 161"),
        (lambda: utxos.outputs(first=3, last=2), blockmill.UsageError, "from height 3 to 2"),
        (lambda: utxos.table("nothing"), blockmill.UsageError, "no table"),
        (lambda: blockmill.blocks(data.site.blocks, "moon"), blockmill.UsageError, "network"),
    ]:
        with pytest.raises(error, match=said):
            cause()  # type: ignore[no-untyped-call]


def with_key(content: bytes, key: bytes) -> bytes:
    """Content with the key of block files, or without it."""
    number = int.from_bytes(content, "little")
    keys = (key * (len(content) // len(key) + 1))[: len(content)]
    return (number ^ int.from_bytes(keys, "little")).to_bytes(len(content), "little")


def test_a_damaged_block_is_an_error_in_each_library(data: Data, tmp_path: Path) -> None:
    for file in data.site.blocks.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    # Undo data that nobody can read, in the middle of what is written. Nothing follows but zeros.
    undo = (tmp_path / "rev00000.dat").read_bytes()
    middle = len(undo.rstrip(bytes(1))) // 2
    damaged = undo[:middle] + bytes([undo[middle] ^ 255]) + undo[middle + 1 :]
    (tmp_path / "rev00000.dat").write_bytes(damaged)
    made = table = blockmill.blocks(tmp_path, data.site.network).inputs()
    for read in (table.to_arrow, table.to_pandas, table.to_polars, lambda: list(table.batches())):
        with pytest.raises(blockmill.FileError, match="undo"):
            read()
    for read in (lambda: pyarrow.table(table), lambda: polars.DataFrame(table)):
        # An older polars panics, which is no `Exception`.
        with pytest.raises(BaseException, match="undo"):
            read()
    with pytest.raises(Exception, match="undo"):
        duckdb.sql("select count(script) from made").fetchall()


def test_half_a_chain_is_an_error(data: Data, tmp_path: Path) -> None:
    # The second block is not there, and the others rest on it.
    key = (data.site.blocks / "xor.dat").read_bytes()
    content = with_key((data.site.blocks / "blk00000.dat").read_bytes(), key)
    second = content.index(content[:4], 8)
    third = content.index(content[:4], second + 8)
    (tmp_path / "blk00000.dat").write_bytes(content[:second] + content[third:])
    with pytest.raises(blockmill.IncompleteError, match="blocks"):
        blockmill.blocks(tmp_path, data.site.network)
    partial = blockmill.blocks(tmp_path, data.site.network, partial=True)
    assert partial.height == 0 and partial.why
    assert partial.transactions().to_arrow().num_rows == 1


def test_threads_share_a_set(data: Data) -> None:
    utxos = blockmill.open(data.folder)
    expected = utxos.coins().to_arrow()
    outputs = utxos.outputs().to_arrow()
    wrong: list[str] = []

    def read() -> None:
        for _ in range(5):
            if not utxos.coins().to_arrow().equals(expected):
                wrong.append("coins")
            if not utxos.outputs().to_arrow().equals(outputs):
                wrong.append("outputs")
            if utxos.stats().txouts != expected.num_rows:
                wrong.append("stats")

    threads = [threading.Thread(target=read) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_other_threads_run_while_a_table_is_read(large_data: Data) -> None:
    ticks = 0
    is_done = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not is_done.is_set():
            ticks += 1
            time.sleep(0.001)

    ticker = threading.Thread(target=tick)
    ticker.start()
    start = time.monotonic()
    blockmill.open(large_data.folder, threads=1).inputs().to_arrow()
    seconds = time.monotonic() - start
    is_done.set()
    ticker.join()
    assert ticks > seconds * 50


def ask(utxos: UtxoSet, queue: multiprocessing.Queue[Any]) -> None:
    try:
        queue.put(utxos.coins().to_arrow().num_rows)
    except blockmill.UsageError as error:
        queue.put(str(error))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_is_refused_and_a_spawned_process_works(data: Data) -> None:
    utxos = blockmill.open(data.folder)
    expected = utxos.coins().to_arrow().num_rows
    for method in ("spawn", "fork"):
        context: Any = multiprocessing.get_context(method)
        queue = context.Queue()
        process = context.Process(target=ask, args=(utxos, queue))
        process.start()
        found = queue.get(timeout=60)
        process.join()
        if method == "spawn":
            assert found == expected
        else:
            assert "fork" in found and "spawn" in found
    again = pickle.loads(pickle.dumps(utxos.at(120)))
    assert (again.height, again.tip) == (120, utxos.at(120).tip)


def test_a_stream_that_was_begun_is_refused_after_a_fork(data: Data) -> None:
    batches = blockmill.open(data.folder).outputs().batches()
    next(batches)
    child = os.fork()
    if child == 0:
        # It must not run what comes after this test.
        try:
            next(batches)
        except blockmill.UsageError:
            os._exit(7)
        finally:
            os._exit(8)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


INTERRUPTED = """
import blockmill, os, signal, sys, threading, time
utxos = blockmill.open(sys.argv[1], threads=1)
read = {
    "table": lambda: utxos.inputs().to_arrow(),
    "polars": lambda: utxos.inputs().to_polars(),
    "feed": lambda: list(utxos.feed(600, follow=True)),
    "events": lambda: list(utxos.feed(0)),
}[sys.argv[2]]
def interrupt():
    global sent
    sent = time.monotonic()
    os.kill(os.getpid(), signal.SIGINT)
threading.Timer(float(sys.argv[3]), interrupt).start()
try:
    while True:
        read()
except KeyboardInterrupt:
    print(time.monotonic() - sent)
"""


@pytest.mark.parametrize("what", ["table", "polars", "feed", "events"])
def test_an_interrupt_ends_it_soon(large_data: Data, what: str) -> None:
    after = "0.5" if what == "feed" else "0.02"
    command = [sys.executable, "-c", INTERRUPTED, str(large_data.folder), what, after]
    waited: list[float] = []
    # A busy machine may take its time.
    while len(waited) < 10 and min(waited, default=1.0) >= 0.1:
        waited.append(float(subprocess.run(command, check=True, capture_output=True).stdout))
    assert min(waited) < 0.1, waited


def test_a_stream_that_nobody_reads_to_its_end_is_given_up(large_data: Data) -> None:
    utxos = blockmill.open(large_data.folder)
    before = threads_of_process()
    for _ in range(5):
        next(iter(utxos.inputs().batches()))
    deadline = time.monotonic() + 10
    while threads_of_process() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threads_of_process() <= before


def threads_of_process() -> int:
    return len(os.listdir("/proc/self/task"))


def resident() -> int:
    """Memory in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_a_thousand_opens_leak_nothing(data: Data) -> None:
    def use(times: int) -> None:
        for _ in range(times):
            utxos = blockmill.open(data.folder, threads=2)
            assert utxos.height == 160
            utxos.coin("11" * 32, 0)
            next(iter(utxos.outputs(first=100, last=101).batches()))
            next(utxos.feed(150))
        gc.collect()

    use(100)
    memory, files, threads = resident(), len(os.listdir("/proc/self/fd")), threads_of_process()
    use(900)
    time.sleep(0.5)
    assert resident() - memory < 16 << 20
    assert len(os.listdir("/proc/self/fd")) <= files + 2
    assert threads_of_process() <= threads + 2


def test_real_blocks(main: Site) -> None:
    found = blockmill.blocks(main.blocks, main.network)
    assert found.height == 14_131
    made = found.transactions()  # noqa: F841 (DuckDB finds it by its name)
    fees = duckdb.sql("select sum(fee)::bigint from made").fetchall()[0]
    outputs = found.outputs().to_arrow()
    assert fees[0] > 0 and outputs.num_rows > found.height
    # The first payment, from Satoshi Nakamoto to Hal Finney.
    spent = found.inputs(first=170, last=170).to_arrow().to_pylist()[1]
    assert (spent["txid"], spent["vout"], spent["value"], spent["coin_height"]) == (
        "0437cd7f8525ceed2324359c2d0ba26006d92d856a9c20fa0241106ee5a597c9",
        0,
        50 * 100_000_000,
        9,
    )
