//! What nodes say to one another: a request, and its reply, in JSON.

use crate::raft::{LogId, Types};
use openraft::error::{InstallSnapshotError, RaftError};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse, VoteRequest,
    VoteResponse,
};
use serde::{Deserialize, Serialize};
use tollgate_topology::leader::NotYet;
use tollgate_topology::lease::{Answer, Ask};
use tollgate_topology::map::{Endpoint, Info};
use tollgate_topology::slots::SlotSet;
use tollgate_topology::{Applied, Change, NodeId, Refused, RunId};

/// What one node asks another.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Request {
    /// Of the consensus library.
    Append(AppendEntriesRequest<Types>),
    /// Of the consensus library.
    Vote(VoteRequest<NodeId>),
    /// Of the consensus library.
    Snapshot(InstallSnapshotRequest<Types>),
    /// To a voter, from one that may ask to be elected: whether it has heard of no leader for long, and would
    /// vote for one that has the log up to here.
    MissesLeader(Option<LogId>),
    /// For a lease.
    Ask(Ask),
    /// To the leader: a change that somebody wishes.
    Propose {
        /// The change.
        change: Change,
        /// The process that asks.
        run: RunId,
        /// Rises with everything that it proposes: what comes after a later one is not done any more.
        number: u64,
        /// The leader's term, as the process knows it: what comes to another leader is not done.
        term: u64,
    },
    /// To any node of a group, from one that joins it.
    Join(Joiner),
    /// Whether the map holds a node.
    Known(NodeId),
    /// To a lone node: join the group of the node that asks, which is there.
    JoinUs(Endpoint),
    /// What a group is, before anybody joins it.
    WhoAreYou,
    /// To a primary, from its replica: hand over to me.
    HandOver {
        /// The replica.
        to: NodeId,
        /// Since when the primary leads, by the replica's map.
        since: u64,
    },
    /// To the leader, from a primary that serves no more.
    Yield(Yield),
}

/// A node that joins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Joiner {
    /// The node.
    pub id: NodeId,
    /// What it says of itself.
    pub info: Info,
    /// What it serves.
    pub slots: SlotSet,
    /// Its configuration epoch.
    pub config_epoch: u64,
}

/// A primary gives its slots to its replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Yield {
    /// The primary.
    pub from: NodeId,
    /// Since when it has led.
    pub since: u64,
    /// Its last ask: what it is granted for that or earlier ones is worth nothing to it.
    pub number: u64,
    /// The replica.
    pub to: NodeId,
    /// The leader's term, as the primary knows it: another leader does not know what this one has granted.
    pub term: u64,
}

/// Where a leader is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pointer {
    /// The leader.
    pub id: NodeId,
    /// Its endpoint.
    pub endpoint: Endpoint,
}

/// Why a change was not made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {
    /// The map does not allow it.
    Refused(Refused),
    /// The leader does not allow it now.
    NotYet(NotYet),
    /// Nobody knows what came of it, or nobody leads.
    NoMajority,
    /// Anything else, as the whole text of an error.
    Other(String),
}

/// A group, as a node of it sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// What it is called.
    pub group: String,
    /// The node that says so.
    pub id: NodeId,
    /// Nodes in its map.
    pub nodes: usize,
}

/// What comes back.
#[derive(Debug, Serialize, Deserialize)]
pub enum Reply {
    /// Of the consensus library.
    Append(Result<AppendEntriesResponse<NodeId>, RaftError<NodeId>>),
    /// Of the consensus library.
    Vote(Result<VoteResponse<NodeId>, RaftError<NodeId>>),
    /// Of the consensus library.
    Snapshot(Result<InstallSnapshotResponse<NodeId>, RaftError<NodeId, InstallSnapshotError>>),
    /// To an ask, and the leader's term.
    Answer(Answer, u64),
    /// What came of a change.
    Changed(Result<Applied, Fault>),
    /// The group that a node has joined.
    Joined(Result<String, Fault>),
    /// Not joined: the node joins another group itself, that of this node if it knows it.
    Joining {
        /// That node.
        to: Option<NodeId>,
    },
    /// Yes or no.
    Known(bool),
    /// What a group is.
    Group(Group),
    /// Done, or not.
    Done(Result<(), Fault>),
    /// This node does not lead; the one that does, if it is known.
    NotLeader(Option<Pointer>),
    /// The request is of another group.
    OtherGroup,
}
