//! Which of several ways to do the same work is the fastest on this machine: measured, not looked
//! up.
//!
//! [`Speeds::measure`] runs the ways in turns, and of each its best turn counts: other work on the
//! machine does not make a fast way look slow. A surprise is measured again. The time is that of
//! the clock on the wall: the CPU time of a thread may be too short in virtual machines, and the
//! best turn would be such a one. A [`Measured`] measures once in a process.
//!
//! ```
//! use blockmill_fastest::{Contender, Speeds};
//! use std::hint::black_box;
//!
//! fn work(rounds: u64) -> u64 {
//!     (0..rounds).map(black_box).sum()
//! }
//! let ways = vec![
//!     Contender::new("short", 1, |_turn| assert!(work(10_000) > 0)),
//!     Contender::new("long", 1, |_turn| assert!(work(100_000) > 0)),
//! ];
//! let speeds = Speeds::measure(3, ways);
//! assert_eq!(speeds.fastest(), "short");
//! ```

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// How long the work of all turns may take where a surprise is measured more than twice.
const SURPRISE_MAX: Duration = Duration::from_millis(12);

/// How fast a way was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Speed<W> {
    /// The way.
    pub way: W,
    /// Time of one unit of the work, in the best turn.
    pub time: Duration,
}

/// How fast the ways were, the fastest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Speeds<W>(Vec<Speed<W>>);

/// A way to do the work, and the work of a turn.
pub struct Contender<'w, W> {
    way: W,
    units: u32,
    work: Box<dyn FnMut(usize) + 'w>,
    best: Duration,
}

impl<W: Copy> Speeds<W> {
    /// Runs each way in `turns` turns, and keeps its best time. Other work may spoil several turns:
    /// short ones should be many. The first way is expected to be the fastest. If another one is,
    /// all turns are taken once more, and then again while all together take 12 ms at most.
    ///
    /// # Panics
    /// If there is no way, or no turn.
    pub fn measure(turns: usize, mut contenders: Vec<Contender<'_, W>>) -> Self {
        assert!(!contenders.is_empty(), "there is a way to measure");
        assert!(turns > 0, "a way has turns");
        for series in 1.. {
            for turn in 0..turns {
                for contender in &mut contenders {
                    contender.take_turn(turn);
                }
            }
            let times = || contenders.iter().map(|contender| contender.speed().time);
            let is_expected = times().next() == times().min();
            // By the best turns: in others the time of other threads may be.
            let work: Duration = contenders.iter().map(|contender| contender.best * turns as u32).sum();
            if is_expected || series > 1 && work * (series + 1) > SURPRISE_MAX {
                break;
            }
        }
        let mut speeds: Vec<_> = contenders.iter().map(Contender::speed).collect();
        // Ways of the same speed stay in their order.
        speeds.sort_by_key(|speed| speed.time);
        Self(speeds)
    }

    /// All ways, the fastest first.
    pub fn ways(&self) -> &[Speed<W>] {
        &self.0
    }

    /// The fastest way.
    pub fn fastest(&self) -> W {
        self.0[0].way
    }
}

impl<'w, W: Copy> Contender<'w, W> {
    /// A way. Each turn calls `work` with its number, from 0 on; the call does `units` units of the
    /// work. Turns that are taken again have the same numbers.
    ///
    /// # Panics
    /// If there are no units.
    pub fn new(way: W, units: u32, work: impl FnMut(usize) + 'w) -> Self {
        assert!(units > 0, "a turn has units");
        Self {
            way,
            units,
            work: Box::new(work),
            best: Duration::MAX,
        }
    }

    fn take_turn(&mut self, turn: usize) {
        let start = Instant::now();
        (self.work)(turn);
        self.best = self.best.min(start.elapsed());
    }

    fn speed(&self) -> Speed<W> {
        Speed {
            way: self.way,
            time: self.best / self.units,
        }
    }
}

impl<W: fmt::Debug> fmt::Debug for Contender<'_, W> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Contender")
            .field("way", &self.way)
            .field("units", &self.units)
            .finish_non_exhaustive()
    }
}

/// What a process measures once, as a static.
#[derive(Debug)]
pub struct Measured<W> {
    speeds: OnceLock<Speeds<W>>,
    measuring: Mutex<()>,
}

impl<W: Copy> Measured<W> {
    /// Nothing is measured yet.
    pub const fn new() -> Self {
        Self {
            speeds: OnceLock::new(),
            measuring: Mutex::new(()),
        }
    }

    /// What was measured.
    pub fn get(&self) -> Option<&Speeds<W>> {
        self.speeds.get()
    }

    /// Measures as [`Speeds::measure`] does, unless that is done, or another thread is at it.
    pub fn measure_once<'w>(&self, turns: usize, contenders: impl FnOnce() -> Vec<Contender<'w, W>>) {
        if self.speeds.get().is_some() {
            return;
        }
        // Other threads go on: what they would wait for takes longer than their work.
        if let Ok(_guard) = self.measuring.try_lock() {
            self.speeds.get_or_init(|| Speeds::measure(turns, contenders()));
        }
    }
}

impl<W: Copy> Default for Measured<W> {
    fn default() -> Self {
        Self::new()
    }
}

