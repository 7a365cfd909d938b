//! The claims, computed from the rows.

use super::contender::Contender;
use super::plan::{MIXED, MIXED_SMALL, UTXO, UTXO_ASSUMED, UTXO_BIG, UTXO_SMALL};
use super::rows::Row;
use crate::report::Target;

/// The least ratio with signatures in lanes that the target asks for.
const LANES_WANTED: f64 = 4.0;

/// All claims about rows that are there.
pub(super) fn targets(rows: &[Row]) -> Vec<Target> {
    let rows = Rows(rows);
    let mut targets = vec![Target::holds(
        "same tip as bitcoinkernel on every chain",
        same_tip(rows.0),
    )];
    targets.extend(over_the_kernel(rows));
    targets.extend(of_threads(rows));
    targets.extend(over_bitcoind(rows));
    targets.extend(of_small_blocks(rows));
    targets.extend(of_resolving(rows));
    targets
}

#[derive(Clone, Copy)]
struct Rows<'r>(&'r [Row]);

impl Rows<'_> {
    fn find(&self, contender: Contender, chain: &str, threads: usize) -> Option<&Row> {
        let mut rows = self.0.iter();
        rows.find(|row| (row.chain, row.engine, row.threads) == (chain, contender.name(), threads))
    }

    fn ratio(&self, contender: Contender, chain: &str, threads: usize) -> Option<f64> {
        self.find(contender, chain, threads).and_then(|row| row.ratio)
    }
}

fn over_the_kernel(rows: Rows<'_>) -> Vec<Target> {
    let claims = [
        (Contender::Blockmill, MIXED, 2, 1.2),
        (Contender::Lanes, MIXED, 1, LANES_WANTED),
        (Contender::Lanes, MIXED, 2, LANES_WANTED),
        (Contender::Blockmill, UTXO, 1, 2.0),
        (Contender::Blockmill, UTXO, 2, 6.0),
    ];
    let mut targets = Vec::new();
    for (contender, chain, threads, wanted) in claims {
        if let Some(ratio) = rows.ratio(contender, chain, threads) {
            let lanes = if contender == Contender::Lanes {
                ", signatures lanes"
            } else {
                ""
            };
            let name = format!("{chain}, {threads} threads{lanes}: the kernel's seconds over ours");
            targets.push(Target::at_least(&name, ratio, wanted));
        }
    }
    targets
}

fn of_threads(rows: Rows<'_>) -> Vec<Target> {
    let mut targets = Vec::new();
    let mixed = rows.find(Contender::Blockmill, MIXED, 2);
    if let Some(percent) = mixed.and_then(|row| row.at_work_percent) {
        targets.push(Target::at_least(
            "mixed, 2 threads: each at work, percent",
            percent,
            97.0,
        ));
    }
    if let Some(percent) = mixed.and_then(|row| row.bound_percent) {
        let name = "mixed, 2 threads: CPU seconds of all stages alone, divided by the cores, in percent of the seconds";
        targets.push(Target::at_least(name, percent, 95.0));
    }
    targets
}

fn over_bitcoind(rows: Rows<'_>) -> Vec<Target> {
    let mut targets = Vec::new();
    let assumed = rows
        .0
        .iter()
        .filter(|row| row.chain == UTXO_ASSUMED && row.engine == Contender::BlockmillAssuming.name());
    for row in assumed {
        if let Some(ratio) = row.ratio {
            let name = format!("{UTXO_ASSUMED}, {} threads: bitcoind's seconds over ours", row.threads);
            targets.push(Target::at_least(&name, ratio, 8.0));
        }
    }
    // Without the daemon the big chain's ratio is to the kernel.
    let has_daemon = rows.find(Contender::Bitcoind, UTXO_BIG, 2).is_some();
    if let Some(ratio) = rows.ratio(Contender::Blockmill, UTXO_BIG, 2).filter(|_| has_daemon) {
        let name = format!("{UTXO_BIG}, 2 threads: bitcoind's seconds over ours");
        targets.push(Target::at_least(&name, ratio, 6.0));
    }
    targets
}

fn of_small_blocks(rows: Rows<'_>) -> Vec<Target> {
    let mut targets = Vec::new();
    let ratio = |chain| rows.ratio(Contender::Blockmill, chain, 2);
    for (small, large) in [(MIXED_SMALL, MIXED), (UTXO_SMALL, UTXO)] {
        if let (Some(small_ratio), Some(large_ratio)) = (ratio(small), ratio(large)) {
            let name = format!("{small}, 2 threads: as far ahead as with big blocks");
            targets.push(Target::at_least(&name, small_ratio / large_ratio, 1.0));
        }
    }
    targets
}

fn of_resolving(rows: Rows<'_>) -> Vec<Target> {
    let mut targets = Vec::new();
    let utxo = |threads| rows.find(Contender::Blockmill, UTXO, threads);
    if let Some(cost) = utxo(1).and_then(|row| row.resolve_us_per_input) {
        let name = "utxo, 1 thread: microseconds of resolving for each input";
        targets.push(Target::at_most(name, cost, 0.35));
    }
    let seconds = |threads| utxo(threads).and_then(|row| row.resolve_seconds);
    if let (Some(one), Some(two)) = (seconds(1), seconds(2)) {
        let name = "utxo: seconds of resolving with 1 thread over those with 2, in runs with a trace";
        targets.push(Target::at_least(name, one / two, 1.8));
    }
    if let Some(most) = rows.0.iter().filter_map(|row| row.serial_replays).max() {
        let name = "windows of valid blocks that were resolved again";
        targets.push(Target::at_most(name, most as f64, 0.0));
    }
    targets
}

/// Whether ours and the kernel have rows, and all rows of a chain have the same tip.
pub(super) fn same_tip(rows: &[Row]) -> bool {
    let has = |contender: &Contender| rows.iter().any(|row| row.engine == contender.name());
    has(&Contender::Blockmill)
        && has(&Contender::Bitcoinkernel)
        && rows
            .windows(2)
            .all(|pair| pair[0].chain != pair[1].chain || pair[0].tip == pair[1].tip)
}
