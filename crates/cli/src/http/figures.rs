//! The latest figures of a command, as its observers note them.

use crate::listener::Command;
use blockmill_block::BlockHash;
use blockmill_chain::report::signatures::SignatureWay;
use blockmill_chain::{BlockChange, Event, Progress};
use blockmill_coins::Tip;
use blockmill_datadir::Status;
use blockmill_engine::report::{LiveTotals, Totals};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Blocks, and reorganisations, that are kept.
const KEPT_MAX: usize = 10;

/// Blocks above the tip with which a follower is still at the tip: it connects them at once.
const AT_TIP: u32 = 2;

/// What a command does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing is known yet.
    Starting,
    /// Another process has the data directory.
    WaitingForLock,
    /// Block files are searched for headers.
    ReadingHeaders,
    /// Blocks are connected.
    Connecting,
    /// Blocks are verified in any order.
    Verifying,
    /// The coins of a set are read.
    ReadingCoins,
    /// All blocks of the node are connected.
    AtTheTip,
    /// A signal has come.
    Stopping,
}

impl State {
    /// All of them, in their order, with their words in JSON and in the metrics.
    pub(super) const ALL: [(Self, &'static str); 8] = [
        (Self::Starting, "starting"),
        (Self::WaitingForLock, "waiting_for_lock"),
        (Self::ReadingHeaders, "reading_headers"),
        (Self::Connecting, "connecting"),
        (Self::Verifying, "verifying"),
        (Self::ReadingCoins, "reading_coins"),
        (Self::AtTheTip, "at_the_tip"),
        (Self::Stopping, "stopping"),
    ];

    /// Its word.
    pub(super) const fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

/// A block that was connected.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LastBlock {
    pub(super) height: u32,
    pub(super) hash: BlockHash,
    pub(super) block_time: u32,
    pub(super) transactions: usize,
    pub(super) inputs: usize,
    pub(super) block_size: usize,
}

/// Blocks that have left the chain in a row, for others.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reorganisation {
    pub(super) time: SystemTime,
    /// The height of the last block that both branches have.
    pub(super) fork_height: u32,
    /// Blocks that have left.
    pub(super) depth: u32,
    /// The tip that has left.
    pub(super) from: BlockHash,
}

/// The latest figures.
#[derive(Debug, Clone)]
pub(super) struct Figures {
    pub(super) command: &'static str,
    pub(super) threads: usize,
    pub(super) cache_bytes_max: Option<u64>,
    pub(super) network: Option<&'static str>,
    pub(super) started: SystemTime,
    pub(super) state: State,
    pub(super) directory: Option<PathBuf>,
    pub(super) start_height: Option<u32>,
    pub(super) tip: Option<BlockHash>,
    pub(super) progress: Option<Progress>,
    pub(super) totals: Option<Totals>,
    /// The engine's, of which `totals` is a copy.
    live_totals: Option<LiveTotals>,
    /// How signatures are verified, and from which height on.
    pub(super) signatures: Option<(u32, SignatureWay)>,
    pub(super) flushed: Option<Tip>,
    /// The newest last.
    pub(super) last_blocks: VecDeque<LastBlock>,
    /// The newest last.
    pub(super) reorganisations: VecDeque<Reorganisation>,
    pub(super) reorganisations_total: u64,
    /// Whether the last one goes on.
    is_reorganising: bool,
    has_caught_up: bool,
}

/// The progress of a run that has not connected a block yet.
fn no_progress(start: &Status) -> Option<Progress> {
    Some(Progress {
        height: start.tip.height,
        tip_time: start.tip_time,
        best_height: start.tip.height,
        blocks: 0,
        transactions: 0,
        inputs: 0,
        bytes: 0,
        bytes_remaining: 0,
        share: 0.0,
        cache_coins: 0,
        cache_bytes: 0,
        elapsed: Duration::ZERO,
    })
}

/// Adds to the newest of something, and drops the oldest.
fn keep<T>(kept: &mut VecDeque<T>, new: T) {
    if kept.len() == KEPT_MAX {
        kept.pop_front();
    }
    kept.push_back(new);
}

impl Figures {
    /// The figures of a command that is about to begin. Those of a data directory are that of its
    /// last flush, so that none is missing while the directory is awaited or opened.
    pub(super) fn new(command: &Command<'_>) -> Self {
        let (data, start) = command
            .data
            .as_ref()
            .map_or((None, None), |(data, start)| (Some(*data), start.as_ref()));
        Self {
            command: command.name,
            threads: command.threads,
            cache_bytes_max: command.cache_bytes_max,
            network: start.map(|start| start.chain_id.network.name()),
            started: SystemTime::now(),
            state: State::Starting,
            directory: data.map(Path::to_owned),
            start_height: start.map(|start| start.tip.height),
            tip: start.map(|start| start.tip.hash),
            progress: start.and_then(no_progress),
            totals: start.map(|_| Totals::default()),
            live_totals: None,
            signatures: None,
            flushed: start.map(|start| start.tip),
            last_blocks: VecDeque::new(),
            reorganisations: VecDeque::new(),
            reorganisations_total: 0,
            is_reorganising: false,
            has_caught_up: false,
        }
    }

