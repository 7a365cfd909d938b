"""Validation with given coins: Core's verdicts, as Rust has them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import blockmill
from blockmill import BlockVerdict, ScriptFlag, SignatureCheck, SpentCoin

BLOCKS = Path(__file__).parents[4] / "shared" / "data" / "blocks"

SCHNORR = SignatureCheck(
    "schnorr",
    bytes.fromhex("F9308A019258C31049344F85F89D5229B531C845836F99B08601F113BCE036F9"),
    bytes.fromhex("E907831F80848D1069A5371B402410364BDF1C5F8307B0084C55F1CE2DCA8215"),
    bytes.fromhex("25F66A4A85EA8B71E482A74F382D2CE5EBEEE8FDB2172F477DF4900D310536C0"),
    bytes(32),
)


def cases() -> Iterator[tuple[str, dict[str, Any], dict[str, SpentCoin], bytes, tuple[str, int, int]]]:
    """The cases of crates/validate/tests/it/cases.rs, which has the format."""
    path = Path(os.environ["BLOCKMILL_CHAINS"]) / "cases"
    if not path.is_file() or not path.stat().st_size:
        pytest.skip("there are no cases")
    words = iter(path.read_text().split())

    def field(name: str) -> str:
        assert next(words) == name
        return next(words)

    def octets() -> bytes:
        text = next(words)
        return b"" if text == "-" else bytes.fromhex(text)

    for word in words:
        assert word == "case"
        name, height = next(words), int(field("height"))
        context: dict[str, Any] = {"height": height, "bits": int(field("bits"))}
        context["parent_time"] = int(field("parent_time"))
        context["median_time_past"] = int(field("median"))
        context["now"] = int(field("now"))
        context["proof_of_work"] = field("work") == "1"
        context["median_times"] = {height: int(next(words)) for height in range(int(field("times")))}
        coins = {}
        for _ in range(int(field("coins"))):
            outpoint = f"{octets()[::-1].hex()}:{next(words)}"
            value, height, coinbase = int(next(words)), int(next(words)), next(words) == "1"
            coins[outpoint] = SpentCoin(value, octets(), height, coinbase)
        assert next(words) == "block"
        block = octets()
        yield name, context, coins, block, (field("verdict"), int(next(words)), int(next(words)))


def test_verdicts_are_those_of_rust() -> None:
    count = 0
    for name, context, coins, block, expected in cases():
        try:
            verdict = blockmill.validate_block(block, coins, "regtest", **context)
            found = verdict.reason or "valid"
        except blockmill.DecodeError:
            verdict, found = BlockVerdict(), "malformed"
        places = [-1 if place is None else place for place in (verdict.transaction, verdict.input)]
        assert (found, *places) == expected, name
        count += 1
    assert count > 20_000


def real(name: str) -> tuple[bytes, bytes]:
    path = BLOCKS / f"{name}.raw"
    if not path.exists():
        pytest.skip("there are no real blocks")
    return path.read_bytes(), path.with_suffix(".undo").read_bytes()


@pytest.mark.parametrize("signatures", ["one-by-one", "lanes", "auto"])
def test_a_real_block(signatures: Any) -> None:
    block, undo = real("mainnet_757739")
    verdict = blockmill.validate_block(block, undo, "bitcoin", 757_739, signatures=signatures, threads=2)
    assert verdict.valid and verdict.reason is None and verdict.kind is None
    assert verdict.weight and verdict.inputs and verdict.transactions and verdict.fees and verdict.sigops_cost
    other = blockmill.validate_block(block, undo, "bitcoin", 757_740, signatures=signatures)
    assert (other.valid, other.reason, other.kind) == (False, "bad-cb-height", "consensus")
    changed = blockmill.validate_block(block[:-1] + b"\x01", undo, "bitcoin", 757_739, signatures=signatures)
    assert (changed.reason, changed.kind) == ("bad-txnmrklroot", "mutated")


def test_the_first_payment() -> None:
    block, undo = real("mainnet_170")
    key = "0411db93e1dcdb8a016b49840f8c53bc1eb68a382e97b1482ecad7b148a6909a5c"
    key += "b2e0eaddfb84ccf9744464f82e160bfa9b8b64f9d4c03f999b8643f656b412a3"
    coin = SpentCoin(50 * 10**8, f"41{key}ac", 9, True)
    outpoint = "0437cd7f8525ceed2324359c2d0ba26006d92d856a9c20fa0241106ee5a597c9:0"
    for coins in ({outpoint: coin}, [coin], undo):
        assert blockmill.validate_block(block, coins, "main", 170).fees == 0
    # The second transaction, by itself.
    transaction = block[-275:]
    assert transaction[:4] == b"\x01\0\0\0"
    assert blockmill.verify_transaction(transaction, [coin]).valid
    assert blockmill.verify_transaction(transaction, {outpoint: coin}, flags=ScriptFlag.P2SH).valid
    wrong = blockmill.verify_transaction(transaction, [coin._replace(script=b"\x6a")])
    assert (wrong.valid, wrong.reason, wrong.input) == (False, "block-script-verify-flag-failed", 0)
    missing = blockmill.verify_transaction(transaction, {})
    assert (missing.reason, missing.input) == ("bad-txns-inputs-missingorspent", 0)
    none = blockmill.validate_block(block, {}, "main", 170)
    assert (none.reason, none.transaction, none.input) == ("bad-txns-inputs-missingorspent", 1, 0)


# Regtest, height 200. A transaction spends output 0 of aa..aa, and another one the output of the first; in
# the second block they have changed places.
IN_ORDER = bytes.fromhex(
    "040000000707070707070707070707070707070707070707070707070707070707070707d02e62dd4650e792ae1983129e75"
    "1b1814394ce9d50e83e407b0785a1558a8da004e7253ffff7f20030000000301000000010000000000000000000000000000"
    "000000000000000000000000000000000000ffffffff0502c8000000ffffffff0100f9029500000000015100000000020000"
    "0001aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa0000000000ffffffff01840300000000"
    "000001510000000002000000010b03f90af75cff29bc06c2b70362862ec1c83b351346b8a47f674836e63d10c10000000000"
    "ffffffff012003000000000000015100000000"
)
OUT_OF_ORDER = bytes.fromhex(
    "040000000707070707070707070707070707070707070707070707070707070707070707b2ddee3aad72a4652eaf287384fa"
    "91d89e754f8f42bef1fe0173633dab40125c004e7253ffff7f20000000000301000000010000000000000000000000000000"
    "000000000000000000000000000000000000ffffffff0502c8000000ffffffff0100f9029500000000015100000000020000"
    "00010b03f90af75cff29bc06c2b70362862ec1c83b351346b8a47f674836e63d10c10000000000ffffffff01200300000000"
    "00000151000000000200000001aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa0000000000"
    "ffffffff018403000000000000015100000000"
)


@pytest.mark.parametrize("height", [0, 1, 150, 199, 200, 201, (1 << 31) - 1])
def test_coins_of_the_block_and_above_it_are_missing(height: int) -> None:
    def reason(block: bytes, coins: Any) -> tuple[str | None, int | None]:
        verdict = blockmill.validate_block(block, coins, "regtest", 200)
        return verdict.reason, verdict.transaction

    missing = "bad-txns-inputs-missingorspent"
    before = SpentCoin(1_000, b"\x51", 50)
    own = SpentCoin(900, b"\x51", height)
    assert reason(IN_ORDER, [before, own]) == ((None, None) if height in (0, 200) else (missing, 2))
    assert reason(OUT_OF_ORDER, [own, before]) == (missing, 1)
    lower = (None, None) if height < 200 else (missing, 1)
    assert reason(IN_ORDER, [before._replace(height=height), own._replace(height=200)]) == lower
    assert reason(IN_ORDER, {f"{'aa' * 32}:0": before._replace(height=height)}) == lower
    assert reason(OUT_OF_ORDER, {f"{'aa' * 32}:0": before}) == (missing, 1)


def test_the_parity_of_a_tweak_is_0_or_1() -> None:
    # 3 G is G, tweaked by 2.
    generator = bytes.fromhex("79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798")
    tripled = bytes.fromhex("f9308a019258c31049344f85f89d5229b531c845836f99b08601f113bce036f9")
    checks = [
        SignatureCheck("tweak", generator, tripled, bytes(31) + b"\2", bytes([parity]) * 32)
        for parity in range(256)
    ]
    ways: tuple[Any, ...] = ("one-by-one", "lanes", "auto")
    for way in ways:
        assert blockmill.verify_signatures(checks, signatures=way) == [True] + [False] * 255


def test_signatures() -> None:
    wrong = SCHNORR._replace(message=bytes([1]) * 32)
    ways: tuple[Any, ...] = ("one-by-one", "lanes", "auto")
    for way in ways:
        holds = blockmill.verify_signatures([SCHNORR, wrong] * 40, signatures=way)
        assert holds == [True, False] * 40
    assert blockmill.verify_signatures([]) == []


def test_what_cannot_be_used() -> None:
    block, undo = real("mainnet_170")
    for broken in (b"", block[:-1], block + b"\0"):
        with pytest.raises(blockmill.DecodeError):
            blockmill.validate_block(broken, undo, "main", 170)
    for broken in (b"", undo[:-1], undo + b"\0"):
        with pytest.raises(blockmill.DecodeError):
            blockmill.validate_block(block, broken, "main", 170)
    wrong: tuple[dict[str, Any], ...] = (
        {"network": "nonet"},
        {"height": 0},
        {"height": 1 << 31},
        {"flags": 1 << 30},
        {"flags": ScriptFlag.WITNESS},
        {"signatures": "neither"},
        {"signatures": "kernel"},
        {"signet_challenge": b"\x51"},
        {"coins": {"no outpoint": SpentCoin(1, b"")}},
        {"coins": {f"{'aa' * 32}:1": SpentCoin(1, b""), f"{'AA' * 32}:1": SpentCoin(2, b"")}},
        {"coins": [SpentCoin(1, b"", 1 << 31)]},
    )
    for arguments in wrong:
        right: dict[str, Any] = {"block": block, "coins": undo, "network": "main", "height": 170}
        with pytest.raises(blockmill.UsageError):
            blockmill.validate_block(**{**right, **arguments})
    for check in (
        SCHNORR._replace(kind="none"),  # type: ignore[arg-type]
        SCHNORR._replace(key=b"\x02"),
        SCHNORR._replace(kind="ecdsa"),
        SCHNORR._replace(r=bytes(31)),
    ):
        with pytest.raises(blockmill.UsageError):
            blockmill.verify_signatures([check])
