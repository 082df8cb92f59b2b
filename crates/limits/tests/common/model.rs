//! The limits once more, slowly: in rational numbers, one definition each, as the reference says them.
//!
//! A model knows two things about a record: whether a cost would fit at an instant, and whether there is any use left
//! at an instant. Use only ever falls by itself, so a reply's numbers are checked against these two by definition ("it
//! fits then, and a millisecond earlier it does not"), not by the formulas of the code under test.

use std::collections::BTreeMap;

use num_bigint::BigInt;
use num_rational::BigRational;
use tollgate_limits::{Ask, Micros, Mode, Policy, REPLY_MS_MAX, Rate, Window};

/// What a key holds, if anything.
#[derive(Clone, Debug, Default)]
pub struct Model {
    record: Option<Record>,
}

#[derive(Clone, Debug)]
struct Record {
    policy: Policy,
    uses: Uses,
}

#[derive(Clone, Debug)]
enum Uses {
    /// Units by index of window (SLIDE and FIXED).
    Windows(BTreeMap<u128, u64>),
    /// Every charge (LOG).
    Charges(Vec<(u128, u64)>),
    /// What is used at an instant (TOKEN and LEAK).
    Level { tokens: BigRational, at: u128 },
}

fn whole(value: impl Into<BigInt>) -> BigRational {
    BigRational::from_integer(value.into())
}

fn zero() -> BigRational {
    whole(0)
}

fn per_micro(rate: &Rate) -> BigRational {
    BigRational::new(rate.tokens().into(), rate.micros().into())
}

impl Record {
    fn untouched(policy: Policy) -> Record {
        let uses = match policy {
            Policy::Slide { .. } | Policy::Fixed { .. } => Uses::Windows(BTreeMap::new()),
            Policy::Log { .. } => Uses::Charges(Vec::new()),
            Policy::Token { .. } | Policy::Leak { .. } => Uses::Level { tokens: zero(), at: 0 },
        };
        Record { policy, uses }
    }

    /// The use at an instant, exactly: in estimated units, counted units, or tokens.
    fn used(&self, now: u128) -> BigRational {
        match (&self.policy, &self.uses) {
            (Policy::Slide { window, .. }, Uses::Windows(counts)) => {
                let width = u128::from(window.micros());
                let (index, elapsed) = (now / width, now % width);
                let count = |index: u128| whole(counts.get(&index).copied().unwrap_or(0));
                let fading = BigRational::new((width - elapsed).into(), width.into());
                let before = index.checked_sub(1).map_or(zero(), count);
                before * fading + count(index)
            }
            (Policy::Fixed { window, .. }, Uses::Windows(counts)) => {
                whole(counts.get(&(now / u128::from(window.micros()))).copied().unwrap_or(0))
            }
            (Policy::Log { window, .. }, Uses::Charges(charges)) => {
                let counting = |at: u128| at + u128::from(window.micros()) > now && at <= now;
                whole(charges.iter().filter(|(at, _)| counting(*at)).map(|(_, units)| *units).sum::<u64>())
            }
            (Policy::Token { rate, .. } | Policy::Leak { rate, .. }, Uses::Level { tokens, at }) => {
                let drained = per_micro(rate) * whole(now - at);
                (tokens - drained).max(zero())
            }
            _ => unreachable!("a record of one algorithm"),
        }
    }

    /// Whether nothing is left: use falls by itself and never rises, so that nothing will be.
    fn is_untouched(&self, now: u128) -> bool {
        self.used(now) == zero()
    }

    fn fits(&self, limit: u64, cost: u64, now: u128) -> bool {
        match self.policy {
            Policy::Slide { .. } => self.used(now).floor() + whole(cost) <= whole(limit),
            _ => self.used(now) + whole(cost) <= whole(limit),
        }
    }

