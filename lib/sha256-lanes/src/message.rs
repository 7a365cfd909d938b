//! Messages as blocks of 64 bytes.

/// What SHA-256 takes at a time.
pub(crate) type Block = [u8; 64];

/// Bytes of the length at the end of a message.
const LENGTH: usize = 8;

/// The bytes of a message, in up to three slices.
#[derive(Debug, Clone, Copy, Default)]
pub struct Message<'m> {
    slices: [&'m [u8]; 3],
}

impl<'m> Message<'m> {
    /// A message in one slice.
    pub const fn new(bytes: &'m [u8]) -> Self {
        Self {
            slices: [bytes, &[], &[]],
        }
    }

    /// A message in three slices, one after the other. Any may be empty.
    pub const fn of_slices(slices: [&'m [u8]; 3]) -> Self {
        Self { slices }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.slices.iter().map(|slice| slice.len()).sum()
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The blocks that lie whole in a message of one slice. Everything else goes into `end`, with
    /// the padding.
    pub(crate) fn blocks(&self, end: &mut Vec<u8>) -> &'m [Block] {
        let [first, second, third] = self.slices;
        // In several slices a block may cross from one to the next, so all of them are copied.
        let (whole, first) = match second.len() + third.len() {
            0 => first.as_chunks(),
            _ => (&[][..], first),
        };
        let rest = [first, second, third];
        let used: usize = rest.iter().map(|slice| slice.len()).sum();
        let length = (used + 1 + LENGTH).next_multiple_of(size_of::<Block>());
        // Zeros first: between the bit after the message and its length there is nothing else.
        end.clear();
        end.resize(length, 0);
        let mut at = 0;
        for slice in rest {
            end[at..at + slice.len()].copy_from_slice(slice);
            at += slice.len();
        }
        end[used] = 0x80;
        // The length is that of the whole message in bits, not of what was copied.
        end[length - LENGTH..].copy_from_slice(&(8 * self.len() as u64).to_be_bytes());
        whole
    }
}

/// A digest as the only block of a message.
pub(crate) fn digest_block(state: &[u32; 8]) -> Block {
    let mut block = [0; size_of::<Block>()];
    block[..32].copy_from_slice(&digest(state));
    block[32] = 0x80;
    // 256 bits: the last eight bytes are 0x0100.
    block[62] = 1;
    block
}

/// The digest of a state.
pub(crate) fn digest(state: &[u32; 8]) -> [u8; 32] {
    let mut digest = [0; 32];
    for (bytes, word) in digest.as_chunks_mut().0.iter_mut().zip(state) {
        *bytes = word.to_be_bytes();
    }
    digest
}

/// What follows a message of 64 bytes.
pub(crate) const PADDING_OF_64: Block = {
    let mut block = [0; size_of::<Block>()];
    block[0] = 0x80;
    block[62] = 2;
    block
};
