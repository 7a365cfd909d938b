//! A chain of blocks in memory, with its coins: what a caller of `validate_block` has at hand.

use blockmill_block::coin::is_unspendable;
use blockmill_block::{Block, BlockHash, Coin, OutPoint};
use blockmill_rules::header::{Ancestor, Ancestry, HeaderContext, HeaderFacts, MEDIAN_TIME_SPAN, median_time};
use blockmill_rules::{Params, ScriptVerifier};
use blockmill_validate::{BlockPosition, GivenCoins, Validator, VerifyBlockError};
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;

/// What is said of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Given {
    /// It does not decode.
    Malformed,
    /// It is valid.
    Valid,
    /// Core's reason, and where: the transaction and the input.
    Invalid(String, Option<usize>, Option<usize>),
}

/// A block and all that its validation needs.
pub(crate) struct GivenBlock {
    pub(crate) block: Arc<Block>,
    pub(crate) height: u32,
    pub(crate) facts: HeaderFacts,
    /// Median times past of its ancestors, from height 0.
    pub(crate) median_times: Vec<u32>,
    /// All coins that exist of those that it names: the ones that it spends, and the ones that it
    /// would overwrite.
    pub(crate) coins: HashMap<OutPoint, Coin>,
}

/// A block that is in a chain.
struct Link {
    parent: usize,
    height: u32,
    time: u32,
    bits: u32,
    median_time_past: u32,
    block: Option<Arc<Block>>,
    /// The coins that it spends.
    spent: Vec<(OutPoint, Coin)>,
}

/// Valid blocks, and the coins after one of them.
pub(crate) struct GivenChain {
    pub(crate) params: Params,
    links: Vec<Link>,
    by_hash: HashMap<BlockHash, usize>,
    tip: usize,
    coins: HashMap<OutPoint, Coin>,
}

impl GivenChain {
    pub(crate) fn new(params: Params) -> Self {
        let genesis = &params.genesis;
        Self {
            links: vec![Link {
                parent: 0,
                height: 0,
                time: genesis.time,
                bits: genesis.bits,
                median_time_past: genesis.time,
                block: None,
                spent: Vec::new(),
            }],
            by_hash: HashMap::from([(genesis.hash(), 0)]),
            tip: 0,
            coins: HashMap::new(),
            params,
        }
    }

    /// Whether a block is in a chain.
    pub(crate) fn has(&self, hash: &BlockHash) -> bool {
        self.by_hash.contains_key(hash)
    }

    /// A block on its parent, if that is valid. The coins are moved there.
    pub(crate) fn gather(&mut self, block: Block, now: i64) -> Option<GivenBlock> {
        let parent = *self.by_hash.get(&block.header().prev_block_hash)?;
        self.move_to(parent);
        let ancestry = Below {
            chain: self,
            link: parent,
        };
        let context = HeaderContext::after(&ancestry, &self.params, block.header(), block.hash(), now);
        let (height, facts) = (context.height, context.facts);
        let mut median_times: Vec<u32> = Vec::new();
        let mut next = parent;
        for _ in 0..height {
            median_times.push(self.links[next].median_time_past);
            next = self.links[next].parent;
        }
        median_times.reverse();
        let mut coins = HashMap::new();
        for transaction in block.transactions() {
            let txid = transaction.txid();
            let made = (0..transaction.output_count() as u32).map(|vout| OutPoint { txid, vout });
            let named = transaction.inputs().map(|input| input.previous_output()).chain(made);
            coins.extend(named.filter_map(|outpoint| Some((outpoint, self.coins.get(&outpoint)?.clone()))));
        }
        Some(GivenBlock {
            block: Arc::new(block),
            height,
            facts,
            median_times,
            coins,
        })
    }

    /// Takes a valid block in.
    pub(crate) fn add(&mut self, given: &GivenBlock) {
        let hash = given.block.hash();
        if self.has(&hash) {
            return;
        }
        let header = given.block.header();
        self.links.push(Link {
            parent: self.by_hash[&header.prev_block_hash],
            height: given.height,
            time: header.time,
            bits: header.bits,
            median_time_past: 0,
            block: Some(Arc::clone(&given.block)),
            spent: Vec::new(),
        });
        let link = self.links.len() - 1;
        self.by_hash.insert(hash, link);
        let below = Below { chain: self, link };
        self.links[link].median_time_past = below.median_time_past();
    }

