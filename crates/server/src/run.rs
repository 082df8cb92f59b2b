//! From a checked configuration to a running server and back to nothing, in order.

pub mod in_process;

use crate::admin::{self, AdminHandle, AdminState};
use crate::clock::{Clock, boot_micros, thread_micros, wall_micros};
use crate::config::Config;
use crate::directory::{Directory, DirectoryError};
use crate::facts::Facts;
use crate::flows::{self, Replicas};
use crate::following::{self, By, Delivery, Following};
use crate::group::{self, Group};
use crate::hub::{Hub, SharedClock};
use crate::huge_pages::HugePages;
use crate::listen::{ListenError, Listeners, make_room_for, remove_unix_socket};
use crate::loading::{NotLoaded, look_at};
use crate::origin::{Origin, RunId};
use crate::saving::{SNAPSHOT_FILE_NAME, Saving};
use crate::tenure::Tenure;
use crate::worker::Worker;
use crate::{accept, affinity, banner::Banner, loading, postman, saving};
use std::io;
use std::os::unix::net::UnixListener;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::LocalOptions;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tollgate_engine::core::{Core, Parts};
use tollgate_engine::counters::{Counters, Merged};
use tollgate_engine::registry::rows;
use tollgate_engine::settings::{Following as Shown, Settings, TOLLGATE_VERSION};
use tollgate_engine::shared::Shared;
use tollgate_engine::tunables::{Tunable, Tunables};
use tollgate_replication::flow::RUN_ID_BYTES;
use tollgate_store::StoreConfig;

/// How often a core sweeps and publishes.
const TICK: Duration = Duration::from_millis(100);
/// A sweep passes over all keys in this time, so that DBSIZE lags expiry by less than ten seconds.
const SWEEP_MICROS: u64 = 8_000_000;
/// What a late tick makes up for, at most.
const TICK_MICROS_MAX: u64 = 1_000_000;
/// Records that one step of a sweep looks at: some microseconds, and where all are freed some hundreds.
const SWEEP_STEP: usize = 400;
/// Records that a tick looks at beside its share, so that few are met, and what was flushed is dropped, soon.
const SWEEP_LEAST: usize = 1_000;
/// Slot headers and the first pages take about this much of a core's memory bound.
const MEMORY_PER_CORE_MIN: u64 = 4 * 1024 * 1024;
/// A node of a cluster that is told to end hands its slots over within this time, if at all.
const STEP_DOWN_TIME: Duration = Duration::from_secs(2);
/// After the word to stop, running batches get this long.
const STOP_TIME: Duration = Duration::from_secs(2);

