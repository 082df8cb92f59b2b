//! RL.SLIDE, RL.TOKEN, RL.FIXED, RL.LOG, RL.LEAK: arguments in, five integers out.

use crate::call::Call;
use crate::core::Core;
use crate::failure::Failure;
use crate::policy_memo::{PolicyMemo, Words};
use crate::settings::Settings;
use tollgate_limits::{Algorithm, Ask, Decision, Mode, Policy, Retry, parse_amount, parse_rate, parse_window};
use tollgate_resp::{Args, Reply, printable};

/// RL.SLIDE.
///
/// The common call is answered in one pass, in line: plain, under a policy that was named before, on a key that is
/// there, and admitted.
pub fn slide(core: &mut Core, call: &Call<'_>, reply: &mut Reply<'_>) {
    run(core, Algorithm::Slide, call, reply);
}

/// RL.TOKEN.
pub fn token(core: &mut Core, call: &Call<'_>, reply: &mut Reply<'_>) {
    run(core, Algorithm::Token, call, reply);
}

/// RL.FIXED.
pub fn fixed(core: &mut Core, call: &Call<'_>, reply: &mut Reply<'_>) {
    run(core, Algorithm::Fixed, call, reply);
}

/// RL.LOG.
pub fn log(core: &mut Core, call: &Call<'_>, reply: &mut Reply<'_>) {
    run(core, Algorithm::Log, call, reply);
}

/// RL.LEAK.
pub fn leak(core: &mut Core, call: &Call<'_>, reply: &mut Reply<'_>) {
    run(core, Algorithm::Leak, call, reply);
}

#[inline(always)]
fn run(core: &mut Core, algorithm: Algorithm, call: &Call<'_>, reply: &mut Reply<'_>) {
    let Some(ask) = recall_plain(&core.memo, algorithm, call.args) else {
        return read_and_run(core, algorithm, call, reply);
    };
    // Before it runs, so that the common way carries nothing along for that.
    if core.top.is_due() {
        core.top.count(call.at, call.key(), call.now);
    }
    // Only of a SLIDE is there a way that is quicker still.
    if algorithm == Algorithm::Slide
        && let Some(admitted) = core.store.charge_common(call.at, call.key(), ask, call.now)
    {
        core.counters.keyspace_hits.add(1);
        core.counters.decided(algorithm, true);
        core.top.pass_counted();
        return reply.admitted(admitted.limit, admitted.remaining, admitted.reset_ms);
    }
    match core.store.decide_common(call.at, call.key(), ask, call.now) {
        Some(decision) => {
            core.count_settled(algorithm, call.at, call.key(), &decision);
            reply.five(five(&decision));
        }
        None => run_recalled(core, *ask, call, reply),
    }
}

/// The plain call, of cost 1 and without options, if its policy was named by the same words before.
#[inline(always)]
fn recall_plain<'a>(memo: &'a PolicyMemo, algorithm: Algorithm, args: Args<'_>) -> Option<&'a Ask> {
    if args.len() != 4 {
        return None;
    }
    memo.get(&Words::new(algorithm, args.stretch(2)?)?)
}

#[inline(never)]
fn read_and_run(core: &mut Core, algorithm: Algorithm, call: &Call<'_>, reply: &mut Reply<'_>) {
    match parse_ask(core, algorithm, call.args) {
        Ok(ask) => {
            let decision = core.limit(call.at, call.key(), &ask, call.now);
            answer(core, decision, reply);
        }
        Err(failure) => {
            refuse(core, &failure, reply);
        }
    }
}

/// The call that is plain and yet not the common one.
#[inline(never)]
fn run_recalled(core: &mut Core, ask: Ask, call: &Call<'_>, reply: &mut Reply<'_>) {
    let decision = core.limit_uncommon(call.at, call.key(), call.now, &ask);
    answer(core, decision, reply);
}

/// The five integers, or the refusal.
#[inline]
pub fn answer(core: &Core, decision: Result<Decision, Failure>, reply: &mut Reply<'_>) {
    match decision {
        Ok(decision) => reply.five(five(&decision)),
        Err(failure) => refuse(core, &failure, reply),
    }
}

/// Counts a refusal for memory. The error reply is counted where the command ends.
pub fn count_refusal(core: &Core, failure: &Failure) {
    if *failure == Failure::OutOfMemory {
        core.counters.oom_replies.add(1);
    }
}

/// Answers a refusal, and counts it if it is one for memory.
pub fn refuse(core: &Core, failure: &Failure, reply: &mut Reply<'_>) {
    count_refusal(core, failure);
    reply.error(&failure.to_string());
}

/// The five integers of a decision; never is -1.
#[inline]
pub fn five(decision: &Decision) -> [i64; 5] {
    let retry_ms = match decision.retry {
        Retry::After(milliseconds) => integer(milliseconds),
        Retry::Never => -1,
    };
    [
        integer(decision.allowed),
        integer(decision.limit),
        integer(decision.remaining),
        retry_ms,
        integer(decision.reset_ms),
    ]
}

