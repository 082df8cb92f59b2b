//! SLIDE: a window that slides, estimated from two aligned ones.
//!
//! The problem: an exact sliding window needs a time for every unit, and a fixed window lets twice its limit through
//! around its edge. The idea: keep the count of the current aligned window and of the one before, and let the older
//! one fade in a straight line while the current one passes.
//!
//! ```text
//!            window i-1            window i
//!        |----- prev ------|--------- cur -----
//!              |<========== w ==========>|
//!              ^                   ^     ^ now = i*w + e
//!              the part of prev that still counts: (w - e) / w
//! ```
//!
//! The estimate `cur + prev * (w - e) / w` never rises by itself: it falls within a window and is the same on both
//! sides of an edge. So the first instant at which a call fits can be computed, and no later one is worse.

use crate::ask::{Call, Change, Decision, Outcome, Retry, Under, Verdict, ms_until};
use crate::{AMOUNT_MAX, Micros, NOW_MICROS_MAX, Window};

const INDEX_BITS: u32 = 48;
const COUNT_BITS: u32 = 40;
const INDEX_MAX: u64 = (1 << INDEX_BITS) - 1;
const COUNT_MAX: u64 = (1 << COUNT_BITS) - 1;
/// The bits of `prev` that lie in the second word of the packed form, above `cur`.
const PREV_LOW_BITS: u32 = 64 - COUNT_BITS;
/// The bits of `prev` that lie in the first word, below the index.
const PREV_HIGH_BITS: u32 = COUNT_BITS - PREV_LOW_BITS;

/// A SLIDE's state: which window it is in, and the units of that window and of the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slide {
    /// The window's index, its start divided by its length: less than 2^48.
    pub index: u64,
    /// Units in window `index`: less than 2^40.
    pub cur: u64,
    /// Units in window `index - 1`: less than 2^40.
    pub prev: u64,
}

impl Slide {
    /// The state in 128 bits: 48 for the index and 40 for each count. A larger value is kept as the largest.
    #[inline]
    pub fn pack(self) -> [u64; 2] {
        let (index, cur, prev) = (self.index.min(INDEX_MAX), self.cur.min(COUNT_MAX), self.prev.min(COUNT_MAX));
        let first = index << PREV_HIGH_BITS | prev >> PREV_LOW_BITS;
        let second = (prev & ((1 << PREV_LOW_BITS) - 1)) << COUNT_BITS | cur;
        [first, second]
    }

    /// The state that [`Slide::pack`] wrote. Any two words are a state.
    #[inline]
    pub fn unpack(words: [u64; 2]) -> Slide {
        let [first, second] = words;
        let prev_high = first & ((1 << PREV_HIGH_BITS) - 1);
        Slide {
            index: first >> PREV_HIGH_BITS,
            cur: second & COUNT_MAX,
            prev: prev_high << PREV_LOW_BITS | second >> COUNT_BITS,
        }
    }

    /// The first microsecond at which the estimate is zero, `u64::MAX` if beyond; 0 if there is no use at all.
    #[inline]
    pub(crate) fn expires_at(self, window: Window) -> Micros {
        let windows = match (self.cur, self.prev) {
            (0, 0) => return 0,
            (0, _) => 1,
            _ => 2,
        };
        self.index.saturating_add(windows).saturating_mul(window.micros())
    }

    /// Takes back `units` that were charged at `at` in windows of this length, where they still lie.
    pub(crate) fn take_off(self, window: Window, at: Micros, units: u64) -> Slide {
        let charged_index = at / window.micros();
        if charged_index == self.index {
            return Slide { cur: self.cur.saturating_sub(units), ..self };
        }
        if charged_index.checked_add(1) == Some(self.index) {
            return Slide { prev: self.prev.saturating_sub(units), ..self };
        }
        self
    }
}

