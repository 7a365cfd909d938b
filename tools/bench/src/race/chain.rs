//! The blocks of a race: the best chain in the user's files, and a copy of it for the daemon.

use super::runs::Say;
use super::setup::Setup;
use blockmill_chain::{ChainBlocks, Event, Observer};
use blockmill_harness::{Failure, at};
use blockmill_rules::Params;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Most bytes of a block file, as in Core.
const FILE_BYTES_MAX: u64 = 128 << 20;

/// Blocks that the system reads ahead together.
const BLOCKS_AHEAD: u32 = 64;

/// A chain in block files, up to the last height of the race.
pub(super) struct Chain {
    blocks: ChainBlocks,
    pub(super) height: u32,
    /// The last block.
    pub(super) tip: String,
    /// Of all blocks.
    pub(super) bytes: u64,
}

/// Says how far the search for blocks is.
struct Searching<'a, 'p>(&'a Say<'p>);

impl Observer for Searching<'_, '_> {
    fn event(&mut self, event: &Event<'_>) {
        if let Event::Indexing(_) = event {
            self.0.now_and_then(|| event.to_string());
        }
    }
}

impl Chain {
    /// The best chain in the files. It must be whole, and have the last height.
    pub(super) fn find(setup: &Setup, say: &Say<'_>) -> Result<Self, Failure> {
        let params = Params::new(setup.network, None);
        let (sources, stop) = ([setup.blocks.clone()], AtomicBool::new(false));
        let found = ChainBlocks::of_files(&sources, &[], &params, &stop, &mut Searching(say))?;
        let blocks = found.ok_or("the search for blocks was stopped")?;
        let wholeness = blocks.wholeness();
        if !wholeness.is_whole() {
            let reasons: Vec<String> = wholeness.reasons.iter().map(ToString::to_string).collect();
            return Err(format!("the block files do not hold a whole chain: {}", reasons.join("; ")).into());
        }
        let (best, network) = (blocks.height(), setup.network.name());
        let height = setup.to.unwrap_or(best);
        if best == 0 {
            return Err(format!("there are no blocks of the network {network} in the folder").into());
        }
        if height > best {
            return Err(format!("the blocks end at height {best}, below --to {height}").into());
        }
        let tip = blocks.hash(height)?.to_string();
        let bytes = (0..=height).map(|height| u64::from(blocks.length(height))).sum();
        say.line(&format!(
            "{network}: heights 0 to {height}, {:.2} GB",
            bytes as f64 / 1e9
        ));
        Ok(Self {
            blocks,
            height,
            tip,
            bytes,
        })
    }

    /// Writes the blocks, and no others, into a new folder: in the order of the chain, in files as
    /// Core's, without a key. All is on disk at the end, so that the first run does not wait for
    /// it.
    pub(super) fn copy(&self, folder: &Path, say: &Say<'_>) -> Result<(), Failure> {
        std::fs::create_dir_all(folder).map_err(at(folder))?;
        let magic = self.blocks.params().magic().0;
        let (mut number, mut written) = (0, 0);
        let mut file = new_file(folder, number)?;
        for height in 0..=self.height {
            if height % BLOCKS_AHEAD == 0 {
                self.blocks
                    .read_ahead(height..=height.saturating_add(BLOCKS_AHEAD).min(self.height));
            }
            let block = self.blocks.block(height)?;
            let bytes = block.bytes();
            let length = u32::try_from(bytes.len())?;
            let record = u64::from(length) + 8;
            if written > 0 && written + record > FILE_BYTES_MAX {
                finish(file)?;
                (number, written) = (number + 1, 0);
                file = new_file(folder, number)?;
            }
            for part in [&magic[..], &length.to_le_bytes(), bytes] {
                file.write_all(part).map_err(at(folder))?;
            }
            written += record;
            say.now_and_then(|| format!("copying blocks for bitcoind: height {height} of {}", self.height));
        }
        finish(file)
    }
}

fn new_file(folder: &Path, number: u32) -> Result<BufWriter<File>, Failure> {
    let path = folder.join(format!("blk{number:05}.dat"));
    Ok(BufWriter::with_capacity(
        1 << 20,
        File::create_new(&path).map_err(at(&path))?,
    ))
}

fn finish(file: BufWriter<File>) -> Result<(), Failure> {
    Ok(file.into_inner()?.sync_all()?)
}
