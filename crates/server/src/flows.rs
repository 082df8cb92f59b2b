//! A primary's side of replication: what each core tells those who follow.
//!
//! The problem: a replica must hear of every change within milliseconds, whatever the number of cores on its side, and
//! one that is slow must cost the primary neither memory nor time. The idea: a link for each core of the primary,
//! served by that core itself: a connection that asks for a core's flow is handed to it. A tick takes what changed and
//! puts the same bytes into each link's buffer; a buffer that grows too large ends its link, and the replica begins
//! anew. Where nothing has changed for a tick the next change is told at once, and where answers wait for replicas all
//! that they wait for is.

use crate::clock::boot_micros;
use crate::group::Group;
use crate::hub::Hub;
use crate::worker::Worker;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Notify;
use tollgate_engine::client_state::ClientState;
use tollgate_engine::dispatch::{FENCED, NOREPLICAS};
use tollgate_engine::replication::FLOW_VERSION;
use tollgate_engine::session::Client;
use tollgate_engine::settings::ReplicaSeen;
use tollgate_replication::VERSION;
use tollgate_replication::flow::{Ack, Has, Hello, RUN_ID_BYTES};
use tollgate_replication::in_step::{Admitted, LinkId};
use tollgate_replication::outflow::{Moment, Outflow};
use tollgate_resp::Protocol;
use tollgate_topology::{NodeId, RunId};

const _: () = assert!(VERSION as u16 == FLOW_VERSION, "a replica asks for what it is told");

/// Between two flushes.
const FLUSH: Duration = Duration::from_millis(5);
/// The longest time between two signs of life of a link; a tenth of what a replica may take to acknowledge, if less.
const BEAT_MICROS_MAX: u64 = 100_000;
/// Keys that the walk of a link goes on by at each flush: some tenths of a millisecond.
const COPY_KEYS: usize = 2_048;
/// Bytes that wait for a link from which on its copy waits.
const COPY_WAITS_BYTES: usize = 512 * 1024;
/// Bytes that wait for a link at which it is ended.
const LINK_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Between two looks of a WAIT.
const WAIT_PAUSE: Duration = Duration::from_millis(1);
const ACK_BYTES: u64 = Ack::BYTES as u64;
/// The most links of a core.
pub const LINKS_MAX: usize = 16;

/// Who asks for a flow.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Follower {
    /// Where it is, and the port on which it serves clients.
    pub host: String,
    /// See `host`.
    pub port: u16,
    /// Which node of a cluster it is, and which process of that.
    pub node: Option<(NodeId, RunId)>,
}

/// The flows of one core.
#[derive(Default)]
pub struct Flows {
    /// What is told; none before the first replica.
    pub outflow: RefCell<Option<Outflow>>,
    links: RefCell<BTreeMap<LinkId, Rc<Link>>>,
    /// Whose links those are of which anything is to be expected, also when they are gone.
    followers: RefCell<BTreeMap<LinkId, Follower>>,
    is_ticking: Cell<bool>,
    /// Whether nothing had changed at the last flush.
    is_quiet: Cell<bool>,
    soon: Notify,
}

impl Flows {
    /// Whether nothing had changed when replicas were told last.
    pub fn is_quiet(&self) -> bool {
        self.is_quiet.get()
    }

    /// Lets the link of a client look at its state: it was killed.
    pub fn wake(&self, client: u64) {
        for link in self.links.borrow().values().filter(|link| link.client.id == client) {
            link.over.notify_one();
        }
    }

    /// Has replicas told after this turn, rather than at the next tick.
    pub fn flush_soon(&self) {
        self.is_quiet.set(false);
        self.soon.notify_one();
    }
}

/// What waits for one link.
struct Link {
    /// As whom CLIENT LIST shows it.
    client: Rc<Client>,
    follower: Follower,
    waiting: RefCell<Vec<u8>>,
    /// Bytes that are being written.
    under_way: Cell<usize>,
    more: Notify,
    /// When it was given the last sign of life.
    beaten: Cell<u64>,
    is_in_step: Cell<bool>,
    is_over: Cell<bool>,
    over: Notify,
}

impl Link {
    fn new(client: Rc<Client>, follower: Follower) -> Link {
        let (waiting, under_way, more, over) = Default::default();
        let (beaten, is_in_step, is_over) = Default::default();
        Link { client, follower, waiting, under_way, more, beaten, is_in_step, is_over, over }
    }

