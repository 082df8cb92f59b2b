//! A report as text: the server's figures first, then the rate, the latencies, and what went wrong.

use super::{Report, float};
use crate::format;
use crate::punctual::ScheduleReport;
use crate::verify::{Failover, Verdict};
use std::fmt::Write;

/// Settings with a row of their own.
const SHOWN: [&str; 6] = ["target", "command", "connections", "pipeline", "keys", "key bytes"];

/// Columns of figures are at least as wide as most figures, so that tables below one another are alike.
const CELL_CHARS_MIN: usize = 8;

/// A shorter time without a reply, in seconds, is left to the latencies.
const SILENCE_SHOWN_MIN: f64 = 0.1;

/// Percentiles with a column of their own.
const COLUMNS: [(&str, f64); 5] = [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("p99.9", 99.9), ("p99.99", 99.99)];

impl Report {
    /// A table of name and figure.
    pub(crate) fn to_table(&self) -> String {
        let mut text = String::new();
        for part in [self.run_rows(), self.server_rows(), self.rate_rows()] {
            text.push_str(&rows_to_text(&part));
            text.push('\n');
        }
        text.push_str(&self.latency_text());
        text.push('\n');
        text.push_str(&rows_to_text(&self.outcome_rows()));
        for warning in self.warnings() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "\nWARNING: {warning}");
        }
        text
    }

    fn run_rows(&self) -> Vec<(&'static str, String)> {
        let setting = &self.setting;
        vec![
            ("target", setting.target.clone()),
            ("command", setting.command.clone()),
            ("connections x pipeline", format!("{} x {}", setting.connections, setting.pipeline)),
            ("keys", format!("{} of {} bytes", format::count(u64::from(setting.keys)), setting.key_bytes)),
            ("other settings", others(self.settings())),
        ]
    }

    /// The server's figures in words; a row that says why there are none.
    pub(super) fn server_rows(&self) -> Vec<(&'static str, String)> {
        let mut rows = Vec::new();
        if let Some(server) = &self.server {
            let [all, user, system] =
                [server.server_cpu_ns_per_call, server.server_user_ns_per_call, server.server_system_ns_per_call]
                    .map(format::nanos);
            rows.push(("server CPU per call", format!("{all} ({user} user, {system} system)")));
            let whole = format::bytes(float(server.server_rss_bytes));
            rows.push(match (server.server_rss_bytes_per_key, server.server_keys_made) {
                (Some(per_key), Some(keys)) => {
                    let keys = format::count(keys);
                    ("server memory per key", format!("{per_key:.1} bytes of growth by {keys} keys ({whole} in all)"))
                }
                _ => ("server memory", format!("{whole} in all")),
            });
            rows.push(("server busy", format!("{:.0} % of one CPU", server.server_busy_percent)));
        }
        if let (Some(pid), Some(name)) = (self.seen.server_pid, &self.seen.server_process) {
            rows.push(("server process", format!("{pid} {name}")));
        }
        if let Some(reason) = &self.seen.server_unseen {
            let advice = if self.seen.has_ended { "" } else { " (--pid tells which process it is)" };
            rows.push(("server CPU per call", format!("not measured: {reason}{advice}")));
        }
        rows
    }

    fn rate_rows(&self) -> Vec<(&'static str, String)> {
        let rate = format::count(self.calls_per_second.round() as u64);
        vec![("calls per second", rate), ("calls", format!("{} in {:.3} s", format::count(self.calls), self.seconds))]
    }

    /// Two lines: percentiles, and the latencies below them.
    fn latency_text(&self) -> String {
        let mut names = vec![self.latency_name().to_owned()];
        let mut figures = vec![String::new()];
        for (name, percentile) in COLUMNS {
            names.push(name.to_owned());
            figures.push(format::or_dash(self.latency.percentile_us(percentile), format::micros));
        }
        names.push("max".to_owned());
        figures.push(format::or_dash(self.latency.max_us(), format::micros));
        align(&[names, figures])
    }

    /// Denials, errors, and how busy the client was.
    pub(super) fn outcome_rows(&self) -> Vec<(&'static str, String)> {
        let denied = match (self.denied, self.denied_percent()) {
            (Some(denied), Some(percent)) => format!("{} ({percent:.1} %)", format::count(denied)),
            _ => "not known: no reply says whether its call was denied".to_owned(),
        };
        let mut rows = vec![("denied", denied)];
        rows.push(("errors", format::count(self.errors)));
        for (text, count) in &self.errors_by_text {
            rows.push(("", format!("{} x {text}", format::count(*count))));
        }
        if self.unexpected_replies > 0 {
            rows.push(("unexpected replies", format::count(self.unexpected_replies)));
        }
        if let Some(silence) = self.longest_silence_seconds.filter(|seconds| *seconds >= SILENCE_SHOWN_MIN) {
            rows.push(("without a reply", format!("{silence:.3} s at the longest")));
        }
        rows.push(("client busy", format!("{:.0} %", self.client_busy_percent)));
        rows.extend(self.schedule.iter().flat_map(ScheduleReport::rows));
        rows.extend(self.verify.iter().flat_map(Verdict::rows));
        rows.extend(self.failover.iter().flat_map(Failover::rows));
        rows
    }

    /// What a latency is counted from.
    pub(super) fn latency_name(&self) -> &'static str {
        if self.schedule.is_some() { "since it was due" } else { "batch latency" }
    }
}

/// Every setting that has no row of its own.
fn others(settings: Vec<(String, String)>) -> String {
    let others = settings.into_iter().filter(|(name, _)| !SHOWN.contains(&name.as_str()));
    others.map(|(name, value)| format!("{name} {value}")).collect::<Vec<String>>().join(", ")
}

/// Names and figures in two columns.
pub(crate) fn rows_to_text(rows: &[(&'static str, String)]) -> String {
    let mut text = String::new();
    for (name, figure) in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:<24} {}", printable(figure));
    }
    text
}

/// Text from outside cannot steer a terminal.
fn printable(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}

/// Columns as wide as their widest cell, the first aligned left, the others right.
pub(crate) fn align(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.max().unwrap_or_default().max(if column == 0 { 0 } else { CELL_CHARS_MIN })
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(column, (cell, &width))| match column {
                0 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            })
            .collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}
