//! One client: reads, runs what it asks, writes the answers, in order.
//!
//! ```text
//!   read ──> batch (parse, locate, fetch) ──> run: own keys inline, others into one parcel for each core
//!    ^                                          │
//!    │                                          ├─ barrier (several cores, clock): first collect, then run it
//!    │                                          v
//!    └──────── write <── gate <── assemble <── collect
//! ```
//!
//! A connection coordinates; cores decide. It holds no borrow of the engine across an await.

mod awaited;
mod flow;
mod modes;
mod reading;
mod writing;

use self::awaited::Awaited;
use self::flow::Flow;
use self::reading::Input;
use crate::audit;
use crate::batch::{BATCH_COMMANDS_MAX, Batch, Item, Stop};
use crate::clock::boot_micros;
use crate::gate::Tells;
use crate::monitor::Monitor;
use crate::outbox::{Marks, Outbox};
use crate::spread;
use crate::stream::Stream;
use crate::turn;
use crate::wire::Wire;
use crate::worker::{Room, Worker};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use tokio::time::Instant;
use tollgate_engine::all::BUSY;
use tollgate_engine::asker::with_asker;
use tollgate_engine::bounds::{OUTPUT_BYTES_MAX_UNAUTHENTICATED, OUTPUT_BYTES_PAUSE};
use tollgate_engine::call::Call;
use tollgate_engine::client_state::{ClientState, Replies};
use tollgate_engine::command::Flags;
use tollgate_engine::core::Core;
use tollgate_engine::dispatch::{Ready, Way};
use tollgate_engine::effect::Effect;
use tollgate_engine::parcel::{NewJob, Parcel, Task};
use tollgate_engine::plain::{Order, Plain, PlainCall, Row};
use tollgate_engine::registry::Entry;
use tollgate_engine::session::{Client, Session};
use tollgate_engine::shared::Standing;
use tollgate_engine::transaction::Transactions;
use tollgate_limits::Micros;
use tollgate_resp::{Args, Parser, Protocol, ProtocolError, Reply, RequestLimits};

/// A client that must authenticate has this long.
const AUTHENTICATION_TIME: Duration = Duration::from_secs(10);
/// After an error that ends the connection, the client's further bytes are read away for this long, so that the error
/// is not lost to a reset.
const LINGER_TIME: Duration = Duration::from_millis(500);
/// The same where the whole server stops.
const LINGER_TIME_STOPPING: Duration = Duration::from_millis(100);
/// So many at most: more than a client that sends too long a value is likely to have on its way.
const LINGER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The number of no core.
const NO_CORE: u16 = u16::MAX;

/// Where a client is.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its address.
    pub address: String,
    /// The address it reached.
    pub local_address: String,
}

/// One client's connection.
pub struct Connection<S> {
    worker: Rc<Worker>,
    wire: Rc<Wire<S>>,
    /// The session of commands.
    pub session: Session,
    parser: Parser,
    /// Bytes that were read and did not run yet: mostly none.
    held: Vec<u8>,
    partial_since: Option<Instant>,
    /// When the client came, or gave its rights up by RESET.
    unauthenticated_since: Instant,
    outbox: Outbox,
    /// What the replies in it tell of keys, for which they may have to wait until replicas know.
    tells: Tells,
    /// What it is shown of others, after MONITOR.
    monitor: Option<Monitor>,
    /// Whether the replies of the present batch are thrown away, by CLIENT REPLY.
    silent: bool,
    /// Whether that is for one command only.
    skipping: bool,
    /// What the present command is to be answered after.
    awaited: Option<Awaited>,
    /// What it asked to be told.
    flow: Option<Flow>,
    /// What keeps the process from running every command, as of the present batch.
    standing: Standing,
    /// Since when what was read last waits for a lease, in boot time.
    fenced_since: Option<u64>,
    ending: Option<Ending>,
}

/// How a connection ends once its replies are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// In order.
    Close,
    /// After an error that the client should get to read.
    Linger,
    /// At once, without a word.
    Cut,
}