/// Why the server did not start, or did not end in order.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A socket cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The directory cannot be used.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The admin port cannot be opened.
    #[error("{source}")]
    Admin {
        /// The address.
        address: std::net::SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The system gives no randomness, which the hash of keys needs.
    #[error("the system gives no random bytes: {0}")]
    Random(io::Error),
    /// There can be no further thread or runtime.
    #[error("cannot start a core: {0}")]
    Thread(io::Error),
    /// A core ended by a fault of ours.
    #[error("a core has failed; see the log")]
    CoreFailed,
    /// What is kept of the cluster cannot be used.
    #[error(transparent)]
    Cluster(tollgate_cluster::StartError),
    /// What the cluster has agreed on cannot be kept any more.
    #[error("what the cluster has agreed on cannot be kept; see the log")]
    ClusterFailed,
    /// What was kept cannot be loaded.
    #[error(transparent)]
    NotLoaded(#[from] NotLoaded),
    /// The snapshot at the end could not be written.
    #[error("the last snapshot could not be written, the one before is as it was: {0}")]
    NotSaved(String),
}

/// Serves until SIGTERM, SIGINT or SHUTDOWN.
///
/// # Errors
/// What keeps the server from starting: nothing is left behind then. Or a core has failed.
pub fn run(config: Config) -> Result<(), StartError> {
    // Before anything can be reached: a signal that comes while the server starts must not kill it half way.
    let signals = Signals::watch().map_err(StartError::Thread)?;
    let directory = config.dir.as_deref().map(Directory::take).transpose()?;
    let clients_max = make_room_for(config.clients_max);
    if clients_max < config.clients_max {
        tracing::warn!(clients_max, "the limit on open files leaves room for fewer clients than maxclients");
    }
    if is_memory_small(config.memory_max_bytes, config.cores) {
        warn_of_small_memory();
    }
    let mut listeners = Listeners::open(&config)?;
    let config = Config { port: listeners.port, ..config };
    let (hub, deliveries) = assemble(config, clients_max, listeners.port)?;
    group::start(&hub, std::mem::take(&mut listeners.peers), listeners.peer_port)?;
    let admin = open_admin(&hub)?;
    let address = admin.as_ref().map(AdminHandle::address);
    let threads = start_cores(&hub, listeners, deliveries)?;
    if let Some(primary) = hub.config.primary.clone() {
        hub.following.follow(Some(primary), By::Setting).map_err(StartError::Thread)?;
    } else if hub.group.is_none() {
        hub.origin.leads(|| None);
    }
    Banner::new(&hub.config, hub.settings.port, address).show(hub.config.log_format);
    signals.wait(&hub);
    hub.ready.store(false, Ordering::Release);
    let last = hub.saving.last(hub.saves_at_end.load(Ordering::SeqCst));
    let failed = threads.into_iter().map(JoinHandle::join).filter(Result::is_err).count();
    if failed > 0 {
        // It would lack that core's keys.
        hub.saving.abandon();
    }
    let saved = last.join();
    if let Some(cluster) = hub.group.as_ref().and_then(Group::cluster) {
        cluster.stop();
    }
    if let Some(path) = &hub.config.unix_socket {
        remove_unix_socket(path);
    }
    if let Some(admin) = admin {
        admin.stop();
    }
    tracing::info!("stopped");
    let is_saved = hub.saves_at_end.load(Ordering::SeqCst) && failed == 0 && saved.is_ok();
    let failure = hub.take_load_failure();
    if is_saved
        && failure.is_none()
        && let Some(Ok(Some(last))) = hub.saving.file().map(|file| look_at(&file, None))
    {
        hub.origin.ends(last);
    }
    drop(directory);
    match (failure, saved) {
        (Some(error), _) => Err(error.into()),
        _ if hub.cluster_has_failed.load(Ordering::SeqCst) => Err(StartError::ClusterFailed),
        _ if failed > 0 => Err(StartError::CoreFailed),
        (None, saved) => saved.map_err(StartError::NotSaved),
    }
}

/// Whether a bound on memory, in bytes and 0 for none, leaves little room for keys.
pub(crate) fn is_memory_small(memory_max_bytes: u64, cores: usize) -> bool {
    let enough_bytes = MEMORY_PER_CORE_MIN.saturating_mul(u64::try_from(cores).unwrap_or(1));
    memory_max_bytes > 0 && memory_max_bytes < enough_bytes
}

/// Says so in the log.
pub(crate) fn warn_of_small_memory() {
    tracing::warn!("maxmemory is below 4 MiB a core: tables and pages take most of it, few keys will fit");
}

/// What all cores share, of a checked configuration.
pub(crate) fn assemble(config: Config, clients_max: usize, port: u16) -> Result<(Arc<Hub>, Deliveries), StartError> {
    let file = config.dir.as_ref().map(|directory| directory.join(SNAPSHOT_FILE_NAME));
    let wall = (!config.test_clock).then(wall_micros);
    let last = file.as_deref().map_or(Ok(None), |path| look_at(path, wall))?;
    if let (Some(directory), None) = (&config.dir, last) {
        tracing::info!(directory = %directory.display(), "there is no snapshot: it begins empty");
    }
    let clock: SharedClock = Arc::new(Clock::new(config.test_clock, last));
    let commands = rows().len();
    let counters: Arc<[Arc<Counters>]> = (0..config.cores).map(|_| Arc::new(Counters::new(commands))).collect();
    let saving = Saving::new(config.dir.clone(), config.save_interval, clock.clone(), counters.clone());
    let (following, deliveries) = Following::new(config.cores);
    let (following, replicas) = (Arc::new(following), Arc::new(Replicas::new(config.cores)));
    let tenure = Arc::new(Tenure::new(config.cluster.is_some()));
    let links = (following.clone(), replicas.clone(), tenure.clone());
    let process = Facts::new(clock.clone(), &config, saving.clone(), links);
    let settings = settings(&config, clients_max, port, process).map_err(StartError::Random)?;
    // In a cluster the map says whose state is held where.
    let origin_file = config.dir.clone().filter(|_| config.cluster.is_none());
    let origin = Origin::new(run_id_bytes(&settings.run_id), origin_file, last);
    let links = (following, replicas, origin, tenure);
    let hub = Hub::new(config, clients_max, clock, Arc::new(settings), counters, saving, links);
    match last {
        Some(_) => hub.settings.shared.begin_loading(hub.counters.len()),
        None => hub.serve(),
    }
    let hub = Arc::new(hub);
    hub.following.belong_to(&hub);
    hub.judge_replicas();
    Ok((hub, deliveries))
}

fn settings(config: &Config, clients_max: usize, port: u16, process: Facts) -> io::Result<Settings> {
    let password = config.password.clone();
    let owned = |(name, value): (&'static str, String)| (name.to_owned(), value);
    Ok(Settings {
        password: password.map(|hash| -> tollgate_engine::settings::PasswordCheck {
            Box::new(move |candidate| hash.matches(candidate))
        }),
        parameters: config.parameters().into_iter().map(owned).collect(),
        log_limit_max: config.log_limit_max,
        value_bytes_max: config.bulk_bytes_max,
        test_clock: config.test_clock,
        tunables: tunables(config),
        shared: Shared::default(),
        top_keys: config.top_keys,
        cluster: config.cluster.is_some(),
        clients_max: u64::try_from(clients_max).unwrap_or(u64::MAX),
        port,
        run_id: run_id()?,
        process_id: std::process::id(),
        config_file: config.file.as_ref().map(|path| path.display().to_string()).unwrap_or_default(),
        process: Box::new(process),
    })
}

/// What CONFIG SET can change, as it is at the start.
fn tunables(config: &Config) -> Tunables {
    let seconds = |time: Option<Duration>| i64::try_from(time.map_or(0, |time| time.as_secs())).unwrap_or(i64::MAX);
    let tunables = Tunables::default();
    tunables.set_memory_max_bytes(config.memory_max_bytes);
    tunables.set_eviction(config.eviction);
    tunables.set(Tunable::Timeout, seconds(config.idle_timeout));
    tunables.set(Tunable::TcpKeepalive, seconds(config.keepalive));
    tunables.set(Tunable::SlowlogLogSlowerThan, config.slowlog_log_slower_than);
    tunables.set(Tunable::SlowlogMaxLen, config.slowlog_max_len);
    tunables.set(Tunable::LatencyMonitorThreshold, config.latency_monitor_threshold);
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    tunables.set(Tunable::OvershootMax, config.overshoot_max.map_or(-1, number));
    let timeout = u64::try_from(config.replica_timeout.as_millis()).unwrap_or(u64::MAX);
    tunables.set(Tunable::ReplicaTimeout, number(timeout));
    tunables.set(Tunable::ReplicasRequired, i64::try_from(config.replicas_required).unwrap_or(i64::MAX));
    tunables.set(Tunable::ReplicaLost, i64::from(config.denies_without_replicas));
    tunables.set(Tunable::ClusterNodeTimeout, config.cluster_node_timeout_ms);
    tunables
}

/// Forty hexadecimal digits as bytes.
pub(crate) fn run_id_bytes(run_id: &str) -> RunId {
    let mut bytes = [0; RUN_ID_BYTES];
    bytes.iter_mut().zip(run_id.bytes()).for_each(|(place, byte)| *place = byte);
    bytes
}

/// Forty hexadecimal digits that no other process has.
pub(crate) fn run_id() -> io::Result<String> {
    let bytes: [u64; 4] = random()?;
    let digits: String = bytes.iter().map(|word| format!("{word:016x}")).collect();
    Ok(digits.chars().take(40).collect())
}

fn random() -> io::Result<[u64; 4]> {
    let mut bytes = [0u8; 32];
    let filled = rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())?;
    if filled < bytes.len() {
        return Err(io::Error::other("too few"));
    }
    let mut words = [0; 4];
    for (word, chunk) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*chunk);
    }
    Ok(words)
}

