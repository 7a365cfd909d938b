//! Parts of a run, joined with the fingerprint of a set.

use crate::conditions::{ChainFacts, Conditions, Repeat};
use crate::error::AuditError;
use crate::finding::{Finding, FindingKind};
use crate::fingerprint::{Fingerprint, Fingerprinter};
use crate::joined::Joined;
use crate::key::Key;
use crate::part::Part;
use crate::range_sums::FINDINGS_MAX;
use crate::report::{Report, report};
use crate::set::{AuditedSet, SetSums, set_sums, snapshot_head, snapshot_network};
use blockmill_block::{BlockHash, Txid};
use blockmill_blockfiles::{FileError, open_regular};
use blockmill_chain::Observer;
use blockmill_checks::verify_blocks::ThreadTimes;
use std::borrow::Borrow;
use std::cmp::Reverse;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// The bytes of a part, and its name in messages.
pub type NamedPart = (String, Vec<u8>);

/// Reads the files of parts.
///
/// # Errors
/// [`AuditError::File`].
pub fn read_parts(paths: &[PathBuf]) -> Result<Vec<NamedPart>, AuditError> {
    let read = |path: &PathBuf| Ok((path.display().to_string(), read_part(path)?));
    paths.iter().map(read).collect()
}

/// Reads the file of a part. A pipe is none: nobody knows when it ends.
pub(crate) fn read_part(path: &Path) -> Result<Vec<u8>, AuditError> {
    Ok(Part::read(open_regular(path)?).map_err(FileError::io(path))?)
}

/// Joins the parts of a run with a set. What is no part of the run is a finding.
///
/// # Errors
/// [`AuditError`], where a file cannot be read.
pub fn merge(
    key: &Key,
    parts: &[NamedPart],
    set: AuditedSet<'_>,
    threads: usize,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<Report, AuditError> {
    let (magic, base) = match set {
        AuditedSet::Snapshot(path) => {
            let magic = snapshot_network(path)?;
            (magic, snapshot_head(path, magic)?.base)
        }
        AuditedSet::Data(set) => (set.directory().chain_id().params().magic(), set.tip().hash),
    };
    let chain = ChainFacts::of_magic(magic);
    let mut findings = Vec::new();
    let mut decoded = Vec::new();
    for (name, bytes) in parts {
        let problem = match Part::decode(bytes, key) {
            Ok(part) if part.magic == chain.magic => {
                decoded.push(part);
                continue;
            }
            Ok(_) => "the part is of another network than the set".to_owned(),
            Err(error) => error.to_string(),
        };
        let reason = format!("{name}: {problem}");
        findings.push(Finding::general(FindingKind::Seal, reason));
    }
    decoded.sort_by_key(|part| (part.first, part.last));
    set_strangers_apart(&mut decoded, &base);
    let height = height_of(&decoded, &base);
    // No coin is above a height that is not known.
    let base_height = height.unwrap_or(u32::MAX >> 1);
    let fingerprinter = Fingerprinter::new(key);
    let (set_sums, set_finding) = set_sums(set, (base, base_height), &fingerprinter, threads, stop, observer)?;
    let conditions = Conditions {
        // A part that cannot be read says more than the gap that it leaves.
        joined: findings.is_empty(),
        sums: findings.is_empty() && set_finding.is_none(),
        ..Conditions::default()
    };
    let mut joined = join(&decoded, &set_sums, &chain, conditions);
    joined.findings.extend(findings);
    joined.findings.extend(set_finding);
    joined.say_causes_once(Vec::new());
    let mut report = report(&chain, joined, &set_sums, height, ThreadTimes::default());
    report.note(set, key, set_sums.figures.as_ref());
    Ok(report)
}

/// Height of the set's block, where parts that are sorted end with it.
fn height_of(parts: &[Part], base: &BlockHash) -> Option<u32> {
    let last = parts.last().filter(|part| part.last_hash == *base);
    last.map(|part| part.last)
}

/// Joins parts that are sorted by their first heights with a set. Without a finding all is proved.
pub(crate) fn join<P: Borrow<Part>>(parts: &[P], set: &SetSums, chain: &ChainFacts, conditions: Conditions) -> Joined {
    let parts: Vec<&Part> = parts.iter().map(Borrow::borrow).collect();
    let parts = &parts[..];
    let mut joined = Joined::default();
    let (mut created, mut spent) = (Fingerprint::default(), Fingerprint::default());
    for part in parts {
        joined.blocks += u64::from(part.last - part.first) + 1;
        // What a part says of itself may be any number.
        joined.transactions = joined.transactions.saturating_add(part.sums.transactions);
        joined.inputs = joined.inputs.saturating_add(part.sums.inputs);
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
    // Blocks that break a rule are in no sum, and of a part of a chain the sums say nothing. Coins
    // without heights are others than those that blocks make, and no lie.
    let leaves_sums = |finding: &Finding| !matches!(finding.kind, FindingKind::Block | FindingKind::Unreadable);
    let is_summed = is_whole && joined.findings.iter().all(leaves_sums);
    if is_summed && conditions.sums && created != left {
        joined.findings.push(Finding::general(
            FindingKind::Sums,
            difference(&created, &spent, &set.coins),
        ));
    }
    joined.findings.sort();
    joined
}

/// What was found in parts that nothing links to the set's block refutes nothing: they may be of
/// another chain.
fn set_strangers_apart(parts: &mut [Part], block: &BlockHash) {
    // From the top down, each part names the block below it.
    let mut of_chain = HashSet::from([*block]);
    let mut from_top: Vec<&mut Part> = parts.iter_mut().collect();
    from_top.sort_by_key(|part| Reverse(part.last));
    for part in from_top {
        if of_chain.contains(&part.last_hash) {
            of_chain.insert(part.parent);
            continue;
        }
        let heights = format!("heights {} to {}", part.first, part.last);
        for finding in part.sums.findings.iter_mut().filter(|finding| finding.kind.refutes()) {
            finding.kind = FindingKind::Parts;
            let reason = &finding.reason;
            finding.reason = format!("in the part of {heights}, which nothing links to the set's block: {reason}");
        }
        // Blocks of another chain repeat no coinbase of this one.
        part.sums.coinbases.clear();
    }
}

/// Where parts do not make up the chain from the first block to the set's, each height once.
fn gaps(parts: &[&Part], set: &SetSums, genesis: &BlockHash) -> Vec<Finding> {
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
        let [below, above] = [pair[0], pair[1]];
        // In 64 bits: a part may say that it ends at the largest number of 32 bits.
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
fn repeated(parts: &[&Part], repeats: &[Repeat]) -> Vec<Finding> {
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
    let amount = created.amount.wrapping_sub(spent.amount).wrapping_sub(set.amount);
    let what = match (coins, amount) {
        (0, 0) => "their numbers and amounts are the same, so one stands instead of another".to_owned(),
        (0, amount) => format!("their numbers are the same, their amounts differ by {amount} satoshi"),
        (coins, amount) => format!("they differ by {coins} coins and {amount} satoshi"),
    };
    format!(
        "the {} coins that blocks make are not the {} that blocks spend and the {} of the set: {what}",
        created.coins, spent.coins, set.coins
    )
}
