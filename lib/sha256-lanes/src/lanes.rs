//! What a backend does: SHA-256 of several blocks side by side, one a lane.

use crate::message::{Block, PADDING_OF_64, digest, digest_block};

/// The state before the first block.
pub(crate) const START: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

/// The constants of the rounds.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) const ROUNDS: [u32; 64] = [
    0x428a_2f98,
    0x7137_4491,
    0xb5c0_fbcf,
    0xe9b5_dba5,
    0x3956_c25b,
    0x59f1_11f1,
    0x923f_82a4,
    0xab1c_5ed5,
    0xd807_aa98,
    0x1283_5b01,
    0x2431_85be,
    0x550c_7dc3,
    0x72be_5d74,
    0x80de_b1fe,
    0x9bdc_06a7,
    0xc19b_f174,
    0xe49b_69c1,
    0xefbe_4786,
    0x0fc1_9dc6,
    0x240c_a1cc,
    0x2de9_2c6f,
    0x4a74_84aa,
    0x5cb0_a9dc,
    0x76f9_88da,
    0x983e_5152,
    0xa831_c66d,
    0xb003_27c8,
    0xbf59_7fc7,
    0xc6e0_0bf3,
    0xd5a7_9147,
    0x06ca_6351,
    0x1429_2967,
    0x27b7_0a85,
    0x2e1b_2138,
    0x4d2c_6dfc,
    0x5338_0d13,
    0x650a_7354,
    0x766a_0abb,
    0x81c2_c92e,
    0x9272_2c85,
    0xa2bf_e8a1,
    0xa81a_664b,
    0xc24b_8b70,
    0xc76c_51a3,
    0xd192_e819,
    0xd699_0624,
    0xf40e_3585,
    0x106a_a070,
    0x19a4_c116,
    0x1e37_6c08,
    0x2748_774c,
    0x34b0_bcb5,
    0x391c_0cb3,
    0x4ed8_aa4a,
    0x5b9c_ca4f,
    0x682e_6ff3,
    0x748f_82ee,
    0x78a5_636f,
    0x84c8_7814,
    0x8cc7_0208,
    0x90be_fffa,
    0xa450_6ceb,
    0xbef9_a3f7,
    0xc671_78f2,
];

/// The constants of the rounds, each with its word of the block that follows a message of 64 bytes.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) const ROUNDS_OF_PADDING: [u32; 64] = {
    let mut words = [0u32; 64];
    // The schedule of the padding depends on nothing. So it is computed when the crate is compiled.
    let (blocks, _) = PADDING_OF_64.as_chunks::<4>();
    let mut index = 0;
    while index < 64 {
        words[index] = if index < 16 {
            u32::from_be_bytes(blocks[index])
        } else {
            let (far, near) = (words[index - 15], words[index - 2]);
            let far = far.rotate_right(7) ^ far.rotate_right(18) ^ far >> 3;
            let near = near.rotate_right(17) ^ near.rotate_right(19) ^ near >> 10;
            words[index - 16]
                .wrapping_add(far)
                .wrapping_add(words[index - 7])
                .wrapping_add(near)
        };
        index += 1;
    }
    let mut index = 0;
    while index < 64 {
        words[index] = words[index].wrapping_add(ROUNDS[index]);
        index += 1;
    }
    words
};

/// The states of all lanes: for each of the eight words those of all lanes.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(crate) struct States<const N: usize>(pub(crate) [[u32; N]; 8]);

impl<const N: usize> States<N> {
    /// All lanes before their first block.
    pub(crate) fn new() -> Self {
        Self(START.map(|word| [word; N]))
    }

    pub(crate) fn lane(&self, lane: usize) -> [u32; 8] {
        self.0.map(|word| word[lane])
    }

    pub(crate) fn start(&mut self, lane: usize) {
        for (word, start) in self.0.iter_mut().zip(START) {
            word[lane] = start;
        }
    }
}

/// Defines the lanes of one instruction set, whose functions `compress` and `double_blocks` are in
/// the same module.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! define_lanes {
    ($(#[$doc:meta])* $lanes:ident, $number:literal, $is_available:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub(crate) struct $lanes(());

        impl $lanes {
            /// The lanes, if the processor has what they use.
            pub(crate) fn detect() -> Option<Self> {
                ($is_available).then_some(Self(()))
            }
        }

        const LANES: usize = $number;

        impl $crate::lanes::Lanes<LANES> for $lanes {
            #[inline]
            fn compress(self, states: &mut $crate::lanes::States<LANES>, blocks: &[&Block; LANES]) {
                // SAFETY: `detect` has seen the instructions.
                unsafe { compress(states, blocks) }
            }

            #[inline]
            fn double_blocks(self, messages: &[&Block; LANES]) -> [[u8; 32]; LANES] {
                // SAFETY: `detect` has seen the instructions.
                unsafe { double_blocks(messages) }
            }
        }
    };
}
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) use define_lanes;

/// Computes `N` lanes side by side.
pub(crate) trait Lanes<const N: usize>: Copy {
    /// Each state takes a block.
    fn compress(self, states: &mut States<N>, blocks: &[&Block; N]);

    /// The double SHA-256 of messages of 64 bytes.
    fn double_blocks(self, messages: &[&Block; N]) -> [[u8; 32]; N] {
        let mut states = States::new();
        self.compress(&mut states, messages);
        // A message of 64 bytes fills its block, so its length and the bit after it are in a second
        // one.
        self.compress(&mut states, &[&PADDING_OF_64; N]);
        let blocks: [Block; N] = std::array::from_fn(|lane| digest_block(&states.lane(lane)));
        states = States::new();
        self.compress(&mut states, &blocks.each_ref());
        std::array::from_fn(|lane| digest(&states.lane(lane)))
    }
}
