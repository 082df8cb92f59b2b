//! What the server sees of the cluster: a handle to a thread of its own.
//!
//! The thread has a runtime for itself, so that a disk that takes long delays no core, and no core the cluster.
//! All futures here can be waited for on any runtime.

use crate::bounds;
use crate::failover::{FailOverError, Failover};
use crate::meet::MeetError;
use crate::node::{Node, Parts};
use crate::store::{OpenError, Store};
use crate::wire::Fault;
use std::future::Future;
use std::net::TcpListener;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{Notify, watch};
use tollgate_topology::leader::NotYet;
use tollgate_topology::lease::Follows;
use tollgate_topology::map::{Endpoint, Info};
use tollgate_topology::{Applied, Change, NodeId, Refused, SlotMap};

/// What redis-cli adds to a port for clients to have the one for nodes.
const PEER_PORT_OFFSET: u16 = 10_000;
/// Threads that may wait for the disk.
const DISK_THREADS: usize = 2;
/// How long what is left of the thread's work may take when it ends.
const STOP_TIME_MAX: Duration = Duration::from_secs(5);

/// What a cluster begins with.
pub struct Settings {
    /// The directory that holds [`crate::FILE_NAME`]; none: nothing is kept, and the node has a new id at each start.
    pub directory: Option<PathBuf>,
    /// The peer port, bound by the server, non-blocking.
    pub listeners: Vec<TcpListener>,
    /// What this process says of itself.
    pub info: Info,
    /// What nodes prove to one another that they know; none: only nodes of this machine are talked to.
    pub secret: Option<Vec<u8>>,
}

/// What the cluster asks of the process that it is in. Called on the cluster's own thread, so nothing here may block.
pub trait Host: Send + Sync + 'static {
    /// A clock that counts suspend, in microseconds: leases are measured by it.
    fn boot_micros(&self) -> u64;
    /// The time that limits are decided by now, in microseconds since 1970: a leader tells it to all.
    fn time(&self) -> u64;
    /// The leader's time, as it arrived.
    fn hears_time(&self, micros: u64);
    /// How this node follows its primary, if it does.
    fn follows(&self) -> Option<Follows>;
    /// Until when the node may serve, by [`Host::boot_micros`]; 0: it may not. Called whenever that changes.
    fn serve_until(&self, until: u64);
    /// This node cannot keep what was agreed, so that it takes no part any more: the process is to end.
    fn fails(&self);
    /// The process serves no more. True once `replica` has acknowledged all that was changed before; false if that
    /// cannot be.
    fn drains(&self, replica: NodeId) -> Pin<Box<dyn Future<Output = bool> + Send>>;
}

/// Why there is no cluster.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// What is kept cannot be had.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The thread, its runtime or the peer port cannot be had.
    #[error("the cluster cannot start: {0}")]
    Io(#[from] std::io::Error),
}

/// Why a change was not made. Shown, it is the whole text of an error reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// The map does not allow it.
    #[error("{0}")]
    Refused(Refused),
    /// The leader does not allow it now.
    #[error("{0}")]
    NotYet(NotYet),
    /// No majority was heard of in time: whether the change is made is not known.
    #[error("ERR no majority: the change was not confirmed in time")]
    NoMajority,
    /// Something else, in the words of the node that found it.
    #[error("{0}")]
    Other(String),
}

impl From<Fault> for ProposeError {
    fn from(fault: Fault) -> ProposeError {
        match fault {
            Fault::Refused(refused) => ProposeError::Refused(refused),
            Fault::NotYet(not_yet) => ProposeError::NotYet(not_yet),
            Fault::NoMajority => ProposeError::NoMajority,
            Fault::Other(text) => ProposeError::Other(text),
        }
    }
}

/// How the cluster is, as this node sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Whether a leader has answered within two leases.
    pub has_leader: bool,
    /// The leader that answered last.
    pub leader: Option<NodeId>,
    /// Nodes that the leader has not heard for the length of a lease.
    pub silent: Vec<NodeId>,
    /// Nodes that vote.
    pub voters: Vec<NodeId>,
    /// The term of the vote.
    pub term: u64,
}

/// The cluster, as one node takes part in it. Clones are the same; it ends with [`Cluster::stop`] or the last.
#[derive(Clone)]
pub struct Cluster {
    shared: Arc<Shared>,
}

struct Shared {
    node: Arc<Node>,
    runtime: Handle,
    map: watch::Receiver<Arc<SlotMap>>,
    health: watch::Receiver<Health>,
    ending: Arc<Notify>,
    ended: Mutex<mpsc::Receiver<()>>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.ending.notify_one();
    }
}

