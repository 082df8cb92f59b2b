//! What every key should hold, from what the cores have answered: charges in the order in which their core made them.
//!
//! The problem: a charge of an RL.ALL counts or does not count only once all cores have answered, while later calls on
//! the same key are already decided. The idea: two meters for each key, and the entries that wait for a fate kept
//! beside them in order. The lower meter holds what was admitted; the upper one holds besides what may lie there
//! rightly: charges that are still undecided, and of a draining bucket those that were undone only after a while.

use crate::answer::{Answer, Part};
use crate::errand::{Duty, RequestId, Step};
use crate::meter::Meter;
use crate::plan::{Habit, Plan};
use crate::request::{Group, Request};
use std::collections::VecDeque;
use tollgate_limits::{Micros, Mode};

/// The books of all keys.
#[derive(Debug)]
pub struct Books {
    accounts: Vec<Account>,
    overdrafts: Vec<String>,
}

/// The book of one key.
#[derive(Debug)]
pub struct Account {
    habit: Habit,
    /// Whether the key's use can be told: false once something happened that this book cannot follow.
    is_clear: bool,
    /// Units were given back while a charge was undecided: which of them went cannot be told.
    is_blurred: bool,
    lower: Meter,
    upper: Meter,
    entries: VecDeque<Entry>,
}

#[derive(Clone, Copy, Debug)]
enum Entry {
    Charge { id: RequestId, units: u64, limit: u64, at: Micros, fate: Fate },
    Refund { units: u64, at: Micros },
    Clear,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Open,
    Kept,
    Undone { at: Micros },
}

impl Books {
    /// Of a plan whose keys hold nothing yet.
    pub fn new(plan: &Plan) -> Books {
        let accounts = plan.keys.iter().filter_map(|key| {
            let meter = Meter::new(&key.rules.first()?.policy());
            Some(Account {
                habit: key.habit,
                is_clear: key.habit != Habit::Wild,
                is_blurred: false,
                lower: meter.clone(),
                upper: meter,
                entries: VecDeque::new(),
            })
        });
        Books { accounts: accounts.collect(), overdrafts: Vec::new() }
    }

    /// The book of a key, if its use can be told.
    pub fn account(&self, key: usize) -> Option<&Account> {
        self.accounts.get(key).filter(|account| account.is_clear)
    }

    /// Admissions that passed a limit, in words; each is handed out once.
    pub fn take_overdrafts(&mut self) -> Vec<String> {
        std::mem::take(&mut self.overdrafts)
    }

    /// Writes down what a core did.
    pub fn post(&mut self, step: &Step) {
        let whole = Answer::whole(&step.output);
        match (&*step.note.request, step.note.duty) {
            (Request::Limit(group, mode), Duty::Whole) => {
                if let Some(five) = whole.and_then(|answer| answer.five()) {
                    self.post_limit(step, *group, *mode, five[0]);
                }
            }
            (Request::All(groups), Duty::Whole) => {
                let admitted = whole.and_then(|answer| answer.all()).is_some_and(|(admitted, ..)| admitted);
                let charged = groups.iter().filter(|_| admitted);
                charged.for_each(|group| self.post_charge(step, *group, group.cost, Fate::Kept));
            }
            (Request::All(_), Duty::Charge) => {
                let charged = matches!(Part::read(&step.output), Some(Part::Charged(_)));
                let groups = step.note.keys.iter().filter_map(|key| step.note.request.group(*key));
                groups.filter(|_| charged).for_each(|group| self.post_charge(step, group, group.cost, Fate::Open));
            }
            (Request::All(_), Duty::Undo) => {
                step.note.keys.iter().for_each(|key| self.decide(*key, step.note.id, Fate::Undone { at: step.now }));
            }
            (Request::Delete(_), _) => step.note.keys.iter().for_each(|key| self.add(*key, Entry::Clear)),
            _ => {}
        }
    }

    /// Writes down how an RL.ALL over several cores ended.
    pub fn settle(&mut self, id: RequestId, admitted: bool) {
        let fate = if admitted { Fate::Kept } else { Fate::Undone { at: 0 } };
        for key in 0..self.accounts.len() {
            self.decide(key, id, fate);
        }
    }

    /// A key was dropped to make room.
    pub fn lose(&mut self, key: usize) {
        // What lay there undecided may be taken off what comes next: what was dropped is forgotten, and so is that.
        if self.is_open(key) {
            self.give_up(key);
        }
        self.add(key, Entry::Clear);
    }

