"""An audit on a cluster of Dask: blocks in ranges, over all workers.

Every worker needs the block files with their undo files, and the snapshot, under the same paths: a
shared file system, or copies. The machine that calls needs none of them.

>>> from distributed import Client
>>> from blockmill.distributed import audit
>>> with Client("tcp://scheduler:8786") as client:  # doctest: +SKIP
...     report = audit(client, "/bitcoin/blocks", "/bitcoin/utxo.dat", "bitcoin")

The key of the run is drawn here, and goes to the workers with their tasks. It is in no name of a
task, and in no log. Who can read the connections between the machines can read it, unless they are
`tls://`.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import CancelledError
from time import monotonic
from typing import TYPE_CHECKING, Any

from distributed import as_completed, get_worker

from . import (
    BlockmillError,
    Chain,
    Finding,
    Key,
    Part,
    Progress,
    Report,
    Signatures,
    UnreadableError,
    UsageError,
    _findings,
    _report,
    audit_merge,
)
from ._blockmill import audit_part as _audit_part
from ._blockmill import index_chain, join_parts
from ._cluster_tables import export
from ._shared import OnProgress, PathLike, Paths, hear_with, path_text, path_texts
from ._tasks import Tasks, stop_if_cancelled

if TYPE_CHECKING:
    from distributed import Client, Future

__all__ = ["audit", "export"]

# Bytes of blocks in a part. Small enough that the last ones do not keep a cluster waiting.
PART_BYTES = 128 << 20

# Parts that one task joins.
BRANCHES = 16


def _index(
    name: str, blocks: list[str], network: str, challenge: bytes | None, snapshot: str
) -> Chain | dict[str, Any]:
    return index_chain(blocks, network, challenge, None, snapshot, hear_with(stop_if_cancelled(name)))


def _plan(
    chain: Chain | dict[str, Any], part_bytes: int
) -> tuple[str, list[tuple[int, int, int]]] | dict[str, Any]:
    """The last block, and the ranges; or a report, if the set's block is not in the chain."""
    return (chain.hash(chain.height), chain.ranges(part_bytes)) if isinstance(chain, Chain) else chain


def _part(
    name: str, chain: Chain, key: Key, first: int, last: int, threads: int, signatures: Signatures
) -> tuple[bytes, float]:
    hear = hear_with(stop_if_cancelled(name))
    data, unreadable, cpu = _audit_part(chain, key, first, last, threads, signatures, hear)
    if data is None:
        raise UnreadableError(_findings(unreadable))
    return data, cpu


def _join(key: Key, *parts: tuple[bytes, float]) -> tuple[bytes, float]:
    return join_parts(key, tuple(data for data, _ in parts)), sum(cpu for _, cpu in parts)


def _merge(
    name: str, key: Key, snapshot: str, threads: int, part: tuple[bytes, float]
) -> tuple[Report, float]:
    data, cpu = part
    # It is the last task: the worker's other threads have nothing to do.
    threads = max(threads, get_worker().state.nthreads)
    report = audit_merge(key, snapshot, [data], threads=threads, progress=stop_if_cancelled(name))
    return report, cpu + report.cpu_seconds


def _tree(tasks: Tasks, key: Key, parts: Sequence[Future[Any]]) -> Future[Any]:
    level = 0
    while len(parts) > 1:
        groups = [parts[at : at + BRANCHES] for at in range(0, len(parts), BRANCHES)]
        parts = [
            tasks.submit("sum", f"{level}-{number:05}", _join, key, *group)
            for number, group in enumerate(groups)
        ]
        level += 1
    return parts[0]


