//! Blocks with a byte changed inside R or S of a signature. Merkle root and witness commitment are
//! made to fit, so the script check refuses the block. It names the transaction and the input.

use crate::common::signatures::{Number, Signature, signatures};
use crate::common::verifier;
use bitcoin::consensus::{deserialize, serialize};
use bitcoin::{Block, OutPoint, Script, Txid};
use blockmill_block::{BlockUndo, Coin, CoinRef, Network};
use blockmill_chaingen::builder::repair;
use blockmill_chaingen::{ChainSpec, Profile, generate};
use blockmill_engine::Signatures;
use blockmill_engine::inspect::verify::{VerifyBlockError, VerifyOptions, verify_block};
use blockmill_kernel::KernelVerifier;
use blockmill_realdata::SingleBlock;
use blockmill_rules::{Params, Reject, ScriptVerifier};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// Signatures of each kind that are changed in a block.
const OF_EACH_KIND: usize = 2;

/// Signatures are chosen among this many inputs of a block, since the scripts of all inputs before
/// a changed one run every time. Of a kind that occurs only later, one signature is changed, and
/// only two threads are tried.
const INPUTS_NEAR: usize = 400;

/// A block with the coins that it spends.
struct Sample {
    name: String,
    params: Params,
    height: u32,
    block: Block,
    undo: Arc<BlockUndo>,
}

/// A signature, with the numbers of its transaction in the block and of its input there.
struct Located {
    transaction: usize,
    input: usize,
    signature: Signature,
}

impl Sample {
    /// Verifies a block by the kernel's interface, and with signatures in lanes. Both answers must
    /// be the same.
    fn verify(&self, block: &Block, threads: usize) -> Result<(), Reject> {
        let block = Arc::new(blockmill_block::Block::decode(serialize(block)).unwrap());
        let by_kernel = self.verify_by(KernelVerifier, Signatures::OneByOne, &block, threads);
        let in_lanes = self.verify_by(verifier(Signatures::Lanes), Signatures::Lanes, &block, threads);
        assert_eq!(in_lanes, by_kernel, "{}", self.name);
        in_lanes
    }

    fn verify_by<V: ScriptVerifier + 'static>(
        &self,
        verifier: V,
        signatures: Signatures,
        block: &Arc<blockmill_block::Block>,
        threads: usize,
    ) -> Result<(), Reject> {
        let verifier = Arc::new(verifier);
        let options = VerifyOptions {
            height: self.height,
            threads,
            proof_of_work: false,
            signatures,
        };
        let verdict = match verify_block(block, &self.undo, &self.params, &verifier, options) {
            Ok(_) => Ok(()),
            Err(VerifyBlockError::Reject(reject)) => Err(reject),
            Err(error) => panic!("{}: {error}", self.name),
        };
        let counts = verifier.signature_counts();
        // Where all scripts ran, and signatures were many, nearly all were verified in lanes.
        assert!(
            verdict.is_err()
                || signatures == Signatures::OneByOne
                || counts.lanes > counts.libsecp256k1
                || counts.libsecp256k1 < 20,
            "{}: {counts:?}",
            self.name
        );
        verdict
    }

    /// The signatures of transactions that no other transaction of the block spends from: a change
    /// of a signature outside of the witness changes the transaction's id.
    fn located(&self) -> Vec<Located> {
        let spent: HashSet<Txid> = self
            .block
            .txdata
            .iter()
            .flat_map(|transaction| &transaction.input)
            .map(|input| input.previous_output.txid)
            .collect();
        let mut all = Vec::new();
        for (index, transaction) in self.block.txdata.iter().enumerate().skip(1) {
            if spent.contains(&transaction.compute_txid()) {
                continue;
            }
            let coins = self.undo.transaction(index - 1);
            for (number, (input, coin)) in transaction.input.iter().zip(coins.iter()).enumerate() {
                let script = Script::from_bytes(coin.script_pubkey);
                all.extend(signatures(input, script).into_iter().map(|signature| Located {
                    transaction: index,
                    input: number,
                    signature,
                }));
            }
        }
        all
    }

    /// The first signatures of each kind, and one further on.
    fn chosen(&self) -> Vec<Located> {
        let mut counts: HashMap<_, usize> = HashMap::new();
        let mut chosen = self.located();
        let last = chosen.iter().rposition(|located| self.is_near(located));
        let last = last.map(|last| chosen.remove(last));
        if let Some(last) = &last {
            counts.insert(last.signature.kind, 1);
        }
        chosen.retain(|located| {
            let count = counts.entry(located.signature.kind).or_default();
            *count += 1;
            *count == 1 || (*count <= OF_EACH_KIND + 1 && self.is_near(located))
        });
        chosen.extend(last);
        chosen
    }

    fn is_near(&self, located: &Located) -> bool {
        self.undo.range(located.transaction - 1).end <= INPUTS_NEAR
    }

    fn spoilt(&self, located: &Located, number: Number) -> Block {
        let mut block = self.block.clone();
        let transaction = &mut block.txdata[located.transaction];
        located.signature.spoil(transaction, located.input, number);
        block
    }
}

