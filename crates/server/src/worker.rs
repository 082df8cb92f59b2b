//! One core's thread: its engine, its connections, its mail.
//!
//! Everything here belongs to one thread; nothing is locked. Connections are tasks that borrow the engine for as long
//! as one batch takes, never across an await. Other cores reach this one through lanes only.

use crate::flows::Flows;
use crate::gate::Gate;
use crate::hub::{Fresh, Hub};
use crate::tickets::{Parcels, Tickets};
use crate::turn::Turn;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;
use tokio::sync::Notify;
use tollgate_engine::core::Core;
use tollgate_engine::dispatch::Dispatcher;
use tollgate_engine::effect::Effect;
use tollgate_engine::parcel::Parcel;
use tollgate_engine::shared::Standing;
use tollgate_engine::tunables::Tunable;
use tollgate_limits::Micros;

/// How long a connection waits for room in a lane before it answers BUSY.
pub const LANE_WAIT: Duration = Duration::from_millis(10);
/// Messages that a core takes from another in one go, before its own connections have their turn.
const MESSAGES_PER_TURN: usize = 64;
/// Emptied parcels and buffers that are kept for the next use.
const POOL_MAX: usize = 64;
/// Bytes that a read asks for: some hundred pipelined calls.
pub const READ_BYTES: usize = 16 * 1024;

/// One core.
pub struct Worker {
    /// The engine. Borrowed for a batch, never across an await.
    pub core: RefCell<Core>,
    /// What all cores share.
    pub hub: Arc<Hub>,
    /// This core's number.
    pub index: usize,
    /// Checks and routes commands.
    pub dispatcher: Dispatcher,
    /// What replies leave through.
    pub gate: Gate,
    /// What replicas are told.
    pub flows: Flows,
    /// Its connections that have replies.
    pub turn: Turn,
    /// Bytes that the open transactions of its connections hold.
    pub queued_bytes: Cell<usize>,
    stopping: Cell<bool>,
    /// Whether nothing more is run: what is held is written for the last time.
    halted: Cell<bool>,
    /// By client: what wakes its connection when the server stops or the client is killed.
    connections: RefCell<HashMap<u64, Waker>>,
    outgoing: RefCell<Vec<Option<Box<Parcel>>>>,
    /// Messages that other cores have not answered yet, or whose room is held for an undo.
    outstanding: Vec<Cell<usize>>,
    room: Notify,
    tickets: RefCell<Tickets>,
    #[expect(clippy::vec_box, reason = "boxes travel between cores, and these are boxes at rest")]
    parcels: RefCell<Vec<Box<Parcel>>>,
    buffers: RefCell<Vec<Vec<u8>>>,
}

impl Worker {
    /// A core that serves nobody yet.
    pub fn new(core: Core, hub: Arc<Hub>) -> Worker {
        let cores = hub.counters.len();
        let dispatcher = Dispatcher::new(core.store.hasher(), core.cores).in_cluster(hub.settings.cluster);
        Worker {
            index: usize::from(core.index),
            core: RefCell::new(core),
            dispatcher,
            gate: Gate::new(hub.group.is_some()),
            flows: Flows::default(),
            turn: Turn::default(),
            queued_bytes: Cell::new(0),
            stopping: Cell::new(false),
            halted: Cell::new(false),
            connections: RefCell::default(),
            outgoing: RefCell::new((0..cores).map(|_| None).collect()),
            outstanding: (0..cores).map(|_| Cell::new(0)).collect(),
            room: Notify::new(),
            tickets: RefCell::default(),
            parcels: RefCell::default(),
            buffers: RefCell::default(),
            hub,
        }
    }

    /// The time, read anew.
    #[inline]
    pub fn now(&self) -> Micros {
        self.hub.clock.now()
    }

    /// What keeps this process from running every command now.
    pub fn standing(&self) -> Standing {
        self.read_clock().1
    }

    /// The time, and what keeps this process from running every command then, by one reading of the clock.
    #[inline]
    pub fn read_clock(&self) -> (Micros, Standing) {
        let standing = self.hub.settings.shared.standing();
        if !self.gate.is_leased() {
            return (self.now(), standing);
        }
        let (now, boot) = self.hub.clock.now_and_boot();
        (now, standing.with(self.hub.tenure.standing_at(boot)))
    }

    /// How long a client may be silent, as the settings say now. `None`: for ever.
    pub fn idle_timeout(&self) -> Option<Duration> {
        let seconds = self.hub.settings.tunables.count(Tunable::Timeout);
        (seconds > 0).then(|| Duration::from_secs(seconds))
    }

