"""Types of the native module. The package's functions are its interface."""

from collections.abc import Callable
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
    def ranges(self, bytes: int) -> list[tuple[int, int, int]]:
        """Ranges of heights for parts of about so many bytes of blocks: first, last, bytes."""

Hear: TypeAlias = Callable[[str, dict[str, Any]], None]

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
