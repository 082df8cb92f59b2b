//! RL.GET: what a limit's key holds and how the next call on it will be decided, in words that a person reads.

use crate::call::Call;
use crate::core::Core;
use crate::failure::Failure;
use crate::limit_commands::refuse;
use tollgate_limits::{Algorithm, Ask, Decision, Micros, Mode, Policy, Rate, Retry, StateRef, decide, remaining_now};
use tollgate_resp::Reply;

/// RL.GET key.
pub fn rl_get(core: &mut Core, call: &Call<'_>, reply: &mut Reply<'_>) {
    let Some(id) = core.store.find(call.at, call.key(), call.now) else { return reply.null() };
    let Some((policy, state)) = core.store.limit(id) else { return refuse(core, &Failure::WrongType, reply) };
    let fields = explain(policy, state, call.now);
    reply.map(fields.len());
    for (name, words) in fields {
        reply.bulk(name.as_bytes());
        reply.bulk(words.as_bytes());
    }
}

fn explain(policy: &Policy, state: StateRef<'_>, now: Micros) -> Vec<(&'static str, String)> {
    let ask = Ask { policy: *policy, cost: 1, mode: Mode::Peek };
    let next = decide(Some((policy, state)), &ask, now).map(|outcome| outcome.decision);
    let mut fields = vec![
        ("algorithm", algorithm_words(policy.algorithm()).to_owned()),
        ("limit", policy_words(policy)),
        ("use", use_words(policy, state, now)),
        ("clock", format!("{} us since 1970 on this core", now)),
        ("arithmetic", arithmetic_words(policy, state, now)),
    ];
    if let Some(next) = next {
        fields.push(("next", next_words(policy, &next)));
        fields.push(("expires", format!("in {} ms, when it is as if untouched", next.reset_ms)));
    }
    fields
}

const fn algorithm_words(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::Slide => "RL.SLIDE, a sliding window estimated from two aligned windows",
        Algorithm::Token => "RL.TOKEN, a token bucket",
        Algorithm::Fixed => "RL.FIXED, an aligned window that starts again from zero",
        Algorithm::Log => "RL.LOG, an exact sliding window that keeps each call",
        Algorithm::Leak => "RL.LEAK, a queue that leaves at a steady rate",
    }
}

fn policy_words(policy: &Policy) -> String {
    match policy {
        Policy::Slide { limit, window } | Policy::Fixed { limit, window } | Policy::Log { limit, window } => {
            format!("{limit} in {}", seconds(u128::from(window.micros())))
        }
        Policy::Token { capacity, rate } | Policy::Leak { capacity, rate } => {
            format!("{capacity} at once, {} after that", rate_words(*rate))
        }
    }
}

fn rate_words(rate: Rate) -> String {
    format!("{} in {}", rate.tokens(), seconds(rate.micros()))
}

fn units(count: u64) -> String {
    if count == 1 { "1 unit".to_owned() } else { format!("{count} units") }
}

fn seconds(micros: u128) -> String {
    let (whole, part) = (micros / 1_000_000, micros % 1_000_000);
    if part == 0 { format!("{whole} s") } else { format!("{whole}.{part:06} s") }
}

fn use_words(policy: &Policy, state: StateRef<'_>, now: Micros) -> String {
    let left = remaining_now(policy, state, now);
    let used = policy.limit().saturating_sub(left);
    format!("{used} of {} used, {left} left", units(policy.limit()))
}

fn arithmetic_words(policy: &Policy, state: StateRef<'_>, now: Micros) -> String {
    match (policy, state) {
        (Policy::Slide { limit, window }, StateRef::Slide(stored)) => {
            let (length, index) = (window.micros(), now / window.micros());
            let into = now % length;
            let (cur, prev) = match index.checked_sub(stored.index) {
                None | Some(0) => (stored.cur, stored.prev),
                Some(1) => (0, stored.cur),
                Some(_) => (0, 0),
            };
            format!(
                "window {index}, {into} us in: previous {prev} x ({length} - {into}) / {length} + current {cur}, \
                 rounded down, plus the cost must not pass {limit}"
            )
        }
        (Policy::Fixed { limit, window }, StateRef::Fixed(stored)) => {
            let index = now / window.micros();
            let count = if stored.index >= index { stored.count } else { 0 };
            format!("window {index}: count {count} plus the cost must not pass {limit}")
        }
        (Policy::Log { limit, window }, StateRef::Log(log)) => {
            let used = log.units_at(now, *window);
            let used = units(used);
            format!("{used} in the last {} plus the cost must not pass {limit}", seconds(u128::from(window.micros())))
        }
        (Policy::Token { capacity, rate } | Policy::Leak { capacity, rate }, _) => {
            let used = capacity.saturating_sub(remaining_now(policy, state, now));
            let drain = rate_words(*rate);
            format!("use {used}, rounded up, drains by {drain}; it plus the cost must not pass {capacity}")
        }
        _ => String::new(),
    }
}

fn next_words(policy: &Policy, next: &Decision) -> String {
    match (next.allowed, next.retry) {
        (0, Retry::Never) => "a call of cost 1 is never admitted".to_owned(),
        (0, Retry::After(wait_ms)) => format!("a call of cost 1 is denied, and admitted in {wait_ms} ms"),
        (_, Retry::After(hold_ms)) if policy.algorithm() == Algorithm::Leak => {
            format!("a call of cost 1 is admitted and held for {hold_ms} ms; up to {} fit", next.remaining)
        }
        _ => format!("calls of up to {} in all are admitted", units(next.remaining)),
    }
}
