//! Stores with damaged files: every call returns an error that says so, or the right answer, and
//! never panics.

use blockmill_block::{BlockHash, Coin, OutPoint, Txid};
use blockmill_coins::{Change, Changes, CoinStore, OwnedChange, StoreError, Tip};
use blockmill_store_redb::{RedbStore, is_panic_contained};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use tempfile::TempDir;

const PAGE: usize = 4096;

/// Number of damages. Each follows from its number.
const DAMAGES: u64 = 400;

/// A directory in memory if there is one, so that a sync takes no time.
fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        tempfile::tempdir_in(memory).unwrap()
    } else {
        tempfile::tempdir().unwrap()
    }
}

/// Silences panics that become errors, as the command does.
fn quiet() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !is_panic_contained() {
            hook(panic);
        }
    }));
}

/// Pseudorandom numbers from a seed (SplitMix64).
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

fn outpoint(number: u64) -> OutPoint {
    let mut rng = Rng(number);
    let mut txid = [0; 32];
    txid.chunks_mut(8)
        .for_each(|part| part.copy_from_slice(&rng.next().to_le_bytes()));
    OutPoint {
        txid: Txid(txid),
        vout: (number % 7) as u32,
    }
}

fn coin(number: u64) -> Coin {
    Coin {
        value: number as i64,
        height: 1 + (number % 100) as u32,
        is_coinbase: number.is_multiple_of(3),
        script_pubkey: vec![number as u8; (number % 90) as usize].into(),
    }
}

fn tip(number: u32) -> Tip {
    Tip {
        hash: BlockHash([number as u8; 32]),
        height: number,
    }
}

/// Changes sorted by key.
fn sorted(mut changes: Vec<OwnedChange>) -> Vec<OwnedChange> {
    changes.sort_by_key(|(outpoint, _)| (outpoint.txid.0, outpoint.vout));
    changes
}

/// Creates a store with several commits, which have left unused pages. Returns its content.
fn made(path: &Path) -> Vec<(OutPoint, Coin)> {
    let store = RedbStore::open(path, "regtest", 1 << 20).unwrap();
    for round in 0..4 {
        let new = (round * 1500..(round + 1) * 1500).map(|number| (outpoint(number), Some(coin(number))));
        let spent = (0..round * 1500)
            .filter(|number| number % 4 == round)
            .map(|number| (outpoint(number), None));
        store
            .commit(&sorted(new.chain(spent).collect()), &tip(100 + round as u32))
            .unwrap();
    }
    store.coins().unwrap().map(Result::unwrap).collect()
}

/// The file with one damage, and the name of the damage.
fn damaged(sound: &[u8], number: u64) -> (Vec<u8>, String) {
    let mut rng = Rng(number);
    let mut bytes = sound.to_vec();
    let pages = bytes.len() / PAGE;
    // The first pages, on which everything depends, more often than others.
    let page = if number.is_multiple_of(3) {
        rng.below(8)
    } else {
        rng.below(pages)
    };
    let range = page * PAGE..(page + 1) * PAGE;
    let kind = match rng.below(7) {
        0 => {
            bytes[range].fill(0);
            "zeros"
        }
        1 => {
            bytes[range].iter_mut().for_each(|byte| *byte = rng.next() as u8);
            "any bytes"
        }
        2 => {
            let other = rng.below(pages) * PAGE;
            let copy = bytes[other..other + PAGE].to_vec();
            bytes[range].copy_from_slice(&copy);
            "another page"
        }
        3 => {
            bytes.truncate(1 + rng.below(sound.len() - 1));
            "cut off"
        }
        4 => {
            // Most fields are here.
            let offset = range.start + rng.below(64);
            bytes[offset] = rng.next() as u8;
            "a byte of the head"
        }
        _ => {
            let offset = range.start + rng.below(PAGE);
            bytes[offset] ^= 1 << rng.below(8);
            "a bit"
        }
    };
    (bytes, format!("damage {number}: {kind}, page {page} of {pages}"))
}

/// Whether the pages are sound, and the content.
type Content = (bool, Option<Tip>, Vec<(OutPoint, Coin)>);

fn read_all(path: &Path) -> Result<Content, StoreError> {
    let mut store = RedbStore::open_to_read(path, Some("regtest"), 1 << 20)?;
    let sound = store.check_pages()?;
    let tip = store.tip()?;
    let coins = store.coins()?.collect::<Result<_, _>>()?;
    Ok((sound, tip, coins))
}

