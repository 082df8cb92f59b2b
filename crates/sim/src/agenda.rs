//! What happens next: events by their time, and among those of one time in an order that the seed decides.

use crate::random::Random;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Something that is going to happen in a simulated node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// A client's next batch is read.
    Read {
        /// The client.
        client: usize,
    },
    /// The first message of a lane arrives.
    Arrive {
        /// The lane's sender.
        from: usize,
        /// The lane's receiver.
        to: usize,
        /// Whether it is an answer that comes back.
        is_answer: bool,
    },
    /// A client has waited long enough for room in a lane.
    Impatient {
        /// The client.
        client: usize,
        /// Which of its waits that was.
        wait: u64,
    },
    /// A client goes away, whatever is under way for it.
    Vanish {
        /// The client.
        client: usize,
    },
    /// A core's upkeep.
    Tick {
        /// The core.
        core: usize,
    },
}

/// Events to come.
#[derive(Debug)]
pub struct Agenda<E> {
    heap: BinaryHeap<Reverse<(u64, u64, u64, E)>>,
    added: u64,
}

impl<E: Ord> Default for Agenda<E> {
    fn default() -> Agenda<E> {
        Agenda { heap: BinaryHeap::new(), added: 0 }
    }
}

impl<E: Ord> Agenda<E> {
    /// Adds an event at `at_micros` of the simulation's own time.
    pub fn add(&mut self, random: &mut Random, at_micros: u64, event: E) {
        self.added += 1;
        // Equal times are the rule where delays are short: the second number shuffles them.
        self.heap.push(Reverse((at_micros, random.below(1 << 20), self.added, event)));
    }

    /// Takes the next event and its time.
    pub fn next(&mut self) -> Option<(u64, E)> {
        self.heap.pop().map(|Reverse((at_micros, _, _, event))| (at_micros, event))
    }
}
