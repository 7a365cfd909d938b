"""A directory with a table: a file for each range of heights, and the manifest of `blockmill export`.

The form is the command's (`crates/cli/src/export/manifest.rs`). Here, too, the manifest names a file
before the file gets its name, so a file that it does not name is none of the table's: a process that is
killed, or a full disk, leaves a directory that says that it is not finished. Only the process that has
the lock names files. Workers write under temporary names, which readers of directories skip.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

from ._blockmill import UsageError

MANIFEST = "_blockmill.json"

VERSION = 2

WRITER = "blockmill.distributed.export"
"""What a manifest calls this program, while it writes."""

NAME = re.compile(r"\d{7,}-\d{7,}\.[a-z]+")

TEMPORARY = re.compile(r"_\d.*\.incomplete", re.DOTALL)


def temporary_name(file: Path) -> Path:
    """A name for a file that is being written. Of two workers with the same file, each has its own."""
    return file.with_name(f"_{file.stem}.{uuid4().hex}.incomplete")


@dataclass(frozen=True)
class Partition:
    """A file of the table."""

    file: str
    # The first height, and the last one.
    first: int
    last: int
    hash: str
    rows: int
    bytes: int

    def fields(self) -> dict[str, Any]:
        fields = asdict(self)
        return {
            "file": fields["file"],
            "from": fields["first"],
            "to": fields["last"],
            **{name: fields[name] for name in ("hash", "rows", "bytes")},
        }


def _text(manifest: dict[str, Any]) -> str:
    # As serde_json writes it, of which the checksum is.
    return json.dumps(manifest, indent=2, ensure_ascii=False)


def _checksum(manifest: dict[str, Any]) -> str:
    return sha256(_text(manifest).encode()).digest()[:8].hex()


def _named(manifest: dict[str, Any] | None) -> list[str]:
    return [] if manifest is None else [partition["file"] for partition in manifest["partitions"]]


class TableFolder:
    """A directory that is being written, from `lock` to `close`."""

    def __init__(self, folder: Path, force: bool) -> None:
        self.folder, self.force = folder, force
        self.description: dict[str, Any] = {}
        self._lock: int | None = None
        self._found: dict[str, Any] | None = None

    def lock(self) -> None:
        """Keeps other writers out, and refuses what is there, unless it may be replaced."""
        os.makedirs(self.folder, exist_ok=True)
        self._lock = self._locked()
        self._found = found = self._read()
        writer = None if found is None else found.get("unfinished")
        # What an earlier call of this program has not finished was never a table.
        if found is not None and not self.force and writer != WRITER:
            what = "there is a table already" if writer is None else f"{writer} has not finished this table"
            raise UsageError(f"{self.folder / MANIFEST}: {what}: force=True replaces it")
        self._check_names(_named(found))

    def begin(self, description: dict[str, Any]) -> None:
        """Begins a table, and removes the one that was there."""
        self.description = description
        if self._found is not None:
            # If this is killed, the manifest still names what is to be removed.
            self._write({**self._found, "unfinished": WRITER})
            self._remove(_named(self._found))
        self.clear()
        self._save([], WRITER)

    def finish(self, written: Iterable[tuple[Partition, str]]) -> None:
        """Names the files of all partitions, each of which has a temporary name."""
        written = list(written)
        partitions = [partition for partition, _ in written]
        self._save(partitions, WRITER)
        for partition, temporary in written:
            self._name(temporary, self.folder / partition.file)
        self._sync()
        self.clear()
        # What came meanwhile, where the file system has no locks, say.
        self._check_names([partition.file for partition in partitions])
        self._save(partitions, None)

    def clear(self) -> None:
        """Removes files that have temporary names."""
        self._remove([name for name in os.listdir(self.folder) if TEMPORARY.fullmatch(name)])

    def abandon(self) -> None:
        """Removes what has no name yet, where that is possible: the next call does so, too."""
        if self._lock is not None:
            with suppress(OSError, UsageError):
                self.clear()

    def close(self) -> None:
        """Lets other writers in."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _locked(self) -> int:
        """The directory, locked where its file system has locks."""
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(folder)
            raise UsageError(f"{self.folder}: another process is writing it") from None
        except OSError:
            pass
        return folder

    def _check_names(self, named: list[str]) -> None:
        """Refuses files that are not named. Names that begin with `_` or `.` are no data."""
        for name in sorted(os.listdir(self.folder)):
            if not name.startswith(("_", ".")) and name not in named:
                raise UsageError(
                    f"{self.folder / name}: no manifest names this, and readers of the folder would take it for "
                    "rows: remove it, or choose another folder"
                )

    def _read(self) -> dict[str, Any] | None:
        """The manifest that is there. Its names are those of partitions, so they lead nowhere else."""
        path = self.folder / MANIFEST
        try:
            # To open a pipe would wait for its writer.
            if not stat.S_ISREG(os.lstat(path).st_mode):
                raise ValueError("it is no regular file")
            manifest = json.loads(path.read_bytes())
            if manifest["version"] != VERSION:
                raise ValueError(f"its version is {manifest['version']}, not {VERSION}")
            # Without one, the command takes it, too.
            given = manifest.pop("checksum", None)
            if given is not None and given != _checksum(manifest):
                raise ValueError("its checksum is not that of what stands in it")
            if not all(NAME.fullmatch(partition["file"]) for partition in manifest["partitions"]):
                raise ValueError("it names what is no partition")
        except FileNotFoundError:
            return None
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise UsageError(f"{path}: no manifest of a table: {error}; remove the folder to begin anew") from error
        return dict(manifest)

    def _save(self, partitions: Iterable[Partition], unfinished: str | None) -> None:
        self._write(
            {
                "version": VERSION,
                **self.description,
                **({} if unfinished is None else {"unfinished": unfinished}),
                "partitions": [partition.fields() for partition in partitions],
            }
        )

    def _write(self, manifest: dict[str, Any]) -> None:
        """Writes the manifest durably, and replaces the one before."""
        # Of an unfinished one, and in the command's order, whose checksum is of that.
        partitions = manifest.pop("partitions")
        manifest = {**manifest, "partitions": partitions}
        text = _text({**manifest, "checksum": _checksum(manifest)}) + "\n"
        temporary = self.folder / "__blockmill.incomplete"
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o666)
        try:
            rest = text.encode()
            while rest:
                rest = rest[os.write(file, rest) :]
            os.fsync(file)
        finally:
            os.close(file)
        os.replace(temporary, self.folder / MANIFEST)
        self._sync()

    def _name(self, temporary: str, file: Path) -> None:
        """Gives a file its name, which nothing has: `os.rename` would replace what came meanwhile."""
        try:
            os.link(temporary, file)
        except FileExistsError:
            raise UsageError(f"{file}: there is a file of this name already") from None
        except OSError as error:
            # The file system has no hard links.
            if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK) or file.exists():
                raise
            os.rename(temporary, file)
        else:
            os.unlink(temporary)

    def _remove(self, names: Iterable[str]) -> None:
        """Removes files durably: a manifest that does not name them may come next. Nothing is removed
        where one is no regular file."""
        there = [path for path in (self.folder / name for name in names) if os.path.lexists(path)]
        for path in there:
            if not stat.S_ISREG(os.lstat(path).st_mode):
                raise UsageError(f"{path}: it is no regular file")
        for path in there:
            # A worker that was lost may still be there, and remove what it was writing.
            with suppress(FileNotFoundError):
                os.unlink(path)
        self._sync()

    def _sync(self) -> None:
        if self._lock is None:
            return
        try:
            os.fsync(self._lock)
        except OSError as error:
            # Network drives that have no such call.
            if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
                raise
