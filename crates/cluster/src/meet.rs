//! Two groups become one: the lone node of one joins the other with all that it serves.
//!
//! The problem: a node that serves under its own group's lease while another group's map has it already, or has it not
//! after all, would admit twice or lose its slots, whatever crashes in between. The idea: it writes down what it is
//! about to do, serves no more, lets all that is under way in its own group come to its end, and only then asks. From
//! there it goes back only if it was told that it was not taken in; as long as it does not know it asks again.
//!
//! ```text
//! alone ──> intent kept, lease given up, nothing under way ──> Join ──> taken in ──> one transaction: the other group,
//!   ^                                                           │                     an empty log, no intent
//!   └───────── intent dropped <── refused, or never sent <──────┴──> not known: again
//! ```
//!
//! **Invariant:** a node with an intent serves nothing, leads nothing and takes nobody in.

use crate::bounds;
use crate::node::{Node, locked};
use crate::peer::PeerError;
use crate::store::GroupFact;
use crate::wire::{Fault, Joiner, Reply, Request};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use tollgate_topology::NodeId;
use tollgate_topology::change::Change;
use tollgate_topology::map::Endpoint;
use tollgate_topology::slots::SlotSet;

/// One try to be taken in.
const TRY_TIME_MAX: Duration = Duration::from_secs(5);
/// What asking a node what its group is may take.
const LOOK_TIME_MAX: Duration = Duration::from_secs(2);
/// Below [`bounds::REQUEST_TIME_MAX`], so that there is an answer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(4);
/// Until what was under way in the own group has come to its end.
const QUIET_TIME_MAX: Duration = Duration::from_secs(1);

/// Why two groups did not become one. Shown, it is the whole text of an error reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MeetError {
    /// There is no such port.
    #[error("ERR Invalid node address specified: the peer port would be above 65535, name it")]
    NoPeerPort,
    /// The node there cannot be talked to.
    #[error("ERR The node at {at} cannot be met: {reason}")]
    Unreachable {
        /// Its peer address.
        at: String,
        /// Why.
        reason: String,
    },
    /// Neither is alone.
    #[error("ERR Both nodes are in groups of more than one: empty one of the two groups first")]
    TwoGroups,
    /// It joins a group already.
    #[error("ERR This node is joining another, try again")]
    Busy,
    /// The other group did not take it in.
    #[error("{0}")]
    Refused(String),
    /// It goes on without anybody waiting for it.
    #[error("ERR The join is not confirmed yet; it goes on, and the node serves nothing meanwhile")]
    NotConfirmed,
    /// What is kept cannot be written.
    #[error("ERR The node cannot keep what it is about to do: {0}")]
    Disk(String),
    /// The cluster was stopped.
    #[error("ERR The node is being stopped")]
    Stopped,
}

/// A join that is under way.
#[derive(Clone, Debug)]
pub struct Intent {
    /// Where somebody of the other group is.
    pub at: Endpoint,
    /// Who that is, once it has said so.
    pub to: Option<NodeId>,
    /// Where its end is told.
    outcome: watch::Sender<Option<Result<(), MeetError>>>,
}

/// What came of one try.
enum Try {
    /// Taken in, into the group of this name.
    In(String),
    /// Not taken in, for this reason, and not to be tried again.
    Out(MeetError),
    /// Not taken in, for this reason, which may pass.
    Later(MeetError),
    /// This one has the lower id of two that join each other: it takes the other in.
    Yields,
    /// Nobody knows.
    Unknown,
}

impl Node {
    /// What this node says as it joins.
    pub fn as_joiner(&self) -> Joiner {
        let map = self.applied();
        let slots = map.slots_of(self.id).flat_map(|range| range.first..=range.last);
        let config_epoch = map.nodes.get(&self.id).map_or(0, |node| node.config_epoch);
        Joiner { id: self.id, info: self.info.clone(), slots: SlotSet::new(slots), config_epoch }
    }

    /// This node's group and that of the node at an address become one.
    ///
    /// # Errors
    /// [`MeetError`].
    pub async fn meet(self: Arc<Self>, at: Endpoint) -> Result<(), MeetError> {
        let until = Instant::now() + bounds::MEET_TIME_MAX;
        let (reply, id) = self.ask_at(&at, &Request::WhoAreYou).await?;
        let Reply::Group(group) = reply else {
            return Err(MeetError::Refused("ERR The node there answers something else".to_owned()));
        };
        if id == self.id || group.group == self.peers.group() {
            return Ok(());
        }
        if self.is_alone() {
            return self.join(at, Some(id), until).await;
        }
        if group.nodes > 1 {
            return Err(MeetError::TwoGroups);
        }
        let here = self.info.endpoint.clone();
        match self.ask_at(&at, &Request::JoinUs(here)).await?.0 {
            Reply::Done(Ok(())) => Ok(()),
            Reply::Done(Err(fault)) => Err(MeetError::Refused(text_of(fault))),
            _ => Err(MeetError::Refused("ERR The node there answers something else".to_owned())),
        }
    }

