//! What the handles are, and what the functions do.

use crate::status::{
    CHECK_ECDSA, CHECK_SCHNORR, CHECK_TWEAK, FAULT, Failed, INVALID, KIND_CONSENSUS, KIND_HEADER, KIND_MUTATED,
    KIND_NO_WORK, KIND_NONE, KIND_TIME_FUTURE, OK, SIGNATURES_FASTEST, SIGNATURES_LANES, SIGNATURES_ONE_BY_ONE,
    UNKNOWN_TIME, VERIFIER_FAILED, text,
};
use blockmill_block::transaction::OwnedTransaction;
use blockmill_block::{Block, BlockUndo, Coin, CoinList, CoinRef, Network, OutPoint};
use blockmill_rules::{Params, Reject, RejectKind, ScriptFlags, spend};
use blockmill_script::{Check, CoreVerifier, Kind, Signatures};
use blockmill_validate::{
    CollectedCoins, KnownChain, Validator, ValidatorOptions, Verified, VerifyBlockError, VerifyTransactionError,
};
use std::collections::HashMap;
use std::ffi::{CString, c_int};
use std::sync::{Mutex, MutexGuard};

/// `blockmill_validator`.
pub struct ValidatorHandle(Mutex<Validator<CoreVerifier>>);

impl ValidatorHandle {
    /// A validator with this many threads.
    ///
    /// # Errors
    /// [`Failed`].
    pub fn new(threads: usize, signatures: c_int) -> Result<Self, Failed> {
        let verifier = match signatures {
            SIGNATURES_ONE_BY_ONE => CoreVerifier::new(Signatures::OneByOne),
            SIGNATURES_LANES | SIGNATURES_FASTEST => CoreVerifier::new(Signatures::Lanes),
            other => return Err(Failed::argument(format!("{other} is no way to verify signatures"))),
        };
        let options = ValidatorOptions {
            threads: threads.max(1),
            lanes: signatures != SIGNATURES_ONE_BY_ONE,
        };
        let validator = Validator::new(verifier.into(), options)
            .map_err(|error| Failed(VERIFIER_FAILED, format!("threads cannot be made: {error}")))?;
        Ok(Self(Mutex::new(validator)))
    }

    fn lock(&self) -> Result<MutexGuard<'_, Validator<CoreVerifier>>, Failed> {
        let broken = |_| Failed(FAULT, "an earlier call with this validator has panicked".to_owned());
        self.0.lock().map_err(broken)
    }

    /// Validates a block. The verdict is a cleared one.
    ///
    /// # Errors
    /// [`Failed`].
    pub fn validate_block(
        &self,
        bytes: &[u8],
        coins: &CoinsHandle,
        context: &ContextHandle,
        verdict: &mut VerdictHandle,
    ) -> Result<c_int, Failed> {
        let block = Block::decode(bytes.to_vec()).map_err(|error| Failed::decoding("the block", error))?;
        let rest = bytes.len() - block.bytes().len();
        if rest > 0 {
            return Err(Failed::decoding("the block", format!("{rest} bytes are left over")));
        }
        let outcome = self.lock()?.validate_collected(&block.into(), &coins.0, &context.0);
        verdict.take(match outcome {
            Ok(verified) => Ok(Some(verified)),
            Err(VerifyBlockError::Reject(reject)) => Err(reject),
            Err(error @ VerifyBlockError::UnknownMedianTime(_)) => return Err(Failed(UNKNOWN_TIME, error.to_string())),
            Err(error) => return Err(Failed(VERIFIER_FAILED, error.to_string())),
        })
    }

    /// Runs the scripts of a transaction. The verdict is a cleared one.
    ///
    /// # Errors
    /// [`Failed`].
    pub fn verify_transaction(
        &self,
        bytes: &[u8],
        coins: &CoinsHandle,
        flags: u32,
        verdict: &mut VerdictHandle,
    ) -> Result<c_int, Failed> {
        let flags = script_flags(flags)?;
        let transaction =
            OwnedTransaction::decode(bytes.to_vec()).map_err(|error| Failed::decoding("the transaction", error))?;
        let view = transaction.view();
        if view.raw().len() < bytes.len() {
            return Err(Failed::decoding("the transaction", "bytes are left over"));
        }
        let outcome = self.lock()?.verify_transaction_collected(&view, &coins.0, flags);
        verdict.take(match outcome {
            Ok(()) => Ok(None),
            Err(VerifyTransactionError::Script(input)) => Err(spend::SCRIPT_FAILED.at_input(input)),
            Err(VerifyTransactionError::Missing(input)) => Err(spend::MISSING.at_input(input)),
            Err(VerifyTransactionError::Verifier(words)) => return Err(Failed(VERIFIER_FAILED, words)),
        })
    }

    /// Verifies signatures: whether each holds.
    ///
    /// # Errors
    /// [`Failed`].
    pub fn verify_signatures(&self, checks: &[[u8; CHECK_LENGTH]]) -> Result<Vec<bool>, Failed> {
        let checks: Vec<Check> = checks.iter().map(check).collect::<Result<_, _>>()?;
        let validator = self.lock()?;
        let holds = validator.verifier().verify_signatures(&checks);
        holds.map_err(|error| Failed(VERIFIER_FAILED, error.to_string()))
    }
}

