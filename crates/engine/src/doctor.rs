//! Looking a data directory over: what is in it, whether it is whole and fits together, and what to do where it is not.
//!
//! Nothing is changed but what opening the store does after a kill. What is found is what can be seen without validating again: a set whose
//! coins are others, but sound by themselves, has another hash, which only the user can compare.

use crate::chain_log::{NO_UNDO, RECORD, decode};
use crate::data_dir::{DataDir, file_error};
use crate::error::EngineError;
use crate::index::{BlockId, HeaderIndex};
use crate::open::STORE_FILE;
use crate::report::Observer;
use blockmill_block::files::BlockFiles;
use blockmill_block::{Block, BlockHash};
use blockmill_coins::stats::Hashes;
use blockmill_coins::{CoinStore, EmbeddedStore, StatsBuilder, StoreError, Tip, UndoLog};
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Memory for pages of the store while it is read once, in bytes.
const STORE_CACHE: usize = 16 << 20;

/// Coins between looks whether to stop.
const COINS_PER_LOOK: u64 = 20_000;

/// Problems of one part that are named; there may be more.
const NAMED_MAX: usize = 5;

const MAX_MONEY: i64 = 21_000_000 * 100_000_000;

/// How a part of a data directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Health {
    /// As it should be.
    Sound,
    /// Not as it was left, in a way that does no harm: what a kill leaves.
    Harmless,
    /// Not what it should be.
    Damaged,
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sound => "sound",
            Self::Harmless => "harmless",
            Self::Damaged => "DAMAGED",
        })
    }
}

/// What was found of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The file or folder in the data directory.
    pub part: &'static str,
    /// How it is.
    pub health: Health,
    /// What was found, and where it is damaged what to do.
    pub detail: String,
}

/// All that was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings(pub Vec<Finding>);

impl Findings {
    fn add(&mut self, part: &'static str, health: Health, detail: impl Into<String>) {
        self.0.push(Finding {
            part,
            health,
            detail: detail.into(),
        });
    }

    /// Whether nothing is damaged.
    pub fn is_sound(&self) -> bool {
        self.0.iter().all(|finding| finding.health != Health::Damaged)
    }
}

const NEW_DIRECTORY: &str = "connect into a new data directory";

/// Looks a data directory over. Stops early, without a word on what was not looked at, when `stop` is set.
///
/// # Errors
/// [`EngineError`] where the directory cannot be opened, or its files cannot be read; damage is no error.
pub fn examine(path: &Path, stop: &AtomicBool, observer: &mut dyn Observer) -> Result<Findings, EngineError> {
    let directory = DataDir::open(path, None)?;
    let mut findings = Findings::default();
    let marks = directory.marks().text();
    findings.add("meta.json", Health::Sound, format!("a data directory for {marks}"));
    let mut index = HeaderIndex::new(directory.marks().params());
    let undo = examine_headers(&directory, &mut index, &mut findings)?;
    let tip = examine_store(&directory, stop, observer, &mut findings)?;
    if !stop.load(Ordering::Relaxed) {
        examine_chain(&directory, &index, tip.as_ref(), &mut findings);
        examine_undo(&directory, &index, tip.as_ref(), undo, stop, &mut findings)?;
        examine_blocks(&directory, stop, &mut findings)?;
    }
    Ok(findings)
}

/// A list of problems as one text: the first few, and how many more there are.
fn listed(problems: &[String]) -> String {
    let named = problems.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join("; ");
    match problems.len().checked_sub(NAMED_MAX).filter(|&more| more > 0) {
        Some(more) => format!("{named}; and {more} more"),
        None => named,
    }
}

/// Reads the headers into the index. Returns the largest end of undo data that one names.
fn examine_headers(directory: &DataDir, index: &mut HeaderIndex, findings: &mut Findings) -> Result<u64, EngineError> {
    const PART: &str = "headers.dat";
    let path = directory.file(PART);
    let bytes = match std::fs::read(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        read => read.map_err(file_error(&path))?,
    };
    let mut count: u64 = 0;
    let mut undo_end = 0;
    for record in bytes.chunks(RECORD) {
        let Some((header, position)) = decode(record) else {
            break;
        };
        let Some(id) = index.insert_trusted(&header, header.hash()) else {
            let offset = count * RECORD as u64;
            let detail = format!(
                "offset {offset}: the parent of block {} is missing: {NEW_DIRECTORY}",
                header.hash()
            );
            findings.add(PART, Health::Damaged, detail);
            return Ok(undo_end);
        };
        if position != NO_UNDO {
            index.set_undo(id, position);
            undo_end = position.end().unwrap_or(u64::MAX).max(undo_end);
        }
        count += 1;
    }
    let behind = bytes.len() as u64 - count * RECORD as u64;
    if behind == 0 {
        findings.add(PART, Health::Sound, format!("{count} headers"));
    } else {
        // Whether it is more than that shows when the headers of the chain are looked for.
        let detail = format!("{count} headers, and {behind} bytes behind them, as a kill leaves them");
        findings.add(PART, Health::Harmless, detail);
    }
    Ok(undo_end)
}

