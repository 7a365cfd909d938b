//! Generates a chain and connects it to a plain hash map, with every rule of a block except
//! scripts. This second opinion shares no code with the generator.

use std::collections::HashMap;

use blockmill_chaingen::bitcoin::consensus::{deserialize, serialize};
use blockmill_chaingen::bitcoin::hashes::{Hash, sha256d};
use blockmill_chaingen::bitcoin::script::Builder;
use blockmill_chaingen::bitcoin::{Block, BlockHash, OutPoint, Transaction, TxOut, absolute};
use blockmill_chaingen::{ChainSpec, Summary, generate};

/// An unspent output, as this file keeps it.
#[derive(Clone, Debug)]
pub(crate) struct Live {
    pub(crate) output: TxOut,
    pub(crate) height: u32,
    pub(crate) coinbase: bool,
}

/// A transaction (no coinbase) in its block, with what it spends.
pub(crate) struct Connected<'a> {
    pub(crate) height: u32,
    pub(crate) tx: &'a Transaction,
    pub(crate) spent: &'a [Live],
}

/// The chain as bytes, genesis first, and its summary.
pub(crate) fn chain(spec: &ChainSpec) -> (Vec<Vec<u8>>, Summary) {
    let mut blocks = Vec::new();
    let mut take = |height: u32, block: &[u8]| {
        assert_eq!(height as usize, blocks.len());
        blocks.push(block.to_vec());
        Ok(())
    };
    let summary = generate(spec, &mut take, &mut |_| ()).unwrap();
    (blocks, summary)
}

