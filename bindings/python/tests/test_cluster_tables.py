"""Tables that a cluster has made, beside those of one process."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Site
from distributed import Client
from test_distributed import after_first_part, client, pids

import blockmill
from blockmill import distributed as cluster

pyarrow = pytest.importorskip("pyarrow")
pyarrow_parquet = pytest.importorskip("pyarrow.parquet")

__all__ = ["client"]

NAMES = ["filters", "transactions", "inputs", "outputs", "spenders", "positions", "statistics"]


def files_below(folder: Path) -> Iterator[tuple[str, bytes]]:
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            yield str(file.relative_to(folder)), file.read_bytes()


def test_tables_are_those_of_one_process(client: Client, small: Site, tmp_path: Path) -> None:
    shares: list[float] = []
    files = cluster.export(
        client,
        small.blocks,
        small.network,
        NAMES,
        tmp_path / "out",
        partition=50,
        progress=lambda progress: shares.append(progress.share),
    )
    assert shares == sorted(shares) and shares[-1] == 1.0 and len(shares) == 4 * len(NAMES)
    alone = blockmill.blocks(small.blocks, small.network)
    for name in NAMES:
        assert [file.name for file in files[name]] == [
            "0000000-0000049.parquet",
            "0000050-0000099.parquet",
            "0000100-0000149.parquet",
            "0000150-0000199.parquet",
        ]
        found = pyarrow.concat_tables([pyarrow_parquet.read_table(file) for file in files[name]])
        assert found.equals(alone.table(name).to_arrow()), name
    # Each folder has a manifest.
    assert len(list(files_below(tmp_path / "out"))) == 5 * len(NAMES)


def test_a_killed_worker_changes_no_byte(client: Client, small: Site, tmp_path: Path) -> None:
    for binary in (False, True):
        options = {"partition": 10, "binary": binary}
        out = tmp_path / f"whole-{binary}"
        cluster.export(client, small.blocks, small.network, NAMES, out, **options)  # type: ignore[arg-type]
        expected = dict(files_below(out))
        assert len(expected) == 18 * len(NAMES)

        def kill() -> None:
            os.kill(pids(client)[0], signal.SIGKILL)

        again = tmp_path / f"killed-{binary}"
        cluster.export(
            client,
            small.blocks,
            small.network,
            NAMES,
            again,
            progress=after_first_part(kill),
            **options,  # type: ignore[arg-type]
        )
        found = dict(files_below(again))
        # What a killed worker was writing has no name of a table.
        left = {name for name in found if name.endswith(".incomplete")}
        assert {name: content for name, content in found.items() if name not in left} == expected
    alone = blockmill.blocks(small.blocks, small.network)
    for name in ("filters", "statistics"):
        parts = sorted((tmp_path / "killed-True" / name).glob("*.parquet"))
        found = pyarrow.concat_tables([pyarrow_parquet.read_table(part) for part in parts])
        assert found.equals(alone.table(name, binary=True).to_arrow()), name


def test_what_cannot_be_used_is_said(client: Client, small: Site, tmp_path: Path) -> None:
    with pytest.raises(blockmill.UsageError, match="partition"):
        cluster.export(client, small.blocks, small.network, "outputs", tmp_path, partition=0)
    with pytest.raises(blockmill.UsageError, match="no table"):
        cluster.export(client, small.blocks, small.network, "nothing", tmp_path, retries=0)
    with pytest.raises(blockmill.FileError, match="none"):
        cluster.export(client, tmp_path / "none", small.network, "outputs", tmp_path, retries=0)