fn open_admin(hub: &Arc<Hub>) -> Result<Option<AdminHandle>, StartError> {
    let Some(address) = hub.config.admin else { return Ok(None) };
    let of = hub.clone();
    let (ready, who) = (hub.ready.clone(), hub.clone());
    let state =
        AdminState { ready, hindrance: Arc::new(move || who.hindrance()), metrics: Arc::new(move || metrics(&of)) };
    admin::spawn(address, state).map(Some).map_err(|source| StartError::Admin { address, source })
}

fn replication_gauges(hub: &Hub) -> [(&'static str, &'static str, u64); 6] {
    let (following, seen) = (hub.following.shown(), hub.replicas.seen());
    let in_step = seen.iter().filter(|replica| replica.is_in_step).count();
    let number = |count: usize| u64::try_from(count).unwrap_or(0);
    let is_up = following.as_ref().is_some_and(Shown::is_up);
    let lacks = hub.settings.shared.lacks_replicas();
    [
        ("is_replica", "1 while this process follows a primary.", u64::from(following.is_some())),
        ("primary_link_up", "1 while this replica is in step with its primary.", u64::from(is_up)),
        ("replicas_connected", "Replicas that are told what this process holds.", number(seen.len())),
        ("replicas_in_step", "Replicas that a failover to costs no more than is said.", number(in_step)),
        (
            "replicas_required",
            "Replicas in step that there should be.",
            hub.settings.tunables.count(Tunable::ReplicasRequired),
        ),
        ("replicas_missing", "1 while calls are refused for want of replicas in step.", u64::from(lacks)),
    ]
}

