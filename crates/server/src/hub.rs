//! What all cores share: lanes, clock, counters, settings, and the word to stop.

use crate::clock::Clock;
use crate::config::Config;
use crate::flows::{Follower, Replicas};
use crate::following::Following;
use crate::group::Group;
use crate::loading::NotLoaded;
use crate::monitor::Monitors;
use crate::origin::Origin;
use crate::pause::Pause;
use crate::saving::Saving;
use crate::tenure::Tenure;
use crossbeam::queue::ArrayQueue;
use crossbeam::utils::CachePadded;
use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;
use tollgate_engine::counters::Counters;
use tollgate_engine::parcel::Parcel;
use tollgate_engine::settings::Settings;
use tollgate_engine::shared::Standing;
use tollgate_mailbox::Mesh;
use tollgate_replication::flow::Has;
use tollgate_replication::in_step::LinkId;

/// The process's clock.
pub type SharedClock = Arc<Clock>;

/// How many messages a core may have outstanding at another. With two cores and a message for each read of a socket,
/// more connections than this would have to be waiting at one moment.
pub const LANE_MESSAGES_MAX: usize = 512;
/// Fresh connections that may wait for a core to take them over.
const HAND_OVER_MAX: usize = 1024;

/// A connection that was accepted and not yet served.
#[derive(Debug)]
pub enum Fresh {
    /// Over TCP, with the client's address and the server's.
    Tcp(TcpStream, SocketAddr, SocketAddr),
    /// Over the Unix socket.
    Unix(UnixStream),
    /// A replica that is to be told what this core holds.
    Flow(Box<FreshFlow>),
}

/// Who is to be told what a core holds.
#[derive(Debug)]
pub struct FreshFlow {
    /// The connection.
    pub stream: TcpStream,
    /// The replica.
    pub follower: Follower,
    /// What it was told before.
    pub has: Option<Has>,
}

/// Shared by all threads of a server.
pub struct Hub {
    /// The lanes between cores.
    pub mesh: Mesh<Box<Parcel>>,
    /// The time.
    pub clock: SharedClock,
    /// The engine's settings.
    pub settings: Arc<Settings>,
    /// The counters of each core.
    pub counters: Arc<[Arc<Counters>]>,
    /// The configuration.
    pub config: Config,
    /// The most clients, after what the limit on open files leaves.
    pub clients_max: usize,
    /// Whether commands are held.
    pub pause: Pause,
    /// Who is shown what others do.
    pub monitors: Arc<Monitors>,
    handed_over: Box<[ArrayQueue<Fresh>]>,
    loads: Box<[CachePadded<AtomicUsize>]>,
    next_client_id: AtomicU64,
    stop: watch::Sender<bool>,
    /// Whom this process follows.
    pub following: Arc<Following>,
    /// Who follows it.
    pub replicas: Arc<Replicas>,
    /// Whose state is held here.
    pub origin: Origin,
    /// Whether it may serve now.
    pub tenure: Arc<Tenure>,
    /// The cluster that it is a node of.
    pub group: Option<Group>,
    /// The snapshots.
    pub saving: Arc<Saving>,
    /// Whether clients are served: not before all that was kept is loaded, and not while the server stops.
    pub ready: Arc<AtomicBool>,
    /// Whether the last snapshot is wanted.
    pub saves_at_end: AtomicBool,
    not_loaded: Mutex<Option<NotLoaded>>,
    /// Whether this node of a cluster cannot keep what was agreed, so that the process ends.
    pub cluster_has_failed: AtomicBool,
    /// Cores whose connections have ended.
    quiet: AtomicUsize,
}

impl Hub {
    /// For as many cores as there are counters.
    pub fn new(
        config: Config,
        clients_max: usize,
        clock: SharedClock,
        settings: Arc<Settings>,
        counters: Arc<[Arc<Counters>]>,
        saving: Arc<Saving>,
        (following, replicas, origin, tenure): (Arc<Following>, Arc<Replicas>, Origin, Arc<Tenure>),
    ) -> Hub {
        let cores = counters.len();
        let group = config.cluster.as_ref().map(|_| Group::new(cores));
        if group.is_some() {
            replicas.set_recorded(BTreeSet::new());
        }
        Hub {
            mesh: Mesh::new(cores, LANE_MESSAGES_MAX),
            clock,
            settings,
            counters,
            config,
            clients_max,
            pause: Pause::default(),
            monitors: Arc::default(),
            handed_over: (0..cores).map(|_| ArrayQueue::new(HAND_OVER_MAX)).collect(),
            loads: (0..cores).map(|_| CachePadded::new(AtomicUsize::new(0))).collect(),
            next_client_id: AtomicU64::new(1),
            stop: watch::Sender::new(false),
            following,
            replicas,
            origin,
            tenure,
            group,
            saving,
            ready: Arc::default(),
            saves_at_end: AtomicBool::new(true),
            not_loaded: Mutex::default(),
            cluster_has_failed: AtomicBool::new(false),
            quiet: AtomicUsize::new(0),
        }
    }

    /// Called by a core right before it sleeps.
    pub fn before_sleep(&self, core: usize) {
        self.count_wakes(core, self.mesh.before_sleep(core));
    }

    /// Wakes all whom a core has to wake.
    #[inline]
    pub fn wake_due(&self, core: usize) {
        self.count_wakes(core, self.mesh.wake_due(core));
    }

    fn count_wakes(&self, core: usize, woken: u64) {
        if woken > 0
            && let Some(own) = self.counters.get(core)
        {
            own.wakes_sent.add(woken);
        }
    }

