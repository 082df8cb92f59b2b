//! How a connection is treated where its client or another has asked for something unusual: it was killed, commands are
//! held, its replies are thrown away, it is shown what others do.
//!
//! None of it costs the usual way more than a look at a flag; where a mode changes, a batch ends, so that each batch
//! runs in one; and what waits here is boxed where it is called, so that the connection's own future stays small.

use super::{BATCH_COMMANDS_MAX, Batch, Connection, Ending, Input, Item, Stream};
use crate::clock::boot_micros;
use crate::gate::{FENCED_MICROS_MAX, FENCED_PAUSE};
use crate::monitor::{MONITORS_MAX, Monitor, Page};
use crate::worker::Worker;
use std::io;
use std::pin::pin;
use std::task::Poll;
use tollgate_engine::client_state::{Killed, Replies};
use tollgate_engine::command::{Flags, Handler};
use tollgate_engine::dispatch::{FENCED, Ready};
use tollgate_engine::session::Client;
use tollgate_engine::shared::Standing;
use tollgate_engine::transaction::{Control, Transaction};
use tollgate_limits::Micros;
use tollgate_resp::{Args, Reply};

/// What ends the reading and writing of a client that another has killed.
pub(super) fn killed() -> io::Error {
    io::Error::other("the client was killed")
}

/// Waits for `work`, unless the client is killed meanwhile, or only watches and the server stops.
pub(super) async fn unless_killed<T>(
    worker: &Worker,
    client: &Client,
    work: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    let mut work = pin!(work);
    std::future::poll_fn(|context| {
        let stops = worker.is_stopping() && client.state.monitors.get();
        if stops || client.state.killed.get() == Killed::AtOnce {
            return Poll::Ready(Err(killed()));
        }
        work.as_mut().poll(context)
    })
    .await
}

/// Notes how many bytes the socket did not take yet.
pub(super) fn note_unsent(client: &Client, bytes: usize) {
    client.state.unsent_bytes.set(u64::try_from(bytes).unwrap_or(u64::MAX));
}

