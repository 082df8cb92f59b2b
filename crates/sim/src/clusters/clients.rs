//! Clients: one call at a time each, to whom they take for the right node, on to whom they are told, and again
//! elsewhere when no answer comes.

use super::check::Fact;
use super::net::{Body, Party};
use super::world::{Event, World};
use crate::client::Words;
use crate::request::{Group, Request};
use std::collections::BTreeMap;
use tollgate_limits::Mode;

/// Tries of one wish.
const TRIES_MAX: u64 = 12;
/// How long a client waits for an answer, in microseconds.
const PATIENCE_MICROS: (u64, u64) = (60_000, 300_000);
/// How long one waits that was told that nobody serves.
const REST_MICROS_MAX: u64 = 30_000;

/// A call: each try of a wish is another.
#[derive(Clone, Debug)]
pub struct Call {
    /// Who asks.
    pub client: usize,
    /// The key.
    pub key: usize,
    /// Units.
    pub cost: u64,
    /// As it comes over the wire.
    pub words: Words,
}

/// A client.
#[derive(Debug, Default)]
pub struct Client {
    /// By slot: who serves, as far as it knows.
    guesses: BTreeMap<u16, usize>,
    /// What it wants: key and cost.
    wish: (usize, u64),
    /// Counts its wishes and its tries.
    wishes: u64,
    tries: u64,
    /// The call that it waits for.
    call: Option<u64>,
}

impl World {
    /// A client wants something.
    pub(super) fn wish(&mut self, number: usize) {
        let wish = (self.random.position(self.keys.len()), self.random.choose(&[1, 1, 1, 2, 3], 1));
        let Some(client) = self.clients.get_mut(number) else { return };
        (client.wish, client.tries) = (wish, 0);
        client.wishes += 1;
        self.try_call(number);
    }

    /// A client tries again, if it still wants that.
    pub(super) fn retry(&mut self, number: usize, wish: u64) {
        if self.clients.get(number).is_some_and(|client| client.wishes == wish && client.call.is_none()) {
            self.try_call(number);
        }
    }

    fn try_call(&mut self, number: usize) {
        let id = self.next_call;
        let nodes = self.plan.nodes;
        let some_node = self.random.position(nodes);
        let Some(client) = self.clients.get_mut(number) else { return };
        client.tries += 1;
        if client.tries > TRIES_MAX {
            return self.wish_later(number);
        }
        self.next_call += 1;
        client.call = Some(id);
        let (key, cost) = client.wish;
        let slot = self.keys.get(key).map_or(0, |key| key.at.slot);
        let node = *client.guesses.entry(slot).or_insert(some_node);
        let Some(plan) = self.plan.keys.get(key) else { return };
        let names: Vec<String> = self.keys.iter().map(|key| key.name.clone()).collect();
        let arguments = Request::Limit(Group { key, rule: plan.rule, cost }, Mode::Charge).arguments(&names);
        let words = Words::new(arguments.iter().map(Vec::as_slice));
        self.calls.insert(id, Call { client: number, key, cost, words });
        self.send(Party::Client(number), Party::Node(node), Body::Call(id));
        let at = self.now + self.random.between(PATIENCE_MICROS.0, PATIENCE_MICROS.1);
        self.schedule(at, Event::Impatient { client: number, call: id });
    }

    fn wish_later(&mut self, number: usize) {
        let at = self.now + self.random.between(1, self.plan.pause_micros_max);
        self.schedule(at, Event::Ask { client: number });
    }

    /// A client has waited long enough: it asks somebody else.
    pub(super) fn lose_patience(&mut self, number: usize, call: u64) {
        let some_node = self.random.position(self.plan.nodes);
        let Some(client) = self.clients.get_mut(number).filter(|client| client.call == Some(call)) else { return };
        client.call = None;
        let slot = self.keys.get(client.wish.0).map_or(0, |key| key.at.slot);
        client.guesses.insert(slot, some_node);
        self.note(Fact::GivenUp { call });
        self.summary.unknown += 1;
        self.try_call(number);
    }

    /// An answer has come.
    pub(super) fn hear_reply(&mut self, number: usize, call: u64, reply: &[u8]) {
        let some_node = self.random.position(self.plan.nodes);
        let Some(client) = self.clients.get_mut(number).filter(|client| client.call == Some(call)) else { return };
        client.call = None;
        let key = client.wish.0;
        let slot = self.keys.get(key).map_or(0, |key| key.at.slot);
        let text = String::from_utf8_lossy(reply);
        if let Some(moved) = text.strip_prefix("-MOVED ") {
            let port = moved.trim_end().rsplit(':').next().and_then(|port| port.parse::<usize>().ok());
            client.guesses.insert(slot, port.map_or(0, |port| port.saturating_sub(7_000)));
            self.summary.moved += 1;
            return self.try_call(number);
        }
        if text.starts_with('-') {
            self.summary.down += 1;
            client.guesses.insert(slot, some_node);
            let wish = client.wishes;
            let at = self.now + self.random.between(1_000, REST_MICROS_MAX);
            return self.schedule(at, Event::Retry { client: number, wish });
        }
        self.note(Fact::Received { call });
        if let Some(answered) = self.answered.get_mut(key) {
            *answered = self.now;
        }
        self.wish_later(number);
    }
}
