//! What is asked.

use crate::backend::{Backend, OnBackend};
use crate::message::Message;
use crate::single::finish;

/// Hashes many messages at once. It has no memory of its own, and costs nothing to make or copy.
#[derive(Debug, Clone, Copy)]
pub struct Hasher {
    on: OnBackend,
}

impl Hasher {
    /// A hasher on the backend of this machine: [`Backend::detect`].
    pub fn new() -> Self {
        Self::with_backend(Backend::detect())
    }

    /// A hasher on a backend; on the single one if the machine does not have it.
    pub fn with_backend(backend: Backend) -> Self {
        Self {
            on: OnBackend::new(backend),
        }
    }

    /// The backend.
    pub fn backend(&self) -> Backend {
        self.on.backend
    }

    /// The double SHA-256 of each message. `done` is called once for each, with the message's
    /// number and its digest, in any order.
    pub fn double<'m>(&self, messages: impl IntoIterator<Item = Message<'m>>, mut done: impl FnMut(usize, [u8; 32])) {
        self.on.double(&mut messages.into_iter().enumerate(), &mut done);
    }

    /// The next level of a merkle tree: each two nodes become the double SHA-256 of both.
    ///
    /// # Panics
    /// If the number of nodes is odd.
    pub fn halve(&self, nodes: &mut Vec<[u8; 32]>) {
        assert!(nodes.len().is_multiple_of(2), "each node has another beside it");
        self.on.halve(nodes);
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
