//! Messages are put into lanes.

use crate::lanes::{Lanes, START, States};
use crate::message::{Block, Message, digest, digest_block};
use crate::single::{finish, finish_second};

/// A message in its lane.
#[derive(Debug)]
struct Work<'m> {
    number: usize,
    /// Blocks of the message that lie where they are.
    whole: &'m [Block],
    /// The blocks after these.
    end: Vec<u8>,
    /// Number of the next block, of both.
    next: usize,
    /// Whether this is the hash of the hash.
    is_second: bool,
}

impl<'m> Work<'m> {
    fn new(number: usize, message: &Message<'m>, mut end: Vec<u8>) -> Self {
        let whole = message.blocks(&mut end);
        Self {
            number,
            whole,
            end,
            next: 0,
            is_second: false,
        }
    }

    fn end_blocks(&self) -> &[Block] {
        self.end.as_chunks().0
    }

    #[inline]
    fn block(&self) -> &Block {
        match self.whole.get(self.next) {
            Some(block) => block,
            None => &self.end_blocks()[self.next - self.whole.len()],
        }
    }

    /// Goes on to the next block. Returns false if there is none.
    #[inline]
    fn advance(&mut self) -> bool {
        self.next += 1;
        self.next < self.whole.len() + self.end.len() / size_of::<Block>()
    }

    /// Begins the hash of the hash.
    fn begin_second(&mut self, state: &[u32; 8]) {
        self.whole = &[];
        self.end.clear();
        self.end.extend_from_slice(&digest_block(state));
        self.next = 0;
        self.is_second = true;
    }

    /// Finishes by itself.
    fn finish(&self, state: [u32; 8]) -> [u8; 32] {
        if self.is_second {
            return finish_second(state, self.block());
        }
        let whole = self.whole.get(self.next..).unwrap_or(&[]);
        let in_end = self.next.saturating_sub(self.whole.len());
        finish(state, [whole, &self.end_blocks()[in_end..]])
    }
}

/// Hashes messages twice in lanes, while at least `fewest` are there; the others one by one.
pub(crate) fn double_in_lanes<'m, L: Lanes<N>, const N: usize>(
    lanes: L,
    fewest: usize,
    messages: &mut impl Iterator<Item = (usize, Message<'m>)>,
    done: &mut impl FnMut(usize, [u8; 32]),
) {
    const IDLE: &Block = &[0; size_of::<Block>()];
    let mut states = States::<N>::new();
    let mut work: [Option<Work<'m>>; N] = std::array::from_fn(|_| {
        let (number, message) = messages.next()?;
        Some(Work::new(number, &message, Vec::new()))
    });
    let mut active = work.iter().flatten().count();
    while active >= fewest {
        let blocks = std::array::from_fn(|lane| work[lane].as_ref().map_or(IDLE, Work::block));
        lanes.compress(&mut states, &blocks);
        for (lane, slot) in work.iter_mut().enumerate() {
            let Some(at) = slot else { continue };
            if at.advance() {
                continue;
            }
            // The state is taken out at once: the next step of the other lanes would change it.
            let state = states.lane(lane);
            states.start(lane);
            if !at.is_second {
                at.begin_second(&state);
                continue;
            }
            done(at.number, digest(&state));
            // The next message of this lane uses the same memory.
            let end = std::mem::take(&mut at.end);
            *slot = messages
                .next()
                .map(|(number, message)| Work::new(number, &message, end));
            active -= usize::from(slot.is_none());
        }
    }
    for (lane, work) in work.iter().enumerate() {
        if let Some(work) = work {
            done(work.number, work.finish(states.lane(lane)));
        }
    }
    // Where `fewest` is above the number of lanes, all messages are hashed here.
    let mut end = Vec::new();
    for (number, message) in messages {
        let whole = message.blocks(&mut end);
        done(number, finish(START, [whole, end.as_chunks().0]));
    }
}

/// Goes on with a level of a merkle tree, of which the first `done` pairs are done: `N` pairs at a
/// time, while at least `fewest` are there. Returns how many pairs are done then.
pub(crate) fn halve_in_lanes<L: Lanes<N>, const N: usize>(
    lanes: L,
    fewest: usize,
    nodes: &mut [[u8; 32]],
    mut done: usize,
) -> usize {
    let pairs = nodes.len() / 2;
    while pairs - done >= fewest {
        let taken = N.min(pairs - done);
        // The digests replace nodes that have been read.
        let messages: [&Block; N] = std::array::from_fn(|lane| {
            // Lanes without a pair hash the last one again, so that all have a block. Their digests
            // are dropped.
            let pair = done + lane.min(taken - 1);
            let (blocks, _) = nodes.as_flattened().as_chunks();
            &blocks[pair]
        });
        let digests = lanes.double_blocks(&messages);
        // Node `done` is at most half as far as the pair that was read, so no unread node is
        // overwritten.
        nodes[done..done + taken].copy_from_slice(&digests[..taken]);
        done += taken;
    }
    done
}
