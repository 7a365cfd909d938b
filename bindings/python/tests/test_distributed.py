"""Audits on a cluster of several processes."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask
import pytest
from conftest import Site
from distributed import Client, LocalCluster

import blockmill
from blockmill import Progress, Report
from blockmill import distributed as cluster_audit


@pytest.fixture
def client() -> Iterator[Client]:
    dask.config.set({"distributed.scheduler.allowed-failures": 10})
    with (
        LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield client


def audit(client: Client, site: Site, **options: Any) -> Report:
    options = {"part_bytes": 100_000, "signatures": "one-by-one", **options}
    return cluster_audit.audit(client, site.blocks, site.snapshot, site.network, **options)


def pids(client: Client) -> list[int]:
    return list(client.run(os.getpid).values())


def as_on_one_machine(report: Report, site: Site) -> None:
    alone = blockmill.audit(site.blocks, site.snapshot, site.network)
    for field in [
        "verdict",
        "network",
        "height",
        "hash",
        "blocks",
        "transactions",
        "inputs",
        "coins",
        "findings",
    ]:
        assert getattr(report, field) == getattr(alone, field), field


def after_first_part(harm: Callable[[], None]) -> Callable[[Progress], None]:
    """Does something once, when the first part is done."""
    done = threading.Event()

    def hear(progress: Progress) -> None:
        if not done.is_set():
            done.set()
            assert progress.share < 0.5
            harm()

    return hear


def test_a_chain_is_proved(client: Client, small: Site) -> None:
    heard: list[Progress] = []
    report = audit(client, small, progress=heard.append)
    assert report.is_proved and report.cpu_seconds > 0
    as_on_one_machine(report, small)
    shares = [progress.share for progress in heard]
    assert shares == sorted(shares) and shares[-1] == 1.0 and len(shares) > 2
    assert heard[-1].blocks == 161
    # By way of the function for one machine.
    assert blockmill.audit(small.blocks, small.snapshot, small.network, client=client).is_proved
    # What is done is let go.
    time.sleep(0.5)
    assert client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)) == 0


def test_a_lie_is_refuted(client: Client, small: Site) -> None:
    report = cluster_audit.audit(client, small.blocks, small.lie, small.network, part_bytes=100_000)
    assert report.verdict == "refuted" and report.findings[0].kind == "sums"


def test_a_worker_is_killed(client: Client, large: Site) -> None:
    victim = pids(client)[0]
    report = audit(client, large, progress=after_first_part(lambda: os.kill(victim, signal.SIGKILL)))
    as_on_one_machine(report, large)
    assert victim not in pids(client)


def test_all_workers_restart_one_after_the_other(client: Client, large: Site) -> None:
    before = pids(client)

    def kill() -> None:
        for pid in before:
            os.kill(pid, signal.SIGKILL)
            time.sleep(0.7)

    report = audit(client, large, progress=after_first_part(kill))
    as_on_one_machine(report, large)
    assert not set(before) & set(pids(client))


def test_a_worker_is_slow(client: Client, large: Site) -> None:
    slow = pids(client)[0]

    def stop() -> None:
        os.kill(slow, signal.SIGSTOP)
        threading.Timer(4.0, lambda: os.kill(slow, signal.SIGCONT)).start()

    as_on_one_machine(audit(client, large, progress=after_first_part(stop)), large)


def test_an_exception_cancels_all(client: Client, large: Site) -> None:
    class Enough(Exception):
        pass

    def enough(_: Progress) -> None:
        raise Enough

    with pytest.raises(Enough):
        # One task for nearly all, which takes seconds.
        audit(client, large, part_bytes=2_000_000, progress=enough)
    deadline = time.monotonic() + 3.0
    while any(client.processing().values()) or any(client.run(executing).values()):
        assert time.monotonic() < deadline, "tasks go on"
        time.sleep(0.05)
    assert audit(client, large, part_bytes=2_000_000).is_proved


def executing(dask_worker: Any) -> int:
    return len(dask_worker.state.executing) + len(dask_worker.state.long_running)


def test_blocks_that_cannot_be_read(client: Client, small: Site, tmp_path: Path) -> None:
    shutil.copytree(small.folder, tmp_path / "site")
    undo = tmp_path / "site" / "blocks" / "rev00003.dat"
    undo.write_bytes(b"")
    broken = Site(tmp_path / "site", small.network)
    report = audit(client, broken, retries=1)
    assert report.verdict == "incomplete" and 100 < report.blocks < 161
    assert (report.height, report.hash) == (160, audit(client, small).hash)
    assert {finding.kind for finding in report.findings} == {"unreadable"}
    undo.unlink()
    report = audit(client, broken, retries=0)
    assert report.verdict == "incomplete" and "no file of undo data" in str(report.findings[0])
    other = audit(client, Site(small.folder, "regtest"), retries=0)
    assert other.is_proved
    with pytest.raises(blockmill.FileError, match="nowhere"):
        cluster_audit.audit(client, "/nowhere", small.snapshot, small.network, retries=0)


def secret_of(key: blockmill.Key) -> bytes:
    made: Any = key.__reduce__()
    secret: bytes = made[1][0]
    return secret


def test_no_key_is_said(client: Client, small: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks for the secret in logs, in names of tasks and in what the scheduler keeps to show."""
    keys: list[blockmill.Key] = []
    draw = blockmill.Key.draw

    class Drawn:
        @staticmethod
        def draw() -> blockmill.Key:
            keys.append(draw())
            return keys[-1]

    monkeypatch.setattr(cluster_audit, "Key", Drawn)
    said: list[str] = []
    names = lambda dask_scheduler: list(dask_scheduler.tasks)
    audit(client, small, progress=lambda _: said.extend(client.run_on_scheduler(names)))
    # Tasks that fail have their arguments in the log.
    shutil.copytree(small.folder, tmp_path / "site")
    (tmp_path / "site" / "blocks" / "rev00002.dat").write_bytes(b"")
    assert audit(client, Site(tmp_path / "site", small.network), retries=0).verdict == "incomplete"
    logs = repr(client.get_worker_logs()) + repr(client.get_scheduler_logs())
    assert "Compute Failed" in logs
    said.append(logs)
    said.append(repr(client.get_events()))
    assert any(name.startswith("blockmill-part-") for name in said)
    whole = "\n".join(said).lower()
    assert len(keys) == 2 and keys[0].run in whole
    for key in keys:
        secret = secret_of(key)
        assert len(secret) == 96
        for at in range(90):
            piece = secret[at : at + 6]
            assert piece.hex() not in whole and repr(piece)[2:-1].lower() not in whole
