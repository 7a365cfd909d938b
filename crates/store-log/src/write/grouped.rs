//! Entries in the order of their groups.

/// Entries, those of one group side by side.
#[derive(Debug)]
pub(crate) struct Grouped<T> {
    entries: Vec<T>,
    /// Where the entries of each group begin, and where the last ends.
    starts: Vec<u32>,
}

impl<T: Copy> Grouped<T> {
    /// Of pairs of a group, below `groups`, and an entry. Entries of a group stay in their order.
    pub(crate) fn new(pairs: &[(usize, T)], groups: usize) -> Self {
        let mut starts = vec![0u32; groups + 1];
        for &(group, _) in pairs {
            // Counted one further on, so that the sums below are starts.
            starts[group + 1] += 1;
        }
        for group in 0..groups {
            starts[group + 1] += starts[group];
        }
        let mut entries = Vec::new();
        if let Some(&(_, any)) = pairs.first() {
            // Any entry will do, since all are overwritten.
            entries.resize(pairs.len(), any);
        }
        let mut next = starts.clone();
        for &(group, entry) in pairs {
            entries[next[group] as usize] = entry;
            next[group] += 1;
        }
        Self { entries, starts }
    }

    /// The entries of a group.
    pub(crate) fn group(&self, group: usize) -> &[T] {
        match self.starts.get(group..=group + 1) {
            Some(&[start, end]) => &self.entries[start as usize..end as usize],
            _ => &[],
        }
    }

    pub(crate) fn iter_mut(&mut self) -> std::slice::IterMut<'_, T> {
        self.entries.iter_mut()
    }
}

impl<T> Default for Grouped<T> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            starts: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_stand_with_their_groups() {
        let grouped = Grouped::new(&[(3, 'a'), (0, 'b'), (3, 'c'), (2, 'd')], 5);
        let groups: Vec<String> = (0..6).map(|group| grouped.group(group).iter().collect()).collect();
        assert_eq!(groups, ["b", "", "d", "ac", "", ""]);
        let mut entries = grouped;
        assert_eq!(entries.iter_mut().map(|entry| *entry).collect::<String>(), "bdac");
        assert!(Grouped::<u64>::new(&[], 5).group(3).is_empty());
        assert!(Grouped::<u64>::default().group(0).is_empty());
    }
}
