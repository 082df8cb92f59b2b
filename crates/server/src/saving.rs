//! Snapshots of all cores: who has one written when, and what became of it.
//!
//! The problem: a snapshot takes seconds, in which cores must serve as if there were none, and a process that dies in
//! the middle must leave the one before untouched. The idea: each core walks through its own keys in steps of some
//! microseconds and hands the records on; a thread of its own writes them to a file beside the last one, has it synced
//! and puts it in that one's place.
//!
//! ```text
//! start ──> order ──> every core: walk, parts ──> thread: file.tmp, sync, rename, sync ──> finished
//! ```

use crate::clock::{boot_micros, wall_micros};
use crate::hub::SharedClock;
use crate::worker::Worker;
use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::watch;
use tollgate_engine::counters::Counters;
use tollgate_engine::settings::{NotStarted, Pace, Persistence};
use tollgate_replication::snapshot::{Stamp, Writer};
use tollgate_replication::{Export, export_keys as give_keys};

/// The name of the snapshot in the directory.
pub const SNAPSHOT_FILE_NAME: &str = "tollgate.snapshot";
const TEMPORARY_FILE_NAME: &str = "tollgate.snapshot.tmp";
/// Records of a step: some tens of microseconds. A table is walked whole, so it may be some hundred more, or 256 KiB.
const STEP_RECORDS: usize = 256;
/// Bytes of a part, from which on it is handed on.
const PART_BYTES: usize = 128 * 1024;
/// Parts that may wait to be written, for each core: more would only be memory.
const PARTS_WAITING: usize = 2;
/// Between two steps where there is no hurry, and between two looks whether there is room for a part.
const PAUSE: Duration = Duration::from_millis(1);
/// Between two looks whether the snapshot was given up.
const PATIENCE: Duration = Duration::from_millis(50);

/// What a core is to do for a snapshot.
#[derive(Clone, Debug)]
pub struct Order {
    pace: Pace,
    to: SyncSender<FromCore>,
    /// Cores whose walk has come to its end.
    walked: Arc<AtomicUsize>,
    /// Whether nobody writes any more.
    is_over: Arc<AtomicBool>,
}

/// What a core hands on.
#[derive(Debug)]
enum FromCore {
    /// So many records.
    Records(Vec<u8>, u64),
    /// It has no more.
    Done,
}

/// How a file is opened so that nobody who can write to its directory makes this process write elsewhere, by a symbolic
/// link, or wait for ever, by a pipe.
pub const PLAIN_FILE: i32 = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).bits().cast_signed();

/// What the cores are told.
#[derive(Clone, Debug, Default)]
enum Wanted {
    /// Nothing yet.
    #[default]
    Nothing,
    /// A snapshot while they serve.
    Now(Order),
    /// Nothing changes any more: the last one, if there is to be one.
    Last(Option<Order>),
}

/// The snapshots of a process.
#[derive(Debug)]
pub struct Saving {
    directory: Option<PathBuf>,
    interval: Option<Duration>,
    clock: SharedClock,
    counters: Arc<[Arc<Counters>]>,
    state: Mutex<State>,
    wanted: watch::Sender<Wanted>,
    finished: watch::Sender<Finished>,
    /// Whether the one that is being written is to be given up.
    is_given_up: AtomicBool,
    /// Whether what is held is of two processes, each with its own time, so that it is nobody's state: none is written.
    is_mixed: AtomicBool,
}

/// How the last snapshot ended.
#[derive(Clone, Copy, Debug)]
struct Finished {
    number: u64,
    is_ok: bool,
}

#[derive(Debug)]
struct State {
    /// Snapshots begun.
    begun: u64,
    running: Option<Running>,
    /// Another is to follow the one that runs.
    is_scheduled: bool,
    /// No more are begun: the process ends, or has not loaded what there was.
    is_closed: bool,
    attempted_micros: u64,
    last_save_seconds: u64,
    last_is_ok: bool,
    last_took_seconds: Option<u64>,
    /// Changes of all cores that the last snapshot has.
    changes_saved: u64,
}

#[derive(Debug)]
struct Running {
    begun_micros: u64,
    thread: Option<JoinHandle<io::Result<u64>>>,
}

