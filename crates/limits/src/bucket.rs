//! TOKEN and LEAK: use that drains at a rate.
//!
//! The problem: a bucket that stores tokens and a last time must round at every touch, and what is rounded away by a
//! million touches is a leak or a gift. The idea: store *the instant at which use is back to zero*, exactly. It moves
//! only when somebody is charged; time passing does not touch it, and a full bucket is no record at all.
//!
//! With a rate of N tokens per D microseconds (lowest terms), use is counted in **ticks**:
//!
//! ```text
//!   a token is          10^6 * D ticks        so whatever the rate, a millionth of a token (the unit to which use
//!   a microsecond is    10^6 * N ticks        is rounded when the rate changes) is a whole number of ticks, D
//!
//!   use(now) = (when - now) * 10^6 * N + part      `part` is the fraction of a microsecond, in ticks
//! ```
//!
//! Everything is then whole. Usual numbers fit 64 bits; the same code runs with 128 where they do not, and with 256
//! for a capacity of 10^12 at a rate of seventeen digits.

use std::ops::{Add, Div, Mul, Rem, Sub};

use ethnum::U256;

use crate::ask::{Call, Change, Outcome, Retry, Under, Verdict};
use crate::{Micros, REPLY_MS_MAX, Rate};

/// Parts of a token that are told apart when the rate changes.
const MILLION: u64 = 1_000_000;

/// A TOKEN's or LEAK's state: the exact instant at which use is back to zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Whole microseconds since the epoch.
    when: u128,
    /// What is left of the last microsecond, in ticks of `1 / (10^6 * rate.tokens())` microseconds.
    part: u128,
}

impl Bucket {
    /// The state in two words, `None` if it needs [`Bucket::pack_wide`].
    #[inline]
    pub fn pack(self) -> Option<[u64; 2]> {
        Some([u64::try_from(self.when).ok()?, u64::try_from(self.part).ok()?])
    }

    /// The state that [`Bucket::pack`] wrote. Any two words are a state.
    #[inline]
    pub fn unpack(words: [u64; 2]) -> Bucket {
        let [when, part] = words;
        Bucket { when: u128::from(when), part: u128::from(part) }
    }

    /// The state in four words.
    pub fn pack_wide(self) -> [u64; 4] {
        let ([when_low, when_high], [part_low, part_high]) = (halves(self.when), halves(self.part));
        [when_low, when_high, part_low, part_high]
    }

    /// The state that [`Bucket::pack_wide`] wrote. Any four words are a state.
    pub fn unpack_wide(words: [u64; 4]) -> Bucket {
        let [when_low, when_high, part_low, part_high] = words;
        let joined = |low: u64, high: u64| u128::from(high) << 64 | u128::from(low);
        Bucket { when: joined(when_low, when_high), part: joined(part_low, part_high) }
    }

    /// Whether calls at this rate can lead to the state: what is left of the last microsecond is less than one.
    pub fn is_of(self, rate: &Rate) -> bool {
        self.part < u128::from(MILLION) * u128::from(rate.tokens())
    }

    /// The first microsecond at which use is zero, `u64::MAX` if beyond.
    #[inline]
    pub(crate) fn expires_at(self, rate: &Rate) -> Micros {
        let ticks_per_micro = u128::from(MILLION) * u128::from(rate.tokens());
        // A part is less than a microsecond, unless it comes from a damaged record.
        let part_micros = match self.part {
            0 => 0,
            part if part <= ticks_per_micro => 1,
            part => part.div_ceil(ticks_per_micro),
        };
        u64::try_from(self.when.saturating_add(part_micros)).unwrap_or(u64::MAX)
    }
}

fn halves(value: u128) -> [u64; 2] {
    let half = |bits: u128| u64::try_from(bits & u128::from(u64::MAX)).unwrap_or(u64::MAX);
    [half(value), half(value >> 64)]
}

/// The two readings of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An admitted call goes on at once.
    Token,
    /// An admitted call is held until what came before it has drained.
    Leak,
}

