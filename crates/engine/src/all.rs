//! RL.ALL: several limits at once, all or nothing, also where their keys lie on several cores.
//!
//! The problem: nothing is locked, so while one core charges its limits another may refuse. The idea: each core decides
//! and charges its groups in one uninterrupted step and hands back what it would take to undo that; where any core
//! refused, the others put their records back. A charge that is undone was there for a moment, so a racing call may be
//! refused meanwhile; none is ever admitted that should not be.
//!
//! ```text
//!   AllPlan::new        which groups go to which core
//!   charge()            on each of these cores; writes a fragment and an UndoLog
//!   AllPlan::charged    collects the fragments
//!   AllPlan::to_undo    who must take back what: nobody if all admitted
//!   undo()              on each of these; writes a fragment with what PEEK now answers
//!   AllPlan::reply
//! ```

use crate::bounds::{ALL_GROUPS_MAX, KEY_BYTES_MAX};
use crate::call::Call;
use crate::core::Core;
use crate::failure::Failure;
use crate::fragment;
use crate::limit_commands::{count_refusal, five, parse_policy, refuse};
use crate::settings::Settings;
use std::collections::HashSet;
use tollgate_limits::{
    AMOUNT_MAX, Algorithm, Ask, Change, Charge, Decision, Micros, Mode, Policy, Under, decide, parse_amount,
    remaining_now, undo as take_off,
};
use tollgate_resp::{Args, Reply, printable};
use tollgate_store::{Hasher, Located, Saved};

/// Arguments of one group: key, algorithm, two numbers, cost.
const GROUP_ARGUMENTS: usize = 5;

/// One group, checked.
#[derive(Clone, Copy, Debug)]
struct Group<'a> {
    key: &'a [u8],
    at: Located,
    ask: Ask,
}

/// What it takes to take one core's charges back.
#[derive(Debug, Default)]
pub struct UndoLog {
    entries: Vec<UndoEntry>,
}

#[derive(Debug)]
struct UndoEntry {
    key: Box<[u8]>,
    at: Located,
    charge: Charge,
    /// The store's count of removals when the charge was made: a key that was removed since took the charge with it.
    removals: u64,
    records: Records,
}

/// What an undo can put back.
#[derive(Debug)]
enum Records {
    /// The record before (`None`: there was none) and after the charge.
    Whole(Option<Saved>, Saved),
    /// A log that keeps its window: the charge is one entry, which can be taken out, so that only the policy is kept.
    Entry(Policy),
}

/// Why a part of the call did not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartFailure {
    /// The owning core refused its groups with this error.
    Refused(String),
    /// The lane to the owning core stayed full.
    Busy,
}

/// The text of the error for a lane that stayed full.
pub const BUSY: &str = "BUSY too many commands are waiting for another core, try again";

#[derive(Debug)]
struct Part {
    core: u16,
    groups: Vec<usize>,
    state: PartState,
}

#[derive(Debug)]
enum PartState {
    Waiting,
    Charged { undo: Box<UndoLog> },
    Denied,
    Failed(PartFailure),
}

/// The course of one RL.ALL whose keys lie on several cores, kept by the connection that sent it.
#[derive(Debug)]
pub struct AllPlan {
    parts: Vec<Part>,
    fives: Vec<[i64; 5]>,
}

impl AllPlan {
    /// Checks the whole call and says which groups go where.
    ///
    /// # Errors
    /// The first thing wrong with any group: it is the whole reply, and no core hears of the call.
    pub fn new(settings: &Settings, hasher: &Hasher, cores: u16, args: Args<'_>) -> Result<AllPlan, Failure> {
        let groups = parse_groups(settings, hasher, args)?;
        let mut parts: Vec<Part> = Vec::new();
        for (index, group) in groups.iter().enumerate() {
            let core = crate::route::owner(group.at.slot, cores);
            match parts.iter_mut().find(|part| part.core == core) {
                Some(part) => part.groups.push(index),
                None => parts.push(Part { core, groups: vec![index], state: PartState::Waiting }),
            }
        }
        Ok(AllPlan { parts, fives: vec![[0; 5]; groups.len()] })
    }