/// Does work beside more busy threads than there are cores left: for tests of what is measured.
#[doc(hidden)]
pub fn beside_busy_threads<R>(work: impl FnOnce() -> R) -> R {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let result = work();
        done.store(true, Relaxed);
        result
    })
}

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;
    use std::sync::atomic::AtomicUsize;

    const TURNS: usize = 3;

    fn spin(rounds: u32) {
        for round in 0..rounds {
            black_box(round);
        }
    }

    /// A way for each of `rounds`, which are in tens of thousands.
    fn ways(rounds: &[u32]) -> Vec<Contender<'static, u32>> {
        let way = |&rounds: &u32| Contender::new(rounds, 1, move |_| spin(10_000 * rounds));
        rounds.iter().map(way).collect()
    }

    #[test]
    fn the_fastest_way_is_found_beside_busy_threads() {
        // Another than the first, so the first series must show it: with many turns.
        let measure = || (0..100).map(|_| Speeds::measure(7, ways(&[3, 1, 9]))).collect();
        let found: Vec<_> = beside_busy_threads(measure);
        for speeds in &found {
            let order: Vec<_> = speeds.ways().iter().map(|speed| speed.way).collect();
            assert_eq!(order, [1, 3, 9], "{speeds:?}");
            assert_eq!(speeds.fastest(), 1);
            assert!(speeds.ways().is_sorted_by_key(|speed| speed.time));
        }
    }

    /// Measures two ways, of which the first is the slower one in its first `turns` turns. Returns
    /// how many turns it took, and the fastest way.
    fn slow_at_first(turns: usize, slow: impl Fn()) -> (usize, &'static str) {
        let mut calls = 0;
        let first = Contender::new("slow at first", 1, |_| {
            calls += 1;
            if calls > turns { spin(1_000) } else { slow() }
        });
        let other = Contender::new("other", 1, |_| spin(10_000));
        let found = Speeds::measure(TURNS, vec![first, other]).fastest();
        (calls, found)
    }

    #[test]
    fn a_surprise_is_measured_again() {
        let slow = || spin(100_000);
        assert_eq!(slow_at_first(0, slow), (TURNS, "slow at first"));
        assert_eq!(slow_at_first(1, slow), (TURNS, "slow at first"));
        assert_eq!(slow_at_first(TURNS, slow), (2 * TURNS, "slow at first"));
        assert_eq!(slow_at_first(2 * TURNS, slow), (3 * TURNS, "slow at first"));
        let (calls, found) = slow_at_first(usize::MAX, slow);
        assert_eq!((calls % TURNS, found), (0, "other"));
        assert!(calls > 2 * TURNS);
    }

    /// The time of other threads in spoiled turns is no reason to stop.
    #[test]
    fn long_turns_are_taken_twice() {
        let long = || thread::sleep(SURPRISE_MAX);
        assert_eq!(slow_at_first(TURNS, long), (2 * TURNS, "slow at first"));
        assert_eq!(slow_at_first(usize::MAX, long), (2 * TURNS, "other"));
    }

    /// Each series has the turns from 0 on.
    #[test]
    fn turns_keep_their_numbers() {
        let mut numbers = Vec::new();
        let slow = Contender::new("slow", 1, |turn| {
            numbers.push(turn);
            spin(100_000);
        });
        let fast = Contender::new("fast", 1, |_| spin(10_000));
        assert_eq!(Speeds::measure(2, vec![slow, fast]).fastest(), "fast");
        assert!(numbers.len() > 2);
        assert!(numbers.chunks(2).all(|series| series == [0, 1]), "{numbers:?}");
    }

    #[test]
    fn a_slow_turn_counts_for_nothing() {
        for slow in 0..TURNS {
            let first = Contender::new("one slow turn", 1, move |turn| {
                spin(if turn == slow { 1_000_000 } else { 10_000 });
            });
            let second = Contender::new("always", 1, |_| spin(100_000));
            assert_eq!(Speeds::measure(TURNS, vec![second, first]).fastest(), "one slow turn");
        }
    }

    /// Turns may have different numbers of units.
    #[test]
    fn the_time_is_that_of_a_unit() {
        let small = Contender::new("slow", 1, |_| spin(50_000));
        let large = Contender::new("fast", 10, |_| spin(100_000));
        assert_eq!(Speeds::measure(TURNS, vec![small, large]).fastest(), "fast");
    }

    #[test]
    fn a_process_measures_once() {
        let measured = Measured::new();
        assert_eq!(measured.get(), None);
        let calls = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10 {
                        measured.measure_once(TURNS, || {
                            calls.fetch_add(1, Relaxed);
                            ways(&[2, 1])
                        });
                    }
                });
            }
        });
        assert_eq!(calls.load(Relaxed), 1);
        assert_eq!(measured.get().map(Speeds::fastest), Some(1));
    }

    #[test]
    #[should_panic(expected = "there is a way to measure")]
    fn no_way_is_refused() {
        Speeds::<u8>::measure(TURNS, Vec::new());
    }

    #[test]
    #[should_panic(expected = "a way has turns")]
    fn no_turn_is_refused() {
        Speeds::measure(0, ways(&[1]));
    }
}
