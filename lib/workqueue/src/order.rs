//! The order in which a requester's jobs were submitted.

use crate::lane::SLOTS_MAX;
use crate::results::Ticket;

/// A slot of a lane of a requester.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place(u32);

impl Place {
    #[inline]
    pub(crate) fn new(lane: usize, slot: u32) -> Self {
        Self((lane * SLOTS_MAX) as u32 + slot)
    }

    #[inline]
    pub(crate) fn lane(self) -> usize {
        self.0 as usize / SLOTS_MAX
    }

    #[inline]
    pub(crate) fn slot(self) -> u32 {
        self.0 % SLOTS_MAX as u32
    }

    /// The bit of the slot in the words of its lane.
    #[inline]
    pub(crate) fn bit(self) -> u64 {
        1 << self.slot()
    }
}

const NONE: u32 = u32::MAX;

/// A list of places with their tickets, linked through the places, so that any can leave it.
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
    before: u32,
    behind: u32,
}

impl Order {
    pub(crate) fn new(lanes: usize) -> Self {
        let link = Link {
            ticket: 0,
            before: NONE,
            behind: NONE,
        };
        Self {
            links: vec![link; lanes * SLOTS_MAX].into(),
            first: NONE,
            last: NONE,
            submitted: 0,
        }
    }

    /// The place whose job was submitted first.
    #[inline]
    pub(crate) fn first(&self) -> Option<Place> {
        (self.first != NONE).then_some(Place(self.first))
    }

    pub(crate) fn ticket(&self, place: Place) -> Ticket {
        Ticket(self.links[place.0 as usize].ticket)
    }

    /// A job was submitted in a place.
    #[inline]
    pub(crate) fn push(&mut self, place: Place) -> Ticket {
        let ticket = self.submitted;
        self.submitted += 1;
        self.links[place.0 as usize] = Link {
            ticket,
            before: self.last,
            behind: NONE,
        };
        match self.links.get_mut(self.last as usize) {
            Some(last) => last.behind = place.0,
            None => self.first = place.0,
        }
        self.last = place.0;
        Ticket(ticket)
    }

    /// The job in a place leaves.
    #[inline]
    pub(crate) fn remove(&mut self, place: Place) {
        let Link { before, behind, .. } = self.links[place.0 as usize];
        match self.links.get_mut(before as usize) {
            Some(link) => link.behind = behind,
            None => self.first = behind,
        }
        match self.links.get_mut(behind as usize) {
            Some(link) => link.before = before,
            None => self.last = before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_leave_in_any_order() {
        let places = [(0, 0), (0, 63), (1, 0), (2, 7), (1, 1)].map(|(lane, slot)| Place::new(lane, slot));
        assert_eq!((places[3].lane(), places[3].slot(), places[3].bit()), (2, 7, 1 << 7));
        let mut order = Order::new(3);
        assert_eq!(order.first(), None);
        for (number, &place) in places.iter().enumerate() {
            assert_eq!(order.push(place), Ticket(number as u64));
        }
        let mut firsts = Vec::new();
        for leaves in [2, 0, 4, 1] {
            order.remove(places[leaves]);
            firsts.push(order.first().unwrap());
        }
        assert_eq!(firsts, [places[0], places[1], places[1], places[3]]);
        assert_eq!(order.push(places[0]), Ticket(5));
        assert_eq!(order.ticket(places[3]), Ticket(3));
        order.remove(places[3]);
        assert_eq!(order.first(), Some(places[0]));
        order.remove(places[0]);
        assert_eq!(order.first(), None);
        order.push(places[1]);
        assert_eq!(order.first(), Some(places[1]));
    }
}
