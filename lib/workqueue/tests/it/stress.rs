//! More threads than cores, for a while: `BLOCKMILL_TEST_QUEUE_SECONDS` sets the duration (1 by
//! default).

use blockmill_workqueue::{Handler, Help, Options, Requester, WorkQueue};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Jobs of very different durations. The handler adds up all requests.
#[derive(Default)]
struct Uneven(AtomicU64);

#[derive(Clone, Copy)]
struct Job {
    request: u64,
    result: u64,
}

fn mix(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ number
}

impl Handler for Uneven {
    type Job = Job;

    fn handle(&self, job: &mut Job) {
        let rounds = match mix(job.request) % 64 {
            0 => 20_000,
            1..8 => 1_000,
            _ => 0,
        };
        for _ in 0..rounds {
            std::hint::spin_loop();
        }
        assert_eq!(job.result, 0, "it was handled before");
        job.result = mix(job.request);
        self.0.fetch_add(job.request, Ordering::Relaxed);
    }
}

/// Submits and collects until `end`. Now and then the requester collects nothing for a while,
/// sleeps, or is replaced. Returns the sum of its requests.
fn run_requester(queue: &WorkQueue<Uneven>, number: u64, end: Instant) -> u64 {
    let mut requester = queue.requester();
    let (mut sum, mut next) = (0, number << 32);
    let check = |requester: &mut Requester<Uneven>, any: bool| {
        let done = if any {
            requester.collect_any()
        } else {
            requester.collect_next()
        };
        if let Some(done) = done {
            let job = done.unwrap().take();
            assert_eq!(job.result, mix(job.request));
        }
    };
    while Instant::now() < end {
        let burst = mix(next) % 100;
        for _ in 0..burst {
            let job = Job {
                request: next,
                result: 0,
            };
            while requester.submit(job).is_err() {
                check(&mut requester, next % 3 == 0);
            }
            sum += next;
            next += 1;
        }
        match burst % 16 {
            0 => std::thread::sleep(Duration::from_micros(300)),
            1 => {
                while requester.in_flight() > 0 {
                    check(&mut requester, true);
                }
                requester = queue.requester();
            }
            _ => check(&mut requester, burst % 2 == 0),
        }
    }
    while requester.in_flight() > 0 {
        check(&mut requester, false);
    }
    sum
}

#[test]
fn many_requesters_and_workers() {
    let seconds = match std::env::var("BLOCKMILL_TEST_QUEUE_SECONDS") {
        Ok(text) => text.parse().unwrap(),
        Err(_) => {
            eprintln!("short: 1 s; BLOCKMILL_TEST_QUEUE_SECONDS sets the seconds");
            1.0
        }
    };
    let settings = [
        (1, 1, 4, Help::Never),
        (2, 8, 4, Help::Never),
        (8, 2, 1, Help::WhileWaiting),
        (8, 64, 4, Help::WhileWaiting),
        (1, 2, 16, Help::WhileWaiting),
        (6, 6, 4, Help::WhileWaiting),
    ];
    for (requesters, workers, slots, help) in settings {
        let options = Options {
            workers: Some(workers),
            slots_per_worker: Some(slots),
            help,
        };
        let queue = WorkQueue::with_own_threads(Uneven::default(), &options).unwrap();
        let end = Instant::now() + Duration::from_secs_f64(seconds / settings.len() as f64);
        let sum = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..requesters)
                .map(|number| {
                    let queue = &queue;
                    scope.spawn(move || run_requester(queue, number, end))
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .fold(0, u64::wrapping_add)
        });
        assert_eq!(queue.handler().0.load(Ordering::Relaxed), sum);
    }
}
