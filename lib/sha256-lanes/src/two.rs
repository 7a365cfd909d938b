//! Two lanes with a processor's instructions for SHA-256, each of which does several rounds of one
//! message. The rounds of one lane wait for each other; those of the other fill the time.
//!
//! The macro defines functions for one instruction set, in a module that has these, all of the same
//! instruction set: the type `Vector` of four words, `of_words`, `add`, `four_rounds`, `schedule`,
//! `digest_words`, and the loads and stores. A macro, since generic code would be compiled without
//! the instructions.

macro_rules! define_two_lanes {
    ($features:literal) => {
        /// The sixteen words of a block.
        type Words = [Vector; 4];

        /// Four words of a table.
        #[inline]
        #[target_feature(enable = $features)]
        fn four(table: &[u32; 64], number: usize) -> Vector {
            of_words(table.as_chunks::<4>().0[number])
        }

        /// The rounds of a block of each lane, with the last addition.
        #[inline]
        #[target_feature(enable = $features)]
        fn rounds(before: [State; LANES], mut words: [Words; LANES]) -> [State; LANES] {
            let mut states = before;
            for number in 0..16 {
                let index = number % 4;
                let constants = four(&ROUNDS, number);
                let mut these = [constants; LANES];
                for (these, words) in these.iter_mut().zip(&mut words) {
                    if number >= 4 {
                        // The oldest four words are replaced by the next ones.
                        words[index] = schedule([
                            words[index],
                            words[(index + 1) % 4],
                            words[(index + 2) % 4],
                            words[(index + 3) % 4],
                        ]);
                    }
                    *these = add(*these, words[index]);
                }
                four_rounds(&mut states, these);
            }
            add_states(states, before)
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn add_states(mut states: [State; LANES], before: [State; LANES]) -> [State; LANES] {
            for (State(state), State(before)) in states.iter_mut().zip(before) {
                *state = [add(state[0], before[0]), add(state[1], before[1])];
            }
            states
        }

        #[target_feature(enable = $features)]
        fn compress(states: &mut States<LANES>, blocks: &[&Block; LANES]) {
            let after = rounds(
                load_states(&states.0),
                [load_block(blocks[0]), load_block(blocks[1])],
            );
            store_states(&mut states.0, after);
        }

        #[target_feature(enable = $features)]
        fn double_blocks(messages: &[&Block; LANES]) -> [[u8; 32]; LANES] {
            let start = load_states(&START.map(|word| [word; LANES]));
            let half = rounds(start, [load_block(messages[0]), load_block(messages[1])]);
            let mut first = half;
            for number in 0..16 {
                four_rounds(&mut first, [four(&ROUNDS_OF_PADDING, number); LANES]);
            }
            let first = add_states(first, half);
            // The digest, the bit after it, zeros, and its length in bits.
            let bit = of_words([0x8000_0000, 0, 0, 0]);
            let length = of_words([0, 0, 0, 256]);
            let [[a, b], [c, d]] = [digest_words(first[0]), digest_words(first[1])];
            let last = rounds(start, [[a, b, bit, length], [c, d, bit, length]]);
            [store_digest(last[0]), store_digest(last[1])]
        }
    };
}