/// Decides one call on `stored` (its window and state), as asked under `window`.
#[inline]
pub(crate) fn decide(stored: Option<(Window, Slide)>, window: Window, call: Call, now: Micros) -> Outcome {
    let view = match stored {
        Some((kept, state)) => View::of(state, kept.micros(), now),
        None => View::untouched(window.micros(), now),
    };
    let used = view.estimate_floor();
    match call.judge(used) {
        Verdict::Free(allowed) => call.keep(allowed, used, 0, view.reset_ms(now)),
        Verdict::Peek => call.keep(1, used, 0, view.reset_ms(now)),
        Verdict::Take(units) if view.window == window.micros() => admit(view, call, used, units, now),
        Verdict::Take(units) => admit_changed(&view, window.micros(), call, units, now),
        Verdict::Deny(wanted) => {
            let wait_ms = || ms_until(view.first_instant_with_room(call.limit - wanted), now);
            call.refusal(wanted, used, view.reset_ms(now), wait_ms)
        }
        Verdict::GiveBack(units) => give_back(view, call, units, now),
    }
}

/// Charges the SLIDE that `words` pack, in place: the answer that [`crate::decide`] gives to a call in
/// [`crate::Mode::Charge`] on a record that is kept under this very limit and window. It is always admitted at once.
///
/// `None`, and nothing changed, for what is not common: a call that is refused or free, a record that has outlived its
/// time, one whose window has not begun or holds no use. [`crate::decide`] is for those.
#[inline(always)]
pub fn charge_slide(words: &mut [u64; 2], limit: u64, window: Window, cost: u64, now: Micros) -> Option<Decision> {
    if cost == 0 || limit > AMOUNT_MAX || now > NOW_MICROS_MAX {
        return None;
    }
    let window = window.micros();
    let Slide { index, cur, prev } = Slide::unpack(*words);
    let elapsed = now.checked_sub(index.checked_mul(window)?)?;
    if cur == 0 {
        return None;
    }
    let left = match window.checked_sub(elapsed) {
        Some(left) if left > 0 => left,
        _ => return charge_next_window(words, limit, window, cost, elapsed),
    };
    let fading = if prev == 0 { 0 } else { multiply_divide(prev, left, window) };
    let remaining = limit.checked_sub(cur + fading)?.checked_sub(cost)?;
    // What is admitted fits the limit and so the bits of `cur`: nothing is carried into those of `prev`.
    words[1] = words[1].wrapping_add(cost);
    Some(admitted_with(limit, remaining, left + window))
}

/// The same where `elapsed` is the time since the begin of the kept window, and that one is over.
#[inline(never)]
fn charge_next_window(words: &mut [u64; 2], limit: u64, window: u64, cost: u64, elapsed: u64) -> Option<Decision> {
    let Slide { index, cur, .. } = Slide::unpack(*words);
    let left = (2 * window).checked_sub(elapsed).filter(|left| *left > 0)?;
    let remaining = limit.checked_sub(multiply_divide(cur, left, window))?.checked_sub(cost)?;
    *words = Slide { index: index + 1, cur: cost, prev: cur }.pack();
    Some(admitted_with(limit, remaining, left + window))
}

/// `reset` is in microseconds, at least one and less than two windows, which is far below what a reply can state.
#[inline(always)]
fn admitted_with(limit: u64, remaining: u64, reset: u64) -> Decision {
    Decision { allowed: 1, limit, remaining, retry: Retry::After(0), reset_ms: 1 + (reset - 1) / 1_000 }
}

/// Charges `units` in the window that the record is kept in already.
#[inline]
fn admit(view: View, call: Call, used: u64, units: u64, now: Micros) -> Outcome {
    let charged = View { cur: view.cur + units, ..view };
    // A whole number more in the current window is exactly that much more in the estimate.
    let decision = call.answer(call.allowed(units), used + units, Retry::After(0), charged.reset_ms(now));
    Outcome { decision, change: Change::Slide(Under::Asked, charged.state()) }
}

/// Charges `units` under another window: what counted is taken over, rounded up, as use of the new current window.
fn admit_changed(view: &View, window: u64, call: Call, units: u64, now: Micros) -> Outcome {
    let moved = View { cur: view.estimate_ceil() + units, ..View::untouched(window, now) };
    let decision = call.answer(call.allowed(units), moved.cur, Retry::After(0), moved.reset_ms(now));
    Outcome { decision, change: Change::Slide(Under::Asked, moved.state()) }
}

