//! Blocks, transactions and signatures, validated with what is given.

use crate::arguments::{signatures, verifier};
use crate::chain::params;
use crate::fault::Fault;
use crate::reports::{DecodeError, usage};
use blockmill_block::transaction::OwnedTransaction;
use blockmill_block::{Block, BlockUndo, Coin, CoinList, CoinRef, OutPoint};
use blockmill_chain::Signatures;
use blockmill_rules::connect::Overwriting;
use blockmill_rules::header::HeaderFacts;
use blockmill_rules::{Reject, RejectKind, ScriptFlags, spend};
use blockmill_script::{Check, CoreVerifier, Kind};
use blockmill_validate::{
    CollectedCoins, KnownChain, Validator, ValidatorOptions, VerifyBlockError, VerifyTransactionError,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::HashMap;

/// A coin as Python gives it: value, height, whether of a coinbase, script.
type GivenCoin = (i64, u32, bool, Vec<u8>);

/// A signature as Python gives it: kind, key, r, s, message.
type GivenCheck = (String, Vec<u8>, Vec<u8>, Vec<u8>, Vec<u8>);

/// The coins in one of their three forms.
#[derive(FromPyObject)]
pub(crate) enum GivenCoins {
    // An empty list comes here.
    InOrder(Vec<GivenCoin>),
    ByOutPoint(HashMap<String, GivenCoin>),
    Undo(Vec<u8>),
}

impl GivenCoins {
    fn collect(self) -> PyResult<CollectedCoins> {
        let coin = |(value, height, is_coinbase, script): GivenCoin| match height < 1 << 31 {
            true => Ok(Coin {
                value,
                height,
                is_coinbase,
                script_pubkey: script.into(),
            }),
            false => Err(usage(format!("the height {height} is not below 2^31"))),
        };
        Ok(match self {
            Self::Undo(bytes) => {
                CollectedCoins::Undo(BlockUndo::decode(&bytes).map_err(no_decoding("undo data"))?.into())
            }
            Self::ByOutPoint(coins) => {
                let mut collected = HashMap::with_capacity(coins.len());
                for (text, given) in coins {
                    let outpoint: OutPoint = text.parse().map_err(|error| usage(format!("{error}")))?;
                    if collected.insert(outpoint, coin(given)?).is_some() {
                        return Err(usage(format!("there are two coins of {outpoint}")));
                    }
                }
                CollectedCoins::ByOutPoint(collected)
            }
            Self::InOrder(coins) => {
                let mut list = CoinList::default();
                for given in coins {
                    list.push(CoinRef::from(&coin(given)?));
                }
                CollectedCoins::InOrder(list)
            }
        })
    }
}

fn no_decoding<E: std::fmt::Display>(what: &str) -> impl Fn(E) -> PyErr {
    move |error| DecodeError::new_err(format!("{what} does not decode: {error}"))
}

fn left_over(what: &str, whole: usize, read: usize) -> PyResult<()> {
    match whole - read {
        0 => Ok(()),
        rest => Err(DecodeError::new_err(format!("{what}: {rest} bytes are left over"))),
    }
}

/// A validator, by the word for how signatures are verified.
fn validator(threads: usize, word: &str) -> PyResult<Validator<CoreVerifier>> {
    let way = signatures(word)?;
    let options = ValidatorOptions {
        threads,
        lanes: way != Signatures::OneByOne,
    };
    Validator::new(verifier(way), options).map_err(|error| Fault::Inner(format!("threads: {error}")).into())
}

fn script_flags(flags: u32) -> PyResult<ScriptFlags> {
    let flags = ScriptFlags(flags);
    if !flags.can_run() {
        return Err(usage(format!("no script runs under the flags {:#x}", flags.0)));
    }
    Ok(flags)
}

fn set_reject(fields: &Bound<'_, PyDict>, reject: &Reject) -> PyResult<()> {
    fields.set_item("reason", &*reject.reason)?;
    fields.set_item("transaction", reject.transaction)?;
    fields.set_item("input", reject.input)
}

fn kind(kind: RejectKind) -> &'static str {
    match kind {
        RejectKind::Consensus => "consensus",
        RejectKind::Header => "header",
        RejectKind::NoWork => "no work",
        RejectKind::Mutated => "mutated",
        RejectKind::TimeFuture => "time in the future",
    }
}

/// What is known of the chain, as Python gives it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct GivenContext {
    network: String,
    signet_challenge: Option<Vec<u8>>,
    height: u32,
    bits: Option<u32>,
    parent_time: Option<u32>,
    median_time_past: Option<u32>,
    now: Option<i64>,
    median_times: HashMap<u32, u32>,
    bip30: Option<bool>,
    flags: Option<u32>,
    proof_of_work: bool,
}

