//! The known full-block tests, each block with all that its validation needs.

use super::given_chain::{Given, GivenBlock, GivenChain};
use blockmill_block::{Block, Network, hex};
use blockmill_rules::{Params, ScriptVerifier};
use blockmill_validate::Validator;
use flate2::read::GzDecoder;
use serde_json::Value;
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// Rows of the stream.
const ROWS: usize = 192;

/// Rows on a valid parent, and those that do not decode.
const JUDGED: usize = 185;

/// A row, and what was said of its block.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
    /// None if the block does not decode.
    pub(crate) given: Option<GivenBlock>,
    pub(crate) verdict: Given,
}

/// Core's word: what stands before the first comma or parenthesis.
fn word(row: &Value) -> String {
    let reason = row["core_reject_reason"].as_str().unwrap_or_default();
    reason.split([',', '(']).next().unwrap_or_default().trim().to_owned()
}

/// Seconds since 1970.
pub(crate) fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64
}

/// All rows whose parent is valid, judged by a validator, and compared with Core's verdicts. None
/// if the stream is not there.
pub(crate) fn judged<V: ScriptVerifier>(validator: &mut Validator<V>) -> Option<Vec<Row>> {
    let path = "../shared/data/conformance/fullblock.jsonl.gz";
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let Ok(packed) = File::open(root.join(path)) else {
        eprintln!("skipped: {path} is missing");
        return None;
    };
    let mut text = String::new();
    GzDecoder::new(packed).read_to_string(&mut text).unwrap();
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), ROWS);
    let mut chain = GivenChain::new(Params::new(Network::Regtest, None));
    // Blocks that are bad, and that Core has on a side chain, unchecked.
    let mut bad_on_the_side: HashMap<String, String> = HashMap::new();
    let mut judged = Vec::new();
    for row in &rows {
        let name = row["name"].as_str().unwrap().to_owned();
        let text = row["block_hex"].as_str().or(row["raw_hex"].as_str()).unwrap();
        let bytes = hex::decode(text).unwrap();
        let core = row["core_verdict"].as_str().unwrap();
        let Ok(block) = Block::decode(bytes.clone()) else {
            assert_eq!(core, "undecodable", "{name}");
            judged.push(Row {
                name,
                bytes,
                given: None,
                verdict: Given::Malformed,
            });
            continue;
        };
        let hash = block.hash().to_string();
        let Some(given) = chain.gather(block, now()) else {
            if core == "reject_ancestor" {
                let parent = row["prev_hash"].as_str().unwrap();
                assert_eq!(bad_on_the_side.remove(parent), Some(word(row)), "{name}");
            } else {
                assert_eq!(core, "orphan", "{name}");
            }
            continue;
        };
        let verdict = given.judge(&chain.params, validator);
        match &verdict {
            Given::Valid => {
                assert!(core.starts_with("accept"), "{name}: {core}");
                chain.add(&given);
            }
            Given::Invalid(reason, ..) if core == "accept_side" => {
                bad_on_the_side.insert(hash, reason.clone());
            }
            Given::Invalid(reason, ..) => assert_eq!((core, reason), ("reject", &word(row)), "{name}"),
            other => panic!("{name}: {other:?}"),
        }
        judged.push(Row {
            name,
            bytes,
            given: Some(given),
            verdict,
        });
    }
    // One block is the mutated copy of another, which Core has already.
    assert!(bad_on_the_side.len() <= 1, "{bad_on_the_side:?}");
    assert_eq!(judged.len(), JUDGED);
    Some(judged)
}
