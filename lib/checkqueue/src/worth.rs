//! Whether checks are worth handing over.
//!
//! To hand a check over, it is written to memory, published, claimed, and its cache lines travel to another core and back. That takes longer than
//! a check that compares two numbers. So a master keeps checks that cost less than [`WORTH_NS`] each, and runs them as they are added;
//! all others it shares. What it does changes when a check is run and by whom, never what the round's verdict is.
//!
//! - *Shared at first.* A queue shares its first [`SHARED_MIN`] checks unseen. Then the master runs a group itself and measures it; one check alone
//!   if that is long. If they were worth handing over it goes on sharing, for twice as long each time, to [`SHARED_MAX`].
//! - *Kept* are at first [`KEPT_MIN`], then up to [`KEPT_MAX`] checks, twice as many each time, between two groups that are measured. If a
//!   group turns out to be worth handing over, the next is measured at once, since the thread may merely have lost its core. If that one is
//!   too, checks are shared again. So of checks that become slow after many cheap ones at most [`KEPT_MAX`], and those measured, are
//!   not shared.
//!
//! A group is [`GROUP`] checks, behind [`WARM_UP`] that make their code warm. Its time is that of constructing, running and destroying its
//! checks, as the master has to construct them in any case. What was found is kept from round to round.

use blockmill_sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A check that takes so long is worth handing over.
const WORTH_NS: u32 = 25;

/// Checks that are measured together.
const GROUP: u32 = 8;

/// Checks before them that are run for warmth. They count only if they alone take as long as the group may.
const WARM_UP: u32 = 1;

/// Checks that are shared before some are measured, at least and at most.
const SHARED_MIN: u32 = 1 << 10;
const SHARED_MAX: u32 = 1 << 14;

/// Checks that are kept before some are measured, at least and at most.
const KEPT_MIN: u32 = 16;
const KEPT_MAX: u32 = 256;

/// What to do with the next check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Next {
    /// Give it to the workers.
    Share,
    /// Run it at once.
    Keep,
    /// Run it at once, and tell how long that took.
    Measure,
}

/// What a master knows of its checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Worth {
    keeps: bool,
    /// Checks until some are measured.
    left: u32,
    /// From how many checks on that is counted.
    stretch: u32,
    /// Whether the last group that was measured says that what is kept should be shared.
    in_doubt: bool,
}

impl Default for Worth {
    fn default() -> Self {
        Self::begin(false, SHARED_MIN)
    }
}

impl Worth {
    const fn begin(keeps: bool, stretch: u32) -> Self {
        Self {
            keeps,
            left: stretch,
            stretch,
            in_doubt: false,
        }
    }

    /// For a master without workers: all checks are kept, and none is measured. A round has fewer than 2^32.
    pub(crate) const fn without_workers() -> Self {
        Self::begin(true, u32::MAX)
    }

    #[inline]
    pub(crate) fn next(&mut self) -> Next {
        if self.left == 0 {
            return Next::Measure;
        }
        self.left -= 1;
        if self.keeps { Next::Keep } else { Next::Share }
    }

    /// Takes in how long a group took.
    pub(crate) fn measured(&mut self, group: &Group) {
        let worth = group.time >= Duration::from_nanos((GROUP * WORTH_NS).into());
        *self = match (self.keeps, worth) {
            (false, true) => Self::begin(false, (self.stretch * 2).min(SHARED_MAX)),
            (false, false) => Self::begin(true, KEPT_MIN),
            (true, false) => Self::begin(true, (self.stretch * 2).min(KEPT_MAX)),
            (true, true) if self.in_doubt => Self::begin(false, SHARED_MIN),
            (true, true) => Self {
                left: 0,
                in_doubt: true,
                ..*self
            },
        };
    }
}

/// A group that is being measured. It may stretch over several calls that add checks; what is between them does not count.
#[derive(Debug, Default)]
pub(crate) struct Group {
    checks: u32,
    time: Duration,
    /// Since when time counts.
    since: Option<Instant>,
}

impl Group {
    /// A check of it is about to be run.
    pub(crate) fn resume(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }

    /// Another of its checks was run. Returns whether that was the last.
    pub(crate) fn ran_one(&mut self) -> bool {
        self.checks += 1;
        if self.checks == WARM_UP || self.checks == WARM_UP + GROUP {
            self.pause();
        }
        if self.checks == WARM_UP {
            let long = self.time >= Duration::from_nanos((GROUP * WORTH_NS).into());
            if !long {
                self.time = Duration::ZERO;
            }
            return long;
        }
        self.checks >= WARM_UP + GROUP
    }

    /// What follows does not count.
    #[inline]
    pub(crate) fn pause(&mut self) {
        if let Some(since) = self.since.take() {
            self.time += since.elapsed().saturating_sub(time_of_a_look());
        }
    }
}

/// How long it takes to look at the clock; measured once. The fastest of several tries counts.
fn time_of_a_look() -> Duration {
    const TRIES: usize = 16;
    static LOOK: OnceLock<Duration> = OnceLock::new();
    *LOOK.get_or_init(|| {
        let tries = (0..TRIES).map(|_| Instant::now().elapsed());
        tries.min().unwrap_or_default()
    })
}

