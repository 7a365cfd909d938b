//! Random cases: coins, and blocks in a row that spend and make them.

use super::store::CheckedStore;
use super::*;
use blockmill_chaingen::bitcoin::absolute::LockTime;
use blockmill_chaingen::bitcoin::consensus::{deserialize, serialize};
use blockmill_chaingen::bitcoin::hashes::Hash;
use blockmill_chaingen::bitcoin::{self, Amount, OutPoint as Point, ScriptBuf, Sequence, TxIn, TxOut, Witness};
use std::collections::HashMap;

/// A bit of a sequence number: the lock counts units of 512 seconds.
const BY_TIME: u32 = 1 << 22;

/// A transaction with signature operations of half a block.
const HALF_OF_SIGOPS: u64 = 10_000;

/// SplitMix64.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((value ^ (value >> 31)) % end as u64) as usize
    }

    pub(super) fn one_of(&mut self, chance: usize) -> bool {
        self.below(chance) == 0
    }

    pub(super) fn choose<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }
}

/// A block of a case.
pub(super) struct Planned {
    pub(super) block: Block,
    pub(super) height: u32,
    pub(super) overwriting: Overwriting,
    pub(super) absent_at: Option<FlushEpoch>,
    pub(super) sigops: Vec<u64>,
}

/// Where a coin is that a window makes once more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Older {
    /// In the store alone, before the cache began.
    Stored,
    /// In the store alone, where a flush of this cache has brought it.
    Flushed,
    /// In the cache, frozen if there is a flush.
    Made,
    /// In the cache, above the flush point if there is a flush.
    MadeLast,
    /// It was in the store, and is spent.
    Spent,
}

/// Coins that two caches begin with, and blocks for both.
pub(super) struct Case {
    /// Coins of the store.
    stored: Vec<(OutPoint, Coin)>,
    /// Coins that a flush brings into the store.
    pub(super) flushed: Vec<(OutPoint, Coin)>,
    /// What changes in the cache before the window: coins that are read, spent, and made.
    read: Vec<OutPoint>,
    spent: Vec<OutPoint>,
    made: Vec<(OutPoint, Coin)>,
    /// Whether those changes are frozen, and a flush writes them.
    pub(super) flushing: bool,
    /// What is made above the flush point.
    made_last: Vec<(OutPoint, Coin)>,
    /// Whether the window makes an outpoint that had a coin before it.
    repeats_older: bool,
    pub(super) blocks: Vec<Planned>,
}

fn outpoint(point: Point) -> OutPoint {
    OutPoint {
        txid: blockmill_block::Txid(point.txid.to_byte_array()),
        vout: point.vout,
    }
}

fn old_point(number: u8) -> Point {
    Point::new(bitcoin::Txid::from_byte_array([number; 32]), u32::from(number % 3))
}

fn old_coin(height: u32) -> Coin {
    Coin {
        value: 100_000,
        height,
        is_coinbase: height == 150,
        script_pubkey: vec![0x51; height as usize % 40].into(),
    }
}

fn is_unspendable(value: u64) -> bool {
    value.is_multiple_of(5)
}

fn transaction(inputs: &[(Point, Sequence)], values: &[u64], mark: u32) -> bitcoin::Transaction {
    bitcoin::Transaction {
        version: bitcoin::transaction::Version::TWO,
        lock_time: LockTime::from_consensus(mark),
        input: inputs
            .iter()
            .map(|&(previous_output, sequence)| TxIn {
                previous_output,
                script_sig: ScriptBuf::new(),
                sequence,
                witness: Witness::new(),
            })
            .collect(),
        output: values
            .iter()
            .map(|&value| TxOut {
                value: Amount::from_sat(value),
                script_pubkey: ScriptBuf::from_bytes(match value % 5 {
                    // Never spendable.
                    0 => vec![0x6a],
                    length => vec![0x51; length as usize * 9],
                }),
            })
            .collect(),
    }
}

/// A coin of the window, or an older one.
#[derive(Debug, Clone, Copy)]
struct Origin {
    worth: u64,
    height: u32,
}

