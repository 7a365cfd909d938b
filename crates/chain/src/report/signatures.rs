//! Which blocks have their signatures verified in lanes, many at a time, and which by libsecp256k1
//! alone.

use std::fmt;

/// How signatures are to be verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Signatures {
    /// In lanes for blocks with more than two weeks of work above them, by libsecp256k1 alone for
    /// the others.
    #[default]
    Auto,
    /// By libsecp256k1 alone.
    OneByOne,
    /// In lanes for all blocks.
    Lanes,
}

/// How the signatures of a block are verified, and why so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignatureWay {
    /// In lanes, or by libsecp256k1 alone.
    pub lanes: bool,
    /// Why.
    pub reason: &'static str,
}

impl SignatureWay {
    const ASKED_FOR: &str = "asked for";

    /// `can_defer` says whether the verifier takes lanes. `buried` says whether more than two weeks
    /// of work are above the block.
    pub(crate) fn new(wanted: Signatures, can_defer: bool, buried: impl FnOnce() -> bool) -> Self {
        let (lanes, reason) = match wanted {
            Signatures::OneByOne => (false, Self::ASKED_FOR),
            _ if !can_defer => (false, "the verifier takes no lanes"),
            Signatures::Lanes => (true, Self::ASKED_FOR),
            Signatures::Auto if buried() => (true, "more than two weeks of work above"),
            Signatures::Auto => (false, "less than two weeks of work above"),
        };
        Self { lanes, reason }
    }

    /// The name of what verifies.
    pub const fn name(&self) -> &'static str {
        if self.lanes { "lanes" } else { "libsecp256k1" }
    }
}

/// Heights whose signatures were verified in the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignatureRange {
    /// The first height.
    pub first: u32,
    /// The last one.
    pub last: u32,
    /// How.
    pub way: SignatureWay,
}

/// How signatures were verified at which heights. Its text is a part of the report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SignatureRanges(Vec<SignatureRange>);

impl SignatureRanges {
    /// The ranges, in the order of their heights.
    pub fn ranges(&self) -> &[SignatureRange] {
        &self.0
    }

    /// Adds a block above all others.
    pub fn add(&mut self, height: u32, way: SignatureWay) {
        match self.0.last_mut() {
            Some(range) if range.way == way && range.last + 1 == height => range.last = height,
            _ => self.0.push(SignatureRange {
                first: height,
                last: height,
                way,
            }),
        }
    }

    /// Adds blocks of which none is in here yet.
    pub fn join(&mut self, other: &Self) {
        self.0.extend(&other.0);
        self.0.sort_by_key(|range| range.first);
        self.0.dedup_by(|next, range| {
            let is_next = range.way == next.way && range.last + 1 == next.first;
            if is_next {
                range.last = next.last;
            }
            is_next
        });
    }

    /// Takes out what is at this height and above.
    pub fn cut(&mut self, height: u32) {
        self.0.retain(|range| range.first < height);
        if let Some(range) = self.0.last_mut() {
            // The range begins below `height`, which is above 0 then.
            range.last = range.last.min(height - 1);
        }
    }
}

impl fmt::Display for SignatureRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("no script was run");
        }
        for (number, SignatureRange { first, last, way }) in self.0.iter().enumerate() {
            let (comma, heights) = match number {
                0 if first == last => ("", "height "),
                0 => ("", "heights "),
                _ => (", ", ""),
            };
            write!(f, "{comma}{} for {heights}{first}", way.name())?;
            if last > first {
                write!(f, " to {last}")?;
            }
            if !way.lanes {
                write!(f, " ({})", way.reason)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BURIED: fn() -> bool = || true;

    #[test]
    fn the_way_of_a_block() {
        let lanes = |wanted, can_defer, buried: bool| SignatureWay::new(wanted, can_defer, || buried).lanes;
        for (wanted, expected) in [
            (Signatures::Auto, [false, true]),
            (Signatures::OneByOne, [false, false]),
            (Signatures::Lanes, [true, true]),
        ] {
            assert_eq!(
                [false, true].map(|buried| lanes(wanted, true, buried)),
                expected,
                "{wanted:?}"
            );
            assert!(!lanes(wanted, false, true));
        }
        assert_eq!(Signatures::default(), Signatures::Auto);
    }

    #[test]
    fn ranges_in_words() {
        let lanes = SignatureWay::new(Signatures::Auto, true, BURIED);
        let alone = SignatureWay::new(Signatures::Auto, true, || false);
        let mut ranges = SignatureRanges::default();
        assert_eq!(ranges.to_string(), "no script was run");
        ranges.add(5, lanes);
        assert_eq!(ranges.to_string(), "lanes for height 5");
        (6..=9).for_each(|height| ranges.add(height, lanes));
        (10..=12).for_each(|height| ranges.add(height, alone));
        let text = "lanes for heights 5 to 9, libsecp256k1 for 10 to 12 (less than two weeks of work above)";
        assert_eq!(ranges.to_string(), text);
        // A reorganisation.
        ranges.cut(12);
        ranges.cut(11);
        ranges.add(11, alone);
        let text = "lanes for heights 5 to 9, libsecp256k1 for 10 to 11 (less than two weeks of work above)";
        assert_eq!(ranges.to_string(), text);
        ranges.cut(10);
        assert_eq!(ranges.to_string(), "lanes for heights 5 to 9");
        // Runs in any order.
        let run = |heights: std::ops::RangeInclusive<u32>, way| {
            let mut ranges = SignatureRanges::default();
            heights.for_each(|height| ranges.add(height, way));
            ranges
        };
        let mut joined = run(8..=9, lanes);
        for other in [run(1..=3, lanes), run(10..=12, alone), run(4..=7, lanes)] {
            joined.join(&other);
        }
        let text = "lanes for heights 1 to 9, libsecp256k1 for 10 to 12 (less than two weeks of work above)";
        assert_eq!(joined.to_string(), text);
        // Heights without scripts in between.
        ranges.add(20, lanes);
        assert_eq!(ranges.to_string(), "lanes for heights 5 to 9, lanes for 20");
        assert_eq!(ranges.ranges().len(), 2);
        let mut asked = SignatureRanges::default();
        asked.add(1, SignatureWay::new(Signatures::OneByOne, true, BURIED));
        assert_eq!(asked.to_string(), "libsecp256k1 for height 1 (asked for)");
        asked.cut(1);
        assert_eq!(asked, SignatureRanges::default());
    }
}
