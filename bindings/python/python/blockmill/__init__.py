"""The UTXO set and the blocks of Bitcoin as tables, and the proof that the set is true.

>>> import blockmill
>>> utxos = blockmill.open("~/blockmill")  # doctest: +SKIP
>>> utxos.coins().to_polars()  # doctest: +SKIP

- `open` opens a data directory, `blocks` finds the chain in block files: coins, transactions, inputs,
  outputs, filters as tables, which pyarrow, polars, DuckDB and pandas read;
- `open(...).feed` gives each block that comes or leaves, with the coins that it spends;
- `validate_block` validates one block with coins that are given, without any of these.

**Audit.** With the undo files that Bitcoin Core keeps beside its block files every block can be checked alone,
in any order: all rules, all scripts. Two products over all coins say whether the undo data is true,
and whether what is left is the set. So a whole chain is validated on all cores of a machine, or on
many machines.

>>> import blockmill
>>> report = blockmill.audit("~/.bitcoin/blocks", "utxo.dat", "bitcoin")  # doctest: +SKIP
>>> report.verdict  # doctest: +SKIP
'proved'

- `audit` does the whole on this machine;
- `audit_key`, `audit_part` and `audit_merge` do it in parts, which any scheduler may run;
- `blockmill.distributed.audit` does it on a cluster of Dask.

Work is done without the interpreter's lock. Ctrl-C ends it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, process_time
from typing import TYPE_CHECKING, Any, Literal

from ._blockmill import (
    BlockmillError,
    Chain,
    CursorError,
    DecodeError,
    FileError,
    IncompleteError,
    Key,
    KeyFileError,
    PartError,
    UsageError,
    __version__,
    audit_data,
    audit_files,
    index_chain,
    merge_parts,
    read_part,
)
from ._blockmill import audit_part as _audit_part
from ._shared import OnProgress, PathLike, Paths, Progress, hear_with, path_text, path_texts
from .tables import Balance, Blocks, Coin, Feed, Stats, Table, UtxoSet, blocks, open
from .validation import (
    BlockVerdict,
    ScriptFlag,
    SignatureCheck,
    SpentCoin,
    TransactionVerdict,
    validate_block,
    verify_signatures,
    verify_transaction,
)

if TYPE_CHECKING:
    from distributed import Client

__all__ = [
    "Balance",
    "BlockVerdict",
    "BlockmillError",
    "Blocks",
    "Chain",
    "Coin",
    "CursorError",
    "DecodeError",
    "Feed",
    "FileError",
    "Finding",
    "IncompleteError",
    "Key",
    "KeyFileError",
    "Part",
    "PartError",
    "Progress",
    "Report",
    "ScriptFlag",
    "SignatureCheck",
    "SpentCoin",
    "Stats",
    "Table",
    "TransactionVerdict",
    "UnreadableError",
    "UsageError",
    "UtxoSet",
    "__version__",
    "audit",
    "audit_key",
    "audit_merge",
    "audit_part",
    "blocks",
    "index",
    "open",
    "validate_block",
    "verify_signatures",
    "verify_transaction",
]

Verdict = Literal["proved", "refuted", "incomplete"]
Signatures = Literal["auto", "one-by-one", "lanes"]


@dataclass(frozen=True)
class Finding:
    """What speaks against a proof, or keeps it from being made.

    `kind` is `block`, `order`, `once`, `sums` or `chain` where it refutes what was to be proved, and
    `set`, `unreadable`, `parts` or `seal` where it leaves it open. `height` and `hash` are those of
    the block, where it is about one.
    """

    kind: str
    height: int | None
    hash: str | None
    reason: str

    @property
    def refutes(self) -> bool:
        """Whether it refutes what was to be proved."""
        return self.kind in ("block", "order", "once", "sums", "chain")

    def __str__(self) -> str:
        block = f"block {self.hash} (height {self.height}): " if self.hash else ""
        return block + self.reason


@dataclass(frozen=True)
class Report:
    """What an audit came to. The fields are those of `blockmill audit --json`.

    `seconds` and `cpu_seconds` are those of this process; on a cluster the CPU time is that of all
    tasks.
    """

    verdict: Verdict
    network: str
    height: int | None
    hash: str
    blocks: int
    transactions: int
    inputs: int
    coins: int
    seconds: float
    cpu_seconds: float
    findings: tuple[Finding, ...]
    why: tuple[str, ...] = ()
    """Why the block files do not hold a whole chain. Findings say so, too."""

    @property
    def whole(self) -> bool:
        """Whether the block files hold a whole chain."""
        return not self.why

    @property
    def is_proved(self) -> bool:
        """Whether the set is the UTXO set of a chain all of whose blocks are valid."""
        return self.verdict == "proved"


class UnreadableError(BlockmillError):
    """Blocks of a part cannot be read. `findings` says which, and why."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__("; ".join(str(finding) for finding in self.findings[:3]))

    def __reduce__(self) -> tuple[type[UnreadableError], tuple[tuple[Finding, ...]]]:
        return (UnreadableError, (self.findings,))


