//! Blocks in a row are put in flight together: resolved in shards, and their checks begun.

use crate::pipeline::apply::way_to_check;
use crate::pipeline::in_flight::InFlight;
use crate::pipeline::load::{Content, LoadRequest, PrefetchedBlock, SoundBlock};
use crate::pipeline::prefetch::Prefetcher;
use crate::pipeline::shards::{Dealing, ValidBlock, WindowBlock, WindowOutcome, resolve_window};
use crate::pipeline::state::{Pipeline, Run, count_times};
use crate::report::stages::Stage;
use blockmill_chain::index::BlockId;
use blockmill_chain::state::ChainState;
use blockmill_coins::MustBeNew;
use blockmill_pool::contain;
use blockmill_rules::ScriptVerifier;
use blockmill_rules::connect::{ConnectContext, MedianTimes, Overwriting};
use blockmill_rules::flags::block_script_flags;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Requests the blocks that are loaded while others are resolved.
pub(crate) fn request_ahead<V: ScriptVerifier + 'static>(
    pipeline: &Pipeline<V>,
    prefetcher: &mut Prefetcher<V>,
    chain: &ChainState,
) {
    // With 1 a block is loaded only when it is needed.
    if pipeline.concurrency.loaded_max > 1 {
        prefetcher.request_more(|id| LoadRequest::new(chain.index(), id));
    }
}

/// The next blocks, with their coins in the cache, if they are loaded and their coins are fetched,
/// or if `wait` says to wait for that. `help_checks` is what this thread checks at a time
/// meanwhile.
pub(crate) fn next_blocks<V: ScriptVerifier + 'static>(
    pipeline: &mut Pipeline<V>,
    run: &mut Run<'_>,
    prefetcher: &mut Prefetcher<V>,
    wait: bool,
    help_checks: u32,
) -> Vec<PrefetchedBlock> {
    let chain = &*run.chain;
    // All blocks that were handed out are in flight by now, and their memory counts there.
    prefetcher.resolved();
    prefetcher.request_more(|id| LoadRequest::new(chain.index(), id));
    let next_height = chain.height() as usize + 1 + pipeline.in_flight.len();
    let window = pipeline.prefetch_window(next_height);
    let mut blocks = prefetcher.next(wait, window, |block| pipeline.begin_fetches(block, chain));
    request_ahead(pipeline, prefetcher, chain);
    for block in &blocks {
        if let Some(position) = block.position() {
            // Of several copies the loader may have taken a later one.
            run.chain.found_at(block.request.id, position);
        }
    }
    let telemetry = &mut *run.reporter.telemetry;
    for block in &mut blocks {
        count_times(&block.times, telemetry);
        pipeline.let_flush_catch_up(help_checks, telemetry);
        let fetches = block.fetches.take().unwrap_or_default();
        block.absent_at = pipeline.finish_fetches(block.request.height, fetches, telemetry);
    }
    blocks
}

/// Resolves blocks in shards, above all those in flight, and begins their checks. If that cannot be
/// done the blocks are given back, and the cache is as it was.
pub(crate) fn put_window_in_flight<V: ScriptVerifier + 'static>(
    pipeline: &mut Pipeline<V>,
    run: &mut Run<'_>,
    blocks: Vec<PrefetchedBlock>,
) -> Result<(), Vec<PrefetchedBlock>> {
    let repeats = &run.chain.index().params().bip30_exceptions;
    let is_repeat = |block: &PrefetchedBlock| {
        let entry = run.chain.index().entry(block.request.id);
        repeats.contains(&(entry.height, entry.hash))
    };
    // A repeat replaces coins that its undo data lacks. The serial code keeps them.
    if !pipeline.windows.take(&blocks) || blocks.iter().any(is_repeat) {
        return Err(blocks);
    }
    let outcome = contain(|| resolve(pipeline, run, &blocks)).unwrap_or_else(|panicked| {
        // The shards may not have taken everything back.
        pipeline.flusher.note_broken();
        panic!("resolving a window: {}", panicked.message());
    });
    let valid = match outcome {
        WindowOutcome::Valid(valid) => valid,
        WindowOutcome::Odd => {
            run.reporter.telemetry.replayed();
            return Err(blocks);
        }
        // This is no replay: nothing looked wrong.
        WindowOutcome::TooLarge => return Err(blocks),
    };
    run.reporter.telemetry.resolved_in_shards(blocks.len());
    for (loaded, ValidBlock { undo, record }) in blocks.into_iter().zip(valid) {
        let (id, height) = (loaded.request.id, loaded.request.height);
        let Content::Sound(SoundBlock { block, .. }) = loaded.content else {
            unreachable!("a window has sound blocks");
        };
        let flags = block_script_flags(run.chain.index().params(), height, &block.hash());
        let undo = Arc::new(undo);
        let signatures = way_to_check(pipeline, run, id, height);
        let checks = signatures.map(|way| pipeline.checks.begin(&block, &undo, flags, height, way.lanes));
        let block = InFlight::new(id, block, undo, Vec::new(), signatures, checks).with_record(record);
        pipeline.in_flight.push(block);
    }
    Ok(())
}

