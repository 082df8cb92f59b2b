//! When a node asks to be elected.
//!
//! The problem: the library draws how long a node waits for its leader once in its life and looks at it in long
//! steps, so that two nodes which happen to wait alike ask at the same time, again and again; and a node that was
//! paused or cut off asks as soon as it is back, and deposes a leader that all others hear. The idea: this node has a
//! timer of its own, drawn anew each time, and before it asks to be elected it asks the voters whether they miss the
//! leader too, and would have it. All that makes an election safe is the library's still; when one begins is decided
//! here.
//!
//! ```text
//! nothing heard for 160 ms and up to 120 more ──> "do you miss the leader, and have I all that you have?"
//!                                                 ── a majority says so ──> election
//! ```

use crate::bounds;
use crate::hello::random;
use crate::node::{Node, locked};
use crate::raft::Raft;
use crate::wire::{Reply, Request};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};
use tollgate_topology::NodeId;

/// When this node has heard of a leader last, or voted.
pub struct Ear {
    heard: Instant,
}

impl Ear {
    /// One that has heard just now.
    pub fn new() -> Ear {
        Ear { heard: Instant::now() }
    }

    /// A leader, or a candidate that got this node's vote.
    pub fn hears(&mut self) {
        self.heard = Instant::now();
    }

    /// Whether a leader is missed.
    pub fn misses_leader(&self) -> bool {
        self.heard.elapsed() > Duration::from_millis(bounds::LEADER_HEARD_MS)
    }
}

/// A time that two nodes hardly have in common.
fn patience(most: u64) -> Duration {
    // Without random bytes all wait alike, and the library breaks the tie.
    let drawn = random::<8>().map_or(0, |bytes| u64::from_le_bytes(bytes) % (most * 1_000));
    Duration::from_micros(drawn)
}

/// The groups of voters that each must agree, and whether this node is one of them; none: it leads.
fn voters(raft: &Raft, id: NodeId) -> Option<Vec<BTreeSet<NodeId>>> {
    let metrics = raft.metrics();
    let metrics = metrics.borrow();
    let configs = metrics.membership_config.membership().get_joint_config();
    let is_voter = configs.iter().any(|voters| voters.contains(&id));
    (is_voter && metrics.current_leader != Some(id)).then(|| configs.clone())
}

fn is_majority(configs: &[BTreeSet<NodeId>], agree: &BTreeSet<NodeId>) -> bool {
    configs.iter().all(|voters| voters.intersection(agree).count() * 2 > voters.len())
}

impl Node {
    /// Has this node elected when it should be, until the task ends.
    pub async fn stand_for_election(self: Arc<Self>) {
        loop {
            let lease = Duration::from_millis(bounds::LEADER_HEARD_MS);
            let heard = locked(&self.ear).heard;
            let due = heard + lease + patience(bounds::ELECTION_PATIENCE_MS_MAX);
            tokio::time::sleep_until(due.max(Instant::now() + Duration::from_millis(1))).await;
            let Some(running) = self.running() else { continue };
            let Some(configs) = voters(&running.raft, self.id) else {
                locked(&self.ear).hears();
                continue;
            };
            if !locked(&self.ear).misses_leader() {
                continue;
            }
            if self.is_leader_missed(&running.raft, &configs).await && locked(&self.ear).misses_leader() {
                // An error says that the library has ended.
                let _ = running.raft.trigger().elect().await;
            }
            tokio::time::sleep(bounds::ELECTION_TRY_TIME + patience(bounds::ELECTION_RETRY_MS_MAX)).await;
        }
    }

    /// Lets the others hear of this node while it leads, until the task ends. The library sends the same by itself, but
    /// no more often than it gives a node time to answer.
    pub async fn be_heard(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(bounds::HEARTBEAT_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let Some(running) = self.running() else { continue };
            let leads = running.raft.metrics().borrow().current_leader == Some(self.id);
            if leads {
                // An error says that the library has ended.
                let _ = running.raft.trigger().heartbeat().await;
            }
        }
    }

    /// Whether a majority of the voters hears of no leader, and would have this node lead.
    async fn is_leader_missed(self: &Arc<Self>, raft: &Raft, configs: &[BTreeSet<NodeId>]) -> bool {
        let mut agree = BTreeSet::from([self.id]);
        let last = raft.data_metrics().borrow().last_log;
        let membership = Arc::clone(&raft.metrics().borrow().membership_config);
        membership.membership().nodes().for_each(|(id, endpoint)| self.peers.follow_group(*id, endpoint));
        let mut asked = JoinSet::new();
        for id in configs.iter().flatten().filter(|id| **id != self.id).collect::<BTreeSet<_>>() {
            let (peers, id) = (Arc::clone(&self.peers), *id);
            let time = bounds::ELECTION_TRY_TIME;
            asked.spawn(async move { (id, peers.call(id, Request::MissesLeader(last), time).await) });
        }
        while !is_majority(configs, &agree) {
            match asked.join_next().await {
                Some(Ok((id, Ok(Reply::Known(true))))) => {
                    agree.insert(id);
                }
                Some(_) => {}
                None => return false,
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_two_configurations_needs_its_majority() {
        let ids = |numbers: &[u8]| numbers.iter().map(|number| NodeId([*number; 20])).collect::<BTreeSet<_>>();
        let joint = [ids(&[1]), ids(&[1, 2, 3])];
        assert!(!is_majority(&joint, &ids(&[1])));
        assert!(!is_majority(&joint, &ids(&[2, 3])));
        assert!(is_majority(&joint, &ids(&[1, 3])));
        assert!(is_majority(&joint[..1], &ids(&[1])));
    }

    #[test]
    fn patience_is_drawn_anew_each_time() {
        let drawn: BTreeSet<Duration> = (0..20).map(|_| patience(100)).collect();
        assert!(drawn.len() > 10);
        assert!(drawn.iter().all(|drawn| *drawn < Duration::from_millis(100)));
    }
}