    fn bytes(&self) -> usize {
        self.waiting.borrow().len() + self.under_way.get()
    }

    /// Ends it, also in the middle of a write that its replica does not take.
    fn end(&self) {
        self.is_over.set(true);
        *self.waiting.borrow_mut() = Vec::new();
        self.over.notify_one();
    }
}

/// Tells one replica all that this core holds, or what has changed since it was told last, until it leaves.
pub async fn serve(worker: Rc<Worker>, stream: TcpStream, follower: Follower, has: Option<Has>) {
    let flows = &worker.flows;
    if worker.hub.settings.shared.is_replica() {
        return;
    }
    if flows.links.borrow().len() >= LINKS_MAX {
        return tracing::warn!(replica = follower.host, "it is told nothing: {LINKS_MAX} links are open already");
    }
    let client = Rc::new(client_of(&worker, &stream));
    let link = Rc::new(Link::new(client.clone(), follower.clone()));
    let id = {
        let mut core = worker.core.borrow_mut();
        let mut outflow = flows.outflow.borrow_mut();
        let outflow = outflow.get_or_insert_with(|| {
            Outflow::new(hello(&worker.hub, worker.index), worker.hub.settings.tunables.replica_timeout_micros())
        });
        let (run_id, continues) = worker.hub.origin.told();
        outflow.set_origin(run_id, continues);
        outflow.join(&mut core.store, has, worker.now(), &mut link.waiting.borrow_mut())
    };
    let (read, write) = stream.into_split();
    flows.links.borrow_mut().insert(id, link.clone());
    flows.followers.borrow_mut().insert(id, follower.clone());
    worker.core.borrow_mut().clients.insert(client.id, client.clone());
    worker.hub.replicas.joined(&follower);
    if !flows.is_ticking.replace(true) {
        tokio::task::spawn_local(tick(worker.clone()));
    }
    let ended = tokio::select! {
        ended = tell(&link, write) => ended,
        () = link.over.notified() => Err(io::Error::other(match link.is_over.get() {
            true => "it must begin anew: more waited for it than is kept",
            false => "it was killed",
        })),
        ended = hear(&worker, id, &follower, read) => ended,
    };
    if let Err(error) = ended {
        let (replica, port, core) = (&follower.host, follower.port, worker.index);
        tracing::info!(replica, port, core, %error, "a replica's link ended");
    }
    flows.links.borrow_mut().remove(&id);
    worker.core.borrow_mut().clients.remove(&client.id);
    worker.hub.replicas.left(&follower, (worker.index, id));
    worker.hub.judge_replicas();
    if let Some(outflow) = &mut *flows.outflow.borrow_mut() {
        outflow.leave(&mut worker.core.borrow_mut().store, id, boot_micros());
    }
    look(&worker);
}

/// What CLIENT LIST shows of a link.
fn client_of(worker: &Worker, stream: &TcpStream) -> Client {
    let now = worker.now();
    let shown = |address: io::Result<SocketAddr>| address.map(|address| address.to_string()).unwrap_or_default();
    let client = Client {
        id: worker.hub.next_client_id(),
        address: shown(stream.peer_addr()),
        local_address: shown(stream.local_addr()),
        descriptor: stream.as_raw_fd(),
        since: now,
        core: u16::try_from(worker.index).unwrap_or(0),
        active: Cell::new(now),
        protocol: Cell::new(Protocol::Resp2),
        last_command: Cell::new("rl.flow"),
        name: RefCell::default(),
        lib_name: RefCell::default(),
        lib_version: RefCell::default(),
        input_bytes: Cell::new(0),
        output_bytes: Cell::new(0),
        commands: Cell::new(1),
        state: ClientState::default(),
    };
    client.state.is_replica.set(true);
    client
}

fn hello(hub: &Hub, core: usize) -> Hello {
    let mut run_id = [0; RUN_ID_BYTES];
    run_id.iter_mut().zip(hub.settings.run_id.bytes()).for_each(|(place, byte)| *place = byte);
    let number = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
    let (core, cores) = (number(core), number(hub.mesh.cores()));
    Hello { version: VERSION, run_id, core, cores, telling: 0, continues: None, resumes: false }
}

