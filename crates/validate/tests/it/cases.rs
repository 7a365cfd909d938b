//! Blocks, each with its coins and its verdict, for programs in other languages: the known
//! full-block tests, and mutated copies of them.
//!
//! A case is words between spaces and line ends:
//! ```text
//! case NAME height N bits N parent_time N median N now N work 0|1 times COUNT N...
//! coins COUNT (TXID VOUT VALUE HEIGHT COINBASE SCRIPT)...
//! block HEX verdict valid|malformed|REASON TRANSACTION INPUT
//! ```
//! Ids are in the order of blocks, an empty script or block is a minus, and so is an index that is
//! not there -1.

use crate::conformance_rows::judged;
use crate::given_chain::{Given, GivenBlock};
use blockmill_block::{Block, Network, hex};
use blockmill_rules::header::HeaderFacts;
use blockmill_rules::{Params, ScriptVerifier};
use blockmill_script::{CoreVerifier, Signatures};
use blockmill_validate::{CollectedCoins, KnownChain, Validator, ValidatorOptions, VerifyBlockError};
use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

/// Mutated blocks.
const MUTATED: usize = 20_000;

/// Larger blocks are not mutated.
const BYTES_MAX: usize = 4_000;

/// All cases as text, and their number. None if the full-block tests are not there.
pub(crate) fn cases() -> Option<(String, usize)> {
    let verifier = CoreVerifier::new(Signatures::OneByOne);
    let mut validator = Validator::new(verifier.into(), ValidatorOptions::default()).unwrap();
    let rows = judged(&mut validator)?;
    let (mut text, mut count) = (String::new(), 0);
    for row in &rows {
        write_case(&mut text, &row.name, row.given.as_ref(), true, &row.bytes, &row.verdict);
        count += 1;
    }
    let is_small = |given: &&GivenBlock| given.block.bytes().len() < BYTES_MAX && given.block.transaction_count() > 1;
    let small: Vec<&GivenBlock> = rows
        .iter()
        .filter_map(|row| row.given.as_ref())
        .filter(is_small)
        .collect();
    assert!(small.len() > 20);
    let mut random = Random(1);
    let mut found: HashMap<String, usize> = HashMap::new();
    for number in 0..MUTATED {
        let given = small[random.below(small.len())];
        let bytes = mutated(given, &mut random);
        let verdict = verdict(&mut validator, given, &bytes);
        let reason = match &verdict {
            Given::Invalid(reason, ..) => reason.clone(),
            other => format!("{other:?}"),
        };
        *found.entry(reason).or_default() += 1;
        write_case(
            &mut text,
            &format!("mutated{number}"),
            Some(given),
            false,
            &bytes,
            &verdict,
        );
        count += 1;
    }
    assert!(found.len() >= 8, "{found:?}");
    Some((text, count))
}

/// Numbers from a seed (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

/// A block with some bits changed. In most, the root is made to fit.
fn mutated(given: &GivenBlock, random: &mut Random) -> Vec<u8> {
    let mut bytes = given.block.bytes().to_vec();
    for _ in 0..1 + random.below(2) {
        let at = random.below(bytes.len());
        bytes[at] ^= 1 << random.below(8);
    }
    if random.below(4) > 0
        && let Ok(block) = Block::decode(bytes.clone())
    {
        bytes[36..68].copy_from_slice(&block.merkle_root().hash);
    }
    bytes
}

fn verdict<V: ScriptVerifier>(validator: &mut Validator<V>, given: &GivenBlock, bytes: &[u8]) -> Given {
    let Ok(block) = Block::decode(bytes.to_vec()) else {
        return Given::Malformed;
    };
    if block.bytes().len() < bytes.len() {
        return Given::Malformed;
    }
    let chain = KnownChain {
        facts: given.facts,
        median_times: (0..).zip(given.median_times.iter().copied()).collect(),
        proof_of_work: false,
        ..KnownChain::at_height(Params::new(Network::Regtest, None), given.height)
    };
    let coins = CollectedCoins::ByOutPoint(given.coins.clone());
    match validator.validate_collected(&Arc::new(block), &coins, &chain) {
        Ok(_) => Given::Valid,
        Err(VerifyBlockError::Reject(reject)) => {
            Given::Invalid(reject.reason.into_owned(), reject.transaction, reject.input)
        }
        Err(error) => panic!("{error}"),
    }
}

fn write_case(
    text: &mut String,
    name: &str,
    given: Option<&GivenBlock>,
    proof_of_work: bool,
    bytes: &[u8],
    verdict: &Given,
) {
    let facts = given.map_or(HeaderFacts::default(), |given| given.facts);
    let height = given.map_or(1, |given| given.height);
    let times: &[u32] = given.map_or(&[], |given| &given.median_times);
    let work = u8::from(proof_of_work);
    let (bits, parent_time) = (facts.bits.unwrap_or(0), facts.parent_time.unwrap_or(0));
    let (median, now) = (facts.median_time_past.unwrap_or(0), facts.now.unwrap_or(0));
    write!(
        text,
        "case {name} height {height} bits {bits} parent_time {parent_time} median {median} now {now} work {work} "
    )
    .unwrap();
    write!(text, "times {}", times.len()).unwrap();
    for time in times {
        write!(text, " {time}").unwrap();
    }
    let coins = given.map(|given| &given.coins);
    writeln!(text, "\ncoins {}", coins.map_or(0, HashMap::len)).unwrap();
    for (outpoint, coin) in coins.into_iter().flatten() {
        let (txid, script) = (hex::encode(&outpoint.txid.0), or_minus(&coin.script_pubkey));
        let (value, height, coinbase) = (coin.value, coin.height, u8::from(coin.is_coinbase));
        writeln!(text, "{txid} {} {value} {height} {coinbase} {script}", outpoint.vout).unwrap();
    }
    let (word, transaction, input) = match verdict {
        Given::Valid => ("valid", None, None),
        Given::Malformed => ("malformed", None, None),
        Given::Invalid(reason, transaction, input) => (&**reason, *transaction, *input),
    };
    let index = |index: Option<usize>| index.map_or(-1, |index| index as i64);
    let (block, transaction, input) = (or_minus(bytes), index(transaction), index(input));
    writeln!(text, "block {block} verdict {word} {transaction} {input}").unwrap();
}

fn or_minus(bytes: &[u8]) -> String {
    match bytes {
        [] => "-".to_owned(),
        bytes => hex::encode(bytes),
    }
}