    /// Whether connections must end after what they run now.
    #[inline]
    pub fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    /// Whether nothing more may be run.
    #[inline]
    pub fn is_halted(&self) -> bool {
        self.halted.get()
    }

    /// Has nothing more run, whoever still waits for its turn.
    pub fn halt(&self) {
        self.halted.set(true);
    }

    /// Tells all connections to end after what they run now.
    pub fn stop_connections(&self) {
        self.stopping.set(true);
        self.connections.borrow().values().for_each(Waker::wake_by_ref);
    }

    /// Whether connections are still open.
    pub fn has_connections(&self) -> bool {
        !self.connections.borrow().is_empty()
    }

    /// Remembers how the calling task is woken: a task's waker stays the same for its life.
    pub async fn register(&self, client: u64) {
        std::future::poll_fn(|context| {
            self.connections.borrow_mut().insert(client, context.waker().clone());
            Poll::Ready(())
        })
        .await;
    }

    /// Wakes the connection of a client, if it is one of this core.
    pub fn wake_client(&self, client: u64) {
        match self.connections.borrow().get(&client) {
            Some(waker) => waker.wake_by_ref(),
            None => self.flows.wake(client),
        }
    }

    /// Forgets a connection that has ended.
    pub fn unregister(&self, client: u64) {
        self.connections.borrow_mut().remove(&client);
    }

    /// An empty buffer with room for a read.
    pub fn take_buffer(&self) -> Vec<u8> {
        self.buffers.borrow_mut().pop().unwrap_or_else(|| Vec::with_capacity(READ_BYTES))
    }

    /// Gives a buffer back. One that grew large is not kept.
    pub fn give_buffer(&self, mut buffer: Vec<u8>) {
        let mut buffers = self.buffers.borrow_mut();
        if buffer.capacity() > 0 && buffer.capacity() <= 4 * READ_BYTES && buffers.len() < POOL_MAX {
            buffer.clear();
            buffers.push(buffer);
        }
    }

    /// An empty parcel.
    pub fn take_parcel(&self) -> Box<Parcel> {
        let mut parcel = self.parcels.borrow_mut().pop().unwrap_or_default();
        parcel.origin = u16::try_from(self.index).unwrap_or(0);
        parcel
    }

    /// Gives a parcel back for another use.
    pub fn give_parcel(&self, mut parcel: Box<Parcel>) {
        let mut parcels = self.parcels.borrow_mut();
        if parcels.len() < POOL_MAX {
            parcel.clear();
            parcels.push(parcel);
        }
    }

    /// Lets `fill` add to the parcel that the present batch has for core `to`.
    pub fn with_outgoing<R>(&self, to: usize, fill: impl FnOnce(&mut Parcel) -> R) -> Option<R> {
        let mut outgoing = self.outgoing.borrow_mut();
        let place = outgoing.get_mut(to)?;
        let parcel = place.get_or_insert_with(|| self.take_parcel());
        Some(fill(parcel))
    }

    /// Takes all parcels that the present batch has filled.
    pub fn take_outgoing(&self) -> Parcels {
        let mut list = self.tickets.borrow_mut().take_list();
        let mut outgoing = self.outgoing.borrow_mut();
        list.extend(outgoing.iter_mut().enumerate().filter_map(|(core, place)| Some((core, place.take()?))));
        list
    }

    /// Whether a message may go to `core` now.
    pub fn has_room(&self, core: usize) -> bool {
        self.outstanding.get(core).is_some_and(|outstanding| outstanding.get() < self.hub.mesh.capacity())
    }

    /// Waits until messages may go to all of `cores`, 10 ms at most. Answers whether they may.
    pub async fn wait_for_room(&self, cores: impl IntoIterator<Item = usize> + Clone) -> bool {
        let all_have = || cores.clone().into_iter().all(|core| self.has_room(core));
        if all_have() {
            return true;
        }
        let wait = async {
            while !all_have() {
                self.room.notified().await;
            }
        };
        let _ = tokio::time::timeout(LANE_WAIT, wait).await;
        all_have()
    }

    /// A ticket for `messages` messages to other cores.
    pub fn new_ticket(&self, messages: usize) -> u64 {
        self.tickets.borrow_mut().issue(messages)
    }

    /// Sends a parcel under a ticket. The caller has seen that there is room ([`Worker::has_room`]) or holds room.
    pub fn send(&self, to: usize, mut parcel: Box<Parcel>, ticket: u64, room: Room) {
        let counters = &self.hub.counters;
        if let Some(own) = counters.get(self.index) {
            own.messages_sent.add(1);
            own.hops.add(u64::try_from(parcel.len()).unwrap_or(0));
        }
        parcel.ticket = ticket;
        if room == Room::Take {
            self.hold_room(to);
        }
        if let Err(refused) = self.hub.mesh.send(self.index, to, parcel) {
            // Cannot be: outstanding never passes the lane's capacity. The ticket is still honoured.
            tracing::error!(core = to, "a lane was full although there was room");
            self.deliver(to, refused.0);
        }
    }

