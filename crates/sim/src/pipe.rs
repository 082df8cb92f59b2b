//! One direction of a link that carries bytes: in order, as slow as the seed wants, cut off anywhere.

use crate::random::Random;
use std::collections::VecDeque;

/// The most pieces that what is written at once arrives in.
const PIECES_MAX: u64 = 3;

/// What arrives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Bytes.
    Bytes(Vec<u8>),
    /// The other side has closed the link.
    End,
    /// It broke.
    Broken,
}

/// One direction.
#[derive(Debug, Default)]
pub struct Pipe {
    pieces: VecDeque<(u64, Arrival)>,
    last_micros: u64,
    /// Nothing arrives before this.
    pub held_until: u64,
    is_ended: bool,
}

impl Pipe {
    /// Writes bytes at `now`. Answers when their pieces arrive, as far as is known now.
    pub fn write(&mut self, bytes: &[u8], now: u64, delay_max: u64, random: &mut Random) -> Vec<u64> {
        if self.is_ended {
            return Vec::new();
        }
        let (mut rest, mut times) = (bytes, Vec::new());
        let pieces = random.between(1, PIECES_MAX);
        for piece in 1..=pieces {
            let cut = if piece == pieces { rest.len() } else { random.position(rest.len() + 1) };
            let (first, behind) = rest.split_at(cut);
            rest = behind;
            if !first.is_empty() {
                times.push(self.put(Arrival::Bytes(first.to_vec()), now, delay_max, random));
            }
        }
        times
    }

    /// Ends it behind what is on the way. Answers when that is known.
    pub fn end(&mut self, now: u64, delay_max: u64, random: &mut Random) -> Option<u64> {
        self.end_with(Arrival::End, now, delay_max, random)
    }

    fn end_with(&mut self, arrival: Arrival, now: u64, delay_max: u64, random: &mut Random) -> Option<u64> {
        if std::mem::replace(&mut self.is_ended, true) {
            return None;
        }
        Some(self.put(arrival, now, delay_max, random))
    }

    /// Loses some of what is on the way, from the end, and ends there.
    pub fn break_off(&mut self, now: u64, delay_max: u64, random: &mut Random) -> Option<u64> {
        if self.is_ended {
            return None;
        }
        let kept = random.position(self.pieces.len() + 1);
        self.pieces.truncate(kept);
        self.end_with(Arrival::Broken, now, delay_max, random)
    }

    fn put(&mut self, arrival: Arrival, now: u64, delay_max: u64, random: &mut Random) -> u64 {
        // Mostly short, now and then as long as it can be.
        let longest = if random.chance(800) { delay_max / 8 } else { delay_max };
        self.last_micros = self.last_micros.max(now + random.between(1, longest.max(1))).max(self.held_until);
        self.pieces.push_back((self.last_micros, arrival));
        self.last_micros
    }

    /// What arrives at `now`, or when to look again.
    pub fn take(&mut self, now: u64) -> Result<Option<Arrival>, u64> {
        let Some((at, _)) = self.pieces.front() else { return Ok(None) };
        let due = (*at).max(self.held_until);
        if due > now {
            return Err(due);
        }
        Ok(self.pieces.pop_front().map(|(_, arrival)| arrival))
    }

    /// Bytes that are on the way.
    pub fn bytes(&self) -> usize {
        let length = |(_, arrival): &(u64, Arrival)| match arrival {
            Arrival::Bytes(bytes) => bytes.len(),
            Arrival::End | Arrival::Broken => 0,
        };
        self.pieces.iter().map(length).sum()
    }
}