fn resolve<V: ScriptVerifier + 'static>(
    pipeline: &mut Pipeline<V>,
    run: &mut Run<'_>,
    blocks: &[PrefetchedBlock],
) -> WindowOutcome {
    let start = Instant::now();
    let (chain, index) = (&*run.chain, run.chain.index());
    let params = index.params();
    let in_flight = (0..pipeline.in_flight.len()).filter_map(|number| pipeline.in_flight.id(number));
    let above: Vec<BlockId> = in_flight.chain(blocks.iter().map(|block| block.request.id)).collect();
    // The chain of a block: the active one, the blocks in flight, and those of the window.
    let ancestor = |height: usize| match height.checked_sub(chain.height() as usize + 1) {
        None => chain.active_at(height),
        Some(above_it) => above.get(above_it).copied(),
    };
    let median_time_past = |height: u32| ancestor(height as usize).map_or(0, |id| index.entry(id).median_time_past);
    let window: Vec<WindowBlock<'_>> = blocks
        .iter()
        .map(|loaded| {
            let Content::Sound(SoundBlock { block, facts, outline }) = &loaded.content else {
                unreachable!("a window has sound blocks");
            };
            let height = loaded.request.height;
            WindowBlock {
                block,
                outline,
                context: ConnectContext {
                    params,
                    height,
                    flags: block_script_flags(params, height, &block.hash()),
                    // The shards see to that, by `must_be_new`.
                    overwriting: Overwriting::Allowed,
                    median_times: Some(MedianTimes {
                        parent: median_time_past(height - 1),
                        at_height: &median_time_past,
                    }),
                    legacy_sigops: &facts.legacy_sigops,
                },
                must_be_new: match chain.overwriting(loaded.request.id) {
                    Overwriting::Allowed => MustBeNew::No,
                    Overwriting::Forbidden => MustBeNew::Yes(loaded.absent_at),
                },
            }
        })
        .collect();
    let trace = pipeline.loader.trace();
    let busy_ns = AtomicU64::new(0);
    let first = blocks.first().map_or(0, |block| block.request.height);
    let done = |number: Option<usize>, start: Instant, end: Instant| {
        let height = number.map_or(first, |number| blocks[number].request.height);
        // Relaxed: the sum is read when all jobs have ended.
        busy_ns.fetch_add((end - start).as_nanos() as u64, Ordering::Relaxed);
        trace.add(Stage::Resolve, height, start, end);
    };
    let fetched_before = pipeline.cache.store_time();
    let dealing = Dealing {
        pool: &pipeline.thread_pool,
        jobs: pipeline.windows.jobs,
        spent_bytes_max: pipeline.plan.window_spent_bytes,
        magic: params.magic(),
        #[cfg(test)]
        fault: None,
    };
    let outcome = resolve_window(&window, &mut pipeline.cache, dealing, &done);
    let fetching = pipeline.cache.store_time() - fetched_before;
    let busy = Duration::from_nanos(busy_ns.into_inner());
    let telemetry = &mut *run.reporter.telemetry;
    telemetry.add_stage(
        Stage::Resolve,
        busy.saturating_sub(fetching),
        start.elapsed().saturating_sub(busy),
    );
    telemetry.add_stage(Stage::Fetch, fetching, Duration::ZERO);
    outcome
}
