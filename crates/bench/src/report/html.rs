//! A report as one page for a browser: headline figures, charts with a table beside each, settings, how to make it
//! again.
//!
//! The page holds everything it needs: it loads nothing, runs no script, and its own policy forbids both. It follows
//! the reader's choice of light or dark and the width of the screen.

mod axis;
mod chart;
mod page;

pub(crate) use axis::Axis;
pub(crate) use chart::{Chart, Line};
pub(crate) use page::{Page, Tile};

use super::{Latency, Report};
use crate::format;

/// What a setting means that nobody has typed.
pub(crate) const KEYS_MEASURED: &str = "Keys measured: how many different keys stand in the calls that were rendered \
    before the clock started, which the run goes through again and again. Where that is fewer than keys, not all of \
    them fit into these calls, or some were not drawn.";

/// The rows of a table of percentiles, where there were batches enough to know them.
const PERCENTILES: [f64; 8] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99, 100.0];

impl Report {
    /// The whole page.
    pub(crate) fn to_html(&self) -> String {
        let mut page = Page::new(&format!("tollgate bench: {}", self.setting.command));
        let started = self.full.as_ref().map(|full| full.machine.started().to_owned());
        page.heading(&self.setting.command, &subtitle(&[&self.setting.target, &started.unwrap_or_default()]));
        page.warnings(&self.warnings());
        page.tiles(&self.tiles());
        let name = match (&self.schedule, self.setting.pipeline) {
            (Some(_), _) => "Latency from when a batch was due",
            (None, 1) => "Latency of a call",
            (None, _) => "Latency of a batch",
        };
        let curve = [(self.setting.target.clone(), &self.latency)];
        latency_chart(&mut page, name, &curve);
        if let Some(full) = &self.full {
            self.rate_chart(&mut page, &full.intervals);
        }
        let outcome = [self.server_rows(), self.outcome_rows()].concat();
        page.facts("Figures", &owned(outcome));
        page.facts("Settings", &self.settings());
        page.paragraph(KEYS_MEASURED);
        if let Some(full) = &self.full {
            page.facts("Machine", &full.machine.fields());
            page.code("To run it again", &full.command_line);
        }
        page.finish()
    }

    fn tiles(&self) -> Vec<Tile> {
        let mut tiles = Vec::new();
        if let Some(server) = &self.server {
            let [user, system] = [server.server_user_ns_per_call, server.server_system_ns_per_call].map(format::nanos);
            tiles.push(Tile {
                name: "Server CPU per call".to_owned(),
                figure: format::nanos(server.server_cpu_ns_per_call),
                note: format!("{user} user, {system} system"),
            });
            let whole = format::bytes(super::float(server.server_rss_bytes));
            tiles.push(match server.server_rss_bytes_per_key {
                Some(per_key) => Tile {
                    name: "Server memory per key".to_owned(),
                    figure: format!("{per_key:.1} bytes"),
                    note: format!("{whole} in all"),
                },
                None => Tile { name: "Server memory".to_owned(), figure: whole, note: "in all".to_owned() },
            });
        }
        let rate = self.calls_per_second.round() as u64;
        tiles.push(Tile {
            name: "Calls per second".to_owned(),
            figure: format::count(rate),
            note: format!("{} calls in {:.3} s", format::count(self.calls), self.seconds),
        });
        tiles.push(Tile {
            name: "Latency p99".to_owned(),
            figure: format::or_dash(self.p99_us, format::micros),
            note: format!(
                "p50 {}, p99.9 {}",
                format::or_dash(self.p50_us, format::micros),
                format::or_dash(self.p999_us, format::micros)
            ),
        });
        tiles
    }

