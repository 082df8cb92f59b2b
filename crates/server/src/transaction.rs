//! Transactions of a connection: commands that are kept until EXEC, and how they are run.
//!
//! ```text
//!   EXEC ──> room at all cores it needs, or BUSY and nothing has run
//!        ──> for each stretch between commands that take several steps:
//!              the core of the watched keys first, if it is another: it runs its part or says that a key changed
//!              this core's part, uninterrupted
//!              one parcel for each other core, uninterrupted there
//!              replies in order
//! ```
//!
//! A command for several cores is a part on each, within that core's step. Only what needs more than one step on a core
//! (RENAME, COPY and RL.ALL over several cores) stands between two stretches; while keys are watched EXEC refuses it,
//! since what is watched could be written between two steps.

use crate::audit;
use crate::batch::{Batch, Item};
use crate::connection::Connection;
use crate::gate::Tells;
use crate::stream::Stream;
use crate::worker::{Room, Worker};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use tollgate_engine::all::BUSY;
use tollgate_engine::asker::with_asker;
use tollgate_engine::bounds::OUTPUT_BYTES_MAX;
use tollgate_engine::call::Call;
use tollgate_engine::command::{Flags, Handler};
use tollgate_engine::core::Core;
use tollgate_engine::dispatch::{Ready, Way, may_run};
use tollgate_engine::parcel::{Cargo, NewJob, Parcel, Task};
use tollgate_engine::protocol_behind_hello;
use tollgate_engine::registry::Entry;
use tollgate_engine::route::owner;
use tollgate_engine::transaction::{self, Control, Queued, Transaction, Transactions};
use tollgate_resp::{Args, OwnedArgs, Protocol, Reply};
use tollgate_store::{Located, Watch, slot_of};

/// The most keys that a connection watches.
const WATCHED_MAX: usize = 1024;

/// Where the reply of one command of a stretch comes from.
enum Piece {
    /// Made on this core.
    Own(Vec<u8>),
    /// Refused by its arguments, with this text.
    Refused(String),
    /// Made on another core.
    Other { core: usize, position: usize },
    /// Made of parts: this core's arguments and what it wrote, and where the others' lie; and the protocol in which the
    /// whole is written.
    Merged { own_arguments: Option<Vec<usize>>, own: Vec<u8>, others: Vec<(usize, usize)>, protocol: Protocol },
}

impl Piece {
    /// Drops what this core wrote if it is too much; answers how many bytes are left.
    fn shorten(&mut self, is_too_much: bool) -> usize {
        let (Piece::Own(bytes) | Piece::Merged { own: bytes, .. }) = self else { return 0 };
        if is_too_much {
            *bytes = Vec::new();
        }
        bytes.len()
    }
}

/// What a stretch sends to other cores.
#[derive(Default)]
struct Outgoing {
    parcels: BTreeMap<usize, Box<Parcel>>,
}

impl Outgoing {
    fn push<'a>(
        &mut self,
        worker: &Worker,
        core: usize,
        job: NewJob,
        arguments: impl Iterator<Item = &'a [u8]>,
    ) -> usize {
        self.parcels.entry(core).or_insert_with(|| worker.take_parcel()).push(job, arguments)
    }
}

impl<S: Stream> Connection<S> {
    /// Keeps the commands of a batch for EXEC, and runs those that are about the transaction.
    pub(crate) async fn queue_batch(&mut self, buffer: &[u8], batch: &Batch) {
        for item in &batch.items {
            if self.is_ending() {
                break;
            }
            match self.queue(batch, buffer, item) {
                // RESET and QUIT, which end a batch too, are run like any other command.
                Some(ready) if ready.way == Way::Transaction => {
                    self.control(ready.entry, batch.args(buffer, item)).await;
                    self.show_one(ready, batch.args(buffer, item));
                }
                Some(ready) => {
                    self.show_one(ready, batch.args(buffer, item));
                    self.run_at_once(ready, batch.args(buffer, item));
                    self.tell_queued();
                }
                None => {}
            }
        }
    }

