//! A leader: rounds of a majority, grants, proposals, and who is gone.
//!
//! ```text
//! asks ──> [ wait ] ──> one round for all that wait ──> grant, each by the map that the round has applied
//! every 20 ms: look ──> proposals, each with the term in which it was decided ──> log ──> settled
//! ```
//!
//! What a leader knows beside the map ([`Lead`]) begins when it has committed and applied its first entry of a term,
//! and is dropped when it leads no more. The library tells that a little later than it is so. That does no harm: a
//! grant is made only after the library was asked, in the order of all that it does, whether the term is still the
//! same; and a proposal that came into the log in another term changes nothing ([`crate::machine`]).

use crate::bounds;
use crate::members::{self, Known, Step, View};
use crate::node::{Node, locked};
use crate::raft::{Proposal, Raft};
use crate::wire::{Fault, Reply, Yield};
use openraft::error::Fatal;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, timeout};
use tollgate_topology::leader::{Leader, NotYet};
use tollgate_topology::lease::{Answer, Ask};
use tollgate_topology::{Applied, Change, NodeId, RunId};

/// An ask that waits for a round, and where its answer goes, with the term.
pub type WaitingAsk = (Ask, oneshot::Sender<(Answer, u64)>);

/// What a leader knows beside the map.
pub struct Lead {
    /// The term that it leads in.
    pub term: u64,
    /// What it decides by.
    pub leader: Leader,
    heard: BTreeMap<NodeId, u64>,
    /// What it has found to be changed, and has not come out of the log yet.
    flying: Vec<Change>,
    /// The last that each process has proposed.
    proposed: BTreeMap<NodeId, (RunId, u64)>,
}

impl Lead {
    fn new(term: u64, now: u64) -> Lead {
        Lead { term, leader: Leader::new(now), heard: BTreeMap::new(), flying: Vec::new(), proposed: BTreeMap::new() }
    }

    /// A node has asked.
    pub fn hears(&mut self, ask: &Ask, now: u64) {
        self.leader.hears(ask, now);
        self.heard.insert(ask.id, now);
    }

    /// Whether a proposal is the newest of its process, or comes late, when something later was proposed already.
    fn is_newest(&mut self, (from, run, number): (NodeId, RunId, u64)) -> bool {
        let last = self.proposed.entry(from).or_insert((run, 0));
        if last.0 == run && last.1 >= number {
            return false;
        }
        *last = (run, number);
        true
    }
}

/// The term that this node leads in by the library's word, in the order of all that the library does.
async fn leading_term(raft: &Raft, id: NodeId) -> Option<u64> {
    let vote = raft.with_raft_state(|state| *state.vote_ref()).await.ok()?;
    let is_own = vote.is_committed() && vote.leader_id.voted_for() == Some(id);
    is_own.then_some(vote.leader_id.term)
}

/// A round of a majority that begins now, and what it has shown to be committed is applied here. Gives the term.
async fn round(raft: &Raft, id: NodeId) -> Option<u64> {
    timeout(bounds::ROUND_TIME_MAX, raft.ensure_linearizable()).await.ok()?.ok()?;
    leading_term(raft, id).await
}

impl Node {
    /// Whether this node leads by the word of a majority; what it knows of the map is then no older than this call.
    pub async fn confirms_its_lead(&self) -> bool {
        match self.running() {
            Some(running) => round(&running.raft, self.id).await.is_some(),
            None => false,
        }
    }

    /// Leads whenever this node was elected, until the task ends.
    pub async fn lead_on(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(bounds::LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let Some(running) = self.running() else { continue };
            let (is_elected, term) = {
                let metrics = running.raft.metrics();
                let metrics = metrics.borrow();
                // One that was stopped was so because this node enters another group, or ends.
                if let Err(error @ (Fatal::StorageError(_) | Fatal::Panicked)) = &metrics.running_state {
                    tracing::error!(%error, "cluster: what was agreed cannot be kept, this node ends");
                    self.host.fails();
                    return;
                }
                (metrics.current_leader == Some(self.id), metrics.current_term)
            };
            if !is_elected || locked(&self.intent).is_some() {
                self.leads_no_more();
                continue;
            }
            let leads = locked(&self.lead).as_ref().map(|lead| lead.term);
            if leads == Some(term) {
                self.look();
            } else {
                self.leads_no_more();
                self.begin_to_lead(&running.raft).await;
            }
        }
    }

    fn leads_no_more(&self) {
        *locked(&self.lead) = None;
    }

