//! An index in the engine's own process survives kills: it is told what it must take back, and
//! nothing twice.

use super::options;
use crate::common::{Chain, LARGE, open, output, spend_into};
use crate::differential::random::Random;
use bitcoin::consensus::serialize;
use blockmill_block::coin::is_unspendable;
use blockmill_block::{BlockHash, Coin, CoinRef, Network, OutPoint};
use blockmill_chaingen::bitcoin;
use blockmill_chaingen::node_writer::{NodeSettings, NodeWriter};
use blockmill_engine::datadir::{Cursor, FeedError, UtxoSet};
use blockmill_engine::{BlockChange, DurableObserver, Event, Observer, Options};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;

/// The coins of a set, by what an observer hears alone. It is kept over kills.
#[derive(Default)]
struct Index {
    chain: Vec<BlockHash>,
    coins: BTreeMap<OutPoint, Coin>,
    taken_back: usize,
    /// Calls until the process is killed.
    calls: usize,
}

impl Index {
    fn cursor(&self) -> Cursor {
        self.chain.last().map_or(Cursor::Height(0), |hash| Cursor::Block(*hash))
    }

    fn call(&mut self) {
        match self.calls.checked_sub(1) {
            Some(calls) => self.calls = calls,
            // No panic, so that nothing is printed.
            None => std::panic::resume_unwind(Box::new("killed")),
        }
    }
}

fn spent(change: &BlockChange<'_>) -> Vec<(OutPoint, Coin)> {
    let inputs = change
        .block
        .transactions()
        .skip(1)
        .flat_map(|transaction| transaction.inputs());
    let coins = change.undo.coins().iter();
    let pairs = inputs
        .zip(coins)
        .map(|(input, coin)| (input.previous_output(), coin.to_coin()));
    pairs.collect()
}

fn made(change: &BlockChange<'_>) -> Vec<(OutPoint, Coin)> {
    let mut all = Vec::new();
    for (position, transaction) in change.block.transactions().enumerate() {
        let txid = transaction.txid();
        for (vout, output) in (0..).zip(transaction.outputs()) {
            let coin = CoinRef {
                value: output.value(),
                height: change.height,
                is_coinbase: position == 0,
                script_pubkey: output.script_pubkey(),
            };
            if !is_unspendable(coin.script_pubkey) {
                all.push((OutPoint { txid, vout }, coin.to_coin()));
            }
        }
    }
    all
}

impl Index {
    fn connected(&mut self, change: &BlockChange<'_>) {
        self.call();
        assert_eq!(change.height as usize, self.chain.len() + 1);
        assert!(change.undo.fits(change.block));
        for (outpoint, coin) in made(change) {
            assert_eq!(self.coins.insert(outpoint, coin), None);
        }
        for (outpoint, coin) in spent(change) {
            assert_eq!(self.coins.remove(&outpoint), Some(coin));
        }
        self.chain.push(change.block.hash());
    }

    fn disconnected(&mut self, change: &BlockChange<'_>) {
        self.call();
        assert_eq!(self.chain.pop(), Some(change.block.hash()));
        for (outpoint, coin) in spent(change) {
            assert_eq!(self.coins.insert(outpoint, coin), None);
        }
        for (outpoint, coin) in made(change) {
            assert_eq!(self.coins.remove(&outpoint), Some(coin));
        }
        self.taken_back += 1;
    }
}

impl Observer for Index {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Connected(change) => self.connected(change),
            Event::Disconnected(change) => self.disconnected(change),
            Event::Progress(_) => self.call(),
            _ => {}
        }
    }
}

fn coins_in(path: &Path) -> BTreeMap<OutPoint, Coin> {
    let set = UtxoSet::open(path, 1).unwrap();
    set.coins().unwrap().map(Result::unwrap).collect()
}

#[test]
fn an_index_has_the_coins_whenever_it_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let (data, folder) = (directory.path().join("data"), directory.path().join("blocks"));
    let settings = NodeSettings {
        magic: Network::Regtest.magic().0,
        key: [3; 8],
        chunk: 1 << 16,
        file_bytes: 1 << 17,
    };
    let mut node = NodeWriter::new(&folder, settings).unwrap();
    let mut random = Random::new(48);
    let mut chain = Chain::of(110);
    chain
        .blocks
        .iter()
        .for_each(|block| node.write(&serialize(block)).unwrap());
    let mut index = Index::default();
    let (mut kills, mut stale) = (0, 0);
    for round in 0..120 {
        // Another branch takes over, also from blocks that were durable when the engine was killed.
        let depth = random.below(3) * random.below(12);
        chain = chain.up_to(chain.height() - depth as u32);
        for _ in 0..=depth {
            let mut next = chain.next().header(|header| header.time += random.below(100) as u32);
            let height = chain.height();
            if height > 125 && random.one_in(2) {
                let from = chain.coinbase(height - 103);
                next = next.transaction(spend_into(from, vec![output(1_000), output(2_000)]));
            }
            chain.push(next.build());
            node.write(&serialize(chain.tip())).unwrap();
        }
        // Half of the runs are killed, some while it hears what it has missed.
        index.calls = match random.one_in(2) {
            true => random.below(12) as usize,
            false => usize::MAX,
        };
        let options = Options {
            flush_interval: match random.one_in(3) {
                true => Duration::ZERO,
                false => Duration::from_secs(60),
            },
            ..options(2, LARGE)
        };
        let mut engine = open(&data, options);
        let (cursor, before) = (index.cursor(), index.taken_back);
        let run = AssertUnwindSafe(|| {
            let mut observer = DurableObserver::new(&data, cursor, &mut index).unwrap();
            engine.connect(std::slice::from_ref(&folder), &mut observer).unwrap();
            observer.finish().unwrap()
        });
        let ended = catch_unwind(run);
        drop(engine);
        match ended {
            Ok(tip) => {
                assert_eq!((tip.hash, index.cursor()), (chain.hash(), Cursor::Block(chain.hash())));
                assert!(index.coins == coins_in(&data), "round {round}");
                stale += usize::from(index.taken_back > before);
            }
            Err(_) => kills += 1,
        }
    }
    eprintln!(
        "{kills} kills, {} blocks taken back, by {stale} whole runs",
        index.taken_back
    );
    assert!(kills > 30 && stale > 10);
}

/// A block that the directory never had is an error, and not a beginning.
#[test]
fn an_index_of_another_chain_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(directory.path(), options(1, LARGE));
    let mut index = Index::default();
    let unknown = Cursor::Block(BlockHash([7; 32]));
    let refused = DurableObserver::new(directory.path(), unknown, &mut index);
    assert!(matches!(refused, Err(FeedError::UnknownCursor { .. })));
    drop(engine);
}