    /// A key's use can no longer be told.
    pub fn give_up(&mut self, key: usize) {
        if let Some(account) = self.accounts.get_mut(key) {
            account.is_clear = false;
        }
    }

    /// Whether some charge on the key is undecided.
    pub fn is_open(&self, key: usize) -> bool {
        self.accounts.get(key).is_some_and(Account::is_open)
    }

    fn post_limit(&mut self, step: &Step, group: Group, mode: Mode, allowed: i64) {
        let allowed = u64::try_from(allowed).unwrap_or(0);
        match mode {
            Mode::Peek => {}
            Mode::Charge if allowed > 0 => self.post_charge(step, group, group.cost, Fate::Kept),
            Mode::Partial => self.post_charge(step, group, allowed, Fate::Kept),
            Mode::Refund if allowed > 0 => {
                let is_open = self.is_open(group.key);
                if let Some(account) = self.accounts.get_mut(group.key) {
                    account.is_blurred |= is_open;
                }
                self.add(group.key, Entry::Refund { units: allowed, at: step.now });
            }
            Mode::Charge | Mode::Refund => {}
        }
    }

    fn post_charge(&mut self, step: &Step, group: Group, units: u64, fate: Fate) {
        if units > 0 {
            let Step { now, note, .. } = step;
            self.add(group.key, Entry::Charge { id: note.id, units, limit: group.rule.limit, at: *now, fate });
        }
    }

    fn add(&mut self, key: usize, entry: Entry) {
        if let Some(account) = self.accounts.get_mut(key).filter(|account| account.is_clear) {
            account.entries.push_back(entry);
            self.fold(key);
        }
    }

    fn decide(&mut self, key: usize, of: RequestId, decided: Fate) {
        let Some(account) = self.accounts.get_mut(key) else { return };
        for entry in &mut account.entries {
            if let Entry::Charge { id, fate: fate @ Fate::Open, .. } = entry
                && *id == of
            {
                *fate = decided;
            }
        }
        self.fold(key);
    }

    /// Moves what is decided, and has nothing undecided before it, into the meters.
    fn fold(&mut self, key: usize) {
        let Some(account) = self.accounts.get_mut(key) else { return };
        while let Some(entry) = account.entries.pop_front_if(|entry| !is_open(entry)) {
            if let Entry::Charge { units, limit, at, fate: Fate::Kept, .. } = entry
                && account.habit == Habit::Steady
                && account.is_clear
                && account.lower.used(at) + units > limit
            {
                let used = account.lower.used(at);
                self.overdrafts.push(format!("key {key}: {units} admitted at {at} on {used} of {limit}"));
            }
            let lower = Reading { is_upper: false, may_owe: account.is_blurred };
            apply(&mut account.lower, &entry, lower);
            apply(&mut account.upper, &entry, UPPER);
        }
    }
}

impl Account {
    /// The units in use that were admitted and not given back.
    pub fn lower(&self, now: Micros) -> u64 {
        self.lower.used(now)
    }

    /// The most units that can rightly be in use, with those of undecided charges.
    pub fn upper(&self, now: Micros) -> u64 {
        let mut meter = self.upper.clone();
        self.entries.iter().for_each(|entry| apply(&mut meter, entry, UPPER));
        meter.used(now)
    }

    /// Whether [`Account::upper`] can be relied on.
    pub fn is_exact(&self) -> bool {
        !self.is_blurred
    }

    fn is_open(&self) -> bool {
        self.entries.iter().any(is_open)
    }
}

fn is_open(entry: &Entry) -> bool {
    matches!(entry, Entry::Charge { fate: Fate::Open, .. })
}

/// How entries are read.
#[derive(Clone, Copy)]
struct Reading {
    /// With charges that are undecided.
    is_upper: bool,
    /// Whether a refund may have taken what was charged by a call that is undone later.
    may_owe: bool,
}

const UPPER: Reading = Reading { is_upper: true, may_owe: false };

fn apply(meter: &mut Meter, entry: &Entry, reading: Reading) {
    match *entry {
        Entry::Charge { units, at, fate, .. } => {
            let counts = match fate {
                Fate::Kept => true,
                Fate::Open => reading.is_upper,
                Fate::Undone { at: undone_at } => reading.is_upper && meter.drains() && undone_at > at,
            };
            if counts {
                meter.charge(units, at);
            }
        }
        Entry::Refund { units, at } => meter.refund(units, at, reading.may_owe),
        Entry::Clear => meter.clear(),
    }
}
