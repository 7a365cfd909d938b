//! What a block does to the coins, dealt out to the shards of the cache. The threads that decode
//! blocks make it, and hash each outpoint there, once. Nothing after it hashes an outpoint again.

use blockmill_block::coin::is_unspendable;
use blockmill_block::{Block, CoinRef, OutPoint};
use blockmill_coins::{HashKey, HashedOutPoint, SHARDS, prefetch, shard_of};

/// An input that spends a coin.
#[derive(Debug, Clone, Copy)]
pub struct Spend {
    /// The outpoint of the coin.
    pub at: HashedOutPoint,
    /// Number of the transaction.
    pub transaction: u32,
    /// Number of the input among all of the block.
    pub input: u32,
}

/// An output that creates a coin.
#[derive(Debug, Clone, Copy)]
pub struct Create {
    /// The outpoint of the coin.
    pub at: HashedOutPoint,
    /// Number of the transaction.
    pub transaction: u32,
    /// Where the script lies in the block.
    script_at: u32,
    script_length: u32,
    value: i64,
}

impl Create {
    /// Starts loading the script.
    #[inline]
    pub fn prefetch_script<B: AsRef<[u8]>>(&self, block: &Block<B>) {
        if let Some(byte) = block.bytes().get(self.script_at as usize) {
            prefetch(byte);
        }
    }

    /// The coin. `block` is the block, at this height.
    #[inline]
    pub fn coin<'b, B: AsRef<[u8]>>(&self, block: &'b Block<B>, height: u32) -> CoinRef<'b> {
        let script = self.script_at as usize..(self.script_at + self.script_length) as usize;
        CoinRef {
            value: self.value,
            height,
            is_coinbase: self.transaction == 0,
            script_pubkey: &block.bytes()[script],
        }
    }
}

const NO_SPEND: Spend = Spend {
    at: HashedOutPoint::new(OutPoint::NULL, 0),
    transaction: 0,
    input: 0,
};

const NO_CREATE: Create = Create {
    at: HashedOutPoint::new(OutPoint::NULL, 0),
    transaction: 0,
    script_at: 0,
    script_length: 0,
    value: 0,
};

/// Events by shard; those of a shard in the order of the block.
#[derive(Debug, Clone)]
struct ByShard<E> {
    events: Vec<E>,
    /// Where the events of each shard end.
    ends: Box<[u32]>,
}

impl<E: Copy> ByShard<E> {
    /// Room for events, of which `counts` says how many each shard has.
    fn new(counts: &[u32; SHARDS], nothing: E) -> (Self, [u32; SHARDS]) {
        let mut ends: Box<[u32]> = Box::new(*counts);
        let mut starts = [0; SHARDS];
        let mut total = 0;
        for (end, start) in ends.iter_mut().zip(&mut starts) {
            *start = total;
            total += *end;
            *end = total;
        }
        let events = vec![nothing; total as usize];
        (Self { events, ends }, starts)
    }

    #[inline]
    fn shard(&self, shard: usize) -> &[E] {
        let start = if shard == 0 { 0 } else { self.ends[shard - 1] };
        &self.events[start as usize..self.ends[shard] as usize]
    }
}

/// What a block does to the coins: which it spends, and which it creates. The coinbase spends
/// nothing, and an output that can never be spent creates nothing.
#[derive(Debug, Clone)]
pub struct Outline {
    spends: ByShard<Spend>,
    creates: ByShard<Create>,
    /// A bit for each shard that has events.
    shards: u64,
}

const _: () = assert!(SHARDS <= u64::BITS as usize);