    /// Charges under a policy that may have another limit, window or rate.
    fn charge(&mut self, policy: Policy, units: u64, now: u128) {
        let used = self.used(now);
        match (&mut self.uses, self.policy, policy) {
            (
                Uses::Windows(counts),
                Policy::Slide { window: kept, .. } | Policy::Fixed { window: kept, .. },
                Policy::Slide { window, .. } | Policy::Fixed { window, .. },
            ) => {
                let index = now / u128::from(window.micros());
                if kept != window {
                    let carried = u64::try_from(used.ceil().to_integer()).expect("small");
                    *counts = BTreeMap::from([(index, carried)]);
                }
                *counts.entry(index).or_insert(0) += units;
            }
            (Uses::Charges(charges), Policy::Log { window: kept, .. }, Policy::Log { window, .. }) => {
                let counts = |at: u128, window: Window| at + u128::from(window.micros()) > now;
                charges.retain(|(at, _)| counts(*at, kept) && counts(*at, window));
                charges.push((now, units));
            }
            (
                Uses::Level { tokens, at },
                Policy::Token { rate: kept, .. } | Policy::Leak { rate: kept, .. },
                Policy::Token { rate, .. } | Policy::Leak { rate, .. },
            ) => {
                let million = whole(1_000_000);
                let carried =
                    if per_micro(&kept) == per_micro(&rate) { used } else { (used * &million).ceil() / million };
                *tokens = carried + whole(units);
                *at = now;
            }
            _ => unreachable!("a record of one algorithm"),
        }
        self.policy = policy;
    }

    /// Gives units back and says how many.
    fn refund(&mut self, units: u64, now: u128) -> u64 {
        let used = self.used(now);
        match (&mut self.uses, self.policy) {
            (Uses::Windows(counts), Policy::Slide { window, .. } | Policy::Fixed { window, .. }) => {
                let index = now / u128::from(window.micros());
                let reach = if matches!(self.policy, Policy::Slide { .. }) { 2 } else { 1 };
                let mut left = units;
                for back in 0..reach {
                    if let Some(count) = index.checked_sub(back).and_then(|index| counts.get_mut(&index)) {
                        let taken = left.min(*count);
                        *count -= taken;
                        left -= taken;
                    }
                }
                units - left
            }
            (Uses::Charges(charges), Policy::Log { window, .. }) => {
                let mut left = units;
                for (at, count) in charges.iter_mut().rev() {
                    if *at + u128::from(window.micros()) > now {
                        let taken = left.min(*count);
                        *count -= taken;
                        left -= taken;
                    }
                }
                charges.retain(|(_, count)| *count > 0);
                units - left
            }
            (Uses::Level { tokens, at }, _) => {
                let left = (&used - whole(units)).max(zero());
                let given = (&used - &left).ceil().to_integer();
                *tokens = left;
                *at = now;
                u64::try_from(given).expect("at most the units")
            }
            _ => unreachable!("a record of one algorithm"),
        }
    }

    /// What a LEAK's admitted call waits, in milliseconds.
    fn hold_ms(&self, policy: &Policy, now: u128) -> i128 {
        let Policy::Leak { rate, .. } = policy else {
            return 0;
        };
        let ms = (self.used(now) / per_micro(rate) / whole(1_000)).ceil().to_integer();
        i128::try_from(ms).expect("small").min(i128::from(REPLY_MS_MAX))
    }
}

impl Model {
    pub fn new() -> Model {
        Model::default()
    }

    /// Whether the key exists.
    pub fn exists(&self, now: Micros) -> bool {
        self.record.as_ref().is_some_and(|record| !record.is_untouched(now.into()))
    }

