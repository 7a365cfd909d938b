//! `blockmill verify`.

use crate::arguments::{VerifyArguments, challenge_of};
use crate::failure::Failure;
use crate::log;
use crate::output;
use crate::progress::{EngineMeter, Meter};
use crate::signals;
use crate::verifier::{counts_text, signatures_text, verifier};
use blockmill_block::{Block, BlockUndo};
use blockmill_engine::inspect::verify::{VerifyBlockError, VerifyOptions, verify_block};
use blockmill_engine::inspect::verify_files::{FilesOptions, FilesReport, Problem, Stopped, Unverified, verify_files};
use blockmill_engine::{ChainId, Options, Signatures};
use blockmill_rules::{Params, ScriptVerifier};
use serde_json::json;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Most bytes that are read of a block, as in Core. The limit is above any valid size, so that the
/// rules judge the size.
const BLOCK_BYTES_MAX: u64 = 32 << 20;

/// Most bytes that are read of undo data: a block has room for 24,390 inputs, each of which may
/// spend a script of 10,000 bytes.
const UNDO_BYTES_MAX: u64 = 256 << 20;

fn read(path: &Path, bytes_max: u64) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(bytes_max + 1).read_to_end(&mut bytes))
        .map_err(Failure::file(path))?;
    if bytes.len() as u64 > bytes_max {
        return Err(corrupt(path, format!("the file has more than {bytes_max} bytes")));
    }
    Ok(bytes)
}

fn corrupt(path: &Path, error: String) -> Failure {
    Failure::Corrupt(format!("{}: {error}", path.display()))
}

pub(crate) fn run(arguments: &VerifyArguments) -> Result<u8, Failure> {
    match (&arguments.block, &arguments.undo, arguments.height) {
        (Some(block), Some(undo), Some(height)) => run_one(arguments, block, undo, height),
        _ => run_files(arguments),
    }
}

fn params(arguments: &VerifyArguments) -> Result<Params, Failure> {
    let chain_id = ChainId {
        network: arguments.network,
        signet_challenge: challenge_of(arguments.network, arguments.signet_challenge.as_ref())?,
    };
    Ok(chain_id.params())
}

fn threads(arguments: &VerifyArguments) -> usize {
    arguments.par.unwrap_or(Options::default().threads)
}

/// Reports a stop by a signal, if there was one; returns the number of blocks that remain.
fn say_stopped(report: &FilesReport) -> String {
    let (text, remaining) = match report.stopped {
        None => return "0".to_owned(),
        Some(Stopped::Indexing) => ("stopped while headers were read: no block is verified".to_owned(), None),
        Some(Stopped::Before(blocks)) => (format!("stopped: {blocks} blocks remain unverified"), Some(blocks)),
    };
    log::info("stopped", &text, json!({"remaining": remaining}));
    remaining.map_or_else(|| "all".to_owned(), |blocks| blocks.to_string())
}

/// Verifies the blocks of block files.
fn run_files(arguments: &VerifyArguments) -> Result<u8, Failure> {
    let stop = signals::stop_flag()?;
    let mut meter = EngineMeter(Meter::new());
    let start = Instant::now();
    let options = FilesOptions {
        only: arguments.hash,
        threads: threads(arguments),
        signatures: arguments.signatures.map_or(Signatures::Auto, Into::into),
    };
    let verifier = Arc::new(verifier(options.signatures));
    let report = verify_files(
        &arguments.blocks,
        &params(arguments)?,
        options,
        &verifier,
        &stop,
        &mut meter,
    )?;
    drop(meter);
    for unverified in &report.unverified {
        let (path, offset) = &unverified.found_at;
        let problem = match &unverified.problem {
            Problem::Reject(reject) => reject.to_string(),
            Problem::Unreadable(detail) => detail.clone(),
        };
        let text = format!(
            "{}: offset {offset}: block {} (height {}): {problem}",
            path.display(),
            unverified.hash,
            unverified.height
        );
        let fields = json!({
            "file": output::path_text(path),
            "offset": offset,
            "hash": unverified.hash.to_string(),
            "height": unverified.height,
            "detail": problem,
        });
        log::warning("unverified", &text, fields);
    }
    let remaining = say_stopped(&report);
    let rejected = |unverified: &&Unverified| matches!(unverified.problem, Problem::Reject(_));
    let invalid = report.unverified.iter().filter(rejected).count();
    let rows = [
        ("best height", report.best_height.to_string()),
        ("valid", report.blocks.to_string()),
        ("invalid", invalid.to_string()),
        ("unreadable", (report.unverified.len() - invalid).to_string()),
        ("remaining", remaining),
        ("transactions", report.transactions.to_string()),
        ("inputs", report.inputs.to_string()),
        (
            "signatures",
            signatures_text(&report.signatures, &verifier.signature_counts()),
        ),
        ("seconds", format!("{:.3}", start.elapsed().as_secs_f64())),
    ];
    let mut out = std::io::stdout().lock();
    output::table(&mut out, &rows)?;
    out.flush()?;
    Ok(exit_status(&report))
}

