//! Many secp256k1 signatures verified at once, in the lanes of vector registers.
//!
//! A [`Verifier`] takes a slice of [`Check`]s and gives a [`Verdict`] for each. A check is an ECDSA
//! signature, a signature of BIP340, or the commitment of a taproot output (BIP341). The kinds may
//! be mixed in any order.
//!
//! ```
//! use secp256k1::{Message, Secp256k1, SecretKey};
//! use secp256k1_lanes::{Check, Kind, Verdict, Verifier};
//!
//! let secp = Secp256k1::new();
//! let secret = SecretKey::from_slice(&[7; 32])?;
//! let message = [1; 32];
//! let signature = secp.sign_ecdsa(&Message::from_digest(message), &secret).serialize_compact();
//! let check = Check {
//!     kind: Kind::Ecdsa,
//!     key: secret.public_key(&secp).serialize(),
//!     r: signature[..32].try_into()?,
//!     s: signature[32..].try_into()?,
//!     message,
//! };
//! let wrong = Check { message: [2; 32], ..check };
//!
//! let mut verdicts = Vec::new();
//! Verifier::new().verify(&[check, wrong], &mut verdicts);
//! assert_eq!(verdicts, [Verdict::Valid, Verdict::Invalid]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Verdicts
//!
//! [`Verdict::Valid`] and [`Verdict::Invalid`] are final. [`Verdict::CannotTell`] is no verdict:
//! the check met a special case, and the caller asks another library
//! ([`Verifier::verify_with`]). Special cases are
//!
//! - an ECDSA signature with an r below p - n, which stands for two x coordinates;
//! - an addition of two equal or opposite points on the way, and a result at infinity.
//!
//! Random signatures meet them with a probability below 2^-100. A forger can build them. One check
//! in a special case changes no other verdict of its batch.
//!
//! # Shapes, units, errors
//!
//! - All numbers are 32 bytes in big endian. Keys are compressed, or x-only with any first byte.
//! - Bitcoin's rule for ECDSA holds: an s above n / 2 is invalid. Callers normalise it if they
//!   want.
//! - Any bytes are allowed. A number out of its range, or a key that is no point, is invalid. There
//!   are no errors, and no panics.
//! - Checks are verified in batches of [`BATCH`]. A batch below 32 checks takes as long as one of
//!   32 on eight lanes.
//! - A verifier keeps its working memory. Every thread should have a verifier of its own. All share
//!   tables of 256 KiB, which the first verification makes.
//! - Nothing runs in constant time. Keys, signatures and messages must be public.
//!
//! # Algorithm
//!
//! All kinds ask one question: is u1 G + u2 P the point with a given x coordinate, and for two of
//! the kinds with a given parity of y? `batch.rs` has the table of u1, u2 and P.
//!
//! 1. Numbers are in five limbs of 52 bits, and each limb is a vector with one check a lane. This
//!    is what the multiply-add instructions of IFMA are made for (Gueron and Krasnov, "Accelerating
//!    big integer arithmetic using Intel IFMA extensions", 2016).
//! 2. Keys are lifted by a power (p + 1) / 4, with the addition chain of libsecp256k1.
//! 3. 1 / s is shared over the batch by Montgomery's trick ("Speeding the Pollard and elliptic
//!    curve methods of factorization", 1987). The one inversion that is left follows Bernstein and
//!    Yang ("Fast constant-time gcd computation and modular inversion", 2019), in variable time.
//!    Products modulo n are Montgomery's ("Modular multiplication without trial division", 1985).
//! 4. u1 and u2 are each split into two halves (Gallant, Lambert and Vanstone, "Faster point
//!    multiplication on elliptic curves with efficient endomorphisms", 2001). Halves are made odd,
//!    so that each of their digits is odd (Hamburg, "Fast and compact elliptic-curve cryptography",
//!    2012, section 3.3). No digit is 0, so all lanes have one schedule.
//! 5. The four products are interleaved over one row of doublings (Straus, "Addition chains of
//!    vectors", 1964; Moeller, "Algorithms for multi-exponentiation", 2001). Windows have 5 bits
//!    for P and 10 bits for G. All points that are added at one position are first added up in
//!    affine coordinates, with shared inversions.
//! 6. What remains is in Jacobian coordinates: 125 doublings and 25 mixed additions. A doubling is
//!    dbl-2009-l of the Explicit-Formulas Database, with 4 X Y^2 as a product. An addition is
//!    madd-2004-hmv of the same.
//! 7. A key that repeats in a batch has tables of 2^35 P, 2^70 P and 2^105 P too, one for each of
//!    four blocks of positions. The blocks are walked side by side, with 30 doublings and 6 mixed
//!    additions (Lim and Lee, "More flexible exponentiation with precomputation", 1994).
//! 8. The result is compared without an inversion: x Z^2 = X. A result with Z = 0, or one that is
//!    not on the curve, is `CannotTell`.
//!
//! Formulas do not ask whether their case is the general one. In a special case a denominator is 0.
//! An affine sum reports that. A Jacobian one multiplies the denominator into Z, which stays 0.
//! `point.rs` has the argument, and `docs/signatures.md` of the project has all such states, each
//! with its mask and its test.
//!
//! # Modules in reading order
//!
//! - `question`: what is asked and answered.
//! - `check`: the backends, and a verifier over them.
//! - `batch`: a batch from bytes to verdicts.
//! - `keys`: the keys of a batch, each once.
//! - `positions`: how scalars are cut into digits and blocks.
//! - `comb`: further tables for keys that repeat.
//! - `multiply`: sums u1 G + u2 P of many points.
//! - `point`, `field`: formulas, shared inversions, arithmetic modulo p.
//! - `scalar`: arithmetic modulo n, halves and digits.
//! - `inverse`, `number`, `curve`: one inversion, plain numbers, the tables of G.
//! - `key`: single keys, for those who have no other library.
//! - `multiplier`: what vectors multiply with. `floats` is one for all vectors of floats, `signed`
//!   its products, whose low halves have a sign.
//! - `word`: the lane type that all of this is generic over. `portable` is one lane of `u64`, on
//!   any machine; the others are vectors. Tests add intervals, which prove that nothing overflows.
//! - `fault`: carries and masks that tests leave out.

mod batch;
mod check;
mod comb;
mod compare;
mod curve;
mod fault;
mod field;
mod inverse;
mod key;
mod keys;
mod multiply;
mod number;
mod point;
mod portable;
mod positions;
mod question;
mod scalar;
mod word;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod avx512f;
#[cfg(target_arch = "x86_64")]
mod avx_ifma;
#[cfg(target_arch = "x86_64")]
mod eight;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod floats;
#[cfg(target_arch = "x86_64")]
mod four;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod multiplier;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(any(test, target_arch = "x86_64", target_arch = "aarch64"))]
mod signed;

#[cfg(all(target_arch = "aarch64", target_endian = "big"))]
compile_error!("the lanes of NEON are made for little-endian ARM64 only");

pub use check::{Backend, Verifier};
pub use key::{decompress, is_point};
pub use question::{Check, Kind, Verdict};
pub use word::BATCH;

#[cfg(test)]
mod tests;

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
