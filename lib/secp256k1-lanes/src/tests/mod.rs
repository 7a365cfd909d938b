//! Unit tests, over all lane types.

/// Runs an expression with every lane type that this machine has, where its instructions may be
/// used.
macro_rules! on_lane_types {
    (|$word:ident| $body:expr) => {{
        {
            type $word = u64;
            for products in $crate::model::Products::ALL {
                products.with(|| $body);
            }
        }
        on_vector_types!(|$word| $body)
    }};
}

/// The same without plain integers; says whether there is any.
macro_rules! on_vector_types {
    (|$word:ident| $body:expr) => {{
        #[allow(unused_mut, reason = "processors without vectors")]
        let mut any = false;
        #[cfg(target_arch = "x86_64")]
        {
            use $crate::{avx_ifma, avx_ifma::twin, avx2, avx512, avx512f, word::Word as _};
            $crate::tests::note_missing_vectors();
            if avx512::is_available() {
                type $word = avx512::Avx512;
                $word::vectorize(|| $body);
                any = true;
            }
            if avx512f::is_available() {
                type $word = avx512f::Avx512F;
                $word::vectorize(|| $body);
                any = true;
            }
            if avx_ifma::is_available() {
                type $word = avx_ifma::AvxIfma;
                $word::vectorize(|| $body);
                any = true;
            }
            if twin::is_available() {
                type $word = twin::Twin;
                $word::vectorize(|| $body);
                any = true;
            }
            if avx2::is_available() {
                type $word = avx2::Avx2;
                $word::vectorize(|| $body);
                any = true;
            }
        }
        #[cfg(target_arch = "aarch64")]
        if $crate::neon::is_available() {
            type $word = $crate::neon::Neon;
            <$word as $crate::word::Word>::vectorize(|| $body);
            any = true;
        }
        any
    }};
}

/// Prints the vectors that this machine lacks; `make test` collects these lines.
#[cfg(target_arch = "x86_64")]
fn note_missing_vectors() {
    use crate::{avx_ifma, avx2, avx512, avx512f};
    for (name, is_available) in [
        ("Avx512", avx512::is_available()),
        ("Avx512F", avx512f::is_available()),
        ("AvxIfma", avx_ifma::is_available()),
        ("Avx2", avx2::is_available()),
    ] {
        if !is_available {
            eprintln!("short: this machine has no {name}");
        }
    }
}

mod agreement;
mod arithmetic;
#[path = "../../tests/common/dice.rs"]
mod dice;
mod faults;
mod groups;
mod intervals;
mod points;
mod whole;

use crate::word::Word;
pub(crate) use dice::Rng;
use num_bigint::BigUint;

impl Rng {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

pub(crate) fn big(number: &[u64; 4]) -> BigUint {
    number.iter().rev().fold(BigUint::ZERO, |sum, &limb| (sum << 64) + limb)
}

pub(crate) fn p() -> BigUint {
    big(&crate::number::P)
}

pub(crate) fn n() -> BigUint {
    big(&crate::number::N)
}

/// The value of limbs of 52 bits, in one lane.
pub(crate) fn value<W: Word>(limbs: &[W], lane: usize) -> BigUint {
    limbs
        .iter()
        .rev()
        .fold(BigUint::ZERO, |sum, limb| (sum << 52) + limb.to_lanes()[lane])
}

pub(crate) fn number(big: &BigUint) -> [u64; 4] {
    let mut digits = big.to_u64_digits();
    digits.resize(4, 0);
    digits.try_into().expect("at most 256 bits")
}
