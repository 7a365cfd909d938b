//! What one range of heights came to, as a file.
//!
//! | bytes | content |
//! |---|---|
//! | 8 | `bmaudit2` |
//! | 4 | magic of the network |
//! | 16 | the run |
//! | 4, 4 | first and last height, little endian as all numbers |
//! | 32, 32, 32 | hashes: of the parent of the first block, of the first block, of the last block |
//! | 8, 8 | transactions, inputs |
//! | 2 times 24 | number of coins created and the sum of their amounts; the same of coins spent |
//! | 2 times 24 | the two products, hidden |
//! | 32 for each block | id of its coinbase |
//! | 4 | number of findings |
//! | for each finding | kind (1), height (4), hash (32), length of the reason (2), reason |
//! | 32 | seal: HMAC-SHA256 of all of this, with the products as they are |
//!
//! Who knows many products knows something of the points, so they are hidden: xored with HMACs of
//! the seal. The same range of the same files gives the same bytes, whoever makes the part.

use crate::field::Element;
use crate::finding::{Finding, FindingKind};
use crate::fingerprint::Fingerprint;
use crate::key::{Key, RunId};
use crate::range_sums::{FINDINGS_MAX, RangeSums};
use blockmill_block::reader::Reader;
use blockmill_block::{BlockHash, DecodeError, Magic, Txid};
use std::io::{self, Read};
use std::ops::RangeInclusive;
use thiserror::Error;

const HEAD: [u8; 8] = *b"bmaudit2";

const SEAL: usize = 32;

/// Longest reason of a finding in bytes.
const REASON_MAX: usize = 1000;

/// Where the heights end, at the begin of a part.
const HEIGHTS_END: usize = 8 + 4 + 16 + 2 * 4;

/// Blocks in a part at most: those of eighty years.
const BLOCKS_MAX: u64 = 1 << 22;

/// Bytes of findings at most.
const FINDINGS_BYTES_MAX: usize = FindingKind::ALL.len() * FINDINGS_MAX * (1 + 4 + 32 + 2 + REASON_MAX);

/// Where the products are.
const PRODUCTS: std::ops::Range<usize> = {
    let start = 8 + 4 + 16 + 2 * 4 + 3 * 32 + 2 * 8 + 2 * 24;
    start..start + 2 * Element::LENGTH
};

/// Why bytes are no part of a run.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PartError {
    /// They do not have the form of a part.
    #[error("this is no part of an audit")]
    NoPart,
    /// Another run made it.
    #[error("the part is of run {found}, not of run {wanted}: another key has made it")]
    OtherRun {
        /// The part's run.
        found: RunId,
        /// The run of the key.
        wanted: RunId,
    },
    /// Its seal is not that of its bytes.
    #[error("the part was changed: its seal is not that of its bytes")]
    Changed,
}

/// Why parts do not join.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum JoinError {
    /// There is none.
    #[error("there is no part")]
    None,
    /// A part does not begin where the one before ends.
    #[error("the part of heights {} to {} does not follow that of heights {} to {}", next.0, next.1, before.0, before.1)]
    Apart {
        /// First and last height of one.
        before: (u32, u32),
        /// First and last height of the next one.
        next: (u32, u32),
    },
}

/// What one range of heights came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    pub(crate) magic: Magic,
    pub(crate) run: RunId,
    pub(crate) first: u32,
    pub(crate) last: u32,
    /// Hash of the parent of the first block; zeros for the first block of the chain.
    pub(crate) parent: BlockHash,
    pub(crate) first_hash: BlockHash,
    pub(crate) last_hash: BlockHash,
    pub(crate) sums: RangeSums,
}

impl Part {
    /// The heights.
    pub fn heights(&self) -> RangeInclusive<u32> {
        self.first..=self.last
    }

    /// What speaks against a proof.
    pub fn findings(&self) -> &[Finding] {
        &self.sums.findings
    }

    /// Whether nothing speaks against a proof.
    pub fn is_clean(&self) -> bool {
        self.sums.findings.is_empty()
    }

    /// Whether a block of it breaks a rule.
    pub fn refutes(&self) -> bool {
        self.findings().iter().any(|finding| finding.kind.refutes())
    }

    /// Transactions of its blocks.
    pub fn transactions(&self) -> u64 {
        self.sums.transactions
    }

    /// Inputs of its blocks, coinbases not counted.
    pub fn inputs(&self) -> u64 {
        self.sums.inputs
    }

    /// Makes one part of parts in the order of their heights, each of which goes on where the one
    /// before ends.
    ///
    /// # Errors
    /// [`JoinError`].
    pub fn join(parts: impl IntoIterator<Item = Self>) -> Result<Self, JoinError> {
        let mut parts = parts.into_iter();
        let mut joined = parts.next().ok_or(JoinError::None)?;
        for part in parts {
            let goes_on = part.magic == joined.magic
                && part.run == joined.run
                && Some(part.first) == joined.last.checked_add(1)
                && part.parent == joined.last_hash;
            if !goes_on {
                return Err(JoinError::Apart {
                    before: (joined.first, joined.last),
                    next: (part.first, part.last),
                });
            }
            joined.last = part.last;
            joined.last_hash = part.last_hash;
            joined.sums.add(part.sums);
        }
        joined.sums.sort();
        Ok(joined)
    }

