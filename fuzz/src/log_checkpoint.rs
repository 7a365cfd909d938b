//! Checkpoints of the coin log, made of the fuzzer's bytes. The layout of a checkpoint is written
//! here once more, after docs/coin-log.md.

use crate::input::Input;
use crate::log_pages::{begin, seal_at};
use blockmill_block::BlockHash;
use blockmill_coins::Tip;
use blockmill_store_log::format::label::Label;
use blockmill_store_log::format::page::{BODY_BYTES, HEAD_BYTES, PAGE_BYTES, Page, PagePosition};
use blockmill_store_log::format::segment::Identity;
use blockmill_store_log::index::table::{GROUP_SHARDS, GROUPS};
use blockmill_store_log::open::checkpoint::Checkpoint;

/// Most shards that an input fills.
const FILLED_MAX: usize = 5;

/// Most slots of an input.
const SLOTS_MAX: usize = 8;

/// Words of a long shard: more than a page or a piece of a table has room for.
const MANY_WORDS: u64 = 700;

/// Pages of a large segment: what the ledger has of them takes more than a page.
const MANY_PAGES: u32 = 500;

/// Most pages of a segment, as the format has it.
const SEGMENT_PAGES_MAX: u32 = 1 << 16;

/// The kinds of a checkpoint's pages.
const FIRST: u8 = 7;
const PART: u8 = 8;

/// What a checkpoint has of a segment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SlotState {
    /// Number of the segment; 0 for none.
    pub number: u32,
    /// Records that were written to it, and their bytes.
    pub written: (u64, u64),
    /// Records that live.
    pub live: u64,
    /// For each page a bit for each live record, and the first two bytes of the first and the last
    /// key.
    pub pages: Vec<(u64, (u16, u16))>,
}

impl SlotState {
    /// What a checkpoint that was read has of each slot.
    pub fn all_of(checkpoint: &Checkpoint) -> Vec<Self> {
        let slots = checkpoint.slots.iter().enumerate();
        let state = |(slot, &number): (usize, &u32)| {
            let Some(ledger) = checkpoint.ledger.segment(slot) else {
                return Self {
                    number,
                    ..Self::default()
                };
            };
            let ranges = ledger.ranges().iter().map(|range| (range.first, range.last));
            Self {
                number,
                written: (ledger.written().records, ledger.written().bytes),
                live: ledger.live(),
                pages: ledger.masks().iter().copied().zip(ranges).collect(),
            }
        };
        slots.map(state).collect()
    }
}

/// What a checkpoint has.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Of the store.
    pub identity: Identity,
    /// The state that it stands for.
    pub label: Label,
    /// A random number of the opening that wrote it.
    pub epoch: u64,
    /// The words of all shards, sorted.
    pub shards: Vec<Vec<u64>>,
    /// The segments.
    pub slots: Vec<SlotState>,
}

impl Plan {
    /// A checkpoint that can be.
    pub fn new(input: &mut Input<'_>) -> Self {
        let network = ["", "regtest", "signet 5121"][usize::from(input.u8()) % 3];
        let label = label_of(input);
        Self {
            identity: Identity {
                network: network.to_owned(),
                key: (input.u16().into(), 7),
            },
            label,
            epoch: input.u16().into(),
            shards: shards_of(input),
            slots: slots_of(input, &label),
        }
    }

    /// The stream: words, directory, slots.
    pub fn stream(&self) -> Vec<u8> {
        let mut stream = Vec::new();
        for word in self.shards.iter().flatten() {
            stream.extend(word.to_le_bytes());
        }
        for shard in &self.shards {
            stream.extend((shard.len() as u32).to_le_bytes());
        }
        stream.extend((self.slots.len() as u32).to_le_bytes());
        for slot in &self.slots {
            stream.extend(slot.number.to_le_bytes());
            stream.extend(slot.written.0.to_le_bytes());
            stream.extend(slot.written.1.to_le_bytes());
            stream.extend((slot.pages.len() as u32).to_le_bytes());
            for (mask, (first, last)) in &slot.pages {
                stream.extend(mask.to_le_bytes());
                stream.extend(first.to_le_bytes());
                stream.extend(last.to_le_bytes());
            }
        }
        stream
    }