/// Makes the blocks of a case.
struct Planner<'d> {
    dice: &'d mut Dice,
    faulty: usize,
    repeats: bool,
    /// Coins to be spent, and outpoints without a coin.
    unspent: Vec<Point>,
    gone: Vec<Point>,
    /// Coins of coinbases of the window, none of which is mature if its blocks are in a row.
    young: Vec<Point>,
    /// Of the coins of the window.
    origins: HashMap<Point, Origin>,
    all: Vec<bitcoin::Transaction>,
}

impl Planner<'_> {
    /// Whether something goes wrong, once in so many times in a faulty case.
    fn fails(&mut self, chance: usize) -> bool {
        self.dice.one_of(chance * self.faulty)
    }

    /// A sequence number: mostly without a lock, and rarely with one that is not open.
    fn sequence(&mut self, point: Point, height: u32) -> Sequence {
        let Some(origin) = self.origins.get(&point) else {
            return Sequence::MAX;
        };
        if !self.dice.one_of(3) {
            return Sequence::MAX;
        }
        // As old as the coin is, by height and by time: see `median_time_past`.
        let age = (height - origin.height) + u32::from(self.fails(12));
        Sequence(age | if self.dice.one_of(2) { BY_TIME } else { 0 })
    }

    /// A transaction of a block, and its fee.
    fn spending(&mut self, height: u32, mark: u32, fresh: &mut Vec<Point>) -> (bitcoin::Transaction, u64) {
        let mut inputs = Vec::new();
        for _ in 0..1 + self.dice.below(3) {
            let from = match self.fails(8) {
                false if !fresh.is_empty() && self.dice.one_of(2) => &mut *fresh,
                false if !self.unspent.is_empty() => &mut self.unspent,
                true if !self.young.is_empty() && self.dice.one_of(2) => &mut self.young,
                _ => &mut self.gone,
            };
            let point = from.remove(self.dice.below(from.len()));
            self.gone.push(point);
            inputs.push((point, self.sequence(point, height)));
        }
        let worth = |(point, _): &(Point, Sequence)| self.origins.get(point).map_or(100_000, |origin| origin.worth);
        let worth: u64 = inputs.iter().map(worth).sum();
        let outputs = 1 + self.dice.below(4) as u64;
        let mut values: Vec<u64> = (0..outputs)
            .map(|number| (worth / outputs).saturating_sub(number))
            .collect();
        if self.fails(8) {
            values[0] = 1_000_001;
        }
        let made = transaction(&inputs, &values, mark);
        let id = made.compute_txid();
        for (vout, &value) in (0..).zip(&values) {
            let origin = Origin { worth: value, height };
            self.origins.insert(Point::new(id, vout), origin);
            if !is_unspendable(value) {
                fresh.push(Point::new(id, vout));
            }
        }
        (made, worth.saturating_sub(values.iter().sum()))
    }

    /// The block with this number, at a height.
    fn block(&mut self, number: u32, height: u32) -> Planned {
        let mark = if self.repeats && self.dice.one_of(2) { 0 } else { number };
        let mut transactions = Vec::new();
        let mut fresh: Vec<Point> = Vec::new();
        let mut fees = 0;
        for count in 0..self.dice.below(7) as u32 {
            if self.repeats && self.dice.one_of(3) && !self.all.is_empty() {
                transactions.push(self.all[self.dice.below(self.all.len())].clone());
                continue;
            }
            if !transactions.is_empty() && self.fails(30) {
                // The same transaction once more, in its block.
                transactions.push(transactions[self.dice.below(transactions.len())].clone());
                continue;
            }
            let (made, fee) = self.spending(height, number * 100 + count + 1, &mut fresh);
            fees += fee;
            transactions.push(made);
        }
        if self.fails(4) && transactions.len() > 1 {
            // A coin is spent before it is made, perhaps.
            let last = transactions.len() - 1;
            transactions.swap(last - 1, last);
        }
        let values = if self.dice.one_of(3) && mark == number {
            // All that the coinbase may take, or more.
            let subsidy = 5_000_000_000 >> (height / 150);
            vec![subsidy + fees - 7 + u64::from(self.fails(10)), 7]
        } else {
            vec![u64::from(mark) + 1, 7]
        };
        let coinbase = transaction(&[(Point::null(), Sequence::MAX)], &values, mark);
        let id = coinbase.compute_txid();
        for (vout, &worth) in (0..).zip(&values).filter(|&(_, &worth)| !is_unspendable(worth)) {
            self.young.push(Point::new(id, vout));
            self.origins.insert(Point::new(id, vout), Origin { worth, height });
        }
        transactions.insert(0, coinbase);
        let mut sigops = vec![0; transactions.len()];
        if transactions.len() > 2 && self.dice.one_of(4) {
            // As many as a block may have, or one more.
            sigops[0] = HALF_OF_SIGOPS;
            sigops[2] = HALF_OF_SIGOPS + u64::from(self.fails(2));
        }
        self.unspent.append(&mut fresh);
        self.all.extend(transactions.iter().cloned());
        let header = bitcoin::block::Header {
            version: bitcoin::block::Version::TWO,
            prev_blockhash: bitcoin::BlockHash::from_byte_array([number as u8; 32]),
            merkle_root: bitcoin::TxMerkleNode::all_zeros(),
            time: 1,
            bits: bitcoin::CompactTarget::from_consensus(0),
            nonce: number,
        };
        let block = bitcoin::Block {
            header,
            txdata: transactions,
        };
        Planned {
            block: Block::decode(serialize(&block)).unwrap(),
            height,
            overwriting: Overwriting::Forbidden,
            absent_at: None,
            sigops,
        }
    }
}