async fn tell(link: &Link, mut write: OwnedWriteHalf) -> io::Result<()> {
    loop {
        let bytes = std::mem::take(&mut *link.waiting.borrow_mut());
        if bytes.is_empty() {
            link.more.notified().await;
            continue;
        }
        let count = u64::try_from(bytes.len()).unwrap_or(0);
        link.under_way.set(bytes.len());
        link.client.state.unsent_bytes.set(count);
        write.write_all(&bytes).await?;
        link.under_way.set(0);
        link.client.state.unsent_bytes.set(0);
        link.client.output_bytes.set(link.client.output_bytes.get() + count);
    }
}

async fn hear(worker: &Rc<Worker>, id: LinkId, follower: &Follower, mut read: OwnedReadHalf) -> io::Result<()> {
    loop {
        let mut bytes = [0; Ack::BYTES];
        read.read_exact(&mut bytes).await?;
        let ack = Ack::read(bytes);
        // What it was is to be seen before it is less.
        note(worker);
        if let Some(outflow) = &mut *worker.flows.outflow.borrow_mut() {
            outflow.acknowledged(id, ack.number, ack.is_copied, boot_micros());
            let is_in_step = stands(worker, outflow, id);
            if let Some(link) = worker.flows.links.borrow().get(&id) {
                link.client.active.set(worker.now());
                link.client.input_bytes.set(link.client.input_bytes.get() + ACK_BYTES);
                if link.is_in_step.replace(is_in_step) != is_in_step {
                    worker.hub.stands(follower, (worker.index, id), is_in_step);
                }
            }
        }
        worker.gate.release(worker);
        note(worker);
        if ack.is_copied {
            worker.hub.replicas.acknowledged(follower, (worker.index, id), ack.number);
        }
    }
}

async fn tick(worker: Rc<Worker>) {
    let mut interval = tokio::time::interval(FLUSH);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let is_tick = tokio::select! {
            _ = interval.tick() => true,
            () = worker.flows.soon.notified() => false,
        };
        flush(&worker, is_tick);
        look(&worker);
        let is_over = worker.flows.links.borrow().is_empty()
            && worker.gate.bounded.borrow().held() == 0
            && worker.flows.outflow.borrow().as_ref().is_none_or(|outflow| outflow.in_step.is_empty())
            // What was charged just before is refused here.
            && !worker.hub.settings.shared.lacks_replicas();
        if is_over {
            worker.flows.is_ticking.set(false);
            return;
        }
    }
}

/// Whether a failover to a link's replica costs no more than is said; in a cluster, whether the group may be told so.
fn stands(worker: &Worker, outflow: &Outflow, link: LinkId) -> bool {
    match worker.hub.group {
        Some(_) => outflow.in_step.may_take_over(link),
        None => outflow.in_step.is_in_step(link),
    }
}

/// Finds out who is in step, and lets out what waited for who is not any more.
fn look(worker: &Rc<Worker>) {
    let flows = &worker.flows;
    if let Some(outflow) = &mut *flows.outflow.borrow_mut() {
        let tunables = &worker.hub.settings.tunables;
        outflow.in_step.set_timeout(tunables.replica_timeout_micros());
        worker.gate.set_bound(tunables.overshoot_max(), worker.hub.mesh.cores());
        if let Some(group) = &worker.hub.group {
            keep(worker, group, outflow);
        }
        outflow.look(&mut worker.core.borrow_mut().store, boot_micros());
        let links = flows.links.borrow();
        for (id, link) in &*links {
            let is_in_step = stands(worker, outflow, *id);
            if link.is_in_step.replace(is_in_step) != is_in_step {
                worker.hub.stands(&link.follower, (worker.index, *id), is_in_step);
            }
        }
        let lacks = worker.hub.settings.shared.lacks_replicas();
        worker.gate.look(outflow, lacks, flows.is_quiet.get() && !links.is_empty());
    }
    if worker.hub.settings.shared.lacks_replicas() {
        worker.gate.refuse_all(worker, NOREPLICAS);
    }
    worker.gate.release(worker);
    note(worker);
}

