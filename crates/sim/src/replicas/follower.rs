//! A replica's side of its links, as the server's `following` does it.

use super::check::Fact;
use super::machine::{Process, RunId, run_of};
use super::wire::Place;
use super::world::{Event, World};
use crate::pipe::Arrival;
use std::collections::VecDeque;
use std::rc::Rc;
use tollgate_engine::route::owner;
use tollgate_engine::settings::FollowingState;
use tollgate_limits::Micros;
use tollgate_replication::flow::{Ack, Hello, Inflow, Told, slots_of};
use tollgate_replication::followed::{Followed, Lateness};
use tollgate_replication::import;
use tollgate_replication::planted::{Planted, is_planted};
use tollgate_store::Store;

/// A primary that says nothing for so long is away, in microseconds.
const SILENCE_MICROS_MAX: u64 = 120_000;
/// Between two tries.
const RETRY_MICROS: u64 = 25_000;
/// Between two looks whether links are silent.
const LOOK_MICROS: u64 = 20_000;

/// Something for a core to take over.
#[derive(Clone, Debug)]
pub enum What {
    /// Records, of which it takes its own.
    Put(Rc<[u8]>),
    /// Forget what it has of these slots, of which it takes its own.
    Clear(Rc<[u16]>),
    /// A copy of these slots begins.
    Begin(Rc<[u16]>),
    /// It has ended: what it did not have is forgotten.
    End(Rc<[u16]>),
}

/// That, and which link waits until it is done.
#[derive(Clone, Debug)]
pub struct Delivery {
    what: What,
    attempt: u64,
    link: usize,
}

/// Whom a process follows, and how that goes.
#[derive(Debug)]
pub struct Following {
    /// The machine of the primary.
    pub primary: usize,
    /// How far it is.
    pub state: FollowingState,
    /// What was told since the order was given.
    followed: Followed,
    /// By core: until when it says that this replica is in step, by the steady clock.
    promised: Vec<u64>,
    /// Counts the tries of all orders of a run.
    attempt: u64,
    is_receiving: bool,
    copied: usize,
    links: Vec<Link>,
}

#[derive(Debug)]
struct Link {
    wire: u64,
    inflow: Inflow,
    buffer: Vec<u8>,
    hello: Option<Hello>,
    time: Micros,
    heard_steady: u64,
    /// Cores that have not taken over the present step.
    waits_for: usize,
    /// What is to be taken over for the present part.
    steps: VecDeque<What>,
    /// The slots of the core that tells, and those of them that are copied anew.
    own: Rc<[u16]>,
    copied: Rc<[u16]>,
    lateness: Lateness,
    /// What is said once all of it is.
    ack: Option<Ack>,
}

impl Following {
    /// Whether it holds all of it, and hears of each change.
    pub fn is_whole(&self) -> bool {
        self.state == FollowingState::Connected
    }

    /// The process that it holds all of.
    pub fn whole_of(&self) -> Option<RunId> {
        self.followed.run_id().filter(|_| self.is_whole()).map(|run_id| run_of(&run_id))
    }

    /// Whether it has put all up to these flushes, by core.
    pub fn has_put(&self, numbers: &[u32]) -> bool {
        let has = |(core, number): (u16, &u32)| self.followed.has(core).is_some_and(|has| has.number >= *number);
        (0..).zip(numbers).all(has)
    }

    /// Whether the primary says of all its cores that this replica is in step.
    pub fn is_in_step(&self, steady: u64) -> bool {
        self.is_whole() && self.promised.iter().all(|until| steady < *until)
    }

    /// Whether it is told what the primary holds, or has been.
    pub fn is_fed(&self) -> bool {
        self.is_receiving
    }
}

impl World {
    /// An operator says whom a process is to follow.
    pub(super) fn order(&mut self, place: Place, primary: usize) {
        self.note(Fact::Ordered { node: place.node, primary });
        self.hang_up(place);
        let attempt = self.next_attempt;
        self.next_attempt += 1;
        let Some(process) = self.process_of(place) else { return };
        process.settings.shared.set_replica(true);
        process.following = Some(Following {
            primary,
            state: FollowingState::Connect,
            followed: Followed::default(),
            promised: Vec::new(),
            attempt,
            is_receiving: false,
            copied: 0,
            links: Vec::new(),
        });
        self.schedule(self.now + 1, Event::Try { place, attempt });
        self.schedule(self.now + LOOK_MICROS, Event::Look { place, attempt });
    }

    /// An operator says that a process is to be a primary.
    pub(super) fn promote(&mut self, place: Place) {
        self.hang_up(place);
        let Some(process) = self.process_of(place) else { return };
        process.following = None;
        process.settings.shared.set_replica(false);
    }

