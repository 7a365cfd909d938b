//! An index of addresses, built while blocks are connected: what each locking script has received
//! and spent, and its unspent outpoints.
//!
//! A branch with more work takes blocks back, so the index can do that, too. It is in memory here.
//! One that is kept notes the block that it is at.

use blockmill_block::coin::is_unspendable;
use blockmill_block::{Coin, Network, OutPoint};
use blockmill_chaingen::builder::BlockBuilder;
use blockmill_chaingen::{ChainSpec, Profile, bitcoin, generate, write_chain};
use blockmill_engine::{BlockChange, Engine, Event, Observer};
use blockmill_kernel::KernelVerifier;
use std::collections::{BTreeSet, HashMap};
use std::error::Error;
use std::io::Write;

/// What is known of a locking script.
#[derive(Debug, Default, PartialEq, Eq)]
struct Account {
    /// In satoshi.
    received: i128,
    /// In satoshi.
    spent: i128,
    unspent: BTreeSet<OutPoint>,
}

/// The accounts by locking script.
#[derive(Debug, Default)]
struct AddressIndex {
    accounts: HashMap<Vec<u8>, Account>,
    blocks_taken_back: u32,
}

/// A coin that a block makes or spends.
struct Use<'a> {
    outpoint: OutPoint,
    value: i64,
    script_pubkey: &'a [u8],
}

/// The coins that a block makes.
fn made<'a>(change: &BlockChange<'a>) -> impl Iterator<Item = Use<'a>> {
    change.block.transactions().flat_map(|transaction| {
        let txid = transaction.txid();
        let outputs = (0..).zip(transaction.outputs());
        outputs.map(move |(vout, output)| Use {
            outpoint: OutPoint { txid, vout },
            value: output.value(),
            script_pubkey: output.script_pubkey(),
        })
    })
}

/// The coins that a block spends.
fn spent<'a>(change: &BlockChange<'a>) -> impl Iterator<Item = Use<'a>> {
    let inputs = change
        .block
        .transactions()
        .skip(1)
        .flat_map(|transaction| transaction.inputs());
    inputs.zip(change.undo.coins().iter()).map(|(input, coin)| Use {
        outpoint: input.previous_output(),
        value: coin.value,
        script_pubkey: coin.script_pubkey,
    })
}

impl AddressIndex {
    fn account(&mut self, script_pubkey: &[u8]) -> &mut Account {
        self.accounts.entry(script_pubkey.to_vec()).or_default()
    }
}

impl AddressIndex {
    fn connected(&mut self, change: &BlockChange<'_>) {
        // Coins that are made and spent in the same block are made first.
        for coin in made(change).filter(|coin| !is_unspendable(coin.script_pubkey)) {
            let account = self.account(coin.script_pubkey);
            account.received += i128::from(coin.value);
            account.unspent.insert(coin.outpoint);
        }
        for coin in spent(change) {
            let account = self.account(coin.script_pubkey);
            account.spent += i128::from(coin.value);
            account.unspent.remove(&coin.outpoint);
        }
    }

    fn disconnected(&mut self, change: &BlockChange<'_>) {
        self.blocks_taken_back += 1;
        for coin in spent(change) {
            let account = self.account(coin.script_pubkey);
            account.spent -= i128::from(coin.value);
            account.unspent.insert(coin.outpoint);
        }
        for coin in made(change).filter(|coin| !is_unspendable(coin.script_pubkey)) {
            let account = self.account(coin.script_pubkey);
            account.received -= i128::from(coin.value);
            account.unspent.remove(&coin.outpoint);
        }
    }
}

impl Observer for AddressIndex {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Connected(change) => self.connected(change),
            Event::Disconnected(change) => self.disconnected(change),
            _ => {}
        }
    }
}

/// Connects a chain, then a longer branch that leaves it ten blocks below its tip. Returns the
/// number of accounts with coins, and of blocks that were taken back.
fn run() -> Result<(usize, u32), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let folder = directory.path().join("blocks");
    let spec = ChainSpec::new(Profile::Mixed, 130, 7);
    write_chain(&folder, &spec, &mut |_| ())?;
    let mut chain: Vec<bitcoin::Block> = Vec::new();
    let mut take = |_: u32, bytes: &[u8]| {
        chain.push(bitcoin::consensus::deserialize(bytes).map_err(std::io::Error::other)?);
        Ok(())
    };
    generate(&spec, &mut take, &mut |_| ())?;

    let mut index = AddressIndex::default();
    let data = directory.path().join("data");
    let mut engine = Engine::builder(data).network(Network::Regtest).open(KernelVerifier)?;
    engine.connect(&[folder], &mut index)?;
    let mut last = chain[120].header;
    for height in 121..=131 {
        let block = BlockBuilder::new(last.block_hash(), height, last.time + 600).build();
        last = block.header;
        engine.submit(bitcoin::consensus::serialize(&block), &mut index)?;
    }
    assert_eq!(engine.height(), 131, "the branch is longer");

    // The accounts have exactly the coins of the set.
    let mut accounts: HashMap<Vec<u8>, (i128, BTreeSet<OutPoint>)> = HashMap::new();
    for entry in engine.coins().coins()? {
        let (outpoint, coin): (OutPoint, Coin) = entry?;
        assert_eq!(engine.coin(&outpoint)?.as_ref(), Some(&coin));
        let account = accounts.entry(coin.script_pubkey.to_vec()).or_default();
        account.0 += i128::from(coin.value);
        account.1.insert(outpoint);
    }
    index.accounts.retain(|_, account| !account.unspent.is_empty());
    assert_eq!(index.accounts.len(), accounts.len());
    for (script, account) in &index.accounts {
        let expected = (account.received - account.spent, account.unspent.clone());
        assert_eq!(accounts.get(script), Some(&expected));
    }
    Ok((accounts.len(), index.blocks_taken_back))
}

fn main() -> Result<(), Box<dyn Error>> {
    let (accounts, taken_back) = run()?;
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{accounts} scripts with coins; {taken_back} blocks were taken back"
    )?;
    Ok(())
}

#[test]
fn the_index_follows_the_chain() {
    let (accounts, taken_back) = run().unwrap();
    assert!(accounts > 100 && taken_back == 10, "{accounts} {taken_back}");
}