    fn is_alone(&self) -> bool {
        self.applied().nodes.len() <= 1
    }

    async fn ask_at(&self, at: &Endpoint, request: &Request) -> Result<(Reply, NodeId), MeetError> {
        let time = if matches!(request, Request::WhoAreYou) { LOOK_TIME_MAX } else { ANSWER_TIME_MAX };
        self.peers.call_at(at, request, time).await.map_err(|error| unreachable(at, &error))
    }

    /// Another group's node asks this one to join it.
    pub async fn answer_join_us(self: &Arc<Self>, at: Endpoint) -> Result<(), Fault> {
        let until = Instant::now() + ANSWER_TIME_MAX;
        let joined = if self.is_alone() { self.join(at, None, until).await } else { Err(MeetError::TwoGroups) };
        joined.map_err(|error| Fault::Other(error.to_string()))
    }

    /// A node asks to be taken in.
    pub async fn answer_join(self: &Arc<Self>, joiner: Joiner) -> Reply {
        let intent = locked(&self.intent).clone();
        if let Some(intent) = intent {
            return Reply::Joining { to: intent.to };
        }
        let group = self.peers.group();
        let Joiner { id, info, slots, config_epoch } = joiner;
        let change = Change::Join { id, info, slots, config_epoch };
        Reply::Joined(self.propose(change, ANSWER_TIME_MAX).await.map(|_| group))
    }

    /// From now on, or from the start on, this node is about to join another group.
    pub fn intends(&self, at: Endpoint) -> bool {
        let mut intent = locked(&self.intent);
        if intent.is_some() {
            return false;
        }
        *intent = Some(Intent { at, to: None, outcome: watch::channel(None).0 });
        drop(intent);
        *locked(&self.lead) = None;
        self.with_hold(|hold| {
            hold.is_joining = true;
            hold.holder.give_up()
        });
        true
    }

    async fn join(self: &Arc<Self>, at: Endpoint, to: Option<NodeId>, until: Instant) -> Result<(), MeetError> {
        if !self.intends(at.clone()) {
            return Err(MeetError::Busy);
        }
        let outcome = locked(&self.intent).as_mut().map(|intent| {
            intent.to = to;
            intent.outcome.subscribe()
        });
        let Some(mut outcome) = outcome else { return Err(MeetError::Busy) };
        if let Err(error) = self.prepare(&at).await {
            self.drop_intent(Err(error.clone())).await;
            return Err(error);
        }
        tokio::spawn(Arc::clone(self).go_on_joining());
        let ended = tokio::time::timeout_at(until, outcome.wait_for(Option::is_some)).await;
        let ended = ended.ok().and_then(Result::ok).and_then(|outcome| outcome.clone());
        ended.unwrap_or(Err(MeetError::NotConfirmed))?;
        let id = self.id;
        let is_in = self.waits_for_map(until, |map| map.nodes.len() > 1 && map.nodes.contains_key(&id)).await;
        if is_in { Ok(()) } else { Err(MeetError::NotConfirmed) }
    }

    /// All that is under way in the own group comes to its end, then what is about to be done is kept.
    async fn prepare(&self, at: &Endpoint) -> Result<(), MeetError> {
        let all = u32::try_from(bounds::PROPOSALS_MAX).unwrap_or(u32::MAX);
        let quiet = tokio::time::timeout(QUIET_TIME_MAX, self.proposals.acquire_many(all)).await;
        drop(quiet.map_err(|_| MeetError::Busy)?);
        if !self.is_alone() {
            return Err(MeetError::TwoGroups);
        }
        let running = self.running().ok_or(MeetError::Stopped)?;
        running.store.intend(Some(at.clone())).await.map_err(|error| MeetError::Disk(error.to_string()))
    }

    /// This node goes on as it was.
    async fn drop_intent(&self, outcome: Result<(), MeetError>) {
        if let Some(running) = self.running()
            && let Err(error) = running.store.intend(None).await
        {
            // At its next start it asks again: that does no harm, it was not taken in.
            tracing::warn!(%error, "cluster: what this node was about to do cannot be forgotten");
        }
        let intent = locked(&self.intent).take();
        self.with_hold(|hold| hold.is_joining = false);
        self.asking.notify_one();
        if let Some(intent) = intent {
            intent.outcome.send_replace(Some(outcome));
        }
    }

