//! Nodes, ways, clients, and the loop that lets events happen.

use super::books::Books;
use super::check::{self, Checker, Fact, Records, Scene};
use super::clients::{Call, Client};
use super::machine::{Disk, Machine, Place, Process, info, node_id};
use super::net::{Body, Net, Party};
use super::node::TICK_MICROS;
use super::plan::Plan;
use super::primary::{FLUSH_MICROS, Wire};
use super::raft::{Entry, Stable};
use super::{Run, Summary};
use crate::agenda::Agenda;
use crate::pipe::Arrival;
use crate::random::Random;
use crate::view::{Key, hasher, look};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use tollgate_limits::Micros;
use tollgate_replication::import;
use tollgate_topology::slots::SlotSet;
use tollgate_topology::{Change, SlotMap};

/// Facts that a report shows: those that say who is what, and others.
const REMEMBERED: [usize; 2] = [250, 100];
/// Characters of a fact that a report shows.
const SHOWN_CHARACTERS: usize = 1_000;
/// The longest time from when a paused node goes on until it has come to what happened meanwhile, in microseconds.
const WAKE_MICROS_MAX: u64 = 400;
/// Of a thousand calls and answers, so many are lost with their connection.
const LOST_PERMILLE: u64 = 3;

/// Something that is going to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// Time passes for a process.
    Tick { place: Place },
    /// A core's tick.
    Flush { place: Place },
    /// A core tells its replicas before its next tick.
    Soon { place: Place },
    /// An answer is to be written.
    Write { place: Place, call: u64 },
    /// A message arrives.
    Deliver { message: u64 },
    /// Something on a link is due.
    Arrive { wire: u64, is_forth: bool },
    /// A replica tries to reach its primary.
    Try { place: Place, since: u64, attempt: u64 },
    /// A client asks something.
    Ask { client: usize },
    /// A client tries again.
    Retry { client: usize, wish: u64 },
    /// A client has waited long enough.
    Impatient { client: usize, call: u64 },
    /// Something goes wrong.
    Trouble,
    /// A machine's process starts.
    Start { node: usize },
    /// A paused machine goes on.
    Wake { node: usize },
    /// A node is cut off.
    CutOff { node: usize },
    /// An operator's wish comes again, so often more.
    Force { to: usize, times: u64 },
}

/// A message on its way.
#[derive(Clone, Debug)]
struct Envelope {
    from: Party,
    to: Party,
    body: Body,
}

/// Takes in what happens, keeps the books, asks the checkers, remembers the last facts.
pub(super) struct Observer {
    pub books: Books,
    checkers: Vec<Box<dyn Checker>>,
    last: [VecDeque<(u64, u64, Fact)>; 2],
    pub found: Option<(&'static str, String)>,
}

/// All of it.
pub(super) struct World {
    pub plan: Plan,
    pub random: Random,
    pub agenda: Agenda<Event>,
    /// The simulation's own time, in microseconds.
    pub now: u64,
    pub machines: Vec<Machine>,
    pub net: Net,
    messages: BTreeMap<u64, Envelope>,
    next_message: u64,
    pub wires: BTreeMap<u64, Wire>,
    pub next_wire: u64,
    pub calls: BTreeMap<u64, Call>,
    pub next_call: u64,
    pub clients: Vec<Client>,
    /// By key: when a client last got an answer.
    pub answered: Vec<u64>,
    pub is_troubled: bool,
    pub keys: Rc<[Key]>,
    pub next_run: u64,
    pub observer: Observer,
    pub summary: Summary,
}

impl World {
    pub fn new(plan: Plan, mut random: Random, run: &Run) -> World {
        let mut checkers = check::all();
        checkers.retain(|checker| run.only.is_none_or(|only| only == checker.name()));
        let (log, map) = first_entries(&plan);
        let books = Books::new(&plan, Rc::new(map.clone()), log.len());
        let observer = Observer { books, checkers, last: Default::default(), found: None };
        let key = |name: &str| Key { name: name.to_owned(), at: hasher().locate(name.as_bytes()) };
        let mut machines: Vec<Machine> = (0..plan.nodes).map(|_| Machine::new(&mut random)).collect();
        let is_late = |node: usize| plan.late.is_some_and(|(late, _)| late == node);
        for (_, machine) in machines.iter_mut().enumerate().filter(|(node, _)| !is_late(*node)) {
            let stable = Stable { term: 1, voted_for: None, log: log.clone() };
            machine.disk = Disk { stable, map: map.clone(), applied: log.len(), file: None };
        }
        World {
            machines,
            keys: plan.keys.iter().map(|plan| key(&plan.name)).collect(),
            agenda: Agenda::default(),
            now: 0,
            net: Net::default(),
            messages: BTreeMap::new(),
            next_message: 0,
            wires: BTreeMap::new(),
            next_wire: 0,
            calls: BTreeMap::new(),
            next_call: 0,
            clients: (0..plan.clients).map(|_| Client::default()).collect(),
            answered: vec![0; plan.keys.len()],
            is_troubled: false,
            next_run: 1,
            observer,
            summary: Summary::default(),
            plan,
            random,
        }
    }

