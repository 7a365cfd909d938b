//! Parts of a run, joined with the fingerprint of a set.

use crate::conditions::{ChainFacts, Conditions, Repeat};
use crate::finding::{Finding, FindingKind};
use crate::fingerprint::Fingerprint;
use crate::part::Part;
use crate::range_sums::FINDINGS_MAX;
use blockmill_block::{BlockHash, Txid};
use std::time::Duration;

/// A set, and the block after which it is as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SetSums {
    pub(crate) block: BlockHash,
    pub(crate) coins: Fingerprint,
    /// Time of all threads for them.
    pub(crate) time: Duration,
}

/// The sums of joined parts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Joined {
    pub(crate) blocks: u64,
    pub(crate) transactions: u64,
    pub(crate) inputs: u64,
    pub(crate) findings: Vec<Finding>,
}

/// Joins parts that are sorted by their first heights with a set. Without a finding all is proved.
pub(crate) fn join(parts: &[Part], set: &SetSums, chain: &ChainFacts, conditions: Conditions) -> Joined {
    let mut joined = Joined::default();
    let (mut created, mut spent) = (Fingerprint::default(), Fingerprint::default());
    for part in parts {
        joined.blocks += u64::from(part.last - part.first) + 1;
        joined.transactions += part.sums.transactions;
        joined.inputs += part.sums.inputs;
        joined.findings.extend(part.sums.findings.iter().cloned());
        created.add(&part.sums.created);
        spent.add(&part.sums.spent);
    }
    let gaps = if conditions.joined {
        gaps(parts, set, &chain.genesis)
    } else {
        Vec::new()
    };
    let is_whole = gaps.is_empty();
    joined.findings.extend(gaps);
    if conditions.once {
        joined.findings.extend(repeated(parts, chain.repeats));
    }
    let left = spent.with(&set.coins);
    // Blocks that break a rule are in no sum, and of a part of a chain the sums say nothing.
    let is_summed = is_whole && joined.findings.iter().all(|finding| finding.kind != FindingKind::Block);
    if is_summed && conditions.sums && created != left {
        joined.findings.push(Finding::general(
            FindingKind::Sums,
            difference(&created, &spent, &set.coins),
        ));
    }
    joined.findings.sort();
    joined
}

/// Where parts do not make up the chain from the first block to the set's, each height once.
fn gaps(parts: &[Part], set: &SetSums, genesis: &BlockHash) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut gap = |reason: String| found.push(Finding::general(FindingKind::Parts, reason));
    let (Some(first), Some(last)) = (parts.first(), parts.last()) else {
        gap("there is no part".to_owned());
        return found;
    };
    if first.first > 0 {
        gap(format!("the part of heights 0 to {} is missing", first.first - 1));
    } else if first.first_hash != *genesis {
        gap(format!("the first block is {}, not the network's", first.first_hash));
    }
    for pair in parts.windows(2) {
        let [below, above] = [&pair[0], &pair[1]];
        let next = u64::from(below.last) + 1;
        if u64::from(above.first) > next {
            gap(format!("the part of heights {next} to {} is missing", above.first - 1));
        } else if u64::from(above.first) < next {
            gap(format!(
                "the parts of heights {} to {} and {} to {} overlap",
                below.first, below.last, above.first, above.last
            ));
        } else if above.parent != below.last_hash {
            gap(format!(
                "the part that ends with block {} (height {}) is followed by one of another chain, above block {}",
                below.last_hash, below.last, above.parent
            ));
        }
    }
    if last.last_hash != set.block {
        gap(format!(
            "the parts end with block {} (height {}), and the set is that of block {}",
            last.last_hash, last.last, set.block
        ));
    }
    found
}

/// Coinbases that are the same, but for those that the network has.
fn repeated(parts: &[Part], repeats: &[Repeat]) -> Vec<Finding> {
    let mut coinbases: Vec<(Txid, u32)> = parts
        .iter()
        .flat_map(|part| part.sums.coinbases.iter().map(|&(height, txid)| (txid, height)))
        .collect();
    coinbases.sort_unstable();
    // The same height twice is a matter of parts.
    let is_same = |pair: &&[(Txid, u32)]| pair[0].0 == pair[1].0 && pair[0].1 != pair[1].1 && !pair[0].0.is_zero();
    let same = coinbases.windows(2).filter(is_same);
    let known = |earlier: u32, height: u32| {
        let mut repeats = repeats.iter();
        repeats.any(|repeat| (repeat.earlier, repeat.height) == (earlier, height))
    };
    let new = same.filter(|pair| !known(pair[0].1, pair[1].1));
    new.take(FINDINGS_MAX)
        .map(|pair| {
            let reason = format!(
                "the blocks of heights {} and {} have the same coinbase {}",
                pair[0].1, pair[1].1, pair[0].0
            );
            Finding::general(FindingKind::Once, reason)
        })
        .collect()
}

/// What the numbers say of sums that are not the same.
fn difference(created: &Fingerprint, spent: &Fingerprint, set: &Fingerprint) -> String {
    let coins = i128::from(created.coins) - i128::from(spent.coins) - i128::from(set.coins);
    let amount = created.amount - spent.amount - set.amount;
    let what = match (coins, amount) {
        (0, 0) => "their numbers and amounts are the same, so one is in the place of another".to_owned(),
        (0, amount) => format!("their numbers are the same, their amounts differ by {amount} satoshi"),
        (coins, amount) => format!("they differ by {coins} coins and {amount} satoshi"),
    };
    format!(
        "the {} coins that blocks make are not the {} that blocks spend and the {} of the set: {what}",
        created.coins, spent.coins, set.coins
    )
}
