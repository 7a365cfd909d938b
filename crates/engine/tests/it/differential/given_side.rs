//! Validation with given coins, beside the engine.

use super::given_chain::{Given, GivenChain};
use blockmill_block::{Block, BlockHash, Network};
use blockmill_engine::{Submission, Verdict};
use blockmill_rules::Params;
use blockmill_script::{CoreVerifier, Signatures};
use blockmill_validate::{Validator, ValidatorOptions};
use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

/// A chain in memory, and a validator for each way to verify signatures.
pub(crate) struct GivenSide {
    chain: GivenChain,
    validators: [Validator<CoreVerifier>; 2],
    /// Why blocks are invalid that the engine has on the side.
    refused: HashMap<BlockHash, String>,
    /// Blocks that were validated: valid ones, and others.
    pub(crate) judged: [u64; 2],
}

impl GivenSide {
    pub(crate) fn new() -> Self {
        let validator = |way| {
            let options = ValidatorOptions {
                threads: 1,
                lanes: way == Signatures::Lanes,
            };
            Validator::new(CoreVerifier::new(way).into(), options).unwrap()
        };
        Self {
            chain: GivenChain::new(Params::new(Network::Regtest, None)),
            validators: [Signatures::OneByOne, Signatures::Lanes].map(validator),
            refused: HashMap::new(),
            judged: [0; 2],
        }
    }

    /// Validates a block with its coins, if its parent is valid. Says what differs from the
    /// engine's answer.
    pub(crate) fn compare(&mut self, bytes: &[u8], ours: &Submission) -> Result<(), String> {
        let verdict = self.verdict(bytes, ours);
        let fits = match (&verdict, ours.verdict) {
            // It was said before.
            (_, Verdict::Duplicate) => true,
            (Some(Given::Malformed), verdict) => verdict == Verdict::Malformed,
            (Some(Given::Valid), verdict) => {
                matches!(verdict, Verdict::Connected | Verdict::Side)
                    || (verdict == Verdict::Invalid && ours.reason.as_deref() == Some("duplicate-invalid"))
            }
            (Some(Given::Invalid(reason, ..)), Verdict::Side) => {
                let hash = ours.hash.expect("it decodes");
                self.refused.insert(hash, reason.clone());
                true
            }
            (Some(Given::Invalid(reason, ..)), Verdict::Invalid) => {
                ours.reason.as_deref() == Some(reason) || ours.reason.as_deref() == Some("duplicate-invalid")
            }
            (Some(Given::Invalid(..)), _) => false,
            // Its parent is not valid, or not there.
            (None, Verdict::Connected | Verdict::Malformed) => false,
            (None, _) => {
                let failed = ours.failed.and_then(|failed| self.refused.get(&failed));
                failed.is_none_or(|reason| ours.reason.as_ref() == Some(reason))
            }
        };
        match fits {
            true => Ok(()),
            false => Err(format!("{ours:?}, but with given coins {verdict:?}")),
        }
    }

    /// None if the parent is not valid, or not there.
    fn verdict(&mut self, bytes: &[u8], ours: &Submission) -> Option<Given> {
        let Ok(block) = Block::decode(bytes.to_vec()) else {
            return Some(Given::Malformed);
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
        let given = self.chain.gather(block, now)?;
        let params = &self.chain.params;
        let [one_by_one, lanes] = self
            .validators
            .each_mut()
            .map(|validator| given.judge(params, validator));
        assert_eq!(one_by_one, lanes);
        self.judged[usize::from(one_by_one != Given::Valid)] += 1;
        if one_by_one == Given::Valid && matches!(ours.verdict, Verdict::Connected | Verdict::Side) {
            self.chain.add(&given);
        }
        Some(one_by_one)
    }
}
