//! Damage in a block file.

use crate::RECORD_HEAD;
use blockmill_block::hash::BlockHash;
use blockmill_block::header::Header;
use blockmill_block::network::Network;
use std::path::PathBuf;

/// Bytes of the shortest record: a head, a header, and a transaction of one input and one output.
const RECORD_MIN: u64 = RECORD_HEAD + Header::LENGTH as u64 + 1 + 60;

/// A kind of damage in a block file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DamageKind {
    /// Neither a record's magic nor padding.
    NoMagic,
    /// The magic of another network.
    OtherNetwork(Network),
    /// As [`DamageKind::NoMagic`], in a file without any record: the key may be missing.
    NoRecords,
    /// A record whose length is impossible or does not fit its block.
    BadLength(u32),
    /// A record that is longer than its block, which is taken all the same.
    TooLong(u32),
    /// The file, or what was written of it, ends inside the record: the last write may be
    /// unfinished.
    Truncated,
}

/// Damage in a block file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub path: PathBuf,
    /// Offset of the damage in bytes.
    pub offset: u64,
    /// Kind of the damage.
    pub kind: DamageKind,
    /// Bytes up to the next record, or to the end of the file.
    pub length: u64,
    /// Whether a record with a whole block follows.
    pub is_followed: bool,
    /// Hash of the 80 bytes where the record's header would be, if the file has them.
    pub hash: Option<BlockHash>,
    /// Whether the block of that hash lies elsewhere, too, and is all that can be missing. A scan
    /// does not know: who sees all files [says so](Self::note_elsewhere).
    pub is_elsewhere: bool,
}

impl Damage {
    /// Whether an unfinished write explains the damage.
    pub fn is_unfinished_write(&self) -> bool {
        self.kind == DamageKind::Truncated
    }

    /// Notes that the block of [`hash`](Self::hash), which has `length` bytes, lies elsewhere, too.
    /// That explains the damage if it has room for no other block.
    pub fn note_elsewhere(&mut self, length: u64) {
        self.is_elsewhere = self.length < RECORD_HEAD + length + RECORD_MIN;
    }

    /// Whether no block can be missing: the damage is an unfinished write, or between two records
    /// too short for a block, or its block lies elsewhere. Core before 24 left the head of a record
    /// between two others.
    pub fn is_harmless(&self) -> bool {
        match self.kind {
            DamageKind::Truncated | DamageKind::TooLong(_) => true,
            DamageKind::NoRecords => false,
            DamageKind::NoMagic | DamageKind::OtherNetwork(_) | DamageKind::BadLength(_) => {
                self.is_elsewhere || (self.is_followed && self.length < RECORD_MIN)
            }
        }
    }
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: offset {}: ", self.path.display(), self.offset)?;
        match self.kind {
            DamageKind::NoMagic => f.write_str("no block record begins here")?,
            DamageKind::OtherNetwork(network) => write!(f, "a block record of another network ({network}) begins here")?,
            DamageKind::NoRecords => f.write_str(
                "no block record begins here, and the file has none of this network: is xor.dat missing, or from another directory?",
            )?,
            DamageKind::BadLength(length) => write!(f, "record with a wrong length ({length})")?,
            DamageKind::TooLong(length) => write!(f, "record with a length ({length}) beyond its block, which is taken")?,
            DamageKind::Truncated => f.write_str("the file ends inside this record")?,
        }
        match self.hash {
            Some(hash) => write!(f, " (block {hash})"),
            None => Ok(()),
        }
    }
}
