//! A replica takes over because an operator says so.
//!
//! ```text
//! replica ── HandOver ──> primary: asks for no lease, serve_until(0), until the replica has all
//!                         primary ── Yield ──> leader: granted nothing since? ──> Promote ──> all see it in the map
//! ```
//!
//! A replica that is not in step yet is given some seconds. Forced, the leader is asked besides to promote the replica
//! as it is, as soon as the primary's lease has ended.

use crate::bounds;
use crate::node::Node;
use crate::wire::{Fault, Reply, Request, Yield};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};
use tollgate_topology::leader::NotYet;
use tollgate_topology::{Applied, Change, NodeId, Refused};

/// What a primary and its leader may take to hand over, beside the draining.
const YIELD_TIME_MAX: Duration = Duration::from_secs(2);
/// Between two wishes that were not granted yet.
const WISH_EVERY: Duration = Duration::from_millis(50);
/// Until this node has heard of the map that it leads by.
const MAP_TIME_MAX: Duration = Duration::from_secs(1);

/// How a replica is to take over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failover {
    /// In order: the primary hands over, and nothing is lost.
    Asked,
    /// Though the primary may be gone, and hold what the replica does not.
    Forced,
    /// As forced: a majority is asked all the same.
    TakenOver,
}

/// Why a replica did not take over. Shown, it is the whole text of an error reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FailOverError {
    /// This node is no replica.
    #[error("ERR You should send CLUSTER FAILOVER to a replica")]
    NotAReplica,
    /// The primary cannot be reached.
    #[error("ERR Master is down or failed, please use CLUSTER FAILOVER FORCE")]
    PrimaryIsDown,
    /// It does not hold all that its primary holds.
    #[error("{}", Refused::NotInStep)]
    NotInStep,
    /// The primary or the leader does not do it.
    #[error("{0}")]
    Refused(String),
    /// No majority was heard of in time.
    #[error("ERR no majority: the failover was not confirmed in time")]
    NoMajority,
}

impl From<Fault> for FailOverError {
    fn from(fault: Fault) -> FailOverError {
        match fault {
            Fault::NoMajority => FailOverError::NoMajority,
            Fault::Refused(Refused::NotInStep) => FailOverError::NotInStep,
            fault => FailOverError::Refused(crate::handle::ProposeError::from(fault).to_string()),
        }
    }
}

impl Node {
    /// This node takes over from its primary.
    ///
    /// # Errors
    /// [`FailOverError`].
    pub async fn fail_over(self: Arc<Self>, how: Failover) -> Result<(), FailOverError> {
        let taking = async {
            match how {
                Failover::Asked => self.takes_over_when_in_step().await,
                Failover::Forced | Failover::TakenOver => self.takes_over_anyway().await,
            }
        };
        timeout(bounds::FAILOVER_TIME_MAX, taking).await.unwrap_or(Err(FailOverError::NoMajority))?;
        let id = self.id;
        // The leader has said that it is so; the map is on its way.
        self.waits_for_map(Instant::now() + MAP_TIME_MAX, |map| map.leading(id).is_some()).await;
        Ok(())
    }

    /// The primary that it follows, and since when that leads.
    fn primary(&self) -> Result<(NodeId, u64), FailOverError> {
        let map = self.applied();
        let primary = map.followed_by(self.id).ok_or(FailOverError::NotAReplica)?;
        let since = map.leading(primary).map(|leading| leading.since).ok_or(FailOverError::NotAReplica)?;
        Ok((primary, since))
    }

    async fn takes_over_in_order(&self, time: Duration) -> Result<(), FailOverError> {
        let (primary, since) = self.primary()?;
        match self.peers.call(primary, Request::HandOver { to: self.id, since }, time).await {
            Ok(Reply::Done(done)) => Ok(done?),
            Ok(_) | Err(_) => Err(FailOverError::PrimaryIsDown),
        }
    }

    async fn takes_over_when_in_step(&self) -> Result<(), FailOverError> {
        let until = Instant::now() + bounds::FORCED_TIME_MAX;
        loop {
            match self.takes_over_in_order(bounds::DRAIN_TIME_MAX + YIELD_TIME_MAX).await {
                Err(FailOverError::NotInStep) if Instant::now() + WISH_EVERY < until => {
                    tokio::time::sleep(WISH_EVERY).await;
                }
                outcome => return outcome,
            }
        }
    }

