//! Connections that wait for other cores.
//!
//! A ticket stands for the messages of one connection that are under way. Tickets and the lists of what came back are
//! used again and again, so that a hop allocates nothing.

use std::task::{Context, Poll, Waker};
use tollgate_engine::parcel::Parcel;

/// Lists that are kept for the next use.
const LISTS_MAX: usize = 64;

/// Parcels, and the core that each goes to or came from.
pub type Parcels = Vec<(usize, Box<Parcel>)>;

/// The tickets of one core.
#[derive(Default)]
pub struct Tickets {
    places: Vec<Waiting>,
    /// Places that no ticket has.
    free: Vec<usize>,
    lists: Vec<Parcels>,
}

#[derive(Default)]
struct Waiting {
    /// How many tickets had this place before: what comes for one of those is nobody's.
    generation: u32,
    /// Whether a ticket has it.
    is_taken: bool,
    left: usize,
    returned: Parcels,
    waker: Option<Waker>,
}

impl Tickets {
    /// A ticket for so many messages.
    pub fn issue(&mut self, messages: usize) -> u64 {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(Waiting::default());
            self.places.len() - 1
        });
        let returned = self.take_list();
        let Some(waiting) = self.places.get_mut(place) else { return u64::MAX };
        *waiting = Waiting { is_taken: true, left: messages, returned, waker: None, ..*waiting };
        // Connections are fewer than 2^32 by far.
        u64::from(waiting.generation) << 32 | u64::try_from(place).unwrap_or(u64::MAX)
    }

    fn find(&mut self, ticket: u64) -> Option<&mut Waiting> {
        let place = usize::try_from(ticket & u64::from(u32::MAX)).ok()?;
        let waiting = self.places.get_mut(place)?;
        (waiting.is_taken && u64::from(waiting.generation) == ticket >> 32).then_some(waiting)
    }

    /// All messages of a ticket, once all have come back. The ticket ends with that.
    pub fn poll(&mut self, ticket: u64, context: &mut Context<'_>) -> Poll<Parcels> {
        let Some(waiting) = self.find(ticket) else { return Poll::Ready(Parcels::new()) };
        if waiting.left > 0 {
            waiting.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        waiting.is_taken = false;
        waiting.generation = waiting.generation.wrapping_add(1);
        let returned = std::mem::take(&mut waiting.returned);
        self.free.extend(usize::try_from(ticket & u64::from(u32::MAX)).ok());
        Poll::Ready(returned)
    }

    /// A message came back. With the last one of a ticket, whoever waits for it is woken. False: nobody does.
    pub fn deliver(&mut self, from: usize, parcel: Box<Parcel>) -> bool {
        let Some(waiting) = self.find(parcel.ticket) else { return false };
        waiting.left = waiting.left.saturating_sub(1);
        waiting.returned.push((from, parcel));
        if waiting.left == 0
            && let Some(waker) = waiting.waker.take()
        {
            waker.wake();
        }
        true
    }

    /// An empty list.
    pub fn take_list(&mut self) -> Parcels {
        self.lists.pop().unwrap_or_default()
    }

    /// Gives a list back for another use.
    pub fn give_list(&mut self, mut list: Parcels) {
        if self.lists.len() < LISTS_MAX {
            list.clear();
            self.lists.push(list);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parcel(ticket: u64) -> Box<Parcel> {
        let mut parcel = Box::<Parcel>::default();
        parcel.ticket = ticket;
        parcel
    }

    #[test]
    fn a_ticket_ends_with_its_last_message_and_its_place_serves_again() {
        let (mut tickets, mut context) = (Tickets::default(), Context::from_waker(Waker::noop()));
        let (first, second) = (tickets.issue(2), tickets.issue(1));
        assert!(tickets.deliver(3, parcel(first)));
        assert!(tickets.poll(first, &mut context).is_pending());
        assert!(tickets.deliver(4, parcel(first)) && tickets.deliver(4, parcel(second)));
        let from = |parcels: Poll<Parcels>| match parcels {
            Poll::Ready(parcels) => parcels.iter().map(|(core, _)| *core).collect(),
            Poll::Pending => vec![],
        };
        assert_eq!(from(tickets.poll(first, &mut context)), [3, 4]);
        // What comes late for it reaches nobody, whoever has its place now.
        let third = tickets.issue(1);
        assert!(!tickets.deliver(3, parcel(first)));
        assert!(tickets.poll(third, &mut context).is_pending());
        assert_eq!(from(tickets.poll(second, &mut context)), [4]);
        assert!(tickets.deliver(5, parcel(third)));
        assert_eq!(from(tickets.poll(third, &mut context)), [5]);
        assert_eq!(tickets.places.len(), 2);
    }

    #[test]
    fn a_ticket_for_nothing_is_done() {
        let (mut tickets, mut context) = (Tickets::default(), Context::from_waker(Waker::noop()));
        let ticket = tickets.issue(0);
        assert!(matches!(tickets.poll(ticket, &mut context), Poll::Ready(none) if none.is_empty()));
    }
}
