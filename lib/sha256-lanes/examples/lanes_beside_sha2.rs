//! How fast messages and merkle pairs are hashed, beside the crate `sha2` alone: `cargo run
//! --release --example lanes_beside_sha2`.

#![allow(clippy::print_stdout, reason = "the numbers are the output")]

use sha2::{Digest, Sha256};
use sha256_lanes::{Backend, Hasher, Message};
use std::time::Instant;

/// Turns of each contender. The least time is that of a processor left alone.
const TURNS: usize = 40;

fn least(mut work: impl FnMut()) -> f64 {
    (0..TURNS).fold(f64::MAX, |least, _| {
        let start = Instant::now();
        work();
        least.min(start.elapsed().as_secs_f64())
    })
}

fn reference(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(Sha256::digest(bytes)).into()
}

/// A hasher of each backend that this machine has.
fn hashers() -> impl Iterator<Item = Hasher> {
    let available = Backend::ALL.into_iter().filter(|backend| backend.is_available());
    available.map(Hasher::with_backend)
}

fn main() {
    let nodes: Vec<[u8; 32]> = (0..4096u32).map(|number| reference(&number.to_le_bytes())).collect();
    let halved: Vec<_> = nodes.chunks(2).map(|pair| reference(&pair.concat())).collect();
    let pair = |seconds: f64| seconds * 1e9 / halved.len() as f64;
    let theirs = least(|| {
        let found: Vec<_> = nodes.chunks(2).map(|pair| reference(pair.as_flattened())).collect();
        assert_eq!(found, halved);
    });
    println!("merkle pairs: sha2 {:.1} ns", pair(theirs));
    for hasher in hashers() {
        let ours = least(|| {
            let mut nodes = nodes.clone();
            hasher.halve(&mut nodes);
            assert_eq!(nodes, halved);
        });
        println!(
            "  {:?}: {:.1} ns, ratio {:.2}",
            hasher.backend(),
            pair(ours),
            theirs / ours
        );
    }
    for length in [100, 250, 1_000] {
        let messages: Vec<Vec<u8>> = (0..1_000usize)
            .map(|number| (0..length + number % 97).map(|at| (at ^ number) as u8).collect())
            .collect();
        let digests: Vec<_> = messages.iter().map(|bytes| reference(bytes)).collect();
        let total: usize = messages.iter().map(Vec::len).sum();
        let rate = |seconds: f64| total as f64 / seconds / 1e9;
        let theirs = least(|| {
            for (message, digest) in messages.iter().zip(&digests) {
                assert_eq!(reference(message), *digest);
            }
        });
        println!(
            "messages of {length} to {} bytes: sha2 {:.2} GB/s",
            length + 96,
            rate(theirs)
        );
        for hasher in hashers() {
            let ours = least(|| {
                hasher.double(messages.iter().map(|bytes| Message::new(bytes)), |number, digest| {
                    assert_eq!(digest, digests[number]);
                });
            });
            println!(
                "  {:?}: {:.2} GB/s, ratio {:.2}",
                hasher.backend(),
                rate(ours),
                theirs / ours
            );
        }
    }
}
