//! Links between cores: two lanes each way, each in order, each as slow as the seed wants, none ordered with another.

use crate::errand::Note;
use crate::random::Random;
use std::collections::VecDeque;
use tollgate_engine::parcel::Parcel;

/// A parcel on its way, with what the simulation knows about it.
#[derive(Debug)]
pub struct Message {
    /// The parcel.
    pub parcel: Box<Parcel>,
    /// Whose it is.
    pub client: usize,
    /// What each of its jobs is.
    pub notes: Vec<Note>,
}

/// One lane.
#[derive(Debug, Default)]
struct Lane {
    messages: VecDeque<Message>,
    /// When the newest message arrives: none that is sent later arrives earlier.
    last_micros: u64,
}

/// All lanes of a node.
#[derive(Debug)]
pub struct Links {
    cores: usize,
    delay_micros_max: u64,
    requests: Vec<Lane>,
    answers: Vec<Lane>,
}

impl Links {
    /// Between `cores` cores.
    pub fn new(cores: usize, delay_micros_max: u64) -> Links {
        let lanes = || (0..cores * cores).map(|_| Lane::default()).collect();
        Links { cores, delay_micros_max, requests: lanes(), answers: lanes() }
    }

    /// Puts a message on a lane at `now_micros`. Answers when it arrives, and how many the lane holds then.
    pub fn send(&mut self, way: Way, message: Message, now_micros: u64, random: &mut Random) -> (u64, usize) {
        // Mostly short, now and then as long as it can be.
        let longest = if random.chance(800) { self.delay_micros_max / 8 } else { self.delay_micros_max };
        let arrives = now_micros + random.between(1, longest.max(1));
        let Some(lane) = self.lane(way) else { return (arrives, 0) };
        lane.last_micros = lane.last_micros.max(arrives);
        lane.messages.push_back(message);
        (lane.last_micros, lane.messages.len())
    }

    /// Takes the first message of a lane.
    pub fn take(&mut self, way: Way) -> Option<Message> {
        self.lane(way)?.messages.pop_front()
    }

    /// Whether nothing is under way.
    pub fn are_empty(&self) -> bool {
        self.requests.iter().chain(&self.answers).all(|lane| lane.messages.is_empty())
    }

    fn lane(&mut self, way: Way) -> Option<&mut Lane> {
        let lanes = if way.is_answer { &mut self.answers } else { &mut self.requests };
        lanes.get_mut(way.from * self.cores + way.to)
    }
}

/// Names a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Its sender.
    pub from: usize,
    /// Its receiver.
    pub to: usize,
    /// Whether answers travel on it.
    pub is_answer: bool,
}
