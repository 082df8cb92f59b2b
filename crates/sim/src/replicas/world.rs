//! Machines, links, clients, and the loop that lets events happen.

use super::books::Books;
use super::calls::Call;
use super::check::{self, Checker, Fact, Records, Scene};
use super::machine::{Machine, Process};
use super::operator::Restart;
use super::plan::Plan;
use super::primary::FLUSH_MICROS;
use super::wire::{Place, Wire};
use super::{Run, Summary};
use crate::agenda::Agenda;
use crate::pipe::Arrival;
use crate::random::Random;
use crate::view::{Key, hasher, look};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use tollgate_engine::route::owner;
use tollgate_limits::Micros;

/// Facts that a report shows.
const REMEMBERED: usize = 120;
/// Characters of a fact that a report shows.
const SHOWN_CHARACTERS: usize = 1_500;
/// How long healing may take, in microseconds.
const HEALING_MICROS_MAX: u64 = 6_000_000;
/// How long nothing breaks before nodes are compared, besides what links and cores may take.
const REST_MICROS: u64 = 40_000;

/// Something that is going to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// A client asks something.
    Call { caller: usize },
    /// A call goes on.
    Step { call: u64 },
    /// A core's tick.
    Flush { place: Place, core: usize },
    /// A core tells its replicas before its next tick.
    Soon { place: Place, core: usize },
    /// Something on a link is due.
    Arrive { wire: u64, is_forth: bool },
    /// A core takes over what is first for it.
    Take { place: Place, core: usize },
    /// A replica tries to reach its primary.
    Try { place: Place, attempt: u64 },
    /// A replica looks whether its primary is silent.
    Look { place: Place, attempt: u64 },
    /// A core goes on with a snapshot.
    Save { place: Place, core: usize, number: u64 },
    /// Something goes wrong.
    Trouble,
    /// A machine's process starts again.
    Restart { node: usize, how: Restart, serves: bool },
    /// A replica is to be the primary.
    Promote { place: Place },
    /// A primary came back: who is to go on.
    Decide { node: usize, run: u64 },
    /// A process waits to be told whom to follow.
    Follow { place: Place },
}

/// Takes in what happens, keeps the books, asks the checkers, remembers the last facts.
pub(super) struct Observer {
    pub books: Books,
    checkers: Vec<Box<dyn Checker>>,
    last: VecDeque<Fact>,
    found: Option<(&'static str, String)>,
}

/// All of it.
pub(super) struct World {
    pub plan: Plan,
    pub random: Random,
    pub agenda: Agenda<Event>,
    /// The simulation's own time, in microseconds.
    pub now: u64,
    pub machines: Vec<Machine>,
    pub wires: BTreeMap<u64, Wire>,
    /// Pairs of machines that cannot reach each other, and until when.
    pub cuts: BTreeMap<(usize, usize), u64>,
    pub calls: BTreeMap<u64, Call>,
    /// The machine that clients call.
    pub serves: Option<usize>,
    /// Whether things go wrong, and clients call.
    pub is_troubled: bool,
    pub names: Vec<String>,
    pub keys: Rc<[Key]>,
    /// By key: its slot.
    pub slots: Vec<u16>,
    pub next_wire: u64,
    pub next_run: u64,
    pub next_call: u64,
    pub next_attempt: u64,
    pub next_save: u64,
    pub observer: Observer,
    pub summary: Summary,
}

impl World {
    pub fn new(plan: Plan, mut random: Random, run: &Run) -> World {
        let mut checkers = check::all();
        checkers.retain(|checker| run.only.is_none_or(|only| only == checker.name()));
        let observer = Observer { books: Books::new(&plan), checkers, last: VecDeque::new(), found: None };
        let key = |name: &String| Key { name: name.clone(), at: hasher().locate(name.as_bytes()) };
        let names: Vec<String> = plan.keys.iter().map(|key| key.name.clone()).collect();
        let keys: Rc<[Key]> = names.iter().map(key).collect();
        World {
            machines: (0..plan.nodes).map(|_| Machine::new(&mut random)).collect(),
            slots: keys.iter().map(|key| key.at.slot).collect(),
            agenda: Agenda::default(),
            now: 0,
            wires: BTreeMap::new(),
            cuts: BTreeMap::new(),
            calls: BTreeMap::new(),
            serves: None,
            is_troubled: false,
            names,
            keys,
            next_wire: 0,
            next_run: 1,
            next_call: 0,
            next_attempt: 0,
            next_save: 0,
            observer,
            summary: Summary::default(),
            plan,
            random,
        }
    }

