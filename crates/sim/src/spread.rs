//! Commands for several cores: each core's part goes to it, and the connection puts the answers together.

use crate::check::Fact;
use crate::client::{Asked, Away, Errand, Waiting, Words};
use crate::errand::{Duty, Note};
use crate::fault::Fault;
use crate::link::Message;
use crate::request::Request;
use crate::serve::Flow;
use crate::world::World;
use tollgate_engine::all::{self, AllPlan, UndoLog};
use tollgate_engine::call::Call;
use tollgate_engine::command::Handler;
use tollgate_engine::dispatch::{Ready, Way as Route};
use tollgate_engine::parcel::{Cargo, NewJob, Parcel, Task};
use tollgate_resp::{Protocol, Reply};

/// One core's part of a command.
struct Part {
    core: usize,
    words: Words,
    keys: Vec<usize>,
}

impl World {
    /// Runs the command whose turn it is, which concerns several cores. Nothing of its connection is outstanding.
    pub(crate) fn run_barrier(&mut self, number: usize) -> Flow {
        let Some(client) = self.clients.get(number) else { return Flow::Wait };
        let (own, Some(asked)) = (client.core, client.current()) else { return Flow::Wait };
        let Ok(ready) = self.dispatcher.prepare(asked.words.args()) else { return Flow::Wait };
        if ready.way == Route::AllOrNothing {
            return self.begin_all(number, own, &asked, &ready);
        }
        let parts = self.parts(&asked, &ready);
        let others = others(&parts, own);
        if !self.has_room(own, &others) {
            self.wait_for_room(number, Waiting::RoomForParts(others));
            return Flow::Wait;
        }
        for part in parts.iter().filter(|part| part.core != own) {
            self.take_room(own, part.core);
            self.send_part(number, own, &asked, &ready, part, Task::Part, None);
        }
        let mut fragment = Vec::new();
        if let (Some(part), Handler::Spread(run, _)) =
            (parts.iter().find(|part| part.core == own), ready.entry.command.handler)
        {
            let outputs = self.work(own, &[note(&asked, Duty::Part, part)], |engine, now| {
                let mut bytes = Vec::new();
                run(engine, &Call { args: part.words.args(), at: ready.at, now }, &mut bytes);
                vec![bytes]
            });
            fragment = outputs.into_iter().next().unwrap_or_default();
        }
        self.await_answers(number, others.len(), Errand::Parts(fragment))
    }

    /// The parts of a command have come back.
    pub(crate) fn merge_parts(&mut self, number: usize, returned: Vec<(usize, Message)>, own_fragment: Vec<u8>) {
        let Some(client) = self.clients.get(number) else { return };
        let (own, Some(asked)) = (client.core, client.current()) else { return };
        let Ok(ready) = self.dispatcher.prepare(asked.words.args()) else { return };
        let mut fragments: Vec<&[u8]> = returned.iter().map(|(_, message)| message.parcel.reply(0)).collect();
        fragments.push(&own_fragment);
        let now = self.clocks.read(own, self.now_micros, &mut self.random);
        let mut bytes = Vec::new();
        if let Handler::Spread(_, merge) = ready.entry.command.handler {
            let call = Call { args: asked.words.args(), at: ready.at, now };
            merge(&fragments, &call, &mut Reply::new(&mut bytes, Protocol::Resp2));
        }
        returned.iter().for_each(|(core, _)| self.free_room(own, *core));
        self.answer(number, bytes);
        self.go_on(number);
        self.wake_waiting(own);
    }

    fn begin_all(&mut self, number: usize, own: usize, asked: &Asked, ready: &Ready) -> Flow {
        let (settings, hasher) = (self.settings.clone(), self.dispatcher.hasher().clone());
        let mut plan = match AllPlan::new(&settings, &hasher, self.plan.cores, asked.words.args()) {
            Ok(plan) => plan,
            Err(failure) => {
                self.answer_with(number, |reply| {
                    reply.error(&failure.to_string());
                });
                return Flow::On;
            }
        };
        let parts = self.all_parts(&plan, asked);
        let others = others(&parts, own);
        if !self.has_room(own, &others) {
            self.wait_for_room(number, Waiting::RoomForParts(others));
            return Flow::Wait;
        }
        for part in parts.iter().filter(|part| part.core != own) {
            self.take_room(own, part.core);
            self.send_part(number, own, asked, ready, part, Task::Charge, None);
        }
        if let Some(part) = parts.iter().find(|part| part.core == own) {
            let mut undo = None;
            let outputs = self.work(own, &[note(asked, Duty::Charge, part)], |engine, now| {
                let mut bytes = Vec::new();
                undo = all::charge(engine, &Call { args: part.words.args(), at: ready.at, now }, &mut bytes);
                vec![bytes]
            });
            plan.charged(short(own), outputs.first().map(Vec::as_slice).unwrap_or_default(), undo);
        }
        self.await_answers(number, others.len(), Errand::Charges(plan))
    }