    /// Lets everything happen. Answers what is wrong, if anything.
    pub fn run(&mut self) -> Option<(&'static str, String)> {
        (0..self.plan.nodes).for_each(|node| match self.plan.late {
            Some((late, _)) if late == node => {
                let at = self.random.between(1, self.plan.trouble_micros);
                self.schedule(at, Event::Start { node });
            }
            _ => self.start(node),
        });
        self.is_troubled = true;
        for client in 0..self.plan.clients {
            let at = self.now + self.random.between(1, self.plan.pause_micros_max);
            self.schedule(at, Event::Ask { client });
        }
        let at = self.random.between(300_000, 1_200_000);
        self.schedule(at, Event::Trouble);
        self.let_happen(self.plan.trouble_micros + 1_000_000);
        self.heal();
        self.note(Fact::Over);
        let books = &self.observer.books;
        (self.summary.promotions, self.summary.anew) = (books.promoted, books.anew);
        self.observer.found.take()
    }

    /// What happened last, oldest first, one line each.
    pub fn last(&self) -> Vec<String> {
        let mut last: Vec<_> = self.observer.last.iter().flatten().collect();
        last.sort_by_key(|(number, ..)| *number);
        let shown =
            |(_, at, fact): &(u64, u64, Fact)| format!("{at:>9} {fact}").chars().take(SHOWN_CHARACTERS).collect();
        last.into_iter().map(shown).collect()
    }

    pub fn let_happen(&mut self, until: u64) {
        while self.observer.found.is_none() {
            let Some((at, event)) = self.agenda.next() else { break };
            if at > until {
                self.agenda.add(&mut self.random, at, event);
                break;
            }
            self.now = at;
            match self.node_of_event(event).filter(|node| self.is_paused(*node)) {
                Some(node) => {
                    if let Some(machine) = self.machines.get_mut(node) {
                        machine.asleep.push(event);
                    }
                }
                None => self.happen(event),
            }
        }
        self.now = self.now.max(until);
    }

    fn node_of_event(&self, event: Event) -> Option<usize> {
        match event {
            Event::Tick { place }
            | Event::Flush { place }
            | Event::Soon { place }
            | Event::Write { place, .. }
            | Event::Try { place, .. } => Some(place.node),
            Event::Deliver { message } => match self.messages.get(&message)?.to {
                Party::Node(node) | Party::Process(Place { node, .. }) => Some(node),
                Party::Client(_) => None,
            },
            Event::Arrive { wire, is_forth } => {
                let wire = self.wires.get(&wire)?;
                Some(if is_forth { wire.replica.node } else { wire.primary.node })
            }
            _ => None,
        }
    }

    /// A machine goes on, unless it is paused for longer: it comes to what happened meanwhile in any order.
    pub fn wake(&mut self, node: usize) {
        if self.is_paused(node) {
            return;
        }
        let asleep = self.machines.get_mut(node).map(|machine| std::mem::take(&mut machine.asleep));
        for event in asleep.into_iter().flatten() {
            let at = self.now + self.random.between(0, WAKE_MICROS_MAX);
            self.schedule(at, event);
        }
    }

