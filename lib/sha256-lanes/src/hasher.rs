//! What is asked.

use crate::backend::{Backend, OnBackend};
use crate::choice::{FULL, measure_once};
use crate::message::Message;
use crate::single::finish;

/// Hashes many messages at once. It has no memory of its own, and costs nothing to make or copy.
#[derive(Debug, Clone, Copy)]
pub struct Hasher {
    on: OnBackend,
    /// Whether it goes on with the fastest backend when that is measured.
    is_automatic: bool,
}

impl Hasher {
    /// A hasher that takes the fastest backend of this machine: [`Backend::detect`]. Its first full
    /// batch, of 128 messages or pairs, measures which one that is, once in a process.
    pub fn new() -> Self {
        Self {
            on: OnBackend::new(Backend::detect()),
            is_automatic: true,
        }
    }

    /// A hasher on a backend; on the single one if the machine does not have it.
    pub fn with_backend(backend: Backend) -> Self {
        Self {
            on: OnBackend::new(backend),
            is_automatic: false,
        }
    }

    /// The backend. An automatic hasher may take another one after its first full batch.
    pub fn backend(&self) -> Backend {
        self.on.backend
    }

    /// What hashes so many messages or pairs.
    fn for_batch(&self, count: usize) -> OnBackend {
        if !self.is_automatic || count < FULL {
            return self.on;
        }
        measure_once();
        OnBackend::new(Backend::detect())
    }

    /// The double SHA-256 of each message. `done` is called once for each, with the message's
    /// number and its digest, in any order.
    pub fn double<'m>(&self, messages: impl IntoIterator<Item = Message<'m>>, mut done: impl FnMut(usize, [u8; 32])) {
        let messages = messages.into_iter();
        let on = self.for_batch(messages.size_hint().0);
        on.double(&mut messages.enumerate(), &mut done);
    }

    /// The next level of a merkle tree: each two nodes become the double SHA-256 of both.
    ///
    /// # Panics
    /// If the number of nodes is odd.
    pub fn halve(&self, nodes: &mut Vec<[u8; 32]>) {
        assert!(nodes.len().is_multiple_of(2), "each node has another beside it");
        self.for_batch(nodes.len() / 2).halve(nodes);
    }
}

impl Default for Hasher {
    fn default() -> Self {
        Self::new()
    }
}

/// The double SHA-256 of one message, by the crate `sha2`.
pub fn double(bytes: &[u8]) -> [u8; 32] {
    let mut end = Vec::new();
    let whole = Message::new(bytes).blocks(&mut end);
    finish(crate::lanes::START, [whole, end.as_chunks().0])
}
