//! Calls on a node: redirected, held for a lease, run, and answered through the gate and under the lease.

use super::check::{Fact, Ran, Released};
use super::machine::{Place, Process, node_id, node_of};
use super::net::{Body, Party};
use super::node::lease_until;
use super::world::{Event, World};
use crate::answer::Answer;
use crate::view::look;
use tollgate_engine::call::Call as EngineCall;
use tollgate_replication::bound::Mark;
use tollgate_resp::{Protocol, Reply};
use tollgate_topology::planted::{Planted, is_planted};

/// The longest time from when a batch is run until its answers are written, in microseconds.
const WRITE_MICROS_MAX: u64 = 1_500;
/// How long a node without a lease holds a call.
const HOLD_MICROS: u64 = 50_000;
/// The longest time from when something is to be told soon until it is.
const SOON_MICROS_MAX: u64 = 200;
/// What is answered for slots that nobody serves.
const DOWN: &[u8] = b"-CLUSTERDOWN The cluster is down\r\n";

/// An answer on its way out.
#[derive(Clone, Debug)]
pub struct Held {
    /// The call.
    pub call: u64,
    reply: Vec<u8>,
    since: u64,
}

/// Where a call is to go.
enum Route {
    /// It is served here, by the word that this process leads since then.
    Here(u64),
    /// To another node.
    Moved(usize),
    /// Nowhere.
    Down,
}

impl World {
    /// A call has come to a node.
    pub(super) fn serve(&mut self, place: Place, id: u64) {
        let clock = self.boot(place.node);
        let Some(slot) = self.slot_of_call(id) else { return };
        let Some(process) = self.process_of(place) else { return };
        match route(process, place, slot, clock) {
            Route::Here(since) => {
                let is_handing = process.reign.as_ref().is_some_and(|reign| reign.hand.is_some());
                let has_lease = clock < lease_of(process);
                if has_lease && !is_handing && process.waiting.is_empty() {
                    self.run_call(place, id, since);
                } else {
                    process.waiting.push_back((id, clock + HOLD_MICROS));
                }
            }
            Route::Moved(_) | Route::Down => self.redirect(place, id),
        }
    }

    /// Says where a call is to go that is not served here, or not any more.
    pub(super) fn redirect(&mut self, place: Place, id: u64) {
        let clock = self.boot(place.node);
        let Some(slot) = self.slot_of_call(id) else { return };
        let Some(process) = self.process_of(place) else { return };
        let reply = match route(process, place, slot, clock) {
            Route::Moved(node) => format!("-MOVED {slot} 127.0.0.1:{}\r\n", 7_000 + node).into_bytes(),
            Route::Here(_) | Route::Down => DOWN.to_vec(),
        };
        self.reply(place, id, reply);
    }

    fn reply(&mut self, place: Place, id: u64, reply: Vec<u8>) {
        if let Some(client) = self.calls.get(&id).map(|call| call.client) {
            self.send(Party::Process(place), Party::Client(client), Body::Reply { call: id, reply });
        }
    }

    fn slot_of_call(&self, id: u64) -> Option<u16> {
        self.keys.get(self.calls.get(&id)?.key).map(|key| key.at.slot)
    }

    fn run_call(&mut self, place: Place, id: u64, since: u64) {
        let Some(call) = self.calls.get(&id).cloned() else { return };
        let Some(moment) = self.moment(place) else { return };
        let Some(key) = self.keys.get(call.key).cloned() else { return };
        let Some(process) = self.process_of(place) else { return };
        let now = moment.timeline;
        let Ok(ready) = process.dispatcher.prepare(call.words.args()) else { return };
        let before = look(&mut process.core.store, &key).record;
        let mut reply = Vec::new();
        let engine_call = EngineCall { args: call.words.args(), at: ready.at, now };
        process.core.run_key(ready.entry, &engine_call, &mut Reply::new(&mut reply, Protocol::Resp2));
        let five = Answer::whole(&reply).and_then(|answer| answer.five());
        let flush = process.reign.as_ref().map_or(0, |reign| reign.outflow.number_to_tell_all(&process.core.store));
        let mark = Mark { units: process.core.counters.units_admitted(), flush };
        process.ready.insert(id, (mark, Held { call: id, reply, since }));
        self.hurry(place);
        let Some(five) = five else { return self.fail(format!("call {id} is not answered with five numbers")) };
        self.note(Fact::Ran(Box::new(Ran { call: id, place, key: call.key, cost: call.cost, now, before, five })));
        let at = self.now + self.random.between(20, WRITE_MICROS_MAX);
        self.schedule(at, Event::Write { place, call: id });
    }

