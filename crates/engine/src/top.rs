//! Which keys are busiest: counted at every call, so that whoever asks is answered at once about the minute that was.
//!
//! The problem: a node with millions of keys is in trouble because of a few, and nobody switches a profiler on before
//! the trouble. Counting each call in a sketch ([`sketch::Sketch`]) would cost a tenth of a pipelined call. The idea:
//! count a sample. One call of each stretch of `stride` calls is taken, at a random place, and counted `stride` times;
//! so every call has the same chance, whatever pattern the calls follow, and no sum is biased. The stride follows the
//! load: the first calls of an epoch are all counted, so that a quiet node answers exactly; after that one in two where
//! calls come singly, as each costs thousands of instructions in sockets, and one in eight in a pipeline.
//!
//! Time is cut into epochs of [`EPOCH_MICROS`], aligned to the core's clock. The answer covers the present one and the
//! one before: the last 60 to 120 seconds.
//!
//! **What is answered:** `count` and `error`, and the true number of calls lies within `count` plus or minus `error`:
//! surely, as far as the sketch goes; with a confidence of at least 99 % for each key, as far as sampling does.
//!
//! **Memory:** at most 6,144 counters of 40 bytes a core, and the bytes of as many keys: half a megabyte with keys of
//! 40 bytes, 6.6 MB if all busy keys have the longest name. Nothing is taken before the first call.

mod sketch;

use sketch::{Sighting, Sketch};
use tollgate_limits::Micros;
use tollgate_store::Located;

/// The length of an epoch.
pub const EPOCH_MICROS: Micros = 60_000_000;
/// The longest stretch of which one call is counted.
const STRIDE_MAX: u32 = 8;
/// So many calls of an epoch are all counted: where there are few, samples would say little and save nothing.
const EXACT_CALLS: u64 = 16_384;
/// Sets of four counters, for an epoch of all calls.
const CHECKED_SETS: usize = 512;
/// The same for denied calls: a key that is denied often is not one of very many.
const DENIED_SETS: usize = 256;
/// Standard deviations of sampling that an error states: 99.7 % where there is something to count.
const DEVIATIONS: u64 = 3;

/// Which calls a question is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Those that were denied.
    Denied,
    /// All that asked to be admitted.
    Checked,
}

/// A busy key. Its true number of calls lies within `count` plus or minus `error`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Calls, as well as is known.
    pub count: u64,
    /// By how much the true number can be above or below, with a confidence of 99 %.
    pub error: u64,
}

/// What an answer covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coverage {
    /// The time from which on calls were counted: the begin of the epoch before this one, or the core's first call.
    pub since: Micros,
    /// The calls that were counted since.
    pub calls: u64,
    /// A key that is not known was called at most so many times, with a confidence of 99 %.
    pub missed_at_most: u64,
}

/// One epoch's totals.
#[derive(Clone, Copy, Debug, Default)]
struct Epoch {
    number: u64,
    checked: u64,
    denied: u64,
    stride_max: u32,
}

/// The busiest keys of one core.
#[derive(Debug)]
pub struct TopKeys {
    is_on: bool,
    /// Calls to pass over before the next one is counted.
    countdown: u32,
    /// Calls that are left of the stretch behind the one that is counted next.
    rest: u32,
    /// What the countdown stands at while the call that was counted last is running.
    watched: u32,
    stride: u32,
    /// What the call that was counted last counts for.
    weight: u64,
    random: u64,
    /// The end of the present epoch.
    turns_at: Micros,
    since: Option<Micros>,
    present: Epoch,
    before: Epoch,
    checked: Sketch,
    denied: Sketch,
}

impl TopKeys {
    /// Knows no key yet. Where `is_on` is false it never will. The same seed and calls count the same.
    pub fn new(is_on: bool, seed: u64) -> TopKeys {
        TopKeys {
            is_on,
            countdown: 0,
            rest: 0,
            watched: 0,
            stride: 1,
            weight: 1,
            // The generator must not stand at 0, where it stays, nor begin with many bits of 0.
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 << 63 | 1,
            turns_at: 0,
            since: None,
            present: Epoch::default(),
            before: Epoch::default(),
            checked: Sketch::new(CHECKED_SETS),
            denied: Sketch::new(DENIED_SETS),
        }
    }

    /// Whether keys are counted at all.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Says that a batch of so many commands begins. Never said, each call is counted.
    #[inline]
    pub fn begin_batch(&mut self, commands: usize, now: Micros) {
        if now >= self.turns_at {
            self.turn(now);
        }
        let stride = match commands {
            _ if self.present.checked < EXACT_CALLS => 1,
            0 | 1 => 2,
            2 => 4,
            _ => STRIDE_MAX,
        };
        if stride != self.stride {
            self.change_stride(stride);
        }
    }

    /// Whether the next call that asks to be admitted is to be counted.
    #[inline(always)]
    pub fn is_due(&self) -> bool {
        self.countdown == 0
    }

    /// Whether the present call is to be counted or was just counted, so that it matters whether it is denied.
    #[inline(always)]
    pub fn is_watched(&self) -> bool {
        self.countdown == 0 || self.countdown == self.watched
    }

    /// Goes on to the next call: after each that asked to be admitted, counted or not.
    #[inline(always)]
    pub fn pass(&mut self) {
        self.countdown = self.countdown.saturating_sub(1);
    }

