//! A batch's course: own keys at once, others in one parcel for each core, commands for several cores in turn.
//!
//! This follows the server's connections step by step, with events where they wait.

use crate::agenda::Event;
use crate::check::Fact;
use crate::client::{Asked, Away, Client, Errand, Waiting, Words};
use crate::errand::{Duty, Note, RequestId};
use crate::fault::Fault;
use crate::link::{Message, Way};
use crate::workload;
use crate::world::World;
use std::collections::BTreeMap;
use std::rc::Rc;
use tollgate_engine::all::BUSY;
use tollgate_engine::call::Call;
use tollgate_engine::dispatch::{Ready, Way as Route};
use tollgate_engine::parcel::{NewJob, Task};
use tollgate_engine::plain::{Plain, PlainCall};
use tollgate_resp::{Protocol, Reply, Span};

/// How long a connection waits for room in a lane before it answers BUSY, in microseconds.
const PATIENCE_MICROS: u64 = 10_000;
/// The most requests of a simulated batch.
const BATCH_MAX: u64 = 7;
/// The longest pause of a client between its batches.
const PAUSE_MICROS_MAX: u64 = 3_000;

/// Whether a connection goes on, or waits for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// It goes on.
    On,
    /// It waits.
    Wait,
}

impl World {
    /// A client's next batch comes.
    pub(crate) fn read(&mut self, number: usize) {
        let length = self.random.between(1, BATCH_MAX);
        let Some(client) = self.clients.get_mut(number) else { return };
        if client.is_gone || client.batches_left == 0 {
            client.batches_left = 0;
            return;
        }
        client.batches_left -= 1;
        client.batch.clear();
        client.next = 0;
        let mut asked = Vec::new();
        for _ in 0..length {
            let id = RequestId { client: number, number: client.sent };
            client.sent += 1;
            let serial = id.number * 1_000 + u64::try_from(number).unwrap_or(0);
            let request = Rc::new(workload::request(&self.plan, &mut self.random, serial));
            let arguments = request.arguments(&self.names);
            let words = Words::new(arguments.iter().map(Vec::as_slice));
            client.batch.push(Asked { id, request: request.clone(), words });
            asked.push(Fact::Asked(id, request));
        }
        client.replies = vec![None; client.batch.len()];
        asked.into_iter().for_each(|fact| self.note(fact));
        self.go_on(number);
    }

    /// Runs a client's batch until it waits or ends.
    pub(crate) fn go_on(&mut self, number: usize) {
        while self.observer.found().is_none() {
            self.run_until_barrier(number);
            let Some(client) = self.clients.get(number) else { return };
            if !client.outgoing.is_empty() {
                return self.send_batch_or_wait(number);
            }
            if client.next >= client.batch.len() {
                return self.finish(number);
            }
            if self.run_barrier(number) == Flow::Wait {
                return;
            }
        }
    }

    fn run_until_barrier(&mut self, number: usize) {
        loop {
            let Some(client) = self.clients.get(number) else { return };
            let Some(asked) = client.batch.get(client.next).cloned() else { return };
            let own = client.core;
            match self.dispatcher.prepare(asked.words.args()) {
                Err(text) => self.answer_with(number, |reply| {
                    reply.error(&text);
                }),
                Ok(ready) => match ready.way {
                    Route::To(core) if usize::from(core) == own => {
                        let reply = self.run_here(own, &asked, &ready);
                        self.answer(number, reply);
                    }
                    Route::To(core) => self.put_aside(number, usize::from(core), &asked, &ready),
                    Route::Here => {
                        let reply = self.run_session(number, &asked, &ready);
                        self.answer(number, reply);
                    }
                    _ => return,
                },
            }
        }
    }

    fn run_here(&mut self, core: usize, asked: &Asked, ready: &Ready) -> Vec<u8> {
        let note = whole_note(asked);
        let outputs = self.work(core, &[note], |engine, now| {
            let mut bytes = Vec::new();
            let call = Call { args: asked.words.args(), at: ready.at, now };
            engine.run_key(ready.entry, &call, &mut Reply::new(&mut bytes, Protocol::Resp2));
            engine.publish();
            vec![bytes]
        });
        outputs.into_iter().next().unwrap_or_default()
    }

