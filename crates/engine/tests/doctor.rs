//! `doctor` that is stopped: what it has not looked at is not called sound.

mod common;

use blockmill_engine::Quiet;
use blockmill_engine::doctor::{Findings, Health, examine};
use common::{Chain, LARGE, options, write_blocks};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

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
    engine.connect(&[blocks], &mut Quiet).unwrap();
    data
}

#[test]
fn what_was_not_looked_at_is_not_called_sound() {
    let folder = tempfile::tempdir().unwrap();
    let data = made(folder.path());
    let look = |stopped| examine(&data, &AtomicBool::new(stopped), &mut Quiet).unwrap();
    let sound = look(false);
    assert_eq!((sound.is_sound(), sound.exit_status()), (Some(true), 0));
    let stopped = look(true);
    assert_eq!((stopped.is_sound(), stopped.exit_status()), (None, 0));
    for part in ["coins.redb", "undo.dat"] {
        assert_eq!(health(&stopped, part), Health::NotExamined, "{stopped:?}");
    }
    // What was found before counts.
    std::fs::write(data.join("meta.json"), "{").unwrap();
    let damaged = look(true);
    assert_eq!((damaged.is_sound(), damaged.exit_status()), (Some(false), 3));
    assert_eq!(health(&damaged, "meta.json"), Health::Damaged);
}