@dataclass(frozen=True)
class Part:
    """What the blocks of some heights came to: the bytes of a file of `blockmill audit part`.

    The bytes are sealed with the key of the run, and say nothing to who does not have it.
    """

    first: int
    last: int
    transactions: int
    inputs: int
    findings: tuple[Finding, ...]
    data: bytes

    @property
    def is_clean(self) -> bool:
        """Whether nothing speaks against a proof."""
        return not self.findings

    def __bytes__(self) -> bytes:
        return self.data

    def __repr__(self) -> str:
        return f"Part(first={self.first}, last={self.last}, is_clean={self.is_clean})"

    @staticmethod
    def read(key: Key | PathLike, data: bytes | PathLike) -> Part:
        """The part in a file, or in bytes, of the key's run.

        Raises `PartError` if it is none, or was changed.
        """
        data = data if isinstance(data, bytes) else Path(path_text(data)).read_bytes()
        fields = read_part(_key(key), data)
        return Part(**{**fields, "findings": _findings(fields["findings"])}, data=data)


def _key(key: Key | PathLike) -> Key:
    return key if isinstance(key, Key) else Key.read(path_text(key))


def _findings(findings: Iterable[Mapping[str, Any]]) -> tuple[Finding, ...]:
    return tuple(Finding(**finding) for finding in findings)


def _report(fields: Mapping[str, Any], seconds: float, cpu_seconds: float) -> Report:
    lists = {"findings": _findings(fields["findings"]), "why": tuple(fields["why"])}
    return Report(**{**fields, **lists, "seconds": seconds, "cpu_seconds": cpu_seconds})


def audit(
    blocks: Paths | None = None,
    snapshot: PathLike | None = None,
    network: str | None = None,
    *,
    data: PathLike | None = None,
    resume: PathLike | None = None,
    threads: int | None = None,
    signatures: Signatures = "auto",
    signet_challenge: bytes | None = None,
    progress: OnProgress | None = None,
    client: Client | None = None,
) -> Report:
    """Audits a snapshot, or the set of a data directory of Blockmill.

    blocks: directories of `blk*.dat` files, with the `rev*.dat` files beside them, or such files.
    snapshot: the set, as `dumptxoutset` of Bitcoin Core writes it.
    network: `bitcoin` (or `main`), `testnet3`, `testnet4`, `signet` or `regtest`.
    data: a data directory, instead of snapshot and network.
    resume: a directory in which what is done is kept; a later call goes on with it.
    threads: all cores, if it is None.
    signatures: how signatures are verified: `auto`, `one-by-one` or `lanes`.
    signet_challenge: of a signet with its own one.
    progress: is called with `Progress`, some times a second, on this thread.
    client: a cluster, see `blockmill.distributed.audit`.

    What speaks against a proof is in the report. Raises `FileError` if a file, the snapshot or the
    data directory cannot be read, `UsageError` if an argument cannot be used.
    """
    if client is not None:
        if blocks is None or snapshot is None or network is None or data is not None or resume is not None:
            raise UsageError(
                "with a client, blocks, snapshot and network are needed, and neither data nor resume"
            )
        from . import distributed

        return distributed.audit(
            client,
            blocks,
            snapshot,
            network,
            threads=threads or 1,
            signatures=signatures,
            signet_challenge=signet_challenge,
            progress=progress,
        )
    start, cpu = monotonic(), process_time()
    kept = None if resume is None else path_text(resume)
    hear = hear_with(progress)
    if data is not None:
        if snapshot is not None:
            raise UsageError("either snapshot or data is needed, not both")
        fields = audit_data(path_text(data), path_texts(blocks), kept, threads, signatures, hear)
    elif snapshot is None or blocks is None or network is None:
        raise UsageError("blocks, snapshot and network are needed, or data")
    else:
        fields = audit_files(
            path_texts(blocks), network, signet_challenge, path_text(snapshot), kept, threads, signatures, hear
        )
    return _report(fields, monotonic() - start, process_time() - cpu)