    /// Tries to reach the primary.
    pub(super) fn try_to_follow(&mut self, place: Place, attempt: u64) {
        let Some(following) = self.following_of(place, attempt) else { return };
        let primary = following.primary;
        following.state = FollowingState::Connecting;
        if !self.open_link(place, primary) {
            self.give_up(place, attempt);
        }
    }

    fn open_link(&mut self, place: Place, primary: usize) -> bool {
        if self.is_cut(place.node, primary) {
            return false;
        }
        let following = self.process_of(place).and_then(|process| process.following.as_ref());
        let core = following.map_or(0, |following| following.links.len());
        let has = following.and_then(|of| of.followed.has(u16::try_from(core).unwrap_or(u16::MAX)));
        let steady = self.steady(place.node);
        let Some(wire) = self.join(primary, core, place, has) else { return false };
        let link = Link {
            wire,
            inflow: Inflow::default(),
            buffer: Vec::new(),
            hello: None,
            time: 0,
            heard_steady: steady,
            waits_for: 0,
            steps: VecDeque::new(),
            own: Rc::default(),
            copied: Rc::default(),
            lateness: Lateness::default(),
            ack: None,
        };
        if let Some(following) = self.process_of(place).and_then(|process| process.following.as_mut()) {
            following.links.push(link);
        }
        true
    }

    /// Ends all links, and tries again later.
    fn give_up(&mut self, place: Place, attempt: u64) {
        if self.following_of(place, attempt).is_none() {
            return;
        }
        self.hang_up(place);
        let next = self.next_attempt;
        self.next_attempt += 1;
        let Some(following) = self.following_of(place, attempt) else { return };
        following.state = FollowingState::Connect;
        following.attempt = next;
        self.schedule(self.now + RETRY_MICROS, Event::Try { place, attempt: next });
        self.schedule(self.now + LOOK_MICROS, Event::Look { place, attempt: next });
    }

    /// Ends all links of a replica.
    fn hang_up(&mut self, place: Place) {
        let Some(following) = self.process_of(place).and_then(|process| process.following.as_mut()) else { return };
        // It is down before any link is closed: from then on the primary does not wait for it.
        following.state = FollowingState::Connect;
        following.promised.clear();
        following.is_receiving = false;
        following.copied = 0;
        let wires: Vec<u64> = following.links.drain(..).map(|link| link.wire).collect();
        for id in wires {
            let Some(wire) = self.wires.get_mut(&id) else { continue };
            if let Some(at) = wire.back.end(self.now, self.plan.delay_micros_max, &mut self.random) {
                self.schedule(at, Event::Arrive { wire: id, is_forth: false });
            }
        }
    }

    /// Looks whether the primary is silent.
    pub(super) fn look(&mut self, place: Place, attempt: u64) {
        let steady = self.steady(place.node);
        let Some(following) = self.following_of(place, attempt) else { return };
        let is_silent =
            following.links.iter().any(|link| steady.saturating_sub(link.heard_steady) > SILENCE_MICROS_MAX);
        if is_silent {
            self.give_up(place, attempt);
        } else {
            self.schedule(self.now + LOOK_MICROS, Event::Look { place, attempt });
        }
    }

    /// Something of a link's has come.
    pub(super) fn hear(&mut self, wire: u64, arrival: Arrival) {
        let Some(place) = self.wires.get(&wire).map(|wire| wire.replica) else { return };
        let steady = self.steady(place.node);
        let Some(following) = self.process_of(place).and_then(|process| process.following.as_mut()) else { return };
        let (attempt, is_receiving) = (following.attempt, following.is_receiving);
        let Some(number) = following.links.iter().position(|link| link.wire == wire) else { return };
        let Some(link) = following.links.get_mut(number) else { return };
        match arrival {
            Arrival::End | Arrival::Broken => return self.give_up(place, attempt),
            Arrival::Bytes(bytes) => link.buffer.extend(bytes),
        }
        link.heard_steady = steady;
        if is_receiving {
            self.receive(place, attempt, number);
        } else if link.hello.is_none() {
            self.hear_hello(place, attempt, number);
        }
    }