    async fn begin_to_lead(self: &Arc<Self>, raft: &Raft) {
        // The round is over when the first entry of this term is applied: what other leaders left behind came before.
        let before = leading_term(raft, self.id).await;
        let after = round(raft, self.id).await;
        let Some(term) = after.filter(|_| before == after) else { return };
        if locked(&self.intent).is_some() {
            return;
        }
        // What this node has found in this term before, and forgotten, may be under way still.
        let is_quiet = self.proposals.available_permits() == bounds::PROPOSALS_MAX;
        if self.led.swap(term, Ordering::Relaxed) == term && !is_quiet {
            return;
        }
        *locked(&self.lead) = Some(Lead::new(term, self.now()));
        tracing::info!(term, "cluster: this node leads");
        if self.applied().nodes.is_empty() {
            let joiner = self.as_joiner();
            let change = Change::Join {
                id: joiner.id,
                info: joiner.info,
                slots: joiner.slots,
                config_epoch: joiner.config_epoch,
            };
            self.proposes(change, term);
        }
        self.asking.notify_one();
    }

    fn look(self: &Arc<Self>) {
        let map = self.applied();
        let (changes, term) = {
            let mut lead = locked(&self.lead);
            let Some(lead) = lead.as_mut() else { return };
            let changes = lead.leader.look(&map, self.now());
            let new: Vec<Change> = changes.into_iter().filter(|change| !lead.flying.contains(change)).collect();
            lead.flying.extend(new.iter().cloned());
            (new, lead.term)
        };
        for change in changes {
            self.proposes(change, term);
        }
    }

    fn proposes(self: &Arc<Self>, change: Change, term: u64) {
        match &change {
            Change::Promote { from, to, .. } => {
                tracing::warn!(primary = %from, replica = %to, "cluster: a primary is gone, its replica takes over");
            }
            Change::LeadAnew { id, .. } => {
                tracing::warn!(%id, "cluster: a primary that restarted leads on, as no replica knows more");
            }
            _ => {}
        }
        let node = Arc::clone(self);
        let Ok(place) = Arc::clone(&self.proposals).try_acquire_owned() else {
            return self.settles(&change, term);
        };
        tokio::spawn(async move {
            let outcome = node.write(change.clone(), term).await;
            drop(place);
            tracing::debug!(?change, ?outcome, "cluster: decided");
        });
    }

    /// Writes what was decided in a term, and says what came of it. Not to be dropped before it is done: until then the
    /// leader keeps nodes that are concerned from a lease. If nobody knows what came of it this node has lost its lead,
    /// and all that it knew as a leader goes with it.
    async fn write(self: Arc<Self>, change: Change, term: u64) -> Result<Applied, Fault> {
        let Some(running) = self.running() else { return Err(Fault::NoMajority) };
        let written = running.raft.client_write(Proposal { change: change.clone(), term }).await;
        let response = written.map_err(|_| Fault::NoMajority)?;
        self.settles(&change, term);
        if response.log_id.leader_id.term != term {
            return Err(Fault::NoMajority);
        }
        if matches!(change, Change::Join { .. }) {
            self.looking.notify_one();
        }
        response.data.map_or(Err(Fault::NoMajority), |outcome| outcome.map_err(Fault::Refused))
    }

    fn settles(&self, change: &Change, term: u64) {
        if let Some(lead) = locked(&self.lead).as_mut().filter(|lead| lead.term == term) {
            lead.leader.settled(change);
            lead.flying.retain(|flying| flying != change);
        }
    }

    /// Writes in a task of its own, so that it comes to its end whoever waits for it.
    async fn write_to_the_end(
        self: &Arc<Self>,
        change: Change,
        term: u64,
        place: OwnedSemaphorePermit,
    ) -> Result<Applied, Fault> {
        let node = Arc::clone(self);
        let writing = tokio::spawn(async move {
            let outcome = node.write(change, term).await;
            drop(place);
            outcome
        });
        writing.await.unwrap_or(Err(Fault::NoMajority))
    }

    /// Decides about a change that somebody wishes; none: this node does not lead.
    pub async fn decide(
        self: &Arc<Self>,
        mut change: Change,
        is_allowed: impl FnOnce(&mut Lead) -> bool,
    ) -> Option<Result<Applied, Fault>> {
        let Ok(place) = Arc::clone(&self.proposals).try_acquire_owned() else {
            return Some(Err(Fault::NotYet(NotYet::Busy)));
        };
        let map = self.applied();
        let term = {
            let mut lead = locked(&self.lead);
            let lead = lead.as_mut()?;
            if !is_allowed(lead) {
                return None;
            }
            if let Err(not_yet) = lead.leader.permit(&map, &mut change, self.now()) {
                return Some(Err(Fault::NotYet(not_yet)));
            }
            lead.term
        };
        Some(self.write_to_the_end(change, term, place).await)
    }

    /// Answers a proposal. One that has been overtaken on its way, or was meant for another leader, is not done: its
    /// process may have gone on without it.
    pub async fn answer_proposal(self: &Arc<Self>, change: Change, by: (NodeId, RunId, u64), term: u64) -> Reply {
        let is_allowed = |lead: &mut Lead| (term == 0 || term == lead.term) && lead.is_newest(by);
        match self.decide(change, is_allowed).await {
            Some(outcome) => Reply::Changed(outcome),
            None => Reply::NotLeader(self.pointer()),
        }
    }

