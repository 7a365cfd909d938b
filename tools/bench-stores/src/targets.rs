//! What the coin log has to reach beside the other stores. A target whose figures were not measured
//! in this run is left out. The figures are meant for 50 million coins, flushes of a million
//! changes, 50 of them, and an idle machine of 2 cores.

use crate::Work;
use serde_json::{Value, json};

/// The store that has targets.
const STORE: &str = "log";

/// How many times cheaper than its peers a flush must be.
const FLUSH_PARTS: [(&str, f64); 5] = [
    ("redb", 30.0),
    ("lmdb", 15.0),
    ("rocksdb", 5.0),
    ("rocksdb-ingest", 5.0),
    ("leveldb", 5.0),
];

const FLUSH_CPU: &str = "/flush/cpu_seconds_per_commit";
const READ_WARM: &str = "/read/rows/0/microseconds_per_read";
const READ_WARM_2: &str = "/read/rows/1/microseconds_per_read";
const ABSENT_WARM: &str = "/read/rows/3/microseconds_per_read";
const READ_COLD: &str = "/read-cold1/rows/0/microseconds_per_read";

/// Microseconds for each coin in order: 120 s for 150 million.
const SCAN_MICROSECONDS: f64 = 0.8;

/// Which side of its limit a figure must be on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    AtMost,
    AtLeast,
}

/// A figure and its limit.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Target {
    what: String,
    figure: f64,
    side: Side,
    limit: f64,
}

impl Target {
    /// Whether it is reached.
    pub(crate) fn is_met(&self) -> bool {
        match self.side {
            Side::AtMost => self.figure <= self.limit,
            Side::AtLeast => self.figure >= self.limit,
        }
    }

    /// A line of text.
    pub(crate) fn text(&self) -> String {
        let side = match self.side {
            Side::AtMost => "at most",
            Side::AtLeast => "at least",
        };
        let verdict = if self.is_met() { "met" } else { "NOT MET" };
        format!("{}: {:.4}, {side} {:.4}: {verdict}", self.what, self.figure, self.limit)
    }

    /// The same for programs.
    pub(crate) fn json(&self) -> Value {
        let side = match self.side {
            Side::AtMost => "at_most",
            Side::AtLeast => "at_least",
        };
        json!({"what": self.what, "figure": self.figure, side: self.limit, "met": self.is_met()})
    }
}

/// The figures of all stores, and the targets found so far.
struct Finder<'a> {
    stores: &'a [(String, Value)],
    found: Vec<Target>,
}

impl Finder<'_> {
    fn figure(&self, store: &str, path: &str) -> Option<f64> {
        let (_, figures) = self.stores.iter().find(|(name, _)| name == store)?;
        figures.pointer(path)?.as_f64()
    }

    fn own(&self, path: &str) -> Option<f64> {
        self.figure(STORE, path)
    }

    /// A figure as a part of the same figure of another store.
    fn part_of(&self, store: &str, path: &str) -> Option<f64> {
        Some(self.own(path)? / self.figure(store, path)?)
    }

    fn add(&mut self, what: impl Into<String>, figure: Option<f64>, side: Side, limit: f64) {
        // A ratio to nothing is no figure.
        if let Some(figure) = figure.filter(|figure| figure.is_finite()) {
            let what = what.into();
            self.found.push(Target {
                what,
                figure,
                side,
                limit,
            });
        }
    }

    fn at_most(&mut self, what: impl Into<String>, figure: Option<f64>, limit: f64) {
        self.add(what, figure, Side::AtMost, limit);
    }

    fn flush(&mut self) {
        self.at_most("flush: CPU seconds, mean", self.own(FLUSH_CPU), 0.6);
        for (store, part) in FLUSH_PARTS {
            let what = format!("flush: CPU time as a part of that of {store}");
            self.at_most(what, self.part_of(store, FLUSH_CPU), 1.0 / part);
        }
        let ends = self.own("/flush/seconds/max").zip(self.own("/flush/seconds/median"));
        let worst = ends.map(|(max, median)| max / median);
        self.at_most("flush: worst wall time in medians", worst, 3.0);
        let written = self.own("/flush/write_ratio");
        self.at_most("flush: bytes written per byte of change", written, 4.0);
    }

    fn reads(&mut self) {
        self.at_most("read, warm, 1 thread: us", self.own(READ_WARM), 2.5);
        let part = self.part_of("lmdb", READ_WARM);
        self.at_most("read, warm, 1 thread, as a part of that of lmdb", part, 0.7);
        let times = self.own(READ_WARM).zip(self.own(READ_WARM_2));
        let speed = times.map(|(one, two)| one / two);
        self.add("read, warm: speed of 2 threads over one", speed, Side::AtLeast, 1.8);
        let fetches = self.own("/read-cold1/rows/0/fetches_per_read");
        self.at_most("read, cold: fetches from the file", fetches, 1.05);
        let bytes = self.own("/read-cold1/rows/0/disk_bytes_per_read");
        self.at_most("read, cold: bytes from disk", bytes, 4500.0);
        let part = self.part_of("lmdb", READ_COLD);
        self.at_most("read, cold, 1 thread, as a part of that of lmdb", part, 0.7);
        self.at_most("absent, warm: us", self.own(ABSENT_WARM), 0.4);
        let fetches = self.own("/absent-cold/rows/0/fetches_per_read");
        self.at_most("absent, cold: fetches from the file", fetches, 0.0001);
    }

    fn sizes_and_opens(&mut self, coins: f64) {
        let memory = self.own("/read/open_anonymous_bytes").map(|bytes| bytes / coins);
        self.at_most("memory after an open: bytes a coin", memory, 10.0);
        let said = self.own("/read/open_said_bytes").map(|bytes| bytes / coins);
        let off = memory.zip(said).map(|(memory, said)| (memory / said - 1.0).abs());
        self.at_most("memory after an open: part by which what is said is off", off, 0.02);
        let disk = self.own("/flush/disk_bytes").map(|bytes| bytes / coins);
        self.at_most("disk after the flushes: bytes a coin", disk, 110.0);
        let scan = self.own("/scan/scan/seconds").map(|seconds| seconds * 1e6 / coins);
        self.at_most("all coins in order: us a coin", scan, SCAN_MICROSECONDS);
        self.at_most("open after a clean end: seconds", self.own("/read/open_seconds"), 5.0);
        let kills = (0..).map_while(|kill| self.own(&format!("/reopen/{kill}/open/seconds")));
        let worst = kills.reduce(f64::max);
        self.at_most("open after a kill, worst: seconds", worst, 12.0);
        let rebuild = self.own("/rebuild/open/seconds");
        self.at_most("open without a checkpoint: seconds", rebuild, 180.0);
    }
}