fn snapshot_gauges(hub: &Hub) -> [(&'static str, &'static str, u64); 4] {
    let known = hub.saving.persistence();
    [
        (
            "snapshot_last_seconds",
            "When the last snapshot was finished, or this process began, as a Unix time.",
            known.last_save_seconds,
        ),
        ("snapshot_last_ok", "1 if the last snapshot could be written.", u64::from(known.last_is_ok)),
        ("snapshot_running", "1 while a snapshot is written.", u64::from(known.running_seconds.is_some())),
        ("loading", "1 while a snapshot is loaded.", u64::from(hub.is_loading())),
    ]
}

/// What is known of a node of a cluster.
fn cluster_gauges(hub: &Hub) -> Vec<(&'static str, &'static str, u64)> {
    let Some(cluster) = hub.group.as_ref().and_then(Group::cluster) else { return Vec::new() };
    let (map, health) = (cluster.map().borrow().clone(), cluster.health().borrow().clone());
    let number = |count: usize| u64::try_from(count).unwrap_or(0);
    vec![
        ("cluster_epoch", "How many changes have made the slot map.", map.epoch),
        ("cluster_nodes", "Nodes of the cluster.", number(map.nodes.len())),
        ("cluster_nodes_silent", "Nodes that the leader has not heard for a lease.", number(health.silent.len())),
        ("cluster_has_leader", "1 while the leader of the group is heard.", u64::from(health.has_leader)),
        ("cluster_is_leader", "1 on the node that leads the group.", u64::from(health.leader == Some(cluster.id()))),
        (
            "cluster_slots_owned",
            "Slots of this node.",
            map.slots_of(cluster.id()).map(|range| u64::from(range.count())).sum(),
        ),
        ("cluster_slots_assigned", "Slots of all nodes.", u64::from(map.slots.count())),
        (
            "cluster_lease_left_milliseconds",
            "What is left of the lease of this node.",
            hub.tenure.left_micros().unwrap_or(0) / 1_000,
        ),
    ]
}

/// All metrics in the text exposition format. Never a key as a label.
fn metrics(hub: &Hub) -> String {
    use std::fmt::Write;
    let mut text = Merged(&hub.counters).exposition(&rows());
    let process = &hub.settings.process;
    let (user, system) = process.cpu_micros();
    let depth: usize = (0..hub.mesh.cores()).map(|core| hub.mesh.depth(core)).sum();
    let gauges = [
        ("resident_memory_bytes", "Resident memory of the process.", process.resident_bytes()),
        ("memory_max_bytes", "The bound on memory for keys; 0 is none.", hub.settings.tunables.memory_max_bytes()),
        ("uptime_seconds", "Seconds since the process started.", process.uptime_seconds()),
        ("clock_steps", "Steps of the wall clock seen since start.", process.clock_steps()),
        ("mailbox_messages", "Messages that wait for a core.", u64::try_from(depth).unwrap_or(0)),
        ("clients_max", "The most clients.", hub.settings.clients_max),
        ("cores", "Core threads.", u64::try_from(hub.mesh.cores()).unwrap_or(0)),
    ];
    let gauges =
        gauges.into_iter().chain(replication_gauges(hub)).chain(snapshot_gauges(hub)).chain(cluster_gauges(hub));
    for (name, help, value) in gauges {
        let _ = writeln!(text, "# HELP tollgate_{name} {help}\n# TYPE tollgate_{name} gauge\ntollgate_{name} {value}");
    }
    let _ = writeln!(text, "# HELP tollgate_cpu_seconds_total Processor time, by mode.");
    let _ = writeln!(text, "# TYPE tollgate_cpu_seconds_total counter");
    for (mode, micros) in [("user", user), ("system", system)] {
        let (whole, part) = (micros / 1_000_000, micros % 1_000_000);
        let _ = writeln!(text, "tollgate_cpu_seconds_total{{mode=\"{mode}\"}} {whole}.{part:06}");
    }
    let _ = writeln!(text, "# HELP tollgate_build_info The version.\n# TYPE tollgate_build_info gauge");
    let _ = writeln!(text, "tollgate_build_info{{version=\"{TOLLGATE_VERSION}\"}} 1");
    text
}

