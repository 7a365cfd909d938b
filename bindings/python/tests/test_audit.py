"""Audits on this machine."""

from __future__ import annotations

import ctypes
import logging
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Site

import blockmill
from blockmill import Chain, Key, Part, Progress


def cut(site: Site, key: Key, folder: Path) -> list[Path]:
    """The parts of a chain, as files, made of a chain that was searched once."""
    chain = blockmill.index(site.blocks, site.network)
    files = []
    for first, last, _ in chain.ranges(50_000):
        file = folder / f"{first}.part"
        part = blockmill.audit_part(chain, None, key, first, last, out=file, threads=1)
        assert (part.first, part.last, part.is_clean) == (first, last, True)
        assert file.read_bytes() == bytes(part)
        files.append(file)
    return files


def test_a_chain_is_proved(small: Site) -> None:
    heard: list[Progress] = []
    report = blockmill.audit(small.blocks, small.snapshot, small.network, threads=2, progress=heard.append)
    assert report.is_proved and report.verdict == "proved" and report.findings == ()
    assert report.whole and report.why == ()
    assert (report.network, report.height, report.blocks) == ("regtest", 160, 161)
    assert report.inputs >= 2000 and report.coins == 923 and report.transactions > 160
    assert report.seconds > 0 and report.cpu_seconds > 0
    assert {progress.phase for progress in heard} >= {"headers", "blocks"}
    last = [progress for progress in heard if progress.phase == "blocks"][-1]
    assert last.share == 1.0 and last.inputs == report.inputs and last.seconds_left == 0.0


def test_files_that_are_not_whole_prove_nothing(small: Site, tmp_path: Path) -> None:
    blocks = shutil.copytree(small.blocks, tmp_path / "blocks")
    (blocks / "blk00099.dat").write_bytes(b"\x07" * 400)
    report = blockmill.audit(blocks, small.snapshot, small.network)
    assert report.verdict == "incomplete" and not report.whole
    assert "blk00099.dat" in report.why[0] and report.why[0] in str(report.findings[0])


def test_the_main_network_is_proved(main: Site) -> None:
    report = blockmill.audit([str(main.blocks)], str(main.snapshot), main.network)
    assert report.is_proved and report.height == 14_131


def test_a_lie_is_refuted(small: Site) -> None:
    report = blockmill.audit(small.blocks, small.lie, small.network)
    assert report.verdict == "refuted" and not report.is_proved
    (finding,) = report.findings
    assert finding.kind == "sums" and finding.refutes and "differ by -1 satoshi" in str(finding)


def test_parts_are_joined_in_any_order(small: Site, tmp_path: Path) -> None:
    key = blockmill.audit_key(tmp_path / "key")
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    files = cut(small, key, tmp_path)
    assert len(files) > 2
    report = blockmill.audit_merge(tmp_path / "key", small.snapshot, reversed(files))
    assert report.is_proved and report.blocks == 161
    parts = [Part.read(key, file) for file in files]
    assert blockmill.audit_merge(
        key, small.snapshot, [parts[0], *(bytes(part) for part in parts[1:])]
    ).is_proved
    missing = blockmill.audit_merge(key, small.snapshot, files[1:])
    assert missing.verdict == "incomplete" and missing.findings[0].kind == "parts"
    # The same blocks give the same bytes, also where files are searched anew.
    again = blockmill.audit_part(small.blocks, small.network, key, parts[0].first, parts[0].last)
    assert again == parts[0]
    changed = bytearray(bytes(parts[1]))
    changed[-1] ^= 1
    with pytest.raises(blockmill.PartError, match="was changed"):
        Part.read(key, bytes(changed))
    with pytest.raises(blockmill.PartError, match="another key"):
        Part.read(Key.draw(), bytes(parts[1]))
    sealed = blockmill.audit_merge(key, small.snapshot, [parts[0], bytes(changed), *files[2:]])
    assert sealed.verdict == "incomplete" and sealed.findings[0].kind == "seal"


