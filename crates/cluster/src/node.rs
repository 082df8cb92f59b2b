//! A node: the map as it comes, the lease that it asks for, and what other nodes ask of it.
//!
//! ```text
//! machine ── map ──> follow_map ── lost its lead? ──> serve_until(0) ──> then the map is shown
//! every lease / 5:  ask ──> the leader ──> answer ──> granted ──> serve_until(t)
//! ```

use crate::accept::{Answers, Door};
use crate::bounds;
use crate::election::Ear;
use crate::handle::{Health, Host};
use crate::hello::random;
use crate::lead::{Lead, WaitingAsk};
use crate::machine::Machine;
use crate::peer::{PeerError, Peers};
use crate::raft::{self, Network, Raft};
use crate::store::{GroupFact, Identity, Store};
use crate::wire::{Fault, Group, Pointer, Reply, Request};
use openraft::raft::AppendEntriesResponse;
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::Instant;
use tollgate_topology::leader::NotYet;
use tollgate_topology::lease::{Answer, Ask, Holder};
use tollgate_topology::map::{Endpoint, Info};
use tollgate_topology::{Applied, Change, NodeId, SlotMap};

/// For another node's word about who is known.
const KNOWN_TIME_MAX: Duration = Duration::from_secs(1);
/// A node asks so many times while a lease lasts.
const ASKS_PER_LEASE: u32 = 5;
/// One of so many asks goes to any node, though this one has voted for a leader: the others may know better.
const TRIES_BY_VOTE: usize = 4;
/// A lease of a map that is not there yet, in milliseconds.
const LEASE_MS_MIN: u32 = 100;

/// What a node is made of.
pub struct Parts {
    /// What it keeps.
    pub store: Store,
    /// Who it is.
    pub identity: Identity,
    /// What its process says of itself.
    pub info: Info,
    /// What nodes prove to one another that they know.
    pub secret: Option<Vec<u8>>,
    /// The process.
    pub host: Arc<dyn Host>,
    /// Where maps are shown.
    pub map: watch::Sender<Arc<SlotMap>>,
    /// Where its health is shown.
    pub health: watch::Sender<Health>,
}

/// Its lease, and why it wants none for the moment.
#[derive(Default)]
pub struct Hold {
    /// The lease.
    pub holder: Holder,
    /// It hands its slots over.
    pub is_handing_over: bool,
    /// It joins another group.
    pub is_joining: bool,
    shown: u64,
}

/// Where the leader is, as far as is known.
#[derive(Default)]
struct Guide {
    /// Who is asked next.
    leader: Option<Pointer>,
    /// Who has answered last, and its term.
    answered: Option<NodeId>,
    term: u64,
    heard_at: Option<u64>,
    silent: Vec<NodeId>,
}

/// Its part in a group.
pub struct Running {
    /// What it keeps for the group.
    pub store: Store,
    /// The group.
    pub group: GroupFact,
    /// The library.
    pub raft: Raft,
}

/// A node.
pub struct Node {
    /// Its id.
    pub id: NodeId,
    /// What its process says of itself.
    pub info: Info,
    /// The process.
    pub host: Arc<dyn Host>,
    /// The way to other nodes.
    pub peers: Arc<Peers>,
    /// What it decides while it leads.
    pub lead: Mutex<Option<Lead>>,
    /// It asks at once when notified.
    pub asking: Notify,
    /// It looks at who should vote at once when notified.
    pub looking: Notify,
    /// Changes that are under way here.
    pub proposals: Arc<Semaphore>,
    /// Where it joins a group, until that is settled.
    pub intent: Mutex<Option<crate::meet::Intent>>,
    hold: Mutex<Hold>,
    guide: Mutex<Guide>,
    running: Mutex<Option<Arc<Running>>>,
    kept: Mutex<Option<(Store, Identity)>>,
    applied: Mutex<Arc<SlotMap>>,
    map: watch::Sender<Arc<SlotMap>>,
    health: watch::Sender<Health>,
    rounds: mpsc::Sender<WaitingAsk>,
    asks: Arc<Semaphore>,
    /// What it has heard of leaders.
    pub ear: Mutex<Ear>,
    /// The term that it has led in last.
    pub led: AtomicU64,
    number: AtomicU64,
}