/// Gives back at most `units`: first those of the current window, then those of the one before.
fn give_back(view: View, call: Call, units: u64, now: Micros) -> Outcome {
    let from_cur = units.min(view.cur);
    let from_prev = (units - from_cur).min(view.prev);
    let left = View { cur: view.cur - from_cur, prev: view.prev - from_prev, ..view };
    let given = from_cur.saturating_add(from_prev);
    let mut outcome = call.keep(given, left.estimate_floor(), 0, left.reset_ms(now));
    if given > 0 {
        let state = left.state();
        let untouched = state.cur == 0 && state.prev == 0;
        outcome.change = if untouched { Change::Remove } else { Change::Slide(Under::Stored, state) };
    }
    outcome
}

/// A state as it stands at one instant: in the window of that instant, with the time that has passed of it.
#[derive(Clone, Copy)]
struct View {
    window: u64,
    index: u64,
    start: Micros,
    elapsed: u64,
    cur: u64,
    prev: u64,
}

impl View {
    #[inline]
    fn of(state: Slide, window: u64, now: Micros) -> View {
        let Slide { index, cur, prev } = state;
        let start = index.saturating_mul(window);
        // A window that has not begun (from another timeline, or damaged) counts as if it began now: over-stated.
        let since = now.saturating_sub(start);
        if since < window {
            return View { window, index, start, elapsed: since, cur, prev };
        }
        if since - window < window {
            let (next, next_start) = (index + 1, start + window);
            return View { window, index: next, start: next_start, elapsed: since - window, cur: 0, prev: cur };
        }
        View::untouched(window, now)
    }

    #[inline]
    fn untouched(window: u64, now: Micros) -> View {
        let index = now / window;
        let start = index * window;
        View { window, index, start, elapsed: now - start, cur: 0, prev: 0 }
    }

    #[inline]
    fn state(&self) -> Slide {
        Slide { index: self.index, cur: self.cur, prev: self.prev }
    }

    #[inline]
    fn estimate_floor(&self) -> u64 {
        let fading = multiply_divide(self.prev, self.window - self.elapsed, self.window);
        self.cur.saturating_add(fading)
    }

    fn estimate_ceil(&self) -> u64 {
        let fading = multiply_divide_up(self.prev, self.window - self.elapsed, self.window);
        self.cur.saturating_add(fading)
    }

    #[inline]
    fn reset_ms(&self, now: Micros) -> u64 {
        let windows = match (self.cur, self.prev) {
            (0, 0) => return 0,
            (0, _) => self.window,
            _ => 2 * self.window,
        };
        ms_until(self.start.saturating_add(windows), now)
    }

    /// The first instant at which the whole part of the estimate is at most `room`. Now it is more.
    fn first_instant_with_room(&self, room: u64) -> Micros {
        // Where the current window alone is too much, the call can only fit while that one fades in the next.
        let (start, steady, fading) = if self.cur <= room {
            (self.start, self.cur, self.prev)
        } else {
            (self.start.saturating_add(self.window), 0, self.cur)
        };
        // fading * left / window < room + 1 - steady, where `left` is what is left of the window: the largest such.
        let below = room - steady + 1;
        let left = multiply_divide_up(below, self.window, fading.max(1)) - 1;
        start.saturating_add(self.window.saturating_sub(left))
    }
}

/// `a * b / divisor`, rounded down. The product rarely needs more than 64 bits, and a 128-bit division costs several
/// times as much.
#[inline]
fn multiply_divide(a: u64, b: u64, divisor: u64) -> u64 {
    match a.checked_mul(b) {
        Some(0) => 0,
        Some(product) => product / divisor,
        None => saturate(u128::from(a) * u128::from(b) / u128::from(divisor)),
    }
}

/// `a * b / divisor`, rounded up.
fn multiply_divide_up(a: u64, b: u64, divisor: u64) -> u64 {
    match a.checked_mul(b) {
        Some(product) => product.div_ceil(divisor),
        None => saturate((u128::from(a) * u128::from(b)).div_ceil(u128::from(divisor))),
    }
}

fn saturate(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}
