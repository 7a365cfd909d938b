//! Searches that overlap: while some end, the memory that the next ones read is on its way.

use std::ops::Range;

/// Searches that go on to their next step together.
pub(super) const TOGETHER: usize = 8;

/// Numbers of searches that begin, those whose words are loaded, and those whose records are, too.
pub(super) struct Stages {
    pub(super) found: Range<usize>,
    pub(super) loaded: Range<usize>,
    pub(super) done: Range<usize>,
}

/// Searches in a row, [`TOGETHER`] at a time, of which those after each other overlap.
pub(super) struct Overlapped {
    count: usize,
    begun: usize,
}

impl Overlapped {
    pub(super) fn new<T>(searches: &[T]) -> Self {
        Self {
            count: searches.len(),
            begun: 0,
        }
    }
}

impl Iterator for Overlapped {
    type Item = Stages;

    #[inline]
    fn next(&mut self) -> Option<Stages> {
        // Each stage follows the one before it at a distance of `TOGETHER` searches.
        let number = |steps: usize| (self.begun + TOGETHER).saturating_sub(steps * TOGETHER).min(self.count);
        let stages = Stages {
            found: number(1)..number(0),
            loaded: number(2)..number(1),
            done: number(3)..number(2),
        };
        self.begun += TOGETHER;
        (stages.done.end < self.count || !stages.done.is_empty()).then_some(stages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_search_goes_through_all_stages_in_order() {
        for count in [0, 1, TOGETHER - 1, TOGETHER, TOGETHER + 1, 5 * TOGETHER + 3] {
            let searches = vec![(); count];
            let mut stage_of = vec![0; count];
            for Stages { found, loaded, done } in Overlapped::new(&searches) {
                for (stage, range) in [found, loaded, done].into_iter().enumerate() {
                    for search in range {
                        assert_eq!(stage_of[search], stage, "search {search} of {count}");
                        stage_of[search] += 1;
                    }
                }
            }
            assert_eq!(stage_of, vec![3; count]);
        }
    }
}
