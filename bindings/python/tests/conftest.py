"""Chains in files of Bitcoin Core's form, which `make python` has written."""

from __future__ import annotations

import faulthandler
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

# Children inherit which signals are ignored, as a shell's background jobs and nohup ignore some, and not
# which are caught.
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, lambda *_: None)


@pytest.fixture(autouse=True)
def bounded() -> Iterator[None]:
    """No test waits for ever."""
    faulthandler.dump_traceback_later(3600, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


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


@dataclass(frozen=True)
class Data:
    """A data directory, and the command that has made it."""

    site: Site
    folder: Path

    def run(self, *arguments: str) -> str:
        """What the command writes to standard output."""
        command = [os.environ["BLOCKMILL_COMMAND"], *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def connect(self, folder: Path, *options: str) -> None:
        """Connects the chain into another directory."""
        network = ["--network", self.site.network]
        self.run("connect", "--blocks", str(self.site.blocks), "--data", str(folder), *network, *options)


def connected(site: Site, folder: Path) -> Data:
    if "BLOCKMILL_COMMAND" not in os.environ:
        pytest.skip("BLOCKMILL_COMMAND does not name the command")
    data = Data(site, folder)
    data.connect(folder)
    return data


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    """The chain of `small`, connected."""
    return connected(site("small"), tmp_path_factory.mktemp("small") / "data")


@pytest.fixture(scope="session")
def large_data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    """The chain of `large`, connected."""
    return connected(site("large"), tmp_path_factory.mktemp("large") / "data")