    /// As [`TopKeys::pass`], for a call that was counted if it was due.
    #[inline(always)]
    pub fn pass_counted(&mut self) {
        self.countdown = self.countdown.wrapping_sub(1);
    }

    /// Counts the present call, which is due, before it runs; [`TopKeys::pass`] must follow.
    #[inline(never)]
    pub fn count(&mut self, at: Located, key: &[u8], now: Micros) {
        if !self.is_on {
            self.countdown = u32::MAX;
            return;
        }
        if now >= self.turns_at {
            self.turn(now);
        }
        self.draw();
        // The present call itself will be passed over too.
        self.countdown += 1;
        self.watched = self.countdown;
        self.weight = u64::from(self.stride);
        self.present.checked += self.weight;
        self.checked.add(self.present.number, at.hash, key, self.weight);
    }

    /// Notes that the call which was counted last is denied.
    #[inline(never)]
    pub fn count_denied(&mut self, at: Located, key: &[u8]) {
        if self.is_on {
            self.present.denied += self.weight;
            self.denied.add(self.present.number, at.hash, key, self.weight);
        }
    }

    /// Notes a call, whether it is to be counted or not, after it was decided: for calls that are rare.
    pub fn note(&mut self, at: Located, key: &[u8], now: Micros, is_allowed: bool) {
        if self.is_due() {
            self.count(at, key, now);
            if !is_allowed {
                self.count_denied(at, key);
            }
        }
        self.pass();
    }

    /// What is covered at the time `now`.
    pub fn coverage(&mut self, which: Which, now: Micros) -> Coverage {
        self.turn(now);
        let calls = match which {
            Which::Checked => self.present.checked + self.before.checked,
            Which::Denied => self.present.denied + self.before.denied,
        };
        let reach = self.present.number.saturating_sub(1).saturating_mul(EPOCH_MICROS);
        let missed = self.sketch(which).missed_at_most(self.present.number);
        Coverage {
            since: self.since.unwrap_or(now).max(reach).min(now),
            calls,
            missed_at_most: missed + self.sampling_error(missed),
        }
    }

    /// The `most` busiest keys at the time `now`, the busiest first.
    pub fn busiest(&mut self, which: Which, most: usize, now: Micros) -> Vec<Busy<'_>> {
        self.turn(now);
        let mut found = Vec::new();
        self.sketch(which).each(self.present.number, |sighting| found.push(self.estimate(sighting)));
        found.sort_unstable_by(|left: &Busy<'_>, right| right.count.cmp(&left.count).then(left.key.cmp(right.key)));
        found.truncate(most);
        found
    }

    fn sketch(&self, which: Which) -> &Sketch {
        match which {
            Which::Checked => &self.checked,
            Which::Denied => &self.denied,
        }
    }

    /// Chooses the place of the next call that is counted: anywhere in the next stretch.
    #[inline(always)]
    fn draw(&mut self) {
        if self.stride == 1 {
            self.countdown = 0;
            self.rest = 0;
            return;
        }
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        // Strides are powers of two, so what is left of the number is below 8.
        let place = u32::try_from(self.random >> 32).unwrap_or(0) & (self.stride - 1);
        self.countdown = self.rest + place;
        self.rest = self.stride - 1 - place;
    }

    /// Begins stretches of another length. What was left of the old one had its chance.
    #[inline(never)]
    fn change_stride(&mut self, stride: u32) {
        self.stride = stride;
        self.rest = 0;
        self.watched = 0;
        if self.is_on {
            self.present.stride_max = self.present.stride_max.max(stride);
            self.draw();
        }
    }

    /// Goes on to the epoch of `now`.
    #[inline(never)]
    fn turn(&mut self, now: Micros) {
        let number = now / EPOCH_MICROS;
        if number > self.present.number {
            let follows = self.present.number.checked_add(1) == Some(number);
            self.before = if follows { self.present } else { Epoch::default() };
            self.present = Epoch { number, stride_max: self.stride, ..Epoch::default() };
        }
        self.turns_at = self.present.number.saturating_add(1).saturating_mul(EPOCH_MICROS);
        self.since.get_or_insert(now);
    }

    /// The middle of what is possible, and how far the ends are.
    fn estimate<'a>(&self, sighting: Sighting<'a>) -> Busy<'a> {
        let Sighting { key, upper, error } = sighting;
        let below = error / 2;
        let error_half = error - below;
        Busy { key, count: upper - error_half, error: error_half + self.sampling_error(upper) }
    }

    /// By how much `count`, which was made of samples, may be wrong. One call in each stretch of `s` is counted `s`
    /// times, so the variance of a sum of `n` calls is at most `n (s - 1)`; solved for `n`, of which only the count is
    /// known. Where each call is counted there is no error.
    fn sampling_error(&self, count: u64) -> u64 {
        let skipped = u64::from(self.present.stride_max.max(self.before.stride_max).saturating_sub(1));
        if skipped == 0 {
            return 0;
        }
        let spread = DEVIATIONS * skipped;
        let root = count.saturating_mul(4 * skipped).saturating_add(spread.saturating_mul(spread)).isqrt() + 1;
        // (d^2 s + d sqrt(4 n s + d^2 s^2)) / 2, rounded up.
        (DEVIATIONS * spread + DEVIATIONS * root).div_ceil(2)
    }
}
