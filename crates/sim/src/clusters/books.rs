//! What was admitted, what has left, what clients were told, and who leads since when by the committed maps.
//!
//! Units are added up by [`Meter`], slowly and plainly, from the answers alone. What may be forgotten is added up
//! beside them: by shard what failovers were said to cost, by key what was lost where no copy was left or an operator
//! said so.

use super::check::{Fact, Ran, Records, Released};
use super::machine::{Place, node_of, run_of};
use super::plan::Plan;
use crate::meter::Meter;
use crate::request::Rule;
use crate::view::{decision, hasher, with_room};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use tollgate_limits::{AMOUNT_MAX, Ask, Micros, Mode};
use tollgate_topology::{Change, NodeId, SlotMap};

/// Units that were charged to a key.
#[derive(Clone, Debug)]
struct Entry {
    at: Micros,
    units: u64,
    /// Whether the answer has left.
    is_released: bool,
    /// Whether its client has got it.
    is_told: bool,
}

/// How a process came to lead.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Cause {
    /// It was there first, or joined.
    Joined,
    /// It took over from who led since then; whether the group had recorded that it may, and an operator forced it.
    Promoted { from: u64, is_recorded: bool, is_forced: bool },
    /// It knew all when the one before it took over, which led since then, and nobody was in step with that one.
    Heir { from: u64 },
    /// It goes on from what it has kept.
    Anew,
}

#[derive(Clone, Debug)]
struct Reign {
    place: Place,
    cause: Cause,
    map: Rc<SlotMap>,
}

/// What a replica lacks that takes over.
#[derive(Clone, Debug)]
pub struct Missing {
    /// Whether the group had recorded that it may.
    pub is_recorded: bool,
    /// Units that it may lack.
    pub allowed: u64,
    /// Units by key.
    pub units: Vec<(usize, u64)>,
}

/// All of it.
#[derive(Debug)]
pub struct Books {
    rules: Vec<Rule>,
    slots: Vec<u16>,
    shards: Vec<usize>,
    entries: Vec<Vec<Entry>>,
    of_call: BTreeMap<u64, (usize, usize)>,
    applied: usize,
    map: Rc<SlotMap>,
    /// By since when it leads.
    reigns: BTreeMap<u64, Reign>,
    /// By since when it leads: what a process said last that a failover forgets.
    stated: BTreeMap<u64, u64>,
    /// By since when it leads: the time when it began to.
    begun: BTreeMap<u64, Micros>,
    overshoot_max: Option<u64>,
    /// By shard: what failovers were said to cost.
    pools: Vec<u64>,
    /// By key: what was lost besides.
    lost: Vec<u64>,
    /// How many took over, and how many went on from what they had kept.
    pub promoted: u64,
    /// See `promoted`.
    pub anew: u64,
}

impl Books {
    /// Of a run that begins with this map.
    pub fn new(plan: &Plan, map: Rc<SlotMap>, applied: usize) -> Books {
        let place = hasher();
        let mut books = Books {
            rules: plan.keys.iter().map(|key| key.rule).collect(),
            slots: plan.keys.iter().map(|key| place.locate(key.name.as_bytes()).slot).collect(),
            shards: plan.keys.iter().map(|key| key.shard).collect(),
            entries: plan.keys.iter().map(|_| Vec::new()).collect(),
            of_call: BTreeMap::new(),
            applied,
            map: map.clone(),
            reigns: BTreeMap::new(),
            stated: BTreeMap::new(),
            begun: BTreeMap::new(),
            overshoot_max: plan.overshoot_max,
            pools: vec![0; plan.shards.len()],
            lost: vec![0; plan.keys.len()],
            promoted: 0,
            anew: 0,
        };
        books.note_reigns(&map, |_| Cause::Joined);
        books
    }

    /// Takes in a fact.
    pub fn post(&mut self, fact: &Fact) {
        match fact {
            Fact::Applied { index, entry, map, .. } if *index > self.applied => {
                self.applied = *index;
                let before = std::mem::replace(&mut self.map, map.clone());
                self.note_reigns(map, |id| cause(entry.change.as_ref(), &before, id));
            }
            Fact::Ran(ran) => self.ran(ran),
            Fact::Released(released) => self.released(released),
            Fact::Received { call } => {
                if let Some(entry) = self.entry_of(*call) {
                    entry.is_told = true;
                }
            }
            Fact::Reigns { since, now, .. } => self.reigns(*since, *now),
            _ => {}
        }
    }