fn use_store(path: &Path) -> Result<(), StoreError> {
    let store = RedbStore::open(path, "regtest", 1 << 20)?;
    store.tip()?;
    for number in 0..500 {
        store.get(&outpoint(number * 11))?;
    }
    let coins = store.coins()?.try_for_each(|entry| entry.map(|_| ()));
    // Calls after an error must not panic either.
    let changes = (0..3000).map(|number| (outpoint(number), (number % 2 == 0).then(|| coin(number + 1))));
    let first = store.commit(&sorted(changes.collect()), &tip(104));
    let changes = (0..3000).map(|number| (outpoint(number), None));
    let second = store.commit(&sorted(changes.collect()), &tip(105));
    coins.and(first).and(second)
}

#[test]
fn damage_is_an_error_or_does_no_harm() {
    quiet();
    let directory = scratch();
    let path = directory.path().join("coins");
    let content = made(&path);
    let spent = |number: u64| (1..4).any(|round| number < round * 1500 && number % 4 == round);
    assert_eq!(content.len(), (0..6000).filter(|&number| !spent(number)).count());
    let sound = std::fs::read(&path).unwrap();
    let mut errors = 0;
    for number in 0..DAMAGES {
        let (bytes, name) = damaged(&sound, number);
        std::fs::write(&path, &bytes).unwrap();
        let looked = catch_unwind(AssertUnwindSafe(|| read_all(&path))).unwrap_or_else(|_| panic!("{name}: a panic"));
        assert!(std::fs::read(&path).unwrap() == bytes, "{name}: it was written to");
        match looked {
            Ok((false, ..)) => errors += 1,
            Ok((true, found, coins)) => {
                assert_eq!(found, Some(tip(103)), "{name}");
                assert!(coins == content, "{name}: sound, and other coins");
            }
            Err(error) => {
                assert!(error.is_corruption(), "{name}: {error}");
                assert!(error.to_string().contains("coins"), "{name}: {error}");
                errors += 1;
            }
        }
        let worked = catch_unwind(AssertUnwindSafe(|| use_store(&path))).unwrap_or_else(|_| panic!("{name}: a panic"));
        if let Err(error) = worked {
            assert!(error.is_corruption(), "{name}: {error}");
        }
    }
    eprintln!("{DAMAGES} damages, {errors} of them found");
    assert!(errors * 4 > DAMAGES, "{errors}");
}

#[test]
fn opening_to_read_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("coins");
    let content = made(&path);
    let before = std::fs::read(&path).unwrap();
    let (sound, found, coins) = read_all(&path).unwrap();
    assert!(sound && coins == content);
    assert_eq!(found, Some(tip(103)));
    // After a kill the file has to be repaired before it can be read.
    let store = RedbStore::open(&path, "regtest", 1 << 20).unwrap();
    let killed = directory.path().join("killed");
    std::fs::copy(&path, &killed).unwrap();
    let bytes = std::fs::read(&killed).unwrap();
    assert!(bytes != before);
    let (sound, _, coins) = read_all(&killed).unwrap();
    assert!(sound && coins == content);
    assert!(std::fs::read(&killed).unwrap() == bytes);
    drop(store);
    // A missing file is not created.
    let nothing = directory.path().join("nothing");
    assert!(matches!(
        RedbStore::open_to_read(&nothing, None, 1 << 20),
        Err(StoreError::Backend(_))
    ));
    assert!(!nothing.exists());
    let store = RedbStore::open_to_read(&path, None, 1 << 20).unwrap();
    assert_eq!(store.network(), "regtest");
}

#[test]
fn other_files_are_left_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("coins");
    let refused = || RedbStore::open(&path, "regtest", 1 << 20).err().expect("it is refused");
    std::os::unix::fs::symlink(directory.path().join("unmounted"), &path).unwrap();
    assert!(matches!(refused(), StoreError::Backend(text) if text.contains("symbolic link")));
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert!(matches!(refused(), StoreError::Backend(text) if text.contains("not a file")));
    std::fs::remove_dir(&path).unwrap();
    std::fs::write(&path, []).unwrap();
    assert!(matches!(refused(), StoreError::Corrupt(text) if text.contains("empty")));
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
}

/// Changes that cannot be visited.
struct Panics;

impl Changes for Panics {
    fn len(&self) -> usize {
        1
    }

    fn parts(&self) -> usize {
        1
    }

    fn visit(&self, _: usize, _: &mut dyn FnMut(Change<'_>)) {
        panic!("ours");
    }
}

#[test]
fn panics_of_the_caller_are_not_damage() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("coins");
    let content = made(&path);
    let store = RedbStore::open(&path, "regtest", 1 << 20).unwrap();
    let outcome = catch_unwind(AssertUnwindSafe(|| store.commit(&Panics, &tip(104))));
    assert_eq!(outcome.unwrap_err().downcast_ref(), Some(&"ours"));
    drop(store);
    let (_, found, coins) = read_all(&path).unwrap();
    assert_eq!(found, Some(tip(103)));
    assert!(coins == content);
}
