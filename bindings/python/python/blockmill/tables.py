"""Coins, blocks and what happens to them, as tables and events.

>>> import blockmill, duckdb  # doctest: +SKIP
>>> coins = blockmill.open("~/blockmill").coins()  # doctest: +SKIP
>>> duckdb.sql("select script_type, sum(value) from coins group by 1").show()  # doctest: +SKIP

A table is read by what takes Apache Arrow through its interface of capsules: pyarrow, polars, DuckDB,
pandas. Its rows are made while they are read, on all threads, without the interpreter's lock; memory
holds a few batches of them. Amounts are in satoshi; names are those of `blockmill export`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, Union

from ._blockmill import Chain, Events, IncompleteError, Rows, Set, UsageError, index_chain, open_set
from ._shared import OnProgress, PathLike, Paths, hear_with, log, path_text, path_texts

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

T = TypeVar("T")

Texts = Union[str, Iterable[str]]

INDICES = 1000
"""Indices of descriptors with a wildcard, as in Core: from 0 to this one."""


class Table:
    """Rows, which are made when they are read.

    Whatever takes an Arrow stream takes a table: `pyarrow.table(t)`, `polars.DataFrame(t)`,
    `duckdb.sql("select * from t")`, `pandas.DataFrame.from_arrow(t)`. Each reads it from its beginning.
    """

    def __init__(self, name: str, rows: Rows) -> None:
        self.name = name
        """What the rows are."""
        self._rows = rows

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self._rows.columns)

    def __arrow_c_schema__(self) -> object:
        """The schema, for other libraries."""
        return self._rows.schema()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """A stream of all rows, for other libraries. No other schema than the table's can be had."""
        return self._rows.stream()

    def __repr__(self) -> str:
        return f"Table({self.name}: {', '.join(self.columns)})"

    def _read(self, read: Callable[[], T]) -> T:
        """Raises the table's own error where `read` raises another library's for it."""
        try:
            return read()
        except BaseException as error:
            # An older polars panics, which is no `Exception`.
            try:
                self._rows.raise_last()
            except BaseException as own:
                raise own from error
            raise

    def batches(self) -> Iterator[pyarrow.RecordBatch]:
        """Some rows at a time, as record batches of pyarrow."""
        import pyarrow

        reader = pyarrow.RecordBatchReader.from_stream(self)

        def next_batch() -> pyarrow.RecordBatch | None:
            try:
                return reader.read_next_batch()
            except StopIteration:
                return None

        while (batch := self._read(next_batch)) is not None:
            yield batch

    def to_arrow(self) -> pyarrow.Table:
        """All rows, as a table of pyarrow."""
        import pyarrow

        schema = pyarrow.schema(self)
        return pyarrow.Table.from_batches(self.batches(), schema=schema)

    def to_pandas(self) -> pandas.DataFrame:
        """All rows, as a frame of pandas. It needs pyarrow."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """All rows, as a frame of polars."""
        import polars

        return self._read(lambda: polars.DataFrame(self))


@dataclass(frozen=True)
class Coin:
    """An unspent output. `value` is in satoshi, `script` in hex, `script_type` Core's word."""

    txid: str
    vout: int
    height: int
    coinbase: bool
    value: int
    script: str
    script_type: str
    address: str | None


@dataclass(frozen=True)
class Stats:
    """Figures of a set, with the names of Core's `gettxoutsetinfo`; `total_amount` is in satoshi."""

    height: int
    bestblock: str
    txouts: int
    bogosize: int
    transactions: int
    total_amount: int
    hash_serialized_3: str | None
    muhash: str | None
    disk_size: int


@dataclass(frozen=True)
class Balance:
    """The coins of what was asked for: their number, and their sum in satoshi."""

    satoshi: int
    coins: int
    by_text: dict[str, int]
    """The sum of each text. A coin that two of them stand for is in both, and once in `satoshi`."""


