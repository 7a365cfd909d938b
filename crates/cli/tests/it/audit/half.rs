//! Inputs of which a part cannot be read.

use super::{Site, is};
use crate::common::{blockmill, run};
use blockmill_chaingen::core_files::CoreLayout;
use std::fs;

/// An undo file that cannot be read is said once, not for each of its blocks.
#[test]
fn an_undo_file_that_cannot_be_read() {
    let mut site = Site::generated();
    let rev = site.blocks().join("rev00001.dat");
    fs::remove_file(&rev).unwrap();
    fs::create_dir(&rev).unwrap();
    let report = run(&mut site.audit()).ends_with(3).json();
    is(&report, "incomplete", &["unreadable"]);
    let reason = report["findings"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("rev00001.dat"), "{reason}");
    let named = report["findings"][0]["hash"]
        .as_str()
        .map_or(0, |hash| reason.matches(hash).count());
    assert_eq!(named, 0, "{reason}");
    // A block that is wrong in another file is wrong all the same.
    let chain = &mut site.chain;
    chain.blocks[130].spent[0].script = bitcoin::ScriptBuf::new_op_return([1]);
    fs::remove_dir(&rev).unwrap();
    chain
        .write(&site.scratch.join("blocks"), &CoreLayout::default())
        .unwrap();
    fs::remove_file(&rev).unwrap();
    fs::create_dir(&rev).unwrap();
    let report = run(&mut site.audit()).ends_with(1).json();
    is(&report, "refuted", &["block", "unreadable"]);
}

/// A node that runs writes the undo data of its last block a little later.
#[test]
fn undo_data_that_is_not_written_yet() {
    let site = Site::generated();
    let mut below = site.chain.clone();
    let last = below.blocks.pop().unwrap();
    assert!(last.block.txdata.len() > 1);
    let blocks = ["blk00002.dat", "rev00002.dat"].map(|name| site.blocks().join(name));
    let whole = blocks.each_ref().map(|path| fs::read(path).unwrap());
    below.write(&site.blocks(), &CoreLayout::default()).unwrap();
    fs::write(&blocks[0], &whole[0]).unwrap();
    let report = run(&mut site.audit()).ends_with(3).json();
    is(&report, "incomplete", &["unreadable"]);
    assert_eq!(report["findings"][0]["height"], 140);
    // The set of the block before it is proved.
    below =
        blockmill_chaingen::core_files::CoreChain::new(below.magic, below.blocks.into_iter().map(|block| block.block));
    below.write_snapshot(&site.set()).unwrap();
    is(&run(&mut site.audit()).ends_with(0).json(), "proved", &[]);
}

/// A header does not commit to what a copy with other witnesses has.
#[test]
fn a_copy_with_another_witness_refutes_nothing() {
    let mut site = Site::generated();
    let honest = site.chain.clone();
    let with_witness = |block: &bitcoin::Block| {
        let mut spends = block.txdata.iter().skip(1);
        spends.position(|transaction| transaction.input.iter().any(|input| !input.witness.is_empty()))
    };
    let height = site
        .chain
        .blocks
        .iter()
        .rposition(|block| with_witness(&block.block).is_some())
        .unwrap();
    let block = &mut site.chain.blocks[height].block;
    let index = with_witness(block).unwrap() + 1;
    for input in &mut block.txdata[index].input {
        input.witness.push([7]);
    }
    site.chain.write(&site.blocks(), &CoreLayout::default()).unwrap();
    let report = run(&mut site.audit()).ends_with(3).json();
    is(&report, "incomplete", &["unreadable"]);
    assert_eq!(report["findings"][0]["height"], height);
    honest.write(&site.blocks(), &CoreLayout::default()).unwrap();
    run(&mut site.audit()).ends_with(0);
}

/// A part of such undo data would be of no use.
#[test]
fn no_part_of_undo_data_without_heights() {
    let mut site = Site::generated();
    for coin in site.chain.blocks.iter_mut().flat_map(|block| &mut block.spent) {
        (coin.height, coin.coinbase) = (0, false);
    }
    site.chain.write(&site.blocks(), &CoreLayout::default()).unwrap();
    run(blockmill().args(["audit", "key"]).arg(site.scratch.join("key"))).ends_with(0);
    let (path, made) = site.part(100, 140);
    made.ends_with(3).says(&["before 0.15"]);
    assert!(!path.exists());
    // A broken rule is one.
    site.chain.blocks[130].spent[1].script = bitcoin::ScriptBuf::new_op_return([1]);
    site.chain.write(&site.blocks(), &CoreLayout::default()).unwrap();
    let (path, made) = site.part(100, 140);
    made.ends_with(1).says(&["before 0.15", "script"]);
    assert!(path.exists());
}

/// Of files that are not whole there is no part that a merger could take for a proof, and one that
/// refutes says so.
#[test]
fn a_part_of_files_that_are_not_whole() {
    let mut site = Site::generated();
    run(blockmill().args(["audit", "key"]).arg(site.scratch.join("key"))).ends_with(0);
    // The file in the middle is missing, and the blocks of the last one are left over.
    let (blk, rev) = (site.blocks().join("blk00001.dat"), site.blocks().join("rev00001.dat"));
    let away = [&blk, &rev].map(|path| (path.clone(), fs::read(path).unwrap()));
    away.iter().for_each(|(path, _)| fs::remove_file(path).unwrap());
    let (path, part) = site.part(0, 40);
    part.ends_with(3).says(&["not whole", "left over"]);
    assert!(!path.exists());
    for (path, bytes) in &away {
        fs::write(path, bytes).unwrap();
    }
    site.part(0, 40).1.ends_with(0);
    let high = site.part(41, 140).0;
    is(&site.merge(&[&path, &high]).ends_with(0).json(), "proved", &[]);
    // What is refuted is refuted all the same.
    let spends = |block: &blockmill_chaingen::core_files::CoreBlock| !block.spent.is_empty();
    let first = site.chain.blocks.iter().position(spends).unwrap();
    site.chain.blocks[first].spent[0].script = bitcoin::ScriptBuf::new_op_return([1]);
    site.chain.write(&site.blocks(), &CoreLayout::default()).unwrap();
    std::os::unix::fs::symlink("nowhere", site.blocks().join("blk00009.dat")).unwrap();
    fs::remove_file(&path).unwrap();
    fs::remove_file(&high).unwrap();
    let (path, part) = site.part(0, 140);
    part.ends_with(1).says(&["not whole"]);
    let merged = site.merge(&[&path]).ends_with(1).json();
    assert_eq!(
        (&merged["verdict"], &merged["whole"]),
        (&"refuted".into(), &false.into())
    );
}