/// Bytes of a `blockmill_check`.
pub const CHECK_LENGTH: usize = 130;

fn check(bytes: &[u8; CHECK_LENGTH]) -> Result<Check, Failed> {
    let (head, numbers) = bytes.split_at(34);
    let number = |index: usize| -> [u8; 32] { std::array::from_fn(|byte| numbers[32 * index + byte]) };
    Ok(Check {
        kind: match head[0] {
            CHECK_ECDSA => Kind::Ecdsa,
            CHECK_SCHNORR => Kind::Schnorr,
            CHECK_TWEAK => Kind::Tweak,
            other => return Err(Failed::argument(format!("{other} is no kind of a signature check"))),
        },
        key: std::array::from_fn(|byte| head[1 + byte]),
        r: number(0),
        s: number(1),
        message: number(2),
    })
}

/// Flags that a script can run under.
fn script_flags(flags: u32) -> Result<ScriptFlags, Failed> {
    let flags = ScriptFlags(flags);
    if !flags.can_run() {
        return Err(Failed::argument(format!(
            "no script runs under the flags {:#x}",
            flags.0
        )));
    }
    Ok(flags)
}

/// `blockmill_coins`.
#[derive(Debug, Clone)]
pub struct CoinsHandle(CollectedCoins);

impl CoinsHandle {
    /// Coins by outpoint.
    pub fn by_outpoint() -> Self {
        Self(CollectedCoins::ByOutPoint(HashMap::new()))
    }

    /// Coins in block order.
    pub fn in_order() -> Self {
        Self(CollectedCoins::InOrder(CoinList::default()))
    }

    /// Coins of undo data.
    ///
    /// # Errors
    /// [`Failed`].
    pub fn from_undo(bytes: &[u8]) -> Result<Self, Failed> {
        let undo = BlockUndo::decode(bytes).map_err(|error| Failed::decoding("undo data", error))?;
        Ok(Self(CollectedCoins::Undo(undo.into())))
    }

    /// Adds a coin by outpoint.
    ///
    /// # Errors
    /// [`Failed`].
    pub fn add(&mut self, outpoint: OutPoint, coin: CoinRef<'_>) -> Result<c_int, Failed> {
        let coin: Coin = within_range(coin)?.to_coin();
        let CollectedCoins::ByOutPoint(coins) = &mut self.0 else {
            return Err(Failed::argument("these coins are in block order, without outpoints"));
        };
        coins.insert(outpoint, coin);
        Ok(OK)
    }

