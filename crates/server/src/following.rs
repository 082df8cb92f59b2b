//! A replica's side of replication: it follows one primary and holds what that one holds.
//!
//! The problem: a primary has another number of cores, is away at times, and may come back as a process that knows less
//! than this one. The idea: a thread of its own has a link to each core of the primary, and hands what it hears to the
//! cores here, each of which takes what is its own; what all have taken is acknowledged. A link that breaks breaks all.
//! They come again and say up to where they were told, but only to the same process as before: that another may replace
//! what is held here, an operator must say by REPLICAOF.

use crate::clock::{AHEAD_MICROS_MAX, boot_micros, wall_micros};
use crate::config::CORES_MAX;
use crate::flows;
use crate::hub::Hub;
use crate::origin::RunId;
use crate::run::{run_id, run_id_bytes};
use crate::worker::Worker;
use std::rc::Rc;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tollgate_engine::route::owner;
use tollgate_engine::settings::{Following as Shown, FollowingState};
use tollgate_limits::Micros;
use tollgate_replication::flow::{Ack, Has, Heard, Hello, Inflow, RUN_ID_BYTES, Told, slots_of};
use tollgate_replication::followed::{Followed, Lateness};
use tollgate_replication::{NotImported, VERSION, import};
use tollgate_resp::printable;
use tollgate_store::{SLOTS, Store};
use tollgate_topology::lease::Follows;

/// To connect, and to be answered.
const CONNECT_TIME: Duration = Duration::from_secs(2);
/// A primary says something ten times a second; one that is silent for so long is away.
const SILENCE_MAX: Duration = Duration::from_secs(3);
/// Between two tries.
const RETRY: Duration = Duration::from_millis(500);
/// The same where what answers is not to be followed.
const RETRY_REFUSED: Duration = Duration::from_secs(2);
/// The same in a cluster, which says at any moment whom to follow.
const RETRY_IN_GROUP: Duration = Duration::from_millis(50);
/// Between two looks whether a snapshot is loaded.
const LOADING_PAUSE: Duration = Duration::from_millis(20);
/// What waits for a core, of each link.
const DELIVERIES_WAITING: usize = 16;
const READ_BYTES: usize = 256 * 1024;
/// The most that comes before a part is whole that says who tells.
const HELLO_BYTES_MAX: usize = 2 * READ_BYTES;
const UNLIKELY_TIME: &str = "its time is more than 24 hours from this machine's clock: one of the two is wrong";
const NOT_PROMISED: &str = "it has not said lately that it waits for this replica";
const REFUSED: &str = "it is another process than the one that was followed, and may know less. Either go on from \
                       here: REPLICAOF NO ONE, and have that one follow this one; or give up what is here for what it \
                       holds: REPLICAOF again";
const NOT_THE_LEADER: &str = "it does not lead as the cluster says, or not yet";
/// No primary waits for so long.
const PROMISE_MICROS_MAX: u64 = 60_000_000;
/// Slots that are gone through before others have their turn.
const SLOTS_AT_ONCE: usize = 64;

/// Where a primary serves clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Primary {
    /// A name or an address.
    pub host: String,
    /// Its port.
    pub port: u16,
}

/// Who says whom to follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The settings that the process begins with: what it has kept is not given up for less.
    Setting,
    /// An operator, who says that what is held here is to be replaced.
    Operator,
    /// The cluster, which says as what the primary leads, and nobody else is followed.
    Group(Led),
}

/// As what a primary of a cluster leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Led {
    /// Since which epoch.
    pub since: u64,
    /// What its state is called.
    pub state: RunId,
}

/// Something for a core to take over.
#[derive(Debug)]
pub struct Delivery {
    what: What,
    done: oneshot::Sender<Result<(), NotImported>>,
}

#[derive(Clone, Debug)]
enum What {
    /// Records, of which it takes its own.
    Put(Arc<[u8]>),
    /// Forget what it has of these slots, of which it takes its own.
    Clear(Arc<[u16]>),
    /// A copy of these slots begins.
    Begin(Arc<[u16]>),
    /// It has ended: what it did not have is forgotten.
    End(Arc<[u16]>),
    /// These slots are this node's no more: forget what it has of them, unless they are its own again.
    Drop(Arc<[u16]>),
}