/// The signals that end the process in order.
struct Signals {
    runtime: tokio::runtime::Runtime,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn watch() -> io::Result<Signals> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let context = runtime.enter();
        let (terminate, interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        drop(context);
        Ok(Signals { runtime, terminate, interrupt })
    }

    /// Waits for a signal, or for the word to stop from elsewhere, and passes it on to all cores.
    fn wait(self, hub: &Hub) {
        let Signals { runtime, mut terminate, mut interrupt } = self;
        let mut stopping = hub.stopping();
        runtime.block_on(async {
            tokio::select! {
                _ = terminate.recv() => tracing::info!("stopping on SIGTERM"),
                _ = interrupt.recv() => tracing::info!("stopping on SIGINT"),
                _ = stopping.wait_for(|stop| *stop) => {
                    tracing::info!("stopping");
                    return;
                }
            }
            // Its slots are served on at once, rather than when its lease has ended.
            if let Some(cluster) = hub.group.as_ref().and_then(Group::cluster)
                && tokio::time::timeout(STEP_DOWN_TIME, cluster.step_down()).await == Ok(true)
            {
                tracing::info!("its slots were handed over to a replica");
            }
        });
        hub.stop();
    }
}

/// Stops all cores when one ends, for whatever reason: a server that lacks a core lacks its keys.
struct StopAll(Arc<Hub>);