impl<S: Stream> Connection<S> {
    /// A connection that was just accepted.
    pub fn new(worker: Rc<Worker>, stream: S, peer: Peer) -> Connection<S> {
        let now = worker.now();
        let client = Rc::new(Client {
            id: worker.hub.next_client_id(),
            address: peer.address,
            local_address: peer.local_address,
            descriptor: stream.descriptor(),
            since: now,
            core: u16::try_from(worker.index).unwrap_or(0),
            active: Cell::new(now),
            protocol: Cell::new(Protocol::Resp2),
            last_command: Cell::new("NULL"),
            name: RefCell::default(),
            lib_name: RefCell::default(),
            lib_version: RefCell::default(),
            input_bytes: Cell::new(0),
            output_bytes: Cell::new(0),
            commands: Cell::new(0),
            state: ClientState::default(),
        });
        worker.core.borrow_mut().clients.insert(client.id, client.clone());
        let authenticated = worker.hub.settings.password.is_none();
        let wire = Rc::new(Wire::new(stream, client.clone()));
        let session = Session::new(client, authenticated);
        let parser = Parser::new(request_limits(&worker, authenticated));
        Connection {
            worker,
            wire,
            session,
            parser,
            held: Vec::new(),
            partial_since: None,
            unauthenticated_since: Instant::now(),
            outbox: Outbox::default(),
            tells: Tells::Nothing,
            monitor: None,
            silent: false,
            skipping: false,
            awaited: None,
            flow: None,
            standing: Standing::default(),
            fenced_since: None,
            ending: None,
        }
    }

    /// Serves the client until it leaves or is ended.
    pub async fn run(mut self) {
        let mut batch = Batch::default();
        turn::start(&self.worker);
        self.worker.register(self.session.client.id).await;
        while self.ending.is_none() {
            let input = match self.waits_for_bytes_only() {
                true => std::future::poll_fn(|context| self.poll_input(context)).await,
                false => Box::pin(self.uncommon_input()).await,
            };
            match input {
                Input::Bytes(count) => self.note_input(count),
                Input::Stalled if Box::pin(self.write_rest()).await.is_ok() => continue,
                Input::Stalled | Input::End => break,
            }
            let buffer = std::mem::take(&mut self.held);
            let (large, rest) = self.process(&buffer, &mut batch).await;
            self.hold(buffer, rest);
            if self.worker.is_stopping() {
                self.ending.get_or_insert(Ending::Linger);
            }
            // What is much, is the last, or may be followed by what others do, leaves at once.
            let in_turn = !large && self.ending.is_none() && self.monitor.is_none();
            let sent = if in_turn { self.flush_in_turn() } else { self.flush().await };
            if sent.is_err() {
                break;
            }
            if !in_turn {
                self.worker.read_mail();
            }
            if large {
                // One client gets a bounded slice of the core's time before the others' turn.
                tokio::task::yield_now().await;
            }
        }
        let worker = self.worker.clone();
        self.end().await;
        worker.connection_ended();
    }

    async fn end(mut self) {
        self.worker.core.borrow_mut().clients.remove(&self.session.client.id);
        self.worker.unregister(self.session.client.id);
        self.session.transactions = Transactions::default();
        self.tell_queued();
        if let Some(flow) = self.flow.take() {
            return self.become_flow(flow);
        }
        if self.ending != Some(Ending::Linger) || self.wire.shut_down().await.is_err() {
            return;
        }
        let linger = if self.worker.is_stopping() { LINGER_TIME_STOPPING } else { LINGER_TIME };
        let _ = tokio::time::timeout(linger, async {
            let mut passed = 0;
            let mut buffer = self.worker.take_buffer();
            while passed < LINGER_BYTES_MAX {
                buffer.clear();
                match std::future::poll_fn(|context| self.wire.poll_read(context, &mut buffer)).await {
                    Ok(count) if count > 0 => passed += count,
                    _ => break,
                }
            }
        })
        .await;
    }

