//! `blockmill demo`.

use crate::arguments::DemoArguments;
use crate::commands::{connect, generate, stats};
use crate::doing;
use crate::failure::Failure;
use crate::log;
use crate::output::{self, Facts};
use crate::progress::EngineMeter;
use crate::signals;
use crate::verifier::verifier;
use blockmill_block::Network;
use blockmill_blockfiles::is_there;
use blockmill_chain::Signatures;
use blockmill_chaingen::{ChainSpec, Profile};
use blockmill_coins::stats::Hashes;
use blockmill_datadir::ChainId;
use blockmill_engine::report::Halt;
use blockmill_engine::{Engine, Options};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The demo's chain.
const BLOCKS: u32 = 200;
const INPUTS: u64 = 30_000;
const SEED: u64 = 1;

pub(crate) fn run(arguments: &DemoArguments) -> Result<u8, Failure> {
    let temporary;
    let directory: PathBuf = match &arguments.keep {
        Some(keep) => {
            if is_there(&keep.join("blocks"))? || is_there(&keep.join("data"))? {
                return Err(Failure::Usage(format!(
                    "{}: an earlier demo is kept here; remove it or name another directory",
                    keep.display()
                )));
            }
            keep.clone()
        }
        None => {
            // It is removed when the demo ends.
            temporary = tempfile::tempdir()?;
            temporary.path().to_owned()
        }
    };
    let status = demo_in(&directory)?;
    if arguments.keep.is_some() {
        log::info(
            "kept",
            &format!("kept in {}", directory.display()),
            json!({"directory": output::path_text(&directory)}),
        );
    }
    Ok(status)
}

/// Returns the exit status.
fn demo_in(directory: &Path) -> Result<u8, Failure> {
    let blocks = directory.join("blocks");
    let data = directory.join("data");
    let stop = signals::stop_flag()?;
    let making = format!("making a signed regtest chain of {BLOCKS} blocks");
    log::info("generating", &making, json!({"blocks": BLOCKS}));
    let spec = ChainSpec {
        inputs: INPUTS,
        ..ChainSpec::new(Profile::Mixed, BLOCKS, SEED)
    };
    let summary = generate::write_with_progress(&blocks, &spec, &stop)?;
    log::info("connecting", "connecting the chain, all scripts checked", json!({}));
    let chain_id = ChainId {
        network: Network::Regtest,
        signet_challenge: None,
    };
    let options = Options {
        stop: Arc::clone(&stop),
        // The demo's blocks have too little work above them for lanes with `Auto`.
        signatures: Signatures::Lanes,
        ..Options::default()
    };
    // Making the chain took time of this process, too.
    let cpu_before = output::cpu_seconds();
    let mut engine = Engine::builder(&data)
        .chain_id(chain_id)
        .options(options)
        .open(verifier(Signatures::Auto))?;
    let mut meter = EngineMeter::new();
    doing::set_flushed(engine.height());
    let report = engine.connect(&[blocks], &mut meter)?;
    drop(meter);
    let cpu_seconds = output::cpu_seconds() - cpu_before;
    // The store is closed before it is read.
    drop(engine);
    if report.halt == Halt::Stopped {
        connect::say_halt(&report);
        return Ok(signals::status());
    }
    let (_, figures) = stats::compute(&data, None, Hashes::Serialized)?;
    let hash = figures.hash_serialized_3.to_string();
    connect::report::print_table(&report, cpu_seconds)?;
    let agrees = hash == summary.hash_serialized_3 && report.tip.to_string() == summary.tip;
    Facts::default()
        .row("coins", figures.txouts)
        .row("UTXO hash", &hash)
        .row("generator's", &summary.hash_serialized_3)
        .row("verdict", if agrees { "the same" } else { "DIFFERENT" })
        .print(false)?;
    if agrees {
        Ok(0)
    } else {
        Err(Failure::Mismatch(format!(
            "the engine ended at {} with UTXO hash {hash}, the generator at {} with {}",
            report.tip, summary.tip, summary.hash_serialized_3
        )))
    }
}
