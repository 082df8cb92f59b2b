//! One call on one limit: what is asked, what is answered, what changes.

use crate::{AMOUNT_MAX, Bucket, Fixed, Log, LogChange, Micros, NOW_MICROS_MAX, Policy, REPLY_MS_MAX, Slide};
use crate::{bucket, fixed, log, slide};

/// What a call wants done with its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Take the cost, all of it or nothing.
    Charge,
    /// Answer as [`Mode::Charge`] would, and change nothing.
    Peek,
    /// Take as much of the cost as there is.
    Partial,
    /// Give the cost back.
    Refund,
}

/// One call on one limit.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// The limit as this call names it.
    pub policy: Policy,
    /// Units, 0 to 10^12.
    pub cost: u64,
    /// What to do with them.
    pub mode: Mode,
}

/// How long until the same call would be admitted, if nobody else came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Retry {
    /// After so many milliseconds, rounded up, at most [`crate::REPLY_MS_MAX`]. (LEAK, admitted: the hold.)
    After(u64),
    /// Never: the cost is above the limit.
    Never,
}

/// The five integers of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Decision {
    /// 1 or 0; with PARTIAL the units granted; with REFUND the units given back.
    pub allowed: u64,
    /// The limit or capacity that was asked for.
    pub limit: u64,
    /// The largest cost that would be admitted now, after this call.
    pub remaining: u64,
    /// 0 if allowed, else the shortest wait.
    pub retry: Retry,
    /// Milliseconds until the limit is as if untouched, rounded up, at most [`crate::REPLY_MS_MAX`].
    pub reset_ms: u64,
}

/// What a key holds, as the store lends it for a decision.
#[derive(Clone, Copy, Debug)]
pub enum StateRef<'a> {
    /// Of a [`Policy::Slide`].
    Slide(Slide),
    /// Of a [`Policy::Token`].
    Token(Bucket),
    /// Of a [`Policy::Fixed`].
    Fixed(Fixed),
    /// Of a [`Policy::Log`].
    Log(&'a Log),
    /// Of a [`Policy::Leak`].
    Leak(Bucket),
}

/// Which policy the record is kept under after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Under {
    /// The policy of this call: it was admitted.
    Asked,
    /// The policy that was stored: units were given back.
    Stored,
}

/// What must be written after a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    Keep,
    /// The record is as if untouched: it goes.
    Remove,
    /// A SLIDE's new state.
    Slide(Under, Slide),
    /// A FIXED's new state.
    Fixed(Under, Fixed),
    /// A TOKEN's or LEAK's new state.
    Bucket(Under, Bucket),
    /// What to do to a LOG (on a missing key: to an empty [`Log`]).
    Log(Under, LogChange),
}

/// A decision and what it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The reply.
    pub decision: Decision,
    /// The write.
    pub change: Change,
}

/// Decides one call: `stored` is what the key holds and under which policy, `now` the time of the core that owns it.
///
/// A record that has outlived its time is treated as none. `None` if the stored record is of another algorithm than
/// the policy that is asked for: the caller answers WRONGTYPE and touches nothing.
#[inline]
pub fn decide(stored: Option<(&Policy, StateRef<'_>)>, ask: &Ask, now: Micros) -> Option<Outcome> {
    let now = now.min(NOW_MICROS_MAX);
    let call = Call { limit: ask.policy.limit().min(AMOUNT_MAX), cost: ask.cost, mode: ask.mode };
    let outcome = match (&ask.policy, stored) {
        (Policy::Slide { window, .. }, None) => slide::decide(None, *window, call, now),
        (Policy::Slide { window, .. }, Some((Policy::Slide { window: kept, .. }, StateRef::Slide(state)))) => {
            slide::decide(Some((*kept, state)), *window, call, now)
        }
        (Policy::Token { rate, .. }, None) => bucket::decide(None, rate, bucket::Kind::Token, call, now),
        (Policy::Token { rate, .. }, Some((Policy::Token { rate: kept, .. }, StateRef::Token(state)))) => {
            bucket::decide(Some((kept, state)), rate, bucket::Kind::Token, call, now)
        }
        (Policy::Fixed { window, .. }, None) => fixed::decide(None, *window, call, now),
        (Policy::Fixed { window, .. }, Some((Policy::Fixed { window: kept, .. }, StateRef::Fixed(state)))) => {
            fixed::decide(Some((*kept, state)), *window, call, now)
        }
        (Policy::Log { window, .. }, None) => log::decide(None, *window, call, now),
        (Policy::Log { window, .. }, Some((Policy::Log { window: kept, .. }, StateRef::Log(state)))) => {
            log::decide(Some((*kept, state)), *window, call, now)
        }
        (Policy::Leak { rate, .. }, None) => bucket::decide(None, rate, bucket::Kind::Leak, call, now),
        (Policy::Leak { rate, .. }, Some((Policy::Leak { rate: kept, .. }, StateRef::Leak(state)))) => {
            bucket::decide(Some((kept, state)), rate, bucket::Kind::Leak, call, now)
        }
        (_, Some(_)) => return None,
    };
    Some(outcome)
}

/// The first microsecond at which the record is as if untouched under its stored policy: the key exists while
/// `now` is less than this. `u64::MAX` means "beyond what can be counted"; [`reset_ms`] is exact there too.
///
/// 0 for a state that holds no use. A state of another algorithm than the policy never expires by itself.
#[inline]
pub fn expires_at(policy: &Policy, state: StateRef<'_>) -> Micros {
    match (policy, state) {
        (Policy::Slide { window, .. }, StateRef::Slide(slide)) => slide.expires_at(*window),
        (Policy::Fixed { window, .. }, StateRef::Fixed(fixed)) => fixed.expires_at(*window),
        (Policy::Log { window, .. }, StateRef::Log(log)) => log.expires_at(*window),
        (Policy::Token { rate, .. }, StateRef::Token(bucket)) | (Policy::Leak { rate, .. }, StateRef::Leak(bucket)) => {
            bucket.expires_at(rate)
        }
        _ => Micros::MAX,
    }
}

/// Milliseconds, rounded up, until the record is as if untouched under its stored policy: what PTTL answers.
///
/// At most [`REPLY_MS_MAX`]; 0 for a record that has expired or holds no use. A state of another algorithm than the
/// policy answers [`REPLY_MS_MAX`].
pub fn reset_ms(policy: &Policy, state: StateRef<'_>, now: Micros) -> u64 {
    look(policy, state, now).map_or(REPLY_MS_MAX, |decision| decision.reset_ms)
}

/// Units that are left now under the stored policy, 0 to its limit. A state of another algorithm answers 0.
pub fn remaining_now(policy: &Policy, state: StateRef<'_>, now: Micros) -> u64 {
    look(policy, state, now).map_or(0, |decision| decision.remaining)
}

/// What a free look under the stored policy answers.
fn look(policy: &Policy, state: StateRef<'_>, now: Micros) -> Option<Decision> {
    let ask = Ask { policy: *policy, cost: 0, mode: Mode::Peek };
    decide(Some((policy, state)), &ask, now).map(|outcome| outcome.decision)
}

/// A call without its algorithm: the part that every limit judges in the same way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    /// The limit or capacity asked for, at most [`AMOUNT_MAX`].
    pub limit: u64,
    /// Units asked for.
    pub cost: u64,
    /// What to do with them.
    pub mode: Mode,
}

