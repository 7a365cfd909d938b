//! What the benchmark runs: chains, the tables over each of them, and the contenders of a table.

use super::contender::{CACHE_MIB, Contender};
use super::hostile::HostilePlan;
use crate::BenchOptions;
use crate::kernel;
use crate::signatures::lanes_are_fast;
use blockmill_chaingen::{ChainSpec, Profile};
use std::path::PathBuf;

const SEED: u64 = 1;

pub(super) const MIXED: &str = "mixed";
pub(super) const MIXED_SMALL: &str = "mixed, small blocks";
pub(super) const UTXO: &str = "utxo";
pub(super) const UTXO_SMALL: &str = "utxo, small blocks";
pub(super) const UTXO_ASSUMED: &str = "utxo, assumed valid";
pub(super) const UTXO_BIG: &str = "utxo, big";
pub(super) const UTXO_BIG_CACHED: &str = "utxo, big, 4000 MiB";

/// Empty blocks that bury the others under more than two weeks of work. Scripts of blocks with less
/// work above them are not assumed to be valid.
const BURYING_BLOCKS: u32 = 2_100;

/// Memory for coins of [`UTXO_BIG_CACHED`], which holds all coins of the chain.
const LARGE_CACHE_MIB: u32 = 4_000;

/// Runs of ours over the big chain. Its peers have one, as it takes minutes.
const BIG_RUNS: usize = 2;

/// Chains, contenders, and the number of runs.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) chains: Vec<PlannedChain>,
    pub(super) hostile: HostilePlan,
    pub(super) bitcoind: Option<PathBuf>,
    /// This command, for runs in processes of their own. Without it ours and the kernel run in this
    /// process.
    pub(super) executable: Option<PathBuf>,
    pub(super) cores: usize,
}

/// A chain, which is made once, and the tables over it.
#[derive(Debug, Clone)]
pub(super) struct PlannedChain {
    pub(super) spec: ChainSpec,
    pub(super) tables: Vec<Table>,
}

/// Rows that belong together.
#[derive(Debug, Clone)]
pub(super) struct Table {
    pub(super) name: &'static str,
    /// Memory for coins.
    pub(super) cache_mib: u32,
    pub(super) series: Vec<PlannedSeries>,
    /// Whether ratios are to the daemon where they would be to the kernel.
    pub(super) over_bitcoind: bool,
    /// Whether one more run of ours records a trace.
    pub(super) traced: bool,
}

/// The runs of one contender with one number of threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PlannedSeries {
    pub(super) contender: Contender,
    pub(super) threads: usize,
    pub(super) runs: usize,
}

/// What decides about the contenders of a table.
#[derive(Debug, Clone)]
pub(super) struct Choices {
    /// Numbers of threads, the smallest first.
    pub(super) threads: Vec<usize>,
    /// Parts that further rows leave out, with one thread for each core.
    pub(super) without: Vec<&'static str>,
    /// Runs of each contender with each number of threads.
    pub(super) runs: usize,
    pub(super) with_bitcoind: bool,
    /// Whether chains with signatures have rows with signatures in lanes.
    pub(super) lanes: bool,
    pub(super) cores: usize,
}

impl Plan {
    pub(super) fn new(options: &BenchOptions, cores: usize) -> Self {
        let quick = options.quick;
        let choices = Choices {
            threads: if quick { vec![1, 2] } else { threads(cores) },
            without: options.without.clone(),
            runs: if quick { 3 } else { 5 },
            with_bitcoind: options.bitcoind.is_some(),
            lanes: lanes_are_fast(),
            cores,
        };
        let mut chains: Vec<PlannedChain> = specs(quick, choices.with_bitcoind)
            .into_iter()
            .map(|(name, spec)| PlannedChain {
                spec,
                tables: vec![choices.table(name)],
            })
            .collect();
        if options.big {
            chains.push(PlannedChain {
                spec: big_spec(quick),
                tables: vec![
                    choices.big_table(UTXO_BIG, CACHE_MIB),
                    choices.big_table(UTXO_BIG_CACHED, LARGE_CACHE_MIB),
                ],
            });
        }
        Self {
            chains,
            hostile: HostilePlan::new(quick, up_to_cores(cores)),
            bitcoind: options.bitcoind.clone(),
            executable: options.executable.clone(),
            cores,
        }
    }
}

