//! Every rule of a block but its scripts.

use crate::coins::{GivenCoins, OrderedCoins, OwnCoins, connect_looked_up};
use crate::position::BlockPosition;
use blockmill_block::{Block, BlockUndo};
use blockmill_rules::block::{BlockContext, BlockOptions, check_block, check_block_context};
use blockmill_rules::connect::{BlockError, ConnectContext, MedianTimes, Overwriting, connect_block};
use blockmill_rules::header::{HeaderContext, check_header_context};
use blockmill_rules::{Reject, ScriptFlags, ScriptVerifier, spend};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thiserror::Error;

/// Why a block is not valid, or has no verdict.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum VerifyBlockError<E = Infallible> {
    /// It breaks a rule.
    #[error("{0}")]
    Reject(Reject),
    /// Coins cannot be had. This says nothing about the block.
    #[error("{0}")]
    Coins(E),
    /// A relative lock asks for the median time past at this height, which is not known.
    #[error("a relative lock needs the median time past at height {0}, which is not given")]
    UnknownMedianTime(u32),
    /// The script verifier failed, or threads could not be made.
    #[error("{0}")]
    Verifier(String),
}

impl<E> From<Reject> for VerifyBlockError<E> {
    fn from(reject: Reject) -> Self {
        Self::Reject(reject)
    }
}

/// What a block that was verified amounts to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verified {
    /// Transactions.
    pub transactions: u64,
    /// Inputs, the coinbase's not counted.
    pub inputs: u64,
    /// Fees in satoshi.
    pub fees: i64,
    /// Cost of the signature operations.
    pub sigops_cost: u64,
    /// Weight.
    pub weight: u64,
    /// Whether signatures were verified in lanes.
    pub lanes: bool,
}

/// A block that keeps every rule, but whose scripts have not run.
#[derive(Debug, Clone)]
pub struct WithoutScripts {
    /// What it amounts to.
    pub verified: Verified,
    /// Flags under which its scripts run.
    pub flags: ScriptFlags,
    /// The coins that it spends.
    pub undo: Arc<BlockUndo>,
}

/// Validates a block by all rules but its scripts, in Core's order (`ProcessNewBlock`):
/// - the block by itself: work, merkle root, sizes, transactions;
/// - its header in its chain, as far as that is known;
/// - heights, lock times, commitments, weight;
/// - its coins: that they exist, amounts, maturity, relative locks, signature operations, and the
///   amount of the coinbase.
///
/// # Errors
/// [`VerifyBlockError`]; the first rule that is broken.
pub fn validate_without_scripts<V: ScriptVerifier, E>(
    block: &Block,
    coins: GivenCoins<'_, E>,
    own: OwnCoins,
    position: &BlockPosition<'_>,
    verifier: &V,
) -> Result<WithoutScripts, VerifyBlockError<E>> {
    let options = BlockOptions {
        proof_of_work: position.proof_of_work,
    };
    let facts = check_block(block, position.params, verifier, options)?;
    check_header_context(&HeaderContext {
        params: position.params,
        header: block.header(),
        hash: block.hash(),
        height: position.height,
        facts: position.facts,
    })?;
    let parent_median_time_past = position.facts.median_time_past;
    check_block_context(
        block,
        &BlockContext {
            params: position.params,
            height: position.height,
            // A block is at least as late as the median before it, so lock times that are open by
            // BIP 113 are open by its own time, too.
            parent_median_time_past: parent_median_time_past.unwrap_or(block.header().time),
        },
    )?;
    let asked = AskedInVain::new();
    let at_height = |height| {
        // A lock on a coin that the block itself creates counts from its parent.
        let known = match height + 1 == position.height {
            true => parent_median_time_past,
            false => position.median_time_past.and_then(|at| at(height)),
        };
        asked.answer(height, known)
    };
    let context = ConnectContext {
        params: position.params,
        height: position.height,
        flags: position.script_flags(&block.hash()),
        overwriting: position.overwriting(&block.hash()),
        median_times: parent_median_time_past.map(|parent| MedianTimes {
            parent,
            at_height: &at_height,
        }),
        legacy_sigops: &facts.legacy_sigops,
    };
    let (connected, undo) = match coins {
        GivenCoins::InOrder(undo) => {
            if !undo.fits(block) {
                return Err(spend::MISSING.into());
            }
            let coins = &mut OrderedCoins::new(block, position.height, undo, own);
            let context = ConnectContext {
                overwriting: Overwriting::Allowed,
                ..context
            };
            let connected = connect_block(block, &context, coins);
            (asked.verdict(connected, |never| match never {})?, Arc::clone(undo))
        }
        GivenCoins::Lookup(lookup) => {
            let connected = connect_looked_up(block, &context, lookup);
            let (connected, undo) = asked.verdict(connected, VerifyBlockError::Coins)?;
            (connected, Arc::new(undo))
        }
    };
    Ok(WithoutScripts {
        verified: Verified {
            transactions: block.transaction_count() as u64,
            inputs: undo.coins().len() as u64,
            fees: connected.fees,
            sigops_cost: connected.sigops_cost,
            weight: block.weight() as u64,
            lanes: false,
        },
        flags: context.flags,
        undo,
    })
}

/// The first height whose median time past was asked for, and is not known.
struct AskedInVain(AtomicU64);

impl AskedInVain {
    const NONE: u64 = u64::MAX;

    fn new() -> Self {
        Self(AtomicU64::new(Self::NONE))
    }

    /// A median time, or one that opens every lock.
    fn answer(&self, height: u32, known: Option<u32>) -> u32 {
        known.unwrap_or_else(|| {
            // Relaxed: one thread asks, and reads this afterwards. If it is not the first, the
            // first stays.
            let _ = self
                .0
                .compare_exchange(Self::NONE, height.into(), Ordering::Relaxed, Ordering::Relaxed);
            0
        })
    }

    /// The verdict on a block. A lock that could not be judged leaves it without one.
    fn verdict<T, C, E>(
        &self,
        connected: Result<T, BlockError<C>>,
        coins_error: impl FnOnce(C) -> VerifyBlockError<E>,
    ) -> Result<T, VerifyBlockError<E>> {
        if let Ok(height) = u32::try_from(self.0.load(Ordering::Relaxed)) {
            return Err(VerifyBlockError::UnknownMedianTime(height));
        }
        connected.map_err(|error| match error {
            BlockError::Reject(reject) => reject.into(),
            BlockError::Coins(error) => coins_error(error),
        })
    }
}