    fn hear_hello(&mut self, place: Place, attempt: u64, number: usize) {
        let Some(following) = self.following_of(place, attempt) else { return };
        let primary = following.primary;
        let first = following.links.first().and_then(|link| link.hello);
        let Some(link) = following.links.get_mut(number) else { return };
        let (hello, time, used) = match link.inflow.hear(&link.buffer) {
            Ok(None) => return,
            Ok(Some((heard, used))) => match heard.told {
                Told::Hello(hello) => (hello, heard.time, used),
                _ => return self.give_up(place, attempt),
            },
            Err(error) => return self.fail(format!("a flow that nobody changed is broken: {error}")),
        };
        link.buffer.drain(..used);
        link.hello = Some(hello);
        link.time = time;
        let is_older = !following.followed.may_be(&hello);
        let is_other = first.is_some_and(|first| first.run_id != hello.run_id);
        if is_older || is_other {
            return self.give_up(place, attempt);
        }
        if following.links.len() < usize::from(hello.cores) {
            if !self.open_link(place, primary) {
                self.give_up(place, attempt);
            }
            return;
        }
        let is_new = following.followed.begin(hello.run_id);
        following.promised = vec![0; usize::from(hello.cores)];
        following.is_receiving = true;
        following.state = FollowingState::Sync;
        // A snapshot of records of two processes, each with its own time, would be none.
        if let Some(process) = self.process_of(place) {
            process.save = None;
        }
        self.note(Fact::Opened { node: place.node, run: run_of(&hello.run_id) });
        for number in 0..usize::from(hello.cores) {
            self.begin(place, attempt, number, is_new);
        }
    }

    /// All links are open: what one of them tells is taken over from now on.
    fn begin(&mut self, place: Place, attempt: u64, number: usize, is_new: bool) {
        let following = self.following_of(place, attempt);
        let Some(link) = following.and_then(|following| following.links.get(number)) else { return };
        let (Some(hello), time) = (link.hello, link.time) else { return };
        let slots = self.slots_of_core(hello);
        let Some(following) = self.following_of(place, attempt) else { return };
        if let Some(link) = following.links.get_mut(number) {
            link.own = slots.clone();
            if !hello.resumes {
                link.copied = slots.clone();
                link.steps.push_back(What::Begin(slots));
                following.followed.put(hello.core, None);
            }
        }
        self.follow_time(place, time, is_new && hello.core == 0);
        self.receive(place, attempt, number);
    }

    fn follow_time(&mut self, place: Place, time: Micros, is_new: bool) {
        let steady = self.steady(place.node);
        if let Some(process) = self.process_of(place) {
            process.timeline.follow(time, steady, is_new);
        }
        self.note_time(place.node);
    }

    /// Goes on with a link: step after step, part after part, until it waits for cores or for bytes.
    fn receive(&mut self, place: Place, attempt: u64, number: usize) {
        let steady = self.steady(place.node);
        loop {
            let Some(following) = self.following_of(place, attempt) else { return };
            let Some(link) = following.links.get_mut(number) else { return };
            if link.waits_for > 0 {
                return;
            }
            if let Some(what) = link.steps.pop_front() {
                return self.deliver(place, attempt, number, &what);
            }
            if let Some(ack) = link.ack.take() {
                self.acknowledge(place, number, ack);
                continue;
            }
            let hello = link.hello;
            let buffer = std::mem::take(&mut link.buffer);
            let (heard, used) = match link.inflow.hear(&buffer) {
                Ok(None) => {
                    link.buffer = buffer;
                    return;
                }
                Ok(Some(heard)) => heard,
                Err(error) => return self.fail(format!("a flow that nobody changed is broken: {error}")),
            };
            let Some(Hello { core, cores, .. }) = hello else { return };
            let time = heard.time;
            match heard.told {
                Told::Changes { records, clears } => {
                    link.steps.extend(clears.then(|| What::Clear(link.own.clone())));
                    link.steps.push_back(What::Put(records.into()));
                }
                Told::Copy(records) => link.steps.push_back(What::Put(records.into())),
                Told::Slots(slots) => {
                    let slots = slots_of(slots).filter(|slot| owner(*slot, cores.max(1)) == core);
                    link.copied = slots.collect();
                    link.steps.push_back(What::Begin(link.copied.clone()));
                }
                Told::Copied => link.steps.push_back(What::End(link.copied.clone())),
                // From when it was sent, as far as that can be known.
                Told::Beat { promised } => {
                    let until = steady.saturating_add(promised).saturating_sub(link.lateness.of(time, steady));
                    if let Some(place) = following.promised.get_mut(usize::from(core)) {
                        *place = until;
                    }
                }
                Told::Hello(_) => {}
            }
            let ack = Ack { number: heard.number, is_copied: link.inflow.is_copied() };
            link.buffer = buffer.get(used..).unwrap_or_default().to_vec();
            if is_planted(Planted::AcknowledgesBeforeApplying) {
                self.say_back(place, number, ack);
            }
            if let Some(link) = self.following_of(place, attempt).and_then(|following| following.links.get_mut(number))
            {
                link.ack = Some(ack);
            }
            self.follow_time(place, time, false);
        }
    }