    /// The first page without its head, up to its used part's end.
    pub fn first_body(&self, stream_bytes: u64) -> Vec<u8> {
        let mut body = b"blockmill coins\n\x01\0\0\0".to_vec();
        body.extend(self.identity.key.0.to_le_bytes());
        body.extend(self.identity.key.1.to_le_bytes());
        body.extend((self.identity.network.len() as u16).to_le_bytes());
        body.extend(self.identity.network.as_bytes());
        let words: usize = self.shards.iter().map(Vec::len).sum();
        let label = &self.label;
        for number in [label.flush, label.coins, label.digest, words as u64, stream_bytes] {
            body.extend(number.to_le_bytes());
        }
        for number in [label.tail.segment, label.tail.page, label.trailer, label.tip.height] {
            body.extend(number.to_le_bytes());
        }
        body.extend(label.tip.hash.0);
        body
    }

    /// The pages of the file, sealed.
    pub fn pages(&self, first_body: &[u8], stream: &[u8]) -> Vec<Page> {
        let first = (FIRST, HEAD_BYTES + first_body.len(), first_body);
        let parts = stream.chunks(BODY_BYTES).map(|part| (PART, PAGE_BYTES, part));
        let bodies = std::iter::once(first).chain(parts);
        (0u32..)
            .zip(bodies)
            .map(|(number, (kind, used, body))| {
                let mut page = [0; PAGE_BYTES];
                page[HEAD_BYTES..HEAD_BYTES + body.len()].copy_from_slice(body);
                begin(&mut page, kind, 0, used as u16);
                seal_at(&mut page, (0, number), self.label.flush, self.epoch);
                page
            })
            .collect()
    }
}

fn label_of(input: &mut Input<'_>) -> Label {
    Label {
        flush: input.u16().into(),
        tail: PagePosition {
            segment: 1 + u32::from(input.u8() % 8),
            page: u32::from(input.u16()),
        },
        trailer: input.u32(),
        tip: Tip {
            hash: BlockHash([input.u8(); 32]),
            height: input.u32(),
        },
        coins: input.u32().into(),
        digest: input.u64(),
    }
}

/// Shards with runs of words, the others empty.
fn shards_of(input: &mut Input<'_>) -> Vec<Vec<u64>> {
    let mut shards = vec![Vec::new(); GROUPS * GROUP_SHARDS];
    for _ in 0..usize::from(input.u8()) % (FILLED_MAX + 1) {
        let number = usize::from(input.u8()) % shards.len();
        let count = match input.u8() {
            u8::MAX => MANY_WORDS,
            few => u64::from(few) / 8,
        };
        let (first, step) = (input.u64(), 1 + u64::from(input.u32()));
        let mut words: Vec<u64> = (0..count)
            .map_while(|number| first.checked_add(number * step))
            .collect();
        // The largest number is the gap of the index.
        words.retain(|&word| word != u64::MAX);
        shards[number] = words;
    }
    shards
}

fn slots_of(input: &mut Input<'_>, label: &Label) -> Vec<SlotState> {
    let count = usize::from(input.u8()) % (SLOTS_MAX + 1);
    (0..count)
        .map(|_| {
            let number = u32::from(input.u8()) % (label.tail.segment + 2);
            let pages_max = match number {
                0 => 0,
                number if number < label.tail.segment => SEGMENT_PAGES_MAX,
                number if number == label.tail.segment => label.tail.page,
                _ => 0,
            };
            let pages = match input.u8() {
                u8::MAX => MANY_PAGES,
                few => u32::from(few) / 8,
            };
            let pages = pages.min(pages_max);
            let (mask, keys) = (input.u64(), input.u32());
            let pages: Vec<(u64, (u16, u16))> = (0..pages)
                .map(|page| {
                    let keys = keys.wrapping_mul(page + 1);
                    (mask.rotate_left(page), (keys as u16, (keys >> 16) as u16))
                })
                .collect();
            let written_max = |each: u64| pages.len() as u64 * each;
            SlotState {
                number,
                written: (
                    written_max(64).min(input.u16().into()),
                    written_max(1 << 13).min(input.u32().into()),
                ),
                live: pages.iter().map(|page| u64::from(page.0.count_ones())).sum(),
                pages,
            }
        })
        .collect()
}
