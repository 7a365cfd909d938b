//! One engine over files that change between its runs: each run says what a new process says that
//! is given the same files.

use super::options;
use crate::common::{Chain, LARGE, figures, open};
use crate::differential::random::Random;
use bitcoin::consensus::serialize;
use blockmill_block::Network;
use blockmill_blockfiles::XorKey;
use blockmill_engine::{ConnectReport, RunOutcome};
use std::path::Path;

/// A block file as it is on the disk at a moment.
struct Folder {
    directory: tempfile::TempDir,
    key: Option<[u8; 8]>,
}

impl Folder {
    fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Writes a file: records, the first bytes of one that is being written, and zeros that were
    /// allocated. A new file may replace the old one.
    fn write(&self, number: usize, blocks: &[bitcoin::Block], torn: usize, zeros: usize, anew: bool) {
        let mut bytes: Vec<u8> = blocks.iter().flat_map(record).collect();
        bytes.truncate(bytes.len() - torn);
        XorKey::new(self.key.unwrap_or_default()).apply(&mut bytes, 0);
        bytes.resize(bytes.len() + zeros, 0);
        let path = self.path().join(format!("blk{number:05}.dat"));
        if anew {
            let new = self.path().join("new");
            std::fs::write(&new, bytes).unwrap();
            std::fs::rename(new, path).unwrap();
        } else {
            std::fs::write(path, bytes).unwrap();
        }
    }

    fn set_key(&mut self, key: Option<[u8; 8]>) {
        self.key = key;
        let path = self.path().join("xor.dat");
        match key {
            Some(key) => std::fs::write(path, key).unwrap(),
            None => drop(std::fs::remove_file(path)),
        }
    }
}

fn record(block: &bitcoin::Block) -> Vec<u8> {
    let block = serialize(block);
    let length = (block.len() as u32).to_le_bytes();
    [&Network::Regtest.magic().0[..], &length, &block].concat()
}

/// What a report says of the chain and of the files.
fn facts(report: &ConnectReport) -> (String, u32, RunOutcome, usize, u64, usize) {
    (
        report.tip.to_string(),
        report.height,
        report.outcome(),
        report.damages.len(),
        report.leftovers,
        report.unreadable.len() + report.rejected.len(),
    )
}

#[test]
fn one_engine_sees_what_a_new_process_sees() {
    let mut random = Random::new(38);
    let mut draw = |below: usize| random.below(below as u64) as usize;
    let chain = Chain::of(400);
    let mut folder = Folder {
        directory: tempfile::tempdir().unwrap(),
        key: None,
    };
    let data = tempfile::tempdir().unwrap();
    let mut engine = open(&data.path().join("one"), options(2, LARGE));
    // Searches what has changed alone.
    let mut follower = open(&data.path().join("follower"), options(1, LARGE));
    // The first block of each file, and of the next.
    let mut starts = vec![0, 4];
    for step in 0..120 {
        let last = starts.len() - 2;
        match draw(10) {
            // A new file.
            0 if starts[last + 1] - starts[last] > 5 => starts.push(starts[last + 1]),
            // Another key, under which all files are written again.
            1 => {
                let key = [draw(256) as u8; 8].map(|byte| byte.wrapping_mul(3).wrapping_add(1));
                folder.set_key((draw(2) == 0).then_some(key));
                for (number, pair) in starts.windows(2).enumerate() {
                    folder.write(number, &chain.blocks[pair[0]..pair[1]], 0, 0, draw(2) == 0);
                }
            }
            // The last file grows.
            _ => *starts.last_mut().unwrap() += 1 + draw(4),
        }
        let last = starts.len() - 2;
        let blocks = &chain.blocks[starts[last]..starts[last + 1]];
        let shortest = blocks.last().map_or(1, |block| record(block).len());
        let torn = if draw(3) == 0 { draw(shortest) } else { 0 };
        let zeros = [0, 0, 5_000, 70_000][draw(4)];
        folder.write(last, blocks, torn, zeros, draw(4) == 0);
        // A file that goes, or has other content, and comes again at the next step.
        let other = draw(starts.len() * 3);
        if other < last {
            let path = folder.path().join(format!("blk{other:05}.dat"));
            match draw(2) {
                0 => std::fs::remove_file(&path).unwrap(),
                _ => std::fs::write(&path, [0x42; 700]).unwrap(),
            }
        }
        let sources = [folder.path().to_owned()];
        let report = engine.connect(&sources, &mut ()).unwrap();
        let mut fresh = open(&data.path().join("fresh"), options(1, LARGE));
        let expected = fresh.connect(&sources, &mut ()).unwrap();
        assert_eq!(facts(&report), facts(&expected), "step {step}: {report:?}");
        assert_eq!(figures(&engine), figures(&fresh), "step {step}");
        let updated = follower.update(&sources, &mut ()).unwrap();
        assert_eq!(
            (updated.tip, figures(&follower)),
            (expected.tip, figures(&fresh)),
            "step {step}"
        );
        if other < last {
            let pair = &starts[other..other + 2];
            folder.write(other, &chain.blocks[pair[0]..pair[1]], 0, 0, true);
        }
        // The tip of before is kept by the directory: a process of now begins with nothing else.
        drop(fresh);
        if step % 10 == 9 {
            std::fs::remove_dir_all(data.path().join("fresh")).unwrap();
            drop(engine);
            std::fs::remove_dir_all(data.path().join("one")).unwrap();
            engine = open(&data.path().join("one"), options(2, LARGE));
            drop(follower);
            std::fs::remove_dir_all(data.path().join("follower")).unwrap();
            follower = open(&data.path().join("follower"), options(1, LARGE));
        }
    }
}