impl GivenContext {
    fn chain(self) -> PyResult<KnownChain> {
        if !(1..1 << 31).contains(&self.height) {
            return Err(usage(format!("no block to validate has the height {}", self.height)));
        }
        Ok(KnownChain {
            params: params(&self.network, self.signet_challenge.as_deref())?,
            height: self.height,
            facts: HeaderFacts {
                bits: self.bits,
                parent_time: self.parent_time,
                median_time_past: self.median_time_past,
                now: self.now,
            },
            median_times: self.median_times,
            overwriting: self.bip30.map(|is_enforced| match is_enforced {
                true => Overwriting::Forbidden,
                false => Overwriting::Allowed,
            }),
            script_flags: self.flags.map(script_flags).transpose()?,
            proof_of_work: self.proof_of_work,
        })
    }
}

/// The fields of a verdict on a block.
#[pyfunction]
pub(crate) fn validate_block<'py>(
    py: Python<'py>,
    block: Vec<u8>,
    coins: GivenCoins,
    context: GivenContext,
    threads: usize,
    signatures: &str,
) -> PyResult<Bound<'py, PyDict>> {
    let (coins, chain) = (coins.collect()?, context.chain()?);
    let mut validator = validator(threads, signatures)?;
    let length = block.len();
    let block = Block::decode(block).map_err(no_decoding("the block"))?;
    left_over("the block", length, block.bytes().len())?;
    let outcome = py.detach(|| validator.validate_collected(&block.into(), &coins, &chain));
    let fields = PyDict::new(py);
    match outcome {
        Ok(verified) => {
            fields.set_item("fees", verified.fees)?;
            fields.set_item("sigops_cost", verified.sigops_cost)?;
            fields.set_item("weight", verified.weight)?;
            fields.set_item("transactions", verified.transactions)?;
            fields.set_item("inputs", verified.inputs)?;
        }
        Err(VerifyBlockError::Reject(reject)) => {
            set_reject(&fields, &reject)?;
            fields.set_item("kind", kind(reject.kind))?;
        }
        Err(error @ VerifyBlockError::UnknownMedianTime(_)) => return Err(usage(error.to_string())),
        Err(error) => return Err(Fault::Inner(error.to_string()).into()),
    }
    Ok(fields)
}

/// The fields of a verdict on a transaction.
#[pyfunction]
pub(crate) fn verify_transaction<'py>(
    py: Python<'py>,
    transaction: Vec<u8>,
    coins: GivenCoins,
    flags: u32,
    signatures: &str,
) -> PyResult<Bound<'py, PyDict>> {
    let (coins, flags) = (coins.collect()?, script_flags(flags)?);
    let mut validator = validator(1, signatures)?;
    let length = transaction.len();
    let transaction = OwnedTransaction::decode(transaction).map_err(no_decoding("the transaction"))?;
    left_over("the transaction", length, transaction.view().raw().len())?;
    let outcome = py.detach(|| validator.verify_transaction_collected(&transaction.view(), &coins, flags));
    let fields = PyDict::new(py);
    match outcome {
        Ok(()) => {}
        Err(VerifyTransactionError::Script(input)) => set_reject(&fields, &spend::SCRIPT_FAILED.at_input(input))?,
        Err(VerifyTransactionError::Missing(input)) => set_reject(&fields, &spend::MISSING.at_input(input))?,
        Err(VerifyTransactionError::Verifier(words)) => return Err(Fault::Inner(words).into()),
    }
    Ok(fields)
}

/// Whether each signature holds.
#[pyfunction]
pub(crate) fn verify_signatures(py: Python<'_>, checks: Vec<GivenCheck>, signatures: &str) -> PyResult<Vec<bool>> {
    let checks: Vec<Check> = checks.iter().map(check).collect::<PyResult<_>>()?;
    let validator = validator(1, signatures)?;
    let holds = py.detach(|| validator.verifier().verify_signatures(&checks));
    holds.map_err(|error| Fault::Inner(error.to_string()).into())
}

fn check((kind, key, r, s, message): &GivenCheck) -> PyResult<Check> {
    let kind = match &**kind {
        "ecdsa" => Kind::Ecdsa,
        "schnorr" => Kind::Schnorr,
        "tweak" => Kind::Tweak,
        other => return Err(usage(format!("{other:?} is none of ecdsa, schnorr, tweak"))),
    };
    let number = |name: &str, bytes: &[u8]| -> PyResult<[u8; 32]> {
        let wrong = |_| usage(format!("{name} has {} bytes, not 32", bytes.len()));
        bytes.try_into().map_err(wrong)
    };
    // An x-only key stands for the point with an even y coordinate.
    let mut full_key = [2; 33];
    match key.len() {
        33 => full_key.copy_from_slice(key),
        32 if kind != Kind::Ecdsa => full_key[1..].copy_from_slice(key),
        length => return Err(usage(format!("no key has {length} bytes here"))),
    }
    Ok(Check {
        kind,
        key: full_key,
        r: number("r", r)?,
        s: number("s", s)?,
        message: number("message", message)?,
    })
}