def test_a_run_goes_on(small: Site, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    first = blockmill.audit(small.blocks, small.snapshot, small.network, resume=kept)
    assert first.is_proved and len(list(kept.glob("*.part"))) > 0
    heard: list[Progress] = []
    second = blockmill.audit(small.blocks, small.snapshot, small.network, resume=kept, progress=heard.append)
    assert second.is_proved
    # Nothing was left to do but to read the set.
    assert all(not progress.blocks for progress in heard)


def test_chains_and_keys_can_be_pickled(small: Site) -> None:
    chain = blockmill.index(small.blocks, small.network)
    same = pickle.loads(pickle.dumps(chain))
    assert isinstance(same, Chain)
    assert (same.height, same.network, same.hash(7)) == (160, "regtest", chain.hash(7))
    assert same.ranges(50_000) == chain.ranges(50_000)
    assert sys.getsizeof(chain) > 160 * 96
    key = Key.draw()
    assert pickle.loads(pickle.dumps(key)).run == key.run
    assert repr(key) == f"Key(run='{key.run}')"
    part = blockmill.audit_part(same, None, key, 0, 40)
    assert blockmill.audit_part(chain, None, key, 0, 40) == part


def test_headers_of_other_files(small: Site, tmp_path: Path) -> None:
    for name in ["blk00001.dat", "rev00001.dat", "xor.dat"]:
        shutil.copy(small.blocks / name, tmp_path)
    headers = (small.folder / "headers").read_bytes()
    key = Key.draw()
    alone = blockmill.audit_part(tmp_path, small.network, key, 50, 99, headers=headers)
    assert alone == blockmill.audit_part(small.blocks, small.network, key, 50, 99)
    with pytest.raises(blockmill.UnreadableError, match="height 100: in none of the block files") as raised:
        blockmill.audit_part(tmp_path, small.network, key, 50, 100, headers=headers)
    (finding,) = raised.value.findings
    assert finding.kind == "unreadable" and not finding.refutes
    assert pickle.loads(pickle.dumps(raised.value)).findings == (finding,)


def test_wrong_use_is_refused(small: Site, tmp_path: Path) -> None:
    unknown: Any = "fast"
    no_key = tmp_path / "no key"
    no_key.touch(mode=0o600)
    wrong_uses: list[tuple[type[Exception], str, Callable[[], object]]] = [
        (blockmill.FileError, "nowhere", lambda: blockmill.audit("/nowhere", small.snapshot, "regtest")),
        (
            blockmill.FileError,
            "not a UTXO snapshot",
            lambda: blockmill.audit(small.blocks, __file__, "regtest"),
        ),
        (blockmill.FileError, "network", lambda: blockmill.audit(small.blocks, small.snapshot, "main")),
        (blockmill.UsageError, "mainnetz", lambda: blockmill.audit(small.blocks, small.snapshot, "mainnetz")),
        (blockmill.UsageError, "are needed", lambda: blockmill.audit(small.blocks, small.snapshot)),
        (
            blockmill.UsageError,
            "fast",
            lambda: blockmill.audit(small.blocks, small.snapshot, "regtest", signatures=unknown),
        ),
        (
            blockmill.UsageError,
            "at least 1",
            lambda: blockmill.audit(small.blocks, small.snapshot, "regtest", threads=0),
        ),
        (
            blockmill.UsageError,
            "for signet",
            lambda: blockmill.audit(small.blocks, small.snapshot, "regtest", signet_challenge=b"Q"),
        ),
        (blockmill.FileError, "directory", lambda: blockmill.audit(data=tmp_path / "nothing")),
        (blockmill.KeyFileError, "no key file", lambda: Key.read(str(no_key))),
        (
            blockmill.UsageError,
            "heights 5 to 161",
            lambda: blockmill.audit_part(small.blocks, "regtest", Key.draw(), 5, 161),
        ),
        (
            blockmill.FileError,
            "No such file",
            lambda: blockmill.audit_merge(Key.draw(), small.snapshot, ["/nowhere"]),
        ),
        (blockmill.UsageError, "either", lambda: blockmill.audit_merge(Key.draw(), None, [])),
    ]
    for error, words, call in wrong_uses:
        with pytest.raises(error, match=words):
            call()
        assert issubclass(error, blockmill.BlockmillError)
    mode = tmp_path / "exposed"
    Key.draw().write(str(mode))
    mode.chmod(0o644)
    with pytest.raises(blockmill.KeyFileError, match="others than its owner"):
        Key.read(str(mode))
    with pytest.raises(blockmill.KeyFileError, match="already"):
        blockmill.audit_key(mode)


def test_damage_goes_to_the_log(small: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    shutil.copytree(small.blocks, tmp_path / "blocks")
    (tmp_path / "blocks" / "xor.dat").unlink()
    with caplog.at_level(logging.WARNING, "blockmill"):
        report = blockmill.audit(tmp_path / "blocks", small.snapshot, small.network)
    assert report.verdict == "incomplete"
    assert any("blk00000.dat" in record.getMessage() for record in caplog.records)


def test_an_exception_of_the_callback_ends_it(large: Site) -> None:
    class Enough(Exception):
        pass

    def enough(progress: Progress) -> None:
        if progress.phase == "blocks":
            raise Enough

    start = time.monotonic()
    with pytest.raises(Enough):
        blockmill.audit(
            large.blocks, large.snapshot, large.network, threads=1, signatures="one-by-one", progress=enough
        )
    assert time.monotonic() - start < 2.0


def test_other_threads_run_meanwhile(large: Site) -> None:
    done = threading.Event()
    turns = 0

    def count() -> None:
        nonlocal turns
        while not done.is_set():
            turns += 1
            time.sleep(0.001)

    counting = threading.Thread(target=count)
    counting.start()
    start = time.monotonic()
    report = blockmill.audit(large.blocks, large.snapshot, large.network, threads=1, signatures="one-by-one")
    seconds = time.monotonic() - start
    done.set()
    counting.join()
    assert report.is_proved
    # With the interpreter's lock held there would be none.
    assert turns > 20 * seconds


def test_ctrl_c_ends_it(large: Site) -> None:
    code = (
        "import blockmill, sys\n"
        "def say(progress):\n"
        "    if progress.phase == 'blocks': print('on', flush=True)\n"
        f"blockmill.audit({str(large.blocks)!r}, {str(large.snapshot)!r}, 'regtest', threads=1,"
        " signatures='one-by-one', progress=say)\n"
        "print('over', flush=True)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "on\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=10)
    assert "KeyboardInterrupt" in err and "over" not in out
    assert process.returncode != 0


def test_the_module_is_for_every_python() -> None:
    import blockmill._blockmill as native

    assert ".abi3." in os.path.basename(native.__file__ or "")
    assert ctypes.CDLL(native.__file__ or "")
    assert blockmill.__version__ == native.__version__
