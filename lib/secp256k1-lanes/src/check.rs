//! The backends, and a verifier over them.

#[cfg(target_arch = "x86_64")]
use crate::avx_ifma::{self, AvxIfma};
#[cfg(target_arch = "x86_64")]
use crate::avx2::{self, Avx2};
#[cfg(target_arch = "x86_64")]
use crate::avx512::{self, Avx512};
#[cfg(target_arch = "x86_64")]
use crate::avx512f::{self, Avx512F};
use crate::batch::Batch;
#[cfg(target_arch = "aarch64")]
use crate::neon::{self, Neon};
use crate::question::{Check, Verdict};
use crate::word::BATCH;
use std::sync::OnceLock;

/// How checks are computed.
///
/// Times are for one ECDSA check in batches of 256 on a core of an AMD EPYC (Zen 5), and ratios are
/// to libsecp256k1, which takes 38.5 us there. A [`Kind::Tweak`](crate::Kind::Tweak) takes a fifth
/// of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Backend {
    /// Eight lanes of AVX-512 with IFMA: 4.7 us, ratio 8.1. Batches of fewer than 3 signatures are
    /// slower than libsecp256k1.
    Avx512,
    /// Eight lanes of AVX-512 without IFMA: 9.3 us, ratio 4.1. Batches of fewer than 5 signatures
    /// are slower than libsecp256k1.
    Avx512F,
    /// Four lanes of AVX-IFMA. An estimate of the ratio: 4.1, measured on an Intel Xeon with the
    /// same code on sixteen registers and the encoding of AVX-512 for the two instructions.
    /// Processors with narrower multipliers are slower.
    AvxIfma,
    /// Eight lanes of AVX2 with FMA, in two vectors: 12.3 us, ratio 3.1. Batches of fewer than 6
    /// signatures are slower than libsecp256k1.
    Avx2,
    /// Two lanes of NEON. Not measured on any processor. By llvm-mca's estimate a multiplication
    /// takes a quarter of the cycles of plain integers on a Neoverse N1, and 8% more on an N2.
    Neon,
    /// One lane of plain integers. On an Intel Xeon (Emerald Rapids) 34 us, ratio 1.16. Batches of
    /// fewer than 8 signatures are slower than libsecp256k1.
    Portable,
}

impl Backend {
    /// All backends, in the order in which one is chosen: the fastest first, as far as they were
    /// measured.
    pub const ALL: [Self; 6] = [
        Self::Avx512,
        Self::AvxIfma,
        Self::Avx512F,
        Self::Avx2,
        Self::Neon,
        Self::Portable,
    ];

    /// [`named`](Self::named), or the first one of [`ALL`](Self::ALL) that this machine has.
    pub fn detect() -> Self {
        let available = || Self::ALL.into_iter().find(|backend| backend.is_available());
        Self::named().or_else(available).unwrap_or(Self::Portable)
    }

    /// The backend that the environment variable `BLOCKMILL_BACKEND` names by its
    /// [`name`](Self::name). The variable is for tests of what other machines do, and is read once,
    /// at the first call. An unknown name is ignored, and so is a backend that the machine lacks.
    pub fn named() -> Option<Self> {
        static NAMED: OnceLock<Option<Backend>> = OnceLock::new();
        *NAMED.get_or_init(|| {
            let name = std::env::var("BLOCKMILL_BACKEND").ok()?;
            let backend = Self::ALL.into_iter().find(|backend| backend.name() == name)?;
            backend.is_available().then_some(backend)
        })
    }

    /// `avx512`, `avxifma`, `avx512f`, `avx2`, `neon` or `portable`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Avx512 => "avx512",
            Self::AvxIfma => "avxifma",
            Self::Avx512F => "avx512f",
            Self::Avx2 => "avx2",
            Self::Neon => "neon",
            Self::Portable => "portable",
        }
    }

    /// Whether this machine has what it needs.
    pub fn is_available(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => avx512::is_available(),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512F => avx512f::is_available(),
            #[cfg(target_arch = "x86_64")]
            Self::AvxIfma => avx_ifma::is_available(),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => avx2::is_available(),
            #[cfg(not(target_arch = "x86_64"))]
            Self::Avx512 | Self::Avx512F | Self::AvxIfma | Self::Avx2 => false,
            #[cfg(target_arch = "aarch64")]
            Self::Neon => neon::is_available(),
            #[cfg(not(target_arch = "aarch64"))]
            Self::Neon => false,
            Self::Portable => true,
        }
    }

    /// Whether it verifies signatures at least 1.5 times as fast as libsecp256k1 does one by one,
    /// in batches of 32 and more.
    pub fn is_fast(self) -> bool {
        matches!(self, Self::Avx512 | Self::Avx512F | Self::AvxIfma | Self::Avx2)
    }
}

/// Verifies checks. It keeps working memory of up to three megabytes between calls; every thread
/// should have its own.
#[derive(Debug)]
pub struct Verifier(Batches);

#[derive(Debug)]
enum Batches {
    #[cfg(target_arch = "x86_64")]
    Avx512(Box<Batch<Avx512>>),
    #[cfg(target_arch = "x86_64")]
    Avx512F(Box<Batch<Avx512F>>),
    #[cfg(target_arch = "x86_64")]
    AvxIfma(Box<Batch<AvxIfma>>),
    #[cfg(target_arch = "x86_64")]
    Avx2(Box<Batch<Avx2>>),
    #[cfg(target_arch = "aarch64")]
    Neon(Box<Batch<Neon>>),
    Portable(Box<Batch<u64>>),
}