    /// Lets everything happen. Answers what is wrong, if anything.
    pub fn run(&mut self) -> Option<(&'static str, String)> {
        self.restart(0, Restart::Empty, true);
        (1..self.plan.nodes).for_each(|node| self.restart(node, Restart::Empty, false));
        for _ in 0..self.plan.phases {
            self.is_troubled = true;
            for caller in 0..self.plan.callers {
                let at = self.now + self.random.between(1, self.plan.pause_micros_max);
                self.schedule(at, Event::Call { caller });
            }
            let at = self.now + self.random.between(20_000, self.plan.trouble_micros_max + 20_000);
            self.schedule(at, Event::Trouble);
            self.let_happen(self.now + self.plan.phase_micros);
            self.is_troubled = false;
            self.heal();
        }
        self.note(Fact::Over);
        self.observer.found.take()
    }

    /// What happened last, oldest first, one line each.
    pub fn last(&self) -> Vec<String> {
        let shown = |fact: &Fact| fact.to_string().chars().take(SHOWN_CHARACTERS).collect();
        self.observer.last.iter().map(shown).collect()
    }

    fn let_happen(&mut self, until: u64) {
        while self.observer.found.is_none() {
            let Some((at, event)) = self.agenda.next() else { break };
            if at > until {
                self.agenda.add(&mut self.random, at, event);
                break;
            }
            self.now = at;
            self.happen(event);
        }
        self.now = self.now.max(until);
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Call { caller } => self.call(caller),
            Event::Step { call } => self.step(call),
            Event::Flush { place, core } => self.tick(place, core),
            Event::Soon { place, core } => self.flush(place, core, false),
            Event::Arrive { wire, is_forth } => self.arrive(wire, is_forth),
            Event::Take { place, core } => self.take_over(place, core),
            Event::Try { place, attempt } => self.try_to_follow(place, attempt),
            Event::Look { place, attempt } => self.look(place, attempt),
            Event::Save { place, core, number } => self.save_step(place, core, number),
            Event::Trouble => self.trouble(),
            Event::Restart { node, how, serves } => self.restart(node, how, serves),
            Event::Promote { place } => self.raise(place),
            Event::Decide { node, run } => self.decide(node, run),
            Event::Follow { place } => self.follow_whoever(place),
        }
    }

    /// Nothing goes wrong any more: all nodes run, replicas follow, and in the end hold what the primary holds.
    fn heal(&mut self) {
        self.cuts.clear();
        self.wires.values_mut().for_each(|wire| {
            wire.forth.held_until = 0;
            wire.back.held_until = 0;
        });
        // Whoever is down or decided about at the moment comes up meanwhile.
        self.let_happen(self.now + 300_000);
        let primary = self.some_primary();
        for node in 0..self.plan.nodes {
            if self.place(node).is_none() {
                self.restart(node, Restart::Empty, false);
            }
        }
        self.all_follow_who_do_not(primary);
        let until = self.now + HEALING_MICROS_MAX;
        let rest = 4 * self.plan.delay_micros_max + 10 * self.plan.hop_micros_max + REST_MICROS;
        let mut attempts = None;
        // A link that was broken before may end only now, so it must hold for a while.
        while self.observer.found.is_none() && !(self.is_healed(primary) && attempts == Some(self.next_attempt)) {
            if self.now >= until {
                return self.fail("replicas do not come to hold what their primary holds".to_owned());
            }
            attempts = self.is_healed(primary).then_some(self.next_attempt);
            self.let_happen(self.now + rest);
        }
        if self.observer.found.is_some() {
            return;
        }
        let now = (0..self.plan.nodes).map(|node| self.time(node)).max().unwrap_or(0);
        let nodes = std::iter::once(primary).chain((0..self.plan.nodes).filter(|node| *node != primary));
        let held: Vec<(usize, Records)> =
            nodes.collect::<Vec<_>>().into_iter().map(|node| (node, self.held_of(node, 0, 1))).collect();
        self.note(Fact::Healed { now, held });
        self.summary.healed += 1;
    }

    /// The machine that serves; if there is none, one that begins with nothing.
    fn some_primary(&mut self) -> usize {
        if let Some(primary) = self.serves {
            return primary;
        }
        self.kill(0);
        self.restart(0, Restart::Empty, true);
        0
    }

    /// Replicas that were told to follow another machine, or refuse this one, are told again.
    fn all_follow_who_do_not(&mut self, primary: usize) {
        for node in (0..self.plan.nodes).filter(|node| *node != primary) {
            let follows = |process: &mut Process| {
                process.following.as_ref().is_some_and(|of| of.primary == primary && of.is_fed())
            };
            let Some(place) = self.place(node) else { continue };
            if !self.process_of(place).is_some_and(follows) {
                self.order(place, primary);
            }
        }
    }