    /// Has replicas told before the next tick, where that is due.
    fn hurry(&mut self, place: Place) {
        let Some(process) = self.process_of(place) else { return };
        let units = process.core.counters.units_admitted();
        let Some(reign) = &mut process.reign else { return };
        let is_first = reign.is_quiet && process.core.store.has_untaken_changes();
        let hurries = is_first || reign.gate.is_near(units, &reign.outflow.in_step);
        reign.is_quiet &= !hurries;
        if hurries {
            let at = self.now + self.random.between(1, SOON_MICROS_MAX);
            self.schedule(at, Event::Soon { place });
        }
    }

    /// An answer is to be written.
    pub(super) fn write_answer(&mut self, place: Place, id: u64) {
        let clock = self.boot(place.node);
        let Some(process) = self.process_of(place) else { return };
        let Some((mark, held)) = process.ready.remove(&id) else { return };
        let may = may_serve(process, held.since, clock);
        match &mut process.reign {
            Some(reign) if reign.since == held.since => {
                if may && reign.gate.may_leave(mark, &reign.outflow.in_step) {
                    self.leave(place, held);
                } else {
                    reign.gate.hold(mark, held);
                    self.summary.held += 1;
                    self.hurry(place);
                }
            }
            _ if may => self.leave(place, held),
            _ => self.redirect(place, held.call),
        }
    }

    /// Lets out what may leave now.
    pub(super) fn open_gate(&mut self, place: Place) {
        let clock = self.boot(place.node);
        loop {
            let Some(process) = self.process_of(place) else { return };
            let since = process.reign.as_ref().map_or(0, |reign| reign.since);
            if !may_serve(process, since, clock) {
                return;
            }
            let Some(reign) = &mut process.reign else { return };
            let Some(held) = reign.gate.release(&reign.outflow.in_step) else { return };
            self.leave(place, held);
        }
    }

    /// An answer leaves.
    fn leave(&mut self, place: Place, held: Held) {
        let boot = self.boot(place.node);
        let Some(slot) = self.slot_of_call(held.call) else { return };
        let Some(process) = self.process_of(place) else { return };
        let units = process.core.counters.units_admitted();
        let until = lease_of(process);
        let overshoot = process.reign.as_ref().map_or(0, |reign| reign.gate.overshoot(units, &reign.outflow.in_step));
        let (call, since) = (held.call, held.since);
        self.note(Fact::Released(Released { call, place, slot, since, boot, until, overshoot }));
        self.summary.answers += 1;
        self.reply(place, held.call, held.reply);
    }

    /// There may be a lease again, or somebody else serves.
    pub(super) fn serve_who_wait(&mut self, place: Place) {
        let clock = self.boot(place.node);
        let Some(process) = self.process_of(place) else { return };
        let is_handing = process.reign.as_ref().is_some_and(|reign| reign.hand.is_some());
        if clock >= lease_of(process) || is_handing {
            return;
        }
        let waiting = std::mem::take(&mut process.waiting);
        waiting.into_iter().for_each(|(id, _)| self.serve(place, id));
    }

    /// Whoever has waited for a lease as long as calls are held is told that there is none.
    pub(super) fn refuse_who_waited_long(&mut self, place: Place) {
        let clock = self.boot(place.node);
        let Some(process) = self.process_of(place) else { return };
        let mut refused = Vec::new();
        while let Some((id, _)) = process.waiting.pop_front_if(|(_, until)| clock >= *until) {
            refused.push(id);
        }
        if clock < lease_of(process) {
            process.fenced_since = None;
        } else {
            let since = *process.fenced_since.get_or_insert(clock);
            if let Some(reign) = process.reign.as_mut().filter(|_| clock >= since + HOLD_MICROS) {
                while let Some(held) = reign.gate.give_up() {
                    refused.push(held.call);
                }
            }
        }
        refused.into_iter().for_each(|id| self.redirect(place, id));
    }
}

fn route(process: &Process, place: Place, slot: u16, clock: u64) -> Route {
    let own = node_id(place.node);
    match process.map.owner_of(slot) {
        None => Route::Down,
        Some(owner) if owner == own => process.reign.as_ref().map_or(Route::Down, |reign| Route::Here(reign.since)),
        Some(owner) => match process.early {
            Some((until, since)) if clock < until && process.map.followed_by(own) == Some(owner) => Route::Here(since),
            _ => Route::Moved(node_of(owner)),
        },
    }
}

/// When the lease ends that a process serves under.
fn lease_of(process: &Process) -> u64 {
    match process.early {
        Some((until, _)) if process.reign.is_none() => until,
        _ => lease_until(process),
    }
}

/// Whether an answer may leave, as far as that is a matter of leases.
fn may_serve(process: &Process, since: u64, clock: u64) -> bool {
    let leads_since = process.reign.as_ref().map(|reign| reign.since).or(process.early.map(|(_, since)| since));
    leads_since == Some(since) && (clock < lease_of(process) || is_planted(Planted::LeaseNotCheckedAtRelease))
}
