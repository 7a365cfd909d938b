//! A block is put in flight: resolved over the coins cache, and its checks begun.

use crate::pipeline::in_flight::InFlight;
use crate::pipeline::load::SoundBlock;
use crate::pipeline::resolve::{self, ResolveError};
use crate::pipeline::state::{Pipeline, Run};
use crate::report::stages::Stage;
use blockmill_block::BlockUndo;
use blockmill_chain::assume_valid;
use blockmill_chain::index::BlockId;
use blockmill_chain::report::signatures::SignatureWay;
use blockmill_coins::FlushEpoch;
use blockmill_rules::connect::{ConnectContext, MedianTimes};
use blockmill_rules::flags::block_script_flags;
use blockmill_rules::{ScriptFlags, ScriptVerifier};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Spends and creates the coins of the block above all those in flight, and begins its checks.
/// `absent_at` is the flush epoch at which the store had none of its outputs, if that was seen.
pub(crate) fn put_in_flight<V: ScriptVerifier + 'static>(
    pipeline: &mut Pipeline<V>,
    run: &mut Run<'_>,
    id: BlockId,
    sound: SoundBlock,
    absent_at: Option<FlushEpoch>,
) -> Result<(), ResolveError> {
    let block = Arc::clone(&sound.block);
    let params = run.chain.index().params();
    let height = run.chain.index().entry(id).height;
    let flags = block_script_flags(params, height, &block.hash());
    // Only BIP 30's two exceptions replace coins, and undo data does not have those.
    let replaced = if params.bip30_exceptions.contains(&(height, block.hash())) {
        resolve::replaced_coins(&sound.outline, &mut pipeline.cache)?
    } else {
        Vec::new()
    };
    let undo = Arc::new(resolve_timed(pipeline, run, id, &sound, flags, absent_at)?);
    // The outline and the facts are of no more use. Without them more blocks fit into memory.
    drop(sound);
    let signatures = way_to_check(pipeline, run, id, height);
    let checks = signatures.map(|way| pipeline.checks.begin(&block, &undo, flags, height, way.lanes));
    let block = InFlight::new(id, block, undo, replaced, signatures, checks);
    pipeline.in_flight.push(block);
    Ok(())
}

/// Resolves the block, and counts the time of two stages. If the block breaks a rule, the cache is
/// as it was.
fn resolve_timed<V: ScriptVerifier + 'static>(
    pipeline: &mut Pipeline<V>,
    run: &mut Run<'_>,
    id: BlockId,
    sound: &SoundBlock,
    flags: ScriptFlags,
    absent_at: Option<FlushEpoch>,
) -> Result<BlockUndo, ResolveError> {
    let start = Instant::now();
    let fetched_before = pipeline.cache.store_time();
    let (chain, index) = (&*run.chain, run.chain.index());
    let height = index.entry(id).height;
    // The chain of the block: the active one, and the blocks in flight.
    let ancestor = |height: usize| match height.checked_sub(chain.height() as usize + 1) {
        None => chain.active_at(height),
        // Number 0 is the block after the tip.
        Some(above) => pipeline.in_flight.id(above),
    };
    let median_time_past = |height: u32| ancestor(height as usize).map_or(0, |id| index.entry(id).median_time_past);
    let context = ConnectContext {
        params: index.params(),
        height,
        flags,
        overwriting: chain.overwriting(id),
        median_times: Some(MedianTimes {
            // Genesis is never connected, so there is a block below.
            parent: median_time_past(height - 1),
            at_height: &median_time_past,
        }),
        legacy_sigops: &sound.facts.legacy_sigops,
    };
    let outcome = resolve::resolve_block(&sound.block, &sound.outline, &context, absent_at, &mut pipeline.cache);
    let fetching = pipeline.cache.store_time() - fetched_before;
    let telemetry = &mut *run.reporter.telemetry;
    // Reads of the store count as fetch, so the stage begins later by their time.
    telemetry.stage_done(Stage::Resolve, height, start + fetching);
    telemetry.add_stage(Stage::Fetch, fetching, Duration::ZERO);
    outcome
}

/// How the signatures of a block are verified; none if its scripts are assumed valid.
pub(super) fn way_to_check<V: ScriptVerifier + 'static>(
    pipeline: &Pipeline<V>,
    run: &mut Run<'_>,
    id: BlockId,
    height: u32,
) -> Option<SignatureWay> {
    let (index, options) = (run.chain.index(), &pipeline.scripts);
    let reason = assume_valid::reason_to_check(index, id, options.assume_valid.as_ref());
    if options.assume_valid.is_some() {
        run.reporter.scripts(height, reason);
    }
    reason?;
    let way = assume_valid::signature_way(index, id, options.signatures, pipeline.checks.can_defer());
    run.reporter.signatures(height, way);
    Some(way)
}
