//! The latencies of a run as a curve: for each percentile, the time within which that part of the batches was answered.
//!
//! What matters lies at the end of the curve, so its points are even on a scale where each step of one is ten times
//! fewer batches: 90, 99, 99.9 and so on. It ends where less than one batch would be left.

use super::{float, round};
use hdrhistogram::Histogram;
use serde::ser::{Serialize, SerializeStruct, Serializer};

/// Points from one percentile of nines to the next.
const POINTS_PER_NINE: u32 = 5;

/// No run has more batches than 10 to this power.
const NINES_MAX: u32 = 9;

/// One batch, but for what a division leaves.
const LEFT_MIN: f64 = 1.0 - 1e-6;

/// Percentiles that people ask for beside the even ones.
const ASKED_FOR: [f64; 3] = [50.0, 75.0, 95.0];

/// Latencies of batches.
#[derive(Debug, Clone)]
pub(crate) struct Latency {
    nanos: Histogram<u64>,
}

impl Latency {
    /// Takes the latencies of a phase in nanoseconds.
    pub(crate) fn new(nanos: Histogram<u64>) -> Latency {
        Latency { nanos }
    }

    /// The latencies of several runs as one curve; none of no run.
    pub(crate) fn together<'a>(runs: impl IntoIterator<Item = &'a Latency>) -> Option<Latency> {
        let mut runs = runs.into_iter();
        let mut all = runs.next()?.clone();
        // All have the same bounds, as all histograms of one program.
        runs.for_each(|run| all.nanos.add(&run.nanos).unwrap_or_default());
        Some(all)
    }

    /// How many batches there were.
    pub(crate) fn count(&self) -> u64 {
        self.nanos.len()
    }

    /// The time in microseconds within which `percentile` of 100 batches were answered; no number if there were none.
    pub(crate) fn percentile_us(&self, percentile: f64) -> f64 {
        if self.nanos.is_empty() {
            return f64::NAN;
        }
        round(float(self.nanos.value_at_quantile(percentile / 100.0)) / 1_000.0, 3)
    }

    /// The longest in microseconds; no number if there was none.
    pub(crate) fn max_us(&self) -> f64 {
        if self.nanos.is_empty() {
            return f64::NAN;
        }
        round(float(self.nanos.max()) / 1_000.0, 3)
    }

    /// The average in microseconds; no number if there was none.
    pub(crate) fn mean_us(&self) -> f64 {
        if self.nanos.is_empty() {
            return f64::NAN;
        }
        round(self.nanos.mean() / 1_000.0, 3)
    }

    /// The curve as percentile and microseconds, from 0 to 100; empty if there was nothing.
    pub(crate) fn curve(&self) -> Vec<(f64, f64)> {
        if self.nanos.is_empty() {
            return Vec::new();
        }
        let even = (0..=POINTS_PER_NINE * NINES_MAX)
            .map(|step| 100.0 - 100.0 / 10f64.powf(f64::from(step) / f64::from(POINTS_PER_NINE)));
        let mut percentiles: Vec<f64> = even.chain(ASKED_FOR).map(|percentile| round(percentile, 7)).collect();
        percentiles.retain(|percentile| (1.0 - percentile / 100.0) * float(self.count()) >= LEFT_MIN);
        percentiles.push(100.0);
        percentiles.sort_by(f64::total_cmp);
        percentiles.dedup();
        let value = |percentile: f64| if percentile >= 100.0 { self.max_us() } else { self.percentile_us(percentile) };
        percentiles.into_iter().map(|percentile| (percentile, value(percentile))).collect()
    }
}

impl Serialize for Latency {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Latency", 4)?;
        fields.serialize_field("batches", &self.count())?;
        fields.serialize_field("mean_us", &self.mean_us())?;
        fields.serialize_field("max_us", &self.max_us())?;
        fields.serialize_field("percentiles", &self.curve())?;
        fields.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_micros(values: impl IntoIterator<Item = u64>) -> Latency {
        let mut nanos = Histogram::new_with_bounds(1_000, 60_000_000_000, 3).unwrap();
        values.into_iter().for_each(|micros| nanos.record(micros * 1_000).unwrap());
        Latency::new(nanos)
    }

    #[test]
    fn a_curve_ends_where_less_than_one_batch_is_left() {
        assert_eq!(of_micros([]).curve(), []);
        let one = of_micros([50]);
        assert_eq!(one.curve().iter().map(|(percentile, _)| *percentile).collect::<Vec<_>>(), [0.0, 100.0]);
        let thousand = of_micros(1..=1_000);
        let curve = thousand.curve();
        let at = |wanted: f64| curve.iter().find(|(percentile, _)| *percentile == wanted).map(|(_, micros)| *micros);
        for (percentile, micros) in [(50.0, 500.0), (90.0, 900.0), (99.0, 990.0), (99.9, 999.0), (100.0, 1_000.0)] {
            let found = at(percentile).unwrap();
            assert!((found - micros).abs() <= micros / 500.0, "{percentile}: {found}");
        }
        assert_eq!(at(99.99), None);
        assert!(curve.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1), "{curve:?}");
    }

    #[test]
    fn curves_of_several_runs_are_one() {
        let all = Latency::together(&[of_micros([100, 100]), of_micros([300, 300])]).unwrap();
        assert_eq!(all.count(), 4);
        assert!((all.mean_us() - 200.0).abs() < 1.0 && all.max_us() >= 300.0);
        assert_eq!(serde_json::to_value(&all).unwrap()["percentiles"][0][0], 0.0);
    }
}
