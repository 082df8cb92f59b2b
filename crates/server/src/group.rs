//! This process as a node of a cluster: what the map says becomes what it does, and what it does becomes known.
//!
//! The problem: who serves what is decided elsewhere (tollgate_cluster), while cores serve at every moment. The idea:
//! two tasks of one core carry it over. One takes each new map in: the node follows whom it says, or leads. The other
//! tells the group which replicas this primary waits for, so that none other takes over. How long the lease lasts the
//! cluster's own thread says straight to the cores (`tenure`).
//!
//! **Invariant:** whom the group may have take over every core waits for: it is kept, and knows what had left until
//! then, before the group hears of it, and is let go only after the group has.

use crate::clock::{AHEAD_MICROS_MAX, boot_micros, wall_micros};
use crate::following::{By, Led, Primary};
use crate::hub::Hub;
use crate::run::StartError;
use crate::worker::Worker;
use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tollgate_cluster::{Cluster, Host, ProposeError};
use tollgate_engine::cluster::{Health, View};
use tollgate_engine::tunables::Tunable;
use tollgate_topology::change::Change;
use tollgate_topology::lease::Follows;
use tollgate_topology::map::{Endpoint, Info, Role};
use tollgate_topology::{NodeId, RunId, SlotMap};

/// Between two looks who is in step.
const LOOK: Duration = Duration::from_millis(5);
/// Cores look some hundred times a second whom to keep.
const ADOPTING_TIME: Duration = Duration::from_millis(500);
/// For so long a process that starts waits for what its cluster has decided, in looks.
const FIRST_MAP_LOOKS_MAX: usize = 1_000;
const FIRST_MAP_PAUSE: Duration = Duration::from_millis(1);
/// For so long a primary that hands over waits until its replica knows all, in looks of a millisecond.
const DRAINING_LOOKS_MAX: usize = 1_000;
const DRAINING_PAUSE: Duration = Duration::from_millis(1);

/// The replicas that the group may have take over.
#[derive(Debug, Default)]
pub struct Kept {
    version: u64,
    nodes: BTreeSet<(NodeId, RunId)>,
}

impl Kept {
    /// Whether this process of this node is one of them.
    pub fn contains(&self, node: &(NodeId, RunId)) -> bool {
        self.nodes.contains(node)
    }
}

/// A process's place in its cluster.
pub struct Group {
    cluster: OnceLock<(Cluster, RunId)>,
    kept: Mutex<Arc<Kept>>,
    /// By core: the version that it goes by.
    adopted: Box<[AtomicU64]>,
}

