//! Models of a ring: slots that go to a server and come back. Loom checks every access to a slot's
//! cell.

use super::{WEAKENED, Weakened, model};
use crate::slot_ring::SlotRing;
use loom::sync::Arc;
use loom::thread;

type Jobs = SlotRing<u32>;

/// The requester of a ring.
struct Requester {
    ring: Arc<Jobs>,
    fill: u64,
}

impl Requester {
    fn new(slots: usize) -> Self {
        Self {
            ring: Arc::new(SlotRing::new(slots)),
            fill: 0,
        }
    }

    /// Puts jobs into slots of its own, and hands them over together.
    fn submit(&mut self, jobs: &[(u32, u32)]) {
        for &(slot, job) in jobs {
            self.fill ^= 1 << slot;
            #[expect(unsafe_code, reason = "the model is about this access")]
            // SAFETY: this is the only requester; models submit only to slots that they have
            // collected or never used.
            unsafe {
                self.ring.put(slot, job);
            }
        }
        #[expect(unsafe_code, reason = "the model is about this access")]
        // SAFETY: as above; the slots hold jobs.
        unsafe {
            self.ring.hand_over(self.fill);
        }
    }

    /// Waits for the job of a slot, and takes it.
    fn collect(&self, slot: u32) -> u32 {
        while (self.ring.done() ^ self.fill) >> slot & 1 == 1 {
            thread::yield_now();
        }
        #[expect(unsafe_code, reason = "the model is about this access")]
        // SAFETY: this is the only requester; the bits of the slot are equal, and it was handed
        // over with a job.
        unsafe {
            self.ring.take(slot)
        }
    }

    /// A thread that serves until it has handled `jobs` jobs, and adds 100 to each.
    fn server(&self, jobs: u32) -> thread::JoinHandle<()> {
        let ring = Arc::clone(&self.ring);
        thread::spawn(move || {
            let mut handled = 0;
            while handled < jobs {
                handled += serve(&ring);
                if handled < jobs {
                    thread::yield_now();
                }
            }
        })
    }
}

fn serve(ring: &Jobs) -> u32 {
    let Some(mut claim) = ring.try_claim() else {
        return 0;
    };
    let handle = |job: &mut u32| {
        *job += 100;
        Ok(())
    };
    claim.serve(|| true, handle, |_| (), |_, _| ()).count_ones()
}

fn one_job_there_and_back() {
    model(3, || {
        let mut requester = Requester::new(1);
        let server = requester.server(1);
        requester.submit(&[(0, 1)]);
        assert_eq!(requester.collect(0), 101);
        server.join().unwrap();
    });
}

#[test]
fn a_job_goes_to_the_server_and_its_result_comes_back() {
    one_job_there_and_back();
}

/// The planted weakening: without Release the server may not see the job.
#[test]
#[should_panic(expected = "Causality violation")]
fn a_weaker_hand_over_is_caught() {
    WEAKENED.set(Weakened::Fill);
    one_job_there_and_back();
}

/// The planted weakening: without Release the requester may not see the result.
#[test]
#[should_panic(expected = "Causality violation")]
fn a_weaker_return_is_caught() {
    WEAKENED.set(Weakened::Done);
    one_job_there_and_back();
}

#[test]
fn a_slot_is_used_again() {
    model(3, || {
        let mut requester = Requester::new(1);
        let server = requester.server(2);
        for job in 1..=2 {
            requester.submit(&[(0, job)]);
            assert_eq!(requester.collect(0), job + 100);
        }
        server.join().unwrap();
    });
}

#[test]
fn one_slot_is_filled_while_another_is_served() {
    model(2, || {
        let mut requester = Requester::new(2);
        let server = requester.server(3);
        requester.submit(&[(0, 1)]);
        requester.submit(&[(1, 2)]);
        assert_eq!(requester.collect(0), 101);
        requester.submit(&[(0, 3)]);
        assert_eq!((requester.collect(1), requester.collect(0)), (102, 103));
        server.join().unwrap();
    });
}

/// A slot goes from one server to another, by way of the requester.
fn two_servers(preemptions: usize) {
    model(preemptions, || {
        let mut requester = Requester::new(2);
        requester.submit(&[(0, 1), (1, 2)]);
        let servers: Vec<_> = (0..2)
            .map(|_| {
                let ring = Arc::clone(&requester.ring);
                thread::spawn(move || {
                    // A unit of one job each. If both servers come at once, only one gets the
                    // claim.
                    ring.try_claim().map_or(0, |mut claim| {
                        let handle = |job: &mut u32| {
                            *job += 100;
                            Ok(())
                        };
                        claim.serve(|| false, handle, |_| (), |_, _| ()).count_ones()
                    })
                })
            })
            .collect();
        let handled: u32 = servers.into_iter().map(|server| server.join().unwrap()).sum();
        assert!((1..=2).contains(&handled));
        // The requester serves the rest itself.
        assert_eq!(serve(&requester.ring), 2 - handled);
        assert_eq!((requester.collect(0), requester.collect(1)), (101, 102));
        assert!(!requester.ring.has_work());
    });
}

#[test]
fn one_at_a_time_serves() {
    two_servers(4);
}

/// The planted weakening: without Release a server may not see how far the previous one has come,
/// and may handle a job twice.
#[test]
#[should_panic(expected = "Causality violation")]
fn a_weaker_leave_is_caught() {
    WEAKENED.set(Weakened::Serving);
    two_servers(4);
}

#[test]
fn a_requester_that_waits_serves_too() {
    model(3, || {
        let mut requester = Requester::new(2);
        let ring = Arc::clone(&requester.ring);
        let server = thread::spawn(move || serve(&ring));
        requester.submit(&[(0, 1), (1, 2)]);
        let mut helped = 0;
        while requester.ring.done() != requester.fill {
            helped += serve(&requester.ring);
            thread::yield_now();
        }
        assert_eq!((requester.collect(0), requester.collect(1)), (101, 102));
        assert_eq!(helped + server.join().unwrap(), 2);
    });
}
