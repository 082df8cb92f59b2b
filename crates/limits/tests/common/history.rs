//! Random histories of calls on one key, with policies that change.

use proptest::prelude::*;
use tollgate_limits::{Ask, Micros, Mode, Policy};

use super::{T, policy};

/// One step: some time passes, then a call is made.
#[derive(Clone, Debug)]
pub struct Step {
    pub pause: Pause,
    pub ask: Ask,
}

/// How time passes before a call.
#[derive(Clone, Copy, Debug)]
pub enum Pause {
    /// So many microseconds.
    Micros(u64),
    /// To the next edge of a multiple of this length, and one microsecond before or after it.
    Edge { width: u64, skew: i64 },
    /// As long as the last refusal said, in milliseconds, less this.
    AsTold { less_ms: u64 },
}

impl Pause {
    /// The instant after the pause, never earlier than `now`.
    pub fn after(self, now: Micros, told_ms: u64) -> Micros {
        let later = match self {
            Pause::Micros(micros) => now.saturating_add(micros),
            Pause::Edge { width, skew } => (now - now % width).saturating_add(width).saturating_add_signed(skew),
            Pause::AsTold { less_ms } => now.saturating_add(told_ms.saturating_sub(less_ms).saturating_mul(1_000)),
        };
        // A reply may speak of times that no clock reaches; the history goes on before them.
        if later < 4 * T { later.max(now) } else { now }
    }
}

const WINDOWS: [&str; 7] = ["1ms", "1", "1.5s", "10", "1m", "1.234567s", "3650d"];
const LIMITS: [u64; 8] = [0, 1, 2, 5, 10, 100, 999_999_999_999, 1_000_000_000_000];
const RATES: [&str; 15] = [
    "10",
    "600/1m",
    "0.5",
    "100/60",
    "100/1m",
    "1/365d",
    "1000000000",
    "123456789012345/7w",
    "0.00000003170979199",
    "0.99999999999999999",
    "7/3s",
    "1/3ms",
    "999999999999/1100.1s",
    "3/0.7d",
    "2",
];

/// Histories on one key of one algorithm, with two or three policies in turn.
pub fn histories(algorithm: &'static str, steps_max: usize) -> impl Strategy<Value = Vec<Step>> {
    let policies = prop::collection::vec(policies(algorithm), 1..4);
    policies.prop_flat_map(move |policies| prop::collection::vec(steps(policies), 1..steps_max))
}

fn policies(algorithm: &'static str) -> BoxedStrategy<Policy> {
    let limits = prop_oneof![4 => prop::sample::select(&LIMITS[..]), 2 => 0_u64..40, 1 => 0_u64..=1_000_000_000_000];
    let widths: Vec<&'static str> = match algorithm {
        "TOKEN" | "LEAK" => RATES.to_vec(),
        _ => WINDOWS.to_vec(),
    };
    (limits, prop::sample::select(widths)).prop_map(move |(limit, width)| policy(algorithm, limit, width)).boxed()
}

fn steps(policies: Vec<Policy>) -> impl Strategy<Value = Step> {
    let modes = prop_oneof![
        6 => Just(Mode::Charge), 1 => Just(Mode::Peek), 2 => Just(Mode::Partial), 2 => Just(Mode::Refund),
    ];
    // The first policy comes more often, so that it builds up use.
    let chosen = prop_oneof![3 => Just(0_usize), 2 => any::<prop::sample::Index>().prop_map(|index| index.index(3))];
    (chosen, modes, costs(), pauses()).prop_map(move |(chosen, mode, cost, pause)| {
        let policy = policies[chosen % policies.len()];
        let cost = match cost {
            Cost::Units(units) => units,
            Cost::OfLimit { permille, more } => {
                let share = u128::from(policy.limit()) * u128::from(permille) / 1_000;
                u64::try_from(share).unwrap_or(0).saturating_add_signed(more).min(1_000_000_000_000)
            }
        };
        Step { pause: pause.scaled(&policy), ask: Ask { policy, cost, mode } }
    })
}

#[derive(Clone, Copy, Debug)]
enum Cost {
    Units(u64),
    OfLimit { permille: u64, more: i64 },
}

fn costs() -> impl Strategy<Value = Cost> {
    prop_oneof![
        4 => (0_u64..4).prop_map(Cost::Units),
        4 => (0_u64..=1_000, -1_i64..=1).prop_map(|(permille, more)| Cost::OfLimit { permille, more }),
        2 => (-1_i64..=1).prop_map(|more| Cost::OfLimit { permille: 1_000, more }),
    ]
}

#[derive(Clone, Copy, Debug)]
enum Wait {
    Fixed(u64),
    OfWidth(u64),
    Edge(i64),
    AsTold(u64),
}

impl Wait {
    fn scaled(self, policy: &Policy) -> Pause {
        let width = width_micros(policy);
        match self {
            Wait::Fixed(micros) => Pause::Micros(micros),
            Wait::OfWidth(permille) => {
                let micros = u128::from(width) * u128::from(permille) / 1_000;
                Pause::Micros(u64::try_from(micros).unwrap_or(0))
            }
            Wait::Edge(skew) => Pause::Edge { width, skew },
            Wait::AsTold(less_ms) => Pause::AsTold { less_ms },
        }
    }
}

/// A window's length, or the time that a few tokens take.
fn width_micros(policy: &Policy) -> u64 {
    match policy {
        Policy::Slide { window, .. } | Policy::Fixed { window, .. } | Policy::Log { window, .. } => window.micros(),
        Policy::Token { rate, .. } | Policy::Leak { rate, .. } => {
            u64::try_from(rate.micros() * 3 / u128::from(rate.tokens())).unwrap_or(1).max(1)
        }
    }
}

fn pauses() -> impl Strategy<Value = Wait> {
    prop_oneof![
        3 => Just(Wait::Fixed(0)),
        1 => (0_u64..3_000).prop_map(Wait::Fixed),
        1 => (0_u64..10_000_000).prop_map(Wait::Fixed),
        4 => (0_u64..1_200).prop_map(Wait::OfWidth),
        1 => (0_u64..4_000).prop_map(Wait::OfWidth),
        2 => (-1_i64..=1).prop_map(Wait::Edge),
        2 => (0_u64..2).prop_map(Wait::AsTold),
    ]
}
