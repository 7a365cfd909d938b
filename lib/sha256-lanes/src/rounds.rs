//! The rounds of SHA-256 over vectors of 32-bit words, one lane in each element. FIPS 180-4,
//! section 6.2.2, has the names.
//!
//! The macro defines functions for one instruction set, in a module that has these, all of the same
//! instruction set: `LANES`, the type `Vector`, `splat`, `add`, `rotate`, `shift`, `xor`, `choose`,
//! `majority`, `load_blocks` and `store_digests`. It is given the instructions that load and store a
//! vector. A macro, since generic code would be compiled without the instructions.

macro_rules! define_rounds {
    ($features:literal, $load:path, $store:path) => {
        #[inline]
        #[target_feature(enable = $features)]
        fn far_schedule(word: Vector) -> Vector {
            xor(rotate::<7>(word), rotate::<18>(word), shift::<3>(word))
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn near_schedule(word: Vector) -> Vector {
            xor(rotate::<17>(word), rotate::<19>(word), shift::<10>(word))
        }

        /// A round with a word of the schedule, its constant added. The names of the state go on by
        /// one variable, so no value is moved.
        macro_rules! round {
            ($state:ident, $first:literal, $word:expr) => {
                let (a, b, c) = (
                    $state[(16 - $first) % 8],
                    $state[(17 - $first) % 8],
                    $state[(18 - $first) % 8],
                );
                let (e, f, g) = (
                    $state[(20 - $first) % 8],
                    $state[(21 - $first) % 8],
                    $state[(22 - $first) % 8],
                );
                let (d, h) = ((19 - $first) % 8, (23 - $first) % 8);
                let sum = xor(rotate::<6>(e), rotate::<11>(e), rotate::<25>(e));
                let first = add(add($state[h], sum), add(choose(e, f, g), $word));
                let sum = xor(rotate::<2>(a), rotate::<13>(a), rotate::<22>(a));
                $state[d] = add($state[d], first);
                $state[h] = add(first, add(sum, majority(a, b, c)));
            };
        }

        macro_rules! sixteen {
            ($round:ident) => {
                $round!(0);
                $round!(1);
                $round!(2);
                $round!(3);
                $round!(4);
                $round!(5);
                $round!(6);
                $round!(7);
                $round!(8);
                $round!(9);
                $round!(10);
                $round!(11);
                $round!(12);
                $round!(13);
                $round!(14);
                $round!(15);
            };
        }

        /// The rounds of a block whose words are `words`, without the last addition.
        #[inline]
        #[target_feature(enable = $features)]
        fn rounds(mut state: [Vector; 8], mut words: [Vector; 16]) -> [Vector; 8] {
            macro_rules! first {
                ($number:literal) => {
                    round!(state, $number, add(words[$number], splat(ROUNDS[$number])));
                };
            }
            sixteen!(first);
            for constants in ROUNDS[16..].as_chunks::<16>().0 {
                macro_rules! later {
                    ($number:literal) => {
                        let far = far_schedule(words[($number + 1) % 16]);
                        let near = near_schedule(words[($number + 14) % 16]);
                        words[$number] = add(
                            add(words[$number], far),
                            add(words[($number + 9) % 16], near),
                        );
                        round!(
                            state,
                            $number,
                            add(words[$number], splat(constants[$number]))
                        );
                    };
                }
                sixteen!(later);
            }
            state
        }

        /// The rounds of a block that is the same for all lanes: `words` have their constants
        /// added.
        #[inline]
        #[target_feature(enable = $features)]
        fn known_rounds(mut state: [Vector; 8], words: &[u32; 64]) -> [Vector; 8] {
            for words in words.as_chunks::<16>().0 {
                macro_rules! known {
                    ($number:literal) => {
                        round!(state, $number, splat(words[$number]));
                    };
                }
                sixteen!(known);
            }
            state
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn add_states(mut state: [Vector; 8], before: [Vector; 8]) -> [Vector; 8] {
            for (word, before) in state.iter_mut().zip(before) {
                *word = add(*word, before);
            }
            state
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn load_states(states: &States<LANES>) -> [Vector; 8] {
            let mut vectors = [splat(0); 8];
            for (vector, words) in vectors.iter_mut().zip(&states.0) {
                // SAFETY: the array is a vector that can be read; the load asks for no alignment.
                *vector = unsafe { $load(words.as_ptr().cast()) };
            }
            vectors
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn store_states(states: &mut States<LANES>, vectors: [Vector; 8]) {
            for (words, vector) in states.0.iter_mut().zip(vectors) {
                // SAFETY: the array is a vector that can be written; the store asks for no
                // alignment.
                unsafe { $store(words.as_mut_ptr().cast(), vector) };
            }
        }

        #[target_feature(enable = $features)]
        fn compress(states: &mut States<LANES>, blocks: &[&Block; LANES]) {
            let before = load_states(states);
            store_states(states, add_states(rounds(before, load_blocks(blocks)), before));
        }

        #[target_feature(enable = $features)]
        fn double_blocks(messages: &[&Block; LANES]) -> [[u8; 32]; LANES] {
            let start = splat_all(START);
            let half = add_states(rounds(start, load_blocks(messages)), start);
            let first = add_states(known_rounds(half, &ROUNDS_OF_PADDING), half);
            // The digest, the bit after it, zeros, and its length in bits.
            let zero = splat(0);
            let mut words = [zero; 16];
            words[..8].copy_from_slice(&first);
            words[8] = splat(0x8000_0000);
            words[15] = splat(256);
            store_digests(add_states(rounds(start, words), start))
        }

        #[inline]
        #[target_feature(enable = $features)]
        fn splat_all(words: [u32; 8]) -> [Vector; 8] {
            let mut vectors = [splat(0); 8];
            for (vector, word) in vectors.iter_mut().zip(words) {
                *vector = splat(word);
            }
            vectors
        }
    };
}