    /// A primary gives its slots to its replica.
    pub async fn answer_yield(self: &Arc<Self>, yields: Yield) -> Reply {
        let Yield { from, since, number, to, term } = yields;
        let Ok(place) = Arc::clone(&self.proposals).try_acquire_owned() else {
            return Reply::Changed(Err(Fault::NotYet(NotYet::Busy)));
        };
        let map = self.applied();
        let decided = {
            let mut lead = locked(&self.lead);
            let Some(lead) = lead.as_mut().filter(|lead| lead.term == term) else {
                return Reply::NotLeader(self.pointer());
            };
            lead.leader.hand_over(&map, (from, since), number, to, self.now())
        };
        Reply::Changed(match decided {
            Ok(change) => self.write_to_the_end(change, term, place).await,
            Err(not_yet) => Err(Fault::NotYet(not_yet)),
        })
    }

    /// Holds rounds for the asks that come, until the task ends.
    pub async fn hold_rounds(self: Arc<Self>, mut asks: mpsc::Receiver<WaitingAsk>) {
        let mut waiting = Vec::new();
        while asks.recv_many(&mut waiting, bounds::ASKS_WAITING_MAX).await > 0 {
            let term = match self.running() {
                Some(running) => round(&running.raft, self.id).await,
                None => None,
            };
            for (ask, sender) in waiting.drain(..) {
                if let Some(answer) = term.and_then(|term| self.grant(&ask, term)) {
                    // Who asked may have given up.
                    let _ = sender.send(answer);
                }
            }
        }
    }

    fn grant(&self, ask: &Ask, term: u64) -> Option<(Answer, u64)> {
        let (map, now) = (self.applied(), self.now());
        let mut lead = locked(&self.lead);
        let lead = lead.as_mut().filter(|lead| lead.term == term)?;
        let grant = lead.leader.grant(&map, ask, now);
        let silent = lead.leader.silent(&map, now);
        Some((Answer { grant, silent, time: self.host.time(), epoch: map.epoch }, term))
    }

    /// Has the right nodes vote, until the task ends.
    pub async fn tend_members(self: Arc<Self>) {
        loop {
            tokio::select! {
                () = tokio::time::sleep(bounds::MEMBERS_EVERY) => {}
                () = self.looking.notified() => {}
            }
            for _ in 0..bounds::MEMBER_STEPS_MAX {
                let Some(running) = self.running() else { break };
                let Some(step) = self.view(&running.raft).and_then(|view| members::next(&view)) else { break };
                if !self.change_members(&running.raft, step).await {
                    break;
                }
            }
        }
    }

    async fn change_members(&self, raft: &Raft, step: Step) -> bool {
        let until = Instant::now() + bounds::PROPOSE_TIME_MAX;
        let changed = match step {
            Step::Learn(id) => {
                let Some(node) = self.applied().nodes.get(&id).map(|node| node.info.endpoint.clone()) else {
                    return false;
                };
                tokio::time::timeout_at(until, raft.add_learner(id, node, false)).await
            }
            Step::Vote(voters) => {
                tracing::info!(?voters, "cluster: who votes changes");
                tokio::time::timeout_at(until, raft.change_membership(voters, true)).await
            }
        };
        // Whatever came of it, the next view shows it.
        matches!(changed, Ok(Ok(_)))
    }

    fn view(&self, raft: &Raft) -> Option<View> {
        let map = self.applied();
        let lead = locked(&self.lead);
        let lead = lead.as_ref()?;
        let metrics = raft.metrics();
        let metrics = metrics.borrow();
        let membership = metrics.membership_config.membership();
        let last = metrics.last_log_index.unwrap_or(0);
        let is_caught_up = |id: &NodeId| {
            let matched = metrics.replication.as_ref().and_then(|lines| lines.get(id).copied()).flatten();
            *id == self.id || matched.is_some_and(|matched| matched.index + bounds::CAUGHT_UP_ENTRIES >= last)
        };
        let now = self.now();
        let silent_micros = |id: &NodeId| lead.heard.get(id).map(|heard| now.saturating_sub(*heard));
        let nodes = map.nodes.iter().map(|(id, node)| {
            let known = Known {
                shard: node.shard,
                host: node.info.endpoint.host.clone(),
                silent_micros: if *id == self.id { Some(0) } else { silent_micros(id) },
                is_caught_up: is_caught_up(id),
            };
            (*id, known)
        });
        let configs = membership.get_joint_config();
        Some(View {
            leader: self.id,
            nodes: nodes.collect(),
            members: membership.nodes().map(|(id, _)| *id).collect(),
            voters: configs.last().cloned().unwrap_or_default(),
            is_joint: configs.len() > 1,
        })
    }
}
