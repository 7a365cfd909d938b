"""Blocks, transactions and signatures, validated with what is given: no data directory, no files.

>>> import blockmill
>>> verdict = blockmill.validate_block(block, coins, "bitcoin", 800_000)  # doctest: +SKIP
>>> verdict.valid, verdict.reason  # doctest: +SKIP
(False, 'bad-txns-inputs-missingorspent')

Work is done without the interpreter's lock, on the calling thread unless more are asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntFlag
from typing import Any, Literal, NamedTuple, Protocol, Union

from ._blockmill import DecodeError
from ._blockmill import validate_block as _validate_block
from ._blockmill import verify_signatures as _verify_signatures
from ._blockmill import verify_transaction as _verify_transaction

Signatures = Literal["auto", "one-by-one", "lanes"]


class ScriptFlag(IntFlag):
    """Rules of scripts, with the bits of Bitcoin Core's kernel library."""

    P2SH = 1
    DERSIG = 4
    NULLDUMMY = 16
    CHECKLOCKTIMEVERIFY = 512
    CHECKSEQUENCEVERIFY = 1024
    WITNESS = 2048
    TAPROOT = 131072
    ALL = 134677


class CoinLike(Protocol):
    """A coin: `SpentCoin`, or `Coin` of a set."""

    @property
    def value(self) -> int: ...
    @property
    def script(self) -> Any: ...
    @property
    def height(self) -> int: ...
    @property
    def coinbase(self) -> bool: ...


class SpentCoin(NamedTuple):
    """An output that is spent. `value` is in satoshi, `script` bytes or hex, `height` that of its block.

    In block order a coin of height 0 has an unknown height and counts as mature.
    """

    value: int
    script: bytes | str
    height: int = 0
    coinbase: bool = False


class SignatureCheck(NamedTuple):
    """A signature and what it signs. Numbers are 32 bytes in big endian.

    - `ecdsa`: `key` is a compressed public key, `message` the hash that is signed; `s` is at most half
      of the group's order.
    - `schnorr` (BIP 340): `key` is x-only.
    - `tweak` (BIP 341): `r` is the x coordinate of the tweaked point and `message[0]` the parity of its y
      coordinate, 0 or 1 (no point has another one); `key` is the internal key, `s` the tweak.
    """

    kind: Literal["ecdsa", "schnorr", "tweak"]
    key: bytes
    r: bytes
    s: bytes
    message: bytes


Coins = Union[Mapping[str, CoinLike], Sequence[CoinLike], bytes]


@dataclass(frozen=True)
class BlockVerdict:
    """What a block is. `reason` is Bitcoin Core's, none for a valid block.

    `kind` says what that means for the block's hash: `consensus` (it is invalid for ever), `header`,
    `no work` (nobody has mined this header), `mutated` (another content may be valid), or `time in
    the future` (it may become valid). `transaction` and `input` say where the rule is broken. Figures are
    those of a valid block; `inputs` has none of the coinbase, `fees` is in satoshi.
    """

    reason: str | None = None
    kind: str | None = None
    transaction: int | None = None
    input: int | None = None
    fees: int | None = None
    sigops_cost: int | None = None
    weight: int | None = None
    transactions: int | None = None
    inputs: int | None = None

    @property
    def valid(self) -> bool:
        """Whether it breaks no rule."""
        return self.reason is None


@dataclass(frozen=True)
class TransactionVerdict:
    """What the scripts of a transaction come to: the reason, and the first input that fails."""

    reason: str | None = None
    transaction: int | None = None
    input: int | None = None

    @property
    def valid(self) -> bool:
        """Whether all scripts pass."""
        return self.reason is None


def _coin(coin: CoinLike) -> tuple[int, int, bool, bytes]:
    script = coin.script
    return (coin.value, coin.height, coin.coinbase, bytes.fromhex(script) if isinstance(script, str) else script)


def _coins(coins: Coins) -> Any:
    if isinstance(coins, (bytes, bytearray, memoryview)):
        if not coins:
            raise DecodeError("undo data does not decode: it is empty")
        return bytes(coins)
    if isinstance(coins, Mapping):
        return {outpoint: _coin(coin) for outpoint, coin in coins.items()}
    return [_coin(coin) for coin in coins]


def validate_block(
    block: bytes,
    coins: Coins,
    network: str,
    height: int,
    *,
    bits: int | None = None,
    parent_time: int | None = None,
    median_time_past: int | None = None,
    median_times: Mapping[int, int] | None = None,
    now: int | None = None,
    bip30: bool | None = None,
    flags: int | None = None,
    proof_of_work: bool = True,
    signet_challenge: bytes | None = None,
    threads: int = 1,
    signatures: Signatures = "one-by-one",
) -> BlockVerdict:
    """Validates a block with the coins that it spends, by every rule and every script.

    coins: as they are before the block, by outpoint (`"txid:vout"`); or one for each input except the
    coinbase's, in block order; or the bytes of Core's undo data. A coin that the block itself creates
    must equal that output and is spent by a later transaction; every other coin has a lower height than
    the block.
    network: `bitcoin` (or `main`), `testnet3`, `testnet4`, `signet` or `regtest`.
    bits: the target that the header must have.
    parent_time, median_time_past: of the parent. Without the median no relative lock is checked.
    median_times: by height. A relative lock by time needs that of the height before its coin's.
    now: the clock, in seconds since 1970.
    bip30: whether the block must not make coins that are there; by the network's rule, if it is None.
    It shows with coins by outpoint alone.
    flags: of the scripts, see `ScriptFlag`; those of height and hash, if it is None.
    proof_of_work: whether the work is checked, and on signet the block's signature.
    signatures: `one-by-one` (libsecp256k1 alone), or `lanes` and `auto` (SIMD batches).

    What is None is not known, and a rule that needs it is left out. Raises `DecodeError` if the block or
    undo data does not decode or bytes follow it, `UsageError` if an argument cannot be used, or a median
    time is missing.
    """
    context = {
        "network": network,
        "signet_challenge": signet_challenge,
        "height": height,
        "bits": bits,
        "parent_time": parent_time,
        "median_time_past": median_time_past,
        "now": now,
        "median_times": dict(median_times or {}),
        "bip30": bip30,
        "flags": flags,
        "proof_of_work": proof_of_work,
    }
    return BlockVerdict(**_validate_block(block, _coins(coins), context, threads, signatures))


def verify_transaction(
    transaction: bytes,
    coins: Coins,
    *,
    flags: int = ScriptFlag.ALL,
    signatures: Signatures = "one-by-one",
) -> TransactionVerdict:
    """Runs the scripts of a transaction, which is serialized with its witnesses. No other rule is checked.

    coins: by outpoint, or one for each input in order. The other arguments are as for `validate_block`.
    """
    return TransactionVerdict(**_verify_transaction(transaction, _coins(coins), flags, signatures))


def verify_signatures(checks: Iterable[SignatureCheck], *, signatures: Signatures = "auto") -> list[bool]:
    """Whether each signature holds. With lanes many are verified at a time."""
    return _verify_signatures([tuple(check) for check in checks], signatures)