    fn rate_chart(&self, page: &mut Page, intervals: &[crate::intervals::Interval]) {
        let points = intervals.iter().map(|interval| {
            let middle = f64::midpoint(interval.from_seconds, interval.to_seconds);
            let tip = format!("{middle:.2} s: {} calls/s", format::short(interval.calls_per_second));
            (middle, interval.calls_per_second, tip)
        });
        let line = Line { name: self.setting.target.clone(), points: points.collect() };
        let until = intervals.last().map_or(1.0, |interval| interval.to_seconds);
        let most = intervals.iter().map(|interval| interval.calls_per_second).fold(1.0, f64::max);
        let chart = Chart {
            id: "rate",
            title: "Calls per second over time".to_owned(),
            x: Axis::linear("seconds since the measuring began", until, |value| value.to_string()),
            y: Axis::linear("calls per second", most, format::short),
            lines: vec![line],
        };
        let rows = intervals.iter().map(|interval| {
            let latencies = [interval.p50_us, interval.p99_us, interval.p999_us];
            let latencies = latencies.map(|micros| format::or_dash(micros, format::micros));
            let rate = format::count(interval.calls_per_second.round() as u64);
            [format!("{:.2}–{:.2} s", interval.from_seconds, interval.to_seconds), rate].into_iter().chain(latencies)
        });
        let rows: Vec<Vec<String>> = rows.map(Iterator::collect).collect();
        page.chart(&chart, &["Time", "Calls/s", "p50", "p99", "p99.9"].map(str::to_owned), &rows);
    }
}

/// One curve for each named run, on a scale of nines, with a table of the percentiles that people ask for.
pub(crate) fn latency_chart(page: &mut Page, title: &str, runs: &[(String, &Latency)]) {
    let batches = runs.iter().map(|(_, latency)| latency.count()).max().unwrap_or_default();
    let x = Axis::percentiles("percentile of the batches", batches);
    let curves: Vec<Vec<(f64, f64)>> = runs.iter().map(|(_, latency)| latency.curve()).collect();
    let all = || curves.iter().flatten().map(|(_, micros)| *micros);
    let chart = Chart {
        id: "latency",
        title: title.to_owned(),
        y: Axis::logarithmic("latency", all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max), format::micros),
        lines: runs
            .iter()
            .zip(&curves)
            .map(|((name, latency), curve)| Line {
                name: name.clone(),
                points: curve.iter().map(|point| latency_point(*point, latency.count())).collect(),
            })
            .collect(),
        x,
    };
    let is_known =
        |percentile: &f64| curves.iter().any(|curve: &Vec<(f64, f64)>| curve.iter().any(|(at, _)| at == percentile));
    let rows: Vec<Vec<String>> = PERCENTILES
        .into_iter()
        .filter(is_known)
        .map(|percentile| {
            let of =
                |curve: &Vec<(f64, f64)>| curve.iter().find(|(at, _)| *at == percentile).map(|(_, micros)| *micros);
            let cells = curves.iter().map(|curve| of(curve).map_or_else(|| "–".to_owned(), format::micros));
            std::iter::once(percentile_name(percentile)).chain(cells).collect()
        })
        .collect();
    let names = match runs {
        [_] => vec!["Latency".to_owned()],
        // The legend tells the rest of the name.
        several => several.iter().map(|(name, _)| name.split(':').next().unwrap_or_default().to_owned()).collect(),
    };
    let header: Vec<String> = std::iter::once("Percentile".to_owned()).chain(names).collect();
    page.chart(&chart, &header, &rows);
}

fn latency_point((percentile, micros): (f64, f64), batches: u64) -> (f64, f64, String) {
    let tip = format!("{}: {}", percentile_name(percentile), format::micros(micros));
    (axis::nines(percentile, batches), micros, tip)
}

fn percentile_name(percentile: f64) -> String {
    if percentile >= 100.0 {
        return "max".to_owned();
    }
    // As many digits as tell it from the next: one more than the nines.
    let digits = (-(1.0 - percentile / 100.0).log10()).floor().clamp(0.0, 9.0) as usize + 1;
    format!("p{}", format::round_value(&format!("{percentile:.digits$}")))
}

fn subtitle(parts: &[&str]) -> String {
    let present: Vec<&str> = parts.iter().copied().filter(|part| !part.is_empty()).collect();
    present.join(" · ")
}

fn owned(rows: Vec<(&'static str, String)>) -> Vec<(String, String)> {
    rows.into_iter().map(|(name, figure)| (name.to_owned(), figure)).collect()
}