    /// Keeps one command, or answers why not. What is not to be kept but to be run is handed back.
    fn queue(&mut self, batch: &Batch, buffer: &[u8], item: &Item) -> Option<Ready> {
        let Some(ready) = item.ready() else {
            self.refuse(batch.refusal(item));
            return None;
        };
        let may_run = self
            .worker()
            .core
            .borrow_mut()
            .may_run(&ready, &self.session, self.standing(), || batch.args(buffer, item));
        if let Err(text) = may_run {
            self.refuse(&text);
            return None;
        }
        let is_run_at_once = match ready.entry.command.handler {
            Handler::Transaction(control) => control != Control::Unwatch,
            _ => matches!(ready.entry.command.name, "reset" | "quit"),
        };
        if is_run_at_once {
            return Some(ready);
        }
        if ready.entry.command.flags.has(Flags::NO_MULTI) {
            self.refuse(transaction::NOT_ALLOWED);
            return None;
        }
        if self.worker().queued_bytes.get() > transaction::CORE_BYTES_MAX {
            self.refuse(transaction::TOO_MUCH_OF_ALL);
            self.tell_queued();
            return None;
        }
        self.session.client.last_command.set(ready.entry.command.name);
        // In a transaction WAIT waits for nothing, and is a part like others.
        let way = if ready.entry.command.name == "wait" { Way::Here } else { ready.way };
        let ready = Ready { way, ..ready };
        let told_who = ready.entry.command.flags.has(Flags::TOLD_WHO);
        let client = self.session.client.id;
        let queued = match &mut self.session.transactions.open {
            Some(open) if told_who => open.queue(ready, with_asker(batch.args(buffer, item), client).args()),
            Some(open) => open.queue(ready, batch.args(buffer, item)),
            None => return Some(ready),
        };
        match queued {
            Ok(()) => self.reply().simple("QUEUED"),
            Err(text) => self.answer_text(text),
        }
        self.tell_queued();
        None
    }

    /// Lets others see how many commands wait for EXEC.
    pub(crate) fn tell_queued(&self) {
        let (open, state) = (self.session.transactions.open.as_ref(), &self.session.client.state);
        state.queued.set(open.map(Transaction::len));
        let bytes = open.map_or(0, Transaction::bytes);
        let others = self.worker().queued_bytes.get().saturating_sub(state.queued_bytes.replace(bytes));
        self.worker().queued_bytes.set(others.saturating_add(bytes));
    }

    /// Answers with an error, after which EXEC runs nothing.
    fn refuse(&mut self, text: &str) {
        if text.starts_with(transaction::ABORTED_BECAUSE) {
            self.session.transactions = Transactions::default();
            self.tell_queued();
        }
        if let Some(open) = &mut self.session.transactions.open {
            open.break_off();
        }
        self.answer_text(text);
    }

    fn run_at_once(&mut self, ready: Ready, args: Args<'_>) {
        let worker = self.worker().clone();
        let mut core = worker.core.borrow_mut();
        let call = Call { args, at: ready.at, now: worker.now() };
        self.run_session(&mut core, ready.entry, &call);
        drop(core);
        self.answer_at_once();
    }

    /// MULTI, EXEC, DISCARD, WATCH, UNWATCH.
    pub(crate) async fn control(&mut self, entry: &'static Entry, args: Args<'_>) {
        let Handler::Transaction(control) = entry.command.handler else { return };
        self.session.client.last_command.set(entry.command.name);
        self.worker().core.borrow().counters.ran(entry.index);
        let transactions = &mut self.session.transactions;
        match (control, transactions.open.take()) {
            (Control::Multi, None) => {
                transactions.open = Some(Transaction::default());
                self.reply().simple("OK");
            }
            (Control::Exec, Some(open)) => {
                let watched = std::mem::take(&mut transactions.watched);
                match open.into_commands() {
                    Some(commands) => self.exec(entry, &commands, watched).await,
                    None => self.answer_text(transaction::ABORTED),
                }
            }
            (Control::Discard, Some(_)) => {
                transactions.watched.clear();
                self.reply().simple("OK");
            }
            (Control::Unwatch, open) => {
                transactions.watched.clear();
                transactions.open = open;
                self.reply().simple("OK");
            }
            (Control::Watch, None) => self.watch(entry, args).await,
            (Control::Exec, None) => self.answer_text(transaction::EXEC_ALONE),
            (Control::Discard, None) => self.answer_text(transaction::DISCARD_ALONE),
            (Control::Multi | Control::Watch, open) => {
                transactions.open = open;
                let is_multi = control == Control::Multi;
                self.answer_text(if is_multi { transaction::NESTED } else { transaction::WATCH_INSIDE });
            }
        }
        self.session.client.last_command.set(entry.command.name);
        self.tell_queued();
    }

