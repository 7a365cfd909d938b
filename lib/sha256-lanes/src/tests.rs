//! Every backend of this machine beside the crate `sha2`.

use crate::{Backend, Hasher, Message, double};
use proptest::prelude::*;
use sha2::{Digest, Sha256};

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