impl Case {
    /// `faulty` says how often something is wrong: about once in so many choices.
    pub(super) fn new(seed: u64, faulty: usize) -> Self {
        let dice = &mut Dice(seed);
        let old: Vec<Point> = (1..=30).map(old_point).collect();
        let (stored, rest) = old.split_at(18);
        let (made, unknown) = rest.split_at(8);
        let read = stored.iter().filter(|_| dice.one_of(3)).copied().collect::<Vec<_>>();
        let spent = stored.iter().filter(|_| dice.one_of(6)).copied().collect::<Vec<_>>();
        let coins = |points: &[Point], dice: &mut Dice| {
            let coin = |&point: &Point| {
                let is_young = dice.one_of(4 * faulty);
                let height = if is_young { 150 } else { 20 + dice.below(30) as u32 };
                (outpoint(point), old_coin(height))
            };
            points.iter().map(coin).collect::<Vec<_>>()
        };
        let repeats = dice.one_of(3);
        let is_old = |point: &&Point| !spent.contains(point);
        let mut planner = Planner {
            faulty,
            repeats,
            unspent: old[..26].iter().filter(is_old).copied().collect(),
            gone: spent.iter().chain(unknown).copied().collect(),
            young: Vec::new(),
            origins: HashMap::new(),
            all: Vec::new(),
            dice: &mut *dice,
        };
        let blocks_max = if planner.dice.one_of(10) { 32 } else { 6 };
        // Coinbases are mature within a window, sometimes.
        let step = if repeats { 110 } else { 1 };
        let blocks = (0..1 + planner.dice.below(blocks_max) as u32)
            .map(|number| planner.block(number, 200 + number * step))
            .collect();
        let all = planner.all;
        let mut case = Self {
            stored: coins(stored, dice),
            flushed: Vec::new(),
            read: read.into_iter().map(outpoint).collect(),
            spent: spent.into_iter().map(outpoint).collect(),
            made: coins(made, dice),
            flushing: dice.one_of(3),
            made_last: Vec::new(),
            repeats_older: false,
            blocks,
        };
        if repeats && dice.one_of(2) || dice.one_of(12 * faulty) {
            case.add_older(&all, dice);
        } else if dice.one_of(2) {
            // The store was seen to have none of them.
            case.set_absent();
        }
        if !repeats && dice.one_of(3) {
            // In all blocks, or from one of them on.
            let first = if dice.one_of(2) {
                0
            } else {
                dice.below(case.blocks.len())
            };
            for planned in &mut case.blocks[first..] {
                planned.overwriting = Overwriting::Allowed;
            }
        }
        case
    }

