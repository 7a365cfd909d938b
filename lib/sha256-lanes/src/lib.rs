//! Double SHA-256 of many messages at once.
//!
//! [`Hasher::double`] hashes messages of any lengths, [`Hasher::halve`] a level of a merkle tree.
//! Double SHA-256 is the SHA-256 of the SHA-256.
//!
//! ```
//! use sha256_lanes::{Hasher, Message};
//!
//! let hasher = Hasher::new();
//! let texts = ["one", "two", "three"];
//! let mut digests = [[0; 32]; 3];
//! hasher.double(
//!     texts.iter().map(|text| Message::new(text.as_bytes())),
//!     |number, digest| digests[number] = digest,
//! );
//!
//! let mut nodes = vec![digests[0], digests[1]];
//! hasher.halve(&mut nodes);
//! assert_eq!(nodes, [sha256_lanes::double(&[digests[0], digests[1]].concat())]);
//! ```
//!
//! # Shapes, units, errors
//!
//! - Digests are 32 bytes in the order of SHA-256. Lengths are in bytes.
//! - A message is up to three slices, read one after the other. No slice is copied but the end of a
//!   message, and a message of several slices.
//! - There are no errors. A message MUST be shorter than 2^61 bytes, as every slice is.
//! - Nothing runs in constant time.
//!
//! # Algorithm
//!
//! A *lane* has one message, and all lanes do the same step, which takes one block of 64 bytes for
//! each. A lane that is done takes the next message, so lengths may differ (Gopal and others,
//! "Processing multiple buffers in parallel to increase performance on Intel architecture
//! processors", 2010). The second hash is one more block of the same lane. When few messages are
//! left they are finished one by one, by the crate `sha2`.
//!
//! In vector registers, each of the eight words of all states is one register, and a lane is a
//! position in it. With instructions for SHA-256 there are two lanes, since one message alone waits
//! for each of its rounds.
//!
//! A merkle pair is one block and one block of padding, which is always the same: its schedule is a
//! table.
//!
//! # Modules in reading order
//!
//! - `hasher`: what is asked.
//! - `backend`: the backends, in the order in which one is chosen.
//! - `message`: messages as blocks of 64 bytes.
//! - `schedule`: messages are put into lanes; levels of trees.
//! - `lanes`: what a backend does. `single` is one lane, by the crate `sha2`.
//! - `rounds`: the rounds of SHA-256 over vectors, for `avx2` and `avx512`.
//! - `two`: two lanes with instructions for SHA-256: `sha` has those of x86-64, `sha_arm` those of
//!   ARMv8.

mod backend;
mod hasher;
mod lanes;
mod message;
mod schedule;
mod single;

#[cfg(target_arch = "x86_64")]
#[macro_use]
mod rounds;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[macro_use]
mod two;
#[cfg(target_arch = "x86_64")]
mod sha;
#[cfg(target_arch = "aarch64")]
mod sha_arm;

#[cfg(all(target_arch = "aarch64", target_endian = "big"))]
compile_error!("the lanes with the SHA2 instructions are made for little-endian ARM64 only");

pub use backend::Backend;
pub use hasher::{Hasher, double};
pub use message::Message;

#[cfg(test)]
mod tests;