impl Saving {
    /// For a process with this directory (none: nothing is ever written), which has a snapshot written every
    /// `interval` while there are changes. Nothing is begun before [`Saving::open`].
    pub fn new(
        directory: Option<PathBuf>,
        interval: Option<Duration>,
        clock: SharedClock,
        counters: Arc<[Arc<Counters>]>,
    ) -> Arc<Saving> {
        let state = State {
            begun: 0,
            running: None,
            is_scheduled: false,
            is_closed: true,
            attempted_micros: boot_micros(),
            last_save_seconds: wall_micros() / 1_000_000,
            last_is_ok: true,
            last_took_seconds: None,
            changes_saved: 0,
        };
        Arc::new(Saving {
            directory,
            interval,
            clock,
            counters,
            state: Mutex::new(state),
            wanted: watch::Sender::default(),
            finished: watch::Sender::new(Finished { number: 0, is_ok: true }),
            is_given_up: AtomicBool::new(false),
            is_mixed: AtomicBool::new(false),
        })
    }

    /// What another process holds begins to come over what is held here: what is being written is given up.
    pub fn mix(&self) {
        self.is_mixed.store(true, Ordering::SeqCst);
        self.abandon();
    }

    /// All that is held is of one process again, or is this one's own from now on.
    pub fn unmix(&self) {
        self.is_mixed.store(false, Ordering::SeqCst);
    }

    /// Whether that is so.
    pub fn is_mixed(&self) -> bool {
        self.is_mixed.load(Ordering::SeqCst)
    }

    /// The file that a snapshot is read from.
    pub fn file(&self) -> Option<PathBuf> {
        self.directory.as_ref().map(|directory| directory.join(SNAPSHOT_FILE_NAME))
    }

    /// All that there was is loaded: from now on it may be written.
    pub fn open(&self) {
        let mut state = self.state();
        state.is_closed = false;
        state.attempted_micros = boot_micros();
        state.changes_saved = self.changes();
    }

    /// Begins a snapshot. Answers its number.
    ///
    /// # Errors
    /// There is no directory, or one is being written.
    pub fn start(self: &Arc<Saving>, pace: Pace) -> Result<u64, NotStarted> {
        let mut state = self.state();
        if state.running.is_some() {
            return Err(NotStarted::IsRunning);
        }
        if state.is_closed {
            return Err(NotStarted::Failed("the server is ending or not ready".to_owned()));
        }
        if self.is_mixed() {
            return Err(NotStarted::Failed("what the primary holds is not all here yet".to_owned()));
        }
        let order = self.begin(&mut state, pace)?;
        let number = state.begun;
        self.wanted.send_replace(Wanted::Now(order));
        drop(state);
        Ok(number)
    }

    /// Has another snapshot written after the one that runs.
    pub fn schedule(&self) {
        self.state().is_scheduled = true;
    }

    /// Begins a snapshot if it is time for one.
    pub fn tick(self: &Arc<Saving>) {
        let is_due = {
            let state = self.state();
            let waited = boot_micros().saturating_sub(state.attempted_micros);
            let interval = self.interval.map(|interval| u64::try_from(interval.as_micros()).unwrap_or(u64::MAX));
            let has_changed = self.changes() != state.changes_saved || !state.last_is_ok;
            let is_time = interval.is_some_and(|interval| waited >= interval) && has_changed;
            self.directory.is_some()
                && state.running.is_none()
                && !state.is_closed
                && !self.is_mixed()
                && (is_time || state.is_scheduled)
        };
        if is_due && let Err(NotStarted::Failed(error)) = self.start(Pace::Gentle) {
            tracing::error!(error, "a snapshot cannot be begun");
        }
    }

    fn begin(self: &Arc<Saving>, state: &mut State, pace: Pace) -> Result<Order, NotStarted> {
        let Some(directory) = self.directory.clone() else { return Err(NotStarted::NoDirectory) };
        let (to, parts) = sync_channel(PARTS_WAITING * self.counters.len());
        self.is_given_up.store(self.is_mixed(), Ordering::SeqCst);
        state.begun += 1;
        state.is_scheduled = false;
        state.attempted_micros = boot_micros();
        let (saving, number, changes) = (self.clone(), state.begun, self.changes());
        let thread = std::thread::Builder::new().name("tollgate-save".to_owned());
        let (walked, is_over) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let ends = is_over.clone();
        let work = move || {
            let written = saving.write(&directory, &parts);
            ends.store(true, Ordering::SeqCst);
            saving.finish(number, changes, &written);
            written
        };
        let thread = thread.spawn(work).map_err(|error| NotStarted::Failed(error.to_string()))?;
        state.running = Some(Running { begun_micros: state.attempted_micros, thread: Some(thread) });
        Ok(Order { pace, to, walked, is_over })
    }

