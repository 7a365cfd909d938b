//! Whether to enqueue checks or to run them inline.
//!
//! An enqueued check is written to memory, published and claimed, and its cache lines travel to
//! another core and back. That takes longer than a check that compares two numbers. So a master
//! runs checks that cost less than [`INLINE_BELOW_NS`] each inline, as they are added, and enqueues
//! all others. The policy decides when and where a check runs. The verdict of the round does not
//! depend on it.
//!
//! - *Enqueue first.* A queue enqueues its first [`ENQUEUED_MIN`] checks unseen. Then the master
//!   runs a group of checks itself and measures their time; if the first check alone is long, that
//!   one is the group. If the group was slow enough to enqueue, the master goes on to enqueue. The
//!   interval to the next group doubles each time, up to [`ENQUEUED_MAX`].
//! - *Run inline.* Between two measured groups, [`INLINE_MIN`] checks run inline at first. The
//!   interval doubles each time, up to [`INLINE_MAX`]. After a slow group the master measures the
//!   next checks at once, since the thread may merely have lost its core. If that group is slow
//!   too, the master enqueues again. So when many cheap checks turn slow, at most [`INLINE_MAX`]
//!   slow checks run inline, besides the measured ones.
//!
//! A group is [`GROUP`] checks, after [`WARM_UP`] checks that warm up their code. Its time covers
//! construction, run and destruction of the checks, since the master constructs them in any case.
//! The policy carries over from round to round.

use blockmill_sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Checks that take less run inline.
const INLINE_BELOW_NS: u32 = 25;

/// Checks that are measured together.
const GROUP: u32 = 8;

/// Checks that run first, as a warm-up. They count only if they alone take as long as the group
/// may.
const WARM_UP: u32 = 1;

/// Checks that are enqueued before a group is measured, at least and at most.
const ENQUEUED_MIN: u32 = 1 << 10;
const ENQUEUED_MAX: u32 = 1 << 14;

/// Checks that run inline before a group is measured, at least and at most.
const INLINE_MIN: u32 = 16;
const INLINE_MAX: u32 = 256;

/// What to do with the next check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(crate) enum Next {
    /// Give the check to the workers.
    Enqueue,
    /// Run the check at once.
    RunInline,
    /// Run the check at once, and measure the time.
    Probe,
}

/// A master's knowledge of its checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InlinePolicy {
    run_inline: bool,
    /// Checks until the next measured group.
    left: u32,
    /// The number from which `left` counts down.
    interval: u32,
    /// Whether the last group was slow, and the next must confirm that.
    in_doubt: bool,
}

impl Default for InlinePolicy {
    fn default() -> Self {
        Self::begin(false, ENQUEUED_MIN)
    }
}

impl InlinePolicy {
    const fn begin(run_inline: bool, interval: u32) -> Self {
        Self {
            run_inline,
            left: interval,
            interval,
            in_doubt: false,
        }
    }

    /// The policy of a master without workers: all checks run inline, and none is measured. A round
    /// has fewer than 2^32 checks.
    pub(crate) const fn without_workers() -> Self {
        Self::begin(true, u32::MAX)
    }

    #[inline]
    pub(crate) fn next(&mut self) -> Next {
        if self.left == 0 {
            return Next::Probe;
        }
        self.left -= 1;
        if self.run_inline {
            Next::RunInline
        } else {
            Next::Enqueue
        }
    }

    /// Adapts the policy to the time of a measured group.
    pub(crate) fn record_probe(&mut self, group: &ProbeGroup) {
        let enqueue = group.time >= Duration::from_nanos((GROUP * INLINE_BELOW_NS).into());
        *self = match (self.run_inline, enqueue) {
            (false, true) => Self::begin(false, (self.interval * 2).min(ENQUEUED_MAX)),
            (false, false) => Self::begin(true, INLINE_MIN),
            (true, false) => Self::begin(true, (self.interval * 2).min(INLINE_MAX)),
            (true, true) if self.in_doubt => Self::begin(false, ENQUEUED_MIN),
            (true, true) => Self {
                left: 0,
                in_doubt: true,
                ..*self
            },
        };
    }
}

/// A group that is being measured. It may stretch over several calls that add checks. The time
/// between the calls does not count.
#[derive(Debug, Default)]
pub(crate) struct ProbeGroup {
    checks: u32,
    time: Duration,
    /// When the current stretch of counted time began.
    since: Option<Instant>,
}

impl ProbeGroup {
    /// Starts the clock, before a check of the group runs.
    pub(crate) fn resume(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }

    /// Counts a check of the group that has run. Returns whether the check was the last.
    pub(crate) fn record_check(&mut self) -> bool {
        self.checks += 1;
        if self.checks == WARM_UP || self.checks == WARM_UP + GROUP {
            self.pause();
        }
        if self.checks == WARM_UP {
            let long = self.time >= Duration::from_nanos((GROUP * INLINE_BELOW_NS).into());
            if !long {
                self.time = Duration::ZERO;
            }
            return long;
        }
        self.checks >= WARM_UP + GROUP
    }

    /// Stops the clock.
    #[inline]
    pub(crate) fn pause(&mut self) {
        if let Some(since) = self.since.take() {
            self.time += since.elapsed().saturating_sub(clock_read_time());
        }
    }
}