/// Decides one call on `stored` (its rate and state), as asked at `rate`.
#[inline]
pub(crate) fn decide(stored: Option<(&Rate, Bucket)>, rate: &Rate, kind: Kind, call: Call, now: Micros) -> Outcome {
    let untouched = Bucket { when: 0, part: 0 };
    let (kept_rate, bucket) = stored.unwrap_or((rate, untouched));
    let question = Question { bucket, kept_rate, rate, kind, call, now };
    if let Some(outcome) = question.decide_in::<u64>() {
        return outcome;
    }
    question.decide_in_wider()
}

struct Question<'a> {
    bucket: Bucket,
    kept_rate: &'a Rate,
    rate: &'a Rate,
    kind: Kind,
    call: Call,
    now: Micros,
}

impl Question<'_> {
    #[cold]
    #[inline(never)]
    fn decide_in_wider(&self) -> Outcome {
        let outcome = self.decide_in::<u128>().or_else(|| self.decide_in::<U256>());
        // Two hundred and fifty-six bits hold whatever a bucket and a rate can: when, part and D are below 2^128, 2^128
        // and 2^109. Were it not so, the bucket would count as full for ever.
        outcome.unwrap_or_else(|| self.call.refusal(self.call.cost, self.call.limit, REPLY_MS_MAX, || REPLY_MS_MAX))
    }

    /// The decision in numbers of type `T`, `None` if one of them may not fit.
    #[inline]
    fn decide_in<T: Ticks>(&self) -> Option<Outcome> {
        let call = &self.call;
        let scale = Scale::<T>::new(self.kept_rate, call.limit)?;
        let level = scale.level(self.bucket, self.now)?;
        let used = scale.tokens_up(level);
        let outcome = match call.judge(used) {
            Verdict::Free(allowed) => call.keep(allowed, used, 0, scale.drain_ms(level)),
            Verdict::Peek => call.keep(1, used, self.hold_ms(&scale, level), scale.drain_ms(level)),
            Verdict::Deny(wanted) => call.refusal(wanted, used, scale.drain_ms(level), || {
                scale.drain_ms(level - scale.ticks(call.limit - wanted))
            }),
            Verdict::Take(units) => self.admit(&scale, level, used, units)?,
            Verdict::GiveBack(units) => self.give_back(&scale, level, used, units),
        };
        Some(outcome)
    }

    #[inline]
    fn admit<T: Ticks>(&self, scale: &Scale<T>, level: T, used: u64, units: u64) -> Option<Outcome> {
        let (bucket, used_after, reset_ms) = if self.kept_rate == self.rate {
            let charged = level + scale.ticks(units);
            let (bucket, reset_ms) = scale.bucket(charged, self.now);
            // What was used is rounded up to whole tokens, and whole tokens are added.
            (bucket, used + units, reset_ms)
        } else {
            let asked = Scale::<T>::new(self.rate, self.call.limit)?;
            let charged = asked.of_millionths(scale.millionths_up(level)) + asked.ticks(units);
            let (bucket, reset_ms) = asked.bucket(charged, self.now);
            (bucket, asked.tokens_up(charged), reset_ms)
        };
        let retry = Retry::After(self.hold_ms(scale, level));
        let decision = self.call.answer(self.call.allowed(units), used_after, retry, reset_ms);
        Some(Outcome { decision, change: Change::Bucket(Under::Asked, bucket) })
    }

    #[inline]
    fn give_back<T: Ticks>(&self, scale: &Scale<T>, level: T, used: u64, units: u64) -> Outcome {
        let call = &self.call;
        if units >= used {
            let change = if level == T::ZERO { Change::Keep } else { Change::Remove };
            return Outcome { change, ..call.keep(used, 0, 0, 0) };
        }
        // Less than the whole use, so the product fits where the use did.
        let left = level - scale.ticks(units);
        let (bucket, reset_ms) = scale.bucket(left, self.now);
        Outcome { change: Change::Bucket(Under::Stored, bucket), ..call.keep(units, used - units, 0, reset_ms) }
    }

    /// How long an admitted call waits for its turn: until what was there before it has left at the rate it asks for.
    #[inline]
    fn hold_ms<T: Ticks>(&self, scale: &Scale<T>, level: T) -> u64 {
        match self.kind {
            Kind::Token => 0,
            Kind::Leak if self.kept_rate == self.rate => scale.drain_ms(level),
            Kind::Leak => hold_ms_at(self.kept_rate, level.wide(), self.rate),
        }
    }
}