/// Has waited for, until the group lets it go, whom the group may have take over. One that has come again is waited for
/// by its new link alone.
fn keep(worker: &Worker, group: &Group, outflow: &mut Outflow) {
    let mut followers = worker.flows.followers.borrow_mut();
    let links: Vec<(LinkId, bool)> = outflow.in_step.links().collect();
    followers.retain(|link, _| links.iter().any(|(of, _)| of == link));
    let kept = group.kept();
    let nodes = |(link, is_gone): &(LinkId, bool)| Some((*link, *is_gone, followers.get(link)?.node?));
    let nodes: Vec<(LinkId, bool, (NodeId, RunId))> = links.iter().filter_map(nodes).collect();
    for (link, is_gone, node) in &nodes {
        let has_come_again = || nodes.iter().any(|(other, _, of)| of == node && outflow.in_step.is_in_step(*other));
        let is_kept = kept.contains(node) && !(*is_gone && has_come_again());
        outflow.in_step.keep(*link, is_kept);
    }
    group.adopted(worker.index, &kept);
}

/// Brings what INFO and /metrics show up to date, at each tick of a core too: with no replica left it goes on growing.
pub fn note(worker: &Worker) {
    let (outflow, core) = (worker.flows.outflow.borrow(), worker.core.borrow());
    let Some(outflow) = &*outflow else { return };
    let (bounded, units) = (worker.gate.bounded.borrow(), core.counters.units_admitted());
    let now = bounded.overshoot(units, &outflow.in_step);
    core.counters.failover_overshoot_noted.set(now);
    let safe = if bounded.keeps_back(&outflow.in_step) { u64::MAX } else { units.saturating_sub(now) };
    core.counters.units_safe.set(safe);
    let peak = &core.counters.failover_overshoot_peak;
    peak.set(peak.get().max(now));
    let writes = core.counters.plain_writes().saturating_sub(outflow.in_step.safe().writes);
    core.counters.failover_overshoot_writes.set(writes);
}

/// Tells all links what has changed; at a tick, what else is to be told.
fn flush(worker: &Worker, is_tick: bool) {
    let (mut core, now) = (worker.core.borrow_mut(), worker.now());
    let moment = Moment { timeline: now, clock: boot_micros() };
    let mut outflow = worker.flows.outflow.borrow_mut();
    let Some(outflow) = &mut *outflow else { return };
    let links = worker.flows.links.borrow();
    if links.is_empty() && outflow.in_step.is_empty() {
        return;
    }
    // Where nobody is told any more but somebody is still waited for, changes are numbered all the same.
    let mut out = Vec::new();
    let admitted = Admitted { units: core.counters.units_admitted(), writes: core.counters.plain_writes() };
    let flushed = outflow.flush(&mut core.store, admitted, moment, &mut out);
    worker.hub.replicas.ticked(worker.index, outflow.number());
    worker.flows.is_quiet.set(is_tick && out.is_empty());
    let Ok(records) = flushed else {
        links.values().for_each(|link| link.end());
        return;
    };
    core.counters.replication_records.add(records);
    // All walks together take no more than one would.
    let copying = links.keys().filter(|id| outflow.is_walking(**id)).count();
    let beat_micros = (worker.hub.settings.tunables.replica_timeout_micros() / 10).min(BEAT_MICROS_MAX);
    for (id, link) in links.iter().filter(|(_, link)| !link.is_over.get()) {
        {
            let mut waiting = link.waiting.borrow_mut();
            let before = waiting.len();
            waiting.extend_from_slice(&out);
            if is_tick && waiting.len() + link.under_way.get() < COPY_WAITS_BYTES {
                outflow.walk(*id, &mut core.store, COPY_KEYS / copying.max(1), now, &mut waiting);
            }
            if moment.clock.saturating_sub(link.beaten.get()) >= beat_micros {
                outflow.beat(*id, moment, &mut waiting);
                link.beaten.set(moment.clock);
            }
            let told = u64::try_from(waiting.len() - before).unwrap_or(0);
            core.counters.replication_bytes.add(told);
        }
        if link.bytes() > LINK_BYTES_MAX {
            link.end();
        } else if link.bytes() > 0 {
            link.more.notify_one();
        }
    }
}

/// Ends all links of a core: its process follows another, and nobody is told its changes from now on.
pub fn end_all(worker: &Worker) {
    // What is kept back was not told, and never will be.
    worker.gate.refuse_all(worker, if worker.hub.group.is_some() { FENCED } else { NOREPLICAS });
    if let Some(outflow) = &mut *worker.flows.outflow.borrow_mut() {
        outflow.end_telling(&mut worker.core.borrow_mut().store);
    }
    worker.flows.links.borrow().values().for_each(|link| link.end());
}