/// Verifies one block.
fn run_one(arguments: &VerifyArguments, block_path: &Path, undo_path: &Path, height: u32) -> Result<u8, Failure> {
    let bytes = read(block_path, BLOCK_BYTES_MAX)?;
    let length = bytes.len();
    let block =
        Block::decode(bytes).map_err(|error| corrupt(block_path, format!("the block does not decode: {error}")))?;
    let end = block.bytes().len();
    if end < length {
        let rest = format!("offset {end}: {} bytes that do not belong to the block", length - end);
        return Err(corrupt(block_path, rest));
    }
    let undo = BlockUndo::decode(&read(undo_path, UNDO_BYTES_MAX)?)
        .map_err(|error| corrupt(undo_path, format!("the undo data does not decode: {error}")))?;
    let options = VerifyOptions {
        height,
        threads: threads(arguments),
        proof_of_work: true,
        signatures: arguments.signatures.map_or(Signatures::Kernel, Into::into),
    };
    let verifier = Arc::new(verifier(options.signatures));
    let hash = block.hash();
    let start = Instant::now();
    let outcome = verify_block(
        &Arc::new(block),
        &Arc::new(undo),
        &params(arguments)?,
        &verifier,
        options,
    );
    let seconds = start.elapsed().as_secs_f64();
    match outcome {
        Ok(verified) => {
            let lanes = verified.lanes;
            let way = if lanes { "lanes" } else { "libsecp256k1" };
            let signatures = match counts_text(&verifier.signature_counts()) {
                counts if counts.is_empty() => way.to_owned(),
                counts => format!("{way}: {counts}"),
            };
            let mut out = std::io::stdout().lock();
            let rows = [
                ("block", hash.to_string()),
                ("verdict", "valid".to_owned()),
                ("transactions", verified.transactions.to_string()),
                ("inputs", verified.inputs.to_string()),
                ("fees", format!("{} satoshi", verified.fees)),
                ("sigops_cost", verified.sigops_cost.to_string()),
                ("weight", verified.weight.to_string()),
                ("signatures", signatures),
                ("seconds", format!("{seconds:.3}")),
            ];
            output::table(&mut out, &rows)?;
            out.flush()?;
            Ok(0)
        }
        Err(VerifyBlockError::Reject(reject)) => {
            let mut out = std::io::stdout().lock();
            let rows = [
                ("block", hash.to_string()),
                ("verdict", "invalid".to_owned()),
                ("reason", reject.to_string()),
            ];
            output::table(&mut out, &rows)?;
            out.flush()?;
            let text = format!("{}: block {hash}: {reject}", block_path.display());
            let fields = json!({
                "file": output::path_text(block_path),
                "hash": hash.to_string(),
                "detail": reject.to_string(),
            });
            log::warning("unverified", &text, fields);
            Ok(1)
        }
        Err(VerifyBlockError::Verifier(detail)) => Err(corrupt(block_path, detail)),
    }
}

/// 1 if a block breaks a rule, 3 if something cannot be read, that of a signal where one stopped
/// it, else 0.
fn exit_status(report: &FilesReport) -> u8 {
    let rejected = |unverified: &Unverified| matches!(unverified.problem, Problem::Reject(_));
    match &report.unverified[..] {
        [] if report.stopped.is_some() => signals::status(),
        [] => 0,
        some if some.iter().any(rejected) => 1,
        _ => 3,
    }
}
