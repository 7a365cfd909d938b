//! Several figures of the same thing, as one looks at them.

use serde_json::{Value, json};

/// Mean, middle, ends and deviation of some figures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) mean: f64,
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    /// The standard deviation of all figures there are.
    pub(crate) deviation: f64,
}

impl Spread {
    /// None if there are no figures.
    pub(crate) fn new(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut figures: Vec<f64> = figures.into_iter().collect();
        figures.sort_unstable_by(f64::total_cmp);
        let (&min, &max) = (figures.first()?, figures.last()?);
        let count = figures.len();
        let mean = figures.iter().sum::<f64>() / count as f64;
        let variance = figures.iter().map(|figure| (figure - mean).powi(2)).sum::<f64>() / count as f64;
        Some(Self {
            mean,
            median: f64::midpoint(figures[(count - 1) / 2], figures[count / 2]),
            min,
            max,
            deviation: variance.sqrt(),
        })
    }

    /// All of it.
    pub(crate) fn json(self) -> Value {
        json!({
            "mean": self.mean,
            "median": self.median,
            "min": self.min,
            "max": self.max,
            "deviation": self.deviation,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_the_ends_and_the_mean() {
        let odd = Spread::new([3.0, 1.0, 5.0]).unwrap();
        assert_eq!((odd.median, odd.min, odd.max, odd.mean), (3.0, 1.0, 5.0, 3.0));
        let even = Spread::new([4.0, 1.0, 1.0, 2.0]).unwrap();
        assert_eq!((even.median, even.mean), (1.5, 2.0));
        assert_eq!(Spread::new([2.0, 4.0]).unwrap().deviation, 1.0);
        assert_eq!(Spread::new([]), None);
    }
}