def audit_key(path: PathLike) -> Key:
    """Draws the key of a run, and writes it to a new file that only its owner can read.

    Whoever can choose the block files or the snapshot must not know it.
    """
    key = Key.draw()
    key.write(path_text(path))
    return key


def index(
    blocks: Paths,
    network: str,
    *,
    headers: bytes | None = None,
    signet_challenge: bytes | None = None,
    progress: OnProgress | None = None,
) -> Chain:
    """Searches block files for the chain of most work, so that `audit_part` need not do it again.

    headers: those of blocks in other files, 80 bytes each.

    A chain can be pickled; processes with the same files under the same paths can use it.
    """
    chain = index_chain(path_texts(blocks), network, signet_challenge, headers, None, hear_with(progress))
    assert isinstance(chain, Chain)
    return chain


def audit_part(
    blocks: Paths | Chain,
    network: str | None,
    key: Key | PathLike,
    first: int,
    last: int,
    *,
    out: PathLike | None = None,
    headers: bytes | None = None,
    threads: int | None = None,
    signatures: Signatures = "auto",
    signet_challenge: bytes | None = None,
    progress: OnProgress | None = None,
) -> Part:
    """Audits the blocks of heights `first` to `last`, both included; 0 is the first block.

    blocks: as for `audit`, or a chain from `index`, whose network need not be named. The headers of
    all blocks are needed, the blocks of these heights alone.
    key: of the run, or its file.
    out: a new file for the part.

    The same blocks give the same bytes, whoever makes the part. Raises `UnreadableError` if blocks
    cannot be read.
    """
    if isinstance(blocks, Chain):
        chain = blocks
    elif network is None:
        raise UsageError("network is needed")
    else:
        chain = index(blocks, network, headers=headers, signet_challenge=signet_challenge, progress=progress)
    key = _key(key)
    if out is not None and os.path.lexists(path_text(out)):
        raise FileError(f"{path_text(out)}: there is a file of this name already")
    data, unreadable, _ = _audit_part(chain, key, first, last, threads, signatures, hear_with(progress))
    if data is None:
        raise UnreadableError(_findings(unreadable))
    if out is not None:
        temporary = path_text(out) + ".incomplete"
        Path(temporary).write_bytes(data)
        os.rename(temporary, path_text(out))
    return Part.read(key, data)


def audit_merge(
    key: Key | PathLike,
    snapshot: PathLike | None,
    parts: Iterable[Part | bytes | PathLike],
    *,
    data: PathLike | None = None,
    threads: int | None = None,
    progress: OnProgress | None = None,
) -> Report:
    """Joins the parts of a run, in any order, with a snapshot or the set of a data directory.

    parts: from `audit_part`, or their bytes, or their files.
    """
    if (snapshot is None) == (data is None):
        raise UsageError("either snapshot or data is needed")
    start, cpu = monotonic(), process_time()
    named: list[tuple[str, bytes]] = []
    for number, part in enumerate(parts):
        if isinstance(part, (Part, bytes)):
            named.append((f"part {number}", bytes(part)))
            continue
        try:
            named.append((path_text(part), Path(path_text(part)).read_bytes()))
        except OSError as error:
            raise FileError(f"{path_text(part)}: {error.strerror}") from error
    fields = merge_parts(
        _key(key),
        named,
        None if snapshot is None else path_text(snapshot),
        None if data is None else path_text(data),
        threads,
        hear_with(progress),
    )
    return _report(fields, monotonic() - start, process_time() - cpu)
