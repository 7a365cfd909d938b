"""Types of the native module. The package's functions are its interface."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

__version__: str

class BlockmillError(Exception):
    """What all errors of this package are."""

class UsageError(BlockmillError):
    """An argument cannot be used."""

class FileError(BlockmillError):
    """A file, a snapshot or a data directory cannot be read or written."""

class KeyFileError(BlockmillError):
    """A key file cannot be read or written, is none, or others can read it."""

class PartError(BlockmillError):
    """Bytes are no part of this run, or parts do not join."""

class IncompleteError(BlockmillError):
    """Block files do not hold a whole chain."""

class CursorError(BlockmillError):
    """A feed cannot go on from a cursor: begin anew."""

class DecodeError(BlockmillError):
    """Bytes are no block, no transaction or no undo data."""

class Key:
    """The secret of a run. Its pickles have the secret, its `repr` has not."""

    @staticmethod
    def draw() -> Key:
        """A new one, from the operating system's random numbers."""
    @staticmethod
    def read(path: str) -> Key:
        """That of a file, which others than its owner must not be able to read."""
    def write(self, path: str) -> None:
        """Writes a new file that only its owner can read."""
    @property
    def run(self) -> str:
        """The name of the run: a hash of the key."""

class Chain:
    """A chain of block files, and where its blocks are."""

    @property
    def network(self) -> str: ...
    @property
    def height(self) -> int: ...
    def hash(self, height: int) -> str:
        """Hash of the block at a height."""
    @property
    def why(self) -> list[str]:
        """Why the block files do not hold a whole chain."""
    def table(
        self,
        name: str,
        first: int,
        last: int | None,
        binary: bool,
        threads_wanted: int | None,
        may_be_partial: bool,
        is_alone: bool,
    ) -> Rows:
        """A table of the blocks of some heights."""
    def ranges(self, bytes: int) -> list[tuple[int, int, int]]:
        """Ranges of heights for parts of about so many bytes of blocks: first, last, bytes."""

Hear: TypeAlias = Callable[[str, dict[str, Any]], None]

class Rows:
    """A table, whose rows are made when they are read."""

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
    @property
    def without_undo(self) -> int:
        """Blocks at the end of the chain that are left out, since they have no undo data yet."""
    def schema(self) -> object:
        """The schema, as a capsule."""
    def stream(self) -> object:
        """A stream of all rows, as a capsule."""
    def raise_last(self) -> None:
        """Raises what the last stream has ended with."""

class Events:
    """Events, one after the other."""

    def next(self) -> bytes | None:
        """The next event as a line of JSON; none at the end."""
    def rows(self) -> Rows:
        """All events as a table: from the first one on, whatever was taken."""

class Set:
    """The set of a data directory, as it was after the block that was the tip when it was opened."""

    @property
    def path(self) -> Path: ...
    @property
    def network(self) -> str: ...
    @property
    def height(self) -> int: ...
    @property
    def tip(self) -> str: ...
    def at(self, height: int, hear: Hear) -> Set:
        """The set after an earlier block."""
    def coin(self, outpoint: str) -> dict[str, Any] | None:
        """The coin of an outpoint as a dictionary, or none."""
    def coins(self, wanted: list[str] | None, last_index: int, binary: bool) -> Rows:
        """All coins, or those of some scripts, as a table."""
    def balance(
        self, texts: list[str], last_index: int, hear: Hear
    ) -> tuple[list[tuple[int, int]], tuple[int, int]]:
        """The number of coins and the satoshi of each text, and of all."""
    def stats(self, serialized: bool, muhash: bool, hear: Hear) -> dict[str, Any]:
        """The figures of the set as a dictionary."""
    def table(self, name: str, first: int, last: int | None, binary: bool, hear: Hear) -> Rows:
        """A table of the blocks up to the tip."""
    def feed(self, cursor: str, is_followed: bool) -> Events:
        """What has happened to the chain since a block, as events."""

def validate_block(
    block: bytes, coins: Any, context: dict[str, Any], threads: int, signatures: str
) -> dict[str, Any]: ...
def verify_transaction(transaction: bytes, coins: Any, flags: int, signatures: str) -> dict[str, Any]: ...
def verify_signatures(checks: list[Any], signatures: str) -> list[bool]: ...
def open_set(path: str, blocks: list[str], threads_wanted: int | None) -> Set: ...

def audit_files(
    blocks: list[str],
    network: str,
    challenge: bytes | None,
    snapshot: str,
    resume: str | None,
    threads_wanted: int | None,
    signatures_wanted: str,
    hear: Hear,
) -> dict[str, Any]: ...
def audit_data(
    data: str,
    blocks: list[str],
    resume: str | None,
    threads_wanted: int | None,
    signatures_wanted: str,
    hear: Hear,
) -> dict[str, Any]: ...
def join_states(before: bytes, next: bytes) -> bytes: ...
def sets_after(
    before: bytes, states: list[bytes]
) -> tuple[list[int], list[int], list[int], list[int], list[bytes | None]]: ...
def index_chain(
    blocks: list[str],
    network: str,
    challenge: bytes | None,
    headers_of_others: bytes | None,
    snapshot: str | None,
    hear: Hear,
) -> Chain | dict[str, Any]: ...
def audit_part(
    chain: Chain,
    key: Key,
    first: int,
    last: int,
    threads_wanted: int | None,
    signatures_wanted: str,
    hear: Hear,
) -> tuple[bytes | None, list[dict[str, Any]], float]: ...
def read_part(key: Key, bytes: bytes) -> dict[str, Any]: ...
def join_parts(key: Key, parts: tuple[bytes, ...]) -> bytes: ...
def merge_parts(
    key: Key,
    parts: list[tuple[str, bytes]],
    snapshot: str | None,
    data: str | None,
    threads_wanted: int | None,
    hear: Hear,
) -> dict[str, Any]: ...
