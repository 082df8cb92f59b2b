//! What was admitted, by which process, who was told, and which process knows of what another did.
//!
//! Units are added up by [`Meter`], slowly and plainly, from the answers alone. A process knows what was done before it
//! by its lineage: the processes whose state it went on from, each up to a moment.

use super::check::{Duty, Fact, Outcome, Ran, Records};
use super::demand::Demand;
use super::machine::RunId;
use super::plan::Plan;
use crate::meter::Meter;
use crate::request::Rule;
use crate::view::{decision, with_room};
use std::collections::BTreeMap;
use tollgate_limits::{AMOUNT_MAX, Algorithm, Ask, Micros, Mode};

/// Something that happened to a key.
#[derive(Clone, Debug)]
struct Entry {
    /// Events are numbered in the order in which they happen.
    number: u64,
    reign: Reign,
    call: u64,
    core: usize,
    at: Micros,
    what: Change,
    /// Whether a client was told.
    is_told: bool,
    /// Which event it was taken back before.
    undone: Option<u64>,
    /// Whether that may have been forgotten since.
    is_undo_lost: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Charged(u64),
    GivenBack(u64),
    Forgotten,
}

/// How many of the last events of a process that dies replicas may not know of: far more than any of them lags behind.
const LOST_UNDOS_MAX: u64 = 150;

/// A process as a primary: one that follows another in between reigns anew.
type Reign = u64;
/// A reign up to a moment: what was done in it before the event of that number.
type Stretch = (Reign, u64);

/// What a replica lacks that is promoted.
#[derive(Clone, Debug)]
pub struct Missing {
    /// Units that it may lack: what its primary said, and those before it.
    pub allowed: u64,
    /// Units by key.
    pub units: Vec<(usize, u64)>,
}

/// What a replica holds all of.
#[derive(Clone, Copy, Debug)]
struct Knowledge {
    run: RunId,
    reign: Reign,
    /// What that process stated when it died with the replica in step.
    stated: Option<u64>,
}

/// All of it.
#[derive(Debug)]
pub struct Books {
    rules: Vec<Option<Rule>>,
    entries: Vec<Vec<Entry>>,
    /// By call: its entries, by key and place.
    of_call: BTreeMap<u64, Vec<(usize, usize)>>,
    count: u64,
    next_reign: Reign,
    /// By process: its reigns, and which event each begins before.
    reigns: BTreeMap<RunId, Vec<(u64, Reign)>>,
    /// By reign: what was done before it that it goes on from.
    lineages: BTreeMap<Reign, Vec<Stretch>>,
    /// By reign: what may be missing of its lineage.
    allowed: BTreeMap<Reign, u64>,
    knowledge: BTreeMap<usize, Knowledge>,
    serves: Option<Reign>,
    /// What clients were told and nobody knows any more, in units, as it was allowed.
    may_be_passed: u64,
    /// The most that a failover may forget.
    overshoot_max: Option<u64>,
}

impl Books {
    /// Of a run that begins.
    pub fn new(plan: &Plan) -> Books {
        Books {
            rules: plan.keys.iter().map(|key| key.steady()).collect(),
            entries: plan.keys.iter().map(|_| Vec::new()).collect(),
            of_call: BTreeMap::new(),
            count: 0,
            next_reign: 0,
            reigns: BTreeMap::new(),
            lineages: BTreeMap::new(),
            allowed: BTreeMap::new(),
            knowledge: BTreeMap::new(),
            serves: None,
            may_be_passed: 0,
            overshoot_max: plan.overshoot_max,
        }
    }

    /// How much has happened.
    pub fn happened(&self) -> u64 {
        self.count
    }

    /// Whether a replica was in step with a process when that died, and still holds what it held then.
    pub fn knows(&self, node: usize) -> bool {
        self.knowledge.get(&node).is_some_and(|knowledge| knowledge.stated.is_some())
    }

