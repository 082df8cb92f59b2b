//! What a command asks of the shell besides its reply. The engine decides; the shell does.

use crate::cluster::wish::ClusterWish;
use tollgate_limits::Micros;
use tollgate_topology::{NodeId, RunId};

/// What a replica says that it was told of a core before its link was cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToldBefore {
    /// By the process with this run id.
    pub run_id: [u8; RUN_ID_BYTES],
    /// In this telling of that process.
    pub telling: u64,
    /// All up to this flush.
    pub number: u32,
}

/// Bytes of a run id.
pub const RUN_ID_BYTES: usize = 40;

/// One thing to be done before the connection's next command runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// End this connection once its replies are written.
    Close,
    /// The session's rights or protocol changed: the parser's bounds follow.
    SessionChanged,
    /// Move the test clock to this time on all cores, before the reply leaves.
    SetClock(Micros),
    /// End the process in order.
    Shutdown {
        /// Whether what it holds is to be written first; `None`: if it can be.
        saves: Option<bool>,
    },
    /// Tell this connection what a core holds, from now on and nothing else; it is a replica that serves on this port.
    Flow {
        /// The core.
        core: u16,
        /// The replica's port.
        port: u16,
        /// What it was told before.
        told: Option<ToldBefore>,
        /// Which node of the cluster it is, and which process of that.
        node: Option<(NodeId, RunId)>,
    },
    /// Answer this connection with how many replicas have all that is held now, once they are so many or that time has
    /// passed.
    AwaitReplicas {
        /// How many.
        count: u64,
        /// In milliseconds; 0 is for ever.
        timeout: u64,
    },
    /// Answer this connection once the snapshot of this number is written.
    AwaitSnapshot(u64),
    /// Let this client's connection look at its state: it was killed.
    WakeClient(u64),
    /// Hold commands from now on for so long: all, or those that write.
    Pause {
        /// For how long.
        milliseconds: u64,
        /// Whether commands that only read are held too.
        all: bool,
    },
    /// Hold no commands any more.
    Unpause,
    /// Answer this connection, and show it what others do.
    Monitor,
    /// Carry out what an operator wants of the cluster, and answer this connection with what came of it.
    Cluster(Box<ClusterWish>),
    /// Let this core's thread stand still for so many microseconds.
    Sleep(u64),
}
