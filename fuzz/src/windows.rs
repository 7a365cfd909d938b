//! Blocks of a chain, resolved together in shards.

use crate::world::{PARAMS, Planned, SPACING};
use blockmill_block::BlockUndo;
use blockmill_block::undo::write_record;
use blockmill_coins::{CoinsCache, FlushEpoch};
use blockmill_engine::pipeline::outline::Outline;
use blockmill_engine::pipeline::shards::{Dealing, ValidBlock, WindowBlock, WindowOutcome, resolve_window};
use blockmill_pool::ThreadPool;
use blockmill_rules::connect::{ConnectContext, MedianTimes};
use blockmill_rules::flags::block_script_flags;

fn median_time_past(height: u32) -> u32 {
    height * SPACING
}

pub(crate) fn context(planned: &Planned) -> ConnectContext<'_> {
    ConnectContext {
        params: &PARAMS,
        height: planned.height,
        flags: block_script_flags(&PARAMS, planned.height, &planned.block.hash()),
        overwriting: planned.overwriting,
        median_times: Some(MedianTimes {
            parent: median_time_past(planned.height - 1),
            at_height: &median_time_past,
        }),
        legacy_sigops: &planned.legacy_sigops,
    }
}

/// Resolves blocks in shards, which are put into `jobs` jobs; without a pool on this thread.
///
/// # Errors
/// What else becomes of them; the cache is as it was then.
///
/// # Panics
/// If a record is not that of the undo data.
pub fn resolve(
    window: &[&Planned],
    absent_at: &[Option<FlushEpoch>],
    jobs: usize,
    pool: Option<&ThreadPool>,
    cache: &mut CoinsCache,
) -> Result<Vec<BlockUndo>, WindowOutcome> {
    let outlines: Vec<Outline> = window
        .iter()
        .map(|planned| Outline::new(&planned.block, cache.hash_key()))
        .collect();
    let blocks: Vec<WindowBlock<'_>> = window
        .iter()
        .zip(&outlines)
        .zip(absent_at)
        .map(|((planned, outline), &absent_at)| WindowBlock {
            block: &planned.block,
            outline,
            context: context(planned),
            absent_at,
        })
        .collect();
    let dealing = Dealing {
        pool,
        jobs,
        spent_bytes_max: usize::MAX,
        magic: PARAMS.magic(),
    };
    let valid = match resolve_window(&blocks, cache, dealing, &|_, _, _| ()) {
        WindowOutcome::Valid(valid) => valid,
        other => return Err(other),
    };
    assert_eq!(valid.len(), window.len());
    let undo = valid.into_iter().zip(&blocks).map(|(ValidBlock { undo, record }, of)| {
        let mut expected = Vec::new();
        write_record(PARAMS.magic(), &of.block.header().prev_block_hash, &undo, &mut expected);
        assert_eq!(record, expected);
        undo
    });
    Ok(undo.collect())
}
