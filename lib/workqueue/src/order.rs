//! The order in which a requester submitted its jobs.

use crate::results::Ticket;
use crate::slot_ring::SLOTS_MAX;

/// A slot among all rings of a requester.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlotIndex(u32);

impl SlotIndex {
    #[inline]
    pub(crate) fn new(ring: usize, slot: u32) -> Self {
        Self((ring * SLOTS_MAX) as u32 + slot)
    }

    #[inline]
    pub(crate) fn ring(self) -> usize {
        self.0 as usize / SLOTS_MAX
    }

    #[inline]
    pub(crate) fn slot(self) -> u32 {
        self.0 % SLOTS_MAX as u32
    }

    /// The bit of the slot in the words of its ring.
    #[inline]
    pub(crate) fn bit(self) -> u64 {
        1 << self.slot()
    }
}

const NONE: u32 = u32::MAX;

/// A list of slots with their tickets, linked by slot index, so that any slot can leave the list.
#[derive(Debug)]
pub(crate) struct Order {
    links: Box<[Link]>,
    first: u32,
    last: u32,
    submitted: u64,
}

#[derive(Debug, Clone, Copy)]
struct Link {
    ticket: u64,
    previous: u32,
    next: u32,
}

impl Order {
    pub(crate) fn new(rings: usize) -> Self {
        let link = Link {
            ticket: 0,
            previous: NONE,
            next: NONE,
        };
        Self {
            links: vec![link; rings * SLOTS_MAX].into(),
            first: NONE,
            last: NONE,
            submitted: 0,
        }
    }

    /// The slot with the job that was submitted first.
    #[inline]
    pub(crate) fn first(&self) -> Option<SlotIndex> {
        (self.first != NONE).then_some(SlotIndex(self.first))
    }

    pub(crate) fn ticket(&self, index: SlotIndex) -> Ticket {
        Ticket(self.links[index.0 as usize].ticket)
    }

    /// Appends the slot of a new job.
    #[inline]
    pub(crate) fn push(&mut self, index: SlotIndex) -> Ticket {
        let ticket = self.submitted;
        self.submitted += 1;
        self.links[index.0 as usize] = Link {
            ticket,
            previous: self.last,
            next: NONE,
        };
        // `NONE` is beyond the links, so it is the case of an empty list.
        match self.links.get_mut(self.last as usize) {
            Some(last) => last.next = index.0,
            None => self.first = index.0,
        }
        self.last = index.0;
        Ticket(ticket)
    }

    /// Removes a slot, at any position of the list.
    #[inline]
    pub(crate) fn remove(&mut self, index: SlotIndex) {
        let Link { previous, next, .. } = self.links[index.0 as usize];
        match self.links.get_mut(previous as usize) {
            Some(link) => link.next = next,
            None => self.first = next,
        }
        match self.links.get_mut(next as usize) {
            Some(link) => link.previous = previous,
            None => self.last = previous,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_leave_in_any_order() {
        let indexes = [(0, 0), (0, 63), (1, 0), (2, 7), (1, 1)].map(|(ring, slot)| SlotIndex::new(ring, slot));
        assert_eq!((indexes[3].ring(), indexes[3].slot(), indexes[3].bit()), (2, 7, 1 << 7));
        let mut order = Order::new(3);
        assert_eq!(order.first(), None);
        for (number, &index) in indexes.iter().enumerate() {
            assert_eq!(order.push(index), Ticket(number as u64));
        }
        let mut firsts = Vec::new();
        for leaves in [2, 0, 4, 1] {
            order.remove(indexes[leaves]);
            firsts.push(order.first().unwrap());
        }
        assert_eq!(firsts, [indexes[0], indexes[1], indexes[1], indexes[3]]);
        assert_eq!(order.push(indexes[0]), Ticket(5));
        assert_eq!(order.ticket(indexes[3]), Ticket(3));
        order.remove(indexes[3]);
        assert_eq!(order.first(), Some(indexes[0]));
        order.remove(indexes[0]);
        assert_eq!(order.first(), None);
        order.push(indexes[1]);
        assert_eq!(order.first(), Some(indexes[1]));
    }
}
