//! The label of a checkpoint: the flush that it stands for.

use super::location::SEGMENT_PAGES_MAX;
use super::page::PagePosition;
use super::segment::UNFINISHED;
use blockmill_block::BlockHash;
use blockmill_block::reader::Reader;
use blockmill_coins::Tip;
use std::path::{Path, PathBuf};

/// Name of the file.
const NAME: &str = "checkpoint";

/// The path of the checkpoint.
pub fn checkpoint_path(directory: &Path) -> PathBuf {
    directory.join(NAME)
}

/// The path of a checkpoint that is being written.
pub fn unfinished_path(directory: &Path) -> PathBuf {
    directory.join(NAME).with_extension(UNFINISHED)
}

/// The state that a checkpoint stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label {
    pub flush: u64,
    /// Where the next frame begins.
    pub tail: PagePosition,
    /// The checksum of the last trailer.
    pub trailer: u32,
    pub tip: Tip,
    pub coins: u64,
    pub digest: u64,
}

impl Label {
    /// The bytes of a label with the number of words, and the length of the stream.
    pub fn write(&self, words: u64, bytes: u64) -> Vec<u8> {
        let mut into = Vec::new();
        for number in [self.flush, self.coins, self.digest, words, bytes] {
            into.extend(number.to_le_bytes());
        }
        for number in [self.tail.segment, self.tail.page, self.trailer, self.tip.height] {
            into.extend(number.to_le_bytes());
        }
        into.extend(self.tip.hash.0);
        into
    }

    /// The label, the number of words, and the length of the stream.
    pub fn read(bytes: &[u8]) -> Option<(Self, u64, u64)> {
        let mut reader = Reader::new(bytes);
        let mut long = || reader.array().ok().map(u64::from_le_bytes);
        let (flush, coins, digest, words, bytes) = (long()?, long()?, long()?, long()?, long()?);
        let mut short = || reader.u32().ok();
        let tail = PagePosition::new(short()?, short()?);
        // A tail may be the page after the last one.
        (tail.page <= SEGMENT_PAGES_MAX).then_some(())?;
        let (trailer, height) = (short()?, short()?);
        let tip = Tip {
            hash: BlockHash(reader.array().ok()?),
            height,
        };
        let label = Self {
            flush,
            tail,
            trailer,
            tip,
            coins,
            digest,
        };
        Some((label, words, bytes))
    }
}
