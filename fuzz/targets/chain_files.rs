//! The input describes pairs of `blk*.dat` and `rev*.dat`: a short chain whose coins can be spent,
//! further blocks of which some break rules, copies with other content, records that are cut or
//! state another length, undo data that is false, damaged or another block's, and other bytes.
//!
//! They go through what `verify --blocks`, `export blocks`, `audit` and `connect` do, with scripts
//! that are all valid.
//!
//! Checked:
//! - nothing panics, and the memory of each stays below a fixed multiple of the files;
//! - a block that is verified has the content of its header;
//! - `verify` and `export` say the same of the chain's wholeness;
//! - if every block is verified and every undo record is true, `connect` comes to the same tip, and
//!   says of the wholeness what `verify` does;
//! - an audit proves the chain's set then, and never another one.
//!
//! Readers of block files take the chain that the node has connected, as undo data shows it.
//! `connect` validates blocks instead, so it may end on another branch of equal work, in which some
//! block has no undo data.
//!
//! Not compared with `connect` is a chain with false undo data, or with that of siblings, which
//! have the same parent: undo data is taken for true by all but the audit.

#![no_main]

use blockmill_audit::{Auditor, Key, Sources, Verdict};
use blockmill_block::{Coin, OutPoint};
use blockmill_chain::{ChainBlocks, RunOutcome, Signatures, SpendingBlock};
use blockmill_checks::verify_blocks::{Problem, Unverified};
use blockmill_checks::verify_files::{FilesOptions, FilesReport, verify_files};
use blockmill_coins::{CoinStore, MemoryStore, Tip, write_snapshot};
use blockmill_engine::{Engine, Options};
use blockmill_fuzz::accept_all::AcceptAll;
use blockmill_fuzz::block_content::is_own_content;
use blockmill_fuzz::block_tree::{PARAMS, Rules, outputs_of};
use blockmill_fuzz::file_pairs::Pairs;
use blockmill_fuzz::input::Input;
use blockmill_fuzz::memory::peak_of;
use blockmill_fuzz::scratch::SCRATCH;
use libfuzzer_sys::fuzz_target;
use peak_alloc::PeakAlloc;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Peak of allocated bytes for a byte of the files.
const PEAK_PER_BYTE: usize = 16;

/// Bytes allocated for files that are empty: windows of reads.
const READ_PEAK_BASE: usize = 1 << 18;

/// As [`READ_PEAK_BASE`], for an audit: buffers for the snapshot.
const AUDIT_PEAK_BASE: usize = 2 << 20;

/// As [`READ_PEAK_BASE`], for an engine: its tables, and its memory for coins.
const ENGINE_PEAK_BASE: usize = 8 << 20;

static VERIFIER: LazyLock<Arc<AcceptAll>> = LazyLock::new(|| Arc::new(AcceptAll));

static GO_ON: AtomicBool = AtomicBool::new(false);

/// The coins after a chain, by its blocks alone.
#[derive(Default)]
struct Replayed {
    coins: BTreeMap<OutPoint, Coin>,
    /// Whether all coins that are spent are there.
    has_coins: bool,
}

fn replay(blocks: &[SpendingBlock]) -> Replayed {
    let mut replayed = Replayed {
        has_coins: true,
        ..Replayed::default()
    };
    // The coin of the first block is in no set.
    for SpendingBlock { block, height, .. } in blocks.iter().filter(|block| block.height > 0) {
        for transaction in block.transactions() {
            for input in transaction.inputs().filter(|_| !transaction.is_coinbase()) {
                replayed.has_coins &= replayed.coins.remove(&input.previous_output()).is_some();
            }
            replayed
                .coins
                .extend(outputs_of(transaction, *height, transaction.is_coinbase()));
        }
    }
    replayed
}

/// Does work that reads the files, within the bounds of memory.
fn bounded<T>(name: &str, base: usize, files: usize, work: impl FnOnce() -> T) -> T {
    let (done, peak) = peak_of(work);
    assert!(peak <= PEAK_PER_BYTE * files + base, "{name}: {peak} bytes for {files}");
    done
}

