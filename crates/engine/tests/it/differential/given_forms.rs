//! Validation with given coins in each of their forms, and Core's ChainstateManager on the same
//! chain.
//!
//! Blocks spend each other's outputs and those of the chain, scripts of which anyone can satisfy,
//! and are mutated: the order of transactions, prevouts, amounts, locks. Each form gets the coins
//! that exist, in the chain or as an output of the block, wherever in it that is created. Verdict
//! and reason must be Core's. Then the caller lies about a coin: its height, its coinbase flag, its
//! amount, its script, or whose it is.

use super::core_node::{CoreLog, CoreNode};
use super::given_chain::{Given, GivenBlock, GivenChain};
use super::random::Random;
use blockmill_block::coin::is_unspendable;
use blockmill_block::{Block, BlockUndo, Coin, CoinList, CoinRef, Network, OutPoint, Txid};
use blockmill_chaingen::bitcoin::consensus::serialize;
use blockmill_chaingen::bitcoin::hashes::Hash;
use blockmill_chaingen::bitcoin::{self, Amount, ScriptBuf, Sequence, Transaction, TxIn, TxOut};
use blockmill_chaingen::builder::{BlockBuilder, any_script, repair, spend_any};
use blockmill_rules::Params;
use blockmill_script::{CoreVerifier, Signatures};
use blockmill_validate::{CollectedCoins, KnownChain, Validator, ValidatorOptions, VerifyBlockError};
use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

const MISSING: &str = "bad-txns-inputs-missingorspent";
const BIP30: &str = "bad-txns-BIP30";

/// Blocks before the mutated ones, so that there are mature coins.
const BOOTSTRAP: u32 = 110;

/// Outputs of a coinbase.
const SHARES: u64 = 8;

/// What became of a block.
pub(crate) struct Outcome {
    /// `valid`, or Core's reason.
    pub(crate) verdict: String,
    /// What of a coin was changed, and what was said then.
    pub(crate) lie: Option<String>,
}

/// Core, a chain in memory, and what may be spent.
pub(crate) struct Forms {
    core: CoreNode,
    chain: GivenChain,
    validator: Validator<CoreVerifier>,
    tip: bitcoin::BlockHash,
    height: u32,
    time: u32,
    coins: Vec<(OutPoint, Coin)>,
    spent: Vec<OutPoint>,
    confirmed: Vec<Transaction>,
}

impl Forms {
    pub(crate) fn new(log: &CoreLog) -> Self {
        let genesis = bitcoin::constants::genesis_block(bitcoin::Network::Regtest);
        let verifier = CoreVerifier::new(Signatures::OneByOne);
        let mut forms = Self {
            core: CoreNode::new(log),
            chain: GivenChain::new(Params::new(Network::Regtest, None)),
            validator: Validator::new(verifier.into(), ValidatorOptions::default()).unwrap(),
            tip: genesis.block_hash(),
            height: 0,
            time: genesis.header.time,
            coins: Vec::new(),
            spent: Vec::new(),
            confirmed: Vec::new(),
        };
        let mut random = Random::new(0);
        while forms.height < BOOTSTRAP {
            let block = forms.empty_block(&mut random);
            let outcome = forms.judge(&block, &mut random).unwrap();
            assert_eq!(outcome.verdict, "valid");
        }
        forms
    }

    /// A block without payments, whose coinbase has several outputs.
    fn empty_block(&self, random: &mut Random) -> bitcoin::Block {
        let time = self.time + 1 + random.below(900) as u32;
        let builder = BlockBuilder::new(self.tip, self.height + 1, time);
        let share = |coinbase: &Transaction| TxOut {
            value: coinbase.output[0].value / SHARES,
            script_pubkey: any_script(),
        };
        builder
            .coinbase(|coinbase| coinbase.output = vec![share(coinbase); SHARES as usize])
            .build()
    }

    /// The next block, and the names of its mutations.
    pub(crate) fn next_block(&self, random: &mut Random) -> (bitcoin::Block, Vec<&'static str>) {
        let mut block = self.empty_block(random);
        self.add_payments(&mut block, random);
        let mutations = (0..[0, 1, 1, 2][random.below(4) as usize]).map(|_| self.mutate(&mut block, random));
        let mutations = mutations.collect();
        repair(&mut block);
        (block, mutations)
    }

