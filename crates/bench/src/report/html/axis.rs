//! Where values lie along a chart's edge, and which of them are named there.

use crate::format;

/// An edge of a chart.
#[derive(Debug, Clone)]
pub(crate) struct Axis {
    /// What the values are.
    pub(super) title: String,
    /// Named places, from 0 to 1, and whether a narrow screen has no room for their names.
    pub(super) ticks: Vec<Tick>,
    scale: Scale,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tick {
    pub(super) place: f64,
    pub(super) name: String,
    pub(super) is_minor: bool,
}

#[derive(Debug, Clone, Copy)]
enum Scale {
    Linear { low: f64, high: f64 },
    Logarithmic { low: f64, high: f64 },
}

/// About as many names as fit along an edge.
const TICKS: f64 = 5.0;

/// No more names than this fit on a narrow screen.
const NARROW_TICKS: usize = 5;

/// The least latency on a logarithmic scale in microseconds.
const LEAST: f64 = 0.1;

impl Axis {
    /// From 0 to a little above `most`.
    pub(crate) fn linear(title: &str, most: f64, name: fn(f64) -> String) -> Axis {
        let step = step_of(most / TICKS);
        let scale = Scale::Linear { low: 0.0, high: most * 1.02 };
        let count = (most * 1.02 / step).floor() as usize;
        // Whole steps are rounded, so that the names have no rests of a division.
        let values = (0..=count).map(|number| (number as f64 * step * 1e6).round() / 1e6);
        Axis::new(title, scale, values.map(|value| (value, name(value))).collect())
    }

    /// 1 to `count`, with room at both ends.
    pub(crate) fn numbered(title: &str, count: usize) -> Axis {
        let scale = Scale::Linear { low: 0.5, high: count as f64 + 0.5 };
        let every = count.div_ceil(10).max(1);
        let values = (1..=count).filter(|number| (number - 1).is_multiple_of(every));
        Axis::new(title, scale, values.map(|number| (number as f64, number.to_string())).collect())
    }

    /// From below `least` to above `most`, each step of one ten times the value.
    pub(crate) fn logarithmic(title: &str, least: f64, most: f64, name: fn(f64) -> String) -> Axis {
        let low = if least.is_finite() { least.max(LEAST) / 1.2 } else { 1.0 };
        let high = (most * 1.2).max(low * 2.0);
        let decades = (high / low).log10();
        let factors: &[f64] = if decades > 3.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let mut values = Vec::new();
        let mut decade = 10f64.powf(low.log10().floor());
        while decade <= high {
            values.extend(factors.iter().map(|factor| factor * decade).filter(|value| (low..=high).contains(value)));
            decade *= 10.0;
        }
        let named = values.into_iter().map(|value| (value, name(value))).collect();
        Axis::new(title, Scale::Logarithmic { low, high }, named)
    }

    /// From 0 to as many nines as `batches` have.
    pub(crate) fn percentiles(title: &str, batches: u64) -> Axis {
        let high = nines(100.0, batches);
        // 0 % is the axis's beginning, and 50 % is too near to it for both to have a name.
        let names = ["90", "99", "99.9", "99.99", "99.999", "99.9999", "99.99999", "99.999999"];
        let mut named: Vec<(f64, String)> = names
            .iter()
            .enumerate()
            .map(|(place, name)| ((place + 1) as f64, format!("{name} %")))
            .filter(|(place, _)| *place <= high - 0.35)
            .collect();
        named.insert(0, (0.5f64.log10().abs(), "50 %".to_owned()));
        named.push((high, "max".to_owned()));
        Axis::new(title, Scale::Linear { low: 0.0, high }, named)
    }

    fn new(title: &str, scale: Scale, named: Vec<(f64, String)>) -> Axis {
        let count = named.len();
        let ticks = named.into_iter().enumerate().map(|(number, (value, name))| {
            let is_minor = count > NARROW_TICKS && (count - 1 - number) % 2 == 1;
            Tick { place: scale.place(value), name: format::round_value(&name), is_minor }
        });
        Axis { title: title.to_owned(), ticks: ticks.collect(), scale }
    }

    /// Where a value lies: 0 at the axis's beginning, 1 at its end.
    pub(super) fn place(&self, value: f64) -> f64 {
        self.scale.place(value)
    }
}

impl Scale {
    fn place(self, value: f64) -> f64 {
        let place = match self {
            Scale::Linear { low, high } => (value - low) / (high - low),
            Scale::Logarithmic { low, high } => (value.max(LEAST) / low).log10() / (high / low).log10(),
        };
        if place.is_finite() { place.clamp(0.0, 1.0) } else { 0.0 }
    }
}

/// The nines of a percentile: 1 for 90 %, 2 for 99 %; for 100 % as many as that many batches have, at least 1.
pub(super) fn nines(percentile: f64, batches: u64) -> f64 {
    let most = super::super::float(batches).max(10.0).log10();
    if percentile >= 100.0 { most } else { (-(1.0 - percentile / 100.0).log10()).clamp(0.0, most) }
}

/// The next larger of 1, 2 and 5 times a power of ten.
fn step_of(least: f64) -> f64 {
    let least = if least.is_finite() && least > 0.0 { least } else { 1.0 };
    let power = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|factor| factor * power).find(|step| *step >= least).unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|tick| tick.name.as_str()).collect()
    }

    #[test]
    fn named_places_are_round_values() {
        let plain = |value: f64| value.to_string();
        assert_eq!(names(&Axis::linear("s", 5.0, plain)), ["0", "1", "2", "3", "4", "5"]);
        assert_eq!(names(&Axis::linear("s", 0.3, plain)), ["0", "0.1", "0.2", "0.3"]);
        assert_eq!(names(&Axis::linear("s", 0.0, plain)), ["0"]);
        assert_eq!(names(&Axis::linear("r", 1_234_567.0, format::short)), ["0", "500k", "1M"]);
        assert_eq!(names(&Axis::numbered("round", 3)), ["1", "2", "3"]);
        let micros = Axis::logarithmic("l", 90.0, 900.0, format::micros);
        assert_eq!(names(&micros), ["100 µs", "200 µs", "500 µs", "1 ms"]);
        assert_eq!(names(&Axis::logarithmic("l", 1.0, 9e6, plain)).len(), 8);
        assert!(!names(&Axis::logarithmic("l", 300.0, 300.0, plain)).is_empty());
        assert!(Axis::logarithmic("l", f64::INFINITY, 0.0, plain).place(1.0).is_finite());
        let percentiles = Axis::percentiles("p", 5_000);
        assert_eq!(names(&percentiles), ["50 %", "90 %", "99 %", "99.9 %", "max"]);
        assert_eq!(names(&Axis::percentiles("p", 0)), ["50 %", "max"]);
    }

    #[test]
    fn places_lie_between_the_ends() {
        let axis = Axis::percentiles("p", 1_000);
        for (percentile, place) in [(0.0, 0.0), (90.0, 1.0 / 3.0), (99.0, 2.0 / 3.0), (100.0, 1.0), (99.99999, 1.0)] {
            let found = axis.place(nines(percentile, 1_000));
            assert!((found - place).abs() < 1e-9, "{percentile}: {found}");
        }
        let axis = Axis::logarithmic("l", 1.2, 1_000.0 / 1.2, format::micros);
        for (micros, place) in [(1.0, 0.0), (10.0, 1.0 / 3.0), (0.0, 0.0), (1e9, 1.0)] {
            assert!((axis.place(micros) - place).abs() < 1e-9, "{micros}");
        }
    }
}
