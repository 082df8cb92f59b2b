//! What a simulated client asks next.

use crate::plan::{KeyPlan, Plan};
use crate::random::Random;
use crate::request::{Group, Mistake, Request, Rule};
use tollgate_limits::{Algorithm, Mode};

const MISTAKES: [Mistake; 5] = [Mistake::Cost, Mistake::Window, Mistake::Option, Mistake::KeyTwice, Mistake::Command];
/// The most groups of a simulated RL.ALL.
const GROUPS_MAX: u64 = 6;

/// The next request; `serial` is a number that no other request of the run has.
pub fn request(plan: &Plan, random: &mut Random, serial: u64) -> Request {
    match random.below(100) {
        0..38 => single(plan, random),
        38..78 => all(plan, random),
        78..82 if plan.deletes => Request::Delete(some_keys(plan, random)),
        78..84 => Request::Exists(some_keys(plan, random)),
        84..86 => Request::Type(random.position(plan.keys.len())),
        86..88 => Request::Pttl(random.position(plan.keys.len())),
        88..90 => Request::Keys,
        90..93 => Request::Malformed(random.position(plan.keys.len()), random.choose(&MISTAKES, Mistake::Cost)),
        _ => Request::Echo(format!("echo {serial}")),
    }
}

fn single(plan: &Plan, random: &mut Random) -> Request {
    let (key, rule) = some_rule(plan, random);
    let refunds = plan.keys.get(key).is_some_and(|key| key.refunds);
    let mode = match (rule.algorithm, random.below(10)) {
        (_, 0) => Mode::Peek,
        (Algorithm::Leak, _) => Mode::Charge,
        (_, 1) => Mode::Partial,
        (_, 2..4) if refunds => Mode::Refund,
        _ => Mode::Charge,
    };
    Request::Limit(Group { key, rule, cost: cost(random) }, mode)
}

fn all(plan: &Plan, random: &mut Random) -> Request {
    let wanted = random.between(1, GROUPS_MAX);
    let mut groups: Vec<Group> = Vec::new();
    for _ in 0..wanted {
        let (key, rule) = some_rule(plan, random);
        if groups.iter().all(|group| group.key != key) {
            groups.push(Group { key, rule, cost: cost(random) });
        }
    }
    Request::All(groups)
}

fn some_rule(plan: &Plan, random: &mut Random) -> (usize, Rule) {
    let key = random.position(plan.keys.len());
    let rules = plan.keys.get(key).map_or(&[][..], |key: &KeyPlan| key.rules.as_slice());
    let none = Rule { algorithm: Algorithm::Fixed, limit: 0, width: "1" };
    // The first rule comes more often, so that it builds up use.
    let rule = if random.chance(500) { rules.first().copied() } else { None };
    (key, rule.unwrap_or_else(|| random.choose(rules, none)))
}

fn some_keys(plan: &Plan, random: &mut Random) -> Vec<usize> {
    (0..random.between(1, 3)).map(|_| random.position(plan.keys.len())).collect()
}

fn cost(random: &mut Random) -> u64 {
    random.choose(&[1, 1, 1, 1, 2, 2, 3, 5, 0], 1)
}