    pub fn is_paused(&self, node: usize) -> bool {
        self.machines.get(node).is_some_and(|machine| machine.paused_until > self.now)
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Tick { place } => self.tick(place),
            Event::Flush { place } if self.process_of(place).is_some() => self.flush(place, true),
            Event::Flush { .. } => {}
            Event::Soon { place } => self.flush(place, false),
            Event::Write { place, call } => self.write_answer(place, call),
            Event::Deliver { message } => self.deliver(message),
            Event::Arrive { wire, is_forth } => self.arrive(wire, is_forth),
            Event::Try { place, since, attempt } => self.try_to_follow(place, since, attempt),
            Event::Ask { client } => self.wish(client),
            Event::Retry { client, wish } => self.retry(client, wish),
            Event::Impatient { client, call } => self.lose_patience(client, call),
            Event::Trouble => self.trouble(),
            Event::Start { node } => self.start(node),
            Event::CutOff { node } if self.is_troubled => self.cut_off(node),
            Event::CutOff { .. } => {}
            Event::Wake { node } => self.wake(node),
            Event::Force { to, times } => self.force_again(to, times),
        }
    }

    fn arrive(&mut self, id: u64, is_forth: bool) {
        let Some(wire) = self.wires.get_mut(&id) else { return };
        let pipe = if is_forth { &mut wire.forth } else { &mut wire.back };
        match pipe.take(self.now) {
            Err(due) => self.schedule(due, Event::Arrive { wire: id, is_forth }),
            Ok(None) => {}
            Ok(Some(arrival)) if is_forth => {
                self.hear(id, arrival);
                // There is room again.
                self.tell(id);
            }
            Ok(Some(Arrival::Bytes(bytes))) => self.hear_back(id, &bytes),
            Ok(Some(Arrival::End | Arrival::Broken)) => self.link_over(id),
        }
    }

    pub fn send(&mut self, from: Party, to: Party, body: Body) {
        let is_clients = matches!(from, Party::Client(_)) || matches!(to, Party::Client(_));
        if self.is_troubled && is_clients && self.random.chance(LOST_PERMILLE) {
            return;
        }
        let delay = self.plan.delay_micros_max;
        let Some(at) = self.net.arrival((from, to), self.now, delay, &mut self.random) else { return };
        let message = self.next_message;
        self.next_message += 1;
        self.messages.insert(message, Envelope { from, to, body });
        self.schedule(at, Event::Deliver { message });
    }

    fn deliver(&mut self, message: u64) {
        let Some(Envelope { from, to, body }) = self.messages.remove(&message) else { return };
        let place = match to {
            Party::Client(client) => {
                if let Body::Reply { call, reply } = body {
                    self.hear_reply(client, call, &reply);
                }
                return;
            }
            Party::Node(node) => self.place(node),
            Party::Process(place) => self.place(place.node).filter(|there| *there == place),
        };
        let Some(place) = place else { return };
        if matches!(from, Party::Process(_))
            && matches!(body, Body::Propose(_) | Body::HandOver { .. })
            && let Some(leader) = self.leader_elsewhere(place)
        {
            // Who does not lead hands it on once, as a node does with what an operator types at it.
            return self.send(Party::Node(place.node), Party::Node(leader), body);
        }
        match (body, from) {
            (Body::Raft(message), Party::Node(from)) => self.hear_raft(place, from, message),
            (Body::Ask(ask), Party::Process(from)) => self.hear_ask(place, from, *ask),
            (Body::Answer(answer), _) => self.hear_answer(place, &answer),
            (Body::Propose(change), _) => self.hear_wish(place, *change),
            (Body::HandOver { from, since, number, to }, _) => self.hear_hand_over(place, (from, since), number, to),
            (Body::FailOver { to }, _) => self.begin_to_hand_over(place, to),
            (Body::Call(call), _) => self.serve(place, call),
            _ => {}
        }
    }

