//! Nodes of a cluster in one process, over loopback.

#![allow(dead_code, reason = "each test file uses a part")]

use std::future::Future;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tollgate_cluster::{Cluster, Health, Host, Settings, StartError};
use tollgate_topology::lease::Follows;
use tollgate_topology::map::{Endpoint, Info};
use tollgate_topology::slots::SlotSet;
use tollgate_topology::{Change, NodeId, RunId, SlotMap};

/// What a wait may take: more than any test should, on a machine that is busy.
pub const PATIENCE: Duration = Duration::from_secs(20);

static RUNS: AtomicU64 = AtomicU64::new(1);

/// A process that serves nothing but says all that the cluster asks.
#[derive(Default)]
pub struct Process {
    /// Until when it may serve.
    pub until: AtomicU64,
    /// Whether it can drain.
    pub drains: AtomicBool,
    /// Since when the primary leads that it follows; 0: none.
    pub follows_since: AtomicU64,
    /// How much it knows.
    pub progress: AtomicU64,
    /// The leader's time as it came last.
    pub heard: AtomicU64,
}

pub fn boot_micros() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    u64::try_from(time.tv_sec).unwrap() * 1_000_000 + u64::try_from(time.tv_nsec).unwrap() / 1_000
}

impl Process {
    pub fn serves(&self) -> bool {
        boot_micros() < self.until.load(Ordering::SeqCst)
    }
}

impl Host for Process {
    fn boot_micros(&self) -> u64 {
        boot_micros()
    }

    fn time(&self) -> u64 {
        1_000_000_000 + boot_micros()
    }

    fn hears_time(&self, micros: u64) {
        self.heard.fetch_max(micros, Ordering::SeqCst);
    }

    fn follows(&self) -> Option<Follows> {
        let since = self.follows_since.load(Ordering::SeqCst);
        let progress = self.progress.load(Ordering::SeqCst);
        (since > 0).then_some(Follows { since, is_in_step: true, progress })
    }

    fn serve_until(&self, until: u64) {
        self.until.store(until, Ordering::SeqCst);
    }

    fn fails(&self) {}

    fn drains(&self, _replica: NodeId) -> Pin<Box<dyn Future<Output = bool> + Send>> {
        let drains = self.drains.load(Ordering::SeqCst);
        Box::pin(async move { drains })
    }
}

/// One node.
pub struct Node {
    pub cluster: Cluster,
    pub process: Arc<Process>,
    pub info: Info,
}

/// A directory that goes with this value.
pub struct Directory(pub PathBuf);

impl Directory {
    pub fn new() -> Directory {
        let name = format!("tollgate-cluster-{}-{}", std::process::id(), RUNS.fetch_add(1, Ordering::SeqCst));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn try_start(directory: Option<&Path>, secret: Option<&str>) -> Result<Node, StartError> {
    try_start_at(TcpListener::bind("127.0.0.1:0").unwrap(), directory, secret)
}

pub fn try_start_at(listener: TcpListener, directory: Option<&Path>, secret: Option<&str>) -> Result<Node, StartError> {
    listener.set_nonblocking(true).unwrap();
    let peer_port = listener.local_addr().unwrap().port();
    let mut run = [0; 20];
    run[..8].copy_from_slice(&RUNS.fetch_add(1, Ordering::SeqCst).to_le_bytes());
    let endpoint = Endpoint { host: "127.0.0.1".to_owned(), port: 1, peer_port };
    let info = Info { run: RunId(run), endpoint, cores: 1, core_ports: Vec::new() };
    let settings = Settings {
        directory: directory.map(Path::to_path_buf),
        listeners: vec![listener],
        info: info.clone(),
        secret: secret.map(|secret| secret.as_bytes().to_vec()),
    };
    let process = Arc::new(Process::default());
    process.drains.store(true, Ordering::SeqCst);
    let cluster = Cluster::start(settings, Arc::clone(&process) as Arc<dyn Host>)?;
    Ok(Node { cluster, process, info })
}

pub fn start() -> Node {
    try_start(None, None).unwrap()
}

impl Node {
    pub fn id(&self) -> NodeId {
        self.cluster.id()
    }

    pub fn map(&self) -> Arc<SlotMap> {
        Arc::clone(&self.cluster.map().borrow())
    }

    pub fn health(&self) -> Health {
        self.cluster.health().borrow().clone()
    }

    pub async fn meets(&self, other: &Node) {
        self.cluster.meet("127.0.0.1".to_owned(), 1, Some(other.info.endpoint.peer_port)).await.unwrap();
    }

    pub async fn adds(&self, slots: impl IntoIterator<Item = u16>) {
        let change = Change::AddSlots { id: self.id(), slots: SlotSet::new(slots) };
        self.cluster.propose(change).await.unwrap();
    }

    /// Waits until the map is as wished.
    pub async fn sees(&self, wish: &str, wished: impl Fn(&SlotMap) -> bool) -> Arc<SlotMap> {
        let mut maps = self.cluster.map();
        let waiting = tokio::time::timeout(PATIENCE, maps.wait_for(|map| wished(map))).await;
        match waiting {
            Ok(map) => Arc::clone(&map.unwrap()),
            Err(_) => panic!("{wish}: {:#?} {:#?}", self.map(), self.health()),
        }
    }

    pub async fn is_there(&self) {
        let id = self.id();
        self.sees("there is a map with this node", |map| map.nodes.contains_key(&id)).await;
    }

    pub async fn has(&self, wish: &str, wished: impl Fn(&Node) -> bool) {
        let since = Instant::now();
        while !wished(self) {
            assert!(since.elapsed() < PATIENCE, "{wish}: {:#?} {:#?}", self.map(), self.health());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// So many nodes, in one group.
pub async fn group(count: usize) -> Vec<Node> {
    let nodes: Vec<Node> = (0..count).map(|_| start()).collect();
    join_all(&nodes).await;
    nodes
}

/// All nodes join the first one's group, and all see all, and as many vote as should.
pub async fn join_all(nodes: &[Node]) {
    for node in nodes {
        node.is_there().await;
    }
    for node in &nodes[1..] {
        node.meets(&nodes[0]).await;
    }
    let voters = (if nodes.len().is_multiple_of(2) { nodes.len() - 1 } else { nodes.len() }).min(7);
    for node in nodes {
        node.sees("all are there", |map| map.nodes.len() == nodes.len()).await;
        node.has("all that should vote do", |node| node.health().voters.len() == voters).await;
        node.has("a leader answers", |node| node.health().has_leader).await;
    }
}

/// The one that leads.
pub fn leader(nodes: &[Node]) -> usize {
    let id = nodes.iter().find_map(|node| node.health().leader.filter(|_| node.health().has_leader)).unwrap();
    nodes.iter().position(|node| node.id() == id).unwrap()
}
