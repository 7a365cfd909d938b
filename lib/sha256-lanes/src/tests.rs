//! Every backend of this machine beside the crate `sha2`, and the choice between them.

use crate::choice::{FULL, TURNS, contenders};
use crate::{Backend, Hasher, Message, double, measured};
use blockmill_fastest::{Speeds, beside_busy_threads};
use proptest::prelude::*;
use sha2::{Digest, Sha256};
use std::time::Instant;

fn expected(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(Sha256::digest(bytes)).into()
}

/// Hashers of all backends; those that this machine lacks are named.
fn hashers() -> Vec<Hasher> {
    let (here, absent): (Vec<_>, Vec<_>) = Backend::ALL.into_iter().partition(|backend| backend.is_available());
    for backend in absent {
        eprintln!("short: this machine has no {backend:?}");
    }
    here.into_iter().map(Hasher::with_backend).collect()
}

fn bytes(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 + seed * 17 + at / 251) as u8).collect()
}

/// The digests of messages, of which each is cut into slices in a way of its own.
fn doubled(hasher: Hasher, messages: &[Vec<u8>]) -> Vec<[u8; 32]> {
    let cut = |(number, bytes): (usize, &'_ Vec<u8>)| {
        let first = (number * 7) % (bytes.len() + 1);
        let second = first + (bytes.len() - first) / 2;
        (first, second)
    };
    let in_slices = messages.iter().enumerate().map(|(number, bytes)| {
        let (first, second) = cut((number, bytes));
        match number % 3 {
            0 => Message::new(bytes),
            1 => Message::of_slices([&bytes[..first], &bytes[first..second], &bytes[second..]]),
            _ => Message::of_slices([&[], bytes, &[]]),
        }
    });
    let mut digests = vec![None; messages.len()];
    hasher.double(in_slices, |number, digest| {
        assert!(digests[number].replace(digest).is_none(), "message {number} twice");
    });
    digests
        .into_iter()
        .map(|digest| digest.expect("each message"))
        .collect()
}

#[test]
fn every_length() {
    let messages: Vec<_> = (0..300).map(|length| bytes(length, length)).collect();
    let digests: Vec<_> = messages.iter().map(|bytes| expected(bytes)).collect();
    for hasher in hashers() {
        assert_eq!(doubled(hasher, &messages), digests, "{:?}", hasher.backend());
    }
    for (bytes, digest) in messages.iter().zip(digests) {
        assert_eq!(double(bytes), digest);
    }
}

#[test]
fn every_number_of_messages() {
    for count in 0..70 {
        // The first is the longest, then the last.
        for long in [0, count] {
            let length = |number: usize| if number + 1 == long { 5_000 } else { 40 + number * 13 };
            let messages: Vec<_> = (0..count).map(|number| bytes(length(number), number)).collect();
            let digests: Vec<_> = messages.iter().map(|bytes| expected(bytes)).collect();
            for hasher in hashers() {
                assert_eq!(doubled(hasher, &messages), digests, "{count}, {:?}", hasher.backend());
            }
        }
    }
}

#[test]
fn every_number_of_pairs() {
    for pairs in 0..70 {
        let nodes: Vec<[u8; 32]> = (0..2 * pairs).map(|number| expected(&bytes(9, number))).collect();
        let halved: Vec<_> = nodes.chunks(2).map(|pair| expected(&pair.concat())).collect();
        for hasher in hashers() {
            let mut nodes = nodes.clone();
            hasher.halve(&mut nodes);
            assert_eq!(nodes, halved, "{pairs}, {:?}", hasher.backend());
        }
    }
}

#[test]
#[should_panic(expected = "each node has another beside it")]
fn an_odd_number_of_nodes_is_refused() {
    Hasher::new().halve(&mut vec![[0; 32]; 3]);
}

#[test]
fn a_backend_that_is_missing_is_replaced() {
    for backend in Backend::ALL {
        let found = Hasher::with_backend(backend).backend();
        let wanted = if backend.is_available() {
            backend
        } else {
            Backend::Single
        };
        assert_eq!(found, wanted);
    }
    assert!(Backend::detect().is_available());
}