class Feed:
    """Events of a chain from a cursor on, one after the other.

    Each is a dictionary as docs/feed.md has it: `event` is `connected`, `disconnected` or `tip`, blocks
    have their transactions with the coins that they spend. The cursor for the next time is the hash of
    the last block that was handled; of one that was disconnected its `previous_block_hash`.
    """

    def __init__(self, events: Events) -> None:
        self._events = events

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self

    def __next__(self) -> dict[str, Any]:
        line = self._events.next()
        if line is None:
            raise StopIteration
        event: dict[str, Any] = json.loads(line)
        return event

    def table(self) -> Table:
        """All events as a table, a row for each, from the cursor on."""
        return Table("events", self._events.rows())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The events as a stream of Arrow, for other libraries."""
        return self.table().__arrow_c_stream__(requested_schema)


class _BlockTables:
    """Tables of blocks: of heights `first` to `last`, both included. If `last` is None they go to the
    tip, or to the last block with undo data, and the log says so.

    `binary` gives ids as the 32 bytes that their hex stands for.
    """

    def _table(self, name: str, first: int, last: int | None, binary: bool) -> Rows:
        raise NotImplementedError

    def table(self, name: str, *, first: int = 0, last: int | None = None, binary: bool = False) -> Table:
        """The table of this name, as `blockmill export` has it."""
        rows = self._table(name, first, last, binary)
        if rows.without_undo:
            # As where a node is writing.
            left_out = "block" if rows.without_undo == 1 else f"{rows.without_undo} blocks"
            log.warning("the undo files have nothing yet for the last %s: left out", left_out)
        return Table(name, rows)

    def transactions(self, *, first: int = 0, last: int | None = None, binary: bool = False) -> Table:
        """A row for each transaction: sizes, weight, fee, numbers of inputs and outputs."""
        return self.table("transactions", first=first, last=last, binary=binary)

    def inputs(self, *, first: int = 0, last: int | None = None, binary: bool = False) -> Table:
        """A row for each input, with the coin that it spends."""
        return self.table("inputs", first=first, last=last, binary=binary)

    def outputs(self, *, first: int = 0, last: int | None = None, binary: bool = False) -> Table:
        """A row for each output, spent or not."""
        return self.table("outputs", first=first, last=last, binary=binary)

    def spenders(self, *, first: int = 0, last: int | None = None, binary: bool = False) -> Table:
        """A row for each outpoint that is spent, with the input that spends it."""
        return self.table("spenders", first=first, last=last, binary=binary)

    def positions(self, *, first: int = 0, last: int | None = None, binary: bool = False) -> Table:
        """A row for each transaction: in which block file it lies, and where."""
        return self.table("positions", first=first, last=last, binary=binary)

    def filters(self, *, first: int = 0, last: int | None = None, binary: bool = False) -> Table:
        """A row for each block, with its basic filter (BIP 158) and the header of that."""
        return self.table("filters", first=first, last=last, binary=binary)

    def statistics(self, *, first: int = 0, last: int | None = None, binary: bool = False) -> Table:
        """A row for each block: its figures, and those of the set after it, MuHash included."""
        return self.table("statistics", first=first, last=last, binary=binary)


def _texts(texts: Texts) -> list[str]:
    return [texts] if isinstance(texts, str) else list(texts)


class UtxoSet(_BlockTables):
    """The set of a data directory, after the block that was the tip when it was opened.

    It stays that set while another process connects blocks. It can be pickled: the process that takes
    it opens the directory itself. After a fork it is refused.
    """

    def __init__(self, opened: Set, arguments: tuple[Any, ...]) -> None:
        self._set = opened
        self._arguments = arguments

    @property
    def network(self) -> str:
        """`bitcoin`, `testnet3`, `testnet4`, `signet` or `regtest`."""
        return self._set.network

    @property
    def height(self) -> int:
        """Height of the last block."""
        return self._set.height

    @property
    def tip(self) -> str:
        """Hash of the last block."""
        return self._set.tip

    def __repr__(self) -> str:
        return f"UtxoSet({str(self._set.path)!r}, network={self.network!r}, height={self.height})"

    def __reduce__(self) -> tuple[Callable[..., UtxoSet], tuple[Any, ...]]:
        return (_open_at, (self.height, self.tip, *self._arguments))

    def at(self, height: int, *, progress: OnProgress | None = None) -> UtxoSet:
        """The set as it was after an earlier block. The blocks above it are read.

        Raises `UsageError` where there is no such block.
        """
        return UtxoSet(self._set.at(height, hear_with(progress)), self._arguments)

    def stats(
        self,
        *,
        hash_serialized_3: bool = True,
        muhash: bool = False,
        progress: OnProgress | None = None,
    ) -> Stats:
        """Figures of the set, and its hashes."""
        return Stats(**self._set.stats(hash_serialized_3, muhash, hear_with(progress)))

    def coin(self, txid: str, vout: int | None = None) -> Coin | None:
        """The coin of an outpoint, `coin("TXID:VOUT")` or `coin("TXID", VOUT)`; None if there is none."""
        found = self._set.coin(txid if vout is None else f"{txid}:{vout}")
        return None if found is None else Coin(**found)

    def coins(
        self,
        *,
        at: int | None = None,
        where: Texts | None = None,
        range: int = INDICES,
        binary: bool = False,
    ) -> Table:
        """A row for each coin.

        at: the set after an earlier block.
        where: addresses, output descriptors, and scripts as `raw:HEX`; only their coins.
        range: the last index of descriptors with a wildcard.
        """
        opened = self._set if at is None or at == self.height else self._set.at(at, hear_with(None))
        wanted = None if where is None else _texts(where)
        return Table("coins", opened.coins(wanted, range, binary))

    def balance(
        self,
        texts: Texts,
        *,
        at: int | None = None,
        range: int = INDICES,
        progress: OnProgress | None = None,
    ) -> Balance:
        """The coins of addresses, output descriptors and scripts as `raw:HEX`, in one pass over all.

        Raises `UsageError` if a text is none of these.
        """
        opened = self._set if at is None or at == self.height else self._set.at(at, hear_with(progress))
        asked = _texts(texts)
        sums, (coins, satoshi) = opened.balance(asked, range, hear_with(progress))
        by_text = {text: of_text for text, (_, of_text) in zip(asked, sums, strict=True)}
        return Balance(satoshi=satoshi, coins=coins, by_text=by_text)

    def feed(self, cursor: int | str = 0, *, follow: bool = False) -> Feed:
        """What has happened to the chain since a block, and with `follow` all that happens from now on.

        cursor: the hash of the block that was handled last, or its height; 0 for who has nothing yet.

        Events are durable. With `follow` it waits for what cannot be read for a while, as block files
        that a node writes anew, and for a directory that has not connected the cursor's block yet, and
        says so in the log; without it that is a `FileError`.

        Raises `CursorError` where there is nothing to go on with.
        """
        if isinstance(cursor, bool) or not isinstance(cursor, (int, str)):
            raise TypeError(f"cursor: expected a height or a hash, found {type(cursor).__name__}")
        return Feed(self._set.feed(str(cursor), follow))

    def _table(self, name: str, first: int, last: int | None, binary: bool) -> Rows:
        return self._set.table(name, first, last, binary, hear_with(None))


class Blocks(_BlockTables):
    """The chain of some block files."""

    def __init__(self, chain: Chain, threads: int | None, partial: bool) -> None:
        self.chain = chain
        """The chain, for `audit_part`."""
        self._threads = threads
        self._partial = partial

    @property
    def network(self) -> str:
        """The network that was named."""
        return self.chain.network

    @property
    def height(self) -> int:
        """Height of the last block."""
        return self.chain.height

    @property
    def tip(self) -> str:
        """Hash of the last block."""
        return self.chain.hash(self.chain.height)

    @property
    def why(self) -> tuple[str, ...]:
        """Why the files do not hold a whole chain."""
        return tuple(self.chain.why)

    def __repr__(self) -> str:
        return f"Blocks(network={self.network!r}, height={self.height})"

    def _table(self, name: str, first: int, last: int | None, binary: bool) -> Rows:
        return self.chain.table(name, first, last, binary, self._threads, self._partial, False)


def open(
    data: PathLike,
    *,
    blocks: Paths | None = None,
    threads: int | None = None,
) -> UtxoSet:
    """Opens a data directory, as `blockmill connect` and `follow` make it. Others may write to it.

    blocks: directories of block files, or such files, if they are no longer where they were.
    threads: all cores, if it is None.

    Raises `FileError` if it cannot be read.
    """
    arguments = (path_text(data), path_texts(blocks), threads)
    return UtxoSet(open_set(*arguments), arguments)


def _open_at(height: int, tip: str, *arguments: Any) -> UtxoSet:
    """The set after a block, in another process."""
    opened = UtxoSet(open_set(*arguments), arguments)
    if opened.tip != tip:
        opened = opened.at(height)
    if opened.tip != tip:
        raise UsageError(f"block {tip} (height {height}) is no longer on the chain: open the directory anew")
    return opened


def blocks(
    paths: Paths,
    network: str,
    *,
    signet_challenge: bytes | None = None,
    threads: int | None = None,
    partial: bool = False,
    progress: OnProgress | None = None,
) -> Blocks:
    """The chain of most work in block files, with the undo files beside them.

    paths: directories of `blk*.dat` files, or such files.
    network: `bitcoin` (or `main`), `testnet3`, `testnet4`, `signet` or `regtest`.
    signet_challenge: of a signet with its own one.
    threads: all cores, if it is None.
    partial: the chain that there is, also where the files do not hold a whole one.
    progress: is called with `Progress`, some times a second, on this thread.

    Raises `IncompleteError` if the files do not hold a whole chain, `UsageError` if there is no path.
    """
    texts = path_texts(paths)
    if not texts:
        raise UsageError("paths: at least one is needed")
    chain = index_chain(texts, network, signet_challenge, None, None, hear_with(progress))
    assert isinstance(chain, Chain)
    if chain.why and not partial:
        raise IncompleteError("; ".join(chain.why))
    return Blocks(chain, threads, partial)
