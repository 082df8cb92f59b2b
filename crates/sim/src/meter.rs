//! The use of one key, slowly and plainly: what the limits' reference says, without packing, rounding or undo.

use std::collections::BTreeMap;
use tollgate_limits::{Micros, Policy};

/// What one key has in use. Amounts may be below zero for a while: a refund that met a charge that was later undone.
#[derive(Clone, Debug)]
pub struct Meter {
    shape: Shape,
}

#[derive(Clone, Debug)]
enum Shape {
    /// Units by index of window. A fixed window looks at one, a sliding one at two.
    Windows { width_micros: u64, slides: bool, counts: BTreeMap<u64, i128> },
    /// Every charge that may still count.
    Charges { width_micros: u64, charges: Vec<(Micros, i128)> },
    /// Use in parts of a token: a token is `per_token`, and `per_micro` drain in a microsecond.
    Level { per_token: i128, per_micro: i128, level: i128, at: Micros },
}

impl Meter {
    /// Of a key without use under `policy`. Its limit does not matter.
    pub fn new(policy: &Policy) -> Meter {
        let shape = match policy {
            Policy::Slide { window, .. } => windows(window.micros(), true),
            Policy::Fixed { window, .. } => windows(window.micros(), false),
            Policy::Log { window, .. } => Shape::Charges { width_micros: window.micros(), charges: Vec::new() },
            Policy::Token { rate, .. } | Policy::Leak { rate, .. } => Shape::Level {
                per_token: i128::try_from(rate.micros()).unwrap_or(i128::MAX),
                per_micro: i128::from(rate.tokens()),
                level: 0,
                at: 0,
            },
        };
        Meter { shape }
    }

    /// Whether use drains, so that of a charge that is undone later nobody can say how much was still there.
    pub fn drains(&self) -> bool {
        matches!(self.shape, Shape::Level { .. })
    }

    /// Adds `units` at a time that is not before any earlier one.
    pub fn charge(&mut self, units: u64, now: Micros) {
        let units = i128::from(units);
        match &mut self.shape {
            Shape::Windows { width_micros, counts, .. } => {
                let index = now / *width_micros;
                *counts.entry(index).or_insert(0) += units;
                counts.retain(|at, _| *at + 1 >= index);
            }
            Shape::Charges { width_micros, charges } => {
                charges.retain(|(at, _)| *at + *width_micros > now);
                charges.push((now, units));
            }
            Shape::Level { per_token, per_micro, level, at } => {
                *level = drained(*level, *per_micro, *at, now) + units * *per_token;
                *at = now;
            }
        }
    }

    /// Takes off `units`, newest first; below nothing only if it `may_owe`.
    pub fn refund(&mut self, units: u64, now: Micros, may_owe: bool) {
        let mut left = i128::from(units);
        match &mut self.shape {
            Shape::Windows { width_micros, slides, counts } => {
                let index = now / *width_micros;
                let reach = if *slides { 2 } else { 1 };
                for back in 0..reach {
                    let count = index.checked_sub(back).and_then(|at| counts.get_mut(&at));
                    if let Some(count) = count {
                        let taken = left.min(*count).max(0);
                        *count -= taken;
                        left -= taken;
                    }
                }
                if may_owe {
                    *counts.entry(index).or_insert(0) -= left;
                }
            }
            Shape::Charges { width_micros, charges } => {
                for (at, count) in charges.iter_mut().rev() {
                    if *at + *width_micros > now {
                        let taken = left.min(*count).max(0);
                        *count -= taken;
                        left -= taken;
                    }
                }
                if may_owe {
                    charges.push((now, -left));
                }
            }
            Shape::Level { per_token, per_micro, level, at } => {
                let rest = drained(*level, *per_micro, *at, now) - left * *per_token;
                *level = if may_owe { rest } else { rest.max(0) };
                *at = now;
            }
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        match &mut self.shape {
            Shape::Windows { counts, .. } => counts.clear(),
            Shape::Charges { charges, .. } => charges.clear(),
            Shape::Level { level, .. } => *level = 0,
        }
    }

    /// The units in use, as a limit counts them: a sliding estimate rounded down, a level rounded up.
    pub fn used(&self, now: Micros) -> u64 {
        let used = match &self.shape {
            Shape::Windows { width_micros, slides, counts } => {
                let (index, elapsed) = (now / width_micros, now % width_micros);
                let count = |at: Option<u64>| at.and_then(|at| counts.get(&at)).copied().unwrap_or(0);
                let before = if *slides { count(index.checked_sub(1)) } else { 0 };
                let fading = before * i128::from(width_micros - elapsed);
                count(Some(index)) + fading.div_euclid(i128::from(*width_micros))
            }
            Shape::Charges { width_micros, charges } => {
                charges.iter().filter(|(at, _)| *at + width_micros > now).map(|(_, units)| units).sum()
            }
            Shape::Level { per_token, per_micro, level, at } => {
                let level = drained(*level, *per_micro, *at, now);
                -(-level).div_euclid(*per_token)
            }
        };
        u64::try_from(used.max(0)).unwrap_or(u64::MAX)
    }
}

fn windows(width_micros: u64, slides: bool) -> Shape {
    Shape::Windows { width_micros, slides, counts: BTreeMap::new() }
}

/// What is left of a level after time has passed. What is below nothing does not fill up by itself.
fn drained(level: i128, per_micro: i128, since: Micros, now: Micros) -> i128 {
    let passed = i128::from(now.saturating_sub(since));
    (level - passed * per_micro).max(level.min(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Rule;
    use tollgate_limits::Algorithm;

    const SECOND: Micros = 1_000_000;

    /// A key of two units at 0.9 s under each algorithm with a window of a second, or a token a second.
    #[test]
    fn two_units_run_out() {
        let cases = [
            (Algorithm::Fixed, [2, 0, 0]),
            (Algorithm::Log, [2, 2, 0]),
            (Algorithm::Slide, [2, 1, 0]),
            (Algorithm::Token, [2, 2, 1]),
            (Algorithm::Leak, [2, 2, 1]),
        ];
        for (algorithm, expected) in cases {
            let mut meter = Meter::new(&Rule { algorithm, limit: 5, width: "1" }.policy());
            meter.charge(2, 9 * SECOND / 10);
            let used = [9, 11, 20].map(|tenths| meter.used(tenths * SECOND / 10));
            assert_eq!(used, expected, "{algorithm:?}");
        }
    }

    #[test]
    fn a_refund_owes_only_where_it_may() {
        for (may_owe, expected) in [(true, 1), (false, 3)] {
            for algorithm in [Algorithm::Fixed, Algorithm::Log, Algorithm::Slide, Algorithm::Token] {
                let mut meter = Meter::new(&Rule { algorithm, limit: 5, width: "1" }.policy());
                meter.charge(2, SECOND);
                meter.refund(4, SECOND, may_owe);
                meter.charge(3, SECOND);
                assert_eq!(meter.used(SECOND), expected, "{algorithm:?}");
            }
        }
    }
}