    /// Asks to be taken in until it knows what came of it.
    pub async fn go_on_joining(self: Arc<Self>) {
        let until = Instant::now() + bounds::MEET_TIME_MAX;
        let mut is_unknown = !self.knows_own_slots().await;
        loop {
            let Some(intent) = locked(&self.intent).clone() else { return };
            let tried = self.try_to_join(&intent).await;
            let end = match tried {
                Try::In(group) => return self.enter(group, &intent).await,
                Try::Yields => Some(Ok(())),
                Try::Out(error) => Some(Err(error)),
                Try::Later(error) => (Instant::now() >= until).then_some(Err(error)),
                Try::Unknown => {
                    is_unknown = true;
                    None
                }
            };
            match end {
                Some(outcome) if !is_unknown => return self.drop_intent(outcome).await,
                // An earlier try may be under way still. When it cannot be any more, the group knows.
                Some(outcome) => {
                    tokio::time::sleep(bounds::REQUEST_TIME_MAX).await;
                    if self.is_known(&intent).await == Some(false) {
                        return self.drop_intent(outcome).await;
                    }
                }
                None => tokio::time::sleep(bounds::RETRY_AFTER).await,
            }
        }
    }

    /// After a restart the own map has to come out of the own log first, or it would join without its slots. Gives
    /// whether nothing was asked before: not so after a restart.
    async fn knows_own_slots(&self) -> bool {
        if !self.applied().nodes.is_empty() {
            return true;
        }
        while let Some(running) = self.running() {
            if running.raft.ensure_linearizable().await.is_ok() {
                break;
            }
            tokio::time::sleep(bounds::RETRY_AFTER).await;
        }
        false
    }

    async fn is_known(&self, intent: &Intent) -> Option<bool> {
        match self.peers.call_at(&intent.at, &Request::Known(self.id), LOOK_TIME_MAX).await {
            Ok((Reply::Known(is_known), _)) => Some(is_known),
            _ => None,
        }
    }

    async fn try_to_join(&self, intent: &Intent) -> Try {
        let request = Request::Join(self.as_joiner());
        match self.peers.call_at(&intent.at, &request, TRY_TIME_MAX).await {
            Ok((Reply::Joined(Ok(group)), _)) => Try::In(group),
            Ok((Reply::Joined(Err(Fault::NoMajority)), _)) => Try::Unknown,
            Ok((Reply::Joined(Err(fault @ Fault::NotYet(_))), _)) => Try::Later(MeetError::Refused(text_of(fault))),
            Ok((Reply::Joined(Err(fault)), _)) => Try::Out(MeetError::Refused(text_of(fault))),
            Ok((Reply::Joining { to }, id)) => {
                if let Some(own) = locked(&self.intent).as_mut() {
                    own.to = Some(id);
                }
                let is_mutual = to == Some(self.id);
                if is_mutual && self.id < id { Try::Yields } else { Try::Later(MeetError::Busy) }
            }
            Ok(_) => Try::Later(MeetError::Busy),
            // It was not sent.
            Err(
                error @ (PeerError::Connect { .. }
                | PeerError::Hello(_)
                | PeerError::NotLoopback { .. }
                | PeerError::Unknown
                | PeerError::Full),
            ) => Try::Later(unreachable(&intent.at, &error)),
            Err(_) => Try::Unknown,
        }
    }

    /// This node is in the other group, and knows nothing of it yet.
    async fn enter(self: &Arc<Self>, group: String, intent: &Intent) {
        let Some(running) = self.running() else { return };
        // It may have ended by a fault before.
        let _ = running.raft.shutdown().await;
        let fact = GroupFact { id: group.clone(), is_founder: false, sponsor: Some(intent.at.clone()) };
        let entered = match running.store.enter(fact.clone()).await {
            Ok(store) => {
                self.peers.enter(group);
                self.forgets_leader();
                self.take_part(store, fact).await
            }
            Err(error) => Err(error),
        };
        if let Err(error) = entered {
            tracing::error!(%error, "cluster: the group that took this node in cannot be entered: restart it");
            intent.outcome.send_replace(Some(Err(MeetError::Disk(error.to_string()))));
            return;
        }
        *locked(&self.intent) = None;
        self.with_hold(|hold| hold.is_joining = false);
        self.asking.notify_one();
        intent.outcome.send_replace(Some(Ok(())));
    }
}

fn unreachable(at: &Endpoint, error: &PeerError) -> MeetError {
    MeetError::Unreachable { at: format!("{}:{}", at.host, at.peer_port), reason: error.to_string() }
}

fn text_of(fault: Fault) -> String {
    crate::handle::ProposeError::from(fault).to_string()
}