/// A number for the wire. All that is sent lies far below the bound.
#[inline]
pub fn integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// `name key limit window [COST n] [PEEK | PARTIAL | REFUND]`.
fn parse_ask(core: &mut Core, algorithm: Algorithm, args: Args<'_>) -> Result<Ask, Failure> {
    let policy = recall_policy(core, algorithm, args)?;
    if args.len() == 4 {
        return Ok(Ask { policy, cost: 1, mode: Mode::Charge });
    }
    let (cost, mode) = parse_options(algorithm, args)?;
    Ok(Ask { policy, cost, mode })
}

fn parse_options(algorithm: Algorithm, args: Args<'_>) -> Result<(u64, Mode), Failure> {
    let (mut cost, mut mode) = (None, None);
    let mut position = 4;
    while let Some(word) = args.get(position) {
        position += 1;
        if word.eq_ignore_ascii_case(b"COST") {
            let Some(number) = args.get(position) else {
                return Err(Failure::Syntax("syntax error: COST needs a number".to_owned()));
            };
            position += 1;
            let parsed = parse_amount(number).map_err(|error| Failure::Number("cost", error))?;
            if cost.replace(parsed).is_some() {
                return Err(Failure::Syntax("syntax error: COST is given twice".to_owned()));
            }
            continue;
        }
        let named = parse_mode(algorithm, word)?;
        if let Some(first) = mode.replace(named) {
            let text = if first == named {
                format!("syntax error: {} is given twice", mode_word(named))
            } else {
                format!("syntax error: {} and {} exclude each other", mode_word(first), mode_word(named))
            };
            return Err(Failure::Syntax(text));
        }
    }
    Ok((cost.unwrap_or(1), mode.unwrap_or(Mode::Charge)))
}

fn parse_mode(algorithm: Algorithm, word: &[u8]) -> Result<Mode, Failure> {
    // A leaky bucket holds requests in order: part of one cannot be let go, and a place once taken is not given back.
    let offered: &[Mode] = match algorithm {
        Algorithm::Leak => &[Mode::Peek],
        _ => &[Mode::Peek, Mode::Partial, Mode::Refund],
    };
    let found = offered.iter().find(|mode| word.eq_ignore_ascii_case(mode_word(**mode).as_bytes()));
    found.copied().ok_or_else(|| {
        let words: Vec<&str> = offered.iter().map(|mode| mode_word(*mode)).collect();
        let (word, name) = (printable(word), algorithm.word());
        Failure::Syntax(format!("syntax error: '{word}' is no option of RL.{name} (COST n, {})", words.join(" | ")))
    })
}

const fn mode_word(mode: Mode) -> &'static str {
    match mode {
        Mode::Charge => "COST",
        Mode::Peek => "PEEK",
        Mode::Partial => "PARTIAL",
        Mode::Refund => "REFUND",
    }
}

/// As [`parse_policy`], for words that were likely just read.
fn recall_policy(core: &mut Core, algorithm: Algorithm, args: Args<'_>) -> Result<Policy, Failure> {
    let words = args.stretch(2).and_then(|words| Words::new(algorithm, words));
    if let Some(ask) = words.as_ref().and_then(|words| core.memo.get(words)) {
        return Ok(ask.policy);
    }
    let (first, second) = (args.get(2).unwrap_or_default(), args.get(3).unwrap_or_default());
    let policy = parse_policy(&core.settings, algorithm, first, second)?;
    if let Some(words) = words {
        core.memo.put(words, policy);
    }
    Ok(policy)
}

/// The two numbers of an algorithm: limit and window, or capacity and rate.
pub fn parse_policy(settings: &Settings, algorithm: Algorithm, first: &[u8], second: &[u8]) -> Result<Policy, Failure> {
    let amount = |name| parse_amount(first).map_err(|error| Failure::Number(name, error));
    let window = || parse_window(second).map_err(|error| Failure::Number("window", error));
    let rate = || parse_rate(second).map_err(|error| Failure::Number("rate", error));
    Ok(match algorithm {
        Algorithm::Slide => Policy::Slide { limit: amount("limit")?, window: window()? },
        Algorithm::Fixed => Policy::Fixed { limit: amount("limit")?, window: window()? },
        Algorithm::Token => Policy::Token { capacity: amount("capacity")?, rate: rate()? },
        Algorithm::Leak => Policy::Leak { capacity: amount("capacity")?, rate: rate()? },
        Algorithm::Log => {
            let limit = amount("limit")?;
            if limit > settings.log_limit_max {
                let top = settings.log_limit_max;
                let text = format!("limit must be at most {top} for a sliding log, which keeps an entry for each call");
                return Err(Failure::Syntax(text));
            }
            Policy::Log { limit, window: window()? }
        }
    })
}