    fn move_to(&mut self, target: usize) {
        let mut above = Vec::new();
        let mut next = target;
        while next != self.tip {
            if self.links[next].height > self.links[self.tip].height {
                above.push(next);
                next = self.links[next].parent;
            } else {
                self.disconnect();
            }
        }
        for link in above.into_iter().rev() {
            self.connect(link);
        }
    }

    fn disconnect(&mut self) {
        let link = &mut self.links[self.tip];
        let block = link.block.clone().expect("the first block is never disconnected");
        for (outpoint, coin) in std::mem::take(&mut link.spent) {
            self.coins.insert(outpoint, coin);
        }
        for transaction in block.transactions() {
            let txid = transaction.txid();
            for vout in 0..transaction.output_count() as u32 {
                self.coins.remove(&OutPoint { txid, vout });
            }
        }
        self.tip = self.links[self.tip].parent;
    }

    fn connect(&mut self, at: usize) {
        let link = &mut self.links[at];
        let block = link.block.clone().expect("the first block is always connected");
        for (index, transaction) in block.transactions().enumerate() {
            for input in transaction.inputs().filter(|_| index > 0) {
                let outpoint = input.previous_output();
                let coin = self.coins.remove(&outpoint).expect("a valid block spends coins");
                link.spent.push((outpoint, coin));
            }
            let txid = transaction.txid();
            for (vout, output) in (0..).zip(transaction.outputs()) {
                let coin = Coin {
                    value: output.value(),
                    height: link.height,
                    is_coinbase: index == 0,
                    script_pubkey: output.script_pubkey().into(),
                };
                if !is_unspendable(&coin.script_pubkey) {
                    self.coins.insert(OutPoint { txid, vout }, coin);
                }
            }
        }
        self.tip = at;
    }
}

/// The chain up to a block.
struct Below<'c> {
    chain: &'c GivenChain,
    link: usize,
}

impl Below<'_> {
    fn ancestors(&self) -> impl Iterator<Item = Ancestor> {
        let links = &self.chain.links;
        let parents = std::iter::successors(Some(self.link), |&link| (link > 0).then(|| links[link].parent));
        parents.map(|link| Ancestor {
            height: links[link].height,
            time: links[link].time,
            bits: links[link].bits,
        })
    }
}

impl Ancestry for Below<'_> {
    fn parent(&self) -> Ancestor {
        self.ancestors().next().expect("there is a first block")
    }

    fn median_time_past(&self) -> u32 {
        let times = self.ancestors().take(MEDIAN_TIME_SPAN);
        median_time(&mut times.map(|ancestor| ancestor.time).collect::<Vec<_>>())
    }

    fn at_height(&self, height: u32) -> Ancestor {
        let mut ancestors = self.ancestors();
        ancestors
            .find(|ancestor| ancestor.height == height)
            .expect("an ancestor")
    }

    fn find_back(&self, wanted: &mut dyn FnMut(&Ancestor) -> bool) -> Ancestor {
        self.ancestors()
            .find(|ancestor| ancestor.height == 0 || wanted(ancestor))
            .expect("there is a first block")
    }
}

impl GivenBlock {
    /// Validates the block, with its coins found by outpoint.
    pub(crate) fn judge<V: ScriptVerifier>(&self, params: &Params, validator: &mut Validator<V>) -> Given {
        let mut lookup = |outpoint: &OutPoint| Ok::<_, Infallible>(self.coins.get(outpoint).cloned());
        let median_time_past = |height: u32| self.median_times.get(height as usize).copied();
        let position = BlockPosition {
            facts: self.facts,
            median_time_past: Some(&median_time_past),
            ..BlockPosition::at_height(params, self.height)
        };
        match validator.validate_block(&self.block, GivenCoins::Lookup(&mut lookup), &position) {
            Ok(_) => Given::Valid,
            Err(VerifyBlockError::Reject(reject)) => {
                Given::Invalid(reject.reason.into_owned(), reject.transaction, reject.input)
            }
            Err(error) => panic!("{}: {error}", self.block.hash()),
        }
    }
}
