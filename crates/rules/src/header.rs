//! Rules of a header among its ancestors (Core's `CheckBlockHeader` and
//! `ContextualCheckBlockHeader`).

use crate::params::{Deployment, Params};
use crate::reject::{Reject, RejectKind};
use crate::rule::{Activation, Rule, Verdict, rules};
use crate::target::{self, Period};
use blockmill_block::{BlockHash, Header};
use std::borrow::Cow;

/// Seconds by which a header may be ahead of the clock.
pub const MAX_FUTURE_BLOCK_TIME: i64 = 2 * 60 * 60;

/// Seconds by which the first block of a period may be earlier than the last block of the period
/// before (BIP 94).
pub const MAX_TIMEWARP: i64 = 600;

/// Number of blocks in a median time past.
pub const MEDIAN_TIME_SPAN: usize = 11;

/// An ancestor, as the rules of a header see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ancestor {
    /// Height.
    pub height: u32,
    /// Time in its header, in seconds since 1970.
    pub time: u32,
    /// Target in compact form.
    pub bits: u32,
}

/// The chain of headers that ends with the parent of the checked block.
pub trait Ancestry {
    /// The parent.
    fn parent(&self) -> Ancestor;

    /// Median of the times of the parent and the ten blocks before it.
    fn median_time_past(&self) -> u32;

    /// The ancestor at `height`, which is at most the parent's height.
    fn at_height(&self, height: u32) -> Ancestor;

    /// The nearest ancestor for which `wanted` holds, the parent included. If none does, the first
    /// block.
    fn find_back(&self, wanted: &mut dyn FnMut(&Ancestor) -> bool) -> Ancestor;
}

/// Median of block times. Of an even number of times, the later of the two in the middle. Of no
/// times, zero.
pub fn median_time(times: &mut [u32]) -> u32 {
    // Times may run backwards from one block to the next.
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// What the rules of a header ask of the chain before it, and of the clock. A rule whose fact is
/// not known is left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HeaderFacts {
    /// Target in compact form that the header must have.
    pub bits: Option<u32>,
    /// Time in the parent's header, in seconds since 1970.
    pub parent_time: Option<u32>,
    /// Median of the times of the parent and the ten blocks before it.
    pub median_time_past: Option<u32>,
    /// The clock, in seconds since 1970.
    pub now: Option<i64>,
}

/// A header, and what is known of the chain before it.
pub struct HeaderContext<'a> {
    /// Parameters of the network.
    pub params: &'a Params,
    /// The header.
    pub header: &'a Header,
    /// Its hash.
    pub hash: BlockHash,
    /// Its height.
    pub height: u32,
    /// What is known.
    pub facts: HeaderFacts,
}

impl<'a> HeaderContext<'a> {
    /// A header after a chain that is known, by which all rules are checked.
    pub fn after(
        ancestry: &dyn Ancestry,
        params: &'a Params,
        header: &'a Header,
        hash: BlockHash,
        now: i64,
    ) -> HeaderContext<'a> {
        let parent = ancestry.parent();
        HeaderContext {
            params,
            header,
            hash,
            height: parent.height + 1,
            facts: HeaderFacts {
                bits: Some(next_bits(params, ancestry, header.time)),
                parent_time: Some(parent.time),
                median_time_past: Some(ancestry.median_time_past()),
                now: Some(now),
            },
        }
    }
}