    async fn watch(&mut self, entry: &'static Entry, args: Args<'_>) {
        let worker = self.worker().clone();
        let places = worker.dispatcher.places();
        let watched = &self.session.transactions.watched;
        let is_new = |key: &&[u8]| !watched.iter().any(|watch| watch.key() == *key);
        let name = args.get(0).unwrap_or_default();
        let keys: BTreeSet<&[u8]> = args.iter().skip(1).filter(is_new).collect();
        if watched.len() + keys.len() > WATCHED_MAX {
            return self.answer_text(&format!("ERR more than {WATCHED_MAX} watched keys"));
        }
        let slots =
            keys.iter().map(|key| places.hasher.locate(key).slot).chain(watched.iter().map(|watch| watch.at().slot));
        let slots: BTreeSet<u16> = slots.collect();
        let (Some(slot), true) = (slots.first(), slots.len() <= 1) else {
            return if slots.is_empty() {
                self.reply().simple("OK")
            } else {
                self.answer_text(transaction::WATCH_SLOTS)
            };
        };
        let core = usize::from(owner(*slot, places.cores));
        let arguments: OwnedArgs = std::iter::once(name).chain(keys).collect();
        let at = Located { slot: *slot, hash: 0 };
        let watches = if core == worker.index {
            worker.core.borrow_mut().watch(&Call { args: arguments.args(), at, now: worker.now() })
        } else {
            if !worker.wait_for_room([core]).await {
                worker.core.borrow().counters.busy_replies.add(1);
                return self.answer_text(BUSY);
            }
            let mut parcel = worker.take_parcel();
            parcel.push(
                NewJob { entry, task: Task::Watch, at, protocol: Protocol::Resp2, cargo: None },
                arguments.args().iter(),
            );
            let mut sent = BTreeMap::from([(core, parcel)]);
            let mut answered = send_all(&worker, &mut sent, Room::Take).await;
            let cargo = answered.first_mut().and_then(|(_, parcel)| parcel.take_cargo(0));
            for (core, parcel) in answered {
                worker.free_room(core);
                worker.give_parcel(parcel);
            }
            match cargo {
                Some(Cargo::Watches(watches)) => watches,
                _ => Vec::new(),
            }
        };
        self.session.transactions.watched.extend(watches);
        self.reply().simple("OK");
    }

    /// Runs a transaction: all of it, or nothing if a watched key changed or a core is too busy.
    async fn exec(&mut self, exec: &'static Entry, commands: &[Queued], watched: Vec<Watch>) {
        let worker = self.worker().clone();
        if !watched.is_empty()
            && let Some(name) = unguarded(commands)
        {
            return self.answer_text(&transaction::unguarded(name));
        }
        let others = cores_of(&worker, commands, &watched);
        if !worker.wait_for_room(others.iter().copied()).await {
            worker.core.borrow().counters.busy_replies.add(1);
            return self.answer_text(BUSY);
        }
        if let Err(text) = self.may_exec(commands, &watched) {
            return self.answer_text(&text);
        }
        others.iter().for_each(|core| worker.hold_room(*core));
        let mut is_done = true;
        // Of a replica that a client reads from, what only looks leaves without a lease.
        self.tell(commands.iter().map(|queued| Tells::of(queued.ready.entry.command)).max().unwrap_or_default());
        let before = self.out().len();
        self.reply().array(commands.len());
        // Under a guard HELLO is a part like others, whatever it does to the form of later replies.
        let is_guarded = !watched.is_empty();
        let (mut rest, mut watched) = (commands, watched);
        loop {
            let cuts = |command: &Queued| takes_steps(command) && !(is_guarded && command.ready.way == Way::Here);
            let length = rest.iter().position(cuts).unwrap_or(rest.len());
            let (stretch, after) = rest.split_at(length);
            if !self.run_stretch(exec, stretch, std::mem::take(&mut watched)).await {
                self.out().truncate(before);
                self.reply().null_array();
                is_done = false;
                break;
            }
            let Some((command, after)) = after.split_first() else { break };
            if self.is_ending() {
                break;
            }
            self.run_alone(command).await;
            rest = after;
        }
        others.iter().for_each(|core| worker.free_room(*core));
        if is_done {
            commands.iter().for_each(|command| self.show_one(command.ready, command.arguments.args()));
        }
    }