/// What `export blocks` does.
struct Exported {
    blocks: ChainBlocks,
    /// By height, as far as they can be read from the first one on.
    read: Vec<SpendingBlock>,
}

fn export(sources: &[PathBuf], threads: usize) -> Exported {
    let mut blocks = ChainBlocks::of_files(sources, &[], &PARAMS, &GO_ON, &mut ())
        .expect("the files can be read")
        .expect("nobody stops it");
    loop {
        for height in 0..=blocks.height() {
            // What cannot be read may hide others, too.
            let _ = blocks.block(height);
        }
        let hidden = blocks.find_hidden(&GO_ON).expect("the files can be read");
        if hidden.expect("nobody stops it").is_whole() {
            break;
        }
        let again = blocks.with_hidden(sources, &[], &GO_ON, &mut ());
        blocks = again.expect("the files can be read").expect("nobody stops it");
    }
    let heights = 0..=blocks.height();
    let last = blocks.last_with_undo(1.min(blocks.height())..=blocks.height());
    assert!(last <= blocks.height());
    let read: Vec<SpendingBlock> = blocks.iter(heights.clone()).skip(1).map_while(Result::ok).collect();
    let mut in_runs = 0;
    let convert = |heights| {
        blocks
            .iter(heights)
            .filter(|block| block.as_ref().map_or(true, |block| block.height > 0))
            .collect()
    };
    let run: Result<(), _> =
        blocks.for_each_run(heights, 1 << 12, threads, &convert, &mut |run: Vec<SpendingBlock>| {
            for block in run {
                assert_eq!(block.block.bytes(), read[in_runs].block.bytes());
                assert_eq!(block.undo, read[in_runs].undo);
                in_runs += 1;
            }
            Ok(())
        });
    let _ = run;
    Exported { blocks, read }
}

/// Checks that what is verified has the content of its header, and that both agree.
fn compare(report: &FilesReport, exported: &Exported) {
    let Exported { blocks, read } = exported;
    let last = blocks.height() - report.without_undo_yet;
    let is_verified = |height: u32| {
        let found = report
            .unverified
            .binary_search_by_key(&height, |unverified| unverified.height);
        height <= last && found.is_err()
    };
    let verified = (1..=last).filter(|&height| is_verified(height));
    assert_eq!(verified.clone().count() as u64, report.totals.blocks);
    for height in verified {
        let block = blocks.block(height).expect("a block that is verified can be read");
        assert_eq!(block.hash(), blocks.hash(height).expect("it is in the chain"));
        assert!(
            is_own_content(&block),
            "height {height} is verified with content of another"
        );
    }
    assert!(read.len() >= (1..=last).take_while(|&height| is_verified(height)).count());
    let is_bad = |unverified: &Unverified| matches!(unverified.problem, Problem::Reject(_) | Problem::Unreadable(_));
    assert_eq!(
        report.wholeness.is_whole(),
        blocks.wholeness().is_whole() && !report.unverified.iter().any(is_bad),
        "{:?} {:?}",
        blocks.wholeness(),
        report
    );
}

/// Writes a snapshot of coins at the end of a chain.
fn dump(blocks: &ChainBlocks, coins: &BTreeMap<OutPoint, Coin>) -> PathBuf {
    let path = SCRATCH.join("utxo.dat");
    let tip = Tip {
        hash: blocks.hash(blocks.height()).expect("it is the last one"),
        height: blocks.height(),
    };
    let entries = coins.iter().map(|(outpoint, coin)| Ok((*outpoint, coin.clone())));
    let mut file = File::create(&path).expect("files can be written");
    write_snapshot(&mut file, PARAMS.magic(), &tip, entries, |_, _| ()).expect("the snapshot can be written");
    path
}

