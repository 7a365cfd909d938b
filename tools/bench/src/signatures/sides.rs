//! The contenders.

use blockmill_chaingen::bitcoin::key::{Parity, Secp256k1};
use blockmill_chaingen::bitcoin::secp256k1::{Message, PublicKey, Scalar, VerifyOnly, XOnlyPublicKey, ecdsa, schnorr};
use blockmill_kernel::KernelVerifier;
use blockmill_script::{CoreVerifier, Signatures};
use secp256k1_lanes::{Backend, Check, Kind, Verifier};

/// Our verifier. It defers on any machine.
pub(super) fn ours() -> CoreVerifier {
    CoreVerifier::new(Signatures::Lanes)
}

/// The peer of whole script checks.
pub(super) fn peer() -> KernelVerifier {
    KernelVerifier
}

/// The backend of the lanes on this machine.
pub(super) fn backend() -> &'static str {
    match Verifier::new().backend() {
        Backend::Avx512 => "AVX-512 with IFMA",
        Backend::AvxIfma => "AVX-IFMA",
        Backend::Avx2 => "AVX2 with FMA",
        Backend::Portable => "plain integers",
    }
}

/// Whether the lanes are faster than libsecp256k1 on this machine.
pub(crate) fn lanes_are_fast() -> bool {
    Verifier::new().backend().is_fast()
}

/// The peer of the lanes alone: it verifies one check at a time.
pub(super) trait OneByOne {
    /// Whether a check holds.
    fn is_valid(&self, check: &Check) -> bool;
}

/// The copy of libsecp256k1 that verifies one by one.
pub(super) const ONE_BY_ONE: &str = "that of the secp256k1 crate 0.29";

/// libsecp256k1, as the `secp256k1` crate has it.
pub(super) struct Bundled(Secp256k1<VerifyOnly>);

impl Bundled {
    pub(super) fn new() -> Self {
        Self(Secp256k1::verification_only())
    }
}

impl OneByOne for Bundled {
    fn is_valid(&self, check: &Check) -> bool {
        let signature = [check.r, check.s].concat();
        let x_only = || XOnlyPublicKey::from_slice(&check.key[1..]).ok();
        let valid = match check.kind {
            Kind::Ecdsa => PublicKey::from_slice(&check.key).ok().and_then(|key| {
                let mut signature = ecdsa::Signature::from_compact(&signature).ok()?;
                signature.normalize_s();
                let message = Message::from_digest(check.message);
                self.0.verify_ecdsa(&message, &signature, &key).ok()
            }),
            Kind::Schnorr => x_only().and_then(|key| {
                let signature = schnorr::Signature::from_slice(&signature).ok()?;
                let message = Message::from_digest(check.message);
                self.0.verify_schnorr(&signature, &message, &key).ok()
            }),
            Kind::Tweak => x_only().and_then(|key| {
                let tweaked = XOnlyPublicKey::from_slice(&check.r).ok()?;
                let tweak = Scalar::from_be_bytes(check.s).ok()?;
                let parity = Parity::from_u8(check.message[0]).ok()?;
                key.tweak_add_check(&self.0, &tweaked, parity, tweak).then_some(())
            }),
        };
        valid.is_some()
    }
}