    /// A block that spends this many coins of the store.
    pub(super) fn of_many_spends(count: u32) -> Self {
        let points = (0..count).map(|vout| Point::new(bitcoin::Txid::from_byte_array([7; 32]), vout));
        let inputs: Vec<_> = points.map(|point| (point, Sequence::MAX)).collect();
        let mut case = Self::new(0, 1_000);
        case.stored = inputs
            .iter()
            .map(|&(point, _)| (outpoint(point), old_coin(20)))
            .collect();
        let planned = &mut case.blocks[0];
        let mut block: bitcoin::Block = deserialize(planned.block.bytes()).unwrap();
        block.txdata.truncate(1);
        block.txdata.push(transaction(&inputs, &[1], 1));
        planned.block = Block::decode(serialize(&block)).unwrap();
        planned.sigops = vec![0; 2];
        case.blocks.truncate(1);
        (case.read, case.spent, case.made) = (Vec::new(), Vec::new(), Vec::new());
        case
    }

    /// The outpoints of the blocks were seen to have no coin in the store, before it had any.
    fn set_absent(&mut self) {
        for planned in &mut self.blocks {
            planned.absent_at = Some(FlushEpoch::default());
        }
    }

    /// A coin that the window makes was made before it.
    fn add_older(&mut self, all: &[bitcoin::Transaction], dice: &mut Dice) {
        let made = &all[dice.below(all.len())];
        let vout = dice.below(made.output.len()) as u32;
        if is_unspendable(made.output[vout as usize].value.to_sat()) {
            return;
        }
        let outpoint = outpoint(Point::new(made.compute_txid(), vout));
        let coin = (outpoint, old_coin(30));
        let kinds = [
            Older::Stored,
            Older::Flushed,
            Older::Made,
            Older::MadeLast,
            Older::Spent,
        ];
        let older = dice.choose(&kinds);
        match older {
            Older::Stored => self.stored.push(coin),
            Older::Flushed => self.flushed.push(coin),
            Older::Made => self.made.push(coin),
            Older::MadeLast => self.made_last.push(coin),
            Older::Spent => {
                self.stored.push(coin);
                self.spent.push(outpoint);
            }
        }
        // What was seen before the coin was made says nothing of it.
        if !matches!(older, Older::Stored | Older::Spent) && dice.one_of(2) {
            self.set_absent();
        }
        self.repeats_older = true;
    }

    /// A cache with the coins of the case, over a store of its own.
    pub(super) fn cache(&self) -> (CoinsCache, Arc<CheckedStore>) {
        let store = Arc::new(CheckedStore::default());
        let stored: Vec<_> = self
            .stored
            .iter()
            .map(|(point, coin)| (*point, Some(coin.clone())))
            .collect();
        store.commit(&stored, &TIP).unwrap();
        // A cache without room keeps nothing that is flushed.
        let limit = if self.flushed.is_empty() { 8 << 20 } else { 0 };
        let mut cache = CoinsCache::new(Arc::<CheckedStore>::clone(&store), limit);
        for (point, coin) in &self.flushed {
            cache.add(point, CoinRef::from(coin), Overwrite::Impossible);
            cache.flush(&TIP, || Ok(())).unwrap();
            assert!(cache.is_empty());
        }
        for point in &self.read {
            cache.get(point).unwrap();
        }
        for point in &self.spent {
            cache.spend(point).unwrap().unwrap();
        }
        for (point, coin) in &self.made {
            cache.add(point, CoinRef::from(coin), Overwrite::Impossible);
        }
        if self.flushing {
            cache.begin_flush(&TIP, || Ok(())).unwrap();
        }
        for (point, coin) in &self.made_last {
            cache.add(point, CoinRef::from(coin), Overwrite::Impossible);
        }
        (cache, store)
    }

    /// Whether no outpoint is made twice.
    pub(super) fn is_without_repeats(&self) -> bool {
        let mut ids: Vec<_> = self
            .blocks
            .iter()
            .flat_map(|planned| planned.block.transactions().map(|transaction| transaction.txid()))
            .collect();
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        ids.len() == all && !self.repeats_older
    }
}