    fn run_session(&mut self, number: usize, asked: &Asked, ready: &Ready) -> Vec<u8> {
        let mut bytes = Vec::new();
        let Some(client) = self.clients.get_mut(number) else { return bytes };
        let now = self.clocks.read(client.core, self.now_micros, &mut self.random);
        if let Some(engine) = self.cores.get_mut(client.core) {
            let call = Call { args: asked.words.args(), at: ready.at, now };
            let mut reply = Reply::new(&mut bytes, Protocol::Resp2);
            engine.run_session(ready.entry, &mut client.session, &call, &mut reply);
        }
        bytes
    }

    /// Keeps a command for another core until all before the next barrier are known: a plain call as one of a row, if
    /// it is of the same limit as others that the message carries.
    fn put_aside(&mut self, number: usize, core: usize, asked: &Asked, ready: &Ready) {
        let Some(client) = self.clients.get_mut(number) else { return };
        let outgoing = client.outgoing.entry(core).or_default();
        let job = NewJob { entry: ready.entry, task: Task::Run, at: ready.at, protocol: Protocol::Resp2, cargo: None };
        let args = asked.words.args();
        match Plain::of(ready.entry, args) {
            Some(plain) if outgoing.policy.get_or_insert(*plain.policy()) == plain.policy() => {
                let call =
                    PlainCall { at: ready.at, core: u16::try_from(core).unwrap_or(u16::MAX), key: Span::default() };
                outgoing.parcel.push_plain(&plain, &call, args.get(1).unwrap_or_default(), Protocol::Resp2);
            }
            _ => _ = outgoing.parcel.push(job, args.iter()),
        }
        outgoing.notes.push(whole_note(asked));
        outgoing.places.push(client.next);
        client.next += 1;
    }

    fn send_batch_or_wait(&mut self, number: usize) {
        let Some(client) = self.clients.get(number) else { return };
        let cores: Vec<usize> = client.outgoing.keys().copied().collect();
        if self.has_room(client.core, &cores) {
            return self.send_batch(number);
        }
        let forgets = self.strikes(Fault::RoomAskedInPart);
        let Some(client) = self.clients.get(number) else { return };
        let is_awaited = |core: &usize| !forgets || !self.has_room(client.core, &[*core]);
        let awaited = cores.into_iter().filter(is_awaited).collect();
        self.wait_for_room(number, Waiting::RoomForBatch(awaited));
    }

    /// Sends what the batch has for other cores.
    fn send_batch(&mut self, number: usize) {
        let Some(client) = self.clients.get_mut(number) else { return };
        let (own, outgoing) = (client.core, std::mem::take(&mut client.outgoing));
        let places: BTreeMap<usize, Vec<usize>> =
            outgoing.iter().map(|(core, outgoing)| (*core, outgoing.places.clone())).collect();
        client.waiting =
            Waiting::Answers(Away { left: outgoing.len(), returned: Vec::new(), errand: Errand::Batch(places) });
        for (core, outgoing) in outgoing {
            self.take_room(own, core);
            self.send(own, core, Message { parcel: outgoing.parcel, client: number, notes: outgoing.notes });
        }
    }

    /// The answers of a batch have come: their replies go where they belong.
    pub(crate) fn take_replies(&mut self, number: usize, returned: Vec<(usize, Message)>, places: &Places) {
        let Some(own) = self.clients.get(number).map(|client| client.core) else { return };
        for (core, message) in returned {
            let positions = places.get(&core).map(Vec::as_slice).unwrap_or_default();
            for (position, place) in positions.iter().enumerate() {
                self.fill(number, *place, message.parcel.reply(position).to_vec());
            }
            self.free_room(own, core);
        }
        self.go_on(number);
        self.wake_waiting(own);
    }

