//! Prime tests of many numbers, three of which are not prime. The verdict names the lowest of them,
//! on any number of threads: `cargo run --release -p blockmill-checkqueue --example primes`.

#![expect(clippy::print_stdout, reason = "the verdicts are the output")]

use blockmill_checkqueue::{Check, CheckQueue, Failure, Fault};
use std::sync::Arc;
use std::time::Instant;

/// Numbers below this are sieved.
const END: u32 = 1_000_000;

/// A check that the number at this position is prime.
struct IsPrime(usize);

/// A divisor of a number that should be prime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Divisor(u32);

impl Check for IsPrime {
    type Shared = Arc<[u32]>;
    type Error = Divisor;

    fn run(&mut self, numbers: &Arc<[u32]>) -> Result<(), Divisor> {
        let number = numbers[self.0];
        let mut candidates = (2..).take_while(|divisor| divisor * divisor <= number);
        match candidates.find(|divisor| number % divisor == 0) {
            None => Ok(()),
            Some(divisor) => Err(Divisor(divisor)),
        }
    }
}

/// All primes below [`END`].
fn primes() -> Vec<u32> {
    let mut composite = vec![false; END as usize];
    let mut primes = Vec::new();
    for number in 2..END {
        if composite[number as usize] {
            continue;
        }
        primes.push(number);
        for multiple in (2 * number..END).step_by(number as usize) {
            composite[multiple as usize] = true;
        }
    }
    primes
}

/// Tests all numbers in one round, in groups as a real master meets them.
fn verdict(queue: &CheckQueue<IsPrime>, numbers: &Arc<[u32]>) -> Result<(), Failure<Divisor>> {
    let round = queue.begin(numbers.len(), Arc::clone(numbers));
    let mut round = round.expect("no other round is open");
    let mut added = 0;
    while added < numbers.len() {
        let end = numbers.len().min(added + 100);
        // Workers begin with these checks at once.
        round.add((added..end).map(IsPrime));
        added = end;
    }
    // This thread helps until no check is left, then waits for the workers.
    round.complete()
}

fn main() -> std::io::Result<()> {
    let good: Arc<[u32]> = primes().into();
    let mut planted = good.to_vec();
    planted[50_000] = 1_009 * 1_013;
    planted[50_001] = 1_000_000;
    planted[70_000] = 25;
    let planted: Arc<[u32]> = planted.into();
    for workers in [0, 1, 3] {
        let queue = CheckQueue::with_own_threads(workers)?;
        let start = Instant::now();
        assert!(verdict(&queue, &good).is_ok());
        println!("{workers} workers: {} primes in {:?}", good.len(), start.elapsed());
        let failure = verdict(&queue, &planted).expect_err("three numbers are not prime");
        assert_eq!(failure.index, 50_000);
        match failure.fault {
            Fault::Failed(Divisor(divisor)) => {
                assert_eq!(divisor, 1_009);
                println!(
                    "  number {}, {}, has the divisor {divisor}",
                    failure.index, planted[failure.index]
                );
            }
            Fault::Panicked(panic) => panic.resume(),
        }
    }
    Ok(())
}
