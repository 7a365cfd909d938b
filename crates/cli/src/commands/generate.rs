//! `blockmill generate`.

use crate::arguments::GenerateArguments;
use crate::doing::Doing;
use crate::failure::Failure;
use crate::output::{self, Facts};
use crate::progress::Meter;
use crate::signals;
use blockmill_chaingen::{ChainSpec, Progress, Summary, write_chain_until};
use serde_json::json;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Writes a chain and shows its progress. A stop removes everything written.
pub(crate) fn write_with_progress(out: &Path, spec: &ChainSpec, stop: &AtomicBool) -> Result<Summary, Failure> {
    let mut meter = Meter::new();
    let mut show = |progress: &Progress| {
        let doing = Doing::Counted {
            what: "blocks made",
            done: progress.blocks_done.into(),
            of: progress.blocks.into(),
        };
        meter.show(doing, "generating", || {
            let (done, of, inputs, bytes) = (progress.blocks_done, progress.blocks, progress.inputs, progress.bytes);
            let mebibytes = output::mebibytes(bytes);
            let text = format!(
                "{}: block {done} of {of}, {inputs} inputs, {mebibytes:.1} MiB",
                progress.phase
            );
            (
                text,
                json!({"done": done, "blocks": of, "inputs": inputs, "bytes": bytes}),
            )
        });
    };
    Ok(write_chain_until(out, spec, stop, &mut show)?)
}

pub(crate) fn run(arguments: &GenerateArguments) -> Result<u8, Failure> {
    // The number of inputs depends on the profile and the blocks.
    let defaults = ChainSpec::new(arguments.profile, arguments.blocks, arguments.seed);
    let spec = ChainSpec {
        inputs: arguments.inputs.unwrap_or(defaults.inputs),
        coins: arguments.coins,
        empty_blocks: arguments.empty_blocks,
        block_weight_max: arguments.block_weight,
        ..defaults
    };
    let stop = signals::stop_flag()?;
    let start = Instant::now();
    let summary = write_with_progress(&arguments.out, &spec, &stop)?;
    Facts::default()
        .row("profile", &summary.profile)
        .row("network", &summary.network)
        .row("tip", &summary.tip)
        .row("height", summary.height)
        .row("transactions", summary.transactions)
        .row("inputs", summary.inputs)
        .row("outputs", summary.outputs)
        .row("coins", summary.coins)
        .row("bytes", summary.bytes)
        .row("hash_serialized_3", &summary.hash_serialized_3)
        .row("seconds", format!("{:.3}", start.elapsed().as_secs_f64()))
        .print(false)?;
    Ok(0)
}