impl Cluster {
    /// Opens what is kept and begins to take part.
    ///
    /// # Errors
    /// [`StartError`]: the file is damaged, or in use, or the thread cannot be had.
    pub fn start(settings: Settings, host: Arc<dyn Host>) -> Result<Cluster, StartError> {
        let (store, identity) = Store::open(settings.directory.as_deref())?;
        let runtime = Builder::new_current_thread().enable_all().max_blocking_threads(DISK_THREADS).build()?;
        let (map_sender, map) = watch::channel(Arc::default());
        let (health_sender, health) = watch::channel(Health::default());
        let Settings { info, secret, listeners, .. } = settings;
        let parts = Parts { store, identity, info, secret, host, map: map_sender, health: health_sender };
        let (node, asks) = Node::new(parts);
        let listeners = {
            let _guard = runtime.enter();
            listeners.into_iter().map(tokio::net::TcpListener::from_std).collect::<Result<Vec<_>, _>>()?
        };
        let ending = Arc::new(Notify::new());
        let (ended_sender, ended) = mpsc::sync_channel(1);
        let (handle, ends) = (runtime.handle().clone(), Arc::clone(&ending));
        let running = Arc::clone(&node);
        let life = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = Arc::clone(&running).live(listeners, asks) => {}
                    () = ends.notified() => {}
                }
                running.end().await;
            });
            end(runtime, running);
            // Whoever waits may have gone.
            let _ = ended_sender.send(());
        };
        std::thread::Builder::new().name("tollgate-cluster".to_owned()).spawn(life)?;
        let shared = Shared { node, runtime: handle, map, health, ending, ended: Mutex::new(ended) };
        Ok(Cluster { shared: Arc::new(shared) })
    }

    /// The node that this is.
    pub fn id(&self) -> NodeId {
        self.shared.node.id
    }

    /// The map, as far as it has come here. It has no nodes until the first has come.
    pub fn map(&self) -> watch::Receiver<Arc<SlotMap>> {
        self.shared.map.clone()
    }

    /// How the cluster is.
    pub fn health(&self) -> watch::Receiver<Health> {
        self.shared.health.clone()
    }

    /// Has a change made, by the leader, wherever that is. Takes at most five seconds.
    ///
    /// # Errors
    /// [`ProposeError`].
    pub async fn propose(&self, change: Change) -> Result<Applied, ProposeError> {
        let node = Arc::clone(&self.shared.node);
        // In a task of the cluster's: whoever asked may go, and what is begun comes to its end.
        let proposing = self.shared.runtime.spawn(async move {
            match change {
                Change::DelSlots { .. } => node.gives_up_slots(change, bounds::PROPOSE_TIME_MAX).await,
                _ => node.propose(change, bounds::PROPOSE_TIME_MAX).await,
            }
        });
        Ok(proposing.await.map_err(|_| ProposeError::NoMajority)??)
    }

    /// Makes one group of this node's and that of the node at `host`: whichever is alone joins the other. The node's
    /// peer port is `port` + 10000 if it is not given. Takes at most five seconds.
    ///
    /// # Errors
    /// [`MeetError`].
    pub async fn meet(&self, host: String, port: u16, peer_port: Option<u16>) -> Result<(), MeetError> {
        let peer_port = match peer_port {
            Some(peer_port) => peer_port,
            None => port.checked_add(PEER_PORT_OFFSET).ok_or(MeetError::NoPeerPort)?,
        };
        let node = Arc::clone(&self.shared.node);
        let at = Endpoint { host, port, peer_port };
        let meeting = self.shared.runtime.spawn(async move { node.meet(at).await });
        meeting.await.map_err(|_| MeetError::Stopped)?
    }

    /// Has this node, a replica, take over from its primary. Takes at most ten seconds.
    ///
    /// # Errors
    /// [`FailOverError`].
    pub async fn fail_over(&self, how: Failover) -> Result<(), FailOverError> {
        let node = Arc::clone(&self.shared.node);
        let taking_over = self.shared.runtime.spawn(async move { node.fail_over(how).await });
        taking_over.await.map_err(|_| FailOverError::NoMajority)?
    }

    /// Hands the slots of this node, which is about to end, to a replica in step, if there is one. Answers whether that
    /// was done.
    pub async fn step_down(&self) -> bool {
        let node = Arc::clone(&self.shared.node);
        self.shared.runtime.spawn(node.steps_down()).await.unwrap_or(false)
    }

    /// Ends the thread in order, and waits until it has ended: the directory is free afterwards.
    pub fn stop(&self) {
        self.shared.ending.notify_one();
        let ended = self.shared.ended.lock().unwrap_or_else(PoisonError::into_inner);
        // An error says that it has ended before.
        if ended.recv_timeout(STOP_TIME_MAX) == Err(mpsc::RecvTimeoutError::Timeout) {
            tracing::warn!("the cluster's thread takes long to end");
        }
    }
}

/// Ends all tasks, then lets go of the file.
fn end(runtime: Runtime, node: Arc<Node>) {
    runtime.shutdown_timeout(STOP_TIME_MAX);
    node.let_go();
}