/// Milliseconds, rounded up, in which a `level` counted at one rate drains at another.
fn hold_ms_at(kept_rate: &Rate, level: U256, rate: &Rate) -> u64 {
    let ticks_per_token = U256::from(MILLION) * U256::from(kept_rate.micros());
    let (tokens, micros) = (U256::from(rate.tokens()), U256::from(rate.micros()));
    // level / ticks_per_token tokens, each micros / tokens microseconds. Two rates beyond what can be written in
    // eighteen digits could pass 256 bits: then the level is first rounded up to whole tokens.
    let waited = match level.checked_mul(micros) {
        Some(product) => divide_up(product, ticks_per_token * tokens),
        None => divide_up(level, ticks_per_token).checked_mul(micros).map_or(U256::MAX, |all| divide_up(all, tokens)),
    };
    ms_up(waited)
}

/// Takes `units` that were charged at `charged_at` and `charged_rate` off a bucket that was touched since, but only as
/// much as cannot have drained meanwhile. `None` if that is nothing.
pub(crate) fn take_off(bucket: Bucket, rate: &Rate, charge: Charged<'_>, now: Micros) -> Option<Change> {
    // Here `full` is what was charged.
    let scale = Scale::<U256>::new(rate, charge.units)?;
    let level = scale.level(bucket, now)?;
    let elapsed = U256::from(now.saturating_sub(charge.at));
    let drained_at_kept = elapsed.checked_mul(scale.per_micro)?;
    // The record may have drained at the charge's own rate for part of the time: the faster of the two is certain.
    let drained_at_charged = elapsed
        .checked_mul(U256::from(MILLION) * U256::from(charge.rate.tokens()))?
        .checked_mul(U256::from(rate.micros()))
        .map(|ticks| divide_up(ticks, U256::from(charge.rate.micros())))?;
    let drained = drained_at_kept.max(drained_at_charged);
    let certain = scale.full.checked_sub(drained).filter(|ticks| *ticks > U256::ZERO)?;
    if level == U256::ZERO {
        return None;
    }
    match level.checked_sub(certain) {
        Some(left) if left > U256::ZERO => Some(Change::Bucket(Under::Stored, scale.bucket(left, now).0)),
        _ => Some(Change::Remove),
    }
}

/// A charge on a bucket, as [`take_off`] needs it.
#[derive(Clone, Copy)]
pub(crate) struct Charged<'a> {
    /// The rate it was charged at.
    pub rate: &'a Rate,
    /// Units charged.
    pub units: u64,
    /// When.
    pub at: Micros,
}

/// A rate in ticks, made only if what is to be counted fits the type.
struct Scale<T> {
    per_token: T,
    per_micro: T,
    per_millionth: T,
    /// The ticks of as many tokens as were promised to [`Scale::new`].
    full: T,
}

impl<T: Ticks> Scale<T> {
    /// `None` if so many tokens do not fit.
    #[inline]
    fn new(rate: &Rate, tokens: u64) -> Option<Scale<T>> {
        let million = T::of(MILLION);
        let per_millionth = T::narrow(rate.micros())?;
        let per_token = per_millionth.checked_mul(million)?;
        let per_micro = T::of(rate.tokens()).checked_mul(million)?;
        let full = per_token.checked_mul(T::of(tokens))?;
        Some(Scale { per_token, per_micro, per_millionth, full })
    }