/// Reads the whole store.
fn examine_store(
    directory: &DataDir,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
    findings: &mut Findings,
) -> Result<Option<Tip>, EngineError> {
    let path = directory.file(STORE_FILE);
    if !path.exists() {
        findings.add(STORE_FILE, Health::Sound, "not there yet: nothing was connected");
        return Ok(None);
    }
    let mut store = match EmbeddedStore::open(&path, &directory.marks().text(), STORE_CACHE) {
        Ok(store) => store,
        Err(error) => {
            findings.add(STORE_FILE, Health::Damaged, format!("{error}: {NEW_DIRECTORY}"));
            return Ok(None);
        }
    };
    let mut problems = Vec::new();
    match store.check_pages() {
        Ok(true) => {}
        Ok(false) => problems.push("a page is not what was written".to_owned()),
        Err(error) => problems.push(error.to_string()),
    }
    let tip = match store.tip() {
        Ok(tip) => tip,
        Err(error) => {
            problems.push(error.to_string());
            None
        }
    };
    let figures = match read_coins(&store, tip.as_ref(), stop, observer, &mut problems) {
        Ok(figures) => figures,
        Err(error) => {
            problems.push(error.to_string());
            String::new()
        }
    };
    if problems.is_empty() {
        findings.add(STORE_FILE, Health::Sound, figures);
    } else {
        let detail = format!("{}: {NEW_DIRECTORY}", listed(&problems));
        findings.add(STORE_FILE, Health::Damaged, detail);
    }
    Ok(tip)
}

/// Reads all coins, and says what they come to.
fn read_coins(
    store: &EmbeddedStore,
    tip: Option<&Tip>,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
    problems: &mut Vec<String>,
) -> Result<String, StoreError> {
    let nowhere = Tip {
        hash: BlockHash::ZERO,
        height: 0,
    };
    let tip = tip.unwrap_or(&nowhere);
    let mut stats = StatsBuilder::new(Hashes::Serialized);
    let mut previous = None;
    for (number, entry) in (1u64..).zip(store.coins()?) {
        let (outpoint, coin) = match entry {
            Ok(entry) => entry,
            // The next ones may be sound.
            Err(error @ StoreError::Damaged { .. }) => {
                problems.push(error.to_string());
                continue;
            }
            Err(error) => return Err(error),
        };
        if previous.is_some_and(|previous| previous >= outpoint) {
            problems.push(format!("coin {outpoint} is out of order"));
        }
        if coin.height > tip.height {
            problems.push(format!("coin {outpoint} has height {}, above the tip", coin.height));
        }
        if !(0..=MAX_MONEY).contains(&coin.value) {
            problems.push(format!("coin {outpoint} has the amount {}", coin.value));
        }
        stats.add(&outpoint, &coin);
        previous = Some(outpoint);
        if number % COINS_PER_LOOK == 0 {
            if stop.load(Ordering::Relaxed) {
                return Ok("stopped".to_owned());
            }
            let share = f64::from(u16::from_be_bytes([outpoint.txid.0[0], outpoint.txid.0[1]])) / 65_536.0;
            observer.coins(number, share);
        }
    }
    let stats = stats.finish(tip);
    Ok(format!(
        "{} coins at block {} (height {}), hash_serialized_3 {}",
        stats.txouts, tip.hash, tip.height, stats.hash_serialized_3
    ))
}

/// The blocks of the active chain above a snapshot, the tip first; none if the tip is not among the headers.
fn active_chain(directory: &DataDir, index: &HeaderIndex, tip: Option<&Tip>) -> Option<Vec<BlockId>> {
    let Some(tip) = tip else { return Some(Vec::new()) };
    let first = directory.snapshot().map_or(1, |mark| mark.height + 1);
    let mut next = index.find(&tip.hash);
    next?;
    let mut chain = Vec::new();
    while let Some(id) = next.filter(|&id| index.entry(id).height >= first) {
        chain.push(id);
        next = index.entry(id).parent;
    }
    Some(chain)
}