impl<S: Stream> Connection<S> {
    /// Notes what has come and did not run yet.
    #[inline]
    pub(super) fn note_query(&self, bytes: &Vec<u8>) {
        let state = &self.session.client.state;
        let room = bytes.capacity().saturating_sub(bytes.len());
        state.query_bytes.set(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        state.query_room_bytes.set(u64::try_from(room).unwrap_or(u64::MAX));
    }

    /// Whether another has killed this client.
    #[inline]
    pub(super) fn is_killed(&self) -> bool {
        self.session.client.state.killed.get() == Killed::AtOnce
    }

    /// Whether its next command may run.
    #[inline]
    pub(super) fn goes_on(&self) -> bool {
        self.ending.is_none() && self.session.client.state.killed.get() == Killed::No && !self.worker.is_halted()
    }

    /// A client that killed itself gets its reply first; one that another killed gets nothing more.
    #[inline]
    pub(super) fn end_if_killed(&mut self) {
        match self.session.client.state.killed.get() {
            Killed::No => {}
            Killed::AfterReply => self.ending = Some(Ending::Close),
            Killed::AtOnce => self.ending = Some(Ending::Cut),
        }
    }

    /// How many commands the next batch may have. One, where each may change what becomes of the next: before AUTH,
    /// while commands are held or wait for a lease, and where the reply of just one is skipped.
    #[inline]
    pub(super) fn commands_max(&self) -> usize {
        let one_by_one = !self.session.authenticated
            || self.standing.has(Standing::FENCED)
            || self.session.replies == Replies::SkipNext
            || self.worker.hub.pause.is_on();
        if one_by_one { 1 } else { BATCH_COMMANDS_MAX }
    }

    /// Whether plain calls may be run in rows: where nobody wants to see, time, keep or hold each by itself. What is in
    /// a row already is run in it.
    #[inline]
    pub(super) fn makes_rows(&self) -> bool {
        self.session.replies == Replies::On
            && self.session.authenticated
            && self.session.transactions.open.is_none()
            && self.standing.is_clear()
            && !self.worker.hub.pause.is_on()
            && !self.worker.hub.monitors.are_there()
            && !self.worker.core.borrow().timing.times_fast()
    }

    /// Waits while something holds the command of a batch of one.
    #[cold]
    pub(super) async fn wait_out(&mut self, buffer: &[u8], batch: &Batch) {
        if self.standing.has(Standing::FENCED) {
            self.wait_out_fence(buffer, batch).await;
        }
        self.wait_out_pause(buffer, batch).await;
    }

    /// Waits for a lease, for a short time: who is to serve has none now, or is another from now on, and the cluster
    /// will say which. What has waited is answered as things stand then. All that was read at once waits once.
    async fn wait_out_fence(&mut self, buffer: &[u8], batch: &Batch) {
        let Some((item, ready)) = batch.items.first().and_then(|item| Some((item, item.ready()?))) else { return };
        let until = self.fenced_since.get_or_insert_with(boot_micros).saturating_add(FENCED_MICROS_MAX);
        while boot_micros() < until && !self.worker.is_stopping() && !self.is_killed() {
            self.standing = self.worker.standing();
            let args = || batch.args(buffer, item);
            let may_run = self.worker.core.borrow_mut().may_run(&ready, &self.session, self.standing, args);
            if may_run.as_ref().err().is_none_or(|text| text != FENCED) {
                return;
            }
            tokio::time::sleep(FENCED_PAUSE).await;
        }
        self.standing = self.worker.standing();
    }

    /// Waits while CLIENT PAUSE holds the command of a batch of one. A kill, the end of the server and the client's
    /// leaving end the connection instead.
    #[expect(clippy::await_holding_refcell_ref, reason = "a connection that holds a command neither reads nor writes")]
    async fn wait_out_pause(&mut self, buffer: &[u8], batch: &Batch) {
        let Some((item, ready)) = batch.items.first().and_then(|item| Some((item, item.ready()?))) else { return };
        let (entry, flags) = (ready.entry, ready.entry.command.flags);
        // Who must first say who he is, to end the pause, is let do so; who watches is not held, as in Redis.
        let is_free = entry.before_auth || flags.has(Flags::NEVER_HELD) || self.monitor.is_some();
        let may_run =
            || self.worker.core.borrow_mut().may_run(&ready, &self.session, self.standing, || batch.args(buffer, item));
        if is_free || may_run().is_err() {
            return;
        }
        let is_exec = matches!(entry.command.handler, Handler::Transaction(Control::Exec));
        let executes = self.session.transactions.open.as_ref().filter(|_| is_exec);
        let writes = flags.has(Flags::WRITE) || executes.is_some_and(Transaction::writes);
        let worker = self.worker.clone();
        let (pause, client) = (&worker.hub.pause, self.session.client.clone());
        let wire = self.wire.clone();
        let stream = wire.stream().borrow();
        loop {
            let changed = pause.changed();
            let Some(left) = pause.left(boot_micros(), writes) else { break };
            if !client.state.waits.replace(true) {
                client.last_command.set(entry.command.name);
                let gauge = &worker.core.borrow().counters.blocked_clients;
                gauge.set(gauge.get() + 1);
            }
            let ended = std::future::poll_fn(|_| match (worker.is_stopping(), client.state.killed.get()) {
                (_, Killed::AtOnce) => Poll::Ready(Ending::Cut),
                (true, _) => Poll::Ready(Ending::Linger),
                _ => Poll::Pending,
            });
            tokio::select! {
                biased;
                ending = ended => self.ending = Some(ending),
                () = stream.gone() => self.ending = Some(Ending::Cut),
                () = changed => {}
                () = tokio::time::sleep(left) => {}
            }
            if self.ending.is_some() {
                break;
            }
        }
        if client.state.waits.replace(false) {
            let gauge = &worker.core.borrow().counters.blocked_clients;
            gauge.set(gauge.get().saturating_sub(1));
        }
    }

    /// Begins a batch whose replies are thrown away. Earlier ones leave first.
    #[cold]
    pub(super) async fn begin_silence(&mut self, batch: &Batch) {
        if batch.items.is_empty() {
            return;
        }
        if self.flush().await.is_err() {
            self.ending = Some(Ending::Cut);
        }
        self.silent = true;
        self.skipping = self.session.replies == Replies::SkipNext;
        if self.skipping {
            self.session.replies = Replies::Skip;
        }
    }

    /// Ends it. The command that switched replies on again, which is the last of its batch, is answered.
    #[cold]
    pub(super) fn end_silence(&mut self) {
        self.silent = false;
        match self.session.replies {
            // RESET answers where all replies were off, not where its own is skipped; EXEC is silent as a whole.
            Replies::On => match self.session.client.last_command.get() {
                "client|reply" => self.outbox.keep_last_line(),
                "reset" if !self.skipping => self.outbox.keep_last_line(),
                _ => self.outbox.clear(),
            },
            Replies::Skip => {
                self.session.replies = Replies::On;
                self.outbox.clear();
            }
            Replies::Off | Replies::SkipNext => self.outbox.clear(),
        }
    }

    /// Begins to watch what others do.
    #[cold]
    pub(super) fn begin_monitor(&mut self) {
        self.monitor = Monitor::new(self.worker.hub.monitors.clone());
        self.session.client.state.monitors.set(self.monitor.is_some());
        let mut reply = Reply::new(&mut self.outbox.bytes, self.session.protocol);
        match self.monitor {
            Some(_) => reply.simple("OK"),
            None => reply.error(&format!("ERR {MONITORS_MAX} clients run MONITOR already, which is the most")),
        }
    }

    /// Shows the commands of a batch, which is about to run, to those who watch.
    #[cold]
    pub(super) fn show(&self, buffer: &[u8], batch: &Batch) {
        let runs = |item: &&Item| {
            let mut core = self.worker.core.borrow_mut();
            item.ready().is_some_and(|ready| {
                core.may_run(&ready, &self.session, self.standing, || batch.args(buffer, item)).is_ok()
            })
        };
        let shown = batch.items.iter().filter(runs).filter(|item| item.ready().is_some_and(is_shown));
        if !self.worker.hub.monitors.take_lines() {
            let lost = self.worker.hub.monitors.lose(u64::try_from(shown.count()).unwrap_or(u64::MAX));
            return self.worker.core.borrow().counters.monitor_lines_lost.add(lost);
        }
        let mut page = Page::default();
        let now = self.worker.now();
        for item in shown {
            if let Some(ready) = item.ready() {
                self.add_line(&mut page, now, ready, batch.args(buffer, item));
            }
        }
        self.show_page(page);
    }

    /// Shows one command: of a transaction, after it ran, since before nobody knows whether it will.
    pub(crate) fn show_one(&self, ready: Ready, args: Args<'_>) {
        if self.worker.hub.monitors.are_there() {
            let mut page = Page::default();
            self.add_line(&mut page, self.worker.now(), ready, args);
            self.show_page(page);
        }
    }

    fn add_line(&self, page: &mut Page, now: Micros, ready: Ready, args: Args<'_>) {
        if is_shown(ready) {
            page.add(now, &self.session.client.address, ready.entry, args);
        }
    }

    fn show_page(&self, page: Page) {
        let lost = self.worker.hub.monitors.show(page);
        self.worker.core.borrow().counters.monitor_lines_lost.add(lost);
    }

    /// What comes next from a client that is shown meanwhile, as it comes, what others do.
    pub(super) async fn input_or_lines(&mut self) -> Input {
        while let Some(mut monitor) = self.monitor.take() {
            let input = tokio::select! {
                biased;
                input = self.input_in_time() => Some(input),
                () = monitor.ready() => None,
            };
            if input.is_none() {
                monitor.take(&mut self.outbox.bytes, self.worker.now(), &self.session.client.address);
            }
            self.monitor = Some(monitor);
            match input {
                Some(input) => return input,
                None if self.session.replies == Replies::Off => self.outbox.clear(),
                None if self.flush().await.is_ok() => {}
                None => break,
            }
        }
        Input::End
    }
}

/// What only administrators do is not shown, as by Redis.
fn is_shown(ready: Ready) -> bool {
    !ready.entry.command.flags.has(Flags::ADMIN)
}