/// A check of a header.
pub type HeaderCheck = fn(&HeaderContext<'_>) -> Verdict;

rules! {
    /// The rules of a header among its ancestors, in Core's order. [`check_proof_of_work`] comes
    /// before them.
    pub HEADER_RULES: HeaderCheck = [
        difficulty, "GetNextWorkRequired", Activation::Always;
        time_after_median, "ContextualCheckBlockHeader", Activation::Always;
        no_time_warp, "BIP 94", Activation::Bip94;
        time_not_in_future, "ContextualCheckBlockHeader", Activation::Always;
        version_2, "BIP 34", Activation::From(Deployment::HeightInCoinbase);
        version_3, "BIP 66", Activation::From(Deployment::DerSig);
        version_4, "BIP 65", Activation::From(Deployment::CheckLockTimeVerify);
    ]
}

/// Runs all rules of a header.
///
/// # Errors
/// The first rule that is broken.
pub fn check_header(context: &HeaderContext<'_>) -> Verdict {
    check_proof_of_work(&context.hash, context.header.bits, context.params)?;
    check_header_context(context)
}

/// Runs the rules of a header among its ancestors.
///
/// # Errors
/// The first rule that is broken.
pub fn check_header_context(context: &HeaderContext<'_>) -> Verdict {
    HEADER_RULES
        .iter()
        .filter(|rule: &&Rule<_>| rule.activation.holds(context.params, context.height))
        .try_for_each(|rule| (rule.check)(context))
}

/// The hash MUST NOT be above the target, and the target MUST NOT be above the network's limit
/// (Core's `CheckBlockHeader`).
///
/// # Errors
/// `high-hash`.
pub fn check_proof_of_work(hash: &BlockHash, bits: u32, params: &Params) -> Verdict {
    if target::meets_target(hash, bits, params) {
        Ok(())
    } else {
        Err(Reject {
            kind: RejectKind::NoWork,
            ..Reject::header("high-hash")
        })
    }
}

/// The target MUST be the one that follows from the chain before the header.
fn difficulty(context: &HeaderContext<'_>) -> Verdict {
    match context.facts.bits {
        Some(bits) if context.header.bits != bits => Err(Reject::header("bad-diffbits")),
        _ => Ok(()),
    }
}

/// Bits that a block with this time must have after the given chain.
pub fn next_bits(params: &Params, ancestry: &dyn Ancestry, time: u32) -> u32 {
    let parent = ancestry.parent();
    let interval = params.difficulty_adjustment_interval();
    if (parent.height + 1).is_multiple_of(interval) {
        // A period is measured from its first block to its last, one interval short, as in Core.
        let first = ancestry.at_height(parent.height + 1 - interval);
        let period = Period {
            first_time: first.time,
            first_bits: first.bits,
            last_time: parent.time,
            last_bits: parent.bits,
        };
        return target::next_period_bits(&period, params);
    }
    if !params.allow_min_difficulty_blocks {
        return parent.bits;
    }
    let limit = target::encode_compact(params.pow_limit);
    // A block that is so late may have the highest target.
    if i64::from(time) > i64::from(parent.time) + 2 * params.pow_target_spacing {
        return limit;
    }
    // Else the target is that of the last block without this exception, within the period.
    ancestry
        .find_back(&mut |ancestor| ancestor.height.is_multiple_of(interval) || ancestor.bits != limit)
        .bits
}

/// The time MUST be later than the median of the times of the eleven blocks before.
fn time_after_median(context: &HeaderContext<'_>) -> Verdict {
    match context.facts.median_time_past {
        Some(median) if context.header.time <= median => Err(Reject::header("time-too-old")),
        _ => Ok(()),
    }
}

/// The first block of a period MUST NOT be more than ten minutes earlier than its parent.
fn no_time_warp(context: &HeaderContext<'_>) -> Verdict {
    let first = context
        .height
        .is_multiple_of(context.params.difficulty_adjustment_interval());
    let is_early = |parent: u32| i64::from(context.header.time) < i64::from(parent) - MAX_TIMEWARP;
    if first && context.facts.parent_time.is_some_and(is_early) {
        Err(Reject::header("time-timewarp-attack"))
    } else {
        Ok(())
    }
}

/// The time MUST NOT be more than two hours ahead of the clock.
fn time_not_in_future(context: &HeaderContext<'_>) -> Verdict {
    let is_ahead = |now: i64| i64::from(context.header.time) > now.saturating_add(MAX_FUTURE_BLOCK_TIME);
    if context.facts.now.is_some_and(is_ahead) {
        Err(Reject::time_future("time-too-new"))
    } else {
        Ok(())
    }
}

fn version_at_least(context: &HeaderContext<'_>, least: i32) -> Verdict {
    let version = context.header.version;
    if version >= least {
        return Ok(());
    }
    Err(Reject {
        reason: Cow::Owned(format!("bad-version(0x{version:08x})")),
        kind: RejectKind::Header,
        transaction: None,
        input: None,
    })
}

/// The version MUST be at least 2 once the height is in the coinbase.
fn version_2(context: &HeaderContext<'_>) -> Verdict {
    version_at_least(context, 2)
}

/// The version MUST be at least 3 once signatures are strict DER.
fn version_3(context: &HeaderContext<'_>) -> Verdict {
    version_at_least(context, 3)
}

/// The version MUST be at least 4 once CHECKLOCKTIMEVERIFY holds.
fn version_4(context: &HeaderContext<'_>) -> Verdict {
    version_at_least(context, 4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use blockmill_block::{MerkleRoot, Network};

    /// A chain given by the times and bits of its blocks, from some height on.
    struct Chain {
        first_height: u32,
        blocks: Vec<(u32, u32)>,
    }

    impl Chain {
        fn new(first_height: u32, blocks: Vec<(u32, u32)>) -> Self {
            Self { first_height, blocks }
        }
    }

    impl Ancestry for Chain {
        fn parent(&self) -> Ancestor {
            self.at_height(self.first_height + self.blocks.len() as u32 - 1)
        }

        fn median_time_past(&self) -> u32 {
            let mut times: Vec<_> = self
                .blocks
                .iter()
                .rev()
                .take(MEDIAN_TIME_SPAN)
                .map(|block| block.0)
                .collect();
            median_time(&mut times)
        }

        fn at_height(&self, height: u32) -> Ancestor {
            let (time, bits) = self.blocks[(height - self.first_height) as usize];
            Ancestor { height, time, bits }
        }

        fn find_back(&self, wanted: &mut dyn FnMut(&Ancestor) -> bool) -> Ancestor {
            let last = self.parent().height;
            (self.first_height..=last)
                .rev()
                .map(|height| self.at_height(height))
                .find(|ancestor| wanted(ancestor))
                .unwrap_or_else(|| self.at_height(self.first_height))
        }
    }

    const EASY: u32 = 0x207f_ffff;
    const NOW: i64 = 2_000_000_000;

    fn header(version: i32, time: u32, bits: u32) -> Header {
        Header {
            version,
            prev_block_hash: BlockHash::ZERO,
            merkle_root: MerkleRoot::ZERO,
            time,
            bits,
            nonce: 0,
        }
    }

    /// Validates a header with a hash of zero, so that its work is always enough.
    fn check(network: Network, chain: &Chain, header: Header) -> Result<(), String> {
        let params = Params::new(network, None);
        check_header(&HeaderContext::after(chain, &params, &header, BlockHash::ZERO, NOW))
            .map_err(|reject| reject.reason.into_owned())
    }

    fn refused(reason: &str) -> Result<(), String> {
        Err(reason.to_owned())
    }

    #[test]
    fn times_at_their_boundaries() {
        let chain = Chain::new(1, (1..=11).map(|time| (time * 10, EASY)).collect());
        let at = |time| check(Network::Regtest, &chain, header(4, time, EASY));
        assert_eq!(at(60), refused("time-too-old"));
        assert_eq!(at(61), Ok(()));
        assert_eq!(at(2_000_007_200), Ok(()));
        assert_eq!(at(2_000_007_201), refused("time-too-new"));
    }

    /// A rule whose fact is not known is left out, and no other one.
    #[test]
    fn facts_that_are_not_known() {
        let params = Params::new(Network::Testnet4, None);
        let chain = Chain::new(0, (0..2016).map(|height| (height * 601, 0x1d00_ffff)).collect());
        let broken = header(1, 1, 0x1d00_fffe);
        let full = HeaderContext::after(&chain, &params, &broken, BlockHash::ZERO, -8000).facts;
        let word = |facts| {
            let context = HeaderContext {
                params: &params,
                header: &broken,
                hash: BlockHash::ZERO,
                height: 2016,
                facts,
            };
            check_header(&context).unwrap_err().reason.into_owned()
        };
        let mut facts = full;
        assert_eq!(word(facts), "bad-diffbits");
        facts.bits = None;
        assert_eq!(word(facts), "time-too-old");
        facts.median_time_past = None;
        assert_eq!(word(facts), "time-timewarp-attack");
        facts.parent_time = None;
        assert_eq!(word(facts), "time-too-new");
        facts.now = None;
        assert_eq!(word(facts), "bad-version(0x00000001)");
        facts.now = Some(i64::MAX);
        assert_eq!(word(facts), "bad-version(0x00000001)");
    }

    #[test]
    fn median_of_few_blocks() {
        assert_eq!(median_time(&mut [5]), 5);
        assert_eq!(median_time(&mut [5, 3]), 5);
        assert_eq!(median_time(&mut [9, 1, 5]), 5);
    }

    #[test]
    fn versions_by_height() {
        let bits = 0x1d00_ffff;
        let at = |height: u32, version| {
            let chain = Chain::new(height - 1, vec![(1000, bits)]);
            check(Network::Bitcoin, &chain, header(version, 2000, bits))
        };
        assert_eq!(at(227_930, 1), Ok(()));
        assert_eq!(at(227_931, 1), refused("bad-version(0x00000001)"));
        assert_eq!(at(227_931, 2), Ok(()));
        assert_eq!(at(363_725, 2), refused("bad-version(0x00000002)"));
        assert_eq!(at(363_725, 3), Ok(()));
        assert_eq!(at(388_380, 3), Ok(()));
        assert_eq!(at(388_381, 3), refused("bad-version(0x00000003)"));
        assert_eq!(at(388_381, 4), Ok(()));
        assert_eq!(at(388_381, -1), refused("bad-version(0xffffffff)"));
    }

    #[test]
    fn work_and_bits() {
        let chain = Chain::new(1, vec![(1000, EASY)]);
        let params = Params::new(Network::Regtest, None);
        let checked = header(4, 2000, EASY);
        let context = HeaderContext::after(&chain, &params, &checked, BlockHash([0xff; 32]), NOW);
        let reject = check_header(&context).unwrap_err();
        assert_eq!((&*reject.reason, reject.kind), ("high-hash", RejectKind::NoWork));
        let other = header(4, 2000, 0x207f_fffe);
        assert_eq!(check(Network::Regtest, &chain, other), refused("bad-diffbits"));
    }

    #[test]
    fn minimum_difficulty_of_testnet3() {
        let (hard, limit) = (0x1c00_ffff, 0x1d00_ffff);
        let params = Params::new(Network::Testnet3, None);
        let chain = Chain::new(2016, vec![(1000, hard), (2000, limit), (3000, limit)]);
        assert_eq!(next_bits(&params, &chain, 4200), hard);
        assert_eq!(next_bits(&params, &chain, 4201), limit);
        // Back to the first block of the period and no further.
        let chain = Chain::new(2015, vec![(900, hard), (1000, limit), (2000, limit)]);
        assert_eq!(next_bits(&params, &chain, 2001), limit);
    }

    #[test]
    fn retarget_of_mainnet_at_32_256() {
        // The first period that was quick enough for a change. Its first and last block have their
        // times of the chain.
        let mut blocks = vec![(1_262_152_739, 0x1d00_ffff); 2016];
        blocks[0].0 = 1_261_130_161;
        let chain = Chain::new(30_240, blocks);
        let at = |bits| check(Network::Bitcoin, &chain, header(1, 1_262_153_464, bits));
        assert_eq!(chain.parent().height, 32_255);
        assert_eq!(at(0x1d00_d86a), Ok(()));
        assert_eq!(at(0x1d00_d86b), refused("bad-diffbits"));
        assert_eq!(at(0x1d00_ffff), refused("bad-diffbits"));
        // One block earlier, nothing changes.
        let earlier = Chain::new(30_240, vec![(1_261_130_161, 0x1d00_ffff); 2015]);
        let next = header(1, 1_262_152_739, 0x1d00_ffff);
        assert_eq!(check(Network::Bitcoin, &earlier, next), Ok(()));
    }

    #[test]
    fn both_clamps_of_the_retarget() {
        let params = Params::new(Network::Bitcoin, None);
        let after = |seconds: u32| {
            let mut blocks = vec![(1_300_000_000, 0x1b04_04cb); 2016];
            blocks[2015].0 += seconds;
            next_bits(&params, &Chain::new(2016, blocks), 0)
        };
        let fortnight = 1_209_600;
        assert_eq!(after(fortnight), 0x1b04_04cb);
        assert_eq!(after(fortnight / 4), after(0));
        assert_ne!(after(fortnight / 4 + 600), after(0));
        assert_eq!(after(fortnight * 4), after(fortnight * 5));
        assert_ne!(after(fortnight * 4 - 600), after(fortnight * 5));
        // A time that runs backwards counts as the shortest.
        let mut blocks = vec![(1_300_000_000, 0x1b04_04cb); 2016];
        blocks[2015].0 -= 1000;
        assert_eq!(next_bits(&params, &Chain::new(2016, blocks), 0), after(0));
    }

    #[test]
    fn retarget_and_time_warp_of_testnet4() {
        let bits = 0x1d00_ffff;
        let chain = Chain::new(0, (0..2016).map(|height| (height * 601, bits)).collect());
        let at = |time| check(Network::Testnet4, &chain, header(4, time, bits));
        assert_eq!(at(2015 * 601 - 600), Ok(()));
        assert_eq!(at(2015 * 601 - 601), refused("time-timewarp-attack"));
        let params = Params::new(Network::Testnet4, None);
        let quick = Chain::new(0, (0..2016).map(|height| (height, bits)).collect());
        assert_eq!(next_bits(&params, &quick, 0), 0x1c3f_ffc0);
    }
}