    /// Runs everything that is whole in the buffer. Answers whether that was much, and where what is left begins.
    async fn process(&mut self, buffer: &[u8], batch: &mut Batch) -> (bool, usize) {
        let (mut start, mut commands) = (0, 0);
        // One reading says what may run and when it is; after a wait there is another.
        let (now, standing) = self.worker.read_clock();
        let mut now = Some(now);
        self.standing = standing;
        self.fenced_since = None;
        let stop = loop {
            let (commands_max, makes_rows) = (self.commands_max(), self.makes_rows());
            let dispatcher = &self.worker.dispatcher;
            let stop = batch.fill(&mut self.parser, dispatcher, buffer, &mut start, commands_max, makes_rows);
            commands += batch.commands;
            let client = &self.session.client;
            client.commands.set(client.commands.get() + u64::try_from(batch.commands).unwrap_or(0));
            if commands_max == 1 {
                Box::pin(self.wait_out(buffer, batch)).await;
                now = None;
            }
            if self.session.replies != Replies::On {
                Box::pin(self.begin_silence(batch)).await;
                now = None;
            }
            if self.session.transactions.open.is_some() {
                self.queue_batch(buffer, batch).await;
            } else if let Some(next) = self.run_batch(buffer, batch, now) {
                self.run_rest(buffer, batch, next).await;
            }
            if self.silent {
                self.end_silence();
            }
            self.end_if_killed();
            if self.ending.is_some() || stop != Stop::Full {
                break stop;
            }
            let (read, standing) = self.worker.read_clock();
            (now, self.standing) = (Some(read), standing);
        };
        match stop {
            Stop::Broken(error) if self.ending.is_none() => self.break_off(&error),
            Stop::Incomplete(Some(name)) => self.refuse_early(name.of(buffer)),
            _ => {}
        }
        if commands > 0 {
            // The time of a partial command is that of the one that is partial now.
            self.partial_since = None;
        }
        (commands >= BATCH_COMMANDS_MAX, start)
    }

    /// A command that will be refused whatever its arguments are is refused by its name, and the rest of it is thrown
    /// away as it comes.
    fn refuse_early(&mut self, name: &[u8]) {
        if let Some(text) =
            self.worker.dispatcher.refuse_early(name, &self.session, self.worker.hub.settings.shared.standing())
        {
            self.parser.discard();
            self.worker.core.borrow().counters.replied_error(text.as_bytes());
            Reply::new(&mut self.outbox.bytes, self.session.protocol).error(text);
        }
    }

    fn break_off(&mut self, error: &ProtocolError) {
        self.worker.core.borrow().counters.protocol_errors.add(1);
        if *error == ProtocolError::Http {
            tracing::warn!(client = %self.session.client.address, "an http request came to the resp port");
            self.ending = Some(Ending::Cut);
            return;
        }
        if self.session.replies != Replies::Off {
            Reply::new(&mut self.outbox.bytes, self.session.protocol).error(&format!("ERR {error}"));
        }
        self.ending = Some(Ending::Linger);
    }

    /// Runs a batch as far as that goes without waiting, at the time `now` if that was just read. `None` if that is
    /// all of it, else where to go on from.
    #[inline]
    fn run_batch(&mut self, buffer: &[u8], batch: &Batch, now: Option<Micros>) -> Option<usize> {
        if self.worker.hub.monitors.are_there() {
            self.show(buffer, batch);
        }
        if batch.items.is_empty() || !self.goes_on() {
            return None;
        }
        let next = self.run_until_barrier(buffer, batch, 0, now);
        let is_all = next == batch.items.len() && !self.outbox.is_waiting();
        (!is_all || self.outbox.bytes.len() > self.output_pause()).then_some(next)
    }

    async fn run_rest(&mut self, buffer: &[u8], batch: &Batch, mut next: usize) {
        loop {
            if self.outbox.is_waiting() {
                self.collect().await;
            }
            // The next item may also be an ordinary one that waits until the output is written.
            if self.ending.is_none()
                && let Some(item) = batch.items.get(next)
                && is_barrier(item)
            {
                // Its answer can be as large as the output may be: what came before it leaves first.
                if self.outbox.bytes.len() > self.output_pause() / 8 && self.flush().await.is_err() {
                    self.ending = Some(Ending::Cut);
                    break;
                }
                if let Some(ready) = item.ready() {
                    self.run_barrier_still(ready, batch.args(buffer, item)).await;
                }
                next += 1;
            }
            if self.outbox.bytes.len() > self.output_pause() && self.flush().await.is_err() {
                self.ending = Some(Ending::Cut);
            }
            if next >= batch.items.len() || !self.goes_on() {
                break;
            }
            next = self.run_until_barrier(buffer, batch, next, None);
        }
    }

    /// Runs what waited for the commands before it. Meanwhile the node may have come to serve other slots, or none.
    async fn run_barrier_still(&mut self, ready: Ready, args: Args<'_>) {
        let standing = self.worker.standing();
        let may_run = self.worker.core.borrow_mut().may_run(&ready, &self.session, standing, || args);
        match may_run {
            Ok(()) => self.run_barrier(ready, args, Room::Take).await,
            Err(text) => {
                self.worker.core.borrow().counters.rejected(ready.entry.index, &text);
                self.reply().error(&text);
            }
        }
    }

