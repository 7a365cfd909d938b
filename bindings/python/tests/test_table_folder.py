"""Folders of tables that a cluster writes: killed or refused at any call, beside the command, and as
other programs read them."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Data, Site
from distributed import Client, LocalCluster

import blockmill
from blockmill import _cluster_tables, _table_folder
from blockmill import distributed as cluster

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

MANIFEST = "_blockmill.json"

TABLE = "statistics"


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """Workers that are threads of this process."""
    with (
        LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None) as workers,
        Client(workers) as client,
    ):
        yield client


def export(client: Client, site: Site, out: Path, partition: int, force: bool = False) -> list[Path]:
    files = cluster.export(
        client, site.blocks, site.network, TABLE, out, partition=partition, force=force, retries=0
    )
    return files[TABLE]


def seen(folder: Path) -> list[Path]:
    """What readers take for rows."""
    return sorted(file for file in folder.glob("*") if file.name[0] not in "_.")


def heights(folder: Path) -> list[int]:
    return [height for file in seen(folder) for height in parquet.read_table(file)["height"].to_pylist()]


def is_whole(folder: Path, expected: Any) -> None:
    found = parquet.read_table(folder)
    assert found.equals(expected), (found.num_rows, seen(folder))
    manifest = json.loads((folder / MANIFEST).read_text())
    assert "unfinished" not in manifest
    assert [partition["file"] for partition in manifest["partitions"]] == [file.name for file in seen(folder)]
    assert sum(partition["rows"] for partition in manifest["partitions"]) == expected.num_rows
    assert len(list(folder.glob("*"))) == len(seen(folder)) + 1


class Killed(Exception):
    """A process has no more calls after that."""


class Struck:
    """`os`, whose calls that change files end at one of them: the process is killed, or the disk full."""

    CALLS = {"makedirs", "open", "write", "fsync", "replace", "link", "unlink", "rename"}

    def __init__(self, at: int, is_killed: bool) -> None:
        self.at, self.is_killed, self.calls = at, is_killed, 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(os, name)
        if name not in self.CALLS:
            return found

        def call(*args: Any, **options: Any) -> Any:
            self.calls += 1
            if self.is_killed and self.calls > self.at:
                raise Killed
            if self.calls == self.at + 1:
                raise OSError(errno.ENOSPC, "No space left on device")
            return found(*args, **options)

        return call


@pytest.mark.parametrize("is_killed", [True, False])
@pytest.mark.parametrize("is_forced", [False, True])
def test_any_call_may_be_the_last(
    client: Client,
    small: Site,
    data: Data,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_forced: bool,
    is_killed: bool,
) -> None:
    expected = blockmill.blocks(small.blocks, small.network).table(TABLE).to_arrow()
    at = 0
    while True:
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        folder = tmp_path / "out" / TABLE
        if is_forced:
            export(client, small, tmp_path / "out", 60)
        struck = Struck(at, is_killed)
        with monkeypatch.context() as patch:
            patch.setattr(_table_folder, "os", struck)
            patch.setattr(_cluster_tables, "os", struck)
            try:
                export(client, small, tmp_path / "out", 100, is_forced)
                is_done = True
            except (Killed, OSError, blockmill.BlockmillError):
                is_done = False
        if struck.calls <= at:
            break
        if is_done:
            # A file system without locks, say.
            is_whole(folder, expected)
        # No reader gets a row twice.
        found = heights(folder)
        assert len(found) == len(set(found)), at
        left = tmp_path / "left"
        shutil.rmtree(left, ignore_errors=True)
        shutil.copytree(tmp_path / "out", left) if folder.exists() else None
        # The same once more is exact, or refused since a table is there.
        try:
            export(client, small, tmp_path / "out", 100)
            is_whole(folder, expected)
        except blockmill.UsageError as error:
            assert "there is a table already" in str(error), at
            assert heights(folder) == found, at
        export(client, small, tmp_path / "out", 70, True)
        is_whole(folder, expected)
        # And so is the command, at some of the calls.
        if left.exists() and at % 5 == 0:
            options = ["--partition", "100", "--format", "parquet", "--data", str(data.folder)]
            command = [os.environ["BLOCKMILL_COMMAND"], "export", TABLE, *options, "--out", str(left / TABLE)]
            appended = subprocess.run([*command, "--append"], capture_output=True, text=True)
            if appended.returncode == 0:
                is_whole(left / TABLE, expected)
            else:
                assert appended.returncode == 2 and ("has not finished" in appended.stderr or is_forced), appended
                assert heights(left / TABLE) == found, at
            subprocess.run([*command, "--force"], check=True, capture_output=True)
            is_whole(left / TABLE, expected)
        at += 1
    assert at > 25


def test_one_form_with_the_command(client: Client, small: Site, data: Data, tmp_path: Path) -> None:
    expected = blockmill.blocks(small.blocks, small.network).table(TABLE).to_arrow()
    folder = tmp_path / TABLE
    files = export(client, small, tmp_path, 50)
    inodes = [file.stat().st_ino for file in files]
    # A later one does not mix with it, whatever has written it.
    with pytest.raises(blockmill.UsageError, match="there is a table already"):
        export(client, small, tmp_path, 20)
    # The command goes on with it, and there is nothing to do.
    said = data.run("export", TABLE, "--data", str(data.folder), "--append", "--out", str(folder))
    assert "in 4 files, 0 of them made now" in said
    assert [file.stat().st_ino for file in files] == inodes
    is_whole(folder, expected)
    command = ["export", TABLE, "--data", str(data.folder), "--format", "parquet", "--out", str(folder)]
    data.run(*command, "--partition", "30", "--force")
    is_whole(folder, expected)
    with pytest.raises(blockmill.UsageError, match="there is a table already"):
        export(client, small, tmp_path, 30)
    export(client, small, tmp_path, 70, True)
    is_whole(folder, expected)
    # Each refuses what the other one has not finished.
    for writer, partition in [("blockmill export", 30), ("blockmill.distributed.export", 30)]:
        manifest = json.loads((folder / MANIFEST).read_text())
        del manifest["checksum"]
        manifest = {**manifest, "unfinished": writer, "partitions": manifest["partitions"]}
        table = _table_folder.TableFolder(folder, force=False)
        table._write(manifest)
        before = seen(folder)
        if writer == "blockmill export":
            with pytest.raises(blockmill.UsageError, match="blockmill export has not finished this table"):
                export(client, small, tmp_path, partition)
        else:
            with pytest.raises(subprocess.CalledProcessError) as refused:
                data.run(*command, "--append")
            assert refused.value.returncode == 2
            assert "blockmill.distributed.export has not finished this table" in refused.value.stderr
        assert seen(folder) == before
        if writer == "blockmill export":
            export(client, small, tmp_path, partition, True)
        else:
            data.run(*command, "--partition", "30", "--force")
        is_whole(folder, expected)


def test_what_is_not_its_own_is_refused(client: Client, small: Site, tmp_path: Path) -> None:
    folder = tmp_path / TABLE
    folder.mkdir()
    for name in ("0000000-0000049.parquet", "rows.parquet", "blockmill.json"):
        (folder / name).write_text("mine")
        for force in (False, True):
            with pytest.raises(blockmill.UsageError, match=f"{name}: no manifest names this"):
                export(client, small, tmp_path, 50, force)
        assert (folder / name).read_text() == "mine"
        (folder / name).unlink()
    for text in ("", "{}", "[]", "null", '{"version": 1}', '{"version": 2, "partitions": [], "checksum": "00"}'):
        (folder / MANIFEST).write_text(text)
        with pytest.raises(blockmill.UsageError, match="no manifest of a table"):
            export(client, small, tmp_path, 50, True)
    (folder / MANIFEST).unlink()
    victim = tmp_path / "victim.parquet"
    victim.write_text("mine")
    table = _table_folder.TableFolder(folder, force=True)
    table._write({"version": 2, "partitions": [{"file": "../victim.parquet"}]})
    with pytest.raises(blockmill.UsageError, match="it names what is no partition"):
        export(client, small, tmp_path, 50, True)
    assert victim.read_text() == "mine"
    (folder / MANIFEST).unlink()
    table.lock()
    with pytest.raises(blockmill.UsageError, match="another process is writing it"):
        export(client, small, tmp_path, 50, True)
    table.close()
    export(client, small, tmp_path, 50)
    # A manifest without a checksum is one, as it is for the command.
    manifest = json.loads((folder / MANIFEST).read_text())
    del manifest["checksum"]
    (folder / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(blockmill.UsageError, match="there is a table already"):
        export(client, small, tmp_path, 50)
    # Of several tables, all are checked before one is removed.
    (tmp_path / "positions").mkdir()
    (tmp_path / "positions" / "rows.parquet").write_text("mine")
    before = seen(folder)
    with pytest.raises(blockmill.UsageError, match="no manifest names this"):
        cluster.export(client, small.blocks, small.network, [TABLE, "positions"], tmp_path, force=True)
    assert seen(folder) == before


def test_other_programs_read_a_folder_as_it_stands(client: Client, small: Site, tmp_path: Path) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    duckdb = pytest.importorskip("duckdb")
    export(client, small, tmp_path, 50)
    folder = tmp_path / TABLE
    (folder / "_0000000-0000049.00.incomplete").write_text("left by a worker that was lost")
    rows = len(heights(folder))
    assert rows == 161
    assert parquet.read_table(folder).num_rows == rows
    assert pyarrow.dataset.dataset(folder, format="parquet").count_rows() == rows
    assert len(pandas.read_parquet(folder)) == rows
    assert len(polars.read_parquet(folder / "*.parquet")) == rows
    assert duckdb.sql(f"select count(*) from '{folder}/*.parquet'").fetchall() == [(rows,)]
