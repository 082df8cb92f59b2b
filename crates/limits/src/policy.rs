//! What a caller may do: the algorithm and its numbers, in the one exact form in which two of them are compared.

use crate::{WINDOW_MICROS_MAX, WINDOW_MICROS_MIN};

/// The five ways of limiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Two-window sliding counter.
    Slide,
    /// Token bucket.
    Token,
    /// Fixed window counter.
    Fixed,
    /// Sliding log.
    Log,
    /// Leaky bucket as a queue.
    Leak,
}

impl Algorithm {
    /// The word that RL.ALL takes: `SLIDE`, `TOKEN`, `FIXED`, `LOG`, `LEAK`.
    pub const fn word(self) -> &'static str {
        match self {
            Algorithm::Slide => "SLIDE",
            Algorithm::Token => "TOKEN",
            Algorithm::Fixed => "FIXED",
            Algorithm::Log => "LOG",
            Algorithm::Leak => "LEAK",
        }
    }

    /// What TYPE answers for a key of this algorithm.
    pub const fn type_name(self) -> &'static str {
        match self {
            Algorithm::Slide => "rl.slide",
            Algorithm::Token => "rl.token",
            Algorithm::Fixed => "rl.fixed",
            Algorithm::Log => "rl.log",
            Algorithm::Leak => "rl.leak",
        }
    }
}

/// A window's length in whole microseconds, from 1 ms to 3650 days.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Window(u64);

impl Window {
    /// The shortest.
    pub const MIN: Window = Window(WINDOW_MICROS_MIN);

    /// `None` outside of [`WINDOW_MICROS_MIN`] to [`WINDOW_MICROS_MAX`].
    pub const fn new(micros: u64) -> Option<Window> {
        if micros < WINDOW_MICROS_MIN || micros > WINDOW_MICROS_MAX {
            return None;
        }
        Some(Window(micros))
    }

    /// The length in microseconds.
    pub const fn micros(self) -> u64 {
        self.0
    }
}

/// A rate of `tokens` per `micros` microseconds, in lowest terms, so that equal rates are equal values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    tokens: u64,
    micros: u128,
}

impl Rate {
    /// The rate in lowest terms. `None` below one token a year (365 d) or above 10^9 tokens a second, or for a zero.
    pub fn new(tokens: u64, micros: u128) -> Option<Rate> {
        let (tokens, micros) = lowest_terms(tokens, micros)?;
        let year_micros = 365 * 86_400 * 1_000_000;
        // tokens / micros >= 1 / year, and tokens / micros <= 10^9 / 10^6.
        if u128::from(tokens).checked_mul(year_micros)? < micros || u128::from(tokens) > micros.checked_mul(1_000)? {
            return None;
        }
        Some(Rate { tokens, micros })
    }

    /// Tokens gained in [`Rate::micros`] microseconds.
    pub const fn tokens(self) -> u64 {
        self.tokens
    }

    /// Microseconds in which [`Rate::tokens`] tokens are gained.
    pub const fn micros(self) -> u128 {
        self.micros
    }
}

fn lowest_terms(tokens: u64, micros: u128) -> Option<(u64, u128)> {
    if tokens == 0 || micros == 0 {
        return None;
    }
    // After one step of Euclid both operands fit 64 bits, where division is several times cheaper.
    let (mut larger, mut smaller) = (tokens, u64::try_from(micros % u128::from(tokens)).ok()?);
    while smaller != 0 {
        (larger, smaller) = (smaller, larger % smaller);
    }
    Some((tokens / larger, micros / u128::from(larger)))
}

/// A limit as a command names it and as a key stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Policy {
    /// At most `limit` units in a window that slides, estimated from two aligned windows.
    Slide {
        /// Units per window, 0 to 10^12.
        limit: u64,
        /// The window.
        window: Window,
    },
    /// Bursts of up to `capacity`, refilled at `rate`.
    Token {
        /// Units that fit, 0 to 10^12.
        capacity: u64,
        /// The refill.
        rate: Rate,
    },
    /// At most `limit` units in each aligned window.
    Fixed {
        /// Units per window, 0 to 10^12.
        limit: u64,
        /// The window.
        window: Window,
    },
    /// At most `limit` units in any window, exactly.
    Log {
        /// Units per window, 0 to the configured top.
        limit: u64,
        /// The window.
        window: Window,
    },
    /// A queue of up to `capacity` units that leaves at `rate`.
    Leak {
        /// Units that fit, 0 to 10^12.
        capacity: u64,
        /// The drain.
        rate: Rate,
    },
}

impl Policy {
    /// The algorithm.
    pub const fn algorithm(&self) -> Algorithm {
        match self {
            Policy::Slide { .. } => Algorithm::Slide,
            Policy::Token { .. } => Algorithm::Token,
            Policy::Fixed { .. } => Algorithm::Fixed,
            Policy::Log { .. } => Algorithm::Log,
            Policy::Leak { .. } => Algorithm::Leak,
        }
    }

    /// The limit or capacity.
    pub const fn limit(&self) -> u64 {
        match self {
            Policy::Slide { limit, .. } | Policy::Fixed { limit, .. } | Policy::Log { limit, .. } => *limit,
            Policy::Token { capacity, .. } | Policy::Leak { capacity, .. } => *capacity,
        }
    }
}