impl Verifier {
    /// A verifier on the backend of this machine: [`Backend::detect`].
    pub fn new() -> Self {
        Self::with_backend(Backend::detect())
    }

    /// A verifier on a backend; on the portable one if the machine does not have it.
    pub fn with_backend(backend: Backend) -> Self {
        match backend {
            // Created nowhere else: what uses the instructions may rely on it.
            #[cfg(target_arch = "x86_64")]
            Backend::Avx512 if backend.is_available() => Self(Batches::Avx512(Box::default())),
            #[cfg(target_arch = "x86_64")]
            Backend::Avx512F if backend.is_available() => Self(Batches::Avx512F(Box::default())),
            #[cfg(target_arch = "x86_64")]
            Backend::AvxIfma if backend.is_available() => Self(Batches::AvxIfma(Box::default())),
            #[cfg(target_arch = "x86_64")]
            Backend::Avx2 if backend.is_available() => Self(Batches::Avx2(Box::default())),
            #[cfg(target_arch = "aarch64")]
            Backend::Neon if backend.is_available() => Self(Batches::Neon(Box::default())),
            _ => Self(Batches::Portable(Box::default())),
        }
    }

    /// The backend.
    pub fn backend(&self) -> Backend {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Batches::Avx512(_) => Backend::Avx512,
            #[cfg(target_arch = "x86_64")]
            Batches::Avx512F(_) => Backend::Avx512F,
            #[cfg(target_arch = "x86_64")]
            Batches::AvxIfma(_) => Backend::AvxIfma,
            #[cfg(target_arch = "x86_64")]
            Batches::Avx2(_) => Backend::Avx2,
            #[cfg(target_arch = "aarch64")]
            Batches::Neon(_) => Backend::Neon,
            Batches::Portable(_) => Backend::Portable,
        }
    }

    /// Verifies `checks`; the verdicts replace what is in `verdicts`, in the order of the checks.
    pub fn verify(&mut self, checks: &[Check], verdicts: &mut Vec<Verdict>) {
        verdicts.clear();
        verdicts.resize(checks.len(), Verdict::CannotTell);
        for (checks, verdicts) in checks.chunks(BATCH).zip(verdicts.chunks_mut(BATCH)) {
            self.verify_batch(checks, verdicts);
        }
    }

    /// Verifies `checks`, and asks `ask` where the lanes cannot tell. Whether each check holds
    /// replaces what is in `holds`, in the order of the checks.
    ///
    /// `ask` decides alone: it must be a verifier of its own, such as libsecp256k1. Forged
    /// signatures can bring any check to it, so an answer without verification is a hole.
    ///
    /// ```
    /// use secp256k1::{Message, PublicKey, Secp256k1, ecdsa::Signature};
    /// use secp256k1_lanes::{Check, Kind, Verifier};
    ///
    /// // An r this small stands for two x coordinates.
    /// let mut r = [0; 32];
    /// r[31] = 1;
    /// let key = [[3; 1].as_slice(), &[1; 32]].concat().try_into().unwrap();
    /// let check = Check { kind: Kind::Ecdsa, key, r, s: r, message: [5; 32] };
    ///
    /// let secp = Secp256k1::verification_only();
    /// let mut asked = 0;
    /// let mut holds = Vec::new();
    /// Verifier::new().verify_with(&[check], &mut holds, |check| {
    ///     asked += 1;
    ///     let signature = Signature::from_compact(&[check.r, check.s].concat());
    ///     let key = PublicKey::from_slice(&check.key);
    ///     let message = Message::from_digest(check.message);
    ///     matches!((signature, key), (Ok(signature), Ok(key))
    ///         if secp.verify_ecdsa(&message, &signature, &key).is_ok())
    /// });
    /// assert_eq!((holds, asked), (vec![false], 1));
    /// ```
    pub fn verify_with(&mut self, checks: &[Check], holds: &mut Vec<bool>, mut ask: impl FnMut(&Check) -> bool) {
        holds.clear();
        holds.reserve(checks.len());
        let mut verdicts = [Verdict::CannotTell; BATCH];
        for checks in checks.chunks(BATCH) {
            let verdicts = &mut verdicts[..checks.len()];
            self.verify_batch(checks, verdicts);
            holds.extend(checks.iter().zip(verdicts).map(|(check, verdict)| match verdict {
                Verdict::Valid => true,
                Verdict::Invalid => false,
                Verdict::CannotTell => ask(check),
            }));
        }
    }

    /// Verifies at most [`BATCH`] checks.
    fn verify_batch(&mut self, checks: &[Check], verdicts: &mut [Verdict]) {
        match &mut self.0 {
            #[cfg(target_arch = "x86_64")]
            Batches::Avx512(batch) => batch.verify(checks, verdicts),
            #[cfg(target_arch = "x86_64")]
            Batches::Avx512F(batch) => batch.verify(checks, verdicts),
            #[cfg(target_arch = "x86_64")]
            Batches::AvxIfma(batch) => batch.verify(checks, verdicts),
            #[cfg(target_arch = "x86_64")]
            Batches::Avx2(batch) => batch.verify(checks, verdicts),
            #[cfg(target_arch = "aarch64")]
            Batches::Neon(batch) => batch.verify(checks, verdicts),
            Batches::Portable(batch) => batch.verify(checks, verdicts),
        }
    }
}

impl Default for Verifier {
    fn default() -> Self {
        Self::new()
    }
}
