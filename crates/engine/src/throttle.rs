//! CL.THROTTLE and THROTTLE: redis-cell's and throttlecrab's commands on our token bucket, for people who move without
//! touching their code.
//!
//! They take the same words and mean buckets of different sizes: redis-cell counts `max_burst` on top of the one call
//! that is always let go, throttlecrab counts it in all. Both are keys of RL.TOKEN's kind.

use crate::call::Call;
use crate::core::Core;
use crate::failure::Failure;
use crate::limit_commands::{integer, refuse};
use tollgate_limits::{AMOUNT_MAX, Ask, Decision, Mode, Policy, Rate, Retry, parse_amount, parse_window};
use tollgate_resp::{Args, Reply};

const SECOND_MICROS: u128 = 1_000_000;

/// A command of this family.
struct Dialect {
    name: &'static str,
    /// What the bucket holds beyond `max_burst`.
    beyond_burst: u64,
    write: fn(&Decision, u64, &mut Reply<'_>),
}

/// CL.THROTTLE key max_burst count period [quantity].
pub fn cl_throttle(core: &mut Core, call: &Call<'_>, reply: &mut Reply<'_>) {
    run(core, call, &Dialect { name: "cl.throttle", beyond_burst: 1, write: write_cell }, reply);
}

/// RL.THROTTLE key max_burst count period [quantity]: CL.THROTTLE by another name.
pub fn rl_throttle(core: &mut Core, call: &Call<'_>, reply: &mut Reply<'_>) {
    run(core, call, &Dialect { name: "rl.throttle", beyond_burst: 1, write: write_cell }, reply);
}

/// THROTTLE key max_burst count period [quantity].
pub fn throttle(core: &mut Core, call: &Call<'_>, reply: &mut Reply<'_>) {
    run(core, call, &Dialect { name: "throttle", beyond_burst: 0, write: write_crab }, reply);
}

fn run(core: &mut Core, call: &Call<'_>, dialect: &Dialect, reply: &mut Reply<'_>) {
    let ask = match parse(dialect, call.args) {
        Ok(ask) => ask,
        Err(failure) => return refuse(core, &failure, reply),
    };
    // A quantity of 0 looks: what it answers is what PEEK would say of no cost.
    match core.limit(call.at, call.key(), &ask, call.now) {
        Ok(decision) => (dialect.write)(&decision, ask.cost, reply),
        Err(failure) => refuse(core, &failure, reply),
    }
}

fn parse(dialect: &Dialect, args: Args<'_>) -> Result<Ask, Failure> {
    if args.len() > 6 {
        return Err(Failure::Syntax(format!("wrong number of arguments for '{}' command", dialect.name)));
    }
    let argument = |position| args.get(position).unwrap_or_default();
    let amount = |name, position| parse_amount(argument(position)).map_err(|error| Failure::Number(name, error));
    let max_burst = amount("max_burst", 2)?;
    // What a bucket can hold at most leaves no room for one more.
    if max_burst > AMOUNT_MAX - dialect.beyond_burst {
        return Err(Failure::Syntax(format!("max_burst must be below {AMOUNT_MAX}")));
    }
    let count = amount("count", 3)?;
    // Whole seconds, in the range of windows.
    let period_seconds = amount("period", 4)?;
    parse_window(argument(4)).map_err(|error| Failure::Number("period", error))?;
    let cost = if args.len() == 6 { amount("quantity", 5)? } else { 1 };
    if count == 0 {
        return Err(Failure::Syntax("count must be at least 1: a rate of 0 never lets anything through".to_owned()));
    }
    let rate = Rate::new(count, u128::from(period_seconds) * SECOND_MICROS)
        .ok_or_else(|| Failure::Syntax("count per period must be from 1 a year to 1000000000 a second".to_owned()))?;
    let capacity = max_burst.saturating_add(dialect.beyond_burst);
    Ok(Ask { policy: Policy::Token { capacity, rate }, cost, mode: Mode::Charge })
}

/// `limited, limit, remaining, retry_after_s, reset_after_s`: seconds rounded up, -1 where there is nothing to wait
/// for.
fn write_cell(decision: &Decision, cost: u64, reply: &mut Reply<'_>) {
    let limited = decision.allowed == 0 && cost > 0;
    let retry_s = match decision.retry {
        Retry::After(milliseconds) if limited => integer(milliseconds.div_ceil(1000)),
        _ => -1,
    };
    let reset_s = integer(decision.reset_ms.div_ceil(1000));
    reply.five([i64::from(limited), integer(decision.limit), integer(decision.remaining), retry_s, reset_s]);
}

/// `allowed, limit, remaining, reset_after_s, retry_after_s`: seconds rounded up; retry 0 if allowed, -1 for never.
fn write_crab(decision: &Decision, cost: u64, reply: &mut Reply<'_>) {
    let allowed = decision.allowed > 0 || cost == 0;
    let retry_s = match decision.retry {
        _ if allowed => 0,
        Retry::After(milliseconds) => integer(milliseconds.div_ceil(1000)),
        Retry::Never => -1,
    };
    let reset_s = integer(decision.reset_ms.div_ceil(1000));
    reply.five([i64::from(allowed), integer(decision.limit), integer(decision.remaining), reset_s, retry_s]);
}