    /// Whether a transaction may still run: the process may have become a replica since its commands were queued, or
    /// serve other slots.
    fn may_exec(&self, commands: &[Queued], watched: &[Watch]) -> Result<(), Cow<'static, str>> {
        self.check_slots(commands, watched)?;
        let standing = self.worker().standing();
        let refused = commands.iter().find_map(|queued| may_run(queued.ready.entry, &self.session, standing).err());
        refused.map_or(Ok(()), |text| Err(Cow::Owned(format!("{}{text}", transaction::ABORTED_BECAUSE))))
    }

    /// Whether all keys of a transaction are of one slot, and that is still served here, as those are that it watches.
    fn check_slots(&self, commands: &[Queued], watched: &[Watch]) -> Result<(), Cow<'static, str>> {
        let mut core = self.worker().core.borrow_mut();
        core.refresh_view();
        let Some(view) = &core.view else { return Ok(()) };
        let reads_copies = self.session.client.state.reads_copies.get();
        let only_reads = |command: &Queued| command.ready.entry.command.flags.has(Flags::READONLY);
        let with_keys = || commands.iter().filter(|command| command.ready.entry.command.keys.first > 0);
        let slots = with_keys().flat_map(|command| {
            let args = command.arguments.args();
            let keys = command.ready.entry.command.keys.positions(args.len());
            keys.filter_map(move |position| args.get(position)).map(slot_of)
        });
        view.check_slots(slots, reads_copies && with_keys().all(only_reads))?;
        view.check_slots(watched.first().map(|watch| watch.at().slot), false)
    }

    async fn run_alone(&mut self, command: &Queued) {
        let (ready, args) = (command.ready, command.arguments.args());
        if ready.way == Way::Here {
            self.run_at_once(ready, args);
        } else {
            Box::pin(self.run_barrier(ready, args, Room::Held)).await;
        }
    }

    /// Runs commands of which each core's part is one step. False, and nothing was run, if a watched key changed.
    async fn run_stretch(&mut self, exec: &'static Entry, commands: &[Queued], watched: Vec<Watch>) -> bool {
        let worker = self.worker().clone();
        let guard = watched.first().map(Watch::at).map(|at| (core_of(&worker, at), at));
        let (mut outgoing, mut watched) = (Outgoing::default(), watched);
        if let Some((core, at)) = guard.filter(|(core, _)| *core != worker.index) {
            let cargo = Some(Cargo::Watches(std::mem::take(&mut watched)));
            let job = NewJob { entry: exec, task: Task::Guard, at, protocol: Protocol::Resp2, cargo };
            outgoing.push(&worker, core, job, std::iter::empty());
        }
        let mut pieces = self.place_all(commands, &mut outgoing);
        let mut answered = Vec::new();
        if let Some(parcel) = guard.and_then(|(core, _)| outgoing.parcels.remove_entry(&core)) {
            answered = send_all(&worker, &mut BTreeMap::from([parcel]), Room::Held).await;
        }
        let is_stopped = answered.iter().any(|(_, parcel)| parcel.is_stopped());
        if is_stopped || !self.run_own(commands, &watched, &mut pieces) {
            give_all(&worker, answered.into_iter().chain(outgoing.parcels));
            return false;
        }
        answered.extend(send_all(&worker, &mut outgoing.parcels, Room::Held).await);
        if answered.iter().any(|(_, parcel)| parcel.is_cut()) {
            self.cut_for_output();
        }
        answered.iter_mut().for_each(|(_, parcel)| worker.keep_slow(parcel, &self.session.client));
        self.assemble(commands, &pieces, &answered);
        give_all(&worker, answered);
        true
    }

    /// Says where the replies will come from, and puts into the parcels what others do for them.
    fn place_all(&self, commands: &[Queued], outgoing: &mut Outgoing) -> Vec<Piece> {
        let worker = self.worker();
        let mut protocol = self.session.protocol;
        let mut pieces = Vec::with_capacity(commands.len());
        for command in commands {
            pieces.push(self.place(command, protocol, outgoing));
            if is_hello(command) {
                // It has not run yet, and what lies behind it leaves before it does.
                protocol = protocol_behind_hello(&worker.core.borrow(), protocol, command.arguments.args());
            }
        }
        pieces
    }

    /// Says where a command's reply will come from, and puts into the parcels what others do for it.
    fn place(&self, command: &Queued, protocol: Protocol, outgoing: &mut Outgoing) -> Piece {
        let worker = self.worker();
        let (ready, args) = (command.ready, command.arguments.args());
        if let (Way::Steps, Handler::StepsOrParts(plan, ..)) = (ready.way, ready.entry.command.handler) {
            let call = Call { args, at: ready.at, now: worker.now() };
            if let Err(text) = plan(&call, &worker.dispatcher.places()) {
                return Piece::Refused(text);
            }
        }
        let job = |task| NewJob { entry: ready.entry, task, at: ready.at, protocol, cargo: None };
        let parts: Vec<(usize, Vec<usize>)> = match ready.way {
            Way::To(to) if usize::from(to) != worker.index => {
                let core = usize::from(to);
                return Piece::Other { core, position: outgoing.push(worker, core, job(Task::Run), args.iter()) };
            }
            Way::PerKey | Way::Steps => {
                // With each key come the arguments up to the next, as the values of MSET.
                let step = usize::try_from(ready.entry.command.keys.step).unwrap_or(1).max(1);
                let whole = |keys: Vec<usize>| keys.into_iter().flat_map(move |key| key..key + step);
                let split = worker.dispatcher.split(ready.entry, args).into_iter();
                split.map(|(core, keys)| (usize::from(core), std::iter::once(0).chain(whole(keys)).collect())).collect()
            }
            Way::Every => (0..worker.hub.mesh.cores()).map(|core| (core, (0..args.len()).collect())).collect(),
            // A step of the walk ends with its core, where otherwise it goes on to the next.
            Way::Cursor => {
                let core = worker.dispatcher.cursor_core(args.get(1).unwrap_or_default());
                vec![(usize::from(core), (0..args.len()).collect())]
            }
            _ => return Piece::Own(Vec::new()),
        };
        let (mut own_arguments, mut others) = (None, Vec::new());
        for (core, positions) in parts {
            if core == worker.index {
                own_arguments = Some(positions);
            } else {
                let arguments = positions.iter().map(|position| args.get(*position).unwrap_or_default());
                others.push((core, outgoing.push(worker, core, job(Task::Part), arguments)));
            }
        }
        Piece::Merged { own_arguments, own: Vec::new(), others, protocol }
    }

    /// This core's part. False, and nothing was run, if a watched key of this core changed.
    fn run_own(&mut self, commands: &[Queued], watched: &[Watch], pieces: &mut [Piece]) -> bool {
        let worker = self.worker().clone();
        let now = worker.now();
        let mut core = worker.core.borrow_mut();
        if !core.is_unchanged(watched, now) {
            return false;
        }
        let (mut written, mut is_cut) = (0, false);
        for (command, piece) in commands.iter().zip(pieces) {
            let Ready { entry, way, at } = command.ready;
            let call = Call { args: command.arguments.args(), at, now };
            let full = written > OUTPUT_BYTES_MAX;
            is_cut |= full;
            if full && entry.command.flags.has(Flags::READONLY) {
                // Nobody will get the reply, and there is nothing else to it.
                continue;
            }
            match piece {
                // What was watched is forgotten by EXEC itself.
                Piece::Own(bytes) if way == Way::Transaction => {
                    Reply::new(bytes, self.session.protocol).simple("OK");
                }
                Piece::Own(bytes) if way == Way::Here => {
                    let start = self.out().len();
                    self.run_session(&mut core, entry, &call);
                    self.answer_at_once();
                    *bytes = self.out().split_off(start);
                    // CLIENT REPLY may answer nothing; it acts on what follows, and this reply is one with its place.
                    if bytes.is_empty() {
                        Reply::new(bytes, self.session.protocol).simple("OK");
                    }
                }
                Piece::Own(bytes) => run_own_one(&mut core, entry, &call, self.session.protocol, bytes),
                Piece::Merged { own_arguments, own, .. } => {
                    // Wherever its keys lie, its connection's core counts it.
                    core.counters.ran(entry.index);
                    let Some(positions) = own_arguments else { continue };
                    if let Handler::Spread(run, _) | Handler::StepsOrParts(_, run, _) = entry.command.handler {
                        let picked: OwnedArgs = positions.iter().map(|position| call.argument(*position)).collect();
                        run(&mut core, &Call { args: picked.args(), ..call }, own);
                    }
                }
                Piece::Refused(_) => core.counters.ran(entry.index),
                Piece::Other { .. } => {}
            }
            written += piece.shorten(full);
        }
        worker.carry_out(&mut core);
        core.sign_slow(&self.session.client);
        core.publish_changes();
        drop(core);
        if is_cut {
            self.cut_for_output();
        }
        true
    }

    /// Writes the replies of a stretch, in order.
    fn assemble(&mut self, commands: &[Queued], pieces: &[Piece], answered: &[(usize, Box<Parcel>)]) {
        let now = self.worker().now();
        let reply_of = |core: usize, position: usize| {
            answered.iter().find(|(of, _)| *of == core).map_or(&[][..], |(_, parcel)| parcel.reply(position))
        };
        for (command, piece) in commands.iter().zip(pieces) {
            match piece {
                Piece::Own(bytes) => self.out().extend_from_slice(bytes),
                Piece::Refused(text) => self.answer_text(text),
                Piece::Other { core, position } => self.out().extend_from_slice(reply_of(*core, *position)),
                Piece::Merged { own_arguments, own, others, protocol } => {
                    let mut fragments: Vec<&[u8]> = others.iter().map(|(core, at)| reply_of(*core, *at)).collect();
                    if own_arguments.is_some() {
                        fragments.push(own);
                    }
                    let handler = command.ready.entry.command.handler;
                    if let Handler::Spread(_, merge) | Handler::StepsOrParts(_, _, merge) = handler {
                        let call = Call { args: command.arguments.args(), at: command.ready.at, now };
                        let start = self.out().len();
                        merge(&fragments, &call, &mut Reply::new(self.out(), *protocol));
                        let first = self.out().get(start).copied();
                        let (entry, client) = (command.ready.entry, &self.session.client);
                        audit::note(self.worker(), entry.command, call.args, first.as_slice(), client);
                    }
                }
            }
        }
    }
}

