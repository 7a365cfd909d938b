//! A block is put in flight: resolved over the coins cache, and its checks begun.

use crate::chain::assume_valid;
use crate::chain::index::BlockId;
use crate::chain::state::ChainState;
use crate::pipeline::checks::CheckPool;
use crate::pipeline::in_flight::{InFlight, InFlightBlocks};
use crate::pipeline::resolve::{self, ResolveError};
use crate::report::signatures::Signatures;
use crate::report::stages::Stage;
use crate::report::telemetry::Reporter;
use blockmill_block::coin::Coin;
use blockmill_block::{Block, BlockHash, BlockUndo, OutPoint};
use blockmill_coins::{CoinsCache, FlushEpoch};
use blockmill_rules::block::BlockFacts;
use blockmill_rules::connect::{ConnectContext, MedianTimes};
use blockmill_rules::flags::block_script_flags;
use blockmill_rules::{ScriptFlags, ScriptVerifier};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How scripts are to be checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScriptOptions {
    /// A block whose chain is assumed to have valid scripts.
    pub(crate) assume_valid: Option<BlockHash>,
    /// How signatures are verified.
    pub(crate) signatures: Signatures,
}

/// A block that is to be applied.
pub(crate) struct Applicant {
    pub(crate) id: BlockId,
    pub(crate) block: Arc<Block>,
    pub(crate) facts: BlockFacts,
    /// The flush epoch at which the store had none of its outputs, if that was seen.
    pub(crate) absent_at: Option<FlushEpoch>,
}

/// A block that is applied, and not in flight yet.
pub(crate) struct Applied {
    id: BlockId,
    block: Arc<Block>,
    flags: ScriptFlags,
    undo: BlockUndo,
    replaced: Vec<(OutPoint, Coin)>,
}

/// Spends and creates the coins of the block above all those in flight.
pub(crate) fn apply<V: ScriptVerifier + 'static>(
    applicant: Applicant,
    chain: &ChainState,
    in_flight: &InFlightBlocks<V>,
    cache: &mut CoinsCache,
    reporter: &mut Reporter<'_>,
) -> Result<Applied, ResolveError> {
    let start = Instant::now();
    let fetched_before = cache.store_time();
    let Applicant {
        id,
        block,
        facts,
        absent_at,
    } = applicant;
    let (index, params) = (chain.index(), chain.index().params());
    let height = index.entry(id).height;
    let flags = block_script_flags(params, height, &block.hash());
    let replaced = if params.bip30_exceptions.contains(&(height, block.hash())) {
        resolve::replaced_coins(&block, cache)?
    } else {
        Vec::new()
    };
    // The chain of the block: the active one, and the blocks in flight.
    let ancestor = |height: usize| match height.checked_sub(chain.height() as usize + 1) {
        None => chain.active_at(height),
        Some(above) => in_flight.id(above),
    };
    let median_time_past = |height: u32| ancestor(height as usize).map_or(0, |id| index.entry(id).median_time_past);
    let context = ConnectContext {
        params,
        height,
        flags,
        overwriting: chain.overwriting(id),
        median_times: Some(MedianTimes {
            parent: median_time_past(height - 1),
            at_height: &median_time_past,
        }),
        legacy_sigops: &facts.legacy_sigops,
    };
    let outcome = resolve::apply(&block, &context, absent_at, cache);
    if outcome.is_err() {
        resolve::restore_replaced(&replaced, cache);
    }
    let fetching = cache.store_time() - fetched_before;
    reporter.telemetry.stage_done(Stage::Resolve, height, start + fetching);
    reporter.telemetry.add_stage(Stage::Fetch, fetching, Duration::ZERO);
    Ok(Applied {
        undo: outcome?,
        id,
        block,
        flags,
        replaced,
    })
}

/// Begins the checks of a block, unless its chain is assumed valid.
pub(crate) fn begin_checks<V: ScriptVerifier + 'static>(
    applied: Applied,
    chain: &ChainState,
    options: &ScriptOptions,
    checks: &CheckPool<V>,
    reporter: &mut Reporter<'_>,
) -> InFlight<V> {
    let Applied {
        id,
        block,
        flags,
        undo,
        replaced,
    } = applied;
    let index = chain.index();
    let height = index.entry(id).height;
    let reason = assume_valid::reason_to_check(index, id, options.assume_valid.as_ref());
    if options.assume_valid.is_some() {
        reporter.scripts(height, reason);
    }
    let undo = Arc::new(undo);
    let way = |_| assume_valid::signature_way(index, id, options.signatures, checks.can_defer());
    let signatures = reason.map(way);
    if let Some(way) = signatures {
        reporter.signatures(height, way);
    }
    InFlight {
        id,
        checks: signatures.map(|way| checks.begin(&block, &undo, flags, height, way.lanes)),
        block,
        undo,
        replaced,
        signatures,
    }
}