    /// A process starts on a machine, from the last snapshot if there is one.
    pub fn start(&mut self, node: usize) {
        if self.place(node).is_some() {
            return;
        }
        let run = self.next_run;
        self.next_run += 1;
        let place = Place { node, run };
        let Some(machine) = self.machines.get_mut(node) else { return };
        let mut process = Process::new(place, &self.plan, machine, self.now);
        let now = process.timeline.now(machine.boot(self.now));
        if let Some(file) = &machine.disk.file {
            let put = import(&file.records, &mut process.core.store, now);
            assert!(put.is_ok(), "records that nobody changed are put: {put:?}");
        }
        let has_file = machine.disk.file.is_some();
        machine.process = Some(process);
        self.note(Fact::Started { place, has_file });
        self.follow_map(place);
        for (event, within) in [(Event::Tick { place }, TICK_MICROS), (Event::Flush { place }, FLUSH_MICROS)] {
            let at = self.now + self.random.between(1, within);
            self.schedule(at, event);
        }
    }

    /// What a node holds, by key, what has expired included.
    pub fn held_of(&mut self, node: usize) -> Records {
        let keys = self.keys.clone();
        let Some(process) = self.process_at(node) else { return Records::new() };
        let store = &mut process.core.store;
        let held = keys.iter().enumerate();
        held.filter_map(|(number, key)| Some((number, look(store, key).record?))).collect()
    }

    pub fn schedule(&mut self, at: u64, event: Event) {
        self.agenda.add(&mut self.random, at, event);
    }

    /// The process that runs on a machine.
    pub fn place(&self, node: usize) -> Option<Place> {
        let process = self.machines.get(node)?.process.as_ref()?;
        Some(Place { node, run: process.run })
    }

    /// The process that runs on a machine.
    pub fn process_at(&mut self, node: usize) -> Option<&mut Process> {
        self.machines.get_mut(node)?.process.as_mut()
    }

    /// A process, if it still runs.
    pub fn process_of(&mut self, place: Place) -> Option<&mut Process> {
        self.process_at(place.node).filter(|process| process.run == place.run)
    }

    pub fn boot(&self, node: usize) -> u64 {
        self.machines.get(node).map_or(0, |machine| machine.boot(self.now))
    }

    pub fn time(&self, node: usize) -> Micros {
        let (clock, machine) = (self.boot(node), self.machines.get(node));
        machine.and_then(|machine| machine.process.as_ref()).map_or(0, |process| process.timeline.now(clock))
    }

    pub fn fail(&mut self, text: String) {
        self.observer.found.get_or_insert(("the simulation itself", text));
    }

    pub fn note(&mut self, fact: Fact) {
        let Observer { books, checkers, last, found } = &mut self.observer;
        if found.is_some() {
            return;
        }
        self.summary.facts += 1;
        // Where a lease ends by a process's death, who it was is known after as before.
        books.post(&fact);
        let scene = Scene { plan: &self.plan, books, at: self.now };
        for checker in checkers {
            if let Err(text) = checker.see(&fact, &scene) {
                found.get_or_insert((checker.name(), text));
            }
        }
        let kind = usize::from(!fact.is_rare());
        if let (Some(last), Some(most)) = (last.get_mut(kind), REMEMBERED.get(kind)) {
            if last.len() == *most {
                last.pop_front();
            }
            last.push_back((self.summary.facts, self.now, fact));
        }
    }
}

/// What the group's log begins with: all nodes but the one that comes late, and who has which slots.
fn first_entries(plan: &Plan) -> (Vec<Entry>, SlotMap) {
    let nodes = plan.nodes - usize::from(plan.late.is_some());
    let mut changes = vec![Change::SetLease { ms: plan.lease_ms }];
    for node in 0..nodes {
        let shard = plan.shards.iter().find(|shard| shard.primary == node);
        let slots = SlotSet::new(shard.into_iter().flat_map(|shard| shard.slots.0..=shard.slots.1));
        // The first processes are numbered as their nodes are.
        let run = node as u64 + 1;
        changes.push(Change::Join { id: node_id(node), info: info(node, run), slots, config_epoch: 0 });
    }
    for shard in &plan.shards {
        let of = node_id(shard.primary);
        changes.extend(shard.replicas.iter().map(|node| Change::Replicate { id: node_id(*node), of }));
    }
    let mut map = SlotMap::default();
    for change in &changes {
        let applied = map.apply(change);
        assert!(applied.is_ok(), "a first entry is refused: {applied:?}");
    }
    (changes.into_iter().map(|change| Entry { term: 1, change: Some(change) }).collect(), map)
}