/// The targets for which there are figures; none without the store.
pub(crate) fn targets(work: &Work, stores: &[(String, Value)]) -> Vec<Target> {
    let mut finder = Finder {
        stores,
        found: Vec::new(),
    };
    finder.flush();
    finder.reads();
    finder.sizes_and_opens(work.coins as f64);
    finder.found
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn work() -> Work {
        crate::Arguments::parse_from(["", "--dir", "/", "--coins", "1000000"]).work
    }

    /// Made-up figures: `times` is how much worse than just met everything is.
    fn log(times: f64) -> (String, Value) {
        let row = |us: f64| json!({"microseconds_per_read": us, "fetches_per_read": 0.0});
        let figures = json!({
            "flush": {
                "cpu_seconds_per_commit": 0.6 * times,
                "seconds": {"median": 0.2, "max": 0.6 * times},
                "write_ratio": 4.0 * times,
                "disk_bytes": 110e6 * times,
            },
            "read": {
                "rows": [row(2.5 * times), row(2.5 * times / 1.8 * times), row(1.0), row(0.4 * times)],
                "open_anonymous_bytes": 10e6 * times,
                "open_said_bytes": 10e6 * times / (1.0 + 0.02 * times),
                "open_seconds": 5.0 * times,
            },
            "read-cold1": {"rows": [{
                "microseconds_per_read": 70.0 * times,
                "fetches_per_read": 1.05 * times,
                "disk_bytes_per_read": 4500.0 * times,
            }]},
            "absent-cold": {"rows": [{"fetches_per_read": 0.0001 * times}]},
            "scan": {"scan": {"seconds": 0.8 * times}},
            "rebuild": {"open": {"seconds": 180.0 * times}},
            "reopen": [{"open": {"seconds": 1.0}}, {"open": {"seconds": 12.0 * times}}],
        });
        (STORE.to_owned(), figures)
    }

    /// Peers beside which everything is just met.
    fn peers() -> Vec<(String, Value)> {
        let peer = |(name, part): (&str, f64)| {
            let figures = json!({
                "flush": {"cpu_seconds_per_commit": 0.6 * part},
                "read": {"rows": [{"microseconds_per_read": 2.5 / 0.7}]},
                "read-cold1": {"rows": [{"microseconds_per_read": 100.0}]},
            });
            (name.to_owned(), figures)
        };
        FLUSH_PARTS.map(peer).into()
    }

    #[test]
    fn better_figures_meet_all_and_worse_ones_none() {
        for (times, is_met) in [(0.99, true), (1.01, false)] {
            let mut stores = peers();
            stores.push(log(times));
            let found = targets(&work(), &stores);
            assert_eq!(found.len(), 23);
            for target in &found {
                assert_eq!(target.is_met(), is_met, "{}", target.text());
                assert_eq!(target.json()["met"], is_met);
                assert_eq!(target.text().ends_with(": met"), is_met);
            }
        }
    }

    #[test]
    fn the_worst_kill_counts() {
        let found = targets(&work(), &[log(1.0)]);
        let kill = found.iter().find(|target| target.what.starts_with("open after a kill"));
        assert_eq!(kill.unwrap().figure, 12.0);
    }

    #[test]
    fn only_what_was_measured_has_targets() {
        assert_eq!(targets(&work(), &peers()), []);
        let alone = targets(&work(), &[log(0.5)]);
        assert!(alone.iter().all(|target| !target.what.contains("as a part of")));
        assert_eq!(alone.len(), 16);
        let empty = (STORE.to_owned(), json!({"flush": {"write_ratio": 9.0}}));
        let found = targets(&work(), &[empty]);
        assert_eq!(found.len(), 1);
        assert!(!found[0].is_met());
        assert_eq!(found[0].json()["at_most"], 4.0);
    }
}
