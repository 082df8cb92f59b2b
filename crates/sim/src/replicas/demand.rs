//! What clients ask of a primary.

use super::plan::{Plan, Use};
use crate::random::Random;
use crate::request::{Group, Request, Rule};
use std::fmt;
use tollgate_limits::{Algorithm, Mode};

/// One command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Demand {
    /// A call on one limit.
    Limit(Group, Mode),
    /// RL.ALL.
    All(Vec<Group>),
    /// DEL.
    Delete(usize),
    /// SET with an expiry in milliseconds.
    Set(usize, u64),
    /// INCR.
    Count(usize),
    /// PEXPIRE, in milliseconds.
    Expire(usize, u64),
    /// FLUSHALL.
    Flush,
}

/// The most groups of a simulated RL.ALL.
const GROUPS_MAX: u64 = 4;
/// Of a thousand calls, those that flush everything.
const FLUSH_PERMILLE: u64 = 1;

impl Demand {
    /// The next one.
    pub fn new(plan: &Plan, random: &mut Random) -> Demand {
        if random.chance(plan.delete_permille) {
            return Demand::Delete(random.position(plan.keys.len()));
        }
        if plan.delete_permille > 0 && random.chance(FLUSH_PERMILLE) {
            return Demand::Flush;
        }
        if random.chance(200) {
            return all(plan, random);
        }
        let key = random.position(plan.keys.len());
        match plan.keys.get(key).map(|key| &key.r#use) {
            Some(Use::Value) => value(key, random),
            // Refused: nobody frees or freezes a caller by mistake.
            _ if random.chance(10) => Demand::Expire(key, 1),
            _ => single(plan, key, random),
        }
    }

    /// The keys, in the order of the arguments.
    pub fn keys(&self) -> Vec<usize> {
        match self {
            Demand::Limit(group, _) => vec![group.key],
            Demand::All(groups) => groups.iter().map(|group| group.key).collect(),
            Demand::Delete(key) | Demand::Set(key, _) | Demand::Count(key) | Demand::Expire(key, _) => vec![*key],
            Demand::Flush => Vec::new(),
        }
    }

    /// The limit that it asks of a key.
    pub fn group(&self, key: usize) -> Option<Group> {
        match self {
            Demand::Limit(group, _) => Some(*group).filter(|group| group.key == key),
            Demand::All(groups) => groups.iter().copied().find(|group| group.key == key),
            _ => None,
        }
    }

    /// The arguments as they come over the wire; `names` are the plan's keys.
    pub fn arguments(&self, names: &[String]) -> Vec<Vec<u8>> {
        let name = |key: &usize| names.get(*key).cloned().unwrap_or_default();
        let words = match self {
            Demand::Limit(group, mode) => return Request::Limit(*group, *mode).arguments(names),
            Demand::All(groups) => return Request::All(groups.clone()).arguments(names),
            Demand::Delete(key) => vec!["DEL".to_owned(), name(key)],
            Demand::Set(key, ms) => {
                vec!["SET".to_owned(), name(key), format!("text {ms}"), "PX".to_owned(), ms.to_string()]
            }
            Demand::Count(key) => vec!["INCR".to_owned(), name(key)],
            Demand::Expire(key, ms) => vec!["PEXPIRE".to_owned(), name(key), ms.to_string()],
            Demand::Flush => vec!["FLUSHALL".to_owned()],
        };
        words.into_iter().map(String::into_bytes).collect()
    }
}

impl fmt::Display for Demand {
    /// As it is asked, with `key <position>` for the names of keys.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let highest = self.keys().into_iter().max().unwrap_or(0);
        let names: Vec<String> = (0..=highest).map(|key| format!("key{key}")).collect();
        let words = self.arguments(&names);
        let words: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
        write!(formatter, "{}", words.join(" "))
    }
}

fn value(key: usize, random: &mut Random) -> Demand {
    match random.below(4) {
        0 => Demand::Count(key),
        1 => Demand::Expire(key, random.choose(&[1, 20, 400, 60_000], 20)),
        _ => Demand::Set(key, random.choose(&[1, 20, 400, 60_000], 20)),
    }
}

fn single(plan: &Plan, key: usize, random: &mut Random) -> Demand {
    let rule = some_rule(plan, key, random);
    let refunds = plan.keys.get(key).is_some_and(|key| key.refunds);
    let mode = match (rule.algorithm, random.below(10)) {
        (_, 0) => Mode::Peek,
        (Algorithm::Leak, _) => Mode::Charge,
        (_, 1) => Mode::Partial,
        (_, 2) if refunds => Mode::Refund,
        _ => Mode::Charge,
    };
    Demand::Limit(Group { key, rule, cost: cost(random) }, mode)
}

fn all(plan: &Plan, random: &mut Random) -> Demand {
    let wanted = random.between(2, GROUPS_MAX);
    let mut groups: Vec<Group> = Vec::new();
    for _ in 0..wanted {
        let key = random.position(plan.keys.len());
        if groups.iter().all(|group| group.key != key) {
            groups.push(Group { key, rule: some_rule(plan, key, random), cost: cost(random) });
        }
    }
    Demand::All(groups)
}

fn some_rule(plan: &Plan, key: usize, random: &mut Random) -> Rule {
    let some = Rule { algorithm: Algorithm::Fixed, limit: 5, width: "1" };
    match plan.keys.get(key).map(|key| &key.r#use) {
        Some(Use::Steady(rule)) => *rule,
        Some(Use::Wild(rules)) => random.choose(rules, some),
        _ => some,
    }
}

fn cost(random: &mut Random) -> u64 {
    random.choose(&[1, 1, 1, 1, 2, 2, 3, 5, 0], 1)
}