/// What the last round of a queue knew. Rounds that overlap overwrite each other's knowledge.
#[derive(Debug)]
pub(crate) struct LastWorth(AtomicU64);

impl Default for LastWorth {
    fn default() -> Self {
        let this = Self(AtomicU64::new(0));
        this.set(Worth::default());
        this
    }
}

impl LastWorth {
    pub(crate) fn set(&self, worth: Worth) {
        let stretch = u64::from(worth.stretch) << 1 | u64::from(worth.keeps);
        self.0.store(stretch << 32 | u64::from(worth.left), Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Worth {
        let word = self.0.load(Ordering::Relaxed);
        Worth {
            keeps: word >> 32 & 1 == 1,
            left: word as u32,
            stretch: (word >> 33) as u32,
            in_doubt: false,
        }
    }
}

#[cfg(all(test, not(blockmill_loom)))]
mod tests {
    use super::*;

    /// A group whose checks take so long, and how many ran.
    fn group(ns: u32) -> (Group, u32) {
        let long = ns >= GROUP * WORTH_NS;
        let (timed, checks) = if long { (1, WARM_UP) } else { (GROUP, WARM_UP + GROUP) };
        let group = Group {
            time: Duration::from_nanos((timed * ns).into()),
            ..Group::default()
        };
        (group, checks)
    }

    /// Goes through so many checks, each of which takes so long, and counts those that are shared, kept and measured.
    fn go(worth: &mut Worth, checks: u32, ns: u32) -> [u32; 3] {
        let mut counts = [0; 3];
        while counts.iter().sum::<u32>() < checks {
            match worth.next() {
                Next::Share => counts[0] += 1,
                Next::Keep => counts[1] += 1,
                Next::Measure => {
                    let (group, checks) = group(ns);
                    counts[2] += checks;
                    worth.measured(&group);
                }
            }
        }
        counts
    }

    #[test]
    fn dear_checks_are_shared_and_few_are_measured() {
        let [shared, kept, measured] = go(&mut Worth::default(), 100_000, 70_000);
        assert_eq!((shared + measured, kept), (100_000, 0));
        assert!(measured < 15, "{measured}");
    }

    #[test]
    fn cheap_checks_are_kept_and_few_are_measured() {
        let [shared, kept, measured] = go(&mut Worth::default(), 1_000_000, 5);
        assert_eq!(shared, SHARED_MIN);
        assert!(measured < kept / 20, "{measured} of {kept}");
        let limit = go(&mut Worth::default(), 1_000_000, WORTH_NS);
        assert_eq!(limit[1], 0);
    }

    #[test]
    fn checks_that_become_slow_are_shared_soon_and_are_kept_again_when_they_are_cheap() {
        for before in 0..2_000 {
            let mut worth = Worth::default();
            go(&mut worth, SHARED_MIN + before, 5);
            let [shared, kept, measured] = go(&mut worth, 1_500, 70_000);
            assert!(kept <= KEPT_MAX && measured <= 3, "{kept}, {measured}");
            assert!(shared > 0);
            go(&mut worth, SHARED_MIN, 5);
            let [shared, kept, _] = go(&mut worth, 10_000, 5);
            assert!(kept > shared, "{kept}, {shared}");
        }
    }

    #[test]
    fn one_long_group_changes_nothing() {
        let mut worth = Worth::default();
        go(&mut worth, 10_000, 5);
        while worth.next() != Next::Measure {}
        worth.measured(&group(500_000).0);
        assert_eq!(worth.next(), Next::Measure);
        worth.measured(&group(5).0);
        assert_eq!(worth.next(), Next::Keep);
    }

    #[test]
    fn what_is_known_is_kept_for_the_next_round() {
        let last = LastWorth::default();
        assert_eq!(last.get(), Worth::default());
        let mut worth = Worth::default();
        for ns in [5, 70_000, 5, 5, 26] {
            go(&mut worth, 777, ns);
            last.set(worth);
            let found = last.get();
            assert_eq!(
                found,
                Worth {
                    in_doubt: false,
                    ..worth
                }
            );
        }
    }

    #[test]
    fn a_group_ends_after_so_many_checks_or_a_long_one() {
        let mut group = Group::default();
        for _ in 0..1_000 {
            let mut checks = 1;
            group.resume();
            while !group.ran_one() {
                checks += 1;
                group.pause();
                group.resume();
            }
            assert!(checks == WARM_UP || checks == WARM_UP + GROUP, "{checks}");
            assert!(group.since.is_none());
            group = Group::default();
        }
        group.since = Instant::now().checked_sub(Duration::from_secs(1));
        assert!(group.ran_one() && group.time > Duration::from_millis(500));
    }

    #[test]
    fn without_workers_all_are_kept() {
        let mut alone = Worth::without_workers();
        assert_eq!(go(&mut alone, 10_000, 70_000), [0, 10_000, 0]);
    }
}