    /// The bytes of its file.
    pub fn encode(&self, key: &Key) -> Vec<u8> {
        let sums = &self.sums;
        let mut bytes = Vec::new();
        bytes.extend(HEAD);
        bytes.extend(self.magic.0);
        bytes.extend(self.run.0);
        bytes.extend(self.first.to_le_bytes());
        bytes.extend(self.last.to_le_bytes());
        for hash in [&self.parent, &self.first_hash, &self.last_hash] {
            bytes.extend(hash.0);
        }
        bytes.extend(sums.transactions.to_le_bytes());
        bytes.extend(sums.inputs.to_le_bytes());
        for coins in [&sums.created, &sums.spent] {
            bytes.extend(coins.coins.to_le_bytes());
            bytes.extend(coins.amount.to_le_bytes());
        }
        for coins in [&sums.created, &sums.spent] {
            bytes.extend(coins.product_bytes());
        }
        for (_, txid) in &sums.coinbases {
            bytes.extend(txid.0);
        }
        bytes.extend((sums.findings.len() as u32).to_le_bytes());
        for finding in &sums.findings {
            bytes.push(finding.kind as u8);
            // No block has this height, so it stands for none.
            bytes.extend(finding.height.unwrap_or(u32::MAX).to_le_bytes());
            bytes.extend(finding.hash.unwrap_or_default().0);
            let mut reason = finding.reason.as_str();
            while reason.len() > REASON_MAX {
                reason = &reason[..reason.floor_char_boundary(REASON_MAX)];
            }
            bytes.extend((reason.len() as u16).to_le_bytes());
            bytes.extend(reason.as_bytes());
        }
        let seal = key.seal(&bytes);
        hide(&mut bytes[PRODUCTS], key, &seal);
        bytes.extend(seal);
        bytes
    }

    /// The bytes of a file, but no more than a part of its heights has and one more, which makes it
    /// no part.
    pub(crate) fn read(mut input: impl Read) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        input.by_ref().take(HEIGHTS_END as u64).read_to_end(&mut bytes)?;
        if let Some(most) = length_max(&bytes) {
            input.take(most + 1 - HEIGHTS_END as u64).read_to_end(&mut bytes)?;
        }
        Ok(bytes)
    }

    /// Reads a file of a part of the key's run.
    ///
    /// # Errors
    /// [`PartError`].
    pub fn decode(bytes: &[u8], key: &Key) -> Result<Self, PartError> {
        Self::decode_with(bytes, key, true)
    }

    pub(crate) fn decode_with(bytes: &[u8], key: &Key, check_seal: bool) -> Result<Self, PartError> {
        let (body, seal) = bytes.split_last_chunk::<SEAL>().ok_or(PartError::NoPart)?;
        let mut body = body.to_vec();
        if body.len() < PRODUCTS.end || !body.starts_with(&HEAD) {
            return Err(PartError::NoPart);
        }
        hide(&mut body[PRODUCTS], key, seal);
        let mut reader = Reader::new(&body[HEAD.len()..]);
        let magic = Magic(reader.array()?);
        let run = RunId(reader.array()?);
        // First: the key of another run cannot check the seal.
        if check_seal && run != key.run() {
            return Err(PartError::OtherRun {
                found: run,
                wanted: key.run(),
            });
        }
        if check_seal && !key.is_sealed(&body, seal) {
            return Err(PartError::Changed);
        }
        let (first, last) = (reader.u32()?, reader.u32()?);
        let [parent, first_hash, last_hash] = [reader.array()?, reader.array()?, reader.array()?].map(BlockHash);
        let (transactions, inputs) = (u64_of(&mut reader)?, u64_of(&mut reader)?);
        let [created, spent] = [
            (u64_of(&mut reader)?, i128::from_le_bytes(reader.array()?)),
            (u64_of(&mut reader)?, i128::from_le_bytes(reader.array()?)),
        ];
        let [created, spent] = [
            Fingerprint::from_parts(&reader.array()?, created.0, created.1),
            Fingerprint::from_parts(&reader.array()?, spent.0, spent.1),
        ];
        let blocks = last.checked_sub(first).ok_or(PartError::NoPart)?;
        // No memory is taken for ids that the bytes cannot hold.
        if reader.remaining() / 32 <= blocks as usize {
            return Err(PartError::NoPart);
        }
        let mut coinbases = Vec::new();
        for height in first..=last {
            coinbases.push((height, Txid(reader.array()?)));
        }
        let mut findings = Vec::new();
        for _ in 0..reader.u32()? {
            let kind = FindingKind::from_number(reader.u8()?).ok_or(PartError::NoPart)?;
            let height = Some(reader.u32()?).filter(|&height| height != u32::MAX);
            let hash = BlockHash(reader.array()?);
            let length = u16::from_le_bytes(reader.array()?);
            let reason = reader.take(length.into())?;
            findings.push(Finding {
                height,
                kind,
                hash: height.map(|_| hash),
                reason: std::str::from_utf8(reason).map_err(|_| PartError::NoPart)?.to_owned(),
            });
        }
        reader.finish()?;
        Ok(Self {
            magic,
            run,
            first,
            last,
            parent,
            first_hash,
            last_hash,
            sums: RangeSums {
                created,
                spent,
                transactions,
                inputs,
                coinbases,
                findings,
            },
        })
    }
}