    /// Writes what comes from the cores. Answers how many records that were.
    fn write(&self, directory: &Path, parts: &Receiver<FromCore>) -> io::Result<u64> {
        let temporary = directory.join(TEMPORARY_FILE_NAME);
        let written = self.write_to(&temporary, parts).and_then(|records| {
            std::fs::rename(&temporary, directory.join(SNAPSHOT_FILE_NAME))?;
            File::open(directory)?.sync_all()?;
            Ok(records)
        });
        if written.is_err() {
            // What there is of it is of no use; that it cannot be removed changes nothing about what went wrong.
            let _ = std::fs::remove_file(&temporary);
        }
        written
    }

    fn write_to(&self, temporary: &Path, parts: &Receiver<FromCore>) -> io::Result<u64> {
        let options = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .custom_flags(PLAIN_FILE)
            .open(temporary);
        let mut writer = Writer::new(BufWriter::with_capacity(PART_BYTES, options?))?;
        let (mut records, mut cores_left) = (0, self.counters.len());
        while cores_left > 0 {
            if self.is_given_up.load(Ordering::SeqCst) {
                return Err(io::Error::other("it was given up before it was whole"));
            }
            match parts.recv_timeout(PATIENCE) {
                Ok(FromCore::Records(bytes, count)) => {
                    writer.records(&bytes, count)?;
                    records += count;
                }
                Ok(FromCore::Done) => cores_left -= 1,
                Err(RecvTimeoutError::Timeout) => {}
                Err(_) => return Err(io::Error::other("the server ended before it was whole")),
            }
        }
        // After the last record, so that none is later than the stamp.
        let stamp = Stamp { timeline: self.clock.now(), wall: wall_micros() };
        let mut file = writer.end(stamp)?;
        file.flush()?;
        file.get_ref().sync_all()?;
        Ok(records)
    }

    fn finish(&self, number: u64, changes: u64, written: &io::Result<u64>) {
        let mut state = self.state();
        let now = boot_micros();
        let begun_micros = state.running.as_ref().map_or(now, |running| running.begun_micros);
        let seconds = now.saturating_sub(begun_micros) / 1_000_000;
        state.last_took_seconds = Some(seconds);
        state.last_is_ok = written.is_ok();
        match written {
            Ok(records) => {
                state.last_save_seconds = wall_micros() / 1_000_000;
                state.changes_saved = changes;
                tracing::info!(records, seconds, "a snapshot was written");
            }
            Err(error) => tracing::error!(%error, "a snapshot could not be written; the one before is as it was"),
        }
        state.running = None;
        drop(state);
        self.finished.send_replace(Finished { number, is_ok: written.is_ok() });
    }

    /// Waits for the end of snapshot `number`. Answers whether it is written.
    pub async fn wait(&self, number: u64) -> bool {
        let mut finished = self.finished.subscribe();
        // An error means that the sender is gone, which it cannot be while it is borrowed here.
        finished.wait_for(|finished| finished.number >= number).await.is_ok_and(|finished| finished.is_ok)
    }

    /// Nothing changes any more. Has the last snapshot written, if `wanted` and if there is a directory; one that is
    /// being written is given up. Wait for its end by [`LastSnapshot::join`].
    pub fn last(self: &Arc<Saving>, wanted: bool) -> LastSnapshot {
        let was_closed = std::mem::replace(&mut self.state().is_closed, true);
        self.give_up();
        let mut state = self.state();
        let begun = match self.directory {
            // What was not loaded whole must not be written over the file that it came from.
            Some(_) if wanted && !was_closed && !self.is_mixed() => Some(self.begin(&mut state, Pace::AtOnce)),
            _ => None,
        };
        let thread = state.running.as_mut().and_then(|running| running.thread.take());
        drop(state);
        let (order, error) = match begun {
            Some(Ok(order)) => (Some(order), None),
            Some(Err(error)) => (None, Some(error.to_string())),
            None => (None, None),
        };
        self.wanted.send_replace(Wanted::Last(order));
        LastSnapshot { thread, error }
    }

    /// Has the snapshot that is being written given up.
    pub fn abandon(&self) {
        self.is_given_up.store(true, Ordering::SeqCst);
    }

    /// Gives up the snapshot that is being written, and waits until that is done.
    fn give_up(&self) {
        self.abandon();
        let thread = self.state().running.as_mut().and_then(|running| running.thread.take());
        if let Some(thread) = thread {
            // It was logged by itself.
            drop(thread.join());
        }
    }