/// Whom this process follows, and how that goes.
#[derive(Debug)]
pub struct Following {
    state: Mutex<State>,
    wanted: watch::Sender<Option<(Primary, By)>>,
    cores: Vec<mpsc::Sender<Delivery>>,
    /// Of the process, once there is one.
    hub: OnceLock<Weak<Hub>>,
}

#[derive(Debug, Default)]
struct State {
    primary: Option<Primary>,
    is_started: bool,
    state: FollowingState,
    heard_micros: u64,
    why_down: String,
    copied: usize,
    /// By core of the primary: until when it says that this replica is in step, in boot time.
    promised: Vec<u64>,
    /// By core of the primary: the last flush that was put.
    put: Vec<u32>,
    /// Who said so.
    by: Option<By>,
}

impl State {
    /// Whether the primary says of all its cores that this replica is in step.
    fn is_in_step(&self) -> bool {
        let now = boot_micros();
        self.state == FollowingState::Connected && self.promised.iter().all(|until| now < *until)
    }
}

impl Following {
    /// Of a process that follows nobody yet, and what its cores take deliveries from.
    pub fn new(cores: usize) -> (Following, Vec<mpsc::Receiver<Delivery>>) {
        let (cores, received) = (0..cores).map(|_| mpsc::channel(DELIVERIES_WAITING)).unzip();
        let (state, wanted, hub) = (Mutex::default(), watch::Sender::new(None), OnceLock::new());
        (Following { state, wanted, cores, hub }, received)
    }

    /// Names the process that follows, once.
    pub fn belong_to(&self, hub: &Arc<Hub>) {
        // Only the first call counts; there is no second.
        let _ = self.hub.set(Arc::downgrade(hub));
    }

    /// Follows `primary` from now on, or nobody.
    ///
    /// # Errors
    /// There can be no further thread.
    pub fn follow(&self, primary: Option<Primary>, by: By) -> std::io::Result<()> {
        let Some(hub) = self.hub.get().and_then(Weak::upgrade) else { return Err(std::io::ErrorKind::NotFound.into()) };
        let mut state = self.state();
        if primary.is_some() && !state.is_started {
            let hub = hub.clone();
            std::thread::Builder::new().name("tollgate-follow".to_owned()).spawn(move || run(&hub))?;
            state.is_started = true;
        }
        if state.primary == primary && state.by == Some(by) && matches!(by, By::Group(_)) {
            return Ok(());
        }
        let is_started = state.is_started;
        *state = State { primary: primary.clone(), by: Some(by), is_started, ..State::default() };
        hub.settings.shared.set_replica(primary.is_some());
        match &primary {
            Some(Primary { host, port }) => tracing::info!(host, port, "a primary is followed from now on"),
            None if hub.saving.is_mixed() => {
                tracing::warn!("it is a primary from now on, though not all that its primary held is here");
            }
            None => tracing::info!("it is a primary from now on"),
        }
        if primary.is_none() {
            match by {
                By::Group(Led { state, .. }) => hub.origin.leads_as(state),
                By::Setting | By::Operator => hub.origin.leads(|| run_id().ok().map(|id| run_id_bytes(&id))),
            }
            hub.saving.unmix();
        }
        // Under the lock, so that the last word is the same everywhere.
        self.wanted.send_replace(primary.map(|primary| (primary, by)));
        drop(state);
        Ok(())
    }

    /// What INFO and ROLE show. `None`: this process follows nobody.
    pub fn shown(&self) -> Option<Shown> {
        let state = self.state();
        let Primary { host, port } = state.primary.clone()?;
        let seconds = boot_micros().saturating_sub(state.heard_micros) / 1_000_000;
        Some(Shown {
            host,
            port,
            state: state.state,
            is_in_step: state.is_in_step(),
            silent_seconds: (state.heard_micros > 0).then_some(seconds),
            why_down: match state.state {
                FollowingState::Connected if !state.is_in_step() => NOT_PROMISED.to_owned(),
                _ => state.why_down.clone(),
            },
        })
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, state: FollowingState, why_down: String) {
        let mut now = self.state();
        if now.why_down != why_down && !why_down.is_empty() {
            tracing::warn!(why = why_down, "the primary is not followed");
        }
        now.state = state;
        now.why_down = why_down;
        now.copied = 0;
        now.promised = Vec::new();
        now.put = Vec::new();
    }

