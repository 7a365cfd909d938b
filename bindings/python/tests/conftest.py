"""Chains in files of Bitcoin Core's form, which `make python` has written."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Site:
    """A folder with block files, a snapshot, one that lies, and headers."""

    folder: Path
    network: str

    @property
    def blocks(self) -> Path:
        return self.folder / "blocks"

    @property
    def snapshot(self) -> Path:
        return self.folder / "set"

    @property
    def lie(self) -> Path:
        return self.folder / "lie"


def site(name: str, network: str = "regtest") -> Site:
    folder = Path(os.environ["BLOCKMILL_CHAINS"]) / name
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there")
    return Site(folder, network)


@pytest.fixture
def small() -> Site:
    """160 blocks, 2,000 inputs."""
    return site("small")


@pytest.fixture
def large() -> Site:
    """600 blocks, 60,000 inputs: some seconds of work with one thread and libsecp256k1."""
    return site("large")


@pytest.fixture
def main() -> Site:
    """The first 14,131 blocks of the main network."""
    return site("main", "main")
