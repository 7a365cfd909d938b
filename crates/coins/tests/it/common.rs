//! Shared parts of the undo log's tests.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

pub(crate) mod faulty_file;

/// Pseudorandom numbers (xorshift).
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// A record of this length, different from all others.
    pub(crate) fn record(&mut self, length: usize) -> Vec<u8> {
        let mut record = Vec::with_capacity(length + 8);
        while record.len() < length {
            record.extend(self.next().to_le_bytes());
        }
        record.truncate(length);
        record
    }
}

/// Runs a test that must not hang.
pub(crate) fn without_hanging(test: impl FnOnce() + Send + 'static) {
    const LIMIT: Duration = Duration::from_secs(60);
    let (sender, receiver) = mpsc::channel();
    let thread = thread::spawn(move || {
        test();
        sender.send(()).unwrap();
    });
    match receiver.recv_timeout(LIMIT) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it hangs"),
        // Finished, or panicked.
        _ => thread.join().unwrap(),
    }
}
