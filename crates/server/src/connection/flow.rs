//! A connection of a replica, which asks to be told what a core holds, and is handed to that core.

use super::{Connection, Stream};
use crate::flows::Follower;
use crate::hub::{Fresh, FreshFlow};
use std::net::TcpStream;
use tollgate_engine::effect::ToldBefore;
use tollgate_replication::flow::Has;
use tollgate_topology::{NodeId, RunId};

/// What a replica asks to be told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    /// The core that tells.
    pub(super) core: usize,
    /// The port at which the replica serves.
    pub(super) port: u16,
    /// What it was told before.
    pub(super) told: Option<ToldBefore>,
    /// Which node of a cluster it is.
    pub(super) node: Option<(NodeId, RunId)>,
}

impl<S: Stream> Connection<S> {
    /// Hands the socket to the core whose flow was asked for.
    pub(super) fn become_flow(&self, flow: Flow) {
        let Flow { core, port, told, node } = flow;
        let host = self.session.client.address.rsplit_once(':').map_or("", |(host, _)| host);
        let follower = Follower { host: host.trim_matches(['[', ']']).to_owned(), port, node };
        let has = told.map(|ToldBefore { run_id, telling, number }| Has { run_id, telling, number });
        let stream = self.wire.stream().borrow().duplicate().map(TcpStream::from);
        let handed = stream.map(|stream| {
            let fresh = Fresh::Flow(Box::new(FreshFlow { stream, follower, has }));
            self.worker.hub.hand_over(core, fresh)
        });
        if !matches!(handed, Ok(Ok(()))) {
            tracing::warn!(core, "a replica cannot be told what this core holds; it will come again");
        }
    }
}
