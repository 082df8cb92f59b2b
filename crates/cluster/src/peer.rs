//! The way to other nodes: where they are, and connections to them that are used again.
//!
//! The problem: a node that restarts may be somewhere else, and the library's messages must not each pay for a new
//! connection. The idea: an address book that follows the map, and what nodes say of themselves goes before the map;
//! connections that wait for their next request; and a request that its caller has given up is still answered to the
//! end, so that a node which is slow for a moment is not met with new connections on top.

use crate::bounds;
use crate::frame::{Channel, FrameError, Side};
use crate::hello::{self, HelloError};
use crate::wire::{Reply, Request};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tollgate_topology::map::Endpoint;
use tollgate_topology::{NodeId, SlotMap};

/// Why a node did not answer.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// Nobody knows where it is.
    #[error("it is not known where the node is")]
    Unknown,
    /// Nothing is there.
    #[error("no connection to {host}:{port}: {source}")]
    Connect {
        /// The host.
        host: String,
        /// The peer port.
        port: u16,
        /// What the system said.
        source: std::io::Error,
    },
    /// Without a secret only nodes of this machine are talked to.
    #[error("{host} is not this machine, and there is no cluster secret")]
    NotLoopback {
        /// The host.
        host: String,
    },
    /// They did not come together.
    #[error(transparent)]
    Hello(#[from] HelloError),
    /// Another node is there.
    #[error("another node is there")]
    OtherNode,
    /// The connection broke.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// What came is no reply.
    #[error("the answer is not understood: {0}")]
    NotUnderstood(#[from] serde_json::Error),
    /// It did not answer in time.
    #[error("the node did not answer in time")]
    Late,
    /// So many requests wait for it already that it is as good as gone.
    #[error("too many requests wait for the node")]
    Full,
}

/// A connection on which requests are answered one after another.
struct Connection {
    channel: Channel<TcpStream>,
}

impl Connection {
    async fn ask(&mut self, request: &[u8]) -> Result<Reply, PeerError> {
        self.channel.send(request).await?;
        let reply = self.channel.receive(bounds::FRAME_BYTES_MAX).await?;
        Ok(serde_json::from_slice(&reply)?)
    }
}

#[derive(Default)]
struct Way {
    /// By the group's own list of members, which is there before the map is.
    by_group: Option<Endpoint>,
    /// By the map.
    by_map: Option<Endpoint>,
    /// By the node's own word, which is newer.
    by_word: Option<Endpoint>,
    idle: Vec<Connection>,
    waiting: usize,
}

impl Way {
    fn endpoint(&self) -> Option<&Endpoint> {
        self.by_word.as_ref().or(self.by_map.as_ref()).or(self.by_group.as_ref())
    }
}

struct State {
    group: String,
    /// Rises as the group changes, so that no connection of the old one is used in the new one.
    generation: u64,
    ways: BTreeMap<NodeId, Way>,
}

/// All that is known about the ways to other nodes.
pub struct Peers {
    id: NodeId,
    secret: Option<Vec<u8>>,
    state: Mutex<State>,
}

impl Peers {
    /// Of a node in a group.
    pub fn new(id: NodeId, group: String, secret: Option<Vec<u8>>) -> Peers {
        Peers { id, secret, state: Mutex::new(State { group, generation: 0, ways: BTreeMap::new() }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The group that this node is in.
    pub fn group(&self) -> String {
        self.state().group.clone()
    }

    /// The node is in another group from now on: what was known is of the old one.
    pub fn enter(&self, group: String) {
        let mut state = self.state();
        (state.group, state.generation) = (group, state.generation.wrapping_add(1));
        state.ways.clear();
    }

    /// Where nodes are by the map. What one has said of itself is kept until the map says anything new of it.
    pub fn follow_map(&self, map: &SlotMap) {
        let mut state = self.state();
        state.ways.retain(|id, way| map.nodes.contains_key(id) || way.by_group.is_some());
        for (id, node) in &map.nodes {
            let way = state.ways.entry(*id).or_default();
            if way.by_map.as_ref() != Some(&node.info.endpoint) {
                way.by_map = Some(node.info.endpoint.clone());
                way.by_word = None;
            }
        }
    }

    /// Where a member of the group was as it joined: after a crash of all nodes that is all that anybody knows, as maps
    /// come out of the log only when somebody leads.
    pub fn follow_group(&self, id: NodeId, endpoint: &Endpoint) {
        let mut state = self.state();
        let way = state.ways.entry(id).or_default();
        if way.by_group.is_none() {
            way.by_group = Some(endpoint.clone());
        }
    }

    /// Where a node is by its own word.
    pub fn hears(&self, id: NodeId, endpoint: &Endpoint) {
        let mut state = self.state();
        let Some(way) = state.ways.get_mut(&id) else { return };
        if way.endpoint() != Some(endpoint) {
            way.by_word = Some(endpoint.clone());
            way.idle.clear();
        }
    }

    /// Where a node is, as far as is known.
    pub fn endpoint_of(&self, id: NodeId) -> Option<Endpoint> {
        let state = self.state();
        let way = state.ways.get(&id)?;
        way.endpoint().cloned()
    }

    /// Asks a node and waits for its reply, at most `time`.
    ///
    /// # Errors
    /// [`PeerError`]: whether the node has done anything is not known then.
    pub async fn call(self: &Arc<Self>, id: NodeId, request: Request, time: Duration) -> Result<Reply, PeerError> {
        {
            let mut state = self.state();
            let way = state.ways.get_mut(&id).ok_or(PeerError::Unknown)?;
            if way.waiting >= bounds::REQUESTS_MAX {
                return Err(PeerError::Full);
            }
            way.waiting += 1;
        }
        let (sender, receiver) = oneshot::channel();
        let peers = Arc::clone(self);
        tokio::spawn(async move {
            let longest = time.max(bounds::CONNECT_TIME_MAX);
            let reply = tokio::time::timeout(longest, peers.exchange(id, &request)).await;
            if let Some(way) = peers.state().ways.get_mut(&id) {
                way.waiting = way.waiting.saturating_sub(1);
            }
            // Whoever asked may have given up.
            let _ = sender.send(reply.unwrap_or(Err(PeerError::Late)));
        });
        match tokio::time::timeout(time, receiver).await {
            Ok(Ok(reply)) => reply,
            _ => Err(PeerError::Late),
        }
    }

    async fn exchange(&self, id: NodeId, request: &Request) -> Result<Reply, PeerError> {
        let json = serde_json::to_vec(request)?;
        let (idle, generation) = {
            let mut state = self.state();
            let generation = state.generation;
            (state.ways.get_mut(&id).and_then(|way| way.idle.pop()), generation)
        };
        // One that has waited may have been closed at its other end since: then a new one is made, once.
        if let Some(mut connection) = idle
            && let Ok(reply) = connection.ask(&json).await
        {
            self.put_back(id, connection, generation);
            return Ok(reply);
        }
        let endpoint = self.endpoint_of(id).ok_or(PeerError::Unknown)?;
        let (mut connection, there) = self.connect(&endpoint.host, endpoint.peer_port).await?;
        if there != id {
            return Err(PeerError::OtherNode);
        }
        let reply = connection.ask(&json).await?;
        self.put_back(id, connection, generation);
        Ok(reply)
    }

    fn put_back(&self, id: NodeId, connection: Connection, generation: u64) {
        let mut state = self.state();
        let is_same_group = state.generation == generation;
        if let Some(way) = state.ways.get_mut(&id)
            && is_same_group
            && way.idle.len() < bounds::IDLE_CONNECTIONS_MAX
        {
            way.idle.push(connection);
        }
    }

    /// Asks whoever is at an address, over a connection of its own, and waits at most `time`.
    ///
    /// # Errors
    /// [`PeerError`]: whether the node has done anything is not known then.
    pub async fn call_at(
        &self,
        at: &Endpoint,
        request: &Request,
        time: Duration,
    ) -> Result<(Reply, NodeId), PeerError> {
        let asking = async {
            let json = serde_json::to_vec(request)?;
            let (mut connection, id) = self.connect(&at.host, at.peer_port).await?;
            Ok((connection.ask(&json).await?, id))
        };
        tokio::time::timeout(time, asking).await.map_err(|_| PeerError::Late)?
    }

    async fn connect(&self, host: &str, port: u16) -> Result<(Connection, NodeId), PeerError> {
        let failed = |source| PeerError::Connect { host: host.to_owned(), port, source };
        let connecting = tokio::time::timeout(bounds::CONNECT_TIME_MAX, TcpStream::connect((host, port)));
        let stream = connecting.await.map_err(|_| PeerError::Late)?.map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        if self.secret.is_none() && !stream.peer_addr().map_err(failed)?.ip().to_canonical().is_loopback() {
            return Err(PeerError::NotLoopback { host: host.to_owned() });
        }
        let mut channel = Channel::new(stream, Side::Asks);
        let group = self.group();
        let hello = hello::greet(&mut channel, &group, self.id, self.secret.as_deref()).await?;
        Ok((Connection { channel }, hello.id))
    }

    /// The secret of the peer port.
    pub fn secret(&self) -> Option<&[u8]> {
        self.secret.as_deref()
    }

    /// The node that this is.
    pub fn id(&self) -> NodeId {
        self.id
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_topology::Change;
    use tollgate_topology::map::Info;

    #[test]
    fn a_node_s_own_word_goes_before_the_map_and_the_map_before_the_list_of_members() {
        let at = |peer_port| Endpoint { host: "h".to_owned(), port: 1, peer_port };
        let id = NodeId::from(7);
        let info = |peer_port| Info { endpoint: at(peer_port), ..Info::default() };
        let peers = Peers::new(NodeId::from(1), "g".to_owned(), None);
        let port = || peers.endpoint_of(id).map(|endpoint| endpoint.peer_port);
        let mut map = SlotMap::default();
        peers.follow_group(id, &at(1));
        peers.follow_map(&map);
        assert_eq!(port(), Some(1), "there is no map yet");
        map.apply(&Change::Join { id, info: info(2), slots: Default::default(), config_epoch: 0 }).unwrap();
        peers.follow_map(&map);
        assert_eq!(port(), Some(2));
        peers.hears(id, &at(3));
        peers.follow_map(&map);
        assert_eq!(port(), Some(3), "the map says nothing new");
        map.apply(&Change::Announce { id, info: info(4) }).unwrap();
        peers.follow_map(&map);
        assert_eq!(port(), Some(4));
        peers.enter("other".to_owned());
        assert_eq!(port(), None);
    }
}
