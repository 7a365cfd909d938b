//! Generates a chain. Each block is planned, signed, assembled and given to the sink. The UTXO set
//! is hashed at the end.

use std::io;
use std::thread;

use bitcoin::VarInt;
use bitcoin::consensus::Encodable;
use bitcoin::hashes::{Hash, HashEngine, sha256d};

use crate::assemble::{assemble, genesis};
use crate::chain_spec::{ChainSpec, GenerateError, Progress, Summary};
use crate::coin_pool::Coin;
use crate::plan::Planner;
use crate::wallet::Wallet;
use crate::work::sign_groups;

/// Generates the chain of a spec. `sink` gets each block's height and serialization, in order,
/// genesis first. `progress` is called after each block and at each new phase.
///
/// # Errors
///
/// [`GenerateError::BlockWeight`], [`GenerateError::TooManyBlocks`] and
/// [`GenerateError::TooManyEmptyBlocks`] for a spec out of range, before the first block;
/// [`GenerateError::Sink`] when `sink` fails.
pub fn generate(
    spec: &ChainSpec,
    sink: &mut dyn FnMut(u32, &[u8]) -> io::Result<()>,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Summary, GenerateError> {
    spec.check()?;
    let wallet = Wallet::new(spec.profile, spec.seed);
    let threads = match spec.threads {
        0 => thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    let mut planner = Planner::new(spec);
    let (mut tip, bytes) = genesis();
    let mut summary = summary_of_genesis(spec, bytes.len() as u64);
    let mut hand_over =
        |height, bytes: &[u8]| sink(height, bytes).map_err(|source| GenerateError::Sink { height, source });
    // Core's files begin with genesis, too.
    hand_over(0, &bytes)?;
    for height in 1..=spec.blocks {
        let plan = planner.plan(height);
        let signed = sign_groups(&wallet, &plan.groups, threads);
        let block = assemble(tip, &plan, &signed, &wallet, spec.seed);
        hand_over(height, &block.bytes)?;
        planner.add_coins_of(&plan, &signed, block.coinbase);
        tip = block.hash;
        summary.height = height;
        summary.blocks += 1;
        // The coinbase is in no group.
        summary.transactions += 1 + plan.order.len() as u64;
        summary.inputs += plan.inputs;
        summary.outputs += block.coinbase_outputs
            + plan
                .groups
                .iter()
                .flatten()
                .map(|transaction| transaction.outputs.len() as u64)
                .sum::<u64>();
        summary.bytes += block.bytes.len() as u64;
        progress(&at_phase(spec, &summary, "blocks"));
    }
    progress(&at_phase(spec, &summary, "hash"));
    let coins = planner.coin_pool.into_sorted();
    summary.tip = tip.to_string();
    summary.coins = coins.len() as u64;
    summary.total_amount = coins.iter().map(|coin| coin.value).sum();
    summary.hash_serialized_3 = hash_serialized(&coins, &wallet).to_string();
    progress(&at_phase(spec, &summary, "done"));
    Ok(summary)
}

fn summary_of_genesis(spec: &ChainSpec, bytes: u64) -> Summary {
    Summary {
        profile: spec.profile.to_string(),
        seed: spec.seed,
        network: "regtest".to_owned(),
        height: 0,
        tip: String::new(),
        blocks: 1,
        transactions: 1,
        inputs: 0,
        outputs: 1,
        bytes,
        coins: 0,
        total_amount: 0,
        hash_serialized_3: String::new(),
        files: Vec::new(),
    }
}

fn at_phase(spec: &ChainSpec, summary: &Summary, phase: &'static str) -> Progress {
    Progress {
        blocks_done: summary.height,
        blocks: spec.blocks,
        inputs: summary.inputs,
        bytes: summary.bytes,
        phase,
    }
}

/// Bitcoin Core's `hash_serialized_3` of coins in the set's order: one double SHA256 over the
/// outpoint, height and coinbase flag, amount and script of each coin.
fn hash_serialized(coins: &[Coin], wallet: &Wallet) -> sha256d::Hash {
    let mut engine = sha256d::Hash::engine();
    let mut record = Vec::new();
    for coin in coins {
        let script = wallet.script(coin.address);
        record.clear();
        record.extend_from_slice(coin.txid.as_byte_array());
        record.extend_from_slice(&coin.vout.to_le_bytes());
        record.extend_from_slice(&coin.height_code.to_le_bytes());
        record.extend_from_slice(&coin.value.to_le_bytes());
        VarInt::from(script.len())
            .consensus_encode(&mut record)
            .expect("a vector takes all bytes");
        record.extend_from_slice(script.as_bytes());
        engine.input(&record);
    }
    sha256d::Hash::from_engine(engine)
}