def audit(
    client: Client,
    blocks: Paths,
    snapshot: PathLike,
    network: str,
    *,
    part_bytes: int = PART_BYTES,
    threads: int = 1,
    signatures: Signatures = "auto",
    signet_challenge: bytes | None = None,
    retries: int = 3,
    progress: OnProgress | None = None,
) -> Report:
    """Audits a snapshot on the workers of a cluster.

    blocks, snapshot, network, signatures, signet_challenge: as for `blockmill.audit`, as the workers
    see them.
    part_bytes: bytes of blocks in a task.
    threads: of a task. A worker runs as many tasks at once as it has threads.
    retries: how often a task that fails is tried again, on any worker.
    progress: is called on this thread when a part is done.

    Workers may die, restart and come while it runs. An exception or Ctrl-C here cancels what is not
    done, and ends the tasks that run. Blocks that no worker can read make the verdict `incomplete`.
    """
    if part_bytes < 1 or threads < 1 or retries < 0:
        raise UsageError("part_bytes and threads are at least 1, retries at least 0")
    start = monotonic()
    key = Key.draw()
    tasks = Tasks(client, key.run, retries)
    try:
        paths, set_path = path_texts(blocks), path_text(snapshot)
        chain = tasks.submit("index", "0", _index, paths, network, signet_challenge, set_path, named=True)
        plan = tasks.submit("plan", "0", _plan, chain, part_bytes).result()
        if isinstance(plan, dict):
            return _report(plan, monotonic() - start, 0.0)
        tip, ranges = plan
        bytes_of = {}
        for first, last, length in ranges:
            number = f"{first:08}-{last:08}"
            part = tasks.submit(
                "part", number, _part, chain, key, first, last, threads, signatures, named=True
            )
            bytes_of[part] = (last - first + 1, length)
        parts = list(bytes_of)
        total = _tree(tasks, key, parts)
        report = tasks.submit("merge", "0", _merge, key, set_path, threads, total, named=True)
        unreadable = _wait(bytes_of, start, progress)
        if unreadable:
            read = [Part.read(key, part.result()[0]) for part in parts if part.status == "finished"]
            tasks.cancel()
            return _incomplete(network, ranges[-1][1], tip, read, unreadable, monotonic() - start)
        merged, cpu = report.result()
        fields = {name: getattr(merged, name) for name in merged.__dataclass_fields__}
        return Report(**{**fields, "seconds": monotonic() - start, "cpu_seconds": cpu})
    except BaseException:
        tasks.cancel()
        raise
    finally:
        tasks.release()


def _wait(
    parts: dict[Future[Any], tuple[int, int]], start: float, progress: OnProgress | None
) -> list[Finding]:
    """Waits for all parts. Returns what cannot be read."""
    unreadable: list[Finding] = []
    blocks, done, whole = 0, 0, max(1, sum(length for _, length in parts.values()))
    for part in as_completed(parts):
        error = part.exception()
        if isinstance(error, UnreadableError):
            unreadable.extend(error.findings)
        elif isinstance(error, CancelledError):
            raise BlockmillError(f"{part.key} was cancelled by another client") from error
        elif error is not None:
            raise error
        blocks += parts[part][0]
        done += parts[part][1]
        if progress is not None:
            seconds = monotonic() - start
            left = seconds * (whole - done) / done if done else None
            progress(
                Progress(
                    phase="blocks", share=done / whole, blocks=blocks, seconds=seconds, seconds_left=left
                )
            )
    return unreadable


def _incomplete(
    network: str, height: int, tip: str, read: Sequence[Part], unreadable: list[Finding], seconds: float
) -> Report:
    """What is known where blocks cannot be read: a part that is there may refute the set."""
    findings = [finding for part in read for finding in part.findings] + unreadable
    return Report(
        verdict="refuted" if any(finding.refutes for finding in findings) else "incomplete",
        network=network,
        height=height,
        hash=tip,
        blocks=sum(part.last - part.first + 1 for part in read),
        transactions=sum(part.transactions for part in read),
        inputs=sum(part.inputs for part in read),
        coins=0,
        seconds=seconds,
        cpu_seconds=0.0,
        findings=tuple(findings),
    )