    /// Adds up to seven transactions that spend coins of the chain, and each other's outputs.
    fn add_payments(&self, block: &mut bitcoin::Block, random: &mut Random) {
        let is_mature = |coin: &Coin| !coin.is_coinbase || self.height + 1 - coin.height >= 100;
        let mut coins: Vec<(bitcoin::OutPoint, u64)> = self
            .coins
            .iter()
            .filter(|(_, coin)| is_mature(coin))
            .map(|(outpoint, coin)| (to_bitcoin(outpoint), coin.value as u64))
            .collect();
        let (mut made, mut fees) = (Vec::new(), 0);
        for _ in 0..random.below(8) {
            let (mut inputs, mut total) = (Vec::new(), 0);
            for _ in 0..1 + random.below(3) {
                let from = match !made.is_empty() && random.one_in(2) {
                    true => &mut made,
                    false => &mut coins,
                };
                if !from.is_empty() {
                    let (outpoint, value) = from.swap_remove(random.below(from.len() as u64) as usize);
                    inputs.push(outpoint);
                    total += value;
                }
            }
            let Some((&first, others)) = inputs.split_first() else {
                return;
            };
            let fee = random.below(total / 8 + 1);
            let count = 1 + random.below(3);
            let mut transaction = spend_any(first, (total - fee) / count);
            let more = others.iter().map(|&outpoint| TxIn {
                previous_output: outpoint,
                ..transaction.input[0].clone()
            });
            let more: Vec<TxIn> = more.collect();
            transaction.input.extend(more);
            transaction.output = vec![transaction.output[0].clone(); count as usize];
            if random.one_in(6) {
                // Nobody can spend these.
                let script = match random.one_in(2) {
                    true => vec![0x6a],
                    false => vec![0x51; 10_001],
                };
                transaction.output.push(output(0, script));
            }
            if random.one_in(4) {
                transaction.input[0].sequence = Sequence(random.below(6) as u32);
            }
            let txid = transaction.compute_txid();
            made.extend((0..count as u32).map(|vout| (bitcoin::OutPoint { txid, vout }, (total - fee) / count)));
            fees += total - (total - fee) / count * count;
            block.txdata.push(transaction);
        }
        if random.one_in(4) {
            block.txdata[0].output[0].value += Amount::from_sat(fees);
        }
    }