impl Group {
    /// Of a process with so many cores.
    pub fn new(cores: usize) -> Group {
        Group {
            cluster: OnceLock::new(),
            kept: Mutex::default(),
            adopted: (0..cores).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// The cluster, once it is started.
    pub fn cluster(&self) -> Option<&Cluster> {
        self.cluster.get().map(|(cluster, _)| cluster)
    }

    /// Which node this is, and which process of it.
    pub fn node(&self) -> Option<(NodeId, RunId)> {
        self.cluster.get().map(|(cluster, run)| (cluster.id(), *run))
    }

    /// Whom cores wait for, whatever happens to their links.
    pub fn kept(&self) -> Arc<Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn keep(&self, nodes: BTreeSet<(NodeId, RunId)>) -> u64 {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.nodes != nodes {
            *kept = Arc::new(Kept { version: kept.version.saturating_add(1), nodes });
        }
        kept.version
    }

    /// A core goes by this.
    pub fn adopted(&self, core: usize, kept: &Kept) {
        if let Some(place) = self.adopted.get(core) {
            place.store(kept.version, Ordering::Release);
        }
    }

    fn is_adopted(&self, version: u64) -> bool {
        self.adopted.iter().all(|of_core| of_core.load(Ordering::Acquire) >= version)
    }
}

/// Makes this process a node of its cluster. `listeners`: where other nodes are heard.
///
/// # Errors
/// What is kept of the cluster cannot be used.
pub fn start(hub: &Arc<Hub>, listeners: Vec<TcpListener>, peer_port: u16) -> Result<(), StartError> {
    let (Some(group), Some(config)) = (&hub.group, &hub.config.cluster) else { return Ok(()) };
    let or = |announced: u16, own: u16| if announced == 0 { own } else { announced };
    // It is forty hexadecimal digits.
    let run: RunId = hub.settings.run_id.parse().unwrap_or_default();
    let endpoint = Endpoint {
        host: config.announced_host.clone(),
        port: or(config.announced_port, hub.settings.port),
        peer_port: or(config.announced_cluster_port, peer_port),
    };
    let cores = u16::try_from(hub.config.cores).unwrap_or(u16::MAX);
    let settings = tollgate_cluster::Settings {
        directory: hub.config.dir.clone(),
        listeners,
        info: Info { run, endpoint, cores, core_ports: Vec::new() },
        secret: config.secret.as_ref().map(|secret| secret.0.clone().into_bytes()),
    };
    let cluster = Cluster::start(settings, Arc::new(Process(hub.clone()))).map_err(StartError::Cluster)?;
    tracing::info!(id = %cluster.id(), peer_port, "a node of a cluster");
    let (maps, node) = (cluster.map(), (cluster.id(), run));
    // Only the first call counts; there is no second.
    let _ = group.cluster.set((cluster, run));
    // Who asks it first is to be told who it is. Without a majority that may take for ever, and it starts all the same.
    for _ in 0..FIRST_MAP_LOOKS_MAX {
        let map = maps.borrow().clone();
        if map.nodes.contains_key(&node.0) {
            take_role(hub, node, &map);
            break;
        }
        std::thread::sleep(FIRST_MAP_PAUSE);
    }
    Ok(())
}

/// What the cluster asks of this process.
struct Process(Arc<Hub>);

impl Host for Process {
    fn boot_micros(&self) -> u64 {
        boot_micros()
    }

    fn time(&self) -> u64 {
        self.0.clock.now()
    }

    fn hears_time(&self, micros: u64) {
        if self.0.config.test_clock || micros <= wall_micros().saturating_add(AHEAD_MICROS_MAX) {
            self.0.clock.follow(micros, false);
        } else {
            tracing::error!("the cluster's time is more than 24 hours ahead of this machine's clock, and is not taken");
        }
    }

    fn follows(&self) -> Option<Follows> {
        self.0.following.follows()
    }

    fn serve_until(&self, until: u64) {
        self.0.tenure.set_until(until);
    }

    fn fails(&self) {
        self.0.cluster_has_failed.store(true, Ordering::SeqCst);
        self.0.stop();
    }

    fn drains(&self, replica: NodeId) -> Pin<Box<dyn Future<Output = bool> + Send>> {
        let hub = self.0.clone();
        Box::pin(async move {
            let ticks = hub.replicas.ticks_to_come();
            for _ in 0..DRAINING_LOOKS_MAX {
                let flushed = hub.replicas.flushed_by(&ticks);
                if flushed.is_some_and(|flushed| hub.replicas.does_node_know(replica, &flushed)) {
                    return true;
                }
                tokio::time::sleep(DRAINING_PAUSE).await;
            }
            false
        })
    }
}

/// Takes in each new map, for ever.
pub async fn follow_maps(worker: Rc<Worker>) {
    let hub = &worker.hub;
    let Some((group, cluster)) = hub.group.as_ref().and_then(|group| Some((group, group.cluster()?))) else { return };
    let (mut maps, mut health) = (cluster.map(), cluster.health());
    let (mut before, mut health_before) = (Arc::default(), tollgate_cluster::Health::default());
    loop {
        let map = maps.borrow_and_update().clone();
        let health_now = health.borrow_and_update().clone();
        log_health(&map, &health_before, &health_now);
        health_before = health_now;
        if let Some(node) = group.node() {
            take_role(hub, node, &map);
            log_role(node.0, &before, &map);
            let lost = lost_slots(node.0, &before, &map);
            if !lost.is_empty() {
                hub.following.drop_slots(lost.into()).await;
            }
        }
        before = map;
        let ended = tokio::select! {
            changed = maps.changed() => changed.is_err(),
            changed = health.changed() => changed.is_err(),
        };
        if ended {
            return;
        }
    }
}

/// Says what has become of this node.
fn log_role(id: NodeId, before: &SlotMap, now: &SlotMap) {
    let count = |map: &SlotMap| map.slots_of(id).map(|range| u64::from(range.count())).sum::<u64>();
    if count(before) != count(now) {
        tracing::info!(slots = count(now), before = count(before), epoch = now.epoch, "slots of this node");
    }
}

/// Says who is not heard any more, and who is again.
fn log_health(map: &SlotMap, before: &tollgate_cluster::Health, now: &tollgate_cluster::Health) {
    match (before.has_leader, now.has_leader) {
        (true, false) => tracing::warn!("no leader is heard: without a majority leases end, and nothing is served"),
        (false, true) => tracing::info!(leader = ?now.leader, "a leader is heard"),
        _ => {}
    }
    let at = |id: &NodeId| map.nodes.get(id).map(|node| node.info.endpoint.clone()).unwrap_or_default();
    for id in now.silent.iter().filter(|id| !before.silent.contains(id)) {
        let Endpoint { host, port, .. } = at(id);
        tracing::warn!(%id, host, port, "a node is not heard");
    }
    for id in before.silent.iter().filter(|id| !now.silent.contains(id)) {
        let Endpoint { host, port, .. } = at(id);
        tracing::info!(%id, host, port, "a node is heard again");
    }
}

/// Slots that were a primary's and are not, while it went on as one. Who follows another holds that one's slots.
fn lost_slots(id: NodeId, before: &SlotMap, now: &SlotMap) -> Vec<u16> {
    if now.leading(id).is_none() {
        return Vec::new();
    }
    let slots = before.slots_of(id).flat_map(|range| range.first..=range.last);
    slots.filter(|slot| now.owner_of(*slot) != Some(id)).collect()
}

/// Leads, or follows whom the map says. Who comes to serve is made ready before it is asked, and who ceases to is asked
/// no more before it changes.
fn take_role(hub: &Arc<Hub>, (id, run): (NodeId, RunId), map: &Arc<SlotMap>) {
    let Some(node) = map.nodes.get(&id) else { return };
    let followed = match &node.role {
        Role::Primary(leading) if leading.run == run => {
            follow(hub, None, By::Group(Led { since: leading.since, state: leading.state_name() }));
            publish(hub, map);
            return;
        }
        // Another process of this node led; who leads now is not decided.
        Role::Primary(_) => return publish(hub, map),
        Role::Replica { of } => *of,
    };
    publish(hub, map);
    if let (Some(primary), Some(leading)) = (map.nodes.get(&followed), map.leading(followed)) {
        let Endpoint { host, port, .. } = primary.info.endpoint.clone();
        let led = Led { since: leading.since, state: leading.state_name() };
        follow(hub, Some(Primary { host, port }), By::Group(led));
    }
}

fn follow(hub: &Arc<Hub>, primary: Option<Primary>, by: By) {
    if let Err(error) = hub.following.follow(primary, by) {
        tracing::error!(%error, "it cannot follow whom the cluster says");
    }
}

/// Shows the cores and their clients a map.
fn publish(hub: &Arc<Hub>, map: &Arc<SlotMap>) {
    let Some(group) = &hub.group else { return };
    let Some((id, _)) = group.node() else { return };
    hub.tenure.set_owns_slots(map.owns_any(id));
    let health = group.cluster().map(|cluster| cluster.health().borrow().clone()).unwrap_or_default();
    let tollgate_cluster::Health { has_leader, leader, silent, voters, .. } = health;
    let health = Health { has_leader, leader, voters: voters.len(), silent };
    hub.settings.shared.set_view(Arc::new(View::new(id, map.clone(), health)));
}

/// Tells the group whom this primary waits for, and has its lease as an operator sets it, for ever.
pub async fn tell_group(worker: Rc<Worker>) {
    let hub = &worker.hub;
    let Some((group, cluster)) = hub.group.as_ref().and_then(|group| Some((group, group.cluster()?))) else { return };
    let mut looks = tokio::time::interval(LOOK);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut teller = Teller { hub, group, cluster, number: 0, since: 0, words: BTreeMap::new(), lease_ms: None };
    loop {
        looks.tick().await;
        let map = cluster.map().borrow().clone();
        teller.tell_lease(&map).await;
        teller.tell_in_step(&map).await;
    }
}

struct Teller<'a> {
    hub: &'a Arc<Hub>,
    group: &'a Group,
    cluster: &'a Cluster,
    /// Of the last word about replicas, since this process has led.
    number: u64,
    since: u64,
    /// What was said of replicas and may still be taken up, by number: nobody who is named there is let go.
    words: BTreeMap<u64, BTreeMap<NodeId, RunId>>,
    /// The length of leases that CONFIG GET shows.
    lease_ms: Option<u32>,
}

impl Teller<'_> {
    async fn tell_in_step(&mut self, map: &SlotMap) {
        let Some((id, run)) = self.group.node() else { return };
        let Some(leading) = map.leading(id).filter(|leading| leading.run == run) else {
            self.words.clear();
            self.group.keep(BTreeSet::new());
            self.record(BTreeSet::new());
            return;
        };
        self.record(leading.in_step.iter().map(|(id, run)| (*id, *run)).collect());
        if self.since != leading.since {
            (self.since, self.number) = (leading.since, leading.in_step_number);
            self.words.clear();
        }
        // What comes behind the last one that was taken up never is.
        self.words.retain(|number, _| *number > leading.in_step_number);
        let wanted = self.hub.replicas.nodes_in_step();
        let kept = leading.in_step.iter().chain(self.words.values().flatten());
        let kept: BTreeSet<(NodeId, RunId)> = kept.map(|(id, run)| (*id, *run)).collect();
        if wanted == leading.in_step && self.words.is_empty() {
            self.group.keep(kept);
            return;
        }
        let with_new = kept.iter().copied().chain(wanted.iter().map(|(id, run)| (*id, *run))).collect();
        let version = self.group.keep(with_new);
        let is_new = wanted.iter().any(|(id, run)| leading.in_step.get(id) != Some(run));
        if is_new && !self.is_adopted(version).await {
            return;
        }
        // Since it was adopted, who is in step stays waited for until it is let go.
        let still = self.hub.replicas.nodes_in_step();
        let replicas: BTreeMap<NodeId, RunId> =
            wanted.into_iter().filter(|(id, run)| still.get(id) == Some(run)).collect();
        self.number += 1;
        self.words.insert(self.number, replicas.clone());
        let change = Change::InStep { of: id, since: self.since, number: self.number, replicas };
        match self.cluster.propose(change).await {
            Ok(applied) => self.until_applied(applied.epoch).await,
            Err(ProposeError::Refused(_) | ProposeError::NotYet(_)) => {
                self.words.remove(&self.number);
            }
            // It may have been heard all the same.
            Err(ProposeError::NoMajority | ProposeError::Other(_)) => {}
        }
    }

