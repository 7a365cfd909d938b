//! `export hints` beside the crate of the draft's authors, which reads the file, and a set that the
//! tests made from the blocks.

use crate::common::core_folder::made;
use crate::common::own_set::OwnChain;
use crate::common::{Run, Scratch, blockmill, connect, connected_real, run};
use crate::export_blocks::blocks_of;
use bitcoin::{Block, OutPoint, Script};
use hintsfile::Hintsfile;
use std::collections::HashSet;
use std::path::Path;

/// Height of the chain that is generated.
const BLOCKS: u32 = 140;

fn hints(data: &Path, out: &Path, options: &[&str]) -> Run {
    let mut command = blockmill();
    command
        .args(["export", "hints", "--data"])
        .arg(data)
        .arg("--out")
        .arg(out);
    run(command.args(options))
}

fn is_spendable(script: &Script) -> bool {
    !script.is_op_return() && script.len() <= 10_000
}

/// The numbers of the outputs of each block from height 1 on that no block up to `height` spends.
fn expected(chain: &[Block], height: u32) -> Vec<Vec<u32>> {
    let chain = &chain[..=height as usize];
    let transactions = chain.iter().flat_map(|block| &block.txdata);
    let spent: HashSet<OutPoint> = transactions
        .flat_map(|transaction| &transaction.input)
        .map(|input| input.previous_output)
        .collect();
    let of_block = |block: &Block| {
        let outputs = block.txdata.iter().flat_map(|transaction| {
            let txid = transaction.compute_txid();
            let outpoints = (0..).map(move |vout| OutPoint { txid, vout });
            outpoints.zip(&transaction.output)
        });
        let spendable = outputs.filter(|(_, output)| is_spendable(&output.script_pubkey));
        (0..)
            .zip(spendable)
            .filter(|(_, (outpoint, _))| !spent.contains(outpoint))
            .map(|(number, _)| number)
            .collect()
    };
    chain[1..].iter().map(of_block).collect()
}

/// Fails unless a file of hints, as the other crate reads it, is that of a chain at a height.
#[track_caller]
fn check(file: &[u8], chain: &[Block], height: u32) {
    let mut rest = file;
    let mut found = Hintsfile::from_reader(&mut rest).unwrap();
    assert_eq!((found.stop_height(), rest), (height, &[][..]));
    for (height, expected) in (1..).zip(expected(chain, height)) {
        assert_eq!(found.take_indices(height), Some(expected), "height {height}");
    }
}

#[test]
fn hints_are_the_unspent_outputs_of_each_block() {
    let scratch = Scratch::new();
    let chain = OwnChain::generate(&scratch, "mixed", BLOCKS, &["--seed", "6"]);
    let data = scratch.join("data");
    run(&mut connect(&chain.folder, &data, "regtest")).ends_with(0);
    let outputs = |block: &Block| {
        block
            .txdata
            .iter()
            .flat_map(|transaction| transaction.output.clone())
            .collect()
    };
    let scripts: Vec<bitcoin::TxOut> = chain.blocks[1..]
        .iter()
        .flat_map(|block| -> Vec<_> { outputs(block) })
        .collect();
    let unspendable = scripts.iter().filter(|output| !is_spendable(&output.script_pubkey));
    // They take no numbers.
    assert!(unspendable.count() > 20);
    let coins = chain.set(BLOCKS).0.len();
    let whole = scratch.join("whole");
    let done = hints(&data, &whole, &[]).ends_with(0);
    let grouped = |number: usize| match number / 1000 {
        0 => number.to_string(),
        thousands => format!("{thousands},{:03}", number % 1000),
    };
    let said = format!("{} hints of {} blocks, ", grouped(coins), BLOCKS + 1);
    assert!(done.stdout.starts_with(&said), "{}", done.stdout);
    let whole = std::fs::read(&whole).unwrap();
    check(&whole, &chain.blocks, BLOCKS);
    for (number, (options, height)) in [
        (&["--at", "0"][..], 0),
        (&["--at", "1"], 1),
        (&["--at", "101"], 101),
        // Parts of the chain, down to single blocks.
        (&["--outputs-at-once", "1000"], BLOCKS),
        (&["--outputs-at-once", "0", "--at", "130"], 130),
    ]
    .into_iter()
    .enumerate()
    {
        let out = scratch.join(&format!("hints-{number}"));
        hints(&data, &out, options).ends_with(0);
        let file = std::fs::read(&out).unwrap();
        check(&file, &chain.blocks, height);
        assert!(height < BLOCKS || file == whole);
    }
    // What is there stays, and a block that is gone is named.
    hints(&data, &scratch.join("hints-0"), &[])
        .ends_with(2)
        .says(&["hints-0"]);
    std::fs::remove_dir_all(&chain.folder).unwrap();
    std::fs::remove_dir_all(data.join("kept")).unwrap();
    let missing = scratch.join("missing");
    hints(&data, &missing, &[]).ends_with(3).says(&["height 1"]);
    assert!(!missing.exists());
}

/// Undo data says which outputs are spent, and which block has made each.
#[test]
fn block_files_with_undo_files_are_enough() {
    let scratch = Scratch::new();
    let (folder, chain) = made(&scratch);
    let blocks = blocks_of(&chain);
    let data = scratch.join("data");
    let of_files = |name: &str, options: &[&str]| {
        let mut command = blockmill();
        command
            .args(["export", "hints", "--network", "regtest", "--blocks"])
            .arg(&folder);
        run(command.args(options).arg("--out").arg(scratch.join(name)))
    };
    for (number, options) in [
        &[][..],
        &["--at", "1"],
        &["--at", "100", "--outputs-at-once", "300"],
        &["--outputs-at-once", "0"],
    ]
    .into_iter()
    .enumerate()
    {
        let [own, other] = ["files", "data"].map(|from| format!("{from}-{number}"));
        let done = of_files(&own, options).ends_with(0);
        let of_data = hints(&data, &scratch.join(&other), options).ends_with(0);
        assert_eq!(done.stdout.replace(&own, &other), of_data.stdout);
        let [own, other] = [own, other].map(|name| std::fs::read(scratch.join(&name)).unwrap());
        assert!(own == other, "{options:?}");
    }
    check(&std::fs::read(scratch.join("files-0")).unwrap(), &blocks, BLOCKS);
    // Blocks of a data directory that lie elsewhere now.
    std::fs::remove_dir_all(scratch.join("chain")).unwrap();
    let moved = scratch.join("moved");
    hints(&data, &moved, &["--blocks", folder.to_str().unwrap()]).ends_with(0);
    assert!(std::fs::read(&moved).unwrap() == std::fs::read(scratch.join("files-0")).unwrap());
    hints(&data, &scratch.join("other"), &["--network", "bitcoin"])
        .ends_with(2)
        .says(&["is of regtest, not of bitcoin"]);
    // Without undo data there is no saying what is spent.
    std::fs::remove_file(folder.join("rev00001.dat")).unwrap();
    of_files("without", &["--at", "140"]).ends_with(3).says(&["undo"]);
    assert!(!scratch.join("without").exists());
}

#[test]
fn hints_of_the_real_chains() {
    for (file, network) in [("mainnet_0_14131.dat", "bitcoin"), ("testnet3_0_4000.dat", "testnet3")] {
        let Some((scratch, data, path)) = connected_real(file, network) else {
            return;
        };
        let out = scratch.join("hints");
        hints(&data, &out, &[]).ends_with(0);
        let chain = blocks_of(&std::fs::read(&path).unwrap());
        let height = chain.len() as u32 - 1;
        check(&std::fs::read(&out).unwrap(), &chain, height);
    }
}