    /// What is used at `now`. `None` if it does not fit.
    #[inline]
    fn level(&self, bucket: Bucket, now: Micros) -> Option<T> {
        let part = T::narrow(bucket.part)?;
        match bucket.when.checked_sub(u128::from(now)) {
            Some(micros) => T::narrow(micros)?.checked_mul(self.per_micro)?.checked_add(part),
            // A part that is a microsecond or more cannot come from here; it counts for what it says.
            None if part >= self.per_micro => {
                let passed = T::narrow(u128::from(now) - bucket.when)?.checked_mul(self.per_micro)?;
                Some(if passed < part { part - passed } else { T::ZERO })
            }
            None => Some(T::ZERO),
        }
    }

    /// So many tokens in ticks. The caller knows that they are at most the limit or the use, which fit.
    #[inline]
    fn ticks(&self, tokens: u64) -> T {
        T::of(tokens) * self.per_token
    }

    /// So many millionths of a token in ticks. The caller knows that they are at most the limit.
    #[inline]
    fn of_millionths(&self, millionths: T) -> T {
        millionths * self.per_millionth
    }

    #[inline]
    fn tokens_up(&self, ticks: T) -> u64 {
        u64::try_from(divide_up(ticks, self.per_token).saturate()).unwrap_or(u64::MAX)
    }

    #[inline]
    fn millionths_up(&self, ticks: T) -> T {
        divide_up(ticks, self.per_millionth)
    }

    /// Milliseconds, rounded up, in which so much drains.
    #[inline]
    fn drain_ms(&self, ticks: T) -> u64 {
        ms_up(divide_up(ticks, self.per_micro))
    }

    /// The state in which so much is used at `now`, and in how many milliseconds (rounded up) that has drained.
    #[inline]
    fn bucket(&self, ticks: T, now: Micros) -> (Bucket, u64) {
        let (whole, part) = (ticks / self.per_micro, ticks % self.per_micro);
        let bucket = Bucket { when: whole.saturate().saturating_add(u128::from(now)), part: part.saturate() };
        let begun = if part == T::ZERO { T::ZERO } else { T::of(1) };
        (bucket, ms_up(whole + begun))
    }
}

/// The whole numbers that a decision can be made in.
trait Ticks:
    Copy + Ord + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Div<Output = Self> + Rem<Output = Self>
{
    const ZERO: Self;
    fn of(value: u64) -> Self;
    fn narrow(value: u128) -> Option<Self>;
    fn wide(self) -> U256;
    /// The value, or the largest `u128` if it is larger.
    fn saturate(self) -> u128;
    fn checked_mul(self, other: Self) -> Option<Self>;
    fn checked_add(self, other: Self) -> Option<Self>;
}

macro_rules! ticks {
    ($number:ty, $zero:expr) => {
        impl Ticks for $number {
            const ZERO: Self = $zero;
            #[inline]
            fn of(value: u64) -> Self {
                Self::from(value)
            }
            #[inline]
            fn narrow(value: u128) -> Option<Self> {
                Self::try_from(value).ok()
            }
            #[inline]
            fn wide(self) -> U256 {
                U256::from(self)
            }
            #[inline]
            fn saturate(self) -> u128 {
                u128::try_from(self).unwrap_or(u128::MAX)
            }
            #[inline]
            fn checked_mul(self, other: Self) -> Option<Self> {
                self.checked_mul(other)
            }
            #[inline]
            fn checked_add(self, other: Self) -> Option<Self> {
                self.checked_add(other)
            }
        }
    };
}

ticks!(u64, 0);
ticks!(u128, 0);
ticks!(U256, U256::ZERO);

#[inline]
fn divide_up<T: Ticks>(value: T, divisor: T) -> T {
    let whole = value / divisor;
    if whole * divisor == value { whole } else { whole + T::of(1) }
}

/// Microseconds as a reply states them: milliseconds, rounded up, at most [`REPLY_MS_MAX`].
#[inline]
fn ms_up<T: Ticks>(micros: T) -> u64 {
    let micros = micros.saturate();
    match u64::try_from(micros) {
        Ok(fits) => fits.div_ceil(1_000).min(REPLY_MS_MAX),
        Err(_) => u64::try_from(micros.div_ceil(1_000)).unwrap_or(u64::MAX).min(REPLY_MS_MAX),
    }
}