    /// Takes in a fact.
    pub fn post(&mut self, fact: &Fact) {
        match fact {
            Fact::Ran(ran) => self.ran(ran),
            Fact::Answered { call, .. } => {
                for (key, place) in self.of_call.remove(call).unwrap_or_default() {
                    if let Some(entry) = self.entries.get_mut(key).and_then(|entries| entries.get_mut(place)) {
                        entry.is_told = true;
                    }
                }
            }
            Fact::Opened { node, .. } => drop(self.knowledge.remove(node)),
            Fact::Whole { node, run } => {
                let reign = self.reign_of(*run, u64::MAX).unwrap_or(0);
                self.knowledge.insert(*node, Knowledge { run: *run, reign, stated: None });
            }
            Fact::Died { node, run, overshoot, in_step } => {
                self.knowledge.remove(node);
                self.lose_undos(*run, self.count.saturating_sub(LOST_UNDOS_MAX));
                for (node, knowledge) in &mut self.knowledge {
                    if knowledge.run == *run && in_step.contains(node) {
                        // What a primary states is on the safe side: it may not know yet what is known.
                        knowledge.stated = Some(self.overshoot_max.map_or(*overshoot, |most| most.min(*overshoot)));
                    }
                }
                self.knowledge.retain(|_, knowledge| knowledge.run != *run || knowledge.stated.is_some());
            }
            Fact::Started { run, from, .. } => {
                from.iter().for_each(|(of, begun)| self.lose_undos(*of, *begun));
                let from = from.and_then(|(of, begun)| Some((self.reign_of(of, begun)?, begun)));
                let lineage = from.map_or(Vec::new(), |(reign, begun)| self.until(reign, begun));
                let allowed = from.and_then(|(reign, _)| self.allowed.get(&reign).copied()).unwrap_or(0);
                self.begin(*run, lineage, allowed);
            }
            Fact::Serves { run } => self.serve(*run),
            Fact::Promoted { node, run, .. } => {
                let Some(Knowledge { reign, stated: Some(stated), .. }) = self.knowledge.remove(node) else { return };
                let allowed = self.allowed.get(&reign).copied().unwrap_or(0) + stated;
                self.begin(*run, self.until(reign, self.count), allowed);
                self.may_be_passed += stated;
                self.serve(*run);
            }
            _ => {}
        }
    }

    /// What a process took back since then may be there again where somebody goes on from what it held.
    fn lose_undos(&mut self, run: RunId, since: u64) {
        let Some(reign) = self.reign_of(run, u64::MAX) else { return };
        let entries = self.entries.iter_mut().flatten().filter(|entry| entry.reign == reign);
        let lost = entries.filter(|entry| entry.undone.is_some_and(|undone| undone >= since));
        lost.for_each(|entry| entry.is_undo_lost = true);
    }

    /// A process begins to reign.
    fn begin(&mut self, run: RunId, lineage: Vec<Stretch>, allowed: u64) {
        let reign = self.next_reign;
        self.next_reign += 1;
        self.reigns.entry(run).or_default().push((self.count, reign));
        self.lineages.insert(reign, lineage);
        self.allowed.insert(reign, allowed);
    }

    /// The reign of a process in which an event of that number is.
    fn reign_of(&self, run: RunId, number: u64) -> Option<Reign> {
        let reigns = self.reigns.get(&run)?;
        reigns.iter().rev().find(|(begins, _)| *begins <= number).map(|(_, reign)| *reign)
    }

    /// What was known in a reign when so much had happened.
    fn until(&self, reign: Reign, number: u64) -> Vec<Stretch> {
        let before = self.lineages.get(&reign).cloned().unwrap_or_default();
        before.into_iter().map(|(of, end)| (of, end.min(number))).chain([(reign, number)]).collect()
    }

