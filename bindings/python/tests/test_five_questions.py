"""The questions of examples/five_questions.py, beside the same SQL over exported files."""

from __future__ import annotations

import importlib.util
import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from conftest import Data, Site

import blockmill

pyarrow_parquet = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("duckdb")
pytest.importorskip("pandas")
pytest.importorskip("matplotlib")

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "examples" / "five_questions.py"
PAGE = ROOT / "docs" / "analysis.md"

LINES = 10
"""Of a question, from its table to its picture."""


def script() -> Any:
    spec = importlib.util.spec_from_file_location("five_questions", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Exported:
    """Tables that the command has written."""

    def __init__(self, data: Data, folder: Path) -> None:
        self._data = data
        self._folder = folder

    def __getattr__(self, name: str) -> Any:
        file = self._folder / f"{name}.parquet"
        if not file.exists():
            self._data.run("export", name, "--data", str(self._data.folder), "--out", str(file))
        return lambda: pyarrow_parquet.read_table(file)


def test_answers_are_those_of_exported_files(data: Data, tmp_path: Path) -> None:
    questions = script()
    utxos, exported = blockmill.open(data.folder), Exported(data, tmp_path)
    assert len(questions.QUESTIONS) == 5
    for question in questions.QUESTIONS:
        answer = question(utxos, tmp_path / "picture.png")
        # The chain is of one day.
        assert len(answer) > (0 if "age" in question.__name__ else 1), question.__name__
        assert answer.equals(question(exported, tmp_path / "again.png")), question.__name__
        assert (tmp_path / "picture.png").read_bytes() == (tmp_path / "again.png").read_bytes()
    balances = questions.largest_balances(utxos, tmp_path / "picture.png")
    stats = utxos.stats()
    assert questions.coins_by_age(utxos, tmp_path / "picture.png").satoshi.sum() == stats.total_amount
    owner = next(owner for owner in balances.owner if not re.fullmatch("[0-9a-f]+", owner))
    assert utxos.balance(owner).satoshi == balances[balances.owner == owner].satoshi.iloc[0]


def test_the_page_has_the_code_of_the_questions(data: Data, tmp_path: Path) -> None:
    questions = script()
    page = PAGE.read_text()
    for question in questions.QUESTIONS:
        assert f"## {question.__doc__}\n\n```python\n{questions.body(question)}\n```" in page, question.__name__
        assert (PAGE.parent / "analysis" / f"{question.__name__}.png").is_file()
        # The head, its words, and the lines of the question.
        assert len(inspect.getsource(question).splitlines()) <= LINES + 2, question.__name__
    made = tmp_path / "analysis.md"
    questions.write_page(blockmill.open(data.folder), tmp_path / "analysis", made, "A sentence.")
    assert "height 160" in made.read_text() and len(list((tmp_path / "analysis").iterdir())) == 5


def test_a_real_chain_has_answers(main: Site, tmp_path: Path) -> None:
    data = Data(main, tmp_path / "data")
    data.connect(data.folder)
    questions = script()
    utxos = blockmill.open(data.folder)
    kinds = questions.kinds_of_script(utxos, tmp_path / "picture.png")
    assert set(kinds.script_type) >= {"pubkey", "pubkeyhash"}
    assert kinds.outputs.sum() == utxos.outputs().to_arrow().num_rows
    # Only blocks with other transactions than the coinbase pay fees.
    assert 0 < len(questions.fees_by_block(utxos, tmp_path / "picture.png")) < utxos.height