    pub(super) fn opened(&mut self, network: &'static str, height: u32, totals: LiveTotals) {
        self.live_totals = Some(totals);
        self.network = Some(network);
        self.start_height = Some(height);
        self.state = State::Starting;
    }

    fn reads_headers(&mut self) {
        // A follower at the tip reads a few headers for each block.
        if self.state != State::AtTheTip {
            self.state = State::ReadingHeaders;
        }
    }

    pub(super) fn progress(&mut self, progress: &Progress) {
        let remaining = progress.best_height.saturating_sub(progress.height);
        self.state = match self.command {
            "audit" => State::Verifying,
            _ if self.has_caught_up && remaining <= AT_TIP => State::AtTheTip,
            _ => State::Connecting,
        };
        self.progress = Some(*progress);
        self.totals = self.live_totals.as_ref().map(LiveTotals::get).or(self.totals);
    }

    fn connected(&mut self, change: &BlockChange<'_>) {
        let block = change.block;
        self.tip = Some(block.hash());
        self.is_reorganising = false;
        keep(
            &mut self.last_blocks,
            LastBlock {
                height: change.height,
                hash: block.hash(),
                block_time: block.header().time,
                transactions: block.transaction_count(),
                inputs: change.undo.coins().len(),
                block_size: block.bytes().len(),
            },
        );
    }

    fn disconnected(&mut self, hash: BlockHash, height: u32) {
        // It may have been connected by an earlier run.
        if self.last_blocks.back().is_some_and(|last| last.hash == hash) {
            self.last_blocks.pop_back();
        }
        let fork_height = height.saturating_sub(1);
        match self.reorganisations.back_mut().filter(|_| self.is_reorganising) {
            Some(going_on) => {
                going_on.depth += 1;
                going_on.fork_height = fork_height;
            }
            None => {
                self.is_reorganising = true;
                self.reorganisations_total += 1;
                let new = Reorganisation {
                    time: SystemTime::now(),
                    fork_height,
                    depth: 1,
                    from: hash,
                };
                keep(&mut self.reorganisations, new);
            }
        }
    }

    fn caught_up(&mut self, tip: &Tip) {
        self.tip = Some(tip.hash);
        self.has_caught_up = true;
        self.state = State::AtTheTip;
    }

    pub(super) fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Flushed(flushed) => self.flushed = Some(flushed.tip),
            Event::Signatures { height, way } => self.signatures = Some((*height, *way)),
            Event::Connected(change) => self.connected(change),
            Event::Disconnected(change) => self.disconnected(change.block.hash(), change.height),
            Event::CaughtUp(tip) => self.caught_up(tip),
            Event::Indexing(_) => self.reads_headers(),
            Event::Coins { .. } => self.state = State::ReadingCoins,
            Event::Progress(progress) => self.progress(progress),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn figures(name: &'static str) -> Figures {
        Figures::new(&Command {
            name,
            threads: 2,
            cache_bytes_max: None,
            data: None,
            stop: &Arc::default(),
        })
    }

    fn progress(height: u32, best_height: u32) -> Progress {
        Progress {
            height,
            tip_time: 0,
            best_height,
            blocks: 0,
            transactions: 0,
            inputs: 0,
            bytes: 0,
            bytes_remaining: 0,
            share: 0.0,
            cache_coins: 0,
            cache_bytes: 0,
            elapsed: Duration::ZERO,
        }
    }

    #[test]
    fn a_follower_at_the_tip_stays_there_but_for_many_blocks() {
        let mut figures = figures("follow");
        let tip = Tip {
            hash: BlockHash([1; 32]),
            height: 10,
        };
        figures.reads_headers();
        assert_eq!(figures.state, State::ReadingHeaders);
        figures.progress(&progress(9, 10));
        assert_eq!(figures.state, State::Connecting);
        figures.caught_up(&tip);
        figures.reads_headers();
        figures.progress(&progress(11, 12));
        assert_eq!(figures.state, State::AtTheTip);
        figures.progress(&progress(12, 100));
        assert_eq!(figures.state, State::Connecting);
    }

    #[test]
    fn blocks_that_leave_in_a_row_are_one_reorganisation() {
        let mut figures = figures("follow");
        for height in [9, 8, 7] {
            figures.disconnected(BlockHash([height; 32]), height.into());
        }
        figures.is_reorganising = false;
        figures.disconnected(BlockHash([70; 32]), 7);
        let seen = figures
            .reorganisations
            .iter()
            .map(|one| (one.fork_height, one.depth, one.from));
        assert_eq!(
            seen.collect::<Vec<_>>(),
            [(6, 3, BlockHash([9; 32])), (6, 1, BlockHash([70; 32]))]
        );
        for height in 0..100 {
            figures.is_reorganising = false;
            figures.disconnected(BlockHash([height; 32]), 50);
        }
        assert_eq!(
            (figures.reorganisations.len(), figures.reorganisations_total),
            (KEPT_MAX, 102)
        );
    }
}