/// Runs a command that lies on this core, unless its slot is served elsewhere since what other cores did first.
fn run_own_one(core: &mut Core, entry: &Entry, call: &Call<'_>, protocol: Protocol, bytes: &mut Vec<u8>) {
    if !core.still_runs(entry, call, protocol, bytes) {
        return;
    }
    match core.timing.times_fast() {
        true => core.run_key_timed(entry, call, &mut Reply::new(bytes, protocol)),
        false => core.run_key(entry, call, &mut Reply::new(bytes, protocol)),
    }
}

/// Sends parcels and waits for all of them.
async fn send_all(
    worker: &Rc<Worker>,
    parcels: &mut BTreeMap<usize, Box<Parcel>>,
    room: Room,
) -> Vec<(usize, Box<Parcel>)> {
    let ticket = worker.new_ticket(parcels.len());
    for (core, parcel) in std::mem::take(parcels) {
        worker.send(core, parcel, ticket, room);
        worker.wake(core);
    }
    worker.collect(ticket).await
}

fn give_all(worker: &Worker, parcels: impl IntoIterator<Item = (usize, Box<Parcel>)>) {
    parcels.into_iter().for_each(|(_, parcel)| worker.give_parcel(parcel));
}

fn core_of(worker: &Worker, at: Located) -> usize {
    usize::from(owner(at.slot, worker.dispatcher.places().cores))
}

