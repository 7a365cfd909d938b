//! Tests that put their own lanes instead of the real ones.

mod hashing;
mod hostile;
mod lanes;
mod lying;
mod multisig;
mod mutated;
mod oracle;
mod parts;
mod random;
mod real_blocks;
mod samples;
mod signatures;

/// How many cases a test tries: `BLOCKMILL_TEST_DEFERRAL`, or `usual`.
fn cases(usual: u64) -> u64 {
    match std::env::var("BLOCKMILL_TEST_DEFERRAL") {
        Ok(text) => text.parse().expect("BLOCKMILL_TEST_DEFERRAL is a number"),
        Err(_) => {
            eprintln!("short: {usual} cases; BLOCKMILL_TEST_DEFERRAL sets the number");
            usual
        }
    }
}