fn examine_chain(directory: &DataDir, index: &HeaderIndex, tip: Option<&Tip>, findings: &mut Findings) {
    const PART: &str = "headers.dat";
    let Some(tip) = tip else { return };
    match index.find(&tip.hash) {
        None => {
            let detail = format!(
                "the header of the tip {} (height {}) is missing: {NEW_DIRECTORY}",
                tip.hash, tip.height
            );
            findings.add(PART, Health::Damaged, detail);
        }
        Some(id) if index.entry(id).height != tip.height => {
            let detail = format!(
                "the tip {} has height {} here, and {} in the store: {NEW_DIRECTORY}",
                tip.hash,
                index.entry(id).height,
                tip.height
            );
            findings.add(PART, Health::Damaged, detail);
        }
        Some(_) => {
            let validated = match directory.snapshot() {
                Some(mark) => format!("validated above height {}, where a snapshot was loaded", mark.height),
                None => "validated from the first block on".to_owned(),
            };
            findings.add(PART, Health::Sound, format!("all headers up to the tip; {validated}"));
        }
    }
}

/// Reads the undo data of the active chain, which a reorganisation needs.
fn examine_undo(
    directory: &DataDir,
    index: &HeaderIndex,
    tip: Option<&Tip>,
    known_end: u64,
    stop: &AtomicBool,
    findings: &mut Findings,
) -> Result<(), EngineError> {
    const PART: &str = "undo.dat";
    let Some(chain) = active_chain(directory, index, tip) else {
        return Ok(());
    };
    let path = directory.file(PART);
    let length = match std::fs::metadata(&path) {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => 0,
        Err(error) => return Err(file_error(path)(error)),
    };
    let mut problems = Vec::new();
    let mut highest = 0;
    if length > 0 {
        let log = UndoLog::open(&path, 0)?;
        let magic = directory.marks().params().magic();
        for &id in &chain {
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let entry = index.entry(id);
            let problem = match entry.undo() {
                None => Some("there is none".to_owned()),
                Some(undo) => log
                    .read(magic, &index.header(id).prev_block_hash, &undo)
                    .err()
                    .map(|error| format!("offset {}: {error}", undo.offset)),
            };
            if let Some(problem) = problem {
                highest = highest.max(entry.height);
                problems.push(format!(
                    "undo data of block {} (height {}): {problem}",
                    entry.hash, entry.height
                ));
            }
        }
    } else if let Some(&first) = chain.first() {
        highest = index.entry(first).height;
        problems.push("it is not there".to_owned());
    }
    if !problems.is_empty() {
        let detail = format!(
            "{}: no branch from below height {highest} can be taken; to be able to, {NEW_DIRECTORY}",
            listed(&problems)
        );
        findings.add(PART, Health::Damaged, detail);
    } else if length > known_end {
        let behind = length - known_end;
        let detail = format!(
            "undo data of {} blocks, and {behind} bytes behind it, as a kill leaves them",
            chain.len()
        );
        findings.add(PART, Health::Harmless, detail);
    } else {
        findings.add(PART, Health::Sound, format!("undo data of {} blocks", chain.len()));
    }
    Ok(())
}

/// Reads the blocks that were submitted.
fn examine_blocks(directory: &DataDir, stop: &AtomicBool, findings: &mut Findings) -> Result<(), EngineError> {
    const PART: &str = "blocks/";
    let folder = directory.file("blocks");
    if !folder.join("blk00000.dat").is_file() {
        return Ok(());
    }
    let magic = directory.marks().params().magic();
    let mut files = BlockFiles::new();
    let (mut problems, mut unfinished, mut count) = (Vec::new(), 0, 0);
    for file in files.add(&folder)? {
        let scan = files.scan(file, magic)?;
        for damage in &scan.damages {
            if damage.is_unfinished_write() {
                unfinished += 1;
            } else {
                problems.push(damage.to_string());
            }
        }
        for record in scan.records {
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            count += 1;
            let bytes = files.read(&record.position)?;
            let problem = match Block::decode(&bytes[..]) {
                Err(error) => error.to_string(),
                Ok(block) if block.merkle_root().hash != block.header().merkle_root.0 => {
                    "its transactions are not those of its header".to_owned()
                }
                Ok(_) => continue,
            };
            let path = files.path(file).display();
            problems.push(format!(
                "{path}: offset {}: block {}: {problem}",
                record.position.offset, record.hash
            ));
        }
    }
    if !problems.is_empty() {
        let detail = format!("{}: submit these blocks again", listed(&problems));
        findings.add(PART, Health::Damaged, detail);
    } else if unfinished > 0 {
        let detail = format!("{count} blocks, and a record that is cut off, as a kill leaves it");
        findings.add(PART, Health::Harmless, detail);
    } else {
        findings.add(PART, Health::Sound, format!("{count} blocks"));
    }
    Ok(())
}