    /// Changes a block, and returns the name of the change.
    fn mutate(&self, block: &mut bitcoin::Block, random: &mut Random) -> &'static str {
        let coinbase = block.txdata[0].compute_txid();
        let transactions = &mut block.txdata;
        let count = transactions.len();
        if count == 1 {
            return "none";
        }
        let mut any = || 1 + random.below(count as u64 - 1) as usize;
        let (one, two) = (any(), any());
        let mut input_of = |index: usize| (index, random.below(transactions[index].input.len() as u64) as usize);
        let (one_input, two_input) = (input_of(one), input_of(two));
        let prevouts = [one_input, two_input].map(|(index, input)| transactions[index].input[input].previous_output);
        let txid = transactions[two].compute_txid();
        let mut put = |at: (usize, usize), outpoint| transactions[at.0].input[at.1].previous_output = outpoint;
        let vout = random.below(5) as u32;
        match random.below(18) {
            0 | 1 => {
                transactions.swap(one, two);
                "order"
            }
            2 => {
                let moved = transactions.remove(one);
                transactions.insert(two, moved);
                "moved"
            }
            3 => {
                let copy = transactions[one].clone();
                transactions.insert(two, copy);
                "repeated"
            }
            4 => {
                transactions.remove(one);
                "dropped"
            }
            5 => {
                put(two_input, prevouts[0]);
                "prevout twice"
            }
            6 | 7 => {
                put(one_input, prevouts[1]);
                put(two_input, prevouts[0]);
                "prevouts swapped"
            }
            8 => {
                put(one_input, bitcoin::OutPoint { vout, ..prevouts[0] });
                "another output"
            }
            9 => {
                put(one_input, bitcoin::OutPoint { txid: coinbase, vout });
                "the block's coinbase"
            }
            10 if !self.spent.is_empty() => {
                put(one_input, to_bitcoin(&random.pick(&self.spent)));
                "spent before"
            }
            11 => {
                let index = random.below(self.coins.len() as u64) as usize;
                put(one_input, to_bitcoin(&self.coins[index].0));
                "any coin of the chain"
            }
            12 => {
                let txid = bitcoin::Txid::from_byte_array([random.below(256) as u8; 32]);
                put(one_input, bitcoin::OutPoint { txid, vout });
                "unknown"
            }
            13 => {
                put(one_input, bitcoin::OutPoint { txid, vout });
                "an output of the block"
            }
            14 => {
                let value = &mut transactions[one].output[0].value;
                *value = Amount::from_sat((value.to_sat() + random.below(4)).saturating_sub(2));
                "amount"
            }
            15 => {
                let value = &mut transactions[0].output[0].value;
                *value = Amount::from_sat((value.to_sat() + random.below(4)).saturating_sub(2));
                "amount of the coinbase"
            }
            16 if !self.confirmed.is_empty() => {
                let index = random.below(self.confirmed.len() as u64) as usize;
                transactions.insert(one, self.confirmed[index].clone());
                "confirmed before"
            }
            _ => {
                transactions[one].input[one_input.1].sequence = Sequence(random.below(8) as u32);
                "lock"
            }
        }
    }

    /// Has a block validated in all forms and by Core, and tells a lie about it. Says what differs.
    pub(crate) fn judge(&mut self, block: &bitcoin::Block, random: &mut Random) -> Result<Outcome, String> {
        let bytes = serialize(block);
        let hash = block.block_hash();
        let core = self.core.judge(&bytes);
        let reason = core.reason_for(Some(hash.to_string()), true);
        if reason.is_none() == (core.tip != hash.to_string()) || core.duplicate {
            return Err(format!("Core: {core:?}"));
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
        let decoded = Block::decode(bytes).map_err(|error| error.to_string())?;
        let given = self.chain.gather(decoded, now).ok_or("the parent is not there")?;
        let case = Case::new(&self.chain.params, &given);
        let by_outpoint = case.judge(&mut self.validator, CollectedCoins::ByOutPoint(given.coins.clone()))?;
        if reason_of(&by_outpoint) != reason {
            return Err(format!("Core {reason:?}, by outpoint {by_outpoint:?}"));
        }
        let lie = match case.all_coins() {
            None => {
                // Nobody has the coins of all inputs, so that the list does not fit.
                let coins: Vec<Coin> = case.coins.iter().flatten().cloned().collect();
                let found = case.in_order(&mut self.validator, &coins)?;
                if ![reason, Some(MISSING)].contains(&reason_of(&found)) || found == Given::Valid {
                    return Err(format!("Core {reason:?}, in order {found:?}"));
                }
                None
            }
            Some(coins) => {
                let found = case.in_order(&mut self.validator, &coins)?;
                if found != by_outpoint && reason != Some(BIP30) {
                    return Err(format!(
                        "Core {reason:?}, in order {found:?}, by outpoint {by_outpoint:?}"
                    ));
                }
                let all: HashMap<OutPoint, Coin> = case.inputs.iter().map(|input| input.1).zip(coins.clone()).collect();
                let found = case.judge(&mut self.validator, CollectedCoins::ByOutPoint(all))?;
                if found != by_outpoint {
                    return Err(format!("Core {reason:?}, with the block's own coins {found:?}"));
                }
                case.lie(&mut self.validator, coins, &by_outpoint, random)?
            }
        };
        let verdict = reason.unwrap_or("valid").to_owned();
        if by_outpoint == Given::Valid {
            self.chain.add(&given);
            self.connect(block, &given);
        }
        Ok(Outcome { verdict, lie })
    }

    /// Takes in what a valid block changes.
    fn connect(&mut self, block: &bitcoin::Block, given: &GivenBlock) {
        (self.tip, self.height, self.time) = (block.block_hash(), given.height, block.header.time);
        let spending = given.block.transactions().skip(1);
        let spent = spending.flat_map(|transaction| transaction.inputs().map(|input| input.previous_output()));
        let spent: Vec<OutPoint> = spent.collect();
        let mut made: Vec<_> = made_by(given).into_iter().collect();
        made.retain(|(_, coin)| !is_unspendable(&coin.script_pubkey));
        // The map has an order of its own in each run.
        made.sort_unstable_by_key(|coin| coin.0);
        self.coins.extend(made);
        self.coins.retain(|coin| !spent.contains(&coin.0));
        self.spent.extend(spent);
        self.spent.drain(..self.spent.len().saturating_sub(60));
        self.confirmed.extend_from_slice(&block.txdata[1..]);
        self.confirmed.drain(..self.confirmed.len().saturating_sub(20));
    }
}