/// Audits a snapshot. Returns whether it is proved.
fn audit(sources: &[PathBuf], blocks: &ChainBlocks, snapshot: &Path, threads: usize) -> bool {
    let auditor = Auditor::new(&*VERIFIER, threads, Signatures::Auto, &GO_ON);
    let key = Key::from_secret(&[7; 96]).expect("it is long enough");
    let part = auditor.part(blocks, &key, 0..=blocks.height(), &mut ());
    let part = part.expect("the files can be read");
    let sources = Sources {
        blocks: sources,
        headers: &[],
        params: &PARAMS,
    };
    let report = auditor
        .files(&sources, snapshot, None, &mut ())
        .expect("the files can be read");
    let is_proved = report.verdict == Verdict::Proved;
    assert!(!is_proved || (part.part.is_some() && part.unreadable.is_empty()));
    is_proved
}

fn connect(sources: &[PathBuf], threads: usize) -> (blockmill_engine::ConnectReport, BTreeMap<OutPoint, Coin>) {
    let data = SCRATCH.join("data");
    let store = Arc::new(MemoryStore::new());
    let options = Options {
        threads,
        cache_bytes_max: 1 << 20,
        readers: 1,
        ..Options::default()
    };
    let builder = Engine::builder(&data).network(PARAMS.network).options(options);
    let mut engine = builder
        .store(Arc::<MemoryStore>::clone(&store))
        .open(AcceptAll)
        .expect("the directory is new");
    let report = engine.connect(sources, &mut ()).expect("the files can be read");
    drop(engine);
    std::fs::remove_dir_all(&data).expect("the directory can be removed");
    let coins: Result<_, _> = store.coins().expect("a list").collect();
    (report, coins.expect("memory can be read"))
}

fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let flags = input.u8();
    let mut pairs = Pairs::new(&mut input, Rules::Any, flags & 1 == 0);
    pairs.put_pieces(&mut input);
    let folder = pairs.write();
    let (length, sources) = (pairs.length(), [folder]);
    let threads = 1 + usize::from(flags >> 1 & 1);
    let options = |only| FilesOptions {
        only,
        threads,
        signatures: Signatures::Auto,
    };
    let verify = |only| verify_files(&sources, &PARAMS, options(only), &VERIFIER, &GO_ON, &mut ());
    let report = bounded("verify", READ_PEAK_BASE, length, || verify(None)).expect("the files can be read");
    assert_eq!(report.stopped, None);
    let only = pairs.tree.nodes[pairs.tree.pick(flags >> 4)].hash;
    let _ = verify(Some(only));
    let exported = bounded("export", READ_PEAK_BASE, length, || export(&sources, threads));
    compare(&report, &exported);

    let height = exported.blocks.height();
    let replayed = replay(&exported.read);
    let is_verified = report.unverified.is_empty() && report.without_undo_yet == 0;
    let mut coins = replayed.coins.clone();
    let is_changed = flags & 4 != 0 && coins.pop_last().is_some();
    let snapshot = dump(&exported.blocks, &coins);
    let is_proved = bounded("audit", AUDIT_PEAK_BASE, length, || {
        audit(&sources, &exported.blocks, &snapshot, threads)
    });
    let is_sound = is_verified && pairs.is_truthful;
    assert!(
        !is_proved || (replayed.has_coins && !is_changed),
        "a set is proved that is none"
    );
    let is_whole = report.wholeness.is_whole();
    assert!(
        is_proved || is_changed || !is_sound || !is_whole,
        "a true set is not proved"
    );
    assert!(is_whole || !is_proved, "files that are not whole prove a set");
    if !is_proved && !is_sound && flags & 8 == 0 {
        return;
    }
    let (connected, coins) = bounded("connect", ENGINE_PEAK_BASE, length, || connect(&sources, threads));
    let tip = exported.blocks.hash(height).expect("it is the last one");
    if (is_proved || is_sound) && connected.tip != tip {
        assert!(!pairs.has_undo_up_to(&connected.tip));
        return;
    }
    if is_proved || is_sound {
        assert_eq!(connected.height, height);
        assert_eq!(coins, replayed.coins);
    }
    if is_sound {
        let is_complete = connected.outcome() == RunOutcome::Complete;
        assert_eq!(
            is_complete,
            is_whole,
            "{:?} {:?}",
            connected.wholeness(),
            report.wholeness
        );
    }
}

fuzz_target!(|data: &[u8]| run(data));