    /// The cores that own groups of this call.
    pub fn cores(&self) -> impl Iterator<Item = u16> + '_ {
        self.parts.iter().map(|part| part.core)
    }

    /// The positions of the arguments that `core`'s part of the call needs: the name, then its groups.
    pub fn arguments(&self, core: u16) -> impl Iterator<Item = usize> + '_ {
        let groups = self.part(core).map(|part| part.groups.as_slice()).unwrap_or_default();
        let first_of = |group: &usize| 1 + group * GROUP_ARGUMENTS;
        std::iter::once(0).chain(groups.iter().flat_map(move |group| {
            let first = first_of(group);
            first..first + GROUP_ARGUMENTS
        }))
    }

    /// Takes in what `core` answered to its charge.
    pub fn charged(&mut self, core: u16, fragment: &[u8], undo: Option<Box<UndoLog>>) {
        let state = match fragment::split_status(fragment) {
            Some((fragment::ADMITTED, _)) => PartState::Charged { undo: undo.unwrap_or_default() },
            Some((fragment::DENIED, _)) => PartState::Denied,
            Some((_, text)) => PartState::Failed(PartFailure::Refused(String::from_utf8_lossy(text).into_owned())),
            None => PartState::Failed(PartFailure::Refused("ERR internal error: empty fragment".to_owned())),
        };
        self.take_fives(core, fragment);
        self.set(core, state);
    }

    /// Notes that `core` could not be asked.
    pub fn busy(&mut self, core: u16) {
        self.set(core, PartState::Failed(PartFailure::Busy));
    }

    /// Whether every core charged.
    pub fn admitted(&self) -> bool {
        self.parts.iter().all(|part| matches!(part.state, PartState::Charged { .. }))
    }

    /// Who must take back what. Nobody if all charged. Each log is handed out once.
    pub fn to_undo(&mut self) -> Vec<(u16, Box<UndoLog>)> {
        if self.admitted() {
            return Vec::new();
        }
        let mut logs = Vec::new();
        for part in &mut self.parts {
            if let PartState::Charged { undo } = &mut part.state {
                logs.push((part.core, std::mem::take(undo)));
                part.state = PartState::Denied;
            }
        }
        logs
    }

    /// Takes in what `core` answered after it took its charge back.
    pub fn undone(&mut self, core: u16, fragment: &[u8]) {
        if let Some((fragment::FAILED, text)) = fragment::split_status(fragment) {
            let text = String::from_utf8_lossy(text).into_owned();
            return self.set(core, PartState::Failed(PartFailure::Refused(text)));
        }
        self.take_fives(core, fragment);
    }

    /// The reply, once all have answered.
    pub fn reply(&self, reply: &mut Reply<'_>) {
        let failures = self.parts.iter().filter_map(|part| match &part.state {
            PartState::Failed(failure) => Some(failure),
            _ => None,
        });
        // An error of a key is worth more to the caller than "try again".
        match failures.min_by_key(|failure| **failure == PartFailure::Busy) {
            Some(PartFailure::Refused(text)) => reply.error(text),
            Some(PartFailure::Busy) => reply.error(BUSY),
            None => write_reply(&self.fives, reply),
        }
    }

    fn part(&self, core: u16) -> Option<&Part> {
        self.parts.iter().find(|part| part.core == core)
    }

    fn set(&mut self, core: u16, state: PartState) {
        if let Some(part) = self.parts.iter_mut().find(|part| part.core == core) {
            part.state = state;
        }
    }

    fn take_fives(&mut self, core: u16, fragment: &[u8]) {
        let Some((fragment::ADMITTED | fragment::DENIED, body)) = fragment::split_status(fragment) else { return };
        let Some(part) = self.parts.iter().find(|part| part.core == core) else { return };
        for (group, five) in part.groups.iter().zip(fragment::read_fives(body)) {
            if let Some(place) = self.fives.get_mut(*group) {
                *place = five;
            }
        }
    }
}

