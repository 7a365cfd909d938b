//! When `doctor` is stopped, it calls only those parts sound that it has looked at.

use crate::common::{self, Chain, LARGE, STORE, options, write_blocks};
use blockmill_block::{Coin, OutPoint, Txid};
use blockmill_engine::datadir::store_file::open_store;
use blockmill_engine::inspect::doctor::{Findings, Health, examine};
use blockmill_engine::{DataDir, Event, Observer};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

fn health(findings: &Findings, part: &str) -> Health {
    let of_part = findings.0.iter().filter(|finding| finding.part == part);
    of_part
        .map(|finding| finding.health)
        .max_by_key(|health| *health as u8)
        .unwrap()
}

fn made(folder: &Path) -> PathBuf {
    let chain = Chain::of(20);
    let blocks = write_blocks(&folder.join("blocks.dat"), &chain.blocks);
    let data = folder.join("data");
    let mut engine = common::open(&data, options(1, LARGE));
    engine.connect(&[blocks], &mut ()).unwrap();
    data
}

#[test]
fn what_was_not_looked_at_is_not_called_sound() {
    let folder = tempfile::tempdir().unwrap();
    let data = made(folder.path());
    let look = |stopped| examine(&data, &AtomicBool::new(stopped), &mut ()).unwrap();
    let sound = look(false);
    assert_eq!(sound.is_sound(), Some(true));
    let stopped = look(true);
    assert_eq!(stopped.is_sound(), None);
    for part in [STORE, "undo.dat"] {
        assert_eq!(health(&stopped, part), Health::NotExamined, "{stopped:?}");
    }
    // What was found before counts.
    std::fs::write(data.join("meta.json"), "{").unwrap();
    let damaged = look(true);
    assert_eq!(damaged.is_sound(), Some(false));
    assert_eq!(health(&damaged, "meta.json"), Health::Damaged);
}

/// Stops at the first report of progress.
struct StopAtOnce<'a>(&'a AtomicBool);

impl Observer for StopAtOnce<'_> {
    fn event(&mut self, event: &Event<'_>) {
        self.0.fetch_or(matches!(event, Event::Coins { .. }), Ordering::Relaxed);
    }
}

#[test]
fn a_stop_in_the_middle_of_the_coins_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let data = made(folder.path());
    let coin = |height: u32| Coin {
        value: 5,
        height,
        is_coinbase: false,
        script_pubkey: [0x51].into(),
    };
    let fill = |height| {
        let store = open_store(&DataDir::open(&data, None).unwrap(), Default::default()).unwrap();
        let tip = store.tip().unwrap().unwrap();
        let changes = (0..50_000).map(|vout| {
            let outpoint = OutPoint {
                txid: Txid([7; 32]),
                vout,
            };
            (outpoint, Some(coin(height)))
        });
        store.commit(&changes.collect::<Vec<_>>(), &tip).unwrap();
    };
    let look = || {
        let stop = AtomicBool::new(false);
        examine(&data, &stop, &mut StopAtOnce(&stop)).unwrap()
    };
    fill(3);
    let stopped = look();
    assert_eq!(stopped.is_sound(), None, "{stopped:?}");
    assert_eq!(health(&stopped, STORE), Health::NotExamined);
    assert!(stopped.0.iter().any(|finding| finding.detail.contains("stopped after")));
    // What is wrong among the coins that it has seen counts, and only the first problems are named.
    fill(3000);
    let damaged = look();
    assert_eq!(damaged.is_sound(), Some(false));
    let detail = &damaged.0.iter().find(|finding| finding.part == STORE).unwrap().detail;
    assert!(
        detail.contains("above the tip") && detail.contains("more") && detail.len() < 2000,
        "{detail}"
    );
}