fn to_bitcoin(outpoint: &OutPoint) -> bitcoin::OutPoint {
    bitcoin::OutPoint::new(bitcoin::Txid::from_byte_array(outpoint.txid.0), outpoint.vout)
}

fn output(value: u64, script: Vec<u8>) -> TxOut {
    TxOut {
        value: Amount::from_sat(value),
        script_pubkey: ScriptBuf::from_bytes(script),
    }
}

fn reason_of(found: &Given) -> Option<&str> {
    match found {
        Given::Malformed => Some("malformed"),
        Given::Valid => None,
        Given::Invalid(reason, ..) => Some(reason),
    }
}

/// All outputs of a block, those that nobody can spend included.
fn made_by(given: &GivenBlock) -> HashMap<OutPoint, Coin> {
    let mut made = HashMap::new();
    for (index, transaction) in given.block.transactions().enumerate() {
        for (vout, output) in (0..).zip(transaction.outputs()) {
            let coin = Coin {
                value: output.value(),
                height: given.height,
                is_coinbase: index == 0,
                script_pubkey: output.script_pubkey().into(),
            };
            let txid = transaction.txid();
            made.entry(OutPoint { txid, vout }).or_insert(coin);
        }
    }
    made
}

/// A block, and what is known of it.
struct Case<'g> {
    given: &'g GivenBlock,
    known: KnownChain,
    made: HashMap<OutPoint, Coin>,
    own: Vec<Txid>,
    /// Transaction, outpoint and number of each input.
    inputs: Vec<(usize, OutPoint, usize)>,
    /// Its coin, of the chain or of the block.
    coins: Vec<Option<Coin>>,
}

impl<'g> Case<'g> {
    fn new(params: &Params, given: &'g GivenBlock) -> Self {
        let made = made_by(given);
        let inputs = given.block.transactions().enumerate().skip(1);
        let inputs: Vec<_> = inputs
            .flat_map(|(index, transaction)| {
                let inputs: Vec<_> = transaction.inputs().map(|input| input.previous_output()).collect();
                (0..)
                    .zip(inputs)
                    .map(move |(number, outpoint)| (index, outpoint, number))
            })
            .collect();
        let coin = |outpoint: &OutPoint| given.coins.get(outpoint).or(made.get(outpoint)).cloned();
        Self {
            coins: inputs.iter().map(|(_, outpoint, _)| coin(outpoint)).collect(),
            own: given
                .block
                .transactions()
                .map(|transaction| transaction.txid())
                .collect(),
            known: KnownChain {
                facts: given.facts,
                median_times: (0..).zip(given.median_times.iter().copied()).collect(),
                ..KnownChain::at_height(params.clone(), given.height)
            },
            given,
            made,
            inputs,
        }
    }

    fn all_coins(&self) -> Option<Vec<Coin>> {
        self.coins.iter().cloned().collect()
    }

    fn judge(&self, validator: &mut Validator<CoreVerifier>, coins: CollectedCoins) -> Result<Given, String> {
        match validator.validate_collected(&self.given.block, &coins, &self.known) {
            Ok(_) => Ok(Given::Valid),
            Err(VerifyBlockError::Reject(reject)) => Ok(Given::Invalid(
                reject.reason.into_owned(),
                reject.transaction,
                reject.input,
            )),
            Err(error) => Err(error.to_string()),
        }
    }

    /// In block order, and as undo data in Core's form. The verdict is the same.
    fn in_order(&self, validator: &mut Validator<CoreVerifier>, coins: &[Coin]) -> Result<Given, String> {
        let mut list = CoinList::default();
        let mut undo = BlockUndo::default();
        let mut left = coins.iter().map(CoinRef::from);
        for index in 1..self.given.block.transaction_count() {
            for coin in left.by_ref().take(self.given.block.input_range(index).len()) {
                list.push(coin);
                undo.push_coin(coin);
            }
            undo.end_transaction();
        }
        let found = self.judge(validator, CollectedCoins::InOrder(list))?;
        let mut bytes = Vec::new();
        undo.write(&mut bytes);
        let undo = BlockUndo::decode(&bytes).map_err(|error| error.to_string())?;
        let from_undo = self.judge(validator, CollectedCoins::Undo(undo.into()))?;
        match found == from_undo {
            true => Ok(found),
            false => Err(format!("in order {found:?}, from undo data {from_undo:?}")),
        }
    }

