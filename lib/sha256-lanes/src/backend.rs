//! The backends.

use crate::message::Message;
use crate::schedule::{double_in_lanes, halve_in_lanes};
use crate::single::Single;
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
    /// All backends, in the order of their speed on the processors that were measured.
    pub const ALL: [Self; 4] = [Self::Avx512, Self::Sha, Self::Avx2, Self::Single];

    /// [`named`](Self::named), or the first one of [`ALL`](Self::ALL) that this machine has.
    pub fn detect() -> Self {
        let first = || Self::available().next();
        Self::named().or_else(first).unwrap_or(Self::Single)
    }

    /// The backend that the environment variable `BLOCKMILL_BACKEND` names by its
    /// [`name`](Self::name). The variable is for tests of what other machines do, and is read once,
    /// at the first call. An unknown name is ignored, and so is a backend that the machine lacks.
    pub fn named() -> Option<Self> {
        static NAMED: OnceLock<Option<Backend>> = OnceLock::new();
        *NAMED.get_or_init(|| {
            let name = std::env::var("BLOCKMILL_BACKEND").ok()?;
            Self::available().find(|backend| backend.name() == name)
        })
    }

    /// The backends of this machine, in the order of [`ALL`](Self::ALL).
    pub(crate) fn available() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|backend| backend.is_available())
    }

    /// `avx512`, `sha`, `avx2`, or `portable` for [`Single`](Self::Single).
    pub const fn name(self) -> &'static str {
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

/// Hashes on one backend.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OnBackend {
    pub(crate) backend: Backend,
    #[cfg(target_arch = "x86_64")]
    avx512: Option<Avx512>,
    #[cfg(target_arch = "x86_64")]
    avx2: Option<Avx2>,
    /// With the SHA instructions, a message by itself is fast, too.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    sha: Option<Sha>,
}

impl OnBackend {
    /// On the single one if the machine does not have it.
    pub(crate) fn new(backend: Backend) -> Self {
        // An `OnBackend` whose instructions are not there could not be: the lanes below exist only
        // after their `detect`.
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

    /// As [`Hasher::double`](crate::Hasher::double), over messages with their numbers.
    pub(crate) fn double<'m>(
        &self,
        messages: &mut impl Iterator<Item = (usize, Message<'m>)>,
        done: &mut impl FnMut(usize, [u8; 32]),
    ) {
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

    /// As [`Hasher::halve`](crate::Hasher::halve).
    pub(crate) fn halve(&self, nodes: &mut Vec<[u8; 32]>) {
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
