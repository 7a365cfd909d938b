//! Times in nanoseconds, counted in classes. A class is at most 1/32 of its times wide.

use std::time::Duration;

/// Classes per power of two.
const CLASSES: u64 = 32;

/// Number of all classes: enough for any `u64`.
const COUNT: usize = (CLASSES * 60) as usize;

/// Number of times in each class.
#[derive(Debug, Clone)]
pub(super) struct Histogram {
    counts: Vec<u64>,
    longest_ns: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            counts: vec![0; COUNT],
            longest_ns: 0,
        }
    }
}

/// The class of a time: itself below two times [`CLASSES`], then the 5 bits below its highest bit.
fn class(time_ns: u64) -> usize {
    if time_ns < CLASSES {
        return time_ns as usize;
    }
    let shift = time_ns.ilog2() - CLASSES.ilog2();
    ((u64::from(shift) * CLASSES) + (time_ns >> shift)) as usize
}

/// The longest time of a class.
fn longest_of(class: usize) -> u64 {
    let class = class as u64;
    if class < CLASSES {
        return class;
    }
    let shift = class / CLASSES - 1;
    let first = (class - shift * CLASSES) << shift;
    first + ((1 << shift) - 1)
}

impl Histogram {
    #[inline]
    pub(super) fn add(&mut self, time: Duration) {
        let time_ns = time.as_nanos() as u64;
        self.counts[class(time_ns)] += 1;
        self.longest_ns = self.longest_ns.max(time_ns);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.longest_ns = self.longest_ns.max(other.longest_ns);
    }

    /// Number of times.
    pub(super) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The longest time in nanoseconds.
    pub(super) fn longest_ns(&self) -> u64 {
        self.longest_ns
    }

    /// The quantile of `fraction` in nanoseconds, at most 1/32 too long.
    pub(super) fn quantile_ns(&self, fraction: f64) -> u64 {
        let wanted = (self.count() as f64 * fraction).ceil() as u64;
        let mut reached = 0;
        for (class, count) in self.counts.iter().enumerate() {
            reached += count;
            if reached >= wanted && reached > 0 {
                return longest_of(class).min(self.longest_ns);
            }
        }
        self.longest_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(times: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::default();
        for time in times {
            histogram.add(Duration::from_nanos(time));
        }
        histogram
    }

    #[test]
    fn classes_are_narrow_and_without_gaps() {
        let mut expected = 0;
        for class_number in 0..1_000 {
            let longest = longest_of(class_number);
            assert_eq!((class(expected), class(longest)), (class_number, class_number));
            assert!((longest - expected) * CLASSES <= longest, "{class_number}");
            expected = longest + 1;
        }
        assert!(class(u64::MAX) < COUNT);
    }

    #[test]
    fn quantiles() {
        let histogram = of(1..=1_000);
        assert_eq!((histogram.count(), histogram.longest_ns()), (1_000, 1_000));
        for (fraction, exact) in [(0.5, 500), (0.9, 900), (0.999, 999), (1.0, 1_000)] {
            let found = histogram.quantile_ns(fraction);
            assert!(
                found >= exact && found <= exact + exact / CLASSES,
                "{fraction}: {found}"
            );
        }
        assert_eq!(of([]).quantile_ns(0.999), 0);
    }

    #[test]
    fn merged_times_count_together() {
        let mut histogram = of((0..999).map(|_| 10));
        histogram.merge(&of([1_000_000]));
        assert_eq!(histogram.quantile_ns(0.999), 10);
        assert_eq!(histogram.quantile_ns(1.0), 1_000_000);
        assert_eq!((histogram.count(), histogram.longest_ns()), (1_000, 1_000_000));
    }
}
