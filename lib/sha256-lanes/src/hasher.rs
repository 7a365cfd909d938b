//! What is asked, and the backends.

use crate::message::Message;
use crate::schedule::{double_in_lanes, halve_in_lanes};
use crate::single::{Single, finish};
use std::sync::OnceLock;

#[cfg(target_arch = "aarch64")]
use crate::sha_arm::Sha;
#[cfg(target_arch = "x86_64")]
use crate::{avx2::Avx2, avx512::Avx512, sha::Sha};

/// How hashes are computed.
///
/// Times are for one pair of a merkle tree, on a core of an AMD EPYC (Zen 5). The crate `sha2`
/// takes 132 ns there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Backend {
    /// Sixteen lanes of AVX-512: 36 ns.
    Avx512,
    /// Two lanes with the SHA instructions: 77 ns. ARMv8 has such instructions, too; not measured
    /// there.
    Sha,
    /// Eight lanes of AVX2: 93 ns.
    Avx2,
    /// One message after the other, by the crate `sha2`.
    Single,
}

impl Backend {
    /// All backends, the fastest first.
    pub const ALL: [Self; 4] = [Self::Avx512, Self::Sha, Self::Avx2, Self::Single];

    /// The fastest backend of this machine, or the backend that the environment variable
    /// `BLOCKMILL_BACKEND` names: `avx512`, `sha`, `avx2` or `portable`, which is
    /// [`Single`](Self::Single). The variable is for tests of what other machines do, and is read
    /// once, at the first call. An unknown name is ignored, and so is a backend that the machine
    /// lacks.
    pub fn detect() -> Self {
        static CHOSEN: OnceLock<Backend> = OnceLock::new();
        *CHOSEN.get_or_init(|| {
            let wanted = std::env::var("BLOCKMILL_BACKEND").unwrap_or_default();
            let mut backends = Self::ALL.into_iter().filter(|backend| backend.is_available());
            let named = backends.clone().find(|backend| backend.name() == wanted);
            named.or_else(|| backends.next()).unwrap_or(Self::Single)
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Avx512 => "avx512",
            Self::Sha => "sha",
            Self::Avx2 => "avx2",
            Self::Single => "portable",
        }
    }

    /// Whether this machine has what it needs.
    pub fn is_available(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => Avx512::detect().is_some(),
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            Self::Sha => Sha::detect().is_some(),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => Avx2::detect().is_some(),
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx512 | Self::Avx2 => false,
            #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
            Self::Sha => false,
            Self::Single => true,
        }
    }
}

/// Hashes many messages at once. It has no memory of its own, and costs nothing to make or copy.
#[derive(Debug, Clone, Copy)]
pub struct Hasher {
    backend: Backend,
    #[cfg(target_arch = "x86_64")]
    avx512: Option<Avx512>,
    #[cfg(target_arch = "x86_64")]
    avx2: Option<Avx2>,
    /// With the SHA instructions, a message by itself is fast, too.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    sha: Option<Sha>,
}

impl Hasher {
    /// A hasher on the fastest backend.
    pub fn new() -> Self {
        Self::with_backend(Backend::detect())
    }

    /// A hasher on a backend; on the single one if the machine does not have it.
    pub fn with_backend(backend: Backend) -> Self {
        // A hasher on a backend that is not there could not be: the lanes below exist only after
        // their `detect`.
        let backend = match backend.is_available() {
            true => backend,
            false => Backend::Single,
        };
        Self {
            backend,
            #[cfg(target_arch = "x86_64")]
            avx512: Avx512::detect().filter(|_| backend == Backend::Avx512),
            #[cfg(target_arch = "x86_64")]
            avx2: Avx2::detect().filter(|_| backend == Backend::Avx2),
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            sha: Sha::detect().filter(|_| matches!(backend, Backend::Avx512 | Backend::Sha)),
        }
    }

    /// The backend.
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// The double SHA-256 of each message. `done` is called once for each, with the message's
    /// number and its digest, in any order.
    pub fn double<'m>(&self, messages: impl IntoIterator<Item = Message<'m>>, mut done: impl FnMut(usize, [u8; 32])) {
        let messages = &mut messages.into_iter().enumerate();
        let done = &mut done;
        #[cfg(target_arch = "x86_64")]
        {
            if let Some(lanes) = self.avx512 {
                // In the time of one step of all lanes, the SHA instructions take as many blocks.
                let fewest = if self.sha.is_some() { 4 } else { 2 };
                return double_in_lanes::<_, 16>(lanes, fewest, messages, done);
            }
            if let Some(lanes) = self.avx2 {
                return double_in_lanes::<_, 8>(lanes, 2, messages, done);
            }
        }
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        if let Some(lanes) = self.sha {
            return double_in_lanes::<_, 2>(lanes, 2, messages, done);
        }
        double_in_lanes::<_, 1>(Single, 2, messages, done);
    }

    /// The next level of a merkle tree: each two nodes become the double SHA-256 of both.
    ///
    /// # Panics
    /// If the number of nodes is odd.
    pub fn halve(&self, nodes: &mut Vec<[u8; 32]>) {
        assert!(nodes.len().is_multiple_of(2), "each node has another beside it");
        let mut done = 0;
        #[cfg(target_arch = "x86_64")]
        {
            if let Some(lanes) = self.avx512 {
                // Half-empty vectors are slower than the SHA instructions, which take the rest.
                let fewest = if self.sha.is_some() { 8 } else { 3 };
                done = halve_in_lanes::<_, 16>(lanes, fewest, nodes, done);
            }
            // In turn, each from where the one before stopped: at most one of the first two is
            // there.
            if let Some(lanes) = self.avx2 {
                done = halve_in_lanes::<_, 8>(lanes, 2, nodes, done);
            }
        }
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        if let Some(lanes) = self.sha {
            done = halve_in_lanes::<_, 2>(lanes, 2, nodes, done);
        }
        done = halve_in_lanes::<_, 1>(Single, 1, nodes, done);
        // All pairs are done: the last backend takes a single one, too.
        nodes.truncate(done);
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