    fn output_pause(&self) -> usize {
        if self.session.authenticated { OUTPUT_BYTES_PAUSE } else { OUTPUT_BYTES_MAX_UNAUTHENTICATED }
    }

    /// Runs commands from `next` on, without an await, up to one that must wait for those before it. Answers which.
    fn run_until_barrier(&mut self, buffer: &[u8], batch: &Batch, mut next: usize, now: Option<Micros>) -> usize {
        let worker = self.worker.clone();
        let now = now.unwrap_or_else(|| worker.now());
        let mut core = worker.core.borrow_mut();
        // Where fast commands are timed too, no core is the one whose commands run without a look at the clock.
        let own = if core.timing.times_fast() { NO_CORE } else { core.index };
        core.refresh_view();
        if next == 0 {
            core.counters.batches.add(1);
            core.top.begin_batch(batch.commands, now);
            self.session.client.active.set(now);
            self.prefetch(&core, batch);
        }
        while let Some(item) = batch.items.get(next) {
            if self.ending.is_some() || self.outbox.bytes.len() > OUTPUT_BYTES_PAUSE {
                break;
            }
            let Some(ready) = item.ready() else {
                match batch.row(buffer, item, now) {
                    Some(row) => {
                        self.tells = Tells::Changes;
                        self.run_row(&mut core, row);
                    }
                    None => self.answer_error(&core, batch.refusal(item)),
                }
                next += 1;
                continue;
            };
            if let Err(text) = core.may_run(&ready, &self.session, self.standing, || batch.args(buffer, item)) {
                core.counters.rejected(ready.entry.index, &text);
                Reply::new(&mut self.outbox.bytes, self.session.protocol).error(&text);
                next += 1;
                continue;
            }
            if let Way::To(_) = ready.way {
                self.tells = self.tells.max(Tells::of(ready.entry.command));
            }
            match ready.way {
                Way::To(to) if to == own => {
                    let call = Call { args: batch.args(buffer, item), at: ready.at, now };
                    let mut reply = Reply::new(&mut self.outbox.bytes, self.session.protocol);
                    core.run_key(ready.entry, &call, &mut reply);
                }
                Way::To(to) if to == core.index => {
                    let call = Call { args: batch.args(buffer, item), at: ready.at, now };
                    let mut reply = Reply::new(&mut self.outbox.bytes, self.session.protocol);
                    core.run_key_timed(ready.entry, &call, &mut reply);
                }
                Way::To(to) => self.put_aside(usize::from(to), &ready, batch.args(buffer, item)),
                Way::Here => {
                    let call = Call { args: batch.args(buffer, item), at: ready.at, now };
                    self.run_session(&mut core, ready.entry, &call);
                }
                Way::Process
                | Way::PerKey
                | Way::Every
                | Way::Cursor
                | Way::AllOrNothing
                | Way::Steps
                | Way::Transaction => break,
            }
            next += 1;
        }
        if let Some(ready) = next.checked_sub(1).and_then(|last| batch.items.get(last)).and_then(Item::ready) {
            self.session.client.last_command.set(ready.entry.command.name);
        }
        core.sign_slow(&self.session.client);
        core.publish_changes();
        next
    }

    /// Puts a command into the parcel for the core of its key.
    fn put_aside(&mut self, to: usize, ready: &Ready, args: Args<'_>) {
        let protocol = self.session.protocol;
        let job = NewJob { entry: ready.entry, task: Task::Run, at: ready.at, protocol, cargo: None };
        let position = self.worker.with_outgoing(to, |parcel| parcel.push(job, args.iter()));
        self.outbox.mark(to, position.unwrap_or(usize::MAX));
    }

    /// Runs a row of plain calls, and puts those of other cores into their parcels.
    fn run_row(&mut self, core: &mut Core, row: Row<'_>) {
        let protocol = self.session.protocol;
        self.session.client.last_command.set(row.plain.entry().command.name);
        let (bytes, marks) = self.outbox.split();
        let mut order = Sorting { worker: &self.worker, plain: row.plain, protocol, marks };
        core.run_plain(row, protocol, bytes, &mut order);
    }

    #[cold]
    fn answer_error(&mut self, core: &Core, text: &str) {
        core.counters.replied_error(text.as_bytes());
        Reply::new(&mut self.outbox.bytes, self.session.protocol).error(text);
    }

