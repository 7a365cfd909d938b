//! Several requesters share the workers of one queue. Each finds the longest Collatz chain of a
//! range of its own: some collect in the order of submission, the others as jobs finish.
//! `cargo run --release -p blockmill-workqueue --example requesters` runs it.

#![expect(clippy::print_stdout, reason = "the chains are the output")]

use blockmill_workqueue::{Full, Handler, Options, Requester, WorkQueue};
use std::ops::Range;

/// Numbers in the range of each requester.
const RANGE: u64 = 50_000;

/// A job: the number at which a chain begins, and then the length of the chain.
#[derive(Clone, Copy)]
struct Chain {
    start: u64,
    steps: u32,
}

struct Collatz;

impl Handler for Collatz {
    type Job = Chain;

    fn handle(&self, chain: &mut Chain) {
        let mut number = chain.start;
        while number != 1 {
            number = if number % 2 == 0 { number / 2 } else { 3 * number + 1 };
            chain.steps += 1;
        }
    }
}

/// The jobs of a range.
fn chains(range: Range<u64>) -> impl Iterator<Item = Chain> {
    range.map(|start| Chain { start, steps: 0 })
}

/// The longer of two chains; of equal ones the one with the lower start.
fn longer(a: Chain, b: Chain) -> Chain {
    if (b.steps, a.start) > (a.steps, b.start) { b } else { a }
}

/// Collects in the order of submission. `process` submits, collects and keeps the slots full.
fn longest_in_order(requester: &mut Requester<Collatz>, range: Range<u64>) -> Chain {
    let (mut next, mut longest) = (
        range.start,
        Chain {
            start: range.start,
            steps: 0,
        },
    );
    requester.process(chains(range), |result| {
        let chain = result.expect("the handler does not panic");
        assert_eq!(chain.start, next);
        next += 1;
        longest = longer(longest, chain);
    });
    longest
}

/// Collects as jobs finish. A full queue returns the job, and a result must be collected first.
fn longest_as_finished(requester: &mut Requester<Collatz>, range: Range<u64>) -> Chain {
    let mut longest = Chain {
        start: range.start,
        steps: 0,
    };
    let mut collect = |requester: &mut Requester<Collatz>| match requester.collect_any() {
        None => false,
        Some(result) => {
            // The chain is still in its slot: this reads it there, and then frees the slot.
            let done = result.expect("the handler does not panic");
            longest = longer(longest, *done);
            true
        }
    };
    for mut chain in chains(range) {
        while let Err(Full(back)) = requester.submit(chain) {
            chain = back;
            collect(requester);
        }
    }
    while collect(requester) {}
    longest
}

fn main() -> std::io::Result<()> {
    let queue = WorkQueue::with_own_threads(Collatz, &Options::default())?;
    println!("{} workers", queue.workers());
    std::thread::scope(|scope| {
        for number in 0..4 {
            // Each requester has slots of its own, and moves to the thread that uses it.
            let mut requester = queue.requester();
            scope.spawn(move || {
                let range = 1 + number * RANGE..1 + (number + 1) * RANGE;
                let in_order = number % 2 == 0;
                let longest = if in_order {
                    longest_in_order(&mut requester, range.clone())
                } else {
                    longest_as_finished(&mut requester, range.clone())
                };
                let order = if in_order { "in order" } else { "as finished" };
                println!("{range:?}, {order}: {} has {} steps", longest.start, longest.steps);
                let expected = chains(range).map(|mut chain| {
                    Collatz.handle(&mut chain);
                    chain
                });
                let expected = expected.reduce(longer).expect("a range is not empty");
                assert_eq!((longest.start, longest.steps), (expected.start, expected.steps));
            });
        }
    });
    Ok(())
}
