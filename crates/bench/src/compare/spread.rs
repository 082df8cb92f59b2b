//! How values of several rounds lie: their median, quartiles and ends.

use serde::Serialize;

/// Values of several rounds, summed up.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) least: f64,
    pub(super) quartile_1: f64,
    pub(super) quartile_3: f64,
    pub(super) most: f64,
}

impl Spread {
    /// None of no values.
    pub(super) fn of(values: &[f64]) -> Option<Spread> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (least, most) = (*sorted.first()?, *sorted.last()?);
        let at = |share| between(&sorted, share);
        Some(Spread { median: at(0.5), least, quartile_1: at(0.25), quartile_3: at(0.75), most })
    }
}

/// The value at a share of the way from the first to the last, on a straight line between two values.
fn between(sorted: &[f64], share: f64) -> f64 {
    let position = share * sorted.len().saturating_sub(1) as f64;
    let below = position.floor();
    let place = below as usize;
    let value = |place: usize| sorted.get(place).or(sorted.last()).copied().unwrap_or_default();
    let (low, high) = (value(place), value(place.saturating_add(1)));
    low + (high - low) * (position - below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_summed_up() {
        let cases: [(&[f64], [f64; 5]); 5] = [
            (&[3.0], [3.0, 3.0, 3.0, 3.0, 3.0]),
            (&[2.0, 1.0], [1.0, 1.25, 1.5, 1.75, 2.0]),
            (&[5.0, 1.0, 3.0], [1.0, 2.0, 3.0, 4.0, 5.0]),
            (&[4.0, 1.0, 3.0, 2.0], [1.0, 1.75, 2.5, 3.25, 4.0]),
            (&[7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0], [1.0, 2.5, 4.0, 5.5, 7.0]),
        ];
        for (values, [least, quartile_1, median, quartile_3, most]) in cases {
            let expected = Spread { median, least, quartile_1, quartile_3, most };
            assert_eq!(Spread::of(values), Some(expected), "{values:?}");
        }
        assert_eq!(Spread::of(&[]), None);
    }
}