/// Whom to ask.
#[derive(Clone, Debug)]
pub enum Target {
    /// This node leads itself.
    Here,
    /// A node of the map.
    Node(NodeId),
    /// Whoever is there.
    At(Endpoint),
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Node {
    /// One that does nothing yet, and the asks that come to it while it leads.
    pub fn new(parts: Parts) -> (Arc<Node>, mpsc::Receiver<WaitingAsk>) {
        let Parts { store, identity, info, secret, host, map, health } = parts;
        let (rounds, asks) = mpsc::channel(bounds::ASKS_WAITING_MAX);
        let peers = Arc::new(Peers::new(identity.id, identity.group.id.clone(), secret));
        let node = Node {
            id: identity.id,
            info,
            host,
            peers,
            lead: Mutex::new(None),
            asking: Notify::new(),
            looking: Notify::new(),
            proposals: Arc::new(Semaphore::new(bounds::PROPOSALS_MAX)),
            intent: Mutex::new(None),
            hold: Mutex::new(Hold::default()),
            guide: Mutex::new(Guide::default()),
            running: Mutex::new(None),
            kept: Mutex::new(Some((store, identity))),
            applied: Mutex::new(Arc::default()),
            map,
            health,
            rounds,
            asks: Arc::new(Semaphore::new(bounds::ASKS_MAX)),
            ear: Mutex::new(Ear::new()),
            led: AtomicU64::new(0),
            number: AtomicU64::new(0),
        };
        (Arc::new(node), asks)
    }

    /// Takes part until the future is dropped, or what is kept cannot be read.
    pub async fn live(self: Arc<Self>, listeners: Vec<TcpListener>, asks: mpsc::Receiver<WaitingAsk>) {
        let Some((store, identity)) = locked(&self.kept).take() else { return };
        if let Some(intent) = identity.intent {
            // It was ended while it joined: it serves nothing until it knows what came of that.
            self.intends(intent);
        }
        if let Err(error) = self.take_part(store, identity.group).await {
            tracing::error!(%error, "cluster: what is kept cannot be read, this node takes no part");
            return;
        }
        if locked(&self.intent).is_some() {
            tokio::spawn(Arc::clone(&self).go_on_joining());
        }
        let door = Arc::new(Door::new(Arc::clone(&self.peers), Arc::clone(&self)));
        for listener in listeners {
            tokio::spawn(Arc::clone(&door).attend(listener));
        }
        tokio::spawn(Arc::clone(&self).ask_on());
        tokio::spawn(Arc::clone(&self).hold_rounds(asks));
        tokio::spawn(Arc::clone(&self).tend_members());
        tokio::spawn(Arc::clone(&self).stand_for_election());
        tokio::spawn(Arc::clone(&self).be_heard());
        self.lead_on().await;
    }

    /// Begins to take part in a group.
    pub async fn take_part(self: &Arc<Self>, store: Store, group: GroupFact) -> io::Result<()> {
        let node = Arc::downgrade(self);
        let told = move |map: &Arc<SlotMap>| {
            if let Some(node) = node.upgrade() {
                node.applies(map);
            }
        };
        let machine = Machine::new(store.clone(), Arc::new(told))?;
        let config = Arc::new(raft::config());
        let network = Network(Arc::clone(&self.peers));
        let raft = Raft::new(self.id, config, network, store.clone(), machine).await.map_err(io::Error::other)?;
        if group.is_founder && !raft.is_initialized().await.map_err(io::Error::other)? {
            let alone = BTreeMap::from([(self.id, self.info.endpoint.clone())]);
            raft.initialize(alone).await.map_err(io::Error::other)?;
        }
        *locked(&self.running) = Some(Arc::new(Running { store, group, raft }));
        Ok(())
    }

    /// Takes part no more: nothing is served.
    pub async fn end(&self) {
        self.with_hold(|hold| hold.holder.give_up());
        *locked(&self.lead) = None;
        let running = locked(&self.running).clone();
        if let Some(running) = running {
            // It may have ended by a fault before.
            let _ = running.raft.shutdown().await;
        }
    }

    /// Lets go of the file.
    pub fn let_go(&self) {
        *locked(&self.running) = None;
        *locked(&self.kept) = None;
    }

    /// Its part in the group.
    pub fn running(&self) -> Option<Arc<Running>> {
        locked(&self.running).clone()
    }

    /// The clock of leases.
    pub fn now(&self) -> u64 {
        self.host.boot_micros()
    }

    /// The map as it was applied last.
    pub fn applied(&self) -> Arc<SlotMap> {
        Arc::clone(&locked(&self.applied))
    }

    /// Waits until the map is as wished, as far as it is shown; false: not until then.
    pub async fn waits_for_map(&self, until: Instant, wished: impl FnMut(&Arc<SlotMap>) -> bool) -> bool {
        let mut maps = self.map.subscribe();
        tokio::time::timeout_at(until, maps.wait_for(wished)).await.is_ok_and(|map| map.is_ok())
    }

    /// Does something with the lease, and tells the process what has become of it.
    pub fn with_hold<T>(&self, change: impl FnOnce(&mut Hold) -> T) -> T {
        let mut hold = locked(&self.hold);
        let value = change(&mut hold);
        let until = hold.holder.until();
        if hold.shown != until {
            hold.shown = until;
            self.host.serve_until(until);
        }
        value
    }

    /// A map has come. The lease goes first, so that nothing is served by a map that is over.
    fn applies(&self, map: &Arc<SlotMap>) {
        let has_come_to_lead = self.with_hold(|hold| {
            let before = hold.holder.leads_since();
            hold.holder.follow_map(map, self.id, self.info.run);
            hold.holder.leads_since() != before
        });
        *locked(&self.applied) = Arc::clone(map);
        self.peers.follow_map(map);
        // A node that has just joined sees maps first in which it is not yet: nobody is to go by those.
        if map.nodes.contains_key(&self.id) {
            self.map.send_if_modified(|shown| {
                let is_new = shown.epoch != map.epoch || !Arc::ptr_eq(shown, map) && **shown != **map;
                if is_new {
                    *shown = Arc::clone(map);
                }
                is_new
            });
        }
        if has_come_to_lead {
            self.asking.notify_one();
        }
    }

    async fn ask_on(self: Arc<Self>) {
        loop {
            let lease_ms = self.applied().lease.ms.max(LEASE_MS_MIN);
            let every = Duration::from_millis(u64::from(lease_ms / ASKS_PER_LEASE));
            tokio::select! {
                () = tokio::time::sleep(every) => {}
                () = self.asking.notified() => {}
            }
            self.show_health();
            if let Ok(place) = Arc::clone(&self.asks).try_acquire_owned() {
                let time = Duration::from_millis(u64::from(lease_ms / bounds::ASK_PARTS_OF_LEASE));
                tokio::spawn(Arc::clone(&self).ask_once(time, place));
            }
        }
    }

    async fn ask_once(self: Arc<Self>, time: Duration, place: OwnedSemaphorePermit) {
        let (number, leads_since) = self.with_hold(|hold| {
            let wants = !hold.is_handing_over && !hold.is_joining;
            (hold.holder.ask(self.now()), hold.holder.leads_since().filter(|_| wants))
        });
        let epoch = self.applied().epoch;
        let (id, info, follows) = (self.id, self.info.clone(), self.host.follows());
        let ask = Ask { id, info, number, epoch, leads_since, follows };
        let target = self.target();
        let (reply, from) = self.ask_whom(&target, Request::Ask(ask), time).await;
        drop(place);
        match reply {
            Ok(Reply::Answer(answer, term)) => self.hears_answer(&answer, term, from),
            other => {
                self.hears_no_answer(other);
                tokio::time::sleep(bounds::RETRY_AFTER).await;
                self.asking.notify_one();
            }
        }
    }

    fn hears_answer(&self, answer: &Answer, term: u64, from: Option<NodeId>) {
        let now = self.now();
        if let Some(grant) = &answer.grant {
            self.with_hold(|hold| {
                let wants = !hold.is_handing_over && !hold.is_joining;
                if wants {
                    hold.holder.granted(grant, now);
                }
            });
        }
        self.host.hears_time(answer.time);
        let mut guide = locked(&self.guide);
        if term >= guide.term {
            (guide.term, guide.heard_at) = (term, Some(now));
            guide.silent.clone_from(&answer.silent);
            let id = from.unwrap_or(self.id);
            guide.answered = Some(id);
            if guide.leader.as_ref().is_none_or(|leader| leader.id != id) {
                let endpoint = self.peers.endpoint_of(id).unwrap_or_default();
                guide.leader = Some(Pointer { id, endpoint });
            }
        }
        drop(guide);
        self.show_health();
    }

    /// Learns from a reply that was none where the leader may be.
    fn hears_no_answer(&self, reply: Result<Reply, PeerError>) {
        let mut guide = locked(&self.guide);
        guide.leader = match reply {
            Ok(Reply::NotLeader(pointer)) => pointer.filter(|pointer| pointer.id != self.id),
            _ => None,
        };
    }

    /// Who may be the leader.
    pub fn target(&self) -> Target {
        if locked(&self.lead).is_some() {
            return Target::Here;
        }
        let Some(running) = self.running() else { return Target::Here };
        let (by_vote, term) = {
            let metrics = running.raft.metrics();
            let metrics = metrics.borrow();
            (metrics.current_leader.filter(|id| *id != self.id), metrics.current_term)
        };
        let guide = locked(&self.guide);
        let is_deposed = by_vote.is_some() && term > guide.term;
        if let Some(Pointer { id, endpoint }) = guide.leader.as_ref().filter(|it| it.id != self.id && !is_deposed) {
            let is_known = self.peers.endpoint_of(*id).is_some();
            return if is_known { Target::Node(*id) } else { Target::At(endpoint.clone()) };
        }
        let map = self.applied();
        let others: Vec<NodeId> = map.nodes.keys().filter(|id| **id != self.id).copied().collect();
        // Drawn, and not in turn: asks and proposals that take turns could each always find the same wrong one.
        let drawn = random::<1>().map_or(0, |[byte]| usize::from(byte));
        let any = others.get((drawn / TRIES_BY_VOTE).checked_rem(others.len()).unwrap_or(0)).copied();
        match (by_vote, any, &running.group.sponsor) {
            (Some(id), _, _) if !drawn.is_multiple_of(TRIES_BY_VOTE) && self.peers.endpoint_of(id).is_some() => {
                Target::Node(id)
            }
            (_, Some(id), _) => Target::Node(id),
            (_, None, Some(sponsor)) => Target::At(sponsor.clone()),
            (_, None, None) => Target::Here,
        }
    }

    /// The leader that answered last, and its term.
    pub fn leader_and_term(&self) -> (Option<NodeId>, u64) {
        let guide = locked(&self.guide);
        (guide.answered, guide.term)
    }

    async fn ask_whom(
        self: &Arc<Self>,
        target: &Target,
        request: Request,
        time: Duration,
    ) -> (Result<Reply, PeerError>, Option<NodeId>) {
        match target {
            Target::Here => {
                let group = self.peers.group();
                let answering = self.answer_boxed(group, request);
                let answering = tokio::time::timeout(time, answering).await;
                (answering.map_err(|_| PeerError::Late), Some(self.id))
            }
            Target::Node(id) => (self.peers.call(*id, request, time).await, Some(*id)),
            Target::At(endpoint) => match self.peers.call_at(endpoint, &request, time).await {
                Ok((reply, id)) => (Ok(reply), Some(id)),
                Err(error) => (Err(error), None),
            },
        }
    }

    /// What this node answers itself may be that it asks another, which may be itself: a future of no known size.
    fn answer_boxed(self: &Arc<Self>, group: String, request: Request) -> Pin<Box<dyn Future<Output = Reply> + Send>> {
        let node = Arc::clone(self);
        Box::pin(async move { node.answer(node.id, &group, request).await })
    }

    fn show_health(&self) {
        let Some(running) = self.running() else { return };
        let (voters, term) = {
            let metrics = running.raft.metrics();
            let metrics = metrics.borrow();
            // While that changes, those of before must still agree to everything.
            let voters = metrics.membership_config.membership().get_joint_config().first();
            (voters.into_iter().flatten().copied().collect(), metrics.current_term)
        };
        let guide = locked(&self.guide);
        let lease_micros = u64::from(self.applied().lease.ms) * 1_000;
        let now = self.now();
        let has_leader = guide.heard_at.is_some_and(|heard| now.saturating_sub(heard) <= 2 * lease_micros);
        let health = Health { has_leader, leader: guide.answered, silent: guide.silent.clone(), voters, term };
        drop(guide);
        self.health.send_if_modified(|shown| {
            let is_new = *shown != health;
            if is_new {
                *shown = health;
            }
            is_new
        });
    }

    /// What was known of a leader is of another group.
    pub fn forgets_leader(&self) {
        *locked(&self.guide) = Guide::default();
    }

    /// Has a change made that takes slots from this node. From when it is proposed until this node goes by the map that
    /// came of it, nothing is served here.
    ///
    /// # Errors
    /// [`Fault`].
    pub async fn gives_up_slots(self: &Arc<Self>, change: Change, time: Duration) -> Result<Applied, Fault> {
        let is_first = self.with_hold(|hold| {
            let is_first = !hold.is_handing_over && !hold.is_joining;
            if is_first {
                hold.is_handing_over = true;
                hold.holder.give_up();
            }
            is_first
        });
        if !is_first {
            return Err(Fault::NotYet(NotYet::Busy));
        }
        let outcome = self.propose(change, time).await;
        if let Ok(applied) = &outcome {
            self.waits_for_map(Instant::now() + time, |map| map.epoch >= applied.epoch).await;
        }
        self.with_hold(|hold| hold.is_handing_over = false);
        self.asking.notify_one();
        outcome
    }

    /// Has a change made by the leader, wherever that is.
    ///
    /// # Errors
    /// [`Fault`].
    pub async fn propose(self: &Arc<Self>, change: Change, time: Duration) -> Result<Applied, Fault> {
        let until = Instant::now() + time;
        while Instant::now() < until {
            let left = until.saturating_duration_since(Instant::now());
            let target = self.target();
            let (_, term) = self.leader_and_term();
            let number = self.number.fetch_add(1, Ordering::Relaxed) + 1;
            let request = Request::Propose { change: change.clone(), run: self.info.run, number, term };
            match self.ask_whom(&target, request, left).await.0 {
                Ok(Reply::Changed(Err(Fault::NoMajority))) => {}
                Ok(Reply::Changed(outcome)) => return outcome,
                Ok(Reply::NotLeader(Some(pointer))) if pointer.id != self.id => {
                    self.hears_no_answer(Ok(Reply::NotLeader(Some(pointer))));
                }
                other => self.hears_no_answer(other),
            }
            tokio::time::sleep(bounds::RETRY_AFTER).await;
        }
        Err(Fault::NoMajority)
    }

    /// Where the leader is, for a node that has asked the wrong one.
    pub fn pointer(&self) -> Option<Pointer> {
        let running = self.running()?;
        let id = running.raft.metrics().borrow().current_leader.filter(|id| *id != self.id)?;
        Some(Pointer { id, endpoint: self.peers.endpoint_of(id)? })
    }

    async fn answer_member(self: &Arc<Self>, from: NodeId, request: Request) -> Reply {
        let Some(running) = self.running() else { return Reply::OtherGroup };
        match request {
            Request::Append(rpc) => {
                let answer = running.raft.append_entries(rpc).await;
                if !matches!(answer, Ok(AppendEntriesResponse::HigherVote(_)) | Err(_)) {
                    locked(&self.ear).hears();
                }
                Reply::Append(answer)
            }
            Request::Vote(rpc) => {
                let answer = running.raft.vote(rpc).await;
                if answer.as_ref().is_ok_and(|answer| answer.vote_granted) {
                    locked(&self.ear).hears();
                }
                Reply::Vote(answer)
            }
            Request::Snapshot(rpc) => {
                locked(&self.ear).hears();
                Reply::Snapshot(running.raft.install_snapshot(rpc).await)
            }
            Request::MissesLeader(last) => {
                let leads = running.raft.metrics().borrow().current_leader == Some(self.id);
                let is_as_long = last >= running.raft.data_metrics().borrow().last_log;
                Reply::Known(!leads && is_as_long && locked(&self.ear).misses_leader())
            }
            Request::Ask(ask) => self.answer_ask(ask).await,
            Request::Propose { change, run, number, term } => {
                self.answer_proposal(change, (from, run, number), term).await
            }
            Request::HandOver { to, since } => Reply::Done(self.hands_over(to, since).await),
            Request::Yield(yields) => self.answer_yield(yields).await,
            _ => Reply::OtherGroup,
        }
    }

    async fn answer_ask(&self, ask: Ask) -> Reply {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        self.peers.hears(ask.id, &ask.info.endpoint);
        {
            let mut lead = locked(&self.lead);
            let Some(lead) = lead.as_mut() else { return Reply::NotLeader(self.pointer()) };
            lead.hears(&ask, self.now());
        }
        if self.rounds.try_send((ask, sender)).is_err() {
            return Reply::NotLeader(None);
        }
        match receiver.await {
            Ok((answer, term)) => Reply::Answer(answer, term),
            Err(_) => Reply::NotLeader(None),
        }
    }
}

impl Node {
    /// Says whether the group has a node. That it has not only its leader can say, after a round of a majority: what
    /// this node knows of the map may be old, and who asks serves by itself if it was not taken in.
    async fn answer_known(self: &Arc<Self>, id: NodeId) -> Reply {
        let is_known = || self.applied().nodes.contains_key(&id);
        if is_known() || self.confirms_its_lead().await {
            return Reply::Known(is_known());
        }
        let (Some(leader), _) = self.leader_and_term() else { return Reply::NotLeader(None) };
        if leader == self.id {
            return Reply::NotLeader(None);
        }
        match self.peers.call(leader, Request::Known(id), KNOWN_TIME_MAX).await {
            Ok(Reply::Known(is_known)) => Reply::Known(is_known),
            _ => Reply::NotLeader(None),
        }
    }
}

impl Answers for Arc<Node> {
    async fn answer(&self, from: NodeId, group: &str, request: Request) -> Reply {
        match request {
            Request::Join(joiner) => self.answer_join(joiner).await,
            Request::Known(id) => self.answer_known(id).await,
            Request::JoinUs(at) => Reply::Done(self.answer_join_us(at).await),
            Request::WhoAreYou => {
                let nodes = self.applied().nodes.len();
                Reply::Group(Group { group: self.peers.group(), id: self.id, nodes })
            }
            // What a group decides among itself is nobody else's.
            _ if group != self.peers.group() => Reply::OtherGroup,
            Request::Ask(ref ask) if ask.id != from => Reply::OtherGroup,
            request => self.answer_member(from, request).await,
        }
    }

    fn now(&self) -> u64 {
        self.host.boot_micros()
    }
}
