//! The known full-block tests, each block with all that its validation needs.

use super::given_chain::{Given, GivenBlock, GivenChain};
use blockmill_block::{Block, Network, hex};
use blockmill_realdata::{block_of, full_block_rows, text_of, word_of};
use blockmill_rules::{Params, ScriptVerifier};
use blockmill_validate::Validator;
use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

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

/// Seconds since 1970.
pub(crate) fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64
}

/// All rows whose parent is valid, judged by a validator, and compared with Core's verdicts. None
/// if the stream is not there.
pub(crate) fn judged<V: ScriptVerifier>(validator: &mut Validator<V>) -> Option<Vec<Row>> {
    let rows = full_block_rows()?;
    let mut chain = GivenChain::new(Params::new(Network::Regtest, None));
    // Blocks that are bad, and that Core has on a side chain, unchecked.
    let mut bad_on_the_side: HashMap<String, String> = HashMap::new();
    let mut judged = Vec::new();
    for row in &rows {
        let name = text_of(row, "name").to_owned();
        let bytes = hex::decode(block_of(row)).unwrap();
        let core = text_of(row, "core_verdict");
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
                let reason = bad_on_the_side.remove(text_of(row, "prev_hash"));
                assert_eq!(reason.as_deref(), Some(word_of(row)), "{name}");
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
            Given::Invalid(reason, ..) => assert_eq!((core, reason.as_str()), ("reject", word_of(row)), "{name}"),
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
