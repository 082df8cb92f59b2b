//! The consensus library, tied to what it is used for here, and hidden from everybody else.
//!
//! One thing is added to it: an entry carries the term in which its change was decided. A leader decides by what it
//! knows, and what it knows holds for its own term only. An entry that was decided in one term and came into the log in
//! another changes nothing, on every node alike ([`crate::machine`]).

use crate::bounds;
use crate::peer::Peers;
use crate::wire::{Reply, Request};
use openraft::error::{InstallSnapshotError, RPCError, RaftError, RemoteError, Unreachable};
use openraft::network::{Backoff, RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse, VoteRequest,
    VoteResponse,
};
use openraft::{Config, SnapshotPolicy};
use serde::{Deserialize, Serialize};
use std::io::Cursor;
use std::sync::Arc;
use std::time::Duration;
use tollgate_topology::map::Endpoint;
use tollgate_topology::{Applied, Change, NodeId, Refused};

/// What is written into the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// What is to be changed.
    pub change: Change,
    /// The term in which a leader decided it.
    pub term: u64,
}

/// What came of an entry; none: it was no change of the map.
pub type Outcome = Option<Result<Applied, Refused>>;

openraft::declare_raft_types!(
    /// What the library is used with.
    pub Types:
        D = Proposal,
        R = Outcome,
        NodeId = NodeId,
        Node = Endpoint,
        Entry = openraft::Entry<Types>,
        SnapshotData = Cursor<Vec<u8>>,
);

/// A running node of the group.
pub type Raft = openraft::Raft<Types>;
/// A place in the log.
pub type LogId = openraft::LogId<NodeId>;
/// What a node has voted.
pub type Vote = openraft::Vote<NodeId>;
/// One entry of the log.
pub type Entry = openraft::Entry<Types>;
/// Who is in the group.
pub type Membership = openraft::StoredMembership<NodeId, Endpoint>;
/// What is known of a snapshot beside its bytes.
pub type SnapshotMeta = openraft::SnapshotMeta<NodeId, Endpoint>;
/// A fault of the disk, as the library wants it.
pub type StorageError = openraft::StorageError<NodeId>;

/// How the library is to behave.
pub fn config() -> Config {
    Config {
        cluster_name: "tollgate".to_owned(),
        heartbeat_interval: bounds::MESSAGE_MS_MAX,
        election_timeout_min: bounds::VOTE_MS_MAX,
        election_timeout_max: bounds::LEADER_HEARD_MS,
        // See `crate::election`.
        enable_elect: false,
        enable_heartbeat: false,
        install_snapshot_timeout: 2_000,
        max_payload_entries: bounds::MESSAGE_ENTRIES_MAX,
        replication_lag_threshold: bounds::SNAPSHOT_ENTRIES * 2,
        snapshot_policy: SnapshotPolicy::LogsSinceLast(bounds::SNAPSHOT_ENTRIES),
        snapshot_max_chunk_size: bounds::SNAPSHOT_CHUNK_BYTES,
        max_in_snapshot_log_to_keep: bounds::LOG_ENTRIES_KEPT,
        ..Config::default()
    }
}

/// The way to the other nodes.
#[derive(Clone)]
pub struct Network(pub Arc<Peers>);

/// The way to one of them.
pub struct Line {
    peers: Arc<Peers>,
    target: NodeId,
}

impl RaftNetworkFactory<Types> for Network {
    type Network = Line;

    async fn new_client(&mut self, target: NodeId, node: &Endpoint) -> Line {
        self.0.follow_group(target, node);
        Line { peers: Arc::clone(&self.0), target }
    }
}

type CallError<E = openraft::error::Infallible> = RPCError<NodeId, Endpoint, RaftError<NodeId, E>>;

impl Line {
    async fn call<E: std::error::Error>(&self, request: Request, time: Duration) -> Result<Reply, CallError<E>> {
        let answer = self.peers.call(self.target, request, time).await;
        answer.map_err(|error| RPCError::Unreachable(Unreachable::new(&error)))
    }

    fn unexpected<E: std::error::Error>() -> CallError<E> {
        // A node that is not in this group yet, or not any more.
        RPCError::Unreachable(Unreachable::new(&std::io::Error::other("the node is of another group")))
    }

    fn remote<E: std::error::Error>(&self, error: RaftError<NodeId, E>) -> CallError<E> {
        RPCError::RemoteError(RemoteError::new(self.target, error))
    }
}

impl RaftNetwork<Types> for Line {
    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<NodeId>, CallError> {
        match self.call(Request::Append(rpc), option.hard_ttl()).await? {
            Reply::Append(answer) => answer.map_err(|error| self.remote(error)),
            _ => Err(Line::unexpected()),
        }
    }

    async fn install_snapshot(
        &mut self,
        rpc: InstallSnapshotRequest<Types>,
        option: RPCOption,
    ) -> Result<InstallSnapshotResponse<NodeId>, CallError<InstallSnapshotError>> {
        match self.call(Request::Snapshot(rpc), option.hard_ttl()).await? {
            Reply::Snapshot(answer) => answer.map_err(|error| self.remote(error)),
            _ => Err(Line::unexpected()),
        }
    }

    async fn vote(&mut self, rpc: VoteRequest<NodeId>, option: RPCOption) -> Result<VoteResponse<NodeId>, CallError> {
        match self.call(Request::Vote(rpc), option.hard_ttl()).await? {
            Reply::Vote(answer) => answer.map_err(|error| self.remote(error)),
            _ => Err(Line::unexpected()),
        }
    }

    fn backoff(&self) -> Backoff {
        // A node that is back is to hear of its leader soon: before it asks to be elected itself.
        Backoff::new(std::iter::repeat(bounds::HEARTBEAT_EVERY))
    }
}