/// What is to be done about a call, once it is known how many units are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// COST 0: answer this `allowed`, with no wait and no change.
    Free(u64),
    /// A PEEK that would be admitted.
    Peek,
    /// Charge so many units, at least one.
    Take(u64),
    /// Refuse; the wait is for so many units.
    Deny(u64),
    /// Give back at most so many units, at least one.
    GiveBack(u64),
}

impl Call {
    /// Judges the call against `used`, the least whole number of units such that `limit - used` is what is left.
    #[inline]
    pub(crate) fn judge(&self, used: u64) -> Verdict {
        let available = self.limit.saturating_sub(used);
        match self.mode {
            Mode::Charge | Mode::Peek if self.cost == 0 => Verdict::Free(1),
            Mode::Partial | Mode::Refund if self.cost == 0 => Verdict::Free(0),
            Mode::Refund => Verdict::GiveBack(self.cost),
            Mode::Partial if available == 0 => Verdict::Deny(1),
            Mode::Partial => Verdict::Take(self.cost.min(available)),
            Mode::Charge | Mode::Peek if self.cost > available => Verdict::Deny(self.cost),
            Mode::Charge => Verdict::Take(self.cost),
            Mode::Peek => Verdict::Peek,
        }
    }

    /// The answer to a call after which `used` units are in use and the limit is untouched in `reset_ms`.
    #[inline]
    pub(crate) fn answer(&self, allowed: u64, used: u64, retry: Retry, reset_ms: u64) -> Decision {
        Decision { allowed, limit: self.limit, remaining: self.limit.saturating_sub(used), retry, reset_ms }
    }

    /// What `allowed` says when `units` were charged.
    #[inline]
    pub(crate) fn allowed(&self, units: u64) -> u64 {
        if self.mode == Mode::Partial { units } else { 1 }
    }

    /// The answer to a refused call for `wanted` units; `wait_ms` is asked only if a wait can help.
    #[inline]
    pub(crate) fn refusal(&self, wanted: u64, used: u64, reset_ms: u64, wait_ms: impl FnOnce() -> u64) -> Outcome {
        let retry = if wanted > self.limit { Retry::Never } else { Retry::After(wait_ms()) };
        Outcome { decision: self.answer(0, used, retry, reset_ms), change: Change::Keep }
    }

    /// The answer to a call that changes nothing and is not refused.
    #[inline]
    pub(crate) fn keep(&self, allowed: u64, used: u64, retry_ms: u64, reset_ms: u64) -> Outcome {
        Outcome { decision: self.answer(allowed, used, Retry::After(retry_ms), reset_ms), change: Change::Keep }
    }
}

/// Milliseconds from `now` until `instant`, rounded up, as a reply states them; 0 if it has passed.
#[inline]
pub(crate) fn ms_until(instant: Micros, now: Micros) -> u64 {
    instant.saturating_sub(now).div_ceil(1_000).min(REPLY_MS_MAX)
}