    fn note_reigns(&mut self, map: &Rc<SlotMap>, cause: impl Fn(NodeId) -> Cause) {
        for id in map.nodes.keys() {
            let Some(leading) = map.leading(*id) else { continue };
            let place = Place { node: node_of(*id), run: run_of(leading.run) };
            let reign = || Reign { place, cause: cause(*id), map: map.clone() };
            let reign = self.reigns.entry(leading.since).or_insert_with(reign);
            reign.map = map.clone();
        }
    }

    fn entry_of(&mut self, call: u64) -> Option<&mut Entry> {
        let (key, place) = *self.of_call.get(&call)?;
        self.entries.get_mut(key)?.get_mut(place)
    }

    fn ran(&mut self, ran: &Ran) {
        let (call, at, units) = (ran.call, ran.now, ran.admitted());
        if let Some(entries) = self.entries.get_mut(ran.key).filter(|_| units > 0) {
            self.of_call.insert(call, (ran.key, entries.len()));
            entries.push(Entry { at, units, is_released: false, is_told: false });
        }
    }

    fn released(&mut self, released: &Released) {
        if let Some(entry) = self.entry_of(released.call) {
            entry.is_released = true;
        }
        let stated = self.overshoot_max.map_or(released.overshoot, |most| most.min(released.overshoot));
        // With a bound a failover may cost that much, whatever is said at the moment.
        self.stated.insert(released.since, self.overshoot_max.unwrap_or(stated));
    }

    fn reigns(&mut self, since: u64, now: Micros) {
        let Some(Reign { cause, .. }) = self.reigns.get(&since).cloned() else { return };
        self.begun.insert(since, now);
        let keys = self.keys_of(since);
        let shard = keys.first().and_then(|key| self.shards.get(*key)).copied();
        match cause {
            Cause::Joined => {}
            Cause::Promoted { from, is_forced: false, .. } => {
                let stated = self.stated.get(&from).copied().unwrap_or(0);
                if let Some(pool) = shard.and_then(|shard| self.pools.get_mut(shard)) {
                    *pool += stated;
                }
                self.promoted += u64::from(shard.is_some());
            }
            // What was charged since the one before took over is lost, and no more.
            Cause::Heir { from } => {
                let begun = self.begun.get(&from).copied().unwrap_or(0);
                for key in keys {
                    let entries = self.entries.get(key).into_iter().flatten();
                    let units: u64 = entries.filter(|entry| entry.at >= begun).map(|entry| entry.units).sum();
                    if let Some(lost) = self.lost.get_mut(key) {
                        *lost += units;
                    }
                }
                self.promoted += u64::from(shard.is_some());
            }
            Cause::Promoted { .. } | Cause::Anew => {
                for key in keys {
                    let units = self.charged_at_most(key, now);
                    if let Some(lost) = self.lost.get_mut(key) {
                        *lost += units;
                    }
                }
                self.anew += u64::from(shard.is_some());
            }
        }
    }

    /// The keys whose slots a process has that leads since then.
    fn keys_of(&self, since: u64) -> Vec<usize> {
        let Some(reign) = self.reigns.get(&since) else { return Vec::new() };
        let is_own = |slot: &u16| reign.map.owner_of(*slot).is_some_and(|id| node_of(id) == reign.place.node);
        self.slots.iter().enumerate().filter(|(_, slot)| is_own(slot)).map(|(key, _)| key).collect()
    }

    /// Whether a committed map says that this process leads since then, and that the slot is its.
    pub fn leads(&self, place: Place, since: u64, slot: u16) -> bool {
        let is_it = |reign: &Reign| {
            reign.place == place && reign.map.owner_of(slot).is_some_and(|id| node_of(id) == place.node)
        };
        self.reigns.get(&since).is_some_and(is_it)
    }

    /// Since when a process leads, each time.
    pub fn reigns_of(&self, place: Place) -> BTreeSet<u64> {
        self.reigns.iter().filter(|(_, reign)| reign.place == place).map(|(since, _)| *since).collect()
    }