    /// Whether each replica has all of it, up to the last flush of each core.
    fn is_healed(&self, primary: usize) -> bool {
        let process = |node: usize| self.machines.get(node).and_then(|machine| machine.process.as_ref());
        let Some(flows) = process(primary).map(|process| &process.flows) else { return false };
        let numbers: Vec<u32> =
            flows.iter().map(|flows| flows.outflow.as_ref().map_or(0, |outflow| outflow.number())).collect();
        self.calls.is_empty()
            && (0..self.plan.nodes).filter(|node| *node != primary).all(|node| {
                let following = process(node).and_then(|process| process.following.as_ref());
                following.is_some_and(|following| following.is_whole() && following.has_put(&numbers))
            })
    }

    fn arrive(&mut self, id: u64, is_forth: bool) {
        let Some(wire) = self.wires.get_mut(&id) else { return };
        let pipe = if is_forth { &mut wire.forth } else { &mut wire.back };
        match pipe.take(self.now) {
            Err(due) => self.schedule(due, Event::Arrive { wire: id, is_forth }),
            Ok(None) => {}
            Ok(Some(arrival)) if is_forth => {
                self.hear(id, arrival);
                self.has_room(id);
            }
            Ok(Some(Arrival::Bytes(bytes))) => self.hear_back(id, &bytes),
            // Who has closed it itself has said before that it is down.
            Ok(Some(Arrival::End)) => self.link_over(id),
            Ok(Some(Arrival::Broken)) => self.link_over(id),
        }
    }

    fn tick(&mut self, place: Place, core: usize) {
        if self.process_of(place).is_some() {
            self.note_time(place.node);
            self.flush(place, core, true);
        }
    }

    /// Begins the ticks of a process.
    pub fn begin_ticks(&mut self, place: Place) {
        let cores = self.process_of(place).map_or(0, |process| process.cores.len());
        for core in 0..cores {
            let at = self.now + self.random.between(1, FLUSH_MICROS);
            self.schedule(at, Event::Flush { place, core });
        }
    }

    pub fn note_time(&mut self, node: usize) {
        let Some(place) = self.place(node) else { return };
        let following = self.process_of(place).and_then(|process| process.following.as_ref());
        let whole_of = following.and_then(|following| following.whole_of());
        let primary = self.serving().filter(|serving| whole_of == Some(serving.run));
        let primary = primary.map(|primary| self.time(primary.node));
        self.note(Fact::Time { node, run: place.run, at: self.now, now: self.time(node), primary });
    }

    /// What a node holds of the keys of core `core` of `cores`, by key, what has expired included.
    pub fn held_of(&mut self, node: usize, core: usize, cores: usize) -> Records {
        let cores = u16::try_from(cores).unwrap_or(1);
        let Some(process) = self.machines.get_mut(node).and_then(|machine| machine.process.as_mut()) else {
            return Records::new();
        };
        let own = u16::try_from(process.cores.len()).unwrap_or(1);
        let mut held = Records::new();
        for (number, key) in self.keys.iter().enumerate() {
            if usize::from(owner(key.at.slot, cores)) != core {
                continue;
            }
            if let Some(engine) = process.cores.get_mut(usize::from(owner(key.at.slot, own))) {
                held.extend(look(&mut engine.store, key).record.map(|record| (number, record)));
            }
        }
        held
    }

    pub fn schedule(&mut self, at: u64, event: Event) {
        self.agenda.add(&mut self.random, at, event);
    }

    pub fn happened(&self) -> u64 {
        self.observer.books.happened()
    }

    /// The process that runs on a machine.
    pub fn place(&self, node: usize) -> Option<Place> {
        let process = self.machines.get(node)?.process.as_ref()?;
        Some(Place { node, run: process.run })
    }

    /// Where clients call.
    pub fn serving(&self) -> Option<Place> {
        self.serves.and_then(|node| self.place(node))
    }

    /// A process, if it still runs.
    pub fn process_of(&mut self, place: Place) -> Option<&mut Process> {
        self.machines.get_mut(place.node)?.process.as_mut().filter(|process| process.run == place.run)
    }

    pub fn time(&self, node: usize) -> Micros {
        self.machines.get(node).map_or(0, |machine| machine.time(self.now))
    }

    pub fn expiry_time(&self, node: usize) -> Micros {
        self.machines.get(node).map_or(0, |machine| machine.expiry_time(self.now))
    }

    pub fn steady(&self, node: usize) -> u64 {
        self.machines.get(node).map_or(0, |machine| machine.steady(self.now))
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
        // Who is promoted is compared with what was known before.
        let is_promotion = matches!(fact, Fact::Promoted { .. });
        if !is_promotion {
            books.post(&fact);
        }
        let scene = Scene { plan: &self.plan, books, slots: &self.slots };
        for checker in checkers {
            if let Err(text) = checker.see(&fact, &scene) {
                found.get_or_insert((checker.name(), text));
            }
        }
        if is_promotion {
            books.post(&fact);
        }
        if matches!(fact, Fact::Time { .. }) {
            return;
        }
        if last.len() == REMEMBERED {
            last.pop_front();
        }
        last.push_back(fact);
    }
}