    /// A replica is in step with a core, or is so no more.
    pub fn stands(&self, follower: &Follower, link: (usize, LinkId), is_in_step: bool) {
        let (host, port) = (&follower.host, follower.port);
        match self.replicas.stands(follower, link, is_in_step) {
            Some(true) => tracing::info!(host, port, "a replica is in step"),
            Some(false) => {
                tracing::warn!(host, port, "a replica is out of step: it is not waited for, whatever the bound says");
            }
            None => {}
        }
        self.judge_replicas();
    }

    /// What keeps clients from being served as they expect, though the process serves.
    pub fn hindrance(&self) -> Option<&'static str> {
        if self.tenure.standing().has(Standing::FENCED) {
            return Some(
                "it holds no lease, so that it may not serve its slots: no majority is heard, an earlier lease \
                         has not ended, or another node is about to take over",
            );
        }
        match self.following.shown() {
            Some(following) if !following.is_up() => Some("it is a replica that is not in step with its primary"),
            None if self.settings.shared.lacks_replicas() => {
                Some("too few replicas are in step, and calls are refused")
            }
            _ => None,
        }
    }

    /// Has calls refused where fewer replicas are in step than must be, and let through otherwise.
    pub fn judge_replicas(&self) {
        let shared = &self.settings.shared;
        if self.settings.tunables.replicas_needed() == 0 && !shared.lacks_replicas() {
            return;
        }
        // Where several judge at once, the last of them sees what all have changed.
        self.replicas.count_in_step(|in_step| {
            let required = self.settings.tunables.replicas_needed();
            let lacks = u64::try_from(in_step).is_ok_and(|in_step| in_step < required);
            match (shared.lacks_replicas(), lacks) {
                (false, true) => tracing::warn!(in_step, required, "calls are refused: too few replicas are in step"),
                (true, false) => tracing::info!(in_step, required, "calls are let through again"),
                _ => {}
            }
            shared.set_lacks_replicas(lacks);
        });
    }

    /// A number for a new client.
    pub fn next_client_id(&self) -> u64 {
        self.next_client_id.fetch_add(1, Ordering::Relaxed)
    }

    /// Whether keys that were kept are still being loaded.
    #[inline]
    pub fn is_loading(&self) -> bool {
        self.settings.shared.is_loading()
    }

    /// A core has loaded all that was kept of its keys.
    pub fn loaded(&self) {
        if self.settings.shared.core_has_loaded() {
            self.serve();
            let keys = self.counters.iter().map(|counters| counters.keys.get()).sum::<u64>();
            tracing::info!(keys, "the snapshot is loaded");
        }
    }

    /// All that was kept is there.
    pub fn serve(&self) {
        self.saving.open();
        self.ready.store(true, Ordering::Release);
    }

    /// What was kept cannot be loaded: the server ends, and nothing is written.
    pub fn fail_to_load(&self, error: NotLoaded) {
        // Every core meets the same fault; the first to say so is enough.
        self.not_loaded.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.stop();
    }

    /// Why what was kept could not be loaded.
    pub fn take_load_failure(&self) -> Option<NotLoaded> {
        self.not_loaded.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// A core's connections have ended: it has nothing more for others.
    pub fn core_is_quiet(&self) {
        self.quiet.fetch_add(1, Ordering::AcqRel);
    }

    /// Whether that is so of all cores, so that no key changes any more.
    pub fn is_quiet(&self) -> bool {
        self.quiet.load(Ordering::Acquire) >= self.counters.len()
    }

    /// Tells all cores to stop, and whether a snapshot is to be written then.
    pub fn shut_down(&self, saves: bool) {
        self.saves_at_end.store(saves, Ordering::SeqCst);
        self.stop();
    }

    /// Tells all cores to stop.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Waits for the word to stop.
    pub fn stopping(&self) -> watch::Receiver<bool> {
        self.stop.subscribe()
    }

    /// Connections of all cores.
    pub fn clients(&self) -> usize {
        self.loads.iter().map(|load| load.load(Ordering::Relaxed)).sum()
    }

    /// Chooses the core for a connection that `core` accepted and counts it there. The kernel spreads connections by a
    /// hash, which with a few long-lived ones may put nearly all on one core; so a core that holds clearly more than
    /// its share hands fresh ones on.
    pub fn place(&self, core: usize) -> usize {
        let own = self.loads.get(core).map_or(0, |load| load.load(Ordering::Relaxed));
        let total = self.clients() + 1;
        let cores = self.loads.len().max(1);
        // More than a quarter above the share, and at least two: moving one socket to and fro helps nobody.
        let clearly_more = (own + 1) * cores * 4 > total * 5 && (own + 1) * cores > total + cores;
        let least = self.loads.iter().enumerate().min_by_key(|(_, load)| load.load(Ordering::Relaxed));
        let chosen = match least {
            Some((other, _)) if clearly_more => other,
            _ => core,
        };
        self.add_load(chosen);
        chosen
    }

    fn add_load(&self, core: usize) {
        if let Some(load) = self.loads.get(core) {
            load.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A connection of `core` ended.
    pub fn remove_load(&self, core: usize) {
        if let Some(load) = self.loads.get(core) {
            // One that was never placed, as in tests, is not counted.
            let _ = load.try_update(Ordering::Relaxed, Ordering::Relaxed, |load| load.checked_sub(1));
        }
    }

    /// Hands a connection that was placed at `core` over to it. Given back if too many wait there.
    pub fn hand_over(&self, core: usize, fresh: Fresh) -> Result<(), Fresh> {
        let Some(queue) = self.handed_over.get(core) else { return Err(fresh) };
        queue.push(fresh)?;
        self.mesh.mark(core);
        self.mesh.wake(core);
        Ok(())
    }

    /// The next connection that was handed over to `core`.
    pub fn take_over(&self, core: usize) -> Option<Fresh> {
        self.handed_over.get(core).and_then(ArrayQueue::pop)
    }
}