    /// Units of a key that may be in use at most: whatever was ever charged to it. Who takes over may be a little
    /// behind who served before, and then charges to what that one has left there, as of its time: so the most
    /// counts of what the times say and of what they are if time never goes back.
    pub fn charged_at_most(&self, key: usize, now: Micros) -> u64 {
        let last = self.entries.get(key).into_iter().flatten().map(|entry| entry.at).max().unwrap_or(0).max(now);
        let by_time = self.meter(key, Order::ByTime, now, |_| true).0;
        by_time.max(self.meter(key, Order::AsTheyCame, last, |_| true).0)
    }

    /// The units of such entries that are in use at the end, and the most that were.
    fn meter(&self, key: usize, order: Order, until: Micros, counts: impl Fn(&Entry) -> bool) -> (u64, u64) {
        let Some(rule) = self.rules.get(key) else { return (0, 0) };
        let entries = self.entries.get(key).map(Vec::as_slice).unwrap_or_default();
        let mut entries: Vec<&Entry> = entries.iter().filter(|entry| counts(entry)).collect();
        if order == Order::ByTime {
            entries.retain(|entry| entry.at <= until);
            entries.sort_by_key(|entry| entry.at);
        }
        let (mut meter, mut at, mut most) = (Meter::new(&rule.policy()), 0, 0);
        for entry in entries {
            at = entry.at.max(at);
            meter.charge(entry.units, at);
            most = meter.used(at).max(most);
        }
        (meter.used(at.max(until)), most)
    }

    /// Of what has left in answers: what is missing of it where a replica takes over, in units by key, and what may be.
    /// `None`: it is no replica that was to know it.
    pub fn missing(&self, since: u64, held: &Records, now: Micros) -> Option<Missing> {
        let Cause::Promoted { is_recorded, is_forced: false, .. } = self.reigns.get(&since)?.cause else { return None };
        let keys = self.keys_of(since);
        let shard = *self.shards.get(*keys.first()?)?;
        let units = keys.into_iter().filter_map(|key| {
            let policy = self.rules.get(key)?.policy();
            let last = self.entries.get(key)?.iter().map(|entry| entry.at).max().unwrap_or(0).max(now);
            let (used, _) = self.meter(key, Order::AsTheyCame, last, |entry| entry.is_released);
            let look = Ask { policy: with_room(&policy), cost: 0, mode: Mode::Peek };
            let remaining = decision(held.get(&key), &look, last).map_or(AMOUNT_MAX, |decision| decision.remaining);
            let less = used.saturating_sub(AMOUNT_MAX - remaining).saturating_sub(*self.lost.get(key)?);
            (less > 0).then_some((key, less))
        });
        Some(Missing { is_recorded, allowed: self.allowed(shard), units: units.collect() })
    }

    /// Units above the limits that clients were told to be theirs, by key, but for those that were lost.
    pub fn passed(&self, shard: usize) -> Vec<(usize, u64)> {
        let of = |key: usize| {
            let limit = self.rules.get(key)?.limit;
            let most = |order| self.meter(key, order, Micros::MAX / 4, |entry| entry.is_told).1;
            let most = most(Order::ByTime).min(most(Order::AsTheyCame));
            let passed = most.saturating_sub(limit).saturating_sub(*self.lost.get(key)?);
            (passed > 0 && self.shards.get(key) == Some(&shard)).then_some((key, passed))
        };
        (0..self.rules.len()).filter_map(of).collect()
    }

    /// Units of a shard that failovers may have forgotten.
    pub fn allowed(&self, shard: usize) -> u64 {
        self.pools.get(shard).copied().unwrap_or(0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    ByTime,
    AsTheyCame,
}

/// How a node came to lead by a change of this map.
fn cause(change: Option<&Change>, before: &SlotMap, id: NodeId) -> Cause {
    match change {
        Some(Change::Promote { from, to, run, is_forced, .. }) if *to == id => {
            let leading = before.leading(*from);
            let is_recorded = leading.is_some_and(|leading| leading.in_step.get(to) == Some(run));
            let is_heir = leading.is_some_and(|leading| leading.may_take_over(*to, *run)) && !is_recorded;
            let from = leading.map_or(0, |leading| leading.since);
            if is_heir && !is_forced {
                return Cause::Heir { from };
            }
            Cause::Promoted { from, is_recorded, is_forced: *is_forced }
        }
        Some(Change::LeadAnew { id: of, .. }) if *of == id => Cause::Anew,
        _ => Cause::Joined,
    }
}