/// Generates and connects a chain, and compares all numbers with the summary.
pub(crate) fn check(spec: &ChainSpec, visit: &mut dyn FnMut(&Connected<'_>)) -> Summary {
    let (blocks, summary) = chain(spec);
    let mut set = Set::default();
    for (height, bytes) in (0..).zip(&blocks) {
        let block: Block = deserialize(bytes).unwrap();
        assert!(
            block.weight().to_wu() <= spec.block_weight_max.into(),
            "weight at {height}"
        );
        set.connect(height, &block, visit);
        set.bytes += bytes.len() as u64;
    }
    assert_eq!(summary.height, spec.blocks);
    assert_eq!(summary.tip, set.hashes.last().unwrap().to_string());
    assert_eq!(summary.blocks, blocks.len() as u64);
    assert_eq!(summary.transactions, set.transactions);
    assert_eq!(summary.inputs, set.inputs);
    assert_eq!(summary.outputs, set.outputs);
    assert_eq!(summary.bytes, set.bytes);
    assert_eq!(summary.coins, set.live.len() as u64);
    let amount: u64 = set.live.values().map(|live| live.output.value.to_sat()).sum();
    assert_eq!(summary.total_amount, amount);
    assert_eq!(amount, set.subsidies, "amounts conserve");
    assert_eq!(summary.hash_serialized_3, set.hash());
    summary
}

#[derive(Default)]
struct Set {
    live: HashMap<OutPoint, Live>,
    hashes: Vec<BlockHash>,
    times: Vec<u32>,
    transactions: u64,
    inputs: u64,
    outputs: u64,
    bytes: u64,
    subsidies: u64,
}

impl Set {
    fn connect(&mut self, height: u32, block: &Block, visit: &mut dyn FnMut(&Connected<'_>)) {
        self.check_header(height, block);
        let mut fees = 0;
        let mut sigop_cost = 0;
        for (position, tx) in block.txdata.iter().enumerate() {
            assert_eq!(tx.is_coinbase(), position == 0);
            let mut spent = Vec::new();
            if position > 0 {
                for input in &tx.input {
                    spent.push(self.live.remove(&input.previous_output).expect("the coin is live"));
                }
                self.check_spend(height, tx, &spent);
                let value = |live: &Live| live.output.value.to_sat();
                let paid: u64 = tx.output.iter().map(|output| output.value.to_sat()).sum();
                fees += spent
                    .iter()
                    .map(value)
                    .sum::<u64>()
                    .checked_sub(paid)
                    .expect("no fee is negative");
                visit(&Connected {
                    height,
                    tx,
                    spent: &spent,
                });
                self.inputs += tx.input.len() as u64;
            }
            sigop_cost += tx.total_sigop_cost(|outpoint| {
                let index = tx.input.iter().position(|input| input.previous_output == *outpoint)?;
                spent.get(index).map(|live| live.output.clone())
            });
            self.transactions += 1;
            self.outputs += tx.output.len() as u64;
            if height > 0 {
                self.create(height, tx, position == 0);
            }
        }
        assert!(sigop_cost <= 80_000, "sigop cost {sigop_cost}");
        let subsidy = 5_000_000_000_u64 >> (height / 150);
        if height > 0 {
            let coinbase: u64 = block.txdata[0].output.iter().map(|output| output.value.to_sat()).sum();
            assert_eq!(coinbase, subsidy + fees);
            self.subsidies += subsidy;
        }
        self.hashes.push(block.block_hash());
        self.times.push(block.header.time);
    }

    fn check_header(&self, height: u32, block: &Block) {
        let header = &block.header;
        assert!(block.check_merkle_root() && block.check_witness_commitment());
        assert_eq!(header.bits.to_consensus(), 0x207f_ffff);
        assert!(header.validate_pow(header.target()).is_ok());
        if height == 0 {
            return;
        }
        assert_eq!(header.prev_blockhash, *self.hashes.last().unwrap());
        assert_eq!(header.version.to_consensus(), 0x2000_0000);
        assert!(header.time > *self.times.last().unwrap());
        let script_sig = &block.txdata[0].input[0].script_sig;
        let bip34 = Builder::new().push_int(height.into()).into_script();
        assert!(script_sig.as_bytes().starts_with(bip34.as_bytes()));
        assert!((2..=100).contains(&script_sig.len()));
        let has_witness = block
            .txdata
            .iter()
            .skip(1)
            .any(|tx| tx.input.iter().any(|input| !input.witness.is_empty()));
        let commitment = block.txdata[0].output.last().unwrap().script_pubkey.as_bytes();
        assert_eq!(
            has_witness,
            commitment.starts_with(&[0x6a, 0x24, 0xaa, 0x21, 0xa9, 0xed])
        );
        assert_eq!(has_witness, block.txdata[0].input[0].witness.to_vec() == [vec![0; 32]]);
        let mut ids: Vec<_> = block.txdata.iter().map(Transaction::compute_txid).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), block.txdata.len());
    }

    /// Maturity, absolute locks (BIP113) and relative locks (BIP68).
    fn check_spend(&self, height: u32, tx: &Transaction, spent: &[Live]) {
        let median = self.median_time(height - 1);
        let lock_time = tx.lock_time.to_consensus_u32();
        let reached = match tx.lock_time {
            absolute::LockTime::Blocks(_) => lock_time < height,
            absolute::LockTime::Seconds(_) => lock_time < median,
        };
        assert!(reached || tx.input.iter().all(|input| input.sequence.0 == u32::MAX));
        for (input, live) in tx.input.iter().zip(spent) {
            assert!(!live.coinbase || height - live.height >= 100, "maturity");
            let sequence = input.sequence.0;
            if tx.version.0 < 2 || sequence & (1 << 31) != 0 {
                continue;
            }
            let count = sequence & 0xffff;
            if sequence & (1 << 22) == 0 {
                assert!(live.height + count <= height, "relative height lock");
            } else {
                let start = self.median_time(live.height - 1);
                assert!(start + count * 512 <= median, "relative time lock");
            }
        }
    }

    /// The median time past of the block at `height`.
    fn median_time(&self, height: u32) -> u32 {
        let end = height as usize + 1;
        let mut times = self.times[end.saturating_sub(11)..end].to_vec();
        times.sort_unstable();
        times[times.len() / 2]
    }

    fn create(&mut self, height: u32, tx: &Transaction, coinbase: bool) {
        let txid = tx.compute_txid();
        for (vout, output) in (0..).zip(&tx.output) {
            let script = output.script_pubkey.as_bytes();
            if script.first() != Some(&0x6a) && script.len() <= 10_000 {
                let live = Live {
                    output: output.clone(),
                    height,
                    coinbase,
                };
                assert!(self.live.insert(OutPoint { txid, vout }, live).is_none());
            }
        }
    }

    fn hash(&self) -> String {
        let mut coins: Vec<_> = self.live.iter().collect();
        coins.sort_by_key(|(outpoint, _)| (outpoint.txid.to_byte_array(), outpoint.vout));
        let mut bytes = Vec::new();
        for (outpoint, live) in coins {
            bytes.extend(serialize(outpoint));
            bytes.extend((live.height * 2 + u32::from(live.coinbase)).to_le_bytes());
            bytes.extend(serialize(&live.output));
        }
        sha256d::Hash::hash(&bytes).to_string()
    }
}
