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
//! - an addition of two equal or opposite points on the way, u1 G and u2 P among them, and a result
//!   at infinity;
//! - a message of 0 in ECDSA, an s of 0 in BIP340, a tweak of 0.
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
//! - Checks are verified in batches of [`BATCH`]. A batch below 16 signatures takes nearly as long
//!   as one of 16 on eight lanes. Tweaks take a fifth of a signature's time.
//! - A verifier keeps its working memory. Every thread should have a verifier of its own. All share
//!   tables of 832 KiB, which the first verification makes in a few milliseconds.
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
//! 2. 1 / s is shared over the batch by Montgomery's trick ("Speeding the Pollard and elliptic
//!    curve methods of factorization", 1987). The one inversion that is left follows Bernstein and
//!    Yang ("Fast constant-time gcd computation and modular inversion", 2019), in variable time.
//!    Products modulo n are Montgomery's ("Modular multiplication without trial division", 1985).
//! 3. u1 and u2 are each split into two halves (Gallant, Lambert and Vanstone, "Faster point
//!    multiplication on elliptic curves with efficient endomorphisms", 2001). Halves are made odd,
//!    so that each of their digits is odd (Hamburg, "Fast and compact elliptic-curve cryptography",
//!    2012, section 3.3). No digit is 0, so all lanes have one schedule.
//! 4. u1 G is a sum of 26 entries of tables that are made once, one table for each position of
//!    digits of 10 bits (Brickell, Gordon, McCurley and Wilson, "Fast exponentiation with
//!    precomputation", 1992). They are added up in affine coordinates, with shared inversions.
//! 5. P is known by x and the parity of y. No square root is taken: with c = x^3 + 7, the point
//!    (c x, c^2) is on the curve y^2 = x^3 + 7 c^3, where P is without its y. u2 P is computed
//!    there, as in libsecp256k1's multiplication of x coordinates.
//! 6. The two products of u2 are interleaved over one row of doublings (Straus, "Addition chains of
//!    vectors", 1964; Moeller, "Algorithms for multi-exponentiation", 2001), in windows of 5 bits.
//!    Both points of a position are first added up in affine coordinates. What remains is in
//!    Jacobian coordinates: 125 doublings and 25 mixed additions. A doubling is dbl-2009-l of the
//!    Explicit-Formulas Database, with 4 X Y^2 as a product. An addition is madd-2004-hmv of the
//!    same.
//! 7. A key that repeats in a batch has tables of 2^35 P, 2^70 P and 2^105 P too, one for each of
//!    four blocks of positions. The blocks are walked side by side, with 30 doublings and 6 mixed
//!    additions (Lim and Lee, "More flexible exponentiation with precomputation", 1994).
//! 8. The wanted x coordinate, u1 G and u2 P leave one y that the key can have. The check holds if
//!    its square is c, and its parity is the key's (`compare.rs`). That takes one inversion, which
//!    is shared. A result that is not on its curve is `CannotTell`.
//!
//! Formulas do not ask whether their case is the general one. In a special case a denominator is 0.
//! An affine sum and the comparison report that. A Jacobian one multiplies the denominator into Z,
//! which stays 0, and the comparison divides by Z. `point.rs` has the argument, and
//! `docs/signatures.md` of the project has all such states, each with its mask and its test.
//!
//! # Modules in reading order
//!
//! - `question`: what is asked and answered.
//! - `check`: the backends, and a verifier over them.
//! - `batch`: a batch from bytes to verdicts.
//! - `keys`: the keys of a batch, each once.
//! - `positions`: how scalars are cut into digits and blocks.
//! - `comb`: further tables for keys that repeat.
//! - `multiply`: u1 G, and u2 P of many points.
//! - `compare`: whether these are what a check asks for.
//! - `point`, `field`, `limbs`: formulas, shared inversions, arithmetic modulo p.
//! - `scalar`: arithmetic modulo n, halves and digits.
//! - `inverse`, `number`, `curve`: one inversion, plain numbers, the tables of G.
//! - `key`: single keys, for those who have no other library.
//! - `columns`: products in halves, which vectors multiply. `multiplier` is what they multiply
//!   with, `floats` one for all vectors of floats, `signed` its products, whose low halves have a
//!   sign. `two` makes one word of two vectors.
//! - `wide`: whole products, which plain integers multiply.
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
mod limbs;
#[cfg(test)]
mod model;
mod multiply;
mod number;
mod point;
mod portable;
mod positions;
mod question;
mod scalar;
mod wide;
mod word;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod avx512f;
#[cfg(target_arch = "x86_64")]
mod avx_ifma;
#[cfg(any(test, target_arch = "x86_64", target_arch = "aarch64"))]
mod columns;
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
#[cfg(target_arch = "x86_64")]
mod two;

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