    /// Adds the coin of the next input.
    ///
    /// # Errors
    /// [`Failed`].
    pub fn push(&mut self, coin: CoinRef<'_>) -> Result<c_int, Failed> {
        let coin = within_range(coin)?;
        let CollectedCoins::InOrder(coins) = &mut self.0 else {
            return Err(Failed::argument(
                "these coins are not made to be added to in block order",
            ));
        };
        coins.push(coin);
        Ok(OK)
    }

    /// Number of coins.
    pub fn count(&self) -> usize {
        match &self.0 {
            CollectedCoins::ByOutPoint(coins) => coins.len(),
            CollectedCoins::InOrder(coins) => coins.len(),
            CollectedCoins::Undo(undo) => undo.coins().len(),
        }
    }
}

fn within_range(coin: CoinRef<'_>) -> Result<CoinRef<'_>, Failed> {
    match coin.height < 1 << 31 {
        true => Ok(coin),
        false => Err(Failed::argument(format!(
            "the height {} is not below 2^31",
            coin.height
        ))),
    }
}

/// `blockmill_context`.
#[derive(Debug, Clone)]
pub struct ContextHandle(pub(crate) KnownChain);

impl ContextHandle {
    /// A height on a network.
    ///
    /// # Errors
    /// [`Failed`].
    pub fn new(network: &str, height: u32) -> Result<Self, Failed> {
        let network: Network = network.parse().map_err(|error| Failed::argument(format!("{error}")))?;
        if !(1..1 << 31).contains(&height) {
            return Err(Failed::argument(format!(
                "no block to validate has the height {height}"
            )));
        }
        Ok(Self(KnownChain::at_height(Params::new(network, None), height)))
    }

    /// Sets the challenge of a signet.
    ///
    /// # Errors
    /// [`Failed`].
    pub fn set_signet_challenge(&mut self, script: &[u8]) -> Result<c_int, Failed> {
        if self.0.params.network != Network::Signet {
            return Err(Failed::argument("only a signet has a challenge"));
        }
        self.0.params = Params::new(Network::Signet, Some(script.to_vec()));
        Ok(OK)
    }

    /// Sets the flags of the scripts.
    ///
    /// # Errors
    /// [`Failed`].
    pub fn set_script_flags(&mut self, flags: u32) -> Result<c_int, Failed> {
        self.0.script_flags = Some(script_flags(flags)?);
        Ok(OK)
    }
}

/// `blockmill_verdict`.
#[derive(Debug, Clone, Default)]
pub struct VerdictHandle {
    /// Whether the block or the transaction is valid.
    pub is_valid: bool,
    /// Core's reason.
    pub reason: CString,
    /// What it says of the hash.
    pub kind: c_int,
    /// The transaction at fault.
    pub transaction: Option<usize>,
    /// Its input.
    pub input: Option<usize>,
    /// What a valid block amounts to.
    pub verified: Option<Verified>,
}

impl VerdictHandle {
    fn take(&mut self, verdict: Result<Option<Verified>, Reject>) -> Result<c_int, Failed> {
        *self = match verdict {
            Ok(verified) => Self {
                is_valid: true,
                verified,
                ..Self::default()
            },
            Err(reject) => Self {
                reason: text(&reject.reason),
                kind: kind(reject.kind),
                transaction: reject.transaction,
                input: reject.input,
                ..Self::default()
            },
        };
        Ok(if self.is_valid { OK } else { INVALID })
    }
}

fn kind(kind: RejectKind) -> c_int {
    match kind {
        RejectKind::Consensus => KIND_CONSENSUS,
        RejectKind::Header => KIND_HEADER,
        RejectKind::NoWork => KIND_NO_WORK,
        RejectKind::Mutated => KIND_MUTATED,
        RejectKind::TimeFuture => KIND_TIME_FUTURE,
    }
}

const _: () = assert!(KIND_NONE == 0, "a default verdict has no kind");
