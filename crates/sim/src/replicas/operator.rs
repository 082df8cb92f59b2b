//! What goes wrong, and what an operator does about it.

use super::check::Fact;
use super::saving::{File, boundaries};
use super::wire::Place;
use super::world::{Event, World};

/// The longest time that a link stands still, in microseconds.
const HELD_MICROS_MAX: u64 = 150_000;
/// The longest time that two machines cannot reach each other.
const CUT_MICROS_MAX: u64 = 250_000;
/// The longest time that a machine is down.
const DOWN_MICROS_MAX: u64 = 60_000;
/// The longest time until a replica is promoted that somebody has waited for.
const HURRY_MICROS_MAX: u64 = 1_500;
/// The longest time until an operator decides between a primary that came back and a replica that may know more.
const DECIDE_MICROS_MAX: u64 = 150_000;

/// How a process starts again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Restart {
    /// With nothing.
    Empty,
    /// From the snapshot that was written so many before the last.
    From(usize),
    /// From the last one, which was cut off somewhere, be it between two parts; if it is not taken, from nothing.
    Cut,
}

impl World {
    /// Something goes wrong.
    pub(super) fn trouble(&mut self) {
        if !self.is_troubled {
            return;
        }
        let at = self.now + self.random.between(1_000, self.plan.trouble_micros_max);
        self.schedule(at, Event::Trouble);
        let node = self.random.position(self.plan.nodes);
        match self.random.below(100) {
            0..16 => self.break_a_wire(),
            16..34 => self.hold_a_wire(),
            34..44 => self.cut(node),
            44..56 => {
                if let Some(place) = self.place(node) {
                    self.save(place);
                }
            }
            56..68 => self.restart_replica(node),
            68..72 => self.order_again(node),
            72..78 => self.stop_primary(),
            _ => self.kill_primary(),
        }
    }

    fn break_a_wire(&mut self) {
        let count = self.wires.len();
        let chosen = self.random.position(count);
        let Some((id, wire)) = self.wires.iter_mut().nth(chosen) else { return };
        let (id, delay) = (*id, self.plan.delay_micros_max);
        let forth = wire.forth.break_off(self.now, delay, &mut self.random);
        let back = wire.back.break_off(self.now, delay, &mut self.random);
        for (at, is_forth) in [(forth, true), (back, false)] {
            if let Some(at) = at {
                self.schedule(at, Event::Arrive { wire: id, is_forth });
            }
        }
    }

    fn hold_a_wire(&mut self) {
        let (chosen, until) =
            (self.random.position(self.wires.len()), self.now + self.random.between(1_000, HELD_MICROS_MAX));
        let is_forth = self.random.chance(500);
        if let Some(wire) = self.wires.values_mut().nth(chosen) {
            let pipe = if is_forth { &mut wire.forth } else { &mut wire.back };
            pipe.held_until = pipe.held_until.max(until);
        }
    }

    /// A machine and another cannot reach each other for a while, one way or both.
    fn cut(&mut self, node: usize) {
        let other = (node + 1 + self.random.position(self.plan.nodes - 1)) % self.plan.nodes;
        let until = self.now + self.random.between(5_000, CUT_MICROS_MAX);
        let is_one_way = self.random.chance(400);
        self.cuts.insert((node.min(other), node.max(other)), until);
        for wire in self.wires.values_mut() {
            let (from, to) = (wire.primary.node, wire.replica.node);
            if (from, to) == (node, other) || ((from, to) == (other, node) && !is_one_way) {
                wire.forth.held_until = wire.forth.held_until.max(until);
            }
            if (to, from) == (node, other) || ((to, from) == (other, node) && !is_one_way) {
                wire.back.held_until = wire.back.held_until.max(until);
            }
        }
    }

    pub(super) fn is_cut(&self, one: usize, other: usize) -> bool {
        self.cuts.get(&(one.min(other), one.max(other))).is_some_and(|until| *until > self.now)
    }

    /// The process of a machine is gone.
    pub(super) fn kill(&mut self, node: usize) {
        let Some(place) = self.place(node) else { return };
        let delay = self.plan.delay_micros_max;
        let mut ends = Vec::new();
        for (id, wire) in &mut self.wires {
            if wire.primary == place
                && let Some(at) = wire.forth.end(self.now, delay, &mut self.random)
            {
                ends.push((at, Event::Arrive { wire: *id, is_forth: true }));
            }
            if wire.replica == place
                && let Some(at) = wire.back.end(self.now, delay, &mut self.random)
            {
                ends.push((at, Event::Arrive { wire: *id, is_forth: false }));
            }
        }
        ends.into_iter().for_each(|(at, event)| self.schedule(at, event));
        self.calls.retain(|_, call| call.place != place);
        let in_step = if self.serves == Some(node) { self.in_step() } else { Vec::new() };
        let machine = self.machines.get_mut(node);
        let overshoot = machine.and_then(|machine| machine.process.take()).map_or(0, |process| process.overshoot());
        self.note(Fact::Died { node, run: place.run, overshoot, in_step });
        if self.serves == Some(node) {
            self.serves = None;
        }
    }

    fn restart_replica(&mut self, node: usize) {
        if self.serves.is_none() || self.serves == Some(node) || self.place(node).is_none() {
            return;
        }
        self.kill(node);
        self.restart_later(node, false);
        self.summary.restarts += 1;
    }

    fn restart_later(&mut self, node: usize, serves: bool) {
        let how = match self.random.below(10) {
            0..3 => Restart::Empty,
            3..6 => Restart::From(0),
            6..8 => Restart::From(1 + self.random.position(2)),
            _ => Restart::Cut,
        };
        let at = self.now + self.random.between(1_000, DOWN_MICROS_MAX);
        self.schedule(at, Event::Restart { node, how, serves });
    }

