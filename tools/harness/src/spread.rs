//! Median and ends of several figures.

/// Several figures of the same thing, in their unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The median; of an even number the mean of the two in the middle.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// The spread of `figures`. None: there are none.
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = figures.into_iter().collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let middle = |index: usize| sorted[index];
        let count = sorted.len();
        Some(Self {
            // Of an odd number both are the same one.
            median: f64::midpoint(middle((count - 1) / 2), middle(count / 2)),
            min,
            max,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_and_the_ends() {
        let check = |figures: &[f64], median, min, max| {
            assert_eq!(Spread::of(figures.iter().copied()), Some(Spread { median, min, max }));
        };
        check(&[4.0], 4.0, 4.0, 4.0);
        check(&[9.0, 1.0], 5.0, 1.0, 9.0);
        check(&[3.0, 1.0, 2.0], 2.0, 1.0, 3.0);
        check(&[8.0, 1.0, 2.0, 4.0], 3.0, 1.0, 8.0);
        assert_eq!(Spread::of([]), None);
    }
}