/// Waits until `count` replicas have acknowledged all that was changed before this was called, or for `timeout`
/// milliseconds (0: for ever), or until the server ends. Answers how many have.
pub async fn wait(worker: &Worker, count: u64, timeout: u64) -> u64 {
    let (hub, until) = (&worker.hub, boot_micros().saturating_add(timeout.saturating_mul(1_000)));
    let replicas = &hub.replicas;
    let ticks = replicas.ticks_to_come();
    let mut flushed: Option<Vec<u32>> = None;
    loop {
        flushed = flushed.or_else(|| replicas.flushed_by(&ticks));
        let known = flushed.as_ref().map_or(0, |flushed| replicas.that_know(flushed));
        let is_over = timeout > 0 && boot_micros() >= until;
        let none_is_there = count == 0 && replicas.seen().is_empty();
        if none_is_there || is_over || worker.is_stopping() || (flushed.is_some() && known >= count) {
            return known;
        }
        tokio::time::sleep(WAIT_PAUSE).await;
    }
}

/// The replicas of a process, each with a link a core.
#[derive(Debug)]
pub struct Replicas {
    known: Mutex<BTreeMap<Follower, Links>>,
    /// Which of them may take over by the record of the cluster's group. `None`: there is no cluster.
    recorded: Mutex<Option<BTreeSet<(NodeId, RunId)>>>,
    cores: Box<[Progress]>,
}

/// How far a core is.
#[derive(Debug, Default)]
struct Progress {
    /// Flushes since the start, those without a change too.
    ticks: AtomicU64,
    /// The last flush.
    number: AtomicU32,
}

/// A link of a core. One that has broken at the replica's side may be there beside the one that came after it.
type OfCore = (usize, LinkId);

#[derive(Debug, Default)]
struct Links {
    open: usize,
    /// Those in step.
    in_step: BTreeSet<OfCore>,
    /// Those whose copy is whole: the last flush that was acknowledged.
    acknowledged: BTreeMap<OfCore, u32>,
}

impl Links {
    fn is_in_step(&self, cores: usize) -> bool {
        count_cores(self.in_step.iter()) >= cores
    }

    fn is_online(&self, cores: usize) -> bool {
        count_cores(self.acknowledged.keys()) >= cores
    }

    /// Whether all these flushes were acknowledged, by core.
    fn know(&self, flushed: &[u32]) -> bool {
        flushed.iter().enumerate().all(|(core, number)| self.has(core, *number))
    }

    fn has(&self, core: usize, number: u32) -> bool {
        self.acknowledged.iter().any(|((of, _), has)| *of == core && *has >= number)
    }
}

/// Of links in the order of their cores.
fn count_cores<'a>(links: impl Iterator<Item = &'a OfCore>) -> usize {
    let (mut count, mut last) = (0, None);
    for (core, _) in links {
        count += usize::from(last.replace(*core) != Some(*core));
    }
    count
}

impl Replicas {
    /// Of a process with so many cores.
    pub fn new(cores: usize) -> Replicas {
        Replicas {
            known: Mutex::default(),
            recorded: Mutex::default(),
            cores: (0..cores).map(|_| Progress::default()).collect(),
        }
    }