/// Changes signatures of the block, and counts them by kind.
fn check(sample: &Sample, kinds: &mut BTreeMap<&'static str, usize>) {
    let name = &sample.name;
    let verified = sample.verify(&sample.block, 2);
    assert!(verified.is_ok(), "{name}: {verified:?}");
    for located in &sample.chosen() {
        let (numbers, threads): (&[Number], &[usize]) = if sample.is_near(located) {
            (&[Number::R, Number::S], &[1, 2])
        } else {
            (&[Number::S], &[2])
        };
        for &number in numbers {
            let mut block = sample.spoilt(located, number);
            if !kinds.contains_key(located.signature.kind) {
                check_unrepaired(sample, &block);
            }
            repair(&mut block);
            for &threads in threads {
                let reject = sample.verify(&block, threads).unwrap_err();
                let what = format!("{name}: {} of {}", located.signature.kind, located.transaction);
                assert_eq!(reject.reason, "block-script-verify-flag-failed", "{what}");
                assert_eq!(reject.transaction, Some(located.transaction), "{what}");
                assert_eq!(reject.input, Some(located.input), "{what}");
            }
        }
        *kinds.entry(located.signature.kind).or_default() += 1;
    }
}

/// Where the roots are not made to fit, another rule than the scripts refuses the block.
fn check_unrepaired(sample: &Sample, block: &Block) {
    let reason = sample.verify(block, 1).unwrap_err().reason;
    let same_ids = block.compute_merkle_root() == Some(sample.block.header.merkle_root);
    let expected = if same_ids {
        "bad-witness-merkle-match"
    } else {
        "bad-txnmrklroot"
    };
    assert_eq!(reason, expected, "{}", sample.name);
}

fn sample_of(real: SingleBlock) -> Sample {
    let block: Block = deserialize(real.block.bytes()).unwrap();
    assert_eq!(serialize(&block), real.block.bytes());
    Sample {
        params: Params::new(real.network, None),
        height: real.height,
        block,
        undo: real.undo,
        name: real.name,
    }
}

/// Kinds of scripts in the sample blocks, in alphabetical order.
const KINDS_IN_REAL_BLOCKS: [&str; 10] = [
    "multisig",
    "p2pk",
    "p2pkh",
    "p2sh multisig",
    "p2sh-p2wpkh",
    "p2sh-p2wsh multisig",
    "p2tr key",
    "p2tr script",
    "p2wpkh",
    "p2wsh multisig",
];

#[test]
fn real_blocks() {
    let blocks = blockmill_realdata::real_blocks();
    if blocks.is_empty() {
        return;
    }
    let mut kinds = BTreeMap::new();
    for block in blocks {
        let sample = sample_of(block);
        let mut own = BTreeMap::new();
        check(&sample, &mut own);
        assert!(!own.is_empty(), "{}: no signature was changed", sample.name);
        for (kind, count) in own {
            *kinds.entry(kind).or_insert(0) += count;
        }
    }
    let found: Vec<_> = kinds.keys().copied().collect();
    assert_eq!(found, KINDS_IN_REAL_BLOCKS, "{kinds:?}");
}

/// The blocks of a generated chain, with their coins.
fn generated() -> Vec<Sample> {
    let spec = ChainSpec {
        inputs: 1_500,
        ..ChainSpec::new(Profile::Mixed, 112, 7)
    };
    let mut coins: HashMap<OutPoint, Coin> = HashMap::new();
    let mut samples = Vec::new();
    let mut take = |height: u32, bytes: &[u8]| {
        let block: Block = deserialize(bytes).unwrap();
        let mut undo = BlockUndo::default();
        for (index, transaction) in block.txdata.iter().enumerate() {
            if index > 0 {
                for input in &transaction.input {
                    undo.push_coin(CoinRef::from(&coins.remove(&input.previous_output).unwrap()));
                }
                undo.end_transaction();
            }
            let txid = transaction.compute_txid();
            for (vout, output) in (0..).zip(&transaction.output) {
                let coin = Coin {
                    value: output.value.to_sat() as i64,
                    height,
                    is_coinbase: index == 0,
                    script_pubkey: output.script_pubkey.as_bytes().into(),
                };
                coins.insert(OutPoint { txid, vout }, coin);
            }
        }
        if block.txdata.len() > 1 {
            samples.push(Sample {
                name: format!("generated {height}"),
                params: Params::new(Network::Regtest, None),
                height,
                block,
                undo: Arc::new(undo),
            });
        }
        Ok(())
    };
    generate(&spec, &mut take, &mut |_| ()).unwrap();
    samples
}

#[test]
fn generated_blocks() {
    let mut kinds = BTreeMap::new();
    let samples = generated();
    assert!(samples.len() >= 10);
    for sample in &samples {
        check(sample, &mut kinds);
    }
    for kind in [
        "p2pk",
        "p2pkh",
        "p2sh multisig",
        "p2sh-p2wpkh",
        "p2wpkh",
        "p2wsh multisig",
        "p2tr key",
        "p2tr script",
    ] {
        assert!(kinds.get(kind).is_some_and(|&count| count > 1), "{kind}: {kinds:?}");
    }
}

/// Two signatures of a block are changed: the lower input is named, whichever is found first.
#[test]
fn the_lower_of_two_is_named() {
    let samples = generated();
    let sample = samples.iter().max_by_key(|sample| sample.undo.coins().len()).unwrap();
    let all = sample.located();
    for distance in [1, 7, 40, all.len() - 1] {
        let (lower, upper) = (&all[0], &all[distance]);
        let mut block = sample.spoilt(lower, Number::S);
        let transaction = &mut block.txdata[upper.transaction];
        upper.signature.spoil(transaction, upper.input, Number::R);
        repair(&mut block);
        for threads in [1, 2] {
            let reject = sample.verify(&block, threads).unwrap_err();
            assert_eq!(reject.reason, "block-script-verify-flag-failed");
            assert_eq!(
                (reject.transaction, reject.input),
                (Some(lower.transaction), Some(lower.input))
            );
        }
    }
}