impl Drop for StopAll {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// What the cores take from a primary, by core.
pub(crate) type Deliveries = Vec<mpsc::Receiver<Delivery>>;

/// What a core's thread starts with.
struct Start {
    hub: Arc<Hub>,
    store: StoreConfig,
    cpu: Option<usize>,
    tcp: Vec<std::net::TcpListener>,
    unix: Option<UnixListener>,
    huge_pages: HugePages,
    deliveries: mpsc::Receiver<Delivery>,
}

fn start_cores(
    hub: &Arc<Hub>,
    listeners: Listeners,
    deliveries: Deliveries,
) -> Result<Vec<JoinHandle<()>>, StartError> {
    let cores = hub.config.cores;
    let hash_seed = random().map_err(StartError::Random)?;
    let placement = affinity::placement(cores, &hub.config.cpus);
    let huge_pages = HugePages::start().map_err(StartError::Thread)?;
    let mut unix = listeners.unix;
    let mut threads = Vec::with_capacity(cores);
    let cores_number = u16::try_from(cores).unwrap_or(u16::MAX);
    let of_cores = listeners.per_core.into_iter().zip(placement).zip(deliveries);
    for (core, ((tcp, cpu), deliveries)) in (0..cores_number).zip(of_cores) {
        let [random_seed, ..] = random().map_err(StartError::Random)?;
        let store = StoreConfig {
            hash_seed,
            core,
            cores: cores_number,
            memory_max_bytes: hub.config.memory_max_bytes.div_ceil(u64::from(cores_number)),
            eviction: hub.config.eviction,
            random_seed,
        };
        let start =
            Start { hub: hub.clone(), store, cpu, tcp, unix: unix.take(), huge_pages: huge_pages.clone(), deliveries };
        let thread = std::thread::Builder::new().name(format!("tollgate-{core}"));
        threads.push(thread.spawn(move || run_core(start)).map_err(StartError::Thread)?);
    }
    Ok(threads)
}

fn run_core(start: Start) {
    let index = usize::from(start.store.core);
    let _stop_all = StopAll(start.hub.clone());
    if let Some(cpu) = start.cpu
        && let Err(error) = affinity::bind_thread_to(cpu)
    {
        tracing::warn!(cpu, %error, "cannot bind a core to its cpu");
    }
    let (park, unpark) = (start.hub.clone(), start.hub.clone());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .on_thread_park(move || park.before_sleep(index))
        .on_thread_unpark(move || unpark.mesh.after_sleep(index))
        .build_local(LocalOptions::default());
    match runtime {
        Ok(runtime) => runtime.block_on(serve(start)),
        Err(error) => tracing::error!(%error, "cannot start a core"),
    }
}

async fn serve(start: Start) {
    let Start { hub, store, tcp, unix, huge_pages, deliveries, .. } = start;
    let parts = Parts { settings: hub.settings.clone(), counters: hub.counters.clone(), store };
    let mut core = Core::new(parts);
    core.store.set_step_meter(thread_micros);
    core.timing.set_clock(boot_micros);
    let worker = Rc::new(Worker::new(core, hub.clone()));
    let mut stopping = hub.stopping();
    let mut tasks = vec![tokio::task::spawn_local(postman::deliver(worker.clone()))];
    for listener in tcp {
        tasks.push(tokio::task::spawn_local(accept::accept_tcp(worker.clone(), listener)));
    }
    if let Some(listener) = unix {
        tasks.push(tokio::task::spawn_local(accept::accept_unix(worker.clone(), listener)));
    }
    tasks.push(tokio::task::spawn_local(tick(worker.clone())));
    tasks.push(tokio::task::spawn_local(following::take_over(worker.clone(), deliveries)));
    tasks.push(tokio::task::spawn_local(saving::serve(worker.clone())));
    if worker.index == 0 {
        tasks.push(tokio::task::spawn_local(group::follow_maps(worker.clone())));
        tasks.push(tokio::task::spawn_local(group::tell_group(worker.clone())));
    }
    if hub.is_loading()
        && let Some(file) = hub.saving.file()
    {
        tasks.push(tokio::task::spawn_local(loading::load(worker.clone(), file)));
    }
    tasks.push(tokio::task::spawn_local(huge_pages.serve(worker.clone())));
    // An error means that the sender is gone, which it cannot be while the hub is held here.
    let _ = stopping.wait_for(|stop| *stop).await;
    // No new connections; what runs may finish, here and, through the postman, for other cores.
    tasks.iter().skip(1).for_each(|task| task.abort());
    let _ = tokio::time::timeout(STOP_TIME, async {
        worker.stop_connections();
        // Who is still connected may have a batch that runs, or replies that have yet to leave.
        while worker.has_connections() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    // Who is held up by a client that does not read runs nothing more.
    worker.halt();
    hub.core_is_quiet();
    let _ = tokio::time::timeout(STOP_TIME, async {
        while !hub.is_quiet() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // What other cores sent before they were quiet is answered by the postman.
        tokio::time::sleep(Duration::from_millis(20)).await;
    })
    .await;
    saving::serve_last(&worker).await;
}

async fn tick(worker: Rc<Worker>) {
    let mut interval = tokio::time::interval(TICK);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut swept_at_micros = boot_micros();
    loop {
        interval.tick().await;
        if worker.index == 0 && worker.hub.clock.watch_for_steps() {
            tracing::warn!("the wall clock was stepped; limits go on undisturbed");
        }
        if worker.index == 0 {
            worker.hub.settings.shared.sample(&worker.hub.counters, boot_micros());
            worker.hub.saving.tick();
        }
        {
            let mut core = worker.core.borrow_mut();
            core.follow_tunables();
            core.counters.slot_changes.set(core.store.slot_changes());
        }
        flows::note(&worker);
        // What is required of replicas may have been set anew.
        worker.hub.judge_replicas();
        let begun_micros = boot_micros();
        let elapsed_micros = begun_micros.saturating_sub(swept_at_micros).min(TICK_MICROS_MAX);
        swept_at_micros = begun_micros;
        sweep(&worker, elapsed_micros).await;
    }
}

/// Goes as far as a pass that takes [`SWEEP_MICROS`] goes in `elapsed_micros`. What a pass has to see is fixed while
/// it lasts: were it what is left, a pass that frees much would go slower and slower.
async fn sweep(worker: &Worker, elapsed_micros: u64) {
    let work = worker.core.borrow().store.sweep_work();
    let share = u128::from(work) * u128::from(elapsed_micros) / u128::from(SWEEP_MICROS);
    let mut left = usize::try_from(share).unwrap_or(usize::MAX).saturating_add(SWEEP_LEAST);
    while left > 0 {
        let step = left.min(SWEEP_STEP);
        left -= step;
        let wrapped = {
            let mut core = worker.core.borrow_mut();
            let swept = core.store.sweep(worker.now(), step);
            core.publish();
            swept.wrapped
        };
        if wrapped {
            break;
        }
        // Connections have their turn between steps.
        tokio::task::yield_now().await;
    }
}