    /// What INFO shows.
    pub fn persistence(&self) -> Persistence {
        let changes = self.changes();
        let state = self.state();
        Persistence {
            can_save: self.directory.is_some(),
            changes: changes.saturating_sub(state.changes_saved),
            running_seconds: state
                .running
                .as_ref()
                .map(|running| boot_micros().saturating_sub(running.begun_micros) / 1_000_000),
            last_save_seconds: state.last_save_seconds,
            last_is_ok: state.last_is_ok,
            last_took_seconds: state.last_took_seconds,
            snapshots: state.begun,
        }
    }

    /// Changes of all slots since the start, as the cores last published them.
    fn changes(&self) -> u64 {
        self.counters.iter().map(|counters| counters.slot_changes.get()).sum()
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The snapshot at the end of a process.
#[derive(Debug)]
pub struct LastSnapshot {
    thread: Option<JoinHandle<io::Result<u64>>>,
    error: Option<String>,
}

impl LastSnapshot {
    /// Waits for it.
    ///
    /// # Errors
    /// It could not be written, and why.
    pub fn join(self) -> Result<(), String> {
        match (self.error, self.thread.map(JoinHandle::join)) {
            (Some(error), _) => Err(error),
            (None, None | Some(Ok(Ok(_)))) => Ok(()),
            (None, Some(Ok(Err(error)))) => Err(error.to_string()),
            (None, Some(Err(_))) => Err("the thread that wrote it has failed".to_owned()),
        }
    }
}

/// Gives what a core holds for each snapshot, for ever.
pub async fn serve(worker: std::rc::Rc<Worker>) {
    let mut wanted = worker.hub.saving.wanted.subscribe();
    loop {
        let now = wanted.borrow_and_update().clone();
        match now {
            Wanted::Now(order) => give(&worker, &order).await,
            Wanted::Nothing => {}
            Wanted::Last(_) => return,
        }
        if wanted.changed().await.is_err() {
            return;
        }
    }
}

/// Gives what a core holds for the last snapshot, once it is said whether there is to be one.
pub async fn serve_last(worker: &Worker) {
    let mut wanted = worker.hub.saving.wanted.subscribe();
    let last = wanted.wait_for(|wanted| matches!(wanted, Wanted::Last(_))).await.map(|last| last.clone());
    if let Ok(Wanted::Last(Some(order))) = last {
        give(worker, &order).await;
    }
}

async fn give(worker: &Worker, order: &Order) {
    worker.core.borrow_mut().moved_here = Some(Vec::new());
    let is_given = give_all(worker, order).await;
    worker.core.borrow_mut().moved_here = None;
    if is_given {
        hand_on(order, FromCore::Done).await;
    }
}

/// Answers whether anybody took it.
async fn give_all(worker: &Worker, order: &Order) -> bool {
    let mut walk = Export::new(&worker.core.borrow().store);
    let (mut part, mut records) = (Vec::new(), 0);
    while !walk.is_done() {
        records += walk.step(&mut worker.core.borrow_mut().store, STEP_RECORDS, worker.now(), &mut part);
        if part.len() >= PART_BYTES {
            let full = std::mem::replace(&mut part, Vec::with_capacity(PART_BYTES + PART_BYTES / 4));
            if !hand_on(order, FromCore::Records(full, std::mem::take(&mut records))).await {
                return false;
            }
        }
        match order.pace {
            Pace::Gentle => tokio::time::sleep(PAUSE).await,
            Pace::AtOnce => tokio::task::yield_now().await,
        }
    }
    // A key that was renamed meanwhile, here or from a core that is still on its way, is where no walk has met it.
    order.walked.fetch_add(1, Ordering::SeqCst);
    while order.walked.load(Ordering::SeqCst) < worker.hub.mesh.cores() {
        if order.is_over.load(Ordering::SeqCst) {
            return false;
        }
        tokio::time::sleep(PAUSE).await;
    }
    let moved = worker.core.borrow_mut().moved_here.take().unwrap_or_default();
    for keys in moved.chunks(STEP_RECORDS) {
        records += give_keys(&mut worker.core.borrow_mut().store, keys, worker.now(), &mut part);
        tokio::task::yield_now().await;
    }
    records == 0 || hand_on(order, FromCore::Records(part, records)).await
}

/// Answers whether anybody took it: not of a snapshot that was given up.
async fn hand_on(order: &Order, message: FromCore) -> bool {
    let mut message = message;
    loop {
        match order.to.try_send(message) {
            Ok(()) => return true,
            Err(TrySendError::Disconnected(_)) => return false,
            Err(TrySendError::Full(back)) => message = back,
        }
        tokio::time::sleep(PAUSE).await;
    }
}