fn spec(profile: Profile, blocks: u32, inputs: u64, coins: u64) -> ChainSpec {
    ChainSpec {
        inputs,
        coins,
        ..ChainSpec::new(profile, blocks, SEED)
    }
}

/// The chains that are always measured, with their names.
fn specs(quick: bool, with_bitcoind: bool) -> Vec<(&'static str, ChainSpec)> {
    let mut chains = if quick {
        vec![
            (MIXED, spec(Profile::Mixed, 130, 6_000, 0)),
            (UTXO, spec(Profile::Utxo, 130, 60_000, 40_000)),
        ]
    } else {
        vec![
            (MIXED, spec(Profile::Mixed, 300, 100_000, 0)),
            (MIXED_SMALL, spec(Profile::Mixed, 2_000, 20_000, 0)),
            (UTXO, spec(Profile::Utxo, 400, 3_000_000, 2_000_000)),
            (UTXO_SMALL, spec(Profile::Utxo, 2_000, 20_000, 10_000)),
        ]
    };
    if with_bitcoind {
        let (blocks, inputs, coins) = if quick {
            (130, 60_000, 40_000)
        } else {
            (400, 3_000_000, 2_000_000)
        };
        let buried = ChainSpec {
            empty_blocks: BURYING_BLOCKS,
            ..spec(Profile::Utxo, blocks + BURYING_BLOCKS, inputs, coins)
        };
        chains.push((UTXO_ASSUMED, buried));
    }
    chains
}

fn big_spec(quick: bool) -> ChainSpec {
    if quick {
        spec(Profile::Utxo, 150, 20_000, 60_000)
    } else {
        spec(Profile::Utxo, 1_200, 6_000_000, 23_000_000)
    }
}

/// 1, 2, 4, 8, and further powers of two up to the cores.
fn threads(cores: usize) -> Vec<usize> {
    let mut threads = vec![1, 2, 4, 8];
    while let Some(next) = threads.last().map(|last| last * 2)
        && next <= cores
    {
        threads.push(next);
    }
    threads
}

/// 1, 2, and further powers of two up to the cores.
fn up_to_cores(cores: usize) -> Vec<usize> {
    let mut threads = threads(cores);
    threads.retain(|&count| count <= cores.max(2));
    threads
}

impl PlannedChain {
    /// The name of its first table.
    pub(super) fn name(&self) -> &'static str {
        self.tables.first().map_or("", |table| table.name)
    }
}

impl Choices {
    /// The table of a chain.
    pub(super) fn table(&self, name: &'static str) -> Table {
        Table {
            name,
            cache_mib: CACHE_MIB,
            series: self.series(name),
            over_bitcoind: false,
            traced: true,
        }
    }

    fn series(&self, name: &'static str) -> Vec<PlannedSeries> {
        let assumed = name == UTXO_ASSUMED;
        let mut series = Vec::new();
        let mut add = |contender, threads| {
            series.push(PlannedSeries {
                contender,
                threads,
                runs: self.runs,
            });
        };
        for &threads in &self.threads {
            if assumed {
                add(Contender::BlockmillAssuming, threads);
            } else {
                add(Contender::Blockmill, threads);
                if self.lanes && [MIXED, MIXED_SMALL].contains(&name) {
                    add(Contender::Lanes, threads);
                }
                if threads <= kernel::THREADS_MAX {
                    add(Contender::Bitcoinkernel, threads);
                }
            }
            match (self.with_bitcoind, assumed) {
                (true, true) => add(Contender::BitcoindAssuming, threads),
                (true, false) => add(Contender::Bitcoind, threads),
                (false, _) => {}
            }
        }
        let most = self.threads.last().copied().unwrap_or(1).min(self.cores.max(2));
        if !assumed {
            self.without.iter().for_each(|part| add(Contender::Without(part), most));
        }
        series
    }

    /// A table of the big chain. The daemon runs with 2 threads and with the most threads. The
    /// kernel runs with the most threads, and only with the cache that its library offers.
    pub(super) fn big_table(&self, name: &'static str, cache_mib: u32) -> Table {
        let counts = up_to_cores(self.cores);
        let most = counts.last().copied().unwrap_or(1);
        let mut series = Vec::new();
        let mut add = |contender, threads, runs| {
            series.push(PlannedSeries {
                contender,
                threads,
                runs,
            });
        };
        for &threads in &counts {
            add(Contender::Blockmill, threads, BIG_RUNS);
            if self.with_bitcoind && (threads == 2 || threads == most) {
                add(Contender::Bitcoind, threads, 1);
            }
        }
        if cache_mib == CACHE_MIB {
            add(Contender::Bitcoinkernel, most.min(kernel::THREADS_MAX), 1);
        }
        Table {
            name,
            cache_mib,
            series,
            over_bitcoind: self.with_bitcoind,
            traced: false,
        }
    }
}

