"""Tables of blocks, made on a cluster of Dask."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING
from uuid import uuid4

from distributed import as_completed, get_worker

from ._blockmill import Chain, IncompleteError, UsageError, index_chain
from ._shared import OnProgress, PathLike, Paths, Progress, hear_with, path_text, path_texts
from ._tasks import Tasks, stop_if_cancelled
from .tables import Table

if TYPE_CHECKING:
    import pyarrow
    from distributed import Client

FILTERS = "filters"

STATISTICS = "statistics"
"""Its rows rest on the set after all blocks below: one task makes them all."""

HEADER_OF_NONE = bytes(32)
"""The header of the filter before the first one."""


def _index(name: str, blocks: list[str], network: str, challenge: bytes | None) -> Chain:
    chain = index_chain(blocks, network, challenge, None, None, hear_with(stop_if_cancelled(name)))
    assert isinstance(chain, Chain)
    if chain.why:
        raise IncompleteError("; ".join(chain.why))
    return chain


def _height(chain: Chain) -> int:
    return chain.height


def _write(batches: Iterable[pyarrow.RecordBatch], schema: pyarrow.Schema, file: Path) -> None:
    """Writes a file of Parquet, which gets its name when it is complete."""
    import pyarrow.parquet

    # Another worker may have begun with the same file, and have been lost.
    temporary = file.with_name(f"{file.name}.{uuid4().hex}.incomplete")
    try:
        with pyarrow.parquet.ParquetWriter(temporary, schema, compression="zstd") as writer:
            for batch in batches:
                writer.write_batch(batch)
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
        os.replace(temporary, file)
    finally:
        temporary.unlink(missing_ok=True)


def _rows(
    name: str, chain: Chain, table: str, first: int, last: int, binary: bool, threads: int, file: str
) -> bytes:
    """Writes the rows of some blocks. Returns the hashes of their filters, one after the other."""
    import pyarrow

    # Filters have their headers when all filters below are known.
    rows = Table(table, chain.table(table, first, last, binary, threads, False, True))
    look = stop_if_cancelled(name)
    hashes: list[bytes] = []

    def batches() -> Iterator[pyarrow.RecordBatch]:
        for batch in rows.batches():
            look(Progress(phase="blocks", share=0.0))
            if table == FILTERS:
                hashes.extend(_bytes_of(batch["filter_hash"]))
            yield batch

    to = _without_headers(Path(file)) if table == FILTERS else Path(file)
    _write(batches(), pyarrow.schema(rows), to)
    return b"".join(hashes)


def _whole_rows(
    name: str, chain: Chain, table: str, partition: int, binary: bool, threads: int, files: list[str]
) -> bytes:
    """Writes the rows of all blocks, in one pass over them."""
    import pyarrow

    threads = max(threads, get_worker().state.nthreads)
    rows = Table(table, chain.table(table, 0, chain.height, binary, threads, False, False))
    look = stop_if_cancelled(name)
    schema = pyarrow.schema(rows)
    waiting: list[pyarrow.RecordBatch] = []
    number = 0
    for batch in rows.batches():
        look(Progress(phase="blocks", share=0.0))
        first, end = batch["height"][0].as_py(), batch["height"][-1].as_py() + 1
        # A row for each block, so rows are counted as heights are.
        while first < end:
            length = min(end, (number + 1) * partition) - first
            waiting.append(batch.slice(batch.num_rows - (end - first), length))
            first += length
            if first == (number + 1) * partition:
                _write(waiting, schema, Path(files[number]))
                waiting, number = [], number + 1
    if waiting:
        _write(waiting, schema, Path(files[number]))
    return b""


def _bytes_of(ids: pyarrow.Array) -> Iterator[bytes]:
    """Ids in the order in which they are hashed."""
    for given in ids.to_pylist():
        yield (given if isinstance(given, bytes) else bytes.fromhex(given))[::-1]


def _header(filter_hash: bytes, before: bytes) -> bytes:
    return sha256(sha256(filter_hash + before).digest()).digest()


def _without_headers(file: Path) -> Path:
    """The file of filters that have no headers yet."""
    return file.with_name(file.name + ".part")


def _complete(file: str, before: bytes) -> None:
    """Gives the filters of a file their headers, which rest on the header before them."""
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(_without_headers(Path(file))) as source:
        schema = source.schema_arrow
        groups = [source.read_row_group(number) for number in range(source.num_row_groups)]
    at = schema.get_field_index("filter_header")
    column = schema.field(at)
    batches = []
    for group in groups:
        headers = []
        for filter_hash in _bytes_of(group["filter_hash"]):
            before = _header(filter_hash, before)
            shown = before[::-1]
            headers.append(shown if pyarrow.types.is_fixed_size_binary(column.type) else shown.hex())
        batches.extend(group.set_column(at, column, pyarrow.array(headers, column.type)).to_batches())
    _write(batches, schema, Path(file))


def export(
    client: Client,
    blocks: Paths,
    network: str,
    tables: str | Iterable[str],
    out: PathLike,
    *,
    partition: int = 10_000,
    binary: bool = False,
    threads: int = 1,
    signet_challenge: bytes | None = None,
    retries: int = 3,
    progress: OnProgress | None = None,
) -> dict[str, list[Path]]:
    """Writes tables of all blocks as files of Parquet, on the workers of a cluster.

    blocks, network, signet_challenge: as for `blockmill.blocks`, as the workers see them.
    tables: one name or several, of `Blocks.table`.
    out: a folder that client and workers share. Each table gets a folder in it, with a file for each
    range of heights, `0000000-0009999.parquet`.
    partition: blocks in a file.
    binary: ids as 32 bytes.
    threads: of a task. A worker runs as many tasks at once as it has threads.
    retries: how often a task that fails is tried again, on any worker.
    progress: is called on this thread when a file is done.

    Returns the files of each table, in the order of blocks. The same blocks give the same bytes,
    whichever workers there are, and if some die. Raises `IncompleteError` if the files do not hold a
    whole chain.
    """
    names = [tables] if isinstance(tables, str) else list(dict.fromkeys(tables))
    if partition < 1 or threads < 1 or retries < 0 or not names:
        raise UsageError("partition and threads are at least 1, retries at least 0, and tables has a name")
    start = monotonic()
    tasks = Tasks(client, uuid4().hex[:12], retries)
    try:
        paths = path_texts(blocks)
        chain = tasks.submit("index", "0", _index, paths, network, signet_challenge, named=True)
        height = tasks.submit("height", "0", _height, chain).result()
        folders = {name: Path(path_text(out)) / name for name in names}
        for folder in folders.values():
            folder.mkdir(parents=True, exist_ok=True)
        ranges = [(first, min(first + partition - 1, height)) for first in range(0, height + 1, partition)]
        files = {
            name: [folders[name] / f"{first:07}-{first + partition - 1:07}.parquet" for first, _ in ranges]
            for name in names
        }
        parts = {
            tasks.submit(
                name, f"{first:07}", _rows, chain, name, first, last, binary, threads, str(file), named=True
            ): last - first + 1
            for name in names
            if name != STATISTICS
            for (first, last), file in zip(ranges, files[name], strict=True)
        }
        if STATISTICS in names:
            of_all = [str(file) for file in files[STATISTICS]]
            arguments = (chain, STATISTICS, partition, binary, threads, of_all)
            parts[tasks.submit(STATISTICS, "0", _whole_rows, *arguments, named=True)] = height + 1
        whole, done = sum(parts.values()), 0
        hashes: dict[str, bytes] = {}
        for part in as_completed(parts):
            # It raises what has gone wrong.
            hashes[str(part.key)] = part.result()
            done += parts[part]
            if progress is not None:
                progress(Progress(phase="blocks", share=done / whole, seconds=monotonic() - start))
        if FILTERS in names:
            of_filters = [hashes[str(part.key)] for part in parts if f"-{FILTERS}-" in str(part.key)]
            _complete_all(tasks, of_filters, files[FILTERS])
        return files
    except BaseException:
        tasks.cancel()
        raise
    finally:
        tasks.release()


def _complete_all(tasks: Tasks, hashes: list[bytes], files: list[Path]) -> None:
    """Gives all filters their headers, by the hashes of the filters of each file."""
    before, completed = HEADER_OF_NONE, []
    for number, (of_file, file) in enumerate(zip(hashes, files, strict=True)):
        completed.append(tasks.submit("header", f"{number:07}", _complete, str(file), before))
        for at in range(0, len(of_file), 32):
            before = _header(of_file[at : at + 32], before)
    for task in completed:
        task.result()
    for file in files:
        _without_headers(file).unlink()
