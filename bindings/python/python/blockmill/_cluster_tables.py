"""Tables of blocks, made on a cluster of Dask."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from distributed import as_completed

from ._blockmill import Chain, IncompleteError, UsageError, index_chain, join_states, sets_after
from ._shared import OnProgress, PathLike, Paths, Progress, hear_with, path_text, path_texts
from ._table_folder import Partition, TableFolder, temporary_name
from ._tasks import Tasks, stop_if_cancelled
from .tables import Table

if TYPE_CHECKING:
    import pyarrow
    from distributed import Client

FILTERS = "filters"

STATISTICS = "statistics"

STATE = "state"
"""The column of what each block and those below it in its range change in the set."""

OF_SETS = ("txouts", "bogosize", "total_amount", "total_unspendable_amount", "muhash")
"""The columns of statistics that rest on the set after all blocks below."""

OF_NONE = {FILTERS: bytes(32), STATISTICS: b""}
"""The tables whose rows rest on all blocks below, and what the first rows rest on: the header of the
filter before the first one, and the state of no blocks."""


def _index(name: str, blocks: list[str], network: str, challenge: bytes | None) -> Chain:
    chain = index_chain(blocks, network, challenge, None, None, hear_with(stop_if_cancelled(name)))
    assert isinstance(chain, Chain)
    if chain.why:
        raise IncompleteError("; ".join(chain.why))
    return chain


def _facts(
    chain: Chain, tables: list[str], partition: int, binary: bool
) -> tuple[str, list[tuple[int, int, str]], dict[str, list[str]]]:
    """The network; of each partition the first and the last height, and the hash of its last block; the
    columns of each table."""
    firsts = range(0, chain.height + 1, partition)
    lasts = [min(first + partition - 1, chain.height) for first in firsts]
    columns = {
        table: [
            column
            for column in chain.table(table, 0, 0, binary, 1, False, True).columns
            if table != STATISTICS or column != STATE
        ]
        for table in tables
    }
    ranges = [(first, last, chain.hash(last)) for first, last in zip(firsts, lasts, strict=True)]
    return chain.network, ranges, columns


def _write(
    batches: Iterable[pyarrow.RecordBatch], schema: pyarrow.Schema, file: Path
) -> tuple[str, int, int]:
    """Writes a file of Parquet under a temporary name. Returns that, and its rows and bytes."""
    import pyarrow.parquet

    temporary, rows = temporary_name(file), 0
    try:
        with pyarrow.parquet.ParquetWriter(temporary, schema, compression="zstd") as writer:
            for batch in batches:
                writer.write_batch(batch)
                rows += batch.num_rows
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
            return str(temporary), rows, os.fstat(written.fileno()).st_size
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _rows(
    name: str, chain: Chain, table: str, first: int, last: int, binary: bool, threads: int, file: str
) -> tuple[tuple[str, int, int], bytes]:
    """Writes the rows of some blocks. Returns the file, and what the rows above rest on: the hashes of
    their filters, one after the other, or what they change in the set."""
    import pyarrow

    # What rests on the blocks below is put in when all of those are known.
    rows = Table(table, chain.table(table, first, last, binary, threads, False, True))
    look = stop_if_cancelled(name)
    rest: list[bytes] = []

    def batches() -> Iterator[pyarrow.RecordBatch]:
        for batch in rows.batches():
            look(Progress(phase="blocks", share=0.0))
            if table == FILTERS:
                rest.extend(_bytes_of(batch["filter_hash"]))
            elif table == STATISTICS:
                rest[:] = [batch[STATE][-1].as_py()]
            yield batch

    return _write(batches(), pyarrow.schema(rows), Path(file)), b"".join(rest)


def _bytes_of(ids: pyarrow.Array) -> Iterator[bytes]:
    """Ids in the order in which they are hashed."""
    for given in ids.to_pylist():
        yield (given if isinstance(given, bytes) else bytes.fromhex(given))[::-1]


def _header(filter_hash: bytes, before: bytes) -> bytes:
    return sha256(sha256(filter_hash + before).digest()).digest()


def _above(table: str, before: bytes, part: bytes) -> bytes:
    """What the rows above a part rest on."""
    if table == STATISTICS:
        return join_states(before, part)
    for at in range(0, len(part), 32):
        before = _header(part[at : at + 32], before)
    return before


def _shown(ids: Iterable[bytes | None], form: pyarrow.DataType) -> list[bytes | str | None]:
    """Ids in the form of a column."""
    import pyarrow

    if pyarrow.types.is_fixed_size_binary(form):
        return list(ids)
    return [given if given is None else given.hex() for given in ids]


def _headers(group: pyarrow.Table, before: bytes) -> tuple[dict[str, list[Any]], bytes]:
    headers = []
    for filter_hash in _bytes_of(group["filter_hash"]):
        before = _header(filter_hash, before)
        headers.append(before[::-1])
    form = group.schema.field("filter_header").type
    return {"filter_header": _shown(headers, form)}, before


def _sets(group: pyarrow.Table, before: bytes) -> dict[str, list[Any]]:
    *figures, hashes = sets_after(before, group[STATE].to_pylist())
    form = group.schema.field("muhash").type
    return dict(zip(OF_SETS, [*figures, _shown(hashes, form)], strict=True))


def _complete(table: str, rows: str, file: str, before: bytes) -> tuple[str, int, int]:
    """Gives rows what rests on the blocks below. Returns their file."""
    import pyarrow
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(rows) as source:
        groups = [source.read_row_group(number) for number in range(source.num_row_groups)]
        schema = source.schema_arrow
    batches = []
    for group in groups:
        if table == FILTERS:
            columns, before = _headers(group, before)
        else:
            # The states of a file go on from its first row.
            columns = _sets(group, before)
            group = group.drop_columns([STATE])
        for name, column in columns.items():
            field = group.schema.field(name)
            at = group.schema.get_field_index(name)
            group = group.set_column(at, field, pyarrow.array(column, field.type))
        schema = group.schema
        batches.extend(group.to_batches())
    return _write(batches, schema, Path(file))


def export(
    client: Client,
    blocks: Paths,
    network: str,
    tables: str | Iterable[str],
    out: PathLike,
    *,
    partition: int = 10_000,
    binary: bool = False,
    force: bool = False,
    threads: int = 1,
    signet_challenge: bytes | None = None,
    retries: int = 3,
    progress: OnProgress | None = None,
) -> dict[str, list[Path]]:
    """Writes tables of all blocks as files of Parquet, on the workers of a cluster.

    blocks, network, signet_challenge: as for `blockmill.blocks`, as the workers see them.
    tables: one name or several, of `Blocks.table`.
    out: a folder that client and workers share. Each table gets a folder in it, with a file for each
    range of heights, `0000000-0009999.parquet`, and the manifest of `blockmill export`. Files get their
    names when all are complete.
    partition: blocks in a file.
    binary: ids as 32 bytes.
    force: a table that is there is replaced as a whole, whatever program has written it; else it is
    refused, unless an earlier call of this function has not finished it.
    threads: of a task. A worker runs as many tasks at once as it has threads.
    retries: how often a task that fails is tried again, on any worker.
    progress: is called on this thread when a file is done.

    Returns the files of each table, in the order of blocks. The same blocks give the same bytes,
    whichever workers there are, and if some die. Raises `IncompleteError` if the files do not hold a
    whole chain, `UsageError` if a folder has what is not to be replaced, or another process writes it.
    """
    names = [tables] if isinstance(tables, str) else list(dict.fromkeys(tables))
    if partition < 1 or threads < 1 or retries < 0 or not names:
        raise UsageError("partition and threads are at least 1, retries at least 0, and tables has a name")
    start = monotonic()
    tasks = Tasks(client, uuid4().hex[:12], retries)
    folders = {name: TableFolder(Path(path_text(out)) / name, force) for name in names}
    try:
        paths = path_texts(blocks)
        chain = tasks.submit("index", "0", _index, paths, network, signet_challenge, named=True)
        network, ranges, columns = tasks.submit("facts", "0", _facts, chain, names, partition, binary).result()
        # What is refused is refused before anything is removed.
        for folder in folders.values():
            folder.lock()
        for name, folder in folders.items():
            folder.begin(
                {
                    "table": name,
                    "columns": columns[name],
                    "format": "parquet",
                    "ids": "binary" if binary else "hex",
                    "network": network,
                    "blocks_per_partition": partition,
                    "from": 0,
                }
            )
        files = {
            name: [folder.folder / f"{first:07}-{first + partition - 1:07}.parquet" for first, _, _ in ranges]
            for name, folder in folders.items()
        }
        parts = {
            tasks.submit(
                name, f"{first:07}", _rows, chain, name, first, last, binary, threads, str(file), named=True
            ): (name, number, last - first + 1)
            for name in names
            for number, ((first, last, _), file) in enumerate(zip(ranges, files[name], strict=True))
        }
        whole, done = sum(blocks for _, _, blocks in parts.values()), 0
        made: dict[tuple[str, int], tuple[tuple[str, int, int], bytes]] = {}
        for part in as_completed(parts):
            name, number, count = parts[part]
            # It raises what has gone wrong.
            made[name, number] = part.result()
            done += count
            if progress is not None:
                progress(Progress(phase="blocks", share=done / whole, seconds=monotonic() - start))
        of_table = {name: [made[name, number] for number in range(len(ranges))] for name in names}
        written = {
            name: _complete_all(tasks, name, of_table[name], files[name])
            if name in OF_NONE
            else [file for file, _ in of_table[name]]
            for name in names
        }
        # A lost result that somebody holds would be made once more.
        parts.clear()
        tasks.release()
        for name, folder in folders.items():
            folder.finish(
                (Partition(file.name, first, last, block, rows, length), temporary)
                for (first, last, block), file, (temporary, rows, length) in zip(
                    ranges, files[name], written[name], strict=True
                )
            )
        return files
    except BaseException:
        tasks.cancel()
        for folder in folders.values():
            folder.abandon()
        raise
    finally:
        tasks.release()
        for folder in folders.values():
            folder.close()


def _complete_all(
    tasks: Tasks, table: str, made: list[tuple[tuple[str, int, int], bytes]], files: list[Path]
) -> list[tuple[str, int, int]]:
    """Completes all rows of a table, by what those of each file leave to the next one. Returns the
    files."""
    before, completed = OF_NONE[table], []
    for number, (((rows, _, _), rest), file) in enumerate(zip(made, files, strict=True)):
        completed.append(
            tasks.submit(f"complete-{table}", f"{number:07}", _complete, table, rows, str(file), before)
        )
        before = _above(table, before, rest)
    return [task.result() for task in completed]
