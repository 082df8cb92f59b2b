//! RL.TOP denied | checked | near [n]: the busiest keys of this node, with how far each number can be off.
//!
//! Each core answers for its own keys, from its sketch ([`crate::top`]); a key lies on one core, so the merge only
//! sorts. `near` takes the busiest keys of each core that still hold a limit and asks the store how much of it is used
//! now.

use crate::bounds::TOP_KEYS_MAX;
use crate::call::Call;
use crate::core::Core;
use crate::failure::Failure;
use crate::fragment::{split_count, write_count};
use crate::limit_commands::integer;
use crate::top::Which;
use std::cmp::Ordering;
use tollgate_limits::remaining_now;
use tollgate_resp::{Reply, printable};

/// Keys that are answered if nobody says how many.
const KEYS_DEFAULT: usize = 10;
/// The busiest keys of a core that `near` looks up: few enough that the core is not held up for long.
const NEAR_LOOKUPS_MAX: usize = 512;
const SECOND_MICROS: u64 = 1_000_000;

/// The part of a core that counts no keys.
const OFF: u8 = 0;
/// The part of a core that does.
const ON: u8 = 1;

/// What the list is sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Calls(Which),
    /// The share of the limit that is used.
    Near,
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    order: Order,
    keys_max: usize,
}

/// One key of the answer. `used` and `limit` are 0 where only calls are asked for.
#[derive(Clone, Copy, Debug)]
struct Row<'a> {
    key: &'a [u8],
    count: u64,
    error: u64,
    used: u64,
    limit: u64,
}

/// One core's part of RL.TOP: a mark, what is covered, and its rows.
pub fn top_part(core: &mut Core, call: &Call<'_>, fragment: &mut Vec<u8>) {
    // The merge finds the same fault again and answers it.
    let Ok(asked) = read(call) else { return };
    if !core.top.is_on() {
        return fragment.push(OFF);
    }
    fragment.push(ON);
    let which = asked.order.calls();
    let coverage = core.top.coverage(which, call.now);
    for number in [coverage.since, coverage.calls, coverage.missed_at_most] {
        write_count(fragment, number);
    }
    match asked.order {
        Order::Calls(_) => {
            for busy in core.top.busiest(which, asked.keys_max, call.now) {
                Row { key: busy.key, count: busy.count, error: busy.error, used: 0, limit: 0 }.write(fragment);
            }
        }
        Order::Near => write_nearest(core, call, asked.keys_max, fragment),
    }
}

fn write_nearest(core: &mut Core, call: &Call<'_>, keys_max: usize, fragment: &mut Vec<u8>) {
    let Core { top, store, .. } = core;
    let hasher = store.hasher();
    let mut rows = Vec::new();
    for busy in top.busiest(Which::Checked, NEAR_LOOKUPS_MAX, call.now) {
        let Some(id) = store.find(hasher.locate(busy.key), busy.key, call.now) else { continue };
        let Some((policy, state)) = store.limit(id) else { continue };
        let limit = policy.limit();
        let used = limit.saturating_sub(remaining_now(policy, state, call.now));
        rows.push(Row { key: busy.key, count: busy.count, error: busy.error, used, limit });
    }
    rows.sort_unstable_by(|left, right| Order::Near.compare(left, right));
    rows.iter().take(keys_max).for_each(|row| row.write(fragment));
}

/// RL.TOP denied | checked | near [n].
pub fn top_merge(fragments: &[&[u8]], call: &Call<'_>, reply: &mut Reply<'_>) {
    let asked = match read(call) {
        Ok(asked) => asked,
        Err(failure) => return reply.error(&failure.to_string()),
    };
    let (mut since, mut calls, mut missed) = (call.now, 0u64, 0);
    let mut rows = Vec::new();
    for fragment in fragments {
        let Some((part_since, part_calls, part_missed, rest)) = coverage_of(fragment) else {
            return reply.error("ERR busy keys are not counted: the server was started with top-keys no");
        };
        since = since.min(part_since);
        calls = calls.saturating_add(part_calls);
        missed = missed.max(part_missed);
        let mut rest = rest;
        while let Some((row, after)) = Row::read(rest) {
            rows.push(row);
            rest = after;
        }
    }
    rows.sort_unstable_by(|left, right| asked.order.compare(left, right));
    rows.truncate(asked.keys_max);
    reply.map(4);
    let covered_micros = call.now.saturating_sub(since);
    let numbers = [("seconds", covered_micros.div_ceil(SECOND_MICROS)), ("calls", calls), ("missed_at_most", missed)];
    for (name, number) in numbers {
        reply.bulk_str(name);
        reply.integer(integer(number));
    }
    reply.bulk_str("keys");
    reply.array(rows.len());
    rows.iter().for_each(|row| row.answer(asked.order, reply));
}

