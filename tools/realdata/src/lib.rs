//! Real blocks, and answers of Bitcoin Core, for tests and benchmarks. They are no part of the
//! project, but in the folder `../shared/data` beside it. Where it is absent, the tests over it are
//! left out, and say so.

use blockmill_block::{Block, BlockUndo, Network};
use flate2::read::GzDecoder;
use serde_json::Value;
use std::error::Error;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Rows of the known full-block tests.
pub const FULL_BLOCK_ROWS: usize = 192;

/// A file or folder of `../shared/data`; none, with a message, where it is absent.
pub fn shared_data(name: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let path = folder.join(name);
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: ../shared/data/{name} is missing");
    None
}

/// A real block, with the coins that it spends.
#[derive(Debug)]
pub struct SingleBlock {
    /// As of its file: network and height.
    pub name: String,
    /// Its network.
    pub network: Network,
    /// Its height.
    pub height: u32,
    /// The file of the block, as on the wire.
    pub path: PathBuf,
    /// The block.
    pub block: Arc<Block>,
    /// The coins.
    pub undo: Arc<BlockUndo>,
    /// The coins, as they are in their file.
    pub undo_bytes: Vec<u8>,
}

impl SingleBlock {
    fn read(path: PathBuf) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let (network, height) = name.split_once('_').ok_or("the name is not NETWORK_HEIGHT")?;
        let undo_bytes = std::fs::read(path.with_extension("undo"))?;
        Ok(Self {
            network: network.parse()?,
            height: height.parse()?,
            block: Block::decode(std::fs::read(&path)?)?.into(),
            undo: BlockUndo::decode(&undo_bytes)?.into(),
            undo_bytes,
            name,
            path,
        })
    }
}

/// The blocks of a folder, by name.
///
/// # Errors
/// What cannot be read, with its path.
pub fn blocks_of(folder: &Path) -> Result<Vec<SingleBlock>, Box<dyn Error + Send + Sync>> {
    let mut blocks = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "raw") {
            let block = SingleBlock::read(path.clone());
            blocks.push(block.map_err(|error| format!("{}: {error}", path.display()))?);
        }
    }
    blocks.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(blocks)
}

/// The real blocks beside the project, by name; none, with a message, where they are absent.
///
/// # Panics
/// If one cannot be read, or some are missing.
pub fn real_blocks() -> Vec<SingleBlock> {
    let Some(folder) = shared_data("blocks") else {
        return Vec::new();
    };
    let blocks = blocks_of(&folder).expect("real blocks");
    assert!(blocks.len() >= 16, "{} blocks", blocks.len());
    blocks
}

/// The known full-block tests, in order: blocks good and bad, each with what Core says of it. None,
/// with a message, where they are absent.
///
/// # Panics
/// If they cannot be read, or some are missing.
pub fn full_block_rows() -> Option<Vec<Value>> {
    let packed = File::open(shared_data("conformance/fullblock.jsonl.gz")?).expect("packed rows");
    let mut text = String::new();
    GzDecoder::new(packed).read_to_string(&mut text).expect("rows");
    let rows: Result<Vec<_>, _> = text.lines().map(serde_json::from_str).collect();
    let rows = rows.expect("rows in JSON");
    assert_eq!(rows.len(), FULL_BLOCK_ROWS);
    Some(rows)
}

/// A text of a row; empty if it has none.
pub fn text_of<'r>(row: &'r Value, key: &str) -> &'r str {
    row[key].as_str().unwrap_or_default()
}

/// The block of a row in hex. One that does not decode has another key.
pub fn block_of(row: &Value) -> &str {
    row["block_hex"].as_str().unwrap_or_else(|| text_of(row, "raw_hex"))
}

/// Core's word for why it rejects a row's block: what stands before the first comma or parenthesis.
pub fn word_of(row: &Value) -> &str {
    let reason = text_of(row, "core_reject_reason");
    reason.split([',', '(']).next().unwrap_or_default().trim()
}