    fn order_again(&mut self, node: usize) {
        let (Some(primary), Some(place)) = (self.serves.filter(|serves| *serves != node), self.place(node)) else {
            return;
        };
        self.order(place, primary);
    }

    /// The primary ends by itself, after its last snapshot, and starts again with it.
    fn stop_primary(&mut self) {
        let Some(node) = self.serves else { return };
        let Some(place) = self.place(node) else { return };
        self.save_at_once(place);
        self.kill(node);
        let at = self.now + self.random.between(1_000, DOWN_MICROS_MAX);
        self.schedule(at, Event::Restart { node, how: Restart::From(0), serves: true });
        self.summary.restarts += 1;
    }

    /// Replicas that call themselves in step with the primary.
    fn in_step(&mut self) -> Vec<usize> {
        let Some(place) = self.serving() else { return Vec::new() };
        let mut in_step = Vec::new();
        for node in (0..self.plan.nodes).filter(|node| *node != place.node) {
            let (Some(replica), steady) = (self.place(node), self.steady(node)) else { continue };
            let process = self.process_of(replica);
            let following = process.and_then(|process| process.following.as_ref());
            let is_up = following
                .is_some_and(|following| following.is_in_step(steady) && following.whole_of() == Some(place.run));
            if is_up {
                in_step.push(node);
            }
        }
        in_step
    }

    fn kill_primary(&mut self) {
        let Some(node) = self.serves else { return };
        let in_step = self.in_step();
        self.kill(node);
        let chosen = self.random.choose(&in_step, node);
        if chosen != node && self.random.chance(600) {
            let run = self.place(chosen).map_or(0, |place| place.run);
            let soonest = if self.random.chance(500) { HURRY_MICROS_MAX } else { DOWN_MICROS_MAX };
            let at = self.now + self.random.between(100, soonest);
            self.schedule(at, Event::Promote { place: Place { node: chosen, run } });
            self.restart_later(node, false);
        } else {
            self.restart_later(node, true);
            self.summary.restarts += 1;
        }
    }

    /// A process starts again.
    pub(super) fn restart(&mut self, node: usize, how: Restart, serves: bool) {
        if self.place(node).is_some() {
            return;
        }
        let serves = serves && self.serves.is_none();
        let file = self.file_for(node, how);
        if !self.start(node, file.as_ref()) {
            self.start(node, None);
        }
        let Some(place) = self.place(node) else { return };
        if serves {
            self.serves = Some(node);
            self.note(Fact::Serves { run: place.run });
            let at = self.now + self.random.between(20_000, DECIDE_MICROS_MAX);
            self.schedule(at, Event::Decide { node, run: place.run });
        } else if let Some(primary) = self.serves {
            self.order(place, primary);
        } else {
            // Whom it is to follow is not known yet.
            self.schedule(self.now + DOWN_MICROS_MAX, Event::Follow { place });
        }
    }

    fn file_for(&mut self, node: usize, how: Restart) -> Option<File> {
        let disk = &self.machines.get(node)?.disk;
        match how {
            Restart::Empty => None,
            Restart::From(before_last) => disk.file(before_last.min(disk.len().saturating_sub(1))).cloned(),
            Restart::Cut => {
                let mut file = disk.file(0)?.clone();
                let ends = boundaries(&file.bytes);
                let cut = if self.random.chance(700) {
                    self.random.choose(&ends, 0)
                } else {
                    self.random.position(file.bytes.len())
                };
                file.bytes.truncate(cut);
                Some(file)
            }
        }
    }

    /// A primary has come back, and may know less than its replicas: they are told to follow it, or one is to serve.
    pub(super) fn decide(&mut self, node: usize, run: u64) {
        if self.place(node) != Some(Place { node, run }) || self.serves != Some(node) {
            return;
        }
        let knowing: Vec<usize> = (0..self.plan.nodes).filter(|other| self.observer.books.knows(*other)).collect();
        let chosen = self.random.choose(&knowing, node);
        if chosen != node && self.random.chance(600) {
            if let Some(place) = self.place(chosen) {
                self.serves = None;
                self.raise(place);
            }
        } else {
            self.all_follow(node);
        }
    }

    /// A replica becomes the primary, if it is still there.
    pub(super) fn raise(&mut self, place: Place) {
        if self.serves.is_some() || self.place(place.node) != Some(place) {
            return;
        }
        let is_replica = self.process_of(place).is_some_and(|process| process.is_replica());
        if !is_replica || !self.observer.books.knows(place.node) {
            return;
        }
        self.promote(place);
        let now = self.time(place.node);
        let held = self.held_of(place.node, 0, 1);
        self.note(Fact::Promoted { node: place.node, run: place.run, now, held });
        self.serves = Some(place.node);
        self.summary.promotions += 1;
        self.all_follow(place.node);
    }

    /// All others are told to follow a machine.
    pub(super) fn all_follow(&mut self, primary: usize) {
        for node in (0..self.plan.nodes).filter(|node| *node != primary) {
            if let Some(place) = self.place(node) {
                self.order(place, primary);
            }
        }
    }

    /// A process that waited is told whom to follow.
    pub(super) fn follow_whoever(&mut self, place: Place) {
        let waits = self.process_of(place).is_some_and(|process| !process.is_replica());
        match self.serves {
            Some(primary) if primary != place.node && waits => self.order(place, primary),
            None if waits => self.schedule(self.now + DOWN_MICROS_MAX, Event::Follow { place }),
            _ => {}
        }
    }
}