/// RL.ALL where all keys lie on this core.
pub fn run_here(core: &mut Core, call: &Call<'_>, reply: &mut Reply<'_>) {
    let hasher = core.store.hasher();
    let groups = match parse_groups(&core.settings, &hasher, call.args) {
        Ok(groups) => groups,
        Err(failure) => return refuse(core, &failure, reply),
    };
    match charge_groups(core, &groups, call.now, false) {
        Ok((_, decisions, _)) => {
            let fives: Vec<_> = decisions.iter().map(five).collect();
            write_reply(&fives, reply);
        }
        Err(failure) => refuse(core, &failure, reply),
    }
}

/// One core's part: charges its groups if all of them admit. Writes a fragment; answers what would undo it.
pub fn charge(core: &mut Core, call: &Call<'_>, fragment: &mut Vec<u8>) -> Option<Box<UndoLog>> {
    let hasher = core.store.hasher();
    let outcome = parse_groups(&core.settings, &hasher, call.args)
        .and_then(|groups| charge_groups(core, &groups, call.now, true));
    match outcome {
        Ok((admitted, decisions, undo)) => {
            fragment.push(if admitted { fragment::ADMITTED } else { fragment::DENIED });
            decisions.iter().for_each(|decision| fragment::write_five(fragment, five(decision)));
            admitted.then(|| Box::new(undo))
        }
        Err(failure) => {
            count_refusal(core, &failure);
            fragment.push(fragment::FAILED);
            fragment.extend_from_slice(failure.to_string().as_bytes());
            None
        }
    }
}

/// Takes a charge back and writes what PEEK answers now, for the groups of `call`.
pub fn undo(core: &mut Core, call: &Call<'_>, log: UndoLog, fragment: &mut Vec<u8>) {
    core.counters.undone_charges.add(1);
    roll_back(core, log, call.now);
    let hasher = core.store.hasher();
    let groups = parse_groups(&core.settings, &hasher, call.args).unwrap_or_default();
    let peeks: Option<Vec<Decision>> = groups.iter().map(|group| peek(core, group, call.now)).collect();
    let Some(peeks) = peeks else {
        // The key was deleted and made again under another algorithm since: now that is the answer to this call.
        fragment.push(fragment::FAILED);
        return fragment.extend_from_slice(Failure::WrongType.to_string().as_bytes());
    };
    fragment.push(fragment::DENIED);
    peeks.iter().for_each(|decision| fragment::write_five(fragment, five(decision)));
}

fn parse_groups<'a>(settings: &Settings, hasher: &Hasher, args: Args<'a>) -> Result<Vec<Group<'a>>, Failure> {
    let syntax = |text: String| Err(Failure::Syntax(text));
    let count = args.len().saturating_sub(1) / GROUP_ARGUMENTS;
    if count == 0 || count * GROUP_ARGUMENTS + 1 != args.len() {
        return syntax("RL.ALL takes groups of five: key algorithm number number cost".to_owned());
    }
    if count > ALL_GROUPS_MAX {
        return syntax(format!("RL.ALL takes at most {ALL_GROUPS_MAX} groups"));
    }
    let mut keys = HashSet::with_capacity(count);
    let mut groups = Vec::with_capacity(count);
    for index in 0..count {
        let argument = |offset| args.get(1 + index * GROUP_ARGUMENTS + offset).unwrap_or_default();
        let key = argument(0);
        if key.len() > KEY_BYTES_MAX {
            return syntax(format!("key is longer than {KEY_BYTES_MAX} bytes"));
        }
        if !keys.insert(key) {
            return syntax(format!("key '{}' is given twice", printable(key)));
        }
        let Some(algorithm) = algorithm_of(argument(1)) else {
            let word = printable(argument(1));
            return syntax(format!("algorithm must be SLIDE, TOKEN, FIXED, LOG or LEAK, not '{word}'"));
        };
        let policy = parse_policy(settings, algorithm, argument(2), argument(3))?;
        let cost = parse_amount(argument(4)).map_err(|error| Failure::Number("cost", error))?;
        groups.push(Group { key, at: hasher.locate(key), ask: Ask { policy, cost, mode: Mode::Charge } });
    }
    Ok(groups)
}