    /// A message comes to a core, which does what it says and sends it back.
    pub(crate) fn arrive(&mut self, from: usize, to: usize) {
        let Some(mut message) = self.links.take(Way { from, to, is_answer: false }) else { return };
        let is_undo = message.notes.iter().any(|note| note.duty == Duty::Undo);
        if !(is_undo && self.strikes(Fault::UndoDropped)) {
            let Message { parcel, notes, .. } = &mut message;
            self.work(to, notes, |engine, now| {
                engine.run_parcel(parcel, now);
                (0..parcel.len()).map(|position| parcel.reply(position).to_vec()).collect()
            });
        }
        let way = Way { from: to, to: from, is_answer: true };
        self.put_on_lane(way, message);
    }

    /// A message has come back.
    pub(crate) fn come_back(&mut self, from: usize, message: Message) {
        let number = message.client;
        let Some(client) = self.clients.get_mut(number) else { return };
        let Waiting::Answers(away) = &mut client.waiting else { return };
        away.left = away.left.saturating_sub(1);
        away.returned.push((from, message));
        if away.left > 0 {
            return;
        }
        if let Waiting::Answers(Away { returned, errand, .. }) = std::mem::take(&mut client.waiting) {
            match errand {
                Errand::Batch(places) => self.take_replies(number, returned, &places),
                Errand::Parts(own) => self.merge_parts(number, returned, own),
                Errand::Charges(plan) => self.take_charges(number, returned, plan),
                Errand::Undos(plan, held) => self.take_undos(number, returned, plan, &held),
            }
        }
    }

    /// Waits for room, but not for ever.
    pub(crate) fn wait_for_room(&mut self, number: usize, waiting: Waiting) {
        let Some(client) = self.clients.get_mut(number) else { return };
        client.waiting = waiting;
        client.waits += 1;
        let wait = client.waits;
        self.schedule(self.now_micros + PATIENCE_MICROS, Event::Impatient { client: number, wait });
    }

    /// A client has waited for room for long enough.
    pub(crate) fn lose_patience(&mut self, number: usize, wait: u64) {
        let Some(client) = self.clients.get_mut(number).filter(|client| client.waits == wait) else { return };
        match std::mem::take(&mut client.waiting) {
            Waiting::RoomForBatch(cores) => {
                let own = client.core;
                let full: Vec<usize> = cores.into_iter().filter(|core| !self.has_room(own, &[*core])).collect();
                self.refuse(number, &full);
                // What is left may be nothing; then the batch goes on.
                match self.clients.get(number).is_some_and(|client| client.outgoing.is_empty()) {
                    true => self.go_on(number),
                    false => self.send_batch(number),
                }
            }
            Waiting::RoomForParts(_) => {
                self.answer_busy(number);
                self.go_on(number);
            }
            other => client.waiting = other,
        }
    }

    /// Answers all commands for these cores with BUSY.
    fn refuse(&mut self, number: usize, full: &[usize]) {
        for core in full {
            let Some(client) = self.clients.get_mut(number) else { return };
            let Some(outgoing) = client.outgoing.remove(core) else { continue };
            for place in outgoing.places {
                self.fill(number, place, busy());
            }
        }
    }

    /// Clients of a core that wait for room go on, if there is some now.
    pub(crate) fn wake_waiting(&mut self, core: usize) {
        for number in 0..self.clients.len() {
            let Some(client) = self.clients.get(number).filter(|client| client.core == core) else { continue };
            let (Waiting::RoomForBatch(cores) | Waiting::RoomForParts(cores)) = &client.waiting else { continue };
            if !self.has_room(core, cores) {
                continue;
            }
            let Some(client) = self.clients.get_mut(number) else { continue };
            match std::mem::take(&mut client.waiting) {
                Waiting::RoomForBatch(_) => self.send_batch(number),
                _ => self.go_on(number),
            }
        }
    }