impl Table {
    /// The peer that a contender's ratio is to.
    pub(super) fn peer(&self, contender: Contender) -> Option<Contender> {
        match contender.peer() {
            Some(Contender::Bitcoinkernel) if self.over_bitcoind => Some(Contender::Bitcoind),
            peer => peer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(big: bool, bitcoind: bool) -> BenchOptions {
        BenchOptions {
            big,
            bitcoind: bitcoind.then(|| PathBuf::from("bitcoind")),
            ..BenchOptions::default()
        }
    }

    #[test]
    fn threads_follow_the_cores() {
        assert_eq!(threads(1), [1, 2, 4, 8]);
        assert_eq!(threads(8), [1, 2, 4, 8]);
        assert_eq!(threads(16), [1, 2, 4, 8, 16]);
        assert_eq!(threads(24), [1, 2, 4, 8, 16]);
        assert_eq!(up_to_cores(1), [1, 2]);
        assert_eq!(up_to_cores(2), [1, 2]);
        assert_eq!(up_to_cores(6), [1, 2, 4]);
        assert_eq!(up_to_cores(16), [1, 2, 4, 8, 16]);
    }

    #[test]
    fn the_big_chain_is_made_once_for_two_sizes_of_the_cache() {
        let names = |plan: &Plan| -> Vec<&str> {
            let tables = plan.chains.iter().flat_map(|chain| &chain.tables);
            tables.map(|table| table.name).collect()
        };
        assert_eq!(
            names(&Plan::new(&options(false, false), 2)),
            [MIXED, MIXED_SMALL, UTXO, UTXO_SMALL]
        );
        let plan = Plan::new(&options(true, true), 2);
        let all = [
            MIXED,
            MIXED_SMALL,
            UTXO,
            UTXO_SMALL,
            UTXO_ASSUMED,
            UTXO_BIG,
            UTXO_BIG_CACHED,
        ];
        assert_eq!(names(&plan), all);
        let big = plan.chains.last().unwrap();
        assert_eq!(
            (big.spec.blocks, big.spec.inputs, big.spec.coins),
            (1_200, 6_000_000, 23_000_000)
        );
        let sizes: Vec<u32> = big.tables.iter().map(|table| table.cache_mib).collect();
        assert_eq!(sizes, [450, 4_000]);
    }

    #[test]
    fn the_big_chain_has_few_runs_of_peers() {
        let check = |cores, with_bitcoind, cache_mib, expected: &[(Contender, usize, usize)]| {
            let plan = Plan::new(&options(true, with_bitcoind), cores);
            let tables = &plan.chains.last().unwrap().tables;
            let table = tables.iter().find(|table| table.cache_mib == cache_mib).unwrap();
            let series = table.series.iter();
            let found: Vec<_> = series.map(|one| (one.contender, one.threads, one.runs)).collect();
            assert_eq!(found, expected);
            let peer = if with_bitcoind {
                Contender::Bitcoind
            } else {
                Contender::Bitcoinkernel
            };
            assert_eq!(table.peer(Contender::Blockmill), Some(peer));
        };
        let (ours, core, kernel) = (Contender::Blockmill, Contender::Bitcoind, Contender::Bitcoinkernel);
        check(2, false, 450, &[(ours, 1, 2), (ours, 2, 2), (kernel, 2, 1)]);
        check(2, false, 4_000, &[(ours, 1, 2), (ours, 2, 2)]);
        check(
            2,
            true,
            450,
            &[(ours, 1, 2), (ours, 2, 2), (core, 2, 1), (kernel, 2, 1)],
        );
        let with_more_cores = [
            (ours, 1, 2),
            (ours, 2, 2),
            (core, 2, 1),
            (ours, 4, 2),
            (ours, 8, 2),
            (core, 8, 1),
        ];
        check(8, true, 4_000, &with_more_cores);
    }
}