    /// Only who is on record counts for what is required, and is shown as in step: who is not yet cannot take over.
    fn record(&self, recorded: BTreeSet<(NodeId, RunId)>) {
        if self.hub.replicas.set_recorded(recorded) {
            self.hub.judge_replicas();
        }
    }

    async fn is_adopted(&self, version: u64) -> bool {
        let adopted = async {
            while !self.group.is_adopted(version) {
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::time::timeout(ADOPTING_TIME, adopted).await.is_ok()
    }

    /// Waits until a map of this epoch is known here.
    async fn until_applied(&self, epoch: u64) {
        let mut maps = self.cluster.map();
        let _ = tokio::time::timeout(ADOPTING_TIME, maps.wait_for(|map| map.epoch >= epoch)).await;
    }

    /// What CONFIG SET says of the lease holds in the whole cluster, and what holds there CONFIG GET shows.
    async fn tell_lease(&mut self, map: &SlotMap) {
        let tunables = &self.hub.settings.tunables;
        let Ok(wanted) = u32::try_from(tunables.get(Tunable::ClusterNodeTimeout)) else { return };
        // A node that begins alone says what its settings say; one that joined goes by what is there.
        let is_set = match self.lease_ms {
            Some(shown) => wanted != shown,
            None => map.nodes.len() == 1 && wanted != map.lease.ms,
        };
        if map.nodes.is_empty() {
            return;
        }
        if is_set {
            let Ok(applied) = self.cluster.propose(Change::SetLease { ms: wanted }).await else { return };
            // By an older map what was set would be taken back, and with it what is set next.
            self.until_applied(applied.epoch).await;
        }
        let ms = if is_set { wanted } else { map.lease.ms };
        // What was set meanwhile is told next time.
        if tunables.get(Tunable::ClusterNodeTimeout) == i64::from(wanted) {
            tunables.set(Tunable::ClusterNodeTimeout, i64::from(ms));
        }
        self.lease_ms = Some(ms);
    }
}