    fn serve(&mut self, run: RunId) {
        let Some(reign) = self.reign_of(run, u64::MAX) else { return };
        let lineage: BTreeMap<Reign, u64> = self.until(reign, u64::MAX).into_iter().collect();
        let before = self.serves.map_or(Vec::new(), |before| self.until(before, u64::MAX));
        let before: BTreeMap<Reign, u64> = before.into_iter().collect();
        let is_known =
            |entry: &Entry, by: &BTreeMap<Reign, u64>| by.get(&entry.reign).is_some_and(|end| entry.number < *end);
        let lost = |entry: &&Entry| entry.is_told && is_known(entry, &before) && !is_known(entry, &lineage);
        let units = |entry: &Entry| if let Change::Charged(units) = entry.what { units } else { 0 };
        self.may_be_passed += self.entries.iter().flatten().filter(lost).map(units).sum::<u64>();
        self.serves = Some(reign);
    }

    fn ran(&mut self, ran: &Ran) {
        let keys: Vec<usize> = ran.sights.iter().map(|(key, ..)| *key).collect();
        if ran.duty == Duty::Undo {
            let count = self.count;
            let keyed = self.entries.iter_mut().enumerate().filter(|(key, _)| keys.contains(key));
            let undone = keyed.flat_map(|(_, entries)| entries);
            let undone = undone.filter(|entry| entry.call == ran.call && entry.core == ran.core);
            undone.for_each(|entry| entry.undone = Some(count));
        }
        for key in &ran.lost {
            self.add(*key, ran, Change::Forgotten);
        }
        for key in keys {
            let is_removal = matches!(*ran.demand, Demand::Delete(_) | Demand::Flush);
            if ran.has_evicted || is_removal {
                // What was dropped to make room, and whether it was made again within the job, cannot be told.
                self.add(key, ran, Change::Forgotten);
            }
            let is_gone =
                ran.has_evicted && ran.sights.iter().any(|(of, _, after)| *of == key && after.record.is_none());
            match ran.outcome(key) {
                _ if is_gone => {}
                Outcome::Admitted(units @ 1..) => self.add(key, ran, Change::Charged(units)),
                Outcome::GivenBack(units @ 1..) => self.add(key, ran, Change::GivenBack(units)),
                _ => {}
            }
        }
    }

    fn add(&mut self, key: usize, ran: &Ran, what: Change) {
        let (number, call, core, at) = (self.count, ran.call, ran.core, ran.now);
        let reign = self.reign_of(ran.run, number).unwrap_or(0);
        self.count += 1;
        if let Some(entries) = self.entries.get_mut(key) {
            self.of_call.entry(call).or_default().push((key, entries.len()));
            entries.push(Entry {
                number,
                reign,
                call,
                core,
                at,
                what,
                is_told: false,
                undone: None,
                is_undo_lost: false,
            });
        }
    }

    /// The entries of a key that count, in the order of their times.
    fn sorted(&self, key: usize, counts: impl Fn(&Entry) -> bool) -> Vec<&Entry> {
        let entries = self.entries.get(key).map(Vec::as_slice).unwrap_or_default();
        let mut entries: Vec<&Entry> = entries.iter().filter(|entry| counts(entry)).collect();
        entries.sort_by_key(|entry| (entry.at, entry.number));
        entries
    }

    /// Units of a steady key that may be in use at most: whatever was ever charged to it and not taken back. Who is
    /// promoted may be a little behind who was before, and then charges to what that one has left there, as of its
    /// time: so the most counts of what the times say and of what they are if time never goes back.
    pub fn charged_at_most(&self, key: usize, now: Micros) -> Option<u64> {
        let rule = (*self.rules.get(key)?)?;
        // Of a bucket only what cannot have drained is taken back.
        let drains = matches!(rule.algorithm, Algorithm::Token | Algorithm::Leak);
        let counts = |entry: &Entry| drains || entry.undone.is_none() || entry.is_undo_lost;
        let used = |entries: Vec<&Entry>, until: Micros| {
            let (mut meter, mut at) = (Meter::new(&rule.policy()), 0);
            for entry in entries {
                at = entry.at.max(at);
                if let Change::Charged(units) = entry.what {
                    meter.charge(units, at);
                }
            }
            meter.used(at.max(until))
        };
        let by_time = used(self.sorted(key, |entry| counts(entry) && entry.at <= now), now);
        let in_order = self.entries.get(key)?.iter().filter(|entry| counts(entry)).collect();
        Some(by_time.max(used(in_order, now)))
    }