/// The other cores that a transaction needs.
fn cores_of(worker: &Worker, commands: &[Queued], watched: &[Watch]) -> Vec<usize> {
    let mut cores: BTreeSet<usize> = watched.first().map(|watch| core_of(worker, watch.at())).into_iter().collect();
    for command in commands {
        let (ready, args) = (command.ready, command.arguments.args());
        match ready.way {
            Way::To(to) => drop(cores.insert(usize::from(to))),
            Way::PerKey | Way::Steps | Way::AllOrNothing => {
                let split = worker.dispatcher.split(ready.entry, args);
                cores.extend(split.iter().map(|(core, _)| usize::from(*core)));
            }
            Way::Every | Way::Cursor => cores.extend(0..worker.hub.mesh.cores()),
            _ => {}
        }
    }
    cores.remove(&worker.index);
    cores.into_iter().collect()
}

/// The command after whose first step something is written: what is watched could be written before that, and lost.
fn unguarded(commands: &[Queued]) -> Option<&'static str> {
    let first = commands.iter().position(|command| takes_steps(command) && command.ready.way != Way::Here)?;
    let after = commands.get(first..).unwrap_or_default();
    let writes = after.iter().any(|command| command.ready.entry.command.flags.has(Flags::WRITE));
    after.first().filter(|_| writes).map(|command| command.ready.entry.command.name)
}

fn is_hello(command: &Queued) -> bool {
    command.ready.entry.command.name == "hello"
}

/// Whether a command cannot be a part of each core's one step. HELLO changes the form of the replies behind it.
fn takes_steps(command: &Queued) -> bool {
    let Ready { entry, way, .. } = command.ready;
    match way {
        Way::To(_) | Way::PerKey | Way::Every | Way::Cursor | Way::Transaction => false,
        Way::Here => is_hello(command),
        Way::Steps => !matches!(entry.command.handler, Handler::StepsOrParts(..)),
        Way::Process | Way::AllOrNothing => true,
    }
}