fn algorithm_of(word: &[u8]) -> Option<Algorithm> {
    crate::counters::ALGORITHMS.into_iter().find(|algorithm| word.eq_ignore_ascii_case(algorithm.word().as_bytes()))
}

type ChargeResult = Result<(bool, Vec<Decision>, UndoLog), Failure>;

fn charge_groups(core: &mut Core, groups: &[Group<'_>], now: Micros, keep_undo: bool) -> ChargeResult {
    let mut decisions = Vec::with_capacity(groups.len());
    let mut changes = Vec::with_capacity(groups.len());
    for group in groups {
        let outcome = outcome_of(core, group, group.ask.mode, now).ok_or(Failure::WrongType)?;
        decisions.push(outcome.decision);
        changes.push(outcome.change);
    }
    let is_admitted = |(decision, group): (&Decision, &Group<'_>)| decision.allowed > 0 || group.ask.cost == 0;
    let admitted = decisions.iter().zip(groups).all(is_admitted);
    count(core, groups, &decisions, admitted, now);
    if !admitted {
        for (group, decision) in groups.iter().zip(&mut decisions) {
            *decision = peek(core, group, now).unwrap_or(*decision);
        }
        return Ok((false, decisions, UndoLog::default()));
    }
    // Without a bound on memory nothing can be refused from here on, so that nothing need be kept for a way back.
    let keep = keep_undo || core.store.memory_max() > 0;
    let mut log = UndoLog::default();
    for (group, change) in groups.iter().zip(&changes) {
        if *change == Change::Keep {
            continue;
        }
        match apply(core, group, change, now, keep) {
            Ok(entry) => log.entries.extend(entry),
            Err(failure) => {
                roll_back(core, log, now);
                return Err(failure);
            }
        }
    }
    Ok((true, decisions, log))
}

fn count(core: &mut Core, groups: &[Group<'_>], decisions: &[Decision], admitted: bool, now: Micros) {
    for (group, decision) in groups.iter().zip(decisions) {
        let refused = decision.allowed == 0 && group.ask.cost > 0;
        if admitted || refused {
            core.counters.decided(group.ask.policy.algorithm(), !refused);
            core.counters.took(if refused { 0 } else { group.ask.cost });
            core.top.note(group.at, group.key, now, !refused);
        }
    }
}

fn outcome_of(core: &mut Core, group: &Group<'_>, mode: Mode, now: Micros) -> Option<tollgate_limits::Outcome> {
    let ask = Ask { mode, ..group.ask };
    match core.store.find(group.at, group.key, now) {
        Some(id) => core.store.limit(id).and_then(|stored| decide(Some(stored), &ask, now)),
        None => decide(None, &ask, now),
    }
}

fn peek(core: &mut Core, group: &Group<'_>, now: Micros) -> Option<Decision> {
    outcome_of(core, group, Mode::Peek, now).map(|outcome| outcome.decision)
}

fn apply(
    core: &mut Core,
    group: &Group<'_>,
    change: &Change,
    now: Micros,
    keep: bool,
) -> Result<Option<UndoEntry>, Failure> {
    // Looked up again: making room for an earlier group of this call may have moved or dropped the record.
    let found = match core.store.find(group.at, group.key, now) {
        Some(id) => {
            let roomed = core.store.make_room_for(id, &group.ask.policy, change, now);
            Some(roomed.map_err(|_| Failure::OutOfMemory)?)
        }
        None => None,
    };
    let before = match found {
        Some(id) if keep => before_of(core, id, &group.ask.policy),
        _ => None,
    };
    let written = match found {
        Some(id) => core.store.apply(group.at, id, &group.ask.policy, change),
        None => {
            let inserted = core.store.insert(group.at, group.key, &group.ask.policy, change, now);
            inserted.map_err(|_| Failure::OutOfMemory)?
        }
    };
    let records = match (before, written) {
        (Some(Before::Entry(policy)), Some(_)) => Records::Entry(policy),
        (before, Some(id)) if keep => {
            let before = match before {
                Some(Before::Whole(saved)) => Some(saved),
                _ => None,
            };
            // What was charged is a limit.
            let Some(after) = core.store.save(id) else { return Ok(None) };
            Records::Whole(before, after)
        }
        _ => return Ok(None),
    };
    let charge = Charge { policy: group.ask.policy, units: group.ask.cost, at: now };
    let removals = core.store.removals();
    Ok(Some(UndoEntry { key: group.key.into(), at: group.at, charge, removals, records }))
}

enum Before {
    Whole(Saved),
    Entry(Policy),
}

/// A log can be long, and is copied only where its window changes: it loses entries by that, and only a copy brings
/// them back.
fn before_of(core: &Core, id: tollgate_store::RecordId, asked: &Policy) -> Option<Before> {
    Some(match (core.store.limit(id), asked) {
        (Some((Policy::Log { limit, window: stored }, _)), Policy::Log { window, .. }) if stored == window => {
            Before::Entry(Policy::Log { limit: *limit, window: *stored })
        }
        _ => Before::Whole(core.store.save(id)?),
    })
}

fn roll_back(core: &mut Core, log: UndoLog, now: Micros) {
    for entry in log.entries.into_iter().rev() {
        // Deleted, flushed or dropped meanwhile: nothing of the charge is left, and what is there now is not it.
        if !core.store.removed_since(entry.removals, entry.at) {
            roll_back_one(core, &entry, now);
        }
    }
}

fn roll_back_one(core: &mut Core, entry: &UndoEntry, now: Micros) {
    let found = core.store.find(entry.at, &entry.key, now);
    match &entry.records {
        Records::Whole(before, after) if found.is_some_and(|id| core.store.is_same(id, after)) => {
            core.store.restore(entry.at, &entry.key, found, before.as_ref());
        }
        Records::Whole(Some(before), _) if !is_kept_alike(before.policy(), &entry.charge.policy) => {
            restore_under_old_policy(core, entry, before, now);
        }
        Records::Whole(..) => take_charge_off(core, entry, None, now),
        Records::Entry(policy) => take_charge_off(core, entry, Some(*policy), now),
    }
}

/// Takes the charge off where it lies. Expired meanwhile: then nothing of it is left. `policy`: what a record that is
/// still kept under the charge's policy is to be kept under again.
fn take_charge_off(core: &mut Core, entry: &UndoEntry, policy: Option<Policy>, now: Micros) {
    let Some(id) = core.store.find(entry.at, &entry.key, now) else { return };
    let Some((stored, state)) = core.store.limit(id) else { return };
    let change = take_off(Some((stored, state)), &entry.charge, now);
    match (change, policy) {
        (Change::Keep, _) => {}
        (Change::Log(_, change), Some(policy)) if *stored == entry.charge.policy => {
            core.store.apply(entry.at, id, &policy, &Change::Log(Under::Asked, change));
        }
        (change, _) => {
            let stored = *stored;
            core.store.apply(entry.at, id, &stored, &change);
        }
    }
}

/// The charge changed the window or the rate, and others came since (or the record ran out, which it would not have
/// done under its own policy). What is certainly left of the charge is taken off; then the record from before is put
/// back, and whatever else was there is charged to it once more: what the charge had carried over counts twice, on the
/// safe side. Where that use lasts longer than it would under the old policy, it stays as it is: an admitted call has
/// changed the policy too.
fn restore_under_old_policy(core: &mut Core, entry: &UndoEntry, before: &Saved, now: Micros) {
    take_charge_off(core, entry, None, now);
    let found = core.store.find(entry.at, &entry.key, now);
    let taken = match found.map(|id| core.store.limit(id)) {
        // A value or another algorithm: the key was used for something else since, and that stands.
        Some(None) => return,
        Some(Some((policy, _))) if policy.algorithm() != entry.charge.policy.algorithm() => return,
        // With room: what was put back in this way may hold more than the limit.
        Some(Some((policy, state))) => match AMOUNT_MAX.saturating_sub(remaining_now(&with_room(policy), state, now)) {
            used if used > 0 && outlasts(policy, before.policy()) => return,
            used => used,
        },
        None => 0,
    };
    let restored = core.store.restore(entry.at, &entry.key, found, Some(before));
    let Some(id) = restored.filter(|_| taken > 0) else { return };
    let ask = Ask { policy: with_room(before.policy()), cost: taken, mode: Mode::Charge };
    let outcome = core.store.limit(id).and_then(|stored| decide(Some(stored), &ask, now));
    if let Some(outcome) = outcome {
        core.store.apply(entry.at, id, before.policy(), &outcome.change);
    }
}

/// Whether the same use lasts longer under one policy than under another of the same algorithm.
fn outlasts(one: &Policy, other: &Policy) -> bool {
    match (one, other) {
        (Policy::Slide { window, .. }, Policy::Slide { window: other, .. })
        | (Policy::Fixed { window, .. }, Policy::Fixed { window: other, .. })
        | (Policy::Log { window, .. }, Policy::Log { window: other, .. }) => window.micros() > other.micros(),
        (Policy::Token { rate, .. }, Policy::Token { rate: other, .. })
        | (Policy::Leak { rate, .. }, Policy::Leak { rate: other, .. }) => {
            let product = |micros: u128, tokens: u64| micros.saturating_mul(u128::from(tokens));
            product(rate.micros(), other.tokens()) > product(other.micros(), rate.tokens())
        }
        _ => false,
    }
}

/// Whether a record's use runs out in the same way under both policies.
fn is_kept_alike(one: &Policy, other: &Policy) -> bool {
    with_room(one) == with_room(other)
}

/// The same window or rate, with the largest limit there is.
fn with_room(policy: &Policy) -> Policy {
    match *policy {
        Policy::Slide { window, .. } => Policy::Slide { limit: AMOUNT_MAX, window },
        Policy::Fixed { window, .. } => Policy::Fixed { limit: AMOUNT_MAX, window },
        Policy::Log { window, .. } => Policy::Log { limit: AMOUNT_MAX, window },
        Policy::Token { rate, .. } => Policy::Token { capacity: AMOUNT_MAX, rate },
        Policy::Leak { rate, .. } => Policy::Leak { capacity: AMOUNT_MAX, rate },
    }
}

/// `[allowed, binding, [five], [five] ...]`.
fn write_reply(fives: &[[i64; 5]], reply: &mut Reply<'_>) {
    let refused = |five: &[i64; 5]| five[0] == 0;
    // A group of cost 0 is admitted whatever it shows, and shows allowed 1.
    let denied = fives.iter().any(refused);
    let binding = if denied { longest_wait(fives) } else { least_left(fives) };
    reply.array(fives.len() + 2);
    reply.integer(i64::from(!denied));
    reply.integer(i64::try_from(binding).unwrap_or(i64::MAX));
    fives.iter().for_each(|five| reply.five(*five));
}

fn longest_wait(fives: &[[i64; 5]]) -> usize {
    let mut binding = None;
    for (index, five) in fives.iter().enumerate().filter(|(_, five)| five[0] == 0) {
        let wait_ms = if five[3] < 0 { i64::MAX } else { five[3] };
        if binding.is_none_or(|(_, longest_ms)| wait_ms > longest_ms) {
            binding = Some((index, wait_ms));
        }
    }
    binding.map_or(0, |(index, _)| index)
}

fn least_left(fives: &[[i64; 5]]) -> usize {
    // remaining / limit as a fraction; limit 0 counts as 0.
    let share = |five: &[i64; 5]| {
        if five[1] == 0 { (0, 1) } else { (i128::from(five[2]), i128::from(five[1])) }
    };
    let mut binding = (0, (1, 0));
    for (index, five) in fives.iter().enumerate() {
        let (left, of) = share(five);
        let (least, least_of) = binding.1;
        if least_of == 0 || left * least_of < least * of {
            binding = (index, (left, of));
        }
    }
    binding.0
}
