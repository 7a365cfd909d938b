//! The cores that a worker may run on just after a wake.
//!
//! The kernel may queue a woken worker on the core of the thread that woke it, though another core
//! is idle. (It does not always recognise an idle core of a virtual machine.) The waking thread
//! goes on making work, and the worker waits for a whole time slice. Rounds of work that begin with
//! a wake then take as long as on one thread. So the waking thread first takes its own core out of
//! the worker's affinity mask. The worker restores its mask before it does anything else.
//!
//! - Only wakes pay for this, and a wake enters the kernel anyway.
//! - The mask is the worker's mask of that moment, so limits from outside hold. Nothing happens if
//!   the mask has only one core, or lacks the core of the waking thread.
//! - Pinned workers keep their masks: they never call [`attach`](Affinity::attach).
//! - Only Linux has this. Elsewhere, and where the kernel refuses, nothing happens.
//!
//! # Protocol
//!
//! Every thread that changes the worker's mask locks `state`. A waking thread never waits for the
//! lock: if another thread holds it, the wake leaves the mask alone. The worker waits for the lock
//! when it restores its mask and when it ends. So a thread id that is used under the lock belongs
//! to a thread that has not ended.
//!
//! A waking thread sets `narrowed` before the step that wakes the worker: the exchange of the
//! worker's state in `sleep`, AcqRel. The worker has seen that exchange when it looks at
//! `narrowed`. A worker that was awake already may miss `narrowed`. It then sees the flag when it
//! next finds work or parks.

pub(crate) use system::Affinity;