    /// Holds room for one message to `core`. The caller has seen that there is some ([`Worker::has_room`]).
    pub fn hold_room(&self, core: usize) {
        if let Some(outstanding) = self.outstanding.get(core) {
            outstanding.set(outstanding.get() + 1);
        }
    }

    /// Frees the room that was held after a message came back.
    pub fn free_room(&self, core: usize) {
        if let Some(outstanding) = self.outstanding.get(core) {
            outstanding.set(outstanding.get().saturating_sub(1));
        }
        self.room.notify_waiters();
    }

    /// Has `core` woken if it sleeps, once for all that this core does until it sleeps or writes.
    pub fn wake(&self, core: usize) {
        self.hub.mesh.wake_later(self.index, core);
    }

    /// Waits for all messages of a ticket. Room at the other cores stays held; the caller frees it.
    pub async fn collect(&self, ticket: u64) -> Parcels {
        std::future::poll_fn(|context| self.tickets.borrow_mut().poll(ticket, context)).await
    }

    /// Gives a list of parcels back for another use.
    pub fn give_list(&self, list: Parcels) {
        self.tickets.borrow_mut().give_list(list);
    }

    fn deliver(&self, from: usize, parcel: Box<Parcel>) {
        let is_awaited = self.tickets.borrow_mut().deliver(from, parcel);
        if !is_awaited {
            // Its connection is gone: only at the end of the process.
            self.free_room(from);
        }
    }

    /// Runs what other cores have put down for this one. Answers whether more may lie there.
    pub fn read_mail(self: &Rc<Worker>) -> bool {
        if !self.hub.mesh.take_mark(self.index) {
            return false;
        }
        let mut more = false;
        for from in (0..self.hub.mesh.cores()).filter(|from| *from != self.index) {
            let mut taken = 0;
            while let Some(parcel) = self.hub.mesh.take_reply(from, self.index) {
                self.deliver(from, parcel);
            }
            while taken < MESSAGES_PER_TURN
                && let Some(mut parcel) = self.hub.mesh.take_request(from, self.index)
            {
                taken += 1;
                let now = self.now();
                let mut core = self.core.borrow_mut();
                core.run_parcel(&mut parcel, now);
                self.carry_out(&mut core);
                drop(core);
                if let Some(parcel) = self.gate.lets_out_parcel(self, from, parcel) {
                    self.put_answer(from, parcel);
                }
            }
            if taken > 0 {
                self.wake(from);
            }
            more |= taken == MESSAGES_PER_TURN;
        }
        while let Some(fresh) = self.hub.take_over(self.index) {
            self.welcome(fresh);
        }
        if more {
            self.hub.mesh.mark(self.index);
        }
        more
    }

    fn put_answer(&self, to: usize, parcel: Box<Parcel>) {
        if self.hub.mesh.answer(self.index, to, parcel).is_err() {
            tracing::error!(core = to, "a reply lane was full although it holds all that may be outstanding");
        }
    }

    /// Answers a parcel of another core, some time after it was run.
    pub fn answer(&self, to: usize, parcel: Box<Parcel>) {
        self.put_answer(to, parcel);
        self.wake(to);
    }

    /// Does what commands asked of this core, whoever's they are; what they asked of a connection is its own affair.
    pub fn carry_out(&self, core: &mut Core) {
        core.effects.retain(|effect| !self.perform(effect));
    }

    /// Does what was asked of this core. Answers whether it was.
    pub fn perform(&self, effect: &Effect) -> bool {
        match effect {
            Effect::WakeClient(client) => self.wake_client(*client),
            Effect::Sleep(micros) => std::thread::sleep(Duration::from_micros(*micros)),
            _ => return false,
        }
        true
    }

    /// A connection that was placed here has ended.
    pub fn connection_ended(&self) {
        self.hub.remove_load(self.index);
        let core = self.core.borrow();
        core.counters.connections.set(core.counters.connections.get().saturating_sub(1));
    }

    /// Serves a connection that was placed here.
    pub fn welcome(self: &Rc<Worker>, fresh: Fresh) {
        crate::accept::spawn(self.clone(), fresh);
    }
}

/// Whether a message takes room in the account of its lane, or goes in room that is held for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// Takes room.
    Take,
    /// Room was held since an earlier message came back.
    Held,
}