    fn with<R>(&self, change: impl FnOnce(&mut BTreeMap<Follower, Links>) -> R) -> R {
        change(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The ticks, by core, after which all that was changed by now is told: one that is under way may have passed what
    /// was changed last, the one after it has not.
    pub fn ticks_to_come(&self) -> Vec<u64> {
        self.cores.iter().map(|core| core.ticks.load(Ordering::SeqCst) + 2).collect()
    }

    /// The last flushes, by core, once these ticks have come.
    pub fn flushed_by(&self, ticks: &[u64]) -> Option<Vec<u32>> {
        let are_told = self.cores.iter().zip(ticks).all(|(core, tick)| core.ticks.load(Ordering::SeqCst) >= *tick);
        are_told.then(|| self.cores.iter().map(|core| core.number.load(Ordering::SeqCst)).collect())
    }

    /// Whether a node of the cluster has acknowledged these flushes, by core.
    pub fn does_node_know(&self, id: NodeId, flushed: &[u32]) -> bool {
        let is_it = |follower: &Follower| follower.node.is_some_and(|(node, _)| node == id);
        self.with(|replicas| {
            let mut links = replicas.iter().filter(|(follower, _)| is_it(follower)).map(|(_, links)| links);
            links.any(|links| links.know(flushed))
        })
    }

    /// The nodes of the cluster that are in step with all cores.
    pub fn nodes_in_step(&self) -> BTreeMap<NodeId, RunId> {
        let in_step =
            |(follower, links): (&Follower, &Links)| follower.node.filter(|_| links.is_in_step(self.cores.len()));
        self.with(|replicas| replicas.iter().filter_map(in_step).collect())
    }

    /// Replicas that have acknowledged these flushes, by core.
    fn that_know(&self, flushed: &[u32]) -> u64 {
        let knows = |links: &&Links| links.know(flushed);
        u64::try_from(self.with(|replicas| replicas.values().filter(knows).count())).unwrap_or(0)
    }

    /// Replicas that have acknowledged all that was flushed.
    pub fn known_now(&self) -> u64 {
        let flushed: Vec<u32> = self.cores.iter().map(|core| core.number.load(Ordering::SeqCst)).collect();
        self.that_know(&flushed)
    }

    fn ticked(&self, core: usize, number: u32) {
        if let Some(progress) = self.cores.get(core) {
            progress.number.store(number, Ordering::SeqCst);
            progress.ticks.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn joined(&self, follower: &Follower) {
        self.with(|replicas| replicas.entry(follower.clone()).or_default().open += 1);
    }

    fn acknowledged(&self, follower: &Follower, link: OfCore, number: u32) {
        self.with(|replicas| {
            if let Some(links) = replicas.get_mut(follower) {
                links.acknowledged.insert(link, number);
            }
        });
    }

    fn left(&self, follower: &Follower, link: OfCore) {
        self.with(|replicas| {
            if let Some(links) = replicas.get_mut(follower) {
                links.open = links.open.saturating_sub(1);
                links.acknowledged.remove(&link);
                links.in_step.remove(&link);
                if links.open == 0 {
                    replicas.remove(follower);
                }
            }
        });
    }

    /// A replica is in step with a core, or is so no more. Answers whether it is now, if that is another than before,
    /// with all of them.
    pub fn stands(&self, follower: &Follower, link: OfCore, is_in_step: bool) -> Option<bool> {
        self.with(|replicas| {
            let links = replicas.get_mut(follower)?;
            let was = links.is_in_step(self.cores.len());
            match is_in_step {
                true => links.in_step.insert(link),
                false => links.in_step.remove(&link),
            };
            let is = links.is_in_step(self.cores.len());
            (was != is).then_some(is)
        })
    }

    /// Says who may take over by the record of the group. Answers whether that is otherwise than before.
    pub fn set_recorded(&self, recorded: BTreeSet<(NodeId, RunId)>) -> bool {
        let mut place = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        let is_other = place.as_ref() != Some(&recorded);
        *place = Some(recorded);
        is_other
    }

    /// Whether a replica may take over, as far as others say.
    fn is_recorded(&self, follower: &Follower) -> bool {
        let recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        recorded.as_ref().is_none_or(|recorded| follower.node.is_some_and(|node| recorded.contains(&node)))
    }

    /// Counts those that are in step with all cores, and may take over; until `act` returns that stays so.
    pub fn count_in_step(&self, act: impl FnOnce(usize)) {
        let counts =
            |(follower, links): &(&Follower, &Links)| links.is_in_step(self.cores.len()) && self.is_recorded(follower);
        self.with(|replicas| act(replicas.iter().filter(counts).count()));
    }

    /// All of them; a replica is online once all cores of this process have told it what they hold.
    pub fn seen(&self) -> Vec<ReplicaSeen> {
        let seen = |(follower, links): (&Follower, &Links)| ReplicaSeen {
            host: follower.host.clone(),
            port: follower.port,
            is_online: links.is_online(self.cores.len()),
            is_in_step: links.is_in_step(self.cores.len()) && self.is_recorded(follower),
        };
        self.with(|replicas| replicas.iter().map(seen).collect())
    }
}