#[cfg(all(target_os = "linux", not(blockmill_loom)))]
mod system {
    use blockmill_sync::Mutex;
    use blockmill_sync::atomic::{AtomicBool, Ordering};
    use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_getcpu, sched_setaffinity};

    /// The affinity mask of a worker, which waking threads may narrow.
    #[derive(Default)]
    pub(crate) struct Affinity {
        narrowed: AtomicBool,
        state: Mutex<State>,
    }

    #[derive(Default)]
    struct State {
        /// The worker, while it lives and its mask may be changed.
        thread: Option<Pid>,
        /// The worker's own mask and the narrowed one, while the mask is narrowed.
        masks: Option<(CpuSet, CpuSet)>,
    }

    impl Affinity {
        /// Lets other threads change the mask of the calling thread, which must be the worker.
        pub(crate) fn attach(&self) {
            self.state.lock().thread = Some(gettid());
        }

        /// Keeps other threads from the worker's mask. The worker must call this before it ends.
        pub(crate) fn detach(&self) {
            self.state.lock().thread = None;
        }

        /// Takes the core of the calling thread, which is about to wake the worker, out of the
        /// worker's mask.
        pub(crate) fn exclude_current_core(&self) {
            let Some(mut state) = self.state.try_lock() else {
                return;
            };
            let (Some(thread), None) = (state.thread, &state.masks) else {
                return;
            };
            let Ok(all) = sched_getaffinity(Some(thread)) else {
                return;
            };
            let Some(others) = without(&all, sched_getcpu()) else {
                return;
            };
            if sched_setaffinity(Some(thread), &others).is_ok() {
                state.masks = Some((all, others));
                self.narrowed.store(true, Ordering::Relaxed);
            }
        }

        /// Restores the mask of the calling thread, which must be the worker, if it was narrowed.
        #[inline]
        pub(crate) fn restore(&self) {
            if self.narrowed.load(Ordering::Relaxed) {
                self.restore_narrowed();
            }
        }

        #[cold]
        fn restore_narrowed(&self) {
            let mut state = self.state.lock();
            self.narrowed.store(false, Ordering::Relaxed);
            let Some((all, others)) = state.masks.take() else {
                return;
            };
            // A third mask means limits set from outside meanwhile, and they hold.
            if sched_getaffinity(None).is_ok_and(|now| now == others) {
                // This fails only if the machine has lost these cores. The kernel has then chosen
                // others.
                let _ = sched_setaffinity(None, &all);
            }
        }
    }

    /// The mask without a core, if the mask has that core and at least one other.
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

        fn mask(cores: &[usize]) -> CpuSet {
            let mut mask = CpuSet::new();
            for &core in cores {
                mask.set(core);
            }
            mask
        }

        #[test]
        fn a_mask_loses_one_core_but_never_its_last() {
            assert_eq!(without(&mask(&[0, 3, 900]), 3), Some(mask(&[0, 900])));
            assert_eq!(without(&mask(&[0, 3]), 2), None);
            assert_eq!(without(&mask(&[3]), 3), None);
            assert_eq!(without(&mask(&[]), 0), None);
            assert_eq!(without(&mask(&[0, 3]), CpuSet::MAX_CPU), None);
        }

        /// After any number of exclusions a thread gets its first mask back. After `detach` no
        /// thread changes it.
        #[test]
        fn a_thread_gets_its_mask_back() {
            let affinity = Affinity::default();
            let (tell, told) = channel::<()>();
            let (answer, answered) = channel();
            std::thread::scope(|scope| {
                let affinity = &affinity;
                scope.spawn(move || {
                    affinity.attach();
                    let before = sched_getaffinity(None).expect("at most 1,024 cores");
                    answer.send(None).unwrap();
                    for () in told.iter().take(50) {
                        let narrow = sched_getaffinity(None).unwrap();
                        affinity.restore();
                        assert_eq!(sched_getaffinity(None).unwrap(), before);
                        answer.send(Some((before, narrow))).unwrap();
                    }
                    affinity.detach();
                    answer.send(None).unwrap();
                    for () in told {}
                    assert_eq!(sched_getaffinity(None).unwrap(), before);
                });
                assert_eq!(answered.recv().unwrap(), None);
                for _ in 0..50 {
                    affinity.exclude_current_core();
                    // The second exclusion finds the mask narrowed and does nothing.
                    affinity.exclude_current_core();
                    tell.send(()).unwrap();
                    let (before, narrow) = answered.recv().unwrap().unwrap();
                    // The mask lost at most one core: none if it had one, or if the kernel refused.
                    assert!(narrow == before || narrow.count() + 1 == before.count());
                }
                assert_eq!(answered.recv().unwrap(), None);
                affinity.exclude_current_core();
                drop(tell);
            });
        }

        /// Limits set from outside between the exclusion and the restoration hold.
        #[test]
        fn other_limits_are_kept() {
            let affinity = Affinity::default();
            let (attached, is_attached) = channel();
            let (go_on, goes_on) = channel::<()>();
            std::thread::scope(|scope| {
                let affinity = &affinity;
                scope.spawn(move || {
                    affinity.attach();
                    attached.send(()).unwrap();
                    goes_on.recv().unwrap();
                    let all = sched_getaffinity(None).unwrap();
                    let first = (0..CpuSet::MAX_CPU).find(|&core| all.is_set(core)).unwrap();
                    sched_setaffinity(None, &mask(&[first])).unwrap();
                    affinity.restore();
                    let now = sched_getaffinity(None).unwrap();
                    // With two cores the new mask may be the narrowed one.
                    assert!(now == mask(&[first]) || all == mask(&[first]));
                    affinity.detach();
                });
                is_attached.recv().unwrap();
                affinity.exclude_current_core();
                go_on.send(()).unwrap();
            });
        }
    }
}

#[cfg(any(not(target_os = "linux"), blockmill_loom))]
mod system {
    /// Does nothing on this platform.
    #[derive(Default)]
    pub(crate) struct Affinity;

    impl Affinity {
        #[cfg(not(blockmill_loom))]
        pub(crate) fn attach(&self) {}
        #[cfg(not(blockmill_loom))]
        pub(crate) fn detach(&self) {}
        pub(crate) fn exclude_current_core(&self) {}
        pub(crate) fn restore(&self) {}
    }
}

impl std::fmt::Debug for Affinity {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Affinity").finish_non_exhaustive()
    }
}