    /// All replies of a batch are there: they leave in order.
    fn finish(&mut self, number: usize) {
        let (swaps, loses) = (self.strikes(Fault::RepliesSwapped), self.strikes(Fault::ReplyLost));
        let pause = self.random.between(1, PAUSE_MICROS_MAX);
        let Some(client) = self.clients.get_mut(number) else { return };
        let mut replies: Vec<Vec<u8>> = client.replies.drain(..).map(Option::unwrap_or_default).collect();
        client.batch.clear();
        client.next = 0;
        self.answered += u64::try_from(replies.len()).unwrap_or(0);
        if swaps && replies.len() > 1 {
            replies.swap(0, 1);
        }
        if loses {
            replies.pop();
        }
        let is_gone = client.is_gone;
        if !is_gone {
            self.note(Fact::Received(number, replies.concat()));
        }
        self.schedule(self.now_micros + pause, Event::Read { client: number });
    }

    /// Answers the request whose turn it is.
    pub(crate) fn answer(&mut self, number: usize, reply: Vec<u8>) {
        let Some(client) = self.clients.get_mut(number) else { return };
        let place = client.next;
        client.next += 1;
        self.fill(number, place, reply);
    }

    /// As [`World::answer`], with what `write` writes.
    pub(crate) fn answer_with(&mut self, number: usize, write: impl FnOnce(&mut Reply<'_>)) {
        let mut bytes = Vec::new();
        write(&mut Reply::new(&mut bytes, Protocol::Resp2));
        self.answer(number, bytes);
    }

    /// Answers the request whose turn it is with BUSY.
    pub(crate) fn answer_busy(&mut self, number: usize) {
        self.answer(number, busy());
    }

    fn fill(&mut self, number: usize, place: usize, reply: Vec<u8>) {
        let Some(client) = self.clients.get_mut(number) else { return };
        let Some(id) = client.batch.get(place).map(|asked| asked.id) else { return };
        if let (true, Some(counters)) = (reply.starts_with(b"-BUSY"), self.counters.get(client.core)) {
            counters.busy_replies.add(1);
        }
        if let Some(slot) = client.replies.get_mut(place) {
            *slot = Some(reply.clone());
        }
        self.note(Fact::Made(id, reply));
    }

    /// Puts a message on its lane. The room for it was taken, or is held.
    pub(crate) fn send(&mut self, from: usize, to: usize, message: Message) {
        self.put_on_lane(Way { from, to, is_answer: false }, message);
    }

    fn put_on_lane(&mut self, way: Way, message: Message) {
        let (at_micros, messages) = self.links.send(way, message, self.now_micros, &mut self.random);
        let Way { from, to, is_answer } = way;
        self.note(Fact::Queued { from, to, messages });
        self.schedule(at_micros, Event::Arrive { from, to, is_answer });
    }

    /// Whether a message may go to each of these cores.
    pub(crate) fn has_room(&self, from: usize, to: &[usize]) -> bool {
        let outstanding = |to: &usize| self.outstanding.get(from * self.cores.len() + to).copied().unwrap_or(0);
        to.iter().all(|to| outstanding(to) < self.plan.lane_capacity)
    }

    /// Notes that a message is outstanding.
    pub(crate) fn take_room(&mut self, from: usize, to: usize) {
        if let Some(outstanding) = self.outstanding.get_mut(from * self.cores.len() + to) {
            *outstanding += 1;
        }
    }

    /// Notes that one is so no more.
    pub(crate) fn free_room(&mut self, from: usize, to: usize) {
        if let Some(outstanding) = self.outstanding.get_mut(from * self.cores.len() + to) {
            *outstanding -= 1;
        }
    }
}

/// By core: where the replies of its parcel belong in the batch.
type Places = BTreeMap<usize, Vec<usize>>;

fn whole_note(asked: &Asked) -> Note {
    let keys = asked.request.keys();
    Note { id: asked.id, request: asked.request.clone(), duty: Duty::Whole, keys }
}

fn busy() -> Vec<u8> {
    let mut bytes = Vec::new();
    Reply::new(&mut bytes, Protocol::Resp2).error(BUSY);
    bytes
}

impl Client {
    /// The request whose turn it is.
    pub(crate) fn current(&self) -> Option<Asked> {
        self.batch.get(self.next).cloned()
    }
}
