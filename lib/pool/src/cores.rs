//! On which cores a worker may run just after it was woken.
//!
//! The kernel may queue a woken worker behind the very thread that woke it, though another core is idle (the idle core of a virtual
//! machine does not always pass for one). Who makes work goes on doing so, and the worker stands behind it for a whole time slice:
//! rounds of checks that begin with a wake then take as long as on one thread. So whoever wakes a worker first takes its own core out
//! of the worker's set, and the worker takes the set back as the first thing that it does.
//!
//! - It is done on the way of a wake alone, which enters the kernel anyway.
//! - The set is the one that the worker has at that moment, so limits from outside hold. If nothing is left of it (one core), or the core
//!   is not in it, nothing happens. Pinned workers are left alone: they never [`enter`](Home::enter).
//! - Only on Linux; elsewhere, and where the kernel refuses, nothing happens.
//!
//! # Who does what
//!
//! `state` is locked by who changes the worker's set. Who wakes never waits for it: it goes on without when another has it. The worker
//! waits for it when it takes its set back and when it ends. So a number of a thread that is used under the lock belongs to
//! a thread that has not ended.
//!
//! `narrowed` is set before the step that wakes the worker (the exchange of its word in `sleep`, AcqRel), which the worker has seen
//! when it looks here. If it was awake by itself, and misses it, it finds it when it finds work or parks the next time.

pub(crate) use system::Home;

#[cfg(all(target_os = "linux", not(blockmill_loom)))]
mod system {
    use blockmill_sync::Mutex;
    use blockmill_sync::atomic::{AtomicBool, Ordering};
    use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_getcpu, sched_setaffinity};

    /// The cores of a worker.
    #[derive(Default)]
    pub(crate) struct Home {
        narrowed: AtomicBool,
        state: Mutex<State>,
    }

    #[derive(Default)]
    struct State {
        /// The worker, while it lives and may be moved.
        thread: Option<Pid>,
        /// What it gets back, and what it has meanwhile.
        moved: Option<(CpuSet, CpuSet)>,
    }

    impl Home {
        /// Lets the calling thread, which is the worker, be moved.
        pub(crate) fn enter(&self) {
            self.state.lock().thread = Some(gettid());
        }

        /// Says that the worker ends.
        pub(crate) fn leave(&self) {
            self.state.lock().thread = None;
        }

        /// Keeps the worker, which is about to be woken, off the core of the calling thread.
        pub(crate) fn keep_off_this_core(&self) {
            let Some(mut state) = self.state.try_lock() else {
                return;
            };
            let (Some(thread), None) = (state.thread, &state.moved) else {
                return;
            };
            let Ok(all) = sched_getaffinity(Some(thread)) else {
                return;
            };
            if let Some(others) = without(&all, sched_getcpu())
                && sched_setaffinity(Some(thread), &others).is_ok()
            {
                state.moved = Some((all, others));
                self.narrowed.store(true, Ordering::Relaxed);
            }
        }

        /// Gives the calling thread, which is the worker, back what was taken from its set.
        #[inline]
        pub(crate) fn take_back(&self) {
            if self.narrowed.load(Ordering::Relaxed) {
                self.widen();
            }
        }

        #[cold]
        fn widen(&self) {
            let mut state = self.state.lock();
            self.narrowed.store(false, Ordering::Relaxed);
            if let Some((all, others)) = state.moved.take()
                && sched_getaffinity(None).is_ok_and(|now| now == others)
            {
                // Else somebody has set other limits meanwhile, and they hold. It fails only if the machine has lost these cores; then the kernel has
                // chosen others.
                let _ = sched_setaffinity(None, &all);
            }
        }
    }

    /// The set without a core, if that core is in it and others are.
    fn without(all: &CpuSet, core: usize) -> Option<CpuSet> {
        if core >= CpuSet::MAX_CPU || !all.is_set(core) || all.count() < 2 {
            return None;
        }
        let mut others = *all;
        others.unset(core);
        Some(others)
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use std::sync::mpsc::channel;

        fn set(cores: &[usize]) -> CpuSet {
            let mut set = CpuSet::new();
            for &core in cores {
                set.set(core);
            }
            set
        }

        #[test]
        fn a_set_loses_one_core_but_never_its_last() {
            assert_eq!(without(&set(&[0, 3, 900]), 3), Some(set(&[0, 900])));
            assert_eq!(without(&set(&[0, 3]), 2), None);
            assert_eq!(without(&set(&[3]), 3), None);
            assert_eq!(without(&set(&[]), 0), None);
            assert_eq!(without(&set(&[0, 3]), CpuSet::MAX_CPU), None);
        }

        /// However often it is moved, a thread has in the end the set that it had at first; one that has left is not touched.
        #[test]
        fn a_thread_gets_its_set_back() {
            let home = Home::default();
            let (tell, told) = channel::<()>();
            let (answer, answered) = channel();
            std::thread::scope(|scope| {
                let home = &home;
                scope.spawn(move || {
                    home.enter();
                    let before = sched_getaffinity(None).expect("at most 1,024 cores");
                    answer.send(None).unwrap();
                    for () in told.iter().take(50) {
                        let narrow = sched_getaffinity(None).unwrap();
                        home.take_back();
                        assert_eq!(sched_getaffinity(None).unwrap(), before);
                        answer.send(Some((before, narrow))).unwrap();
                    }
                    home.leave();
                    answer.send(None).unwrap();
                    for () in told {}
                    assert_eq!(sched_getaffinity(None).unwrap(), before);
                });
                assert_eq!(answered.recv().unwrap(), None);
                for _ in 0..50 {
                    home.keep_off_this_core();
                    // A second one finds that it has been done.
                    home.keep_off_this_core();
                    tell.send(()).unwrap();
                    let (before, narrow) = answered.recv().unwrap().unwrap();
                    // It lost one core at most: none if it has no other, or the kernel refuses.
                    assert!(narrow == before || narrow.count() + 1 == before.count());
                }
                assert_eq!(answered.recv().unwrap(), None);
                home.keep_off_this_core();
                drop(tell);
            });
        }

        /// Limits that are set from outside between the two steps hold.
        #[test]
        fn other_limits_are_kept() {
            let home = Home::default();
            let (entered, has_entered) = channel();
            let (go_on, goes_on) = channel::<()>();
            std::thread::scope(|scope| {
                let home = &home;
                scope.spawn(move || {
                    home.enter();
                    entered.send(()).unwrap();
                    goes_on.recv().unwrap();
                    let all = sched_getaffinity(None).unwrap();
                    let first = (0..CpuSet::MAX_CPU).find(|&core| all.is_set(core)).unwrap();
                    sched_setaffinity(None, &set(&[first])).unwrap();
                    home.take_back();
                    let now = sched_getaffinity(None).unwrap();
                    // With two cores it may be the set that it had been moved to.
                    assert!(now == set(&[first]) || all == set(&[first]));
                    home.leave();
                });
                has_entered.recv().unwrap();
                home.keep_off_this_core();
                go_on.send(()).unwrap();
            });
        }
    }
}

#[cfg(any(not(target_os = "linux"), blockmill_loom))]
mod system {
    /// Does nothing here.
    #[derive(Default)]
    pub(crate) struct Home;

    impl Home {
        #[cfg(not(blockmill_loom))]
        pub(crate) fn enter(&self) {}
        #[cfg(not(blockmill_loom))]
        pub(crate) fn leave(&self) {}
        pub(crate) fn keep_off_this_core(&self) {}
        pub(crate) fn take_back(&self) {}
    }
}

impl std::fmt::Debug for Home {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Home").finish_non_exhaustive()
    }
}
