//! A replica's side of its link: it follows whom the map says, and takes nothing but the state that the map names.

use super::machine::{Place, Process};
use super::world::{Event, World};
use crate::pipe::Arrival;
use tollgate_replication::flow::{Ack, Hello, Inflow, Told, slots_of};
use tollgate_replication::followed::Followed;
use tollgate_replication::import;
use tollgate_store::Store;
use tollgate_topology::lease::Follows;
use tollgate_topology::map::STATE_NAME_BYTES;

/// A primary that says nothing for so long is away, in microseconds.
const SILENCE_MICROS_MAX: u64 = 120_000;
/// Between two tries.
const RETRY_MICROS: u64 = 25_000;

/// Whom a process follows, and how that goes.
#[derive(Debug)]
pub struct Following {
    /// The node of the primary.
    pub primary: usize,
    /// Since when that leads.
    pub since: u64,
    /// What its state is called.
    name: [u8; STATE_NAME_BYTES],
    followed: Followed,
    /// Whether it holds anything of that state.
    is_fed: bool,
    /// Until when the primary says that it waits for this replica.
    promised: u64,
    attempt: u64,
    link: Option<Link>,
}

#[derive(Debug)]
struct Link {
    wire: u64,
    inflow: Inflow,
    buffer: Vec<u8>,
    hello: Option<Hello>,
    copied: Vec<u16>,
    heard: u64,
}

impl Following {
    /// One that has not begun.
    pub fn new(primary: usize, since: u64, name: [u8; STATE_NAME_BYTES]) -> Following {
        let (followed, is_fed, promised, attempt, link) = Default::default();
        Following { primary, since, name, followed, is_fed, promised, attempt, link }
    }

    /// What the leader is told of it.
    pub fn follows(&self, boot: u64) -> Option<Follows> {
        let progress = self.followed.has(0).map_or(0, |has| u64::from(has.number));
        self.is_fed.then_some(Follows { since: self.since, is_in_step: boot < self.promised, progress })
    }

    /// Its link, by its name in the world.
    pub fn wire(&self) -> Option<u64> {
        self.link.as_ref().map(|link| link.wire)
    }
}

impl World {
    /// Ends the link of a replica.
    pub(super) fn hang_up(&mut self, place: Place) {
        let Some(following) = self.process_of(place).and_then(|process| process.following.as_mut()) else { return };
        following.attempt += 1;
        following.promised = 0;
        let Some(link) = following.link.take() else { return };
        let Some(wire) = self.wires.get_mut(&link.wire) else { return };
        if let Some(at) = wire.back.end(self.now, self.plan.delay_micros_max, &mut self.random) {
            self.schedule(at, Event::Arrive { wire: link.wire, is_forth: false });
        }
    }

    /// Tries to reach the primary, now or later.
    pub(super) fn try_later(&mut self, place: Place, micros: u64) {
        let Some(following) = self.process_of(place).and_then(|process| process.following.as_ref()) else { return };
        let (since, attempt) = (following.since, following.attempt);
        self.schedule(self.now + micros, Event::Try { place, since, attempt });
    }

    fn try_again(&mut self, place: Place) {
        self.hang_up(place);
        self.try_later(place, RETRY_MICROS);
    }

    /// Tries to reach the primary.
    pub(super) fn try_to_follow(&mut self, place: Place, since: u64, attempt: u64) {
        let clock = self.boot(place.node);
        let Some(following) = self.process_of(place).and_then(|process| process.following.as_ref()) else { return };
        if following.since != since || following.attempt != attempt {
            return;
        }
        let (primary, has) = (following.primary, following.followed.has(0));
        let is_cut = self.net.is_cut(place.node, primary, self.now) || self.is_paused(primary);
        let wire = if is_cut { None } else { self.join(primary, place, has) };
        let Some(wire) = wire else { return self.try_again(place) };
        let (inflow, buffer, hello, copied) = Default::default();
        if let Some(following) = self.process_of(place).and_then(|process| process.following.as_mut()) {
            following.link = Some(Link { wire, inflow, buffer, hello, copied, heard: clock });
        }
    }