    /// Of what clients were told by the process that a replica held all of, and by those before it: what is missing of
    /// it on that replica, in units by key, and what may be. `None`: it held all of none.
    pub fn missing(&self, node: usize, held: &Records, now: Micros) -> Option<Missing> {
        let knowledge = self.knowledge.get(&node)?;
        let stated = knowledge.stated?;
        let lineage: BTreeMap<Reign, u64> = self.until(knowledge.reign, self.count).into_iter().collect();
        // A snapshot may have more than was there when it was begun: what was taken away since counts.
        let takes = |entry: &Entry| !matches!(entry.what, Change::Charged(_));
        let is_known = |entry: &Entry| lineage.get(&entry.reign).is_some_and(|end| entry.number < *end || takes(entry));
        let mut missing = Vec::new();
        for (key, rule) in self.rules.iter().enumerate() {
            let Some(rule) = rule else { continue };
            let policy = rule.policy();
            let mut meter = Meter::new(&policy);
            let mut last = now;
            for entry in self.sorted(key, |entry| is_known(entry) && is_told_or_gone(entry)) {
                carry_out(&mut meter, entry);
                last = last.max(entry.at);
            }
            let look = Ask { policy: with_room(&policy), cost: 0, mode: Mode::Peek };
            let remaining = decision(held.get(&key), &look, last).map_or(AMOUNT_MAX, |decision| decision.remaining);
            let less = meter.used(last).saturating_sub(AMOUNT_MAX - remaining).saturating_sub(self.unclear(key));
            missing.extend((less > 0).then_some((key, less)));
        }
        let allowed = self.allowed.get(&knowledge.reign).copied().unwrap_or(0);
        Some(Missing { allowed: allowed + stated, units: missing })
    }

    /// Units above the limit that clients were told to be theirs, by key.
    pub fn passed(&self) -> Vec<(usize, u64)> {
        let of = |(key, rule): (usize, &Option<Rule>)| {
            let policy = rule.as_ref()?.policy();
            let mut meter = Meter::new(&policy);
            let mut most = 0;
            for entry in self.sorted(key, is_told_or_gone) {
                carry_out(&mut meter, entry);
                if let Change::Charged(_) = entry.what {
                    most = meter.used(entry.at).saturating_sub(policy.limit()).max(most);
                }
            }
            let most = most.saturating_sub(self.unclear(key));
            (most > 0).then_some((key, most))
        };
        self.rules.iter().enumerate().filter_map(of).collect()
    }

    /// Units that were given back while a charge was there that was taken back later: it may have been those, so that
    /// it cannot be told in which window what is left lies.
    fn unclear(&self, key: usize) -> u64 {
        let entries = self.entries.get(key).map(Vec::as_slice).unwrap_or_default();
        let passing = |number: u64| {
            entries.iter().any(|entry| entry.number < number && entry.undone.is_some_and(|undone| undone >= number))
        };
        let units = |entry: &Entry| match entry.what {
            Change::GivenBack(units) if passing(entry.number) => units,
            _ => 0,
        };
        entries.iter().map(units).sum()
    }

    /// Units above the limits that failovers and restarts may have come to, as they were stated.
    pub fn may_be_passed(&self) -> u64 {
        self.may_be_passed
    }
}

/// Whether an entry counts for what clients can claim: charges that they were told of, and whatever takes use away.
fn is_told_or_gone(entry: &Entry) -> bool {
    match entry.what {
        Change::Charged(_) => entry.is_told && entry.undone.is_none(),
        Change::GivenBack(_) | Change::Forgotten => true,
    }
}

fn carry_out(meter: &mut Meter, entry: &Entry) {
    match entry.what {
        Change::Charged(units) => meter.charge(units, entry.at),
        // It may have met a charge that was taken back later.
        Change::GivenBack(units) => meter.refund(units, entry.at, true),
        Change::Forgotten => meter.clear(),
    }
}