    /// The charges of an RL.ALL have come back: they stay, or those that were made are undone.
    pub(crate) fn take_charges(&mut self, number: usize, returned: Vec<(usize, Message)>, mut plan: AllPlan) {
        let Some(client) = self.clients.get(number) else { return };
        let (own, Some(asked)) = (client.core, client.current()) else { return };
        let Ok(ready) = self.dispatcher.prepare(asked.words.args()) else { return };
        // Room stays held until the undos are done or known not to be needed: an undo always finds room.
        let held: Vec<usize> = returned.iter().map(|(core, _)| *core).collect();
        for (core, mut message) in returned {
            let undo = message.parcel.take_undo(0);
            plan.charged(short(core), message.parcel.reply(0), undo);
        }
        if !plan.admitted() && self.strikes(Fault::RefusalIgnored) {
            return self.pretend_admitted(number, own, &asked, &held);
        }
        let parts = self.all_parts(&plan, &asked);
        let mut sent = 0;
        for (core, log) in plan.to_undo() {
            let Some(part) = parts.iter().find(|part| part.core == usize::from(core)) else { continue };
            if part.core != own {
                self.send_part(number, own, &asked, &ready, part, Task::Undo, Some(log));
                sent += 1;
                continue;
            }
            let outputs = self.work(own, &[note(&asked, Duty::Undo, part)], |engine, now| {
                let mut bytes = Vec::new();
                all::undo(engine, &Call { args: part.words.args(), at: ready.at, now }, *log, &mut bytes);
                vec![bytes]
            });
            plan.undone(core, outputs.first().map(Vec::as_slice).unwrap_or_default());
        }
        self.await_answers(number, sent, Errand::Undos(plan, held));
    }

    /// The undos of an RL.ALL have come back, or there were none: it is answered.
    pub(crate) fn take_undos(
        &mut self,
        number: usize,
        returned: Vec<(usize, Message)>,
        mut plan: AllPlan,
        held: &[usize],
    ) {
        let Some(client) = self.clients.get(number) else { return };
        let (own, Some(asked)) = (client.core, client.current()) else { return };
        for (core, message) in returned {
            plan.undone(short(core), message.parcel.reply(0));
        }
        held.iter().for_each(|core| self.free_room(own, *core));
        self.note(Fact::Settled(asked.id, plan.admitted()));
        self.answer_with(number, |reply| plan.reply(reply));
        self.go_on(number);
        self.wake_waiting(own);
    }

    /// The planted fault: a refusal is not heard.
    fn pretend_admitted(&mut self, number: usize, own: usize, asked: &Asked, held: &[usize]) {
        held.iter().for_each(|core| self.free_room(own, *core));
        self.note(Fact::Settled(asked.id, true));
        let Request::All(groups) = &*asked.request else { return };
        self.answer_with(number, |reply| {
            reply.array(groups.len() + 2);
            reply.integer(1);
            reply.integer(0);
            for group in groups {
                reply.five([1, i64::try_from(group.rule.limit).unwrap_or(0), 0, 0, 0]);
            }
        });
        self.go_on(number);
        self.wake_waiting(own);
    }

    fn await_answers(&mut self, number: usize, left: usize, errand: Errand) -> Flow {
        let Some(client) = self.clients.get_mut(number) else { return Flow::Wait };
        if left > 0 {
            client.waiting = Waiting::Answers(Away { left, returned: Vec::new(), errand });
            return Flow::Wait;
        }
        match errand {
            Errand::Undos(plan, held) => self.take_undos(number, Vec::new(), plan, &held),
            Errand::Charges(plan) => self.take_charges(number, Vec::new(), plan),
            Errand::Parts(own) => self.merge_parts(number, Vec::new(), own),
            Errand::Batch(_) => {}
        }
        Flow::Wait
    }

    #[expect(clippy::too_many_arguments, reason = "each is a different thing and none belongs to another")]
    fn send_part(
        &mut self,
        number: usize,
        own: usize,
        asked: &Asked,
        ready: &Ready,
        part: &Part,
        task: Task,
        undo: Option<Box<UndoLog>>,
    ) {
        let duty = match task {
            Task::Run => Duty::Whole,
            Task::Part => Duty::Part,
            Task::Charge => Duty::Charge,
            // Its workload has no command that takes these.
            Task::Step(_) | Task::Watch | Task::Guard | Task::Row => Duty::Part,
            Task::Undo => Duty::Undo,
        };
        let mut parcel = Box::new(Parcel::default());
        let job =
            NewJob { entry: ready.entry, task, at: ready.at, protocol: Protocol::Resp2, cargo: undo.map(Cargo::Undo) };
        parcel.push(job, part.words.args().iter());
        self.send(own, part.core, Message { parcel, client: number, notes: vec![note(asked, duty, part)] });
    }

    /// The parts of a command that is not RL.ALL.
    fn parts(&self, asked: &Asked, ready: &Ready) -> Vec<Part> {
        let keys = asked.request.keys();
        if ready.way != Route::PerKey {
            let whole = |core| Part { core, words: asked.words.clone(), keys: Vec::new() };
            return (0..self.cores.len()).map(whole).collect();
        }
        let split = self.dispatcher.split(ready.entry, asked.words.args());
        let part = |(core, positions): (u16, Vec<usize>)| {
            let own_keys = positions.iter().filter_map(|position| keys.get(position - 1).copied()).collect();
            let positions: Vec<usize> = std::iter::once(0).chain(positions).collect();
            Part { core: usize::from(core), words: asked.words.pick(&positions), keys: own_keys }
        };
        split.into_iter().map(part).collect()
    }

    fn all_parts(&self, plan: &AllPlan, asked: &Asked) -> Vec<Part> {
        let keys = asked.request.keys();
        let part = |core: u16| {
            let positions: Vec<usize> = plan.arguments(core).collect();
            let owner = usize::from(core);
            let own_keys = keys.iter().copied().filter(|key| self.owners.get(*key) == Some(&owner)).collect();
            Part { core: owner, words: asked.words.pick(&positions), keys: own_keys }
        };
        plan.cores().map(part).collect()
    }
}

fn others(parts: &[Part], own: usize) -> Vec<usize> {
    parts.iter().map(|part| part.core).filter(|core| *core != own).collect()
}

fn note(asked: &Asked, duty: Duty, part: &Part) -> Note {
    Note { id: asked.id, request: asked.request.clone(), duty, keys: part.keys.clone() }
}

/// A simulated node has at most eight cores.
fn short(core: usize) -> u16 {
    u16::try_from(core).unwrap_or(u16::MAX)
}