    /// Looks whether the primary is silent.
    pub(super) fn look_whether_silent(&mut self, place: Place) {
        let clock = self.boot(place.node);
        let following = self.process_of(place).and_then(|process| process.following.as_ref());
        let Some(link) = following.and_then(|following| following.link.as_ref()) else { return };
        if clock.saturating_sub(link.heard) > SILENCE_MICROS_MAX {
            self.try_again(place);
        }
    }

    /// Something of a link's has come.
    pub(super) fn hear(&mut self, wire: u64, arrival: Arrival) {
        let Some(place) = self.wires.get(&wire).map(|wire| wire.replica) else { return };
        let clock = self.boot(place.node);
        let Some(process) = self.process_of(place) else { return };
        let Some(following) = process.following.as_mut().filter(|of| of.wire() == Some(wire)) else { return };
        let Some(link) = &mut following.link else { return };
        match arrival {
            Arrival::End | Arrival::Broken => return self.try_again(place),
            Arrival::Bytes(bytes) => link.buffer.extend(bytes),
        }
        link.heard = clock;
        let (acks, is_broken) = receive(process, clock);
        acks.into_iter().for_each(|ack| self.write(wire, false, &ack.bytes()));
        if is_broken {
            self.try_again(place);
        }
    }
}

/// Takes over what has come whole. Answers what to acknowledge, and whether the link is of no use.
fn receive(process: &mut Process, clock: u64) -> (Vec<Ack>, bool) {
    let mut acks = Vec::new();
    let Process { core, timeline, following, .. } = process;
    let Some(Following { link: Some(link), name, followed, is_fed, promised, .. }) = following else {
        return (acks, true);
    };
    let buffer = std::mem::take(&mut link.buffer);
    let mut rest = buffer.as_slice();
    loop {
        let (heard, used) = match link.inflow.hear(rest) {
            Ok(None) => break,
            Ok(Some(heard)) => heard,
            Err(error) => {
                assert!(rest.is_empty(), "a flow that nobody changed is broken: {error}");
                return (acks, true);
            }
        };
        let now = timeline.now(clock);
        if let Told::Hello(hello) = heard.told {
            if hello.run_id != *name {
                return (acks, true);
            }
            link.hello = Some(hello);
            followed.begin(hello.run_id);
            *is_fed = true;
            if !hello.resumes {
                link.copied = core.store.owned_slots().collect();
                followed.put(0, None);
                each_slot(&mut core.store, &link.copied, Store::begin_copy_of_slot);
            }
        } else {
            match heard.told {
                Told::Changes { records, clears } => {
                    if clears {
                        let all: Vec<u16> = core.store.owned_slots().collect();
                        each_slot(&mut core.store, &all, |store, slot| {
                            store.flush_slot(slot);
                        });
                    }
                    put(&mut core.store, records, now);
                }
                Told::Copy(records) => put(&mut core.store, records, now),
                Told::Slots(slots) => {
                    link.copied = slots_of(slots).collect();
                    each_slot(&mut core.store, &link.copied, Store::begin_copy_of_slot);
                }
                Told::Copied => each_slot(&mut core.store, &link.copied, Store::end_copy_of_slot),
                Told::Beat { promised: micros } => *promised = clock + micros,
                Told::Hello(_) => {}
            }
            acks.push(Ack { number: heard.number, is_copied: link.inflow.is_copied() });
            followed.put(0, link.inflow.has());
        }
        timeline.follow(heard.time, clock, false);
        rest = rest.get(used..).unwrap_or_default();
    }
    link.buffer = rest.to_vec();
    (acks, false)
}

fn each_slot(store: &mut Store, slots: &[u16], act: impl Fn(&mut Store, u16)) {
    slots.iter().for_each(|slot| act(store, *slot));
}

fn put(store: &mut Store, records: &[u8], now: u64) {
    let put = import(records, store, now);
    assert!(put.is_ok(), "records that nobody changed are put: {put:?}");
}
