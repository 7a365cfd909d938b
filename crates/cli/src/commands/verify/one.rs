//! One block against the coins that it spends.

use crate::arguments::{VerifyArguments, is_standard, or_standard_input, params_of};
use crate::commands::threads;
use crate::doing::{self, Doing};
use crate::failure::Failure;
use crate::log;
use crate::output::{self, Facts};
use crate::signals;
use crate::terminal::{bad, good};
use crate::verifier::{counts_text, hashes_json, signatures_json, verifier};
use blockmill_block::{Block, BlockUndo, hex};
use blockmill_chain::Signatures;
use blockmill_checks::verify::{VerifyBlockError, VerifyOptions, verify_block};
use blockmill_rules::ScriptVerifier;
use serde_json::json;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Most bytes that are read of a block, as in Core. The limit is above any valid size, so that the
/// rules check the size.
const BLOCK_BYTES_MAX: u64 = 32 << 20;

/// Most bytes that are read of undo data: a block has room for 24,390 inputs, each of which may
/// spend a script of 10,000 bytes.
const UNDO_BYTES_MAX: u64 = 256 << 20;

/// Reads a file, whose bytes may be in hex. A block and undo data of a block with coins have bytes
/// that are no digits.
fn read(path: &Path, bytes_max: u64) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    File::open(path)
        // Hex has two digits for each byte, and ends with a line break.
        .and_then(|file| file.take(2 * bytes_max + 2).read_to_end(&mut bytes))
        .map_err(Failure::file(path))?;
    let text = bytes.trim_ascii();
    if !text.is_empty() && text.iter().all(u8::is_ascii_hexdigit) {
        // There are digits alone.
        let text = String::from_utf8_lossy(text);
        bytes = hex::decode(&text).map_err(|error| corrupt(path, error.to_string()))?;
    }
    if bytes.len() as u64 > bytes_max {
        return Err(corrupt(path, format!("the file has more than {bytes_max} bytes")));
    }
    Ok(bytes)
}

fn corrupt(path: &Path, error: String) -> Failure {
    Failure::Corrupt(format!("{}: {error}", path.display()))
}

pub(super) fn run(
    arguments: &VerifyArguments,
    block_path: &Path,
    undo_path: &Path,
    height: u32,
) -> Result<u8, Failure> {
    if is_standard(block_path) && is_standard(undo_path) {
        let why = "--block and --undo cannot both be standard input";
        return Err(Failure::Usage(why.to_owned()));
    }
    signals::end_at_once()?;
    doing::set(Doing::Something("verifying a block"));
    let bytes = read(or_standard_input(block_path), BLOCK_BYTES_MAX)?;
    let length = bytes.len();
    let block =
        Block::decode(bytes).map_err(|error| corrupt(block_path, format!("the block does not decode: {error}")))?;
    let end = block.bytes().len();
    if end < length {
        let rest = format!("offset {end}: {} bytes that do not belong to the block", length - end);
        return Err(corrupt(block_path, rest));
    }
    let undo = BlockUndo::decode(&read(or_standard_input(undo_path), UNDO_BYTES_MAX)?)
        .map_err(|error| corrupt(undo_path, format!("the undo data does not decode: {error}")))?;
    let options = VerifyOptions {
        height,
        threads: threads(arguments.par),
        proof_of_work: true,
        signatures: arguments.signatures.unwrap_or(Signatures::OneByOne),
    };
    let verifier = Arc::new(verifier(options.signatures));
    let hash = block.hash();
    let start = Instant::now();
    let outcome = verify_block(
        &Arc::new(block),
        &Arc::new(undo),
        &params_of(Some(arguments.network), arguments.signet_challenge.as_ref())?,
        &verifier,
        options,
    );
    let seconds = start.elapsed().as_secs_f64();
    let mut facts = Facts::default();
    facts.both("block", hash.to_string()).field("height", height);
    let verified = match outcome {
        Ok(verified) => verified,
        Err(VerifyBlockError::Reject(reject)) => {
            facts
                .both_as("verdict", "invalid", bad("invalid"))
                .both_as("reason", &reject.reason, &reject)
                .field("transaction", reject.transaction)
                .field("input", reject.input)
                .print(arguments.json)?;
            let text = format!("{}: block {hash}: {reject}", block_path.display());
            let fields = json!({
                "file": output::path_text(block_path),
                "hash": hash.to_string(),
                "detail": reject.to_string(),
            });
            log::warning("unverified", &text, fields);
            return Ok(1);
        }
        Err(error) => return Err(corrupt(block_path, error.to_string())),
    };
    let counts = verifier.signature_counts();
    let way = if verified.lanes { "lanes" } else { "libsecp256k1" };
    let signatures = match counts_text(&counts) {
        counts if counts.is_empty() => way.to_owned(),
        counts => format!("{way}: {counts}"),
    };
    facts
        .both_as("verdict", "valid", good("valid"))
        .both("transactions", verified.transactions)
        .both("inputs", verified.inputs)
        .both_as("fees", verified.fees, format!("{} satoshi", verified.fees))
        .both("sigop_cost", verified.sigops_cost)
        .both("weight", verified.weight)
        .both_as("signatures", signatures_json(&counts), signatures)
        .field("hashes", hashes_json())
        .both_as("seconds", seconds, format!("{seconds:.3}"))
        .print(arguments.json)?;
    Ok(0)
}