    #[inline]
    fn prefetch(&self, core: &Core, batch: &Batch) {
        if batch.items.len() == 1 {
            return;
        }
        for item in &batch.items {
            if let Some(ready) = item.ready()
                && ready.way == Way::To(core.index)
            {
                core.store.sight(ready.at);
            }
        }
    }

    /// The core that serves this connection.
    pub(crate) fn worker(&self) -> &Rc<Worker> {
        &self.worker
    }

    /// What keeps the process from running every command, as of the present batch.
    pub(crate) fn standing(&self) -> Standing {
        self.standing
    }

    /// Whether nothing more is to be run.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending.is_some() || self.worker.is_halted()
    }

    /// What is answered next tells this.
    pub(crate) fn tell(&mut self, tells: Tells) {
        self.tells = self.tells.max(tells);
    }

    /// What will be written. No reply of another core may be outstanding.
    pub(crate) fn out(&mut self) -> &mut Vec<u8> {
        &mut self.outbox.bytes
    }

    /// Writes the next reply.
    pub(crate) fn reply(&mut self) -> Reply<'_> {
        Reply::new(&mut self.outbox.bytes, self.session.protocol)
    }

    /// Answers with an error.
    pub(crate) fn answer_text(&mut self, text: &str) {
        let worker = self.worker.clone();
        self.answer_error(&worker.core.borrow(), text);
    }

    /// Runs a command that needs no key, and does what it asks for besides its reply.
    pub(crate) fn run_session(&mut self, core: &mut Core, entry: &Entry, call: &Call<'_>) {
        self.session.client.last_command.set(entry.command.name);
        let start = self.outbox.bytes.len();
        let mut reply = Reply::new(&mut self.outbox.bytes, self.session.protocol);
        core.run_session(entry, &mut self.session, call, &mut reply);
        if entry.command.flags.has(Flags::ADMIN) {
            let reply = self.outbox.bytes.get(start..).unwrap_or_default();
            audit::note(&self.worker, entry.command, call.args, reply, &self.session.client);
        }
        core.sign_slow(&self.session.client);
        self.carry_out(core);
    }

    /// Does what a command asked for besides its reply.
    fn carry_out(&mut self, core: &mut Core) {
        for effect in core.effects.drain(..) {
            match effect {
                Effect::Close => self.ending = Some(Ending::Close),
                Effect::SessionChanged => {
                    self.parser.set_limits(request_limits(&self.worker, self.session.authenticated));
                    self.unauthenticated_since = Instant::now();
                    self.monitor.take_if(|_| !self.session.client.state.monitors.get());
                }
                Effect::SetClock(micros) => self.worker.hub.clock.set(micros),
                Effect::Shutdown { saves } => self.worker.hub.shut_down(saves != Some(false)),
                Effect::Flow { core, port, told, node } => {
                    self.flow = Some(Flow { core: usize::from(core), port, told, node });
                    self.ending = Some(Ending::Close);
                }
                Effect::AwaitReplicas { count, timeout } => {
                    self.awaited = Some(Awaited::Replicas { count, timeout });
                }
                Effect::AwaitSnapshot(number) => self.awaited = Some(Awaited::Snapshot(number)),
                Effect::Cluster(wish) => self.awaited = Some(Awaited::Wish(wish)),
                Effect::Pause { milliseconds, all } => self.worker.hub.pause.begin(boot_micros(), milliseconds, all),
                Effect::Unpause => self.worker.hub.pause.end(),
                Effect::Monitor => self.begin_monitor(),
                Effect::WakeClient(_) | Effect::Sleep(_) => {
                    self.worker.perform(&effect);
                }
            }
        }
    }

    /// Sends the parcels of the batch, waits for all, and puts their replies in order.
    async fn collect(&mut self) {
        let worker = self.worker.clone();
        let mut parcels = worker.take_outgoing();
        let mut refusal = Vec::new();
        if !worker.wait_for_room(parcels.iter().map(|(core, _)| *core)).await {
            // Whatever was full before the wait, what counts is which lanes have room now.
            parcels.retain(|(core, parcel)| self.keep_or_refuse(*core, parcel));
            Reply::new(&mut refusal, self.session.protocol).error(BUSY);
        }
        let ticket = worker.new_ticket(parcels.len());
        for (core, parcel) in parcels.drain(..) {
            worker.send(core, parcel, ticket, Room::Take);
            worker.wake(core);
        }
        worker.give_list(parcels);
        let mut answered = worker.collect(ticket).await;
        self.outbox.assemble(&answered, &refusal);
        if answered.iter().any(|(_, parcel)| parcel.is_cut()) {
            self.cut_for_output();
        }
        for (core, mut parcel) in answered.drain(..) {
            worker.keep_slow(&mut parcel, &self.session.client);
            worker.free_room(core);
            worker.give_parcel(parcel);
        }
        worker.give_list(answered);
    }

    /// Ends the client, whose output passed its bound.
    pub(crate) fn cut_for_output(&mut self) {
        self.worker.core.borrow().counters.output_limit_disconnections.add(1);
        self.ending = Some(Ending::Cut);
    }

    /// A message is taken or refused whole: without room, all its commands are answered with BUSY.
    fn keep_or_refuse(&self, core: usize, parcel: &Parcel) -> bool {
        let has_room = self.worker.has_room(core);
        if !has_room {
            let refused = u64::try_from(parcel.len()).unwrap_or(0);
            self.worker.core.borrow().counters.busy_replies.add(refused);
        }
        has_room
    }

    /// Runs a command that concerns several cores or the whole process. Nothing of this connection is outstanding.
    /// `room`: whether it takes room in the lanes itself, or the caller holds it.
    pub(crate) async fn run_barrier(&mut self, ready: Ready, args: Args<'_>, room: Room) {
        self.session.client.last_command.set(ready.entry.command.name);
        let protocol = self.session.protocol;
        if ready.way == Way::Transaction {
            return self.control(ready.entry, args).await;
        }
        if ready.way != Way::Process {
            self.tells = self.tells.max(Tells::of(ready.entry.command));
        }
        let (begun, start) = (self.worker.begin(&ready), self.outbox.bytes.len());
        if ready.way == Way::Process {
            let worker = self.worker.clone();
            let call = Call { args, at: ready.at, now: worker.now() };
            self.run_session(&mut worker.core.borrow_mut(), ready.entry, &call);
            if let Some(awaited) = self.awaited.take() {
                Box::pin(self.answer_after(awaited)).await;
            }
        }
        let mut reply = Reply::new(&mut self.outbox.bytes, protocol);
        match ready.way {
            Way::PerKey => spread::per_key(&self.worker, &ready, args, &mut reply).await,
            Way::Every if ready.entry.command.flags.has(Flags::TOLD_WHO) => {
                let told = with_asker(args, self.session.client.id);
                spread::every(&self.worker, &ready, told.args(), &mut reply).await;
            }
            Way::Every => spread::every(&self.worker, &ready, args, &mut reply).await,
            Way::Cursor => spread::walk(&self.worker, &ready, args, room, &mut reply).await,
            Way::AllOrNothing => spread::all_or_nothing(&self.worker, &ready, args, room, &mut reply).await,
            Way::Steps => spread::in_steps(&self.worker, &ready, args, room, &mut reply).await,
            Way::Process | Way::Transaction | Way::To(_) | Way::Here => {}
        }
        let reply = self.outbox.bytes.get(start..).unwrap_or_default();
        self.worker.end(&ready, args, begun, reply, &self.session.client);
        if ready.way == Way::Every {
            audit::note(&self.worker, ready.entry.command, args, reply, &self.session.client);
        }
    }
}

/// Puts the calls of a row that lie on other cores into their parcels.
struct Sorting<'a> {
    worker: &'a Worker,
    plain: &'a Plain,
    protocol: Protocol,
    marks: Marks<'a>,
}

impl Order for Sorting<'_> {
    #[inline]
    fn elsewhere(&mut self, call: &PlainCall, key: &[u8], end: usize) {
        let to = usize::from(call.core);
        let add = |parcel: &mut Parcel| parcel.push_plain(self.plain, call, key, self.protocol);
        let position = self.worker.with_outgoing(to, add);
        self.marks.add(end, to, position.unwrap_or(usize::MAX));
    }

    #[inline]
    fn answered(&mut self, _end: usize) {}
}

/// Whether a command must wait for those before it.
fn is_barrier(item: &Item) -> bool {
    item.ready().is_some_and(|ready| !matches!(ready.way, Way::To(_) | Way::Here))
}

fn request_limits(worker: &Worker, authenticated: bool) -> RequestLimits {
    if !authenticated {
        return RequestLimits::UNAUTHENTICATED;
    }
    RequestLimits { bulk_bytes_max: worker.hub.config.bulk_bytes_max, ..RequestLimits::AUTHENTICATED }
}
