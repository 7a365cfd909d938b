//! An index over records: a word for each has a part of its hash, and its position.

use blockmill_wordtable::{Insertion, Shape, WordTable};
use std::hash::{BuildHasher, RandomState};

struct Dense;

impl Shape for Dense {
    const FREE_SHARE: usize = 16;
    const GROWTH_SHARE: usize = 16;
    const SPARE_SHARE: usize = 10;
}

fn main() {
    let records: Vec<String> = (0..100_000).map(|number| format!("record {number}")).collect();
    let key = RandomState::new();
    let tag = |record: &str| (key.hash_one(record) >> 32) as u32;

    let mut table = WordTable::<Dense>::default();
    for (position, record) in (0u64..).zip(&records) {
        let word = u64::from(tag(record)) << 32 | position;
        while table.insert(word) == Insertion::Full {
            table.grow();
        }
    }

    let wanted = "record 4711";
    // Other records may have the same tag, so the records decide.
    let found = table
        .with_tag(tag(wanted))
        .find(|&word| records[word as u32 as usize] == wanted);
    assert_eq!(found.map(|word| word as u32), Some(4711));
    let bytes = table.bytes() as f64 / table.len() as f64;
    println!("{} words, {bytes:.2} bytes each", table.len());
}