impl Order {
    fn calls(self) -> Which {
        match self {
            Order::Calls(which) => which,
            Order::Near => Which::Checked,
        }
    }

    /// What comes first in the list is less.
    fn compare(self, left: &Row<'_>, right: &Row<'_>) -> Ordering {
        let by_share = match self {
            Order::Calls(_) => Ordering::Equal,
            Order::Near => right.share_against(left).cmp(&left.share_against(right)),
        };
        by_share.then(right.count.cmp(&left.count)).then(left.key.cmp(right.key))
    }
}

impl<'a> Row<'a> {
    /// A half of comparing two shares: each one's use times the other's limit. Of a limit of 0 all is used.
    fn share_against(&self, other: &Row<'_>) -> u128 {
        let used = if self.limit == 0 { 1 } else { self.used };
        u128::from(used) * u128::from(other.limit.max(1))
    }

    fn write(&self, fragment: &mut Vec<u8>) {
        let key_bytes = u64::try_from(self.key.len()).unwrap_or(0);
        for number in [self.count, self.error, self.used, self.limit, key_bytes] {
            write_count(fragment, number);
        }
        fragment.extend_from_slice(self.key);
    }

    /// Takes a row off the front.
    fn read(fragment: &'a [u8]) -> Option<(Row<'a>, &'a [u8])> {
        let (count, rest) = split_count(fragment)?;
        let (error, rest) = split_count(rest)?;
        let (used, rest) = split_count(rest)?;
        let (limit, rest) = split_count(rest)?;
        let (key_bytes, rest) = split_count(rest)?;
        let (key, rest) = rest.split_at_checked(usize::try_from(key_bytes).ok()?)?;
        Some((Row { key, count, error, used, limit }, rest))
    }

    fn answer(&self, order: Order, reply: &mut Reply<'_>) {
        let of_limit = [self.used, self.limit];
        let of_limit = if order == Order::Near { of_limit.as_slice() } else { &[] };
        reply.array(3 + of_limit.len());
        reply.bulk(self.key);
        for number in of_limit.iter().chain(&[self.count, self.error]) {
            reply.integer(integer(*number));
        }
    }
}

/// What a part covers, and its rows. `None`: it counts no keys.
fn coverage_of(fragment: &[u8]) -> Option<(u64, u64, u64, &[u8])> {
    let (_, rest) = fragment.split_first().filter(|(mark, _)| **mark == ON)?;
    let (since, rest) = split_count(rest)?;
    let (calls, rest) = split_count(rest)?;
    let (missed, rest) = split_count(rest)?;
    Some((since, calls, missed, rest))
}

fn read(call: &Call<'_>) -> Result<Asked, Failure> {
    let syntax = |text: String| Err(Failure::Syntax(text));
    if call.args.len() > 3 {
        return syntax("wrong number of arguments for 'rl.top' command".to_owned());
    }
    let orders =
        [("DENIED", Order::Calls(Which::Denied)), ("CHECKED", Order::Calls(Which::Checked)), ("NEAR", Order::Near)];
    let Some((_, order)) = orders.into_iter().find(|(word, _)| call.is_word(1, word)) else {
        let word = printable(call.argument(1));
        return syntax(format!("syntax error: RL.TOP takes DENIED, CHECKED or NEAR, not '{word}'"));
    };
    let Some(number) = call.args.get(2) else { return Ok(Asked { order, keys_max: KEYS_DEFAULT }) };
    let digits = number.iter().all(u8::is_ascii_digit) && !number.is_empty();
    let keys_max = std::str::from_utf8(number).ok().filter(|_| digits).and_then(|text| text.parse().ok());
    match keys_max.filter(|keys_max| (1..=TOP_KEYS_MAX).contains(keys_max)) {
        Some(keys_max) => Ok(Asked { order, keys_max }),
        None => syntax(format!("n must be a whole number from 1 to {TOP_KEYS_MAX}")),
    }
}