    /// Follows a process with so many cores now, none of which has told all it holds.
    fn begins(&self, cores: u16) {
        self.note(FollowingState::Sync, String::new());
        let mut state = self.state();
        state.promised = vec![0; usize::from(cores)];
        state.put = vec![0; usize::from(cores)];
    }

    /// A flush of a core of the primary was put.
    fn has_put(&self, core: u16, number: u32) {
        if let Some(place) = self.state().put.get_mut(usize::from(core)) {
            *place = number;
        }
    }

    /// How it follows whom the cluster says. `None`: it follows nobody, or not by the cluster's word.
    pub fn follows(&self) -> Option<Follows> {
        let state = self.state();
        let Some(By::Group(Led { since, .. })) = state.by.filter(|_| state.primary.is_some()) else { return None };
        let progress = state.put.iter().map(|number| u64::from(*number)).sum();
        Some(Follows { since, is_in_step: state.is_in_step(), progress })
    }

    /// A core of the primary says that this replica is in step for so long.
    fn promised(&self, core: u16, until: u64) {
        if let Some(place) = self.state().promised.get_mut(usize::from(core)) {
            *place = until;
        }
    }

    /// Why it was not followed stays known until it is.
    fn tries(&self) {
        self.state().state = FollowingState::Connecting;
    }

    fn heard(&self) {
        self.state().heard_micros = boot_micros();
    }

    fn copied(&self, cores: u16) {
        let mut state = self.state();
        state.copied += 1;
        if state.copied >= usize::from(cores) {
            state.state = FollowingState::Connected;
            if let Some(hub) = self.hub.get().and_then(Weak::upgrade) {
                hub.saving.unmix();
            }
            tracing::info!("all that the primary holds is here");
        }
    }

    /// Has all cores forget what they hold of slots that are this node's no more.
    pub async fn drop_slots(&self, slots: Arc<[u16]>) {
        if let Err(error) = self.deliver(What::Drop(slots)).await {
            tracing::error!(error, "keys of slots that are not this node's any more may be left");
        }
    }

