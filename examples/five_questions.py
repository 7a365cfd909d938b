"""Five questions to a chain, each with its answer in SQL and its picture.

    pip install blockmill duckdb matplotlib
    python five_questions.py DATA                        # a data directory of Blockmill

It writes a picture for each question, and a page with all of them: docs/analysis.md is such a page.
DuckDB reads each table while its rows are made, so a chain of any length needs no more memory than the
answers.
"""

from __future__ import annotations

import argparse
import inspect
from pathlib import Path
from textwrap import fill
from typing import Any

import duckdb
import matplotlib
import pandas

import blockmill
from blockmill import UtxoSet

matplotlib.use("agg")
# The same answer gives the same bytes.
from matplotlib import pyplot  # noqa: E402


def fees_by_block(utxos: UtxoSet, picture: Path) -> pandas.DataFrame:
    """What did each block pay in fees?"""
    transactions = utxos.transactions()  # DuckDB finds it by its name.
    answer = duckdb.sql("""
        select height, sum(fee)::bigint as satoshi from transactions
        where not coinbase group by height order by height""").df()
    pyplot.plot(answer.height, answer.satoshi, linewidth=0.8)
    return save(answer, picture, "height", "satoshi")


def coins_by_age(utxos: UtxoSet, picture: Path) -> pandas.DataFrame:
    """How long have coins lain, in days?"""
    coins = utxos.coins()
    answer = duckdb.sql("""
        with made as (select block_time, count(*) as coins, sum(value) as satoshi from coins group by block_time),
            aged as (select *, epoch(max(block_time) over () - block_time)::bigint // 86400 as days from made)
        select days, sum(coins)::bigint as coins, sum(satoshi)::bigint as satoshi
        from aged group by days order by days""").df()
    pyplot.bar(answer.days, answer.satoshi)
    return save(answer, picture, "days", "satoshi")


def dust(utxos: UtxoSet, picture: Path) -> pandas.DataFrame:
    """Which coins are dust, at Core's feerate of 3,000 satoshi a kvB?"""
    coins = utxos.coins()
    answer = duckdb.sql("""
        select script_type, count(*) as coins, count(*) filter (value < case script_type
            when 'pubkeyhash' then 546 when 'scripthash' then 540 when 'witness_v0_keyhash' then 294
            when 'pubkey' then 576 else 330 end) as dust
        from coins group by script_type order by coins desc, script_type""").df()
    pyplot.barh(answer.script_type, 100 * answer.dust / answer.coins)
    return save(answer, picture, "dust, percent of coins", "")


def kinds_of_script(utxos: UtxoSet, picture: Path) -> pandas.DataFrame:
    """Which kinds of script are paid to, over time?"""
    outputs = utxos.outputs()
    answer = duckdb.sql("""
        select height // 50 * 50 as from_height, script_type, count(*) as outputs
        from outputs group by all order by from_height, script_type""").df()
    for kind, rows in answer.groupby("script_type"):
        pyplot.plot(rows.from_height, rows.outputs, label=kind)
    return save(answer, picture, "height", "outputs of 50 blocks")


def largest_balances(utxos: UtxoSet, picture: Path) -> pandas.DataFrame:
    """Who has most?"""
    coins = utxos.coins()
    answer = duckdb.sql("""
        select coalesce(address, script) as owner, sum(value)::bigint as satoshi, count(*) as coins
        from coins group by owner order by satoshi desc, owner limit 15""").df()
    pyplot.barh(answer.owner.str[:20][::-1], answer.satoshi[::-1])
    return save(answer, picture, "satoshi", "")


QUESTIONS = [fees_by_block, coins_by_age, dust, kinds_of_script, largest_balances]


def save(answer: pandas.DataFrame, picture: Path, across: str, up: str) -> pandas.DataFrame:
    """Writes the picture that was drawn."""
    pyplot.xlabel(across)
    pyplot.ylabel(up)
    if pyplot.gca().get_legend_handles_labels()[0]:
        pyplot.legend(fontsize="small")
    pyplot.gcf().set_size_inches(8, 4)
    pyplot.tight_layout()
    pyplot.savefig(picture, metadata={"Software": None})
    pyplot.close()
    return answer


def listed(answer: pandas.DataFrame, lines: int = 6) -> str:
    """The first rows as a table of Markdown."""
    rows = answer.head(lines).itertuples(index=False)
    texts = [[cell if isinstance(cell, str) else f"{cell:,}" for cell in row] for row in rows]
    table = [list(answer.columns), ["---"] * len(answer.columns), *texts]
    return "\n".join("| " + " | ".join(row) + " |" for row in table)


def body(question: Any) -> str:
    """The code of a question, without its head and its words."""
    lines = inspect.getsource(question).splitlines()
    return inspect.cleandoc("\n" + "\n".join(lines[2:]))


def write_page(utxos: UtxoSet, out: Path, page: Path, said: str) -> None:
    """Answers all questions."""
    out.mkdir(parents=True, exist_ok=True)
    parts = [
        "# Five questions to a chain",
        fill(
            "This page is made by [examples/five_questions.py](../examples/five_questions.py), which a user "
            f"runs on a data directory of his own. {said} Its last block is at height {utxos.height:,}.",
            100,
        ),
        "Each answer is one pass over the blocks or over the coins. `utxos` is\n\n"
        '```python\nutxos = blockmill.open("~/blockmill")\n```',
    ]
    for question in QUESTIONS:
        picture = out / f"{question.__name__}.png"
        answer = question(utxos, picture)
        link = picture.relative_to(page.parent).as_posix()
        parts += [f"## {question.__doc__}", f"```python\n{body(question)}\n```"]
        parts += [listed(answer), f"![{question.__doc__}]({link})"]
    page.write_text("\n\n".join(parts) + "\n")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("data", type=Path, help="data directory of Blockmill")
    arguments.add_argument("--page", type=Path, default=Path("analysis.md"), help="the page to write")
    arguments.add_argument("--said", default="", help="a sentence about the chain")
    given = arguments.parse_args()
    page = given.page
    write_page(blockmill.open(given.data), page.parent / page.stem, page, given.said)
    print(f"{page}: {len(QUESTIONS)} questions")


if __name__ == "__main__":
    main()