    /// Makes the call, and says what is wrong with the reply `five` to it.
    pub fn check(&mut self, ask: &Ask, now: Micros, five: [i128; 5]) -> Result<(), String> {
        let instant = u128::from(now);
        if !self.exists(now) {
            self.record = None;
        }
        let mut record = self.record.clone().unwrap_or_else(|| Record::untouched(ask.policy));
        let limit = ask.policy.limit();
        let [allowed, shown_limit, remaining, retry, reset] = five;
        let expected = answer(&record, ask, instant);
        expect("allowed", allowed, expected.allowed)?;
        expect("limit", shown_limit, limit.into())?;
        check_retry(&record, ask, instant, expected, retry)?;
        if expected.charged > 0 {
            record.charge(ask.policy, expected.charged, instant);
            self.record = Some(record.clone());
        }
        if ask.mode == Mode::Refund {
            record.refund(ask.cost, instant);
            self.record = (!record.is_untouched(instant)).then(|| record.clone());
        }
        check_remaining(&record, limit, instant, remaining)?;
        check_wait("reset", reset, |ms| record.is_untouched(instant + 1_000 * ms))
    }
}

fn answer(record: &Record, ask: &Ask, now: u128) -> Expected {
    let limit = ask.policy.limit();
    let admitted = |allowed: u64, charged: u64, hold_ms: i128| Expected {
        allowed: allowed.into(),
        charged,
        refused: None,
        hold_ms,
    };
    let refused = |wanted: u64| Expected { allowed: 0, charged: 0, refused: Some(wanted), hold_ms: 0 };
    match ask.mode {
        Mode::Charge | Mode::Peek if ask.cost == 0 => admitted(1, 0, 0),
        Mode::Partial if ask.cost == 0 => admitted(0, 0, 0),
        Mode::Refund => admitted(record.clone().refund(ask.cost, now), 0, 0),
        Mode::Charge | Mode::Peek if !record.fits(limit, ask.cost, now) => refused(ask.cost),
        Mode::Charge => admitted(1, ask.cost, record.hold_ms(&ask.policy, now)),
        Mode::Peek => admitted(1, 0, record.hold_ms(&ask.policy, now)),
        Mode::Partial => match largest_fit(record, limit, now).min(ask.cost) {
            0 => refused(1),
            granted => admitted(granted, granted, record.hold_ms(&ask.policy, now)),
        },
    }
}

#[derive(Clone, Copy)]
struct Expected {
    allowed: i128,
    charged: u64,
    refused: Option<u64>,
    hold_ms: i128,
}

fn expect(what: &str, shown: i128, expected: i128) -> Result<(), String> {
    if shown == expected { Ok(()) } else { Err(format!("{what} is {shown}, should be {expected}")) }
}

fn largest_fit(record: &Record, limit: u64, now: u128) -> u64 {
    let (mut low, mut high) = (0, limit);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if record.fits(limit, middle, now) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

fn check_retry(record: &Record, ask: &Ask, now: u128, expected: Expected, retry: i128) -> Result<(), String> {
    let Some(wanted) = expected.refused else {
        return expect("retry", retry, expected.hold_ms);
    };
    let limit = ask.policy.limit();
    if wanted > limit {
        return expect("retry", retry, -1);
    }
    if retry < 1 {
        return Err(format!("retry is {retry} though the call was refused"));
    }
    check_wait("retry", retry, |ms| record.fits(limit, wanted, now + 1_000 * ms))
}

fn check_remaining(record: &Record, limit: u64, now: u128, remaining: i128) -> Result<(), String> {
    let shown = u64::try_from(remaining).map_err(|_| format!("remaining is {remaining}"))?;
    if shown > 0 && !record.fits(limit, shown, now) {
        return Err(format!("remaining is {shown}, which does not fit"));
    }
    if record.fits(limit, shown + 1, now) {
        return Err(format!("remaining is {shown}, but one more fits"));
    }
    Ok(())
}

/// `shown` is the least number of milliseconds after which `reached` holds, or the largest that is ever shown.
fn check_wait(what: &str, shown: i128, reached: impl Fn(u128) -> bool) -> Result<(), String> {
    let ms = u128::try_from(shown).map_err(|_| format!("{what} is {shown}"))?;
    if ms < u128::from(REPLY_MS_MAX) && !reached(ms) {
        return Err(format!("{what} is {ms} ms, which is too early"));
    }
    if ms > 0 && reached(ms - 1) {
        return Err(format!("{what} is {ms} ms, but one less would do"));
    }
    Ok(())
}