impl Outline {
    /// The outline of a block, with hashes under the key of a cache.
    pub fn new<B: AsRef<[u8]>>(block: &Block<B>, key: &HashKey) -> Self {
        let hashes = hash_all(block, key);
        let mut spend_counts = [0; SHARDS];
        let mut create_counts = [0; SHARDS];
        let mut rest = &hashes[..];
        let mut take = |count: usize| rest.split_off(..count).unwrap_or(&[]);
        let mut shards = 0_u64;
        for (number, transaction) in block.transactions().enumerate() {
            let (inputs, outputs) = (take(transaction.input_count()), take(transaction.output_count()));
            if number > 0 {
                for &hash in inputs {
                    spend_counts[shard_of(hash)] += 1;
                    shards |= 1 << shard_of(hash);
                }
            }
            for (output, &hash) in transaction.outputs().zip(outputs) {
                let is_created = !is_unspendable(output.script_pubkey());
                create_counts[shard_of(hash)] += u32::from(is_created);
                shards |= u64::from(is_created) << shard_of(hash);
            }
        }
        // The events are counted by shard, so each has its position in one list.
        let (mut spends, mut next_spend) = ByShard::new(&spend_counts, NO_SPEND);
        let (mut creates, mut next_create) = ByShard::new(&create_counts, NO_CREATE);
        let mut rest = &hashes[..];
        let mut take = |count: usize| rest.split_off(..count).unwrap_or(&[]);
        let mut input = 0;
        for (number, transaction) in (0..).zip(block.transactions()) {
            let (inputs, outputs) = (take(transaction.input_count()), take(transaction.output_count()));
            for (spending, &hash) in transaction.inputs().zip(inputs) {
                if number > 0 {
                    let next = &mut next_spend[shard_of(hash)];
                    spends.events[*next as usize] = Spend {
                        at: HashedOutPoint::new(spending.previous_output(), hash),
                        transaction: number,
                        input,
                    };
                    *next += 1;
                }
                // The coinbase's inputs have numbers, too, though they spend nothing.
                input += 1;
            }
            let txid = transaction.txid();
            for ((vout, output), &hash) in (0..).zip(transaction.outputs()).zip(outputs) {
                let script = output.script_pubkey();
                if is_unspendable(script) {
                    continue;
                }
                let next = &mut next_create[shard_of(hash)];
                creates.events[*next as usize] = Create {
                    at: HashedOutPoint::new(OutPoint { txid, vout }, hash),
                    transaction: number,
                    script_at: output.script_at(),
                    script_length: script.len() as u32,
                    value: output.value(),
                };
                *next += 1;
            }
        }
        Self {
            spends,
            creates,
            shards,
        }
    }

    /// What the block spends in a shard.
    #[inline]
    pub fn spends(&self, shard: usize) -> &[Spend] {
        self.spends.shard(shard)
    }

    /// What the block creates in a shard.
    #[inline]
    pub fn creates(&self, shard: usize) -> &[Create] {
        self.creates.shard(shard)
    }

    /// All that the block spends, in no order that matters.
    pub fn all_spends(&self) -> &[Spend] {
        &self.spends.events
    }

    /// All that the block creates, in no order that matters.
    pub fn all_creates(&self) -> &[Create] {
        &self.creates.events
    }

    /// Whether a shard has events.
    #[inline]
    pub fn has_events_in(&self, shard: usize) -> bool {
        self.shards >> shard & 1 == 1
    }

    /// The shards that have events.
    pub fn shards(&self) -> impl Iterator<Item = usize> + use<> {
        shards_in(self.shards)
    }

    /// The shards in which any of these blocks has events.
    pub fn shards_of<'o>(outlines: impl IntoIterator<Item = &'o Self>) -> impl Iterator<Item = usize> {
        shards_in(outlines.into_iter().fold(0, |shards, outline| shards | outline.shards))
    }

    /// Number of all events.
    pub fn len(&self) -> usize {
        self.spends.events.len() + self.creates.events.len()
    }

    /// Memory in bytes.
    pub fn memory(&self) -> usize {
        self.spends.events.capacity() * size_of::<Spend>() + self.creates.events.capacity() * size_of::<Create>()
    }
}

fn shards_in(bits: u64) -> impl Iterator<Item = usize> {
    (0..SHARDS).filter(move |number| bits >> number & 1 == 1)
}

/// Hashes of the outpoints of a block: of each transaction those that it spends, then those that it
/// creates.
fn hash_all<B: AsRef<[u8]>>(block: &Block<B>, key: &HashKey) -> Vec<u64> {
    let mut hashes = Vec::with_capacity(block.input_count() + block.output_count());
    for transaction in block.transactions() {
        hashes.extend(transaction.inputs().map(|input| key.hash(&input.previous_output())));
        let of = key.transaction(&transaction.txid());
        hashes.extend((0..transaction.output_count() as u32).map(|vout| of.hash(vout)));
    }
    hashes
}
