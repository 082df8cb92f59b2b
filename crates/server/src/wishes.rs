//! What operators want of the cluster, carried out with other nodes.

use crate::group::Group;
use crate::spread;
use crate::worker::Worker;
use std::rc::Rc;
use std::time::Duration;
use tollgate_cluster::Failover;
use tollgate_engine::cluster::NO_CLUSTER;
use tollgate_engine::cluster::wish::{self, ClusterWish, NOT_EMPTY, answer_to};

/// A change that was made is known here within this time, if at all soon.
const APPLYING_TIME: Duration = Duration::from_secs(1);

/// Carries a wish out. Answers with the text of a simple reply, once what was wanted is known here too.
///
/// # Errors
/// The text of the error reply.
pub async fn carry_out(worker: &Rc<Worker>, wish: ClusterWish) -> Result<String, String> {
    let Some(cluster) = worker.hub.group.as_ref().and_then(Group::cluster) else { return Err(NO_CLUSTER.to_owned()) };
    let text = |error: &dyn std::fmt::Display| error.to_string();
    match wish {
        ClusterWish::Meet { host, port, peer_port } => {
            cluster.meet(host, port, peer_port).await.map_err(|error| text(&error))?;
        }
        ClusterWish::FailOver(how) => {
            let how = match how {
                wish::Failover::Asked => Failover::Asked,
                wish::Failover::Forced => Failover::Forced,
                wish::Failover::TakenOver => Failover::TakenOver,
            };
            cluster.fail_over(how).await.map_err(|error| text(&error))?;
        }
        ClusterWish::ProposeIfEmpty(_) if spread::holds_keys(worker).await? => return Err(NOT_EMPTY.to_owned()),
        ClusterWish::Propose(change) | ClusterWish::ProposeIfEmpty(change) => {
            let applied = cluster.propose(change.clone()).await.map_err(|error| text(&error))?;
            let mut maps = cluster.map();
            let known = tokio::time::timeout(APPLYING_TIME, maps.wait_for(|map| map.epoch >= applied.epoch)).await;
            let map = known.ok().and_then(Result::ok).map(|map| map.clone()).unwrap_or_default();
            return Ok(answer_to(&change, applied.is_changed, &map));
        }
    }
    Ok("OK".to_owned())
}