/// Bytes of a part that begins so, at most. None if no part begins so.
fn length_max(begin: &[u8]) -> Option<u64> {
    let mut heights = Reader::new(begin.strip_prefix(&HEAD)?.get(HEIGHTS_END - HEAD.len() - 8..)?);
    let (first, last) = (heights.u32().ok()?, heights.u32().ok()?);
    let blocks = u64::from(last.checked_sub(first)?) + 1;
    let fixed = (PRODUCTS.end + 4 + FINDINGS_BYTES_MAX + SEAL) as u64;
    (blocks <= BLOCKS_MAX).then_some(fixed + 32 * blocks)
}

/// Hides the products, or shows them again.
fn hide(products: &mut [u8], key: &Key, seal: &[u8; SEAL]) {
    for (number, product) in (0..).zip(products.as_chunks_mut::<{ Element::LENGTH }>().0) {
        let mask = key.mask(number, seal);
        for (byte, mask) in product.iter_mut().zip(mask) {
            *byte ^= mask;
        }
    }
}

/// Eight bytes, little endian.
fn u64_of(reader: &mut Reader<'_>) -> Result<u64, DecodeError> {
    Ok(u64::from_le_bytes(reader.array()?))
}

impl From<DecodeError> for PartError {
    fn from(_: DecodeError) -> Self {
        Self::NoPart
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(key: &Key) -> Part {
        let product =
            |number: u8| Fingerprint::from_parts(&[number; Element::LENGTH], number.into(), i128::from(number) * -7);
        Part {
            magic: Magic([1, 2, 3, 4]),
            run: key.run(),
            first: 7,
            last: 9,
            parent: BlockHash([1; 32]),
            first_hash: BlockHash([2; 32]),
            last_hash: BlockHash([3; 32]),
            sums: RangeSums {
                created: product(5),
                spent: product(6),
                transactions: 70,
                inputs: 71,
                coinbases: (7..=9).map(|height| (height, Txid([height as u8; 32]))).collect(),
                findings: vec![
                    Finding::general(FindingKind::Parts, "a"),
                    Finding::of_block(FindingKind::Order, 8, BlockHash([8; 32]), "b c"),
                ],
            },
        }
    }

    #[test]
    fn what_was_written_is_read() {
        let key = Key::of_number(1);
        let part = part(&key);
        let bytes = part.encode(&key);
        assert_eq!(Part::decode(&bytes, &key), Ok(part.clone()));
        assert_eq!(part.encode(&key), bytes);
        assert!(bytes.len() < 500, "{}", bytes.len());
    }

    #[test]
    fn products_are_hidden() {
        let key = Key::of_number(1);
        let bytes = part(&key).encode(&key);
        for number in [5, 6] {
            assert!(
                !bytes.windows(8).any(|window| window == [number; 8]),
                "product {number}"
            );
        }
        // Another part with the same product has other bytes there.
        let other = Part {
            first: 7,
            last: 9,
            parent: BlockHash([9; 32]),
            ..part(&key)
        };
        assert_ne!(other.encode(&key)[PRODUCTS], bytes[PRODUCTS]);
    }

    #[test]
    fn every_changed_byte_is_seen() {
        let key = Key::of_number(1);
        let bytes = part(&key).encode(&key);
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x10;
            assert!(Part::decode(&changed, &key).is_err(), "byte {at}");
            assert!(Part::decode(&bytes[..at], &key).is_err(), "cut at {at}");
        }
        let other = Key::of_number(2);
        assert!(matches!(Part::decode(&bytes, &other), Err(PartError::OtherRun { .. })));
        // One that says that it is of the other run.
        let mut renamed = bytes;
        renamed[12..28].copy_from_slice(&other.run().0);
        assert_eq!(Part::decode(&renamed, &other), Err(PartError::Changed));
    }

    #[test]
    fn long_reasons_are_cut() {
        let key = Key::of_number(1);
        let mut part = part(&key);
        part.sums.findings[0].reason = "\u{e4}".repeat(REASON_MAX);
        let read = Part::decode(&part.encode(&key), &key).unwrap();
        assert_eq!(read.sums.findings[0].reason, "\u{e4}".repeat(REASON_MAX / 2));
    }
}