    /// The first input whose coin cannot be what is given, whatever the chain is.
    fn impossible(&self, coins: &[Coin]) -> Option<(usize, usize)> {
        let is_possible = |&((_, outpoint, _), coin): &(&(usize, OutPoint, usize), &Coin)| match self.made.get(outpoint)
        {
            Some(made) if coin.height == 0 => (coin.value, &coin.script_pubkey) == (made.value, &made.script_pubkey),
            Some(made) => coin == made,
            None => !self.own.contains(&outpoint.txid) && coin.height < self.given.height,
        };
        let mut given = self.inputs.iter().zip(coins);
        let ((index, _, number), _) = given.find(|given| !is_possible(given))?;
        Some((*index, *number))
    }

    /// Changes a coin, or swaps two, and compares the verdicts with `truth`, that on the true
    /// coins. Returns what was changed, and what came of it.
    fn lie(
        &self,
        validator: &mut Validator<CoreVerifier>,
        mut coins: Vec<Coin>,
        truth: &Given,
        random: &mut Random,
    ) -> Result<Option<String>, String> {
        if coins.is_empty() {
            return Ok(None);
        }
        let index = random.below(coins.len() as u64) as usize;
        let height = self.given.height;
        let coin = &mut coins[index];
        let what = match random.below(6) {
            0 | 1 => {
                let lower = random.below(height.into()) as u32;
                coin.height = random.pick(&[0, lower, height - 1, height, height + 1, (1 << 31) - 1]);
                "height"
            }
            2 => {
                coin.is_coinbase ^= true;
                "coinbase flag"
            }
            3 => {
                // Core's form has no negative amounts.
                coin.value = (coin.value + random.pick(&[-1, 1, 1_000])).max(0);
                "amount"
            }
            4 => {
                coin.script_pubkey = [0x61, 0x51].into();
                "script"
            }
            _ => {
                let other = random.below(coins.len() as u64) as usize;
                coins.swap(index, other);
                "swapped"
            }
        };
        let is_changed = self.coins.iter().flatten().ne(&coins);
        let found = self.in_order(validator, &coins)?;
        let told = || format!("{what} of {index} changed: truth {truth:?}, found {found:?}, coins {coins:?}");
        let lowest = self.impossible(&coins);
        let is_expected = match (lowest, truth) {
            _ if !is_changed => found == *truth,
            // A lie about another coin may break another rule before.
            (Some(_), Given::Valid) if what == "swapped" => found != Given::Valid,
            (Some((index, input)), Given::Valid) => {
                found == Given::Invalid(MISSING.to_owned(), Some(index), Some(input))
            }
            (Some(_), _) => [reason_of(truth), Some(MISSING)].contains(&reason_of(&found)) || what == "swapped",
            // That coins of the chain are true is the caller's word.
            (None, _) => true,
        };
        // All coins exist, so that the block itself spends one too early or twice.
        let is_missing = lowest.is_some() || reason_of(truth) == Some(MISSING);
        if !is_expected || (is_missing && found == Given::Valid) {
            return Err(told());
        }
        let mut all: HashMap<OutPoint, Coin> = HashMap::new();
        for ((_, outpoint, _), coin) in self.inputs.iter().zip(&coins) {
            // In block order a coin without a height counts as mature.
            let is_coinbase = coin.is_coinbase && coin.height > 0;
            let coin = Coin {
                is_coinbase,
                ..coin.clone()
            };
            if all.insert(*outpoint, coin).is_some() {
                return Ok(None);
            }
        }
        let by_outpoint = self.judge(validator, CollectedCoins::ByOutPoint(all))?;
        let is_same = by_outpoint == found || reason_of(&by_outpoint) == Some(BIP30);
        if !is_same || (lowest.is_none() && by_outpoint != found && !self.has_own_of_no_height(&coins)) {
            return Err(format!("{}, by outpoint {by_outpoint:?}", told()));
        }
        Ok(Some(format!("{what}: {}", reason_of(&found).unwrap_or("valid"))))
    }

    /// By outpoint such a coin is one that the block overwrites.
    fn has_own_of_no_height(&self, coins: &[Coin]) -> bool {
        let mut given = self.inputs.iter().zip(coins);
        given.any(|((_, outpoint, _), coin)| coin.height == 0 && self.own.contains(&outpoint.txid))
    }
}