    /// Has all cores take something over.
    fn deliver(&mut self, place: Place, attempt: u64, number: usize, what: &What) {
        let hop = self.plan.hop_micros_max;
        let Some(process) = self.process_of(place) else { return };
        let cores = process.cores.len();
        for inbox in &mut process.inboxes {
            inbox.push_back(Delivery { what: what.clone(), attempt, link: number });
        }
        if let Some(link) = process.following.as_mut().and_then(|following| following.links.get_mut(number)) {
            link.waits_for = cores;
        }
        for core in 0..cores {
            let at = self.now + self.random.between(1, hop);
            self.schedule(at, Event::Take { place, core });
        }
    }

    /// A core takes over what is first for it.
    pub(super) fn take_over(&mut self, place: Place, core: usize) {
        let now = self.expiry_time(place.node);
        let Some(process) = self.process_of(place) else { return };
        let Some(delivery) = process.inboxes.get_mut(core).and_then(VecDeque::pop_front) else { return };
        // What was on its way when this process was made a primary came too late.
        if process.is_replica() {
            match delivery.what {
                What::Put(records) => put(process, core, &records, now),
                What::Clear(slots) => self.each_slot(place, core, &slots, |store, slot| {
                    store.flush_slot(slot);
                }),
                What::Begin(slots) => {
                    self.end_all(place, core);
                    self.each_slot(place, core, &slots, Store::begin_copy_of_slot);
                }
                What::End(slots) => self.each_slot(place, core, &slots, Store::end_copy_of_slot),
            }
        }
        let Some(following) = self.following_of(place, delivery.attempt) else { return };
        let Some(link) = following.links.get_mut(delivery.link) else { return };
        link.waits_for = link.waits_for.saturating_sub(1);
        if link.waits_for == 0 {
            self.receive(place, delivery.attempt, delivery.link);
        }
    }

    /// Does something to such of the slots as are the core's.
    fn each_slot(&mut self, place: Place, core: usize, slots: &[u16], act: impl Fn(&mut Store, u16)) {
        let Some(engine) = self.process_of(place).and_then(|process| process.cores.get_mut(core)) else { return };
        for slot in slots {
            if engine.store.owns(*slot) {
                act(&mut engine.store, *slot);
            }
        }
    }

    /// The slots with keys of a core that tells.
    fn slots_of_core(&self, hello: Hello) -> Rc<[u16]> {
        self.slots.iter().copied().filter(|slot| owner(*slot, hello.cores.max(1)) == hello.core).collect()
    }

    fn acknowledge(&mut self, place: Place, number: usize, ack: Ack) {
        if !is_planted(Planted::AcknowledgesBeforeApplying) {
            self.say_back(place, number, ack);
        }
        let Some(following) = self.process_of(place).and_then(|process| process.following.as_mut()) else { return };
        let Some(link) = following.links.get_mut(number) else { return };
        let Some(hello) = link.hello else { return };
        let run = run_of(&hello.run_id);
        following.followed.put(hello.core, link.inflow.has());
        if ack.is_copied && following.state == FollowingState::Sync {
            let are_copied = following.links.iter().filter(|link| link.inflow.is_copied() && link.ack.is_none());
            following.copied = are_copied.count();
            if following.copied >= usize::from(hello.cores) {
                following.state = FollowingState::Connected;
                self.note(Fact::Whole { node: place.node, run });
            }
        }
        if ack.is_copied {
            let (core, now) = (usize::from(hello.core), self.time(place.node));
            let records = self.held_of(place.node, core, usize::from(hello.cores));
            self.note(Fact::Put { node: place.node, run, core, number: ack.number, now, records: Rc::new(records) });
        }
    }

    fn say_back(&mut self, place: Place, number: usize, ack: Ack) {
        let Some(following) = self.process_of(place).and_then(|process| process.following.as_ref()) else { return };
        let Some(id) = following.links.get(number).map(|link| link.wire) else { return };
        let Some(wire) = self.wires.get_mut(&id) else { return };
        for at in wire.back.write(&ack.bytes(), self.now, self.plan.delay_micros_max, &mut self.random) {
            self.agenda.add(&mut self.random, at, Event::Arrive { wire: id, is_forth: false });
        }
    }

    fn following_of(&mut self, place: Place, attempt: u64) -> Option<&mut Following> {
        self.process_of(place)?.following.as_mut().filter(|following| following.attempt == attempt)
    }
}

fn put(process: &mut Process, core: usize, records: &[u8], now: Micros) {
    let Some(engine) = process.cores.get_mut(core) else { return };
    let put = import(records, &mut engine.store, now);
    assert!(put.is_ok(), "records that nobody changed are put: {put:?}");
    engine.publish();
}