    /// Has all cores take something over.
    async fn deliver(&self, what: What) -> Result<(), String> {
        let mut waits = Vec::with_capacity(self.cores.len());
        for core in &self.cores {
            let (done, wait) = oneshot::channel();
            core.send(Delivery { what: what.clone(), done }).await.map_err(|_| "the server ends".to_owned())?;
            waits.push(wait);
        }
        for wait in waits {
            let taken = wait.await.map_err(|_| "the server ends".to_owned())?;
            taken.map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

/// Takes over what a core is to have, for ever.
pub async fn take_over(worker: Rc<Worker>, mut deliveries: mpsc::Receiver<Delivery>) {
    while let Some(Delivery { what, done }) = deliveries.recv().await {
        let taken = match what {
            What::Drop(slots) => {
                let others = slots_of_others(&worker, &slots);
                each_slot(&worker, &others, |store, slot| {
                    let _ = store.flush_slot(slot);
                })
                .await
            }
            // What was on its way when this process was made a primary came too late, and is not acknowledged.
            _ if !worker.hub.settings.shared.is_replica() => Err(NotImported::NoReplica),
            What::Put(records) => import(&records, &mut worker.core.borrow_mut().store, worker.now()).map(drop),
            What::Clear(slots) => {
                each_slot(&worker, &slots, |store, slot| {
                    let _ = store.flush_slot(slot);
                })
                .await
            }
            What::Begin(slots) => {
                // The marks are its own from now on, and nobody else's.
                flows::end_all(&worker);
                each_slot(&worker, &slots, Store::begin_copy_of_slot).await
            }
            What::End(slots) => each_slot(&worker, &slots, Store::end_copy_of_slot).await,
        };
        worker.core.borrow_mut().publish();
        // Who does not wait any more has lost its link.
        let _ = done.send(taken);
    }
}

/// Such of the slots as this node does not serve.
fn slots_of_others(worker: &Worker, slots: &[u16]) -> Vec<u16> {
    let mut core = worker.core.borrow_mut();
    core.refresh_view();
    let is_own = |slot: u16| core.view.as_ref().is_some_and(|view| view.serves(slot));
    slots.iter().copied().filter(|slot| !is_own(*slot)).collect()
}

/// Does something to such of the slots as are the core's, some at a time.
async fn each_slot(worker: &Worker, slots: &[u16], act: impl Fn(&mut Store, u16)) -> Result<(), NotImported> {
    for slots in slots.chunks(SLOTS_AT_ONCE) {
        {
            let store = &mut worker.core.borrow_mut().store;
            for slot in slots {
                if store.owns(*slot) {
                    act(store, *slot);
                }
            }
        }
        tokio::task::yield_now().await;
    }
    Ok(())
}

fn run(hub: &Arc<Hub>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime {
        Ok(runtime) => runtime.block_on(follow_whom_is_wanted(hub)),
        Err(error) => tracing::error!(%error, "no primary can be followed"),
    }
}

async fn follow_whom_is_wanted(hub: &Arc<Hub>) {
    let mut wanted = hub.following.wanted.subscribe();
    let mut stopping = hub.stopping();
    loop {
        let primary = wanted.borrow_and_update().clone();
        tokio::select! {
            changed = wanted.changed() => if changed.is_err() { return },
            _ = stopping.wait_for(|stop| *stop) => return,
            () = follow(hub, primary) => {}
        }
    }
}

/// Follows one primary for ever; returns at once, never, if there is none.
async fn follow(hub: &Arc<Hub>, primary: Option<(Primary, By)>) {
    let Some((primary, by)) = primary else { return std::future::pending().await };
    let expected = match by {
        By::Setting => hub.origin.of(),
        // An operator may have what is here replaced by anybody's.
        By::Operator => None,
        By::Group(Led { state, .. }) => Some(state),
    };
    let known = Known(Arc::new(Mutex::new(Followed::expecting(expected))));
    loop {
        // What is loaded now would come over what the primary tells.
        while hub.is_loading() {
            tokio::time::sleep(LOADING_PAUSE).await;
        }
        hub.following.tries();
        let why = follow_once(hub, &primary, &known).await;
        let pause = match by {
            // It may be about to lead, or to be replaced.
            By::Group(_) => RETRY_IN_GROUP,
            _ if why == REFUSED => RETRY_REFUSED,
            _ => RETRY,
        };
        hub.following.note(FollowingState::Connect, why);
        tokio::time::sleep(pause).await;
    }
}

/// What the links to a primary know together.
#[derive(Clone)]
struct Known(Arc<Mutex<Followed>>);

impl Known {
    fn followed(&self) -> std::sync::MutexGuard<'_, Followed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has(&self, core: u16) -> Option<Has> {
        self.followed().has(core)
    }

    fn put(&self, core: u16, has: Option<Has>) {
        self.followed().put(core, has);
    }
}

/// Follows until something breaks; answers what.
async fn follow_once(hub: &Arc<Hub>, primary: &Primary, known: &Known) -> String {
    let first = match timeout(CONNECT_TIME, open(hub, primary, 0, known.has(0))).await {
        Ok(Ok(link)) => link,
        Ok(Err(why)) => return why,
        Err(_) => return "it does not answer".to_owned(),
    };
    let hello = first.hello;
    if !is_time_likely(hub, first.time) {
        return UNLIKELY_TIME.to_owned();
    }
    if !(1..=CORES_MAX).contains(&usize::from(hello.cores)) {
        return "it has more cores than any".to_owned();
    }
    if !known.followed().may_be(&hello) {
        return if hub.group.is_some() { NOT_THE_LEADER } else { REFUSED }.to_owned();
    }
    let mut links = vec![first];
    for core in 1..hello.cores {
        match timeout(CONNECT_TIME, open(hub, primary, core, known.has(core))).await {
            Ok(Ok(link)) if link.hello.run_id == hello.run_id && link.hello.cores == hello.cores => links.push(link),
            Ok(Ok(_)) => return "it was replaced meanwhile".to_owned(),
            Ok(Err(why)) => return why,
            Err(_) => return "it does not answer".to_owned(),
        }
    }
    hub.origin.takes_over(hello.run_id);
    let is_new = known.followed().begin(hello.run_id);
    if is_new {
        hub.saving.mix();
    }
    hub.following.begins(hello.cores);
    let mut receiving = JoinSet::new();
    for link in links {
        let (hub, known) = (hub.clone(), known.clone());
        receiving.spawn(async move { receive(&hub, link, is_new, &known).await });
    }
    let why = match receiving.join_next().await {
        Some(Ok(why)) => why,
        Some(Err(_)) | None => "a link has failed".to_owned(),
    };
    // It is down before any link is closed: from then on the primary does not wait for it. The set ends the others.
    hub.following.note(FollowingState::Connect, why.clone());
    why
}

fn is_time_likely(hub: &Hub, time: Micros) -> bool {
    hub.config.test_clock || time.abs_diff(wall_micros()) <= AHEAD_MICROS_MAX
}

/// A link whose first part was heard.
struct Link {
    stream: BufReader<TcpStream>,
    inflow: Inflow,
    buffer: Vec<u8>,
    hello: Hello,
    time: Micros,
}

async fn open(hub: &Arc<Hub>, primary: &Primary, core: u16, has: Option<Has>) -> Result<Link, String> {
    let text = |error: std::io::Error| error.to_string();
    let stream = TcpStream::connect((primary.host.as_str(), primary.port)).await.map_err(text)?;
    stream.set_nodelay(true).map_err(text)?;
    let mut stream = BufReader::with_capacity(READ_BYTES, stream);
    if let Some(password) = &hub.config.primary_password {
        let user = hub.config.primary_user.as_deref();
        say(&mut stream, ["AUTH"].into_iter().chain(user).chain([password.0.as_str()])).await.map_err(text)?;
        answer(&mut stream).await?;
    }
    let (version, core, port) = (VERSION.to_string(), core.to_string(), hub.settings.port.to_string());
    let has = has.map(|Has { run_id, telling, number }| {
        [String::from_utf8_lossy(&run_id).into_owned(), telling.to_string(), number.to_string()]
    });
    let told_before = has.iter().flatten().map(String::as_str);
    let node = hub.group.as_ref().and_then(|group| group.node()).map(|(id, run)| [id.to_string(), run.to_string()]);
    let named = node.iter().flat_map(|[id, run]| ["AS", id, run]);
    let words = ["RL.FLOW", &version, &core, &port].into_iter().chain(told_before).chain(named);
    say(&mut stream, words).await.map_err(text)?;
    let mut link = Link { stream, inflow: Inflow::default(), buffer: Vec::new(), hello: EMPTY, time: 0 };
    loop {
        // An error is a line of text; a part never begins so.
        if link.buffer.first() == Some(&b'-') && link.buffer.contains(&b'\n') {
            return Err(said(&link.buffer));
        }
        if link.buffer.len() > HELLO_BYTES_MAX {
            return Err("it says something else than a primary of this version".to_owned());
        }
        if let Some((Heard { told: Told::Hello(hello), time, .. }, used)) =
            link.inflow.hear(&link.buffer).map_err(|error| error.to_string())?
        {
            link.buffer.drain(..used);
            if hello.core.to_string() != core || (hello.resumes && has.is_none()) {
                return Err("it tells something else than it was asked".to_owned());
            }
            return Ok(Link { hello, time, ..link });
        }
        if link.stream.read_buf(&mut link.buffer).await.map_err(text)? == 0 {
            return Err("it closed the connection".to_owned());
        }
    }
}

const EMPTY: Hello =
    Hello { version: 0, run_id: [0; RUN_ID_BYTES], core: 0, cores: 0, telling: 0, continues: None, resumes: false };

async fn say<'a>(stream: &mut BufReader<TcpStream>, words: impl Iterator<Item = &'a str>) -> std::io::Result<()> {
    let bulks: Vec<String> = words.map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    stream.write_all(format!("*{}\r\n{}", bulks.len(), bulks.concat()).as_bytes()).await
}

async fn answer(stream: &mut BufReader<TcpStream>) -> Result<(), String> {
    let mut line = Vec::new();
    stream.take(1_024).read_until(b'\n', &mut line).await.map_err(|error| error.to_string())?;
    match line.first() {
        Some(b'+') => Ok(()),
        _ => Err(said(&line)),
    }
}

/// The first line of what a primary says, as far as it can be shown.
fn said(bytes: &[u8]) -> String {
    let line = bytes.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
    printable(line.get(..200).unwrap_or(line))
}

/// Takes over what a link tells, until it breaks; answers why.
async fn receive(hub: &Arc<Hub>, link: Link, is_new: bool, known: &Known) -> String {
    let Link { mut stream, mut inflow, mut buffer, hello, time } = link;
    let following = &hub.following;
    if !is_time_likely(hub, time) {
        return UNLIKELY_TIME.to_owned();
    }
    // The time goes on from the primary's, whatever it was.
    // In a cluster all go by one time, which never goes back.
    hub.clock.follow(time, is_new && hello.core == 0 && hub.group.is_none());
    let mut taking = Taking { following, own: slots_of_core(hello), copied: Arc::default() };
    if !hello.resumes {
        known.put(hello.core, None);
        if let Err(why) = taking.begin(taking.own.clone()).await {
            return why;
        }
    }
    let mut lateness = Lateness::default();
    loop {
        let mut taken = 0;
        loop {
            let heard = match inflow.hear(buffer.get(taken..).unwrap_or_default()) {
                Ok(Some((heard, used))) => {
                    taken += used;
                    heard
                }
                Ok(None) => break,
                Err(error) => return error.to_string(),
            };
            if !is_time_likely(hub, heard.time) {
                return UNLIKELY_TIME.to_owned();
            }
            hub.clock.follow(heard.time, false);
            following.heard();
            if let Told::Beat { promised } = heard.told {
                // From when it was sent, as far as that can be known; a test clock says nothing about it.
                let late = if hub.config.test_clock { 0 } else { lateness.of(heard.time, boot_micros()) };
                let promised = promised.min(PROMISE_MICROS_MAX);
                following.promised(hello.core, boot_micros().saturating_add(promised).saturating_sub(late));
            }
            if let Err(why) = taking.take(heard.told, hello).await {
                return why;
            }
            known.put(hello.core, inflow.has());
            following.has_put(hello.core, heard.number);
            let ack = Ack { number: heard.number, is_copied: inflow.is_copied() };
            if let Err(error) = stream.write_all(&ack.bytes()).await {
                return error.to_string();
            }
        }
        buffer.drain(..taken);
        match timeout(SILENCE_MAX, stream.read_buf(&mut buffer)).await {
            Ok(Ok(0)) => return "it closed the connection".to_owned(),
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return error.to_string(),
            Err(_) => return "it is silent".to_owned(),
        }
    }
}

fn slots_of_core(Hello { core, cores, .. }: Hello) -> Arc<[u16]> {
    (0..SLOTS).filter(|slot| owner(*slot, cores.max(1)) == core).collect()
}

/// What a link tells, on its way to the cores here.
struct Taking<'a> {
    following: &'a Following,
    /// The slots of the core that tells.
    own: Arc<[u16]>,
    /// Those that are copied anew.
    copied: Arc<[u16]>,
}

impl Taking<'_> {
    /// What is in these slots stays until it is known what replaces it: a primary that dies in between leaves at least
    /// that.
    async fn begin(&mut self, slots: Arc<[u16]>) -> Result<(), String> {
        self.copied = slots.clone();
        self.following.deliver(What::Begin(slots)).await
    }

    async fn take(&mut self, told: Told<'_>, hello: Hello) -> Result<(), String> {
        match told {
            Told::Changes { records, clears } => {
                if clears {
                    self.following.deliver(What::Clear(self.own.clone())).await?;
                }
                self.following.deliver(What::Put(records.into())).await
            }
            Told::Copy(records) => self.following.deliver(What::Put(records.into())).await,
            Told::Slots(slots) => {
                let slots = slots_of(slots).filter(|slot| owner(*slot, hello.cores.max(1)) == hello.core);
                self.begin(slots.collect()).await
            }
            Told::Copied => {
                self.following.deliver(What::End(self.copied.clone())).await?;
                self.following.copied(hello.cores);
                Ok(())
            }
            Told::Hello(_) | Told::Beat { .. } => Ok(()),
        }
    }
}