/// More busy threads than cores change nothing.
#[test]
fn the_fastest_backend_is_found_each_time() {
    let (found, least) = beside_busy_threads(|| {
        let mut least = f64::MAX;
        let mut found = Vec::new();
        for _ in 0..100 {
            let start = Instant::now();
            found.push(Speeds::measure(TURNS, contenders()));
            // The least: other threads run in the others.
            least = least.min(start.elapsed().as_secs_f64() * 1e3);
        }
        (found, least)
    });
    let available = || Backend::ALL.into_iter().filter(|backend| backend.is_available());
    for speeds in &found {
        assert_eq!(speeds.ways().len(), available().count());
        assert!(speeds.ways().is_sorted_by_key(|speed| speed.time));
    }
    // Tests for ARM64 may run in an emulator, whose times say nothing.
    if cfg!(target_arch = "x86_64") {
        // The order of the backends is that of their speed on all processors that were measured.
        let expected = available().next();
        for speeds in &found {
            assert_eq!(Some(speeds.fastest()), expected, "{speeds:?}");
        }
        assert!(least < 5.0, "{least} ms");
    }
}

/// Neither few messages nor hashers with a backend measure. No other test has a full batch for an
/// automatic hasher.
#[test]
fn a_full_batch_is_measured_with() {
    let messages = vec![bytes(100, 1); FULL];
    let digests = vec![expected(&messages[0]); FULL];
    for hasher in hashers() {
        assert_eq!(doubled(hasher, &messages), digests);
    }
    let hasher = Hasher::new();
    assert_eq!(doubled(hasher, &messages[1..]), digests[1..]);
    assert_eq!(measured(), None);
    assert_eq!(doubled(hasher, &messages), digests);
    let mut nodes = vec![digests[0]; 2 * FULL];
    hasher.halve(&mut nodes);
    assert_eq!(nodes, vec![expected(&[digests[0]; 2].concat()); FULL]);
    let available = || Backend::ALL.into_iter().filter(|backend| backend.is_available());
    match Backend::named() {
        Some(named) => assert_eq!((measured(), Backend::detect()), (None, named)),
        None if available().count() == 1 => assert_eq!(measured(), None),
        None => {
            let fastest = measured().expect("a full batch").fastest();
            assert_eq!((Backend::detect(), Hasher::new().backend()), (fastest, fastest));
        }
    }
}

#[test]
fn known_digests() {
    // The first block of Bitcoin: its header, and the pair of hashes in block 170.
    let text = "0100000000000000000000000000000000000000000000000000000000000000000000003ba3edfd7a7b12b27ac72c3e67768f617fc81bc3888a51323a9fb8aa4b1e5e4a29ab5f49ffff001d1dac2b7c";
    let header: Vec<u8> = (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect();
    for hasher in hashers() {
        let digest = doubled(hasher, &vec![header.clone(); 20]);
        for digest in digest {
            assert_eq!(digest[28..], [0; 4]);
            assert_eq!(digest[..4], [0x6f, 0xe2, 0x8c, 0x0a]);
        }
    }
}

proptest! {
    #[test]
    fn any_messages(messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..700), 0..60)) {
        let digests: Vec<_> = messages.iter().map(|bytes| expected(bytes)).collect();
        for hasher in hashers() {
            prop_assert_eq!(doubled(hasher, &messages), digests.clone());
        }
    }

    #[test]
    fn any_pairs(nodes in prop::collection::vec(any::<[u8; 32]>(), 0..120)) {
        let even = nodes.len() / 2 * 2;
        let halved: Vec<_> = nodes[..even].chunks(2).map(|pair| expected(&pair.concat())).collect();
        for hasher in hashers() {
            let mut nodes = nodes[..even].to_vec();
            hasher.halve(&mut nodes);
            prop_assert_eq!(nodes, halved.clone());
        }
    }
}