/// The time that one reading of the clock takes: the fastest of several tries, measured once.
fn clock_read_time() -> Duration {
    const TRIES: usize = 16;
    static READ_TIME: OnceLock<Duration> = OnceLock::new();
    *READ_TIME.get_or_init(|| {
        let tries = (0..TRIES).map(|_| Instant::now().elapsed());
        tries.min().unwrap_or_default()
    })
}

/// The policy at the end of the queue's last round. Rounds that overlap overwrite one another's
/// policy.
#[derive(Debug)]
pub(crate) struct LastPolicy(AtomicU64);

impl Default for LastPolicy {
    fn default() -> Self {
        let this = Self(AtomicU64::new(0));
        this.set(InlinePolicy::default());
        this
    }
}

impl LastPolicy {
    pub(crate) fn set(&self, policy: InlinePolicy) {
        let interval = u64::from(policy.interval) << 1 | u64::from(policy.run_inline);
        self.0.store(interval << 32 | u64::from(policy.left), Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> InlinePolicy {
        let word = self.0.load(Ordering::Relaxed);
        InlinePolicy {
            run_inline: word >> 32 & 1 == 1,
            left: word as u32,
            interval: (word >> 33) as u32,
            in_doubt: false,
        }
    }
}

#[cfg(all(test, not(blockmill_loom)))]
mod tests {
    use super::*;

    /// A group with checks of `ns` nanoseconds each, and the number of checks that ran.
    fn group(ns: u32) -> (ProbeGroup, u32) {
        let long = ns >= GROUP * INLINE_BELOW_NS;
        let (timed, checks) = if long { (1, WARM_UP) } else { (GROUP, WARM_UP + GROUP) };
        let group = ProbeGroup {
            time: Duration::from_nanos((timed * ns).into()),
            ..ProbeGroup::default()
        };
        (group, checks)
    }

    /// Goes through checks of `ns` nanoseconds each. Counts those enqueued, run inline and
    /// measured.
    fn go(policy: &mut InlinePolicy, checks: u32, ns: u32) -> [u32; 3] {
        let mut counts = [0; 3];
        while counts.iter().sum::<u32>() < checks {
            match policy.next() {
                Next::Enqueue => counts[0] += 1,
                Next::RunInline => counts[1] += 1,
                Next::Probe => {
                    let (group, checks) = group(ns);
                    counts[2] += checks;
                    policy.record_probe(&group);
                }
            }
        }
        counts
    }

    #[test]
    fn slow_checks_are_enqueued_and_few_are_probed() {
        let [enqueued, inline, probed] = go(&mut InlinePolicy::default(), 100_000, 70_000);
        assert_eq!((enqueued + probed, inline), (100_000, 0));
        assert!(probed < 15, "{probed}");
    }

    #[test]
    fn cheap_checks_run_inline_and_few_are_probed() {
        let [enqueued, inline, probed] = go(&mut InlinePolicy::default(), 1_000_000, 5);
        assert_eq!(enqueued, ENQUEUED_MIN);
        assert!(probed < inline / 20, "{probed} of {inline}");
        let limit = go(&mut InlinePolicy::default(), 1_000_000, INLINE_BELOW_NS);
        assert_eq!(limit[1], 0);
    }

    #[test]
    fn checks_that_become_slow_are_enqueued_soon_and_run_inline_again_when_they_are_cheap() {
        for before in 0..2_000 {
            let mut policy = InlinePolicy::default();
            go(&mut policy, ENQUEUED_MIN + before, 5);
            let [enqueued, inline, probed] = go(&mut policy, 1_500, 70_000);
            assert!(inline <= INLINE_MAX && probed <= 3, "{inline}, {probed}");
            assert!(enqueued > 0);
            go(&mut policy, ENQUEUED_MIN, 5);
            let [enqueued, inline, _] = go(&mut policy, 10_000, 5);
            assert!(inline > enqueued, "{inline}, {enqueued}");
        }
    }

    #[test]
    fn one_long_group_changes_nothing() {
        let mut policy = InlinePolicy::default();
        go(&mut policy, 10_000, 5);
        while policy.next() != Next::Probe {}
        policy.record_probe(&group(500_000).0);
        assert_eq!(policy.next(), Next::Probe);
        policy.record_probe(&group(5).0);
        assert_eq!(policy.next(), Next::RunInline);
    }

    #[test]
    fn what_is_known_is_kept_for_the_next_round() {
        let last = LastPolicy::default();
        assert_eq!(last.get(), InlinePolicy::default());
        let mut policy = InlinePolicy::default();
        for ns in [5, 70_000, 5, 5, 26] {
            go(&mut policy, 777, ns);
            last.set(policy);
            let found = last.get();
            assert_eq!(
                found,
                InlinePolicy {
                    in_doubt: false,
                    ..policy
                }
            );
        }
    }

    #[test]
    fn a_group_ends_after_so_many_checks_or_a_long_one() {
        let mut group = ProbeGroup::default();
        for _ in 0..1_000 {
            let mut checks = 1;
            group.resume();
            while !group.record_check() {
                checks += 1;
                group.pause();
                group.resume();
            }
            assert!(checks == WARM_UP || checks == WARM_UP + GROUP, "{checks}");
            assert!(group.since.is_none());
            group = ProbeGroup::default();
        }
        group.since = Instant::now().checked_sub(Duration::from_secs(1));
        assert!(group.record_check() && group.time > Duration::from_millis(500));
    }

    #[test]
    fn without_workers_all_run_inline() {
        let mut policy = InlinePolicy::without_workers();
        assert_eq!(go(&mut policy, 10_000, 70_000), [0, 10_000, 0]);
    }
}
