//! Blocks in a row are put in flight together: resolved in shards, and their checks begun.

use crate::pipeline::error::ConnectError;
use crate::pipeline::in_flight::InFlight;
use crate::pipeline::load::{LoadRequest, PrefetchedBlock, SoundBlock};
use crate::pipeline::prefetch::Prefetcher;
use crate::pipeline::replaced::Replaced;
use crate::pipeline::shards::{Dealing, ValidBlock, WindowBlock, WindowOutcome, resolve_window};
use crate::pipeline::state::{Pipeline, Run, count_times};
use crate::report::stages::Stage;
use blockmill_chain::assume_valid;
use blockmill_chain::index::BlockId;
use blockmill_chain::report::signatures::SignatureWay;
use blockmill_chain::state::ChainState;
use blockmill_pool::contain;
use blockmill_rules::connect::{ConnectContext, MedianTimes};
use blockmill_rules::flags::block_script_flags;
use blockmill_rules::{Reject, ScriptVerifier};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Requests the blocks that are loaded while others are resolved.
fn request_ahead<V: ScriptVerifier + 'static>(
    pipeline: &Pipeline<V>,
    prefetcher: &mut Prefetcher<V>,
    chain: &ChainState,
) {
    // With 1 a block is loaded only when it is needed.
    if !pipeline.settings.without.decode {
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
        count_times(&std::mem::take(&mut block.times), telemetry);
        pipeline.let_flush_catch_up(help_checks, telemetry);
        let fetches = block.fetches.take().unwrap_or_default();
        let absent_at = pipeline.finish_fetches(block.request.height, fetches, telemetry);
        // A block that was given back has nothing to fetch.
        block.absent_at = absent_at.or(block.absent_at);
    }
    blocks
}

/// What becomes of blocks that are to be in flight.
pub(crate) enum Put {
    /// They are.
    InFlight,
    /// The blocks cannot be resolved together. The cache is as it was.
    OneByOne(Vec<PrefetchedBlock>),
    /// The one block breaks a rule. The cache is as it was.
    Rejected(Reject),
}

/// Resolves blocks in shards, above all those in flight, and begins their checks.
pub(crate) fn put_in_flight<V: ScriptVerifier + 'static>(
    pipeline: &mut Pipeline<V>,
    run: &mut Run<'_>,
    blocks: Vec<PrefetchedBlock>,
) -> Result<Put, ConnectError> {
    let repeats = &run.chain.index().params().bip30_exceptions;
    let is_repeat = |block: &PrefetchedBlock| {
        let entry = run.chain.index().entry(block.request.id);
        repeats.contains(&(entry.height, entry.hash))
    };
    let has_repeat = blocks.iter().any(is_repeat);
    if has_repeat && blocks.len() > 1 {
        return Ok(Put::OneByOne(blocks));
    }
    let mut replaced = match has_repeat {
        true => pipeline.change_coins(|cache| Replaced::spend(&blocks[0].sound().outline, cache))?,
        false => Replaced::default(),
    };
    let outcome = contain(|| resolve(pipeline, run, &blocks)).unwrap_or_else(|panicked| {
        // The shards may not have taken everything back.
        pipeline.flusher.note_broken();
        panic!("resolving a window: {}", panicked.message());
    });
    let valid = match outcome {
        WindowOutcome::Valid(valid) => valid,
        other => {
            replaced.restore(&mut pipeline.cache);
            return rolled_back(run, blocks, other);
        }
    };
    // The outlines and the facts are of no more use. Without them more blocks fit into memory.
    for (loaded, ValidBlock { undo, record }) in blocks.into_iter().zip(valid) {
        let (id, height) = (loaded.request.id, loaded.request.height);
        let block = Arc::clone(&loaded.sound().block);
        drop(loaded);
        let flags = block_script_flags(run.chain.index().params(), height, &block.hash());
        let undo = Arc::new(undo);
        let signatures = way_to_check(pipeline, run, id, height);
        let checks = signatures.map(|way| pipeline.checks.begin(&block, &undo, flags, height, way.lanes));
        // Only a window of one block has any.
        let replaced = std::mem::take(&mut replaced);
        let block = InFlight::new(id, block, undo, record, replaced, signatures, checks);
        pipeline.in_flight.push(block);
    }
    Ok(Put::InFlight)
}

/// What to do about a window that was rolled back.
fn rolled_back(run: &mut Run<'_>, blocks: Vec<PrefetchedBlock>, outcome: WindowOutcome) -> Result<Put, ConnectError> {
    if matches!(outcome, WindowOutcome::TooLarge) {
        return Ok(Put::OneByOne(blocks));
    }
    run.reporter.telemetry.totals.windows_rolled_back += 1;
    match outcome {
        WindowOutcome::Rejected(reject) => Ok(Put::Rejected(reject)),
        WindowOutcome::Failed(error) => Err(error.into()),
        WindowOutcome::Contradiction => {
            let entry = run.chain.index().entry(blocks[0].request.id);
            Err(ConnectError::Contradiction {
                hash: entry.hash,
                height: entry.height,
            })
        }
        WindowOutcome::Valid(_) | WindowOutcome::Odd | WindowOutcome::TooLarge => Ok(Put::OneByOne(blocks)),
    }
}

/// How the signatures of a block are verified; none if its scripts are assumed valid.
fn way_to_check<V: ScriptVerifier + 'static>(
    pipeline: &Pipeline<V>,
    run: &mut Run<'_>,
    id: BlockId,
    height: u32,
) -> Option<SignatureWay> {
    let (index, options) = (run.chain.index(), &pipeline.settings.options);
    let reason = assume_valid::reason_to_check(index, id, options.assume_valid.as_ref());
    if options.assume_valid.is_some() {
        run.reporter.scripts(height, reason);
    }
    reason?;
    let way = assume_valid::signature_way(index, id, options.signatures, pipeline.checks.can_defer());
    run.reporter.signatures(height, way);
    Some(way)
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
            let SoundBlock { block, facts, outline } = loaded.sound();
            let height = loaded.request.height;
            WindowBlock {
                block,
                outline,
                context: ConnectContext {
                    params,
                    height,
                    flags: block_script_flags(params, height, &block.hash()),
                    overwriting: chain.overwriting(loaded.request.id),
                    median_times: Some(MedianTimes {
                        parent: median_time_past(height - 1),
                        at_height: &median_time_past,
                    }),
                    legacy_sigops: &facts.legacy_sigops,
                },
                absent_at: loaded.absent_at,
            }
        })
        .collect();
    let trace = &pipeline.loader.trace;
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
        pool: pipeline
            .settings
            .windows
            .are_dealt_out(blocks)
            .then_some(&pipeline.thread_pool),
        jobs: pipeline.settings.windows.jobs,
        spent_bytes_max: match blocks.len() {
            // It has to be resolved, however large.
            1 => usize::MAX,
            _ => pipeline.plan.window_spent_bytes,
        },
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