    async fn takes_over_anyway(self: &Arc<Self>) -> Result<(), FailOverError> {
        self.primary()?;
        let until = Instant::now() + bounds::FORCED_TIME_MAX;
        let mut may_help = true;
        loop {
            if may_help && self.takes_over_in_order(bounds::FORCED_IN_ORDER_TIME_MAX).await.is_ok() {
                return Ok(());
            }
            // What was under way may have come to its end meanwhile.
            let (from, since) = match self.primary() {
                Ok(primary) => primary,
                Err(_) => return Ok(()),
            };
            let (to, run) = (self.id, self.info.run);
            let left = until.saturating_duration_since(Instant::now());
            let change = Change::Promote { from, since, to, run, is_forced: true };
            match self.propose(change, left).await {
                Ok(_) => return Ok(()),
                Err(fault @ (Fault::NotYet(_) | Fault::Refused(Refused::Stale)))
                    if Instant::now() + WISH_EVERY < until =>
                {
                    // The leader hears the primary: it may hand over as soon as this replica is in step.
                    may_help = fault == Fault::NotYet(NotYet::PrimaryIsUp);
                    tokio::time::sleep(WISH_EVERY).await;
                }
                Err(fault) => return Err(fault.into()),
            }
        }
    }

    /// This node, which is about to end, hands its slots over, if it has any and a replica that is in step. Answers
    /// whether that was done.
    pub async fn steps_down(self: Arc<Self>) -> bool {
        let map = self.applied();
        let leading = map.leading(self.id).filter(|leading| leading.run == self.info.run && map.owns_any(self.id));
        let Some(leading) = leading else { return false };
        for to in leading.in_step.keys() {
            if self.hands_over(*to, leading.since).await.is_ok() {
                return true;
            }
        }
        false
    }

    /// This node, a primary, hands over to one of its replicas.
    pub async fn hands_over(self: &Arc<Self>, to: NodeId, since: u64) -> Result<(), Fault> {
        let map = self.applied();
        let leading = map.leading(self.id).filter(|leading| leading.since == since && leading.run == self.info.run);
        let leading = leading.ok_or(Fault::Refused(Refused::Stale))?;
        if !leading.in_step.contains_key(&to) {
            return Err(Fault::Refused(Refused::NotInStep));
        }
        let number = self.with_hold(|hold| {
            let is_first = !hold.is_handing_over && !hold.is_joining;
            is_first.then(|| {
                hold.is_handing_over = true;
                hold.holder.give_up()
            })
        });
        let number = number.ok_or(Fault::NotYet(NotYet::Busy))?;
        // In a task of its own: whoever asked may go, and this node must ask for leases again in any case.
        let node = Arc::clone(self);
        let handing = tokio::spawn(async move {
            let outcome = node.yields(to, since, number).await;
            node.with_hold(|hold| hold.is_handing_over = false);
            node.asking.notify_one();
            outcome
        });
        handing.await.unwrap_or(Err(Fault::NoMajority)).map(|_| ())
    }

    async fn yields(self: &Arc<Self>, to: NodeId, since: u64, number: u64) -> Result<Applied, Fault> {
        let drained = timeout(bounds::DRAIN_TIME_MAX, self.host.drains(to)).await;
        if drained != Ok(true) {
            return Err(Fault::Refused(Refused::NotInStep));
        }
        let (Some(leader), term) = self.leader_and_term() else { return Err(Fault::NoMajority) };
        let yields = Yield { from: self.id, since, number, to, term };
        if leader == self.id {
            return match timeout(YIELD_TIME_MAX, self.answer_yield(yields)).await {
                Ok(Reply::Changed(outcome)) => outcome,
                _ => Err(Fault::NoMajority),
            };
        }
        match self.peers.call(leader, Request::Yield(yields), YIELD_TIME_MAX).await {
            Ok(Reply::Changed(outcome)) => outcome,
            _ => Err(Fault::NoMajority),
        }
    }
}
