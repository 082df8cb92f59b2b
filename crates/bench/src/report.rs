//! The figures of a run: as a table for people, as one JSON object for scripts.

use crate::drive::Phase;
use crate::process::CpuTime;
use crate::punctual::ScheduleReport;
use crate::verify::Verdict;
use serde::Serialize;
use std::fmt::Write;
use std::time::Duration;

/// What was asked for, repeated in the report.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Setting {
    pub(crate) target: String,
    pub(crate) command: String,
    pub(crate) connections: usize,
    pub(crate) pipeline: usize,
    pub(crate) keys: u32,
    /// Keys among which the measured calls choose: fewer than `keys` if not all fit into the rendered calls.
    pub(crate) keys_measured: usize,
    pub(crate) key_bytes: usize,
    pub(crate) own_core: bool,
    pub(crate) seed: u64,
    pub(crate) threads: usize,
    /// The workload by name, none for a command of one's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) workload: Option<&'static str>,
    /// How the server was asked for the workload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) dialect: Option<&'static str>,
    /// uniform or zipf.
    pub(crate) key_distribution: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) zipf_exponent: Option<f64>,
    /// The share of denied calls that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) denied_share_asked: Option<f64>,
    /// Of an open loop: calls a second that were asked for, and how their batches are spread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rate: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) arrivals: Option<&'static str>,
}

/// What the server used while it was measured, and holds at the end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServerUse {
    pub(crate) cpu: CpuTime,
    pub(crate) rss_bytes: u64,
}

/// The report. The names of its fields are stable: scripts read them.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Report {
    calls: u64,
    seconds: f64,
    calls_per_second: f64,
    errors: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_error: Option<String>,
    denied: u64,
    unexpected_replies: u64,
    /// Latency of a whole batch, from its sending to its last reply.
    p50_us: f64,
    p99_us: f64,
    p999_us: f64,
    /// Share of the run that this client's thread spent on a CPU: near 100 the client was the bottleneck.
    client_busy_percent: f64,
    #[serde(flatten)]
    server: Option<ServerReport>,
    #[serde(flatten)]
    setting: Setting,
    /// How an open loop kept its schedule.
    #[serde(flatten)]
    schedule: Option<ScheduleReport>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verify: Option<Verdict>,
}

#[derive(Debug, Clone, Serialize)]
struct ServerReport {
    server_cpu_ns_per_call: f64,
    server_user_ns_per_call: f64,
    server_system_ns_per_call: f64,
    server_busy_percent: f64,
    server_rss_bytes: u64,
    server_rss_bytes_per_key: f64,
}

impl Report {
    /// Puts the figures of the measured phase together. `client_cpu` is the CPU time of this client's thread.
    pub(crate) fn new(setting: Setting, phase: &Phase, client_cpu: Duration, server: Option<ServerUse>) -> Report {
        let calls = phase.tally.replies;
        let quantile_us = |quantile| ratio(float(phase.batch_nanos.value_at_quantile(quantile)), 1_000.0);
        let percent_of_run = |time: Duration| ratio(time.as_secs_f64() * 100.0, phase.elapsed.as_secs_f64());
        let nanos_per_call = |time: Duration| ratio(time.as_secs_f64() * 1e9, float(calls));
        let server = server.map(|server| ServerReport {
            server_cpu_ns_per_call: nanos_per_call(server.cpu.total()),
            server_user_ns_per_call: nanos_per_call(server.cpu.user),
            server_system_ns_per_call: nanos_per_call(server.cpu.system),
            server_busy_percent: percent_of_run(server.cpu.total()),
            server_rss_bytes: server.rss_bytes,
            server_rss_bytes_per_key: ratio(float(server.rss_bytes), f64::from(setting.keys)),
        });
        Report {
            calls,
            seconds: round(phase.elapsed.as_secs_f64(), 6),
            calls_per_second: ratio(float(calls), phase.elapsed.as_secs_f64()),
            errors: phase.tally.errors,
            first_error: phase.tally.first_error.clone(),
            denied: phase.tally.denied,
            unexpected_replies: phase.tally.unexpected,
            p50_us: quantile_us(0.5),
            p99_us: quantile_us(0.99),
            p999_us: quantile_us(0.999),
            client_busy_percent: percent_of_run(client_cpu),
            server,
            setting,
            schedule: phase.punctuality.as_ref().map(|punctuality| ScheduleReport::new(punctuality, phase)),
            verify: None,
        }
    }

    /// Adds what checking every reply found.
    pub(crate) fn with_verdict(self, verify: Option<Verdict>) -> Report {
        Report { verify, ..self }
    }

    /// Whether every call was answered as it should be.
    pub(crate) fn is_clean(&self) -> bool {
        let is_verified = self.verify.as_ref().is_none_or(|verdict| verdict.violations == 0);
        self.errors == 0 && self.unexpected_replies == 0 && is_verified
    }

    /// One JSON object on one line.
    pub(crate) fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    /// A table of name and figure; the server's CPU time leads, as it moves least on a noisy machine.
    pub(crate) fn to_table(&self) -> String {
        let mut rows: Vec<(&str, String)> = vec![("command", self.setting.command.clone())];
        rows.push(("connections x pipeline", format!("{} x {}", self.setting.connections, self.setting.pipeline)));
        rows.push(("keys", format!("{} of {} bytes", self.setting.keys, self.setting.key_bytes)));
        if let Some(server) = &self.server {
            let (user, system) = (server.server_user_ns_per_call, server.server_system_ns_per_call);
            rows.push((
                "server CPU per call",
                format!("{:.0} ns ({user:.0} user, {system:.0} system)", server.server_cpu_ns_per_call),
            ));
            rows.push(("server busy", format!("{:.0} %", server.server_busy_percent)));
            let mebibytes = float(server.server_rss_bytes) / 1_048_576.0;
            let per_key = server.server_rss_bytes_per_key;
            rows.push(("server memory", format!("{mebibytes:.1} MiB, {per_key:.1} bytes a key")));
        }
        rows.push(("calls", format!("{} in {:.3} s", self.calls, self.seconds)));
        rows.push(("calls per second", format!("{:.0}", self.calls_per_second)));
        rows.push(("denied", self.denied.to_string()));
        rows.push(("errors", self.errors.to_string()));
        if let Some(text) = &self.first_error {
            rows.push(("first error", text.clone()));
        }
        if self.unexpected_replies > 0 {
            rows.push(("unexpected replies", self.unexpected_replies.to_string()));
        }
        let latency = format!("{:.0} / {:.0} / {:.0} us", self.p50_us, self.p99_us, self.p999_us);
        rows.push(("batch p50 / p99 / p99.9", latency));
        rows.push(("client busy", format!("{:.0} %", self.client_busy_percent)));
        rows.extend(self.schedule.iter().flat_map(ScheduleReport::rows));
        rows.extend(self.verify.iter().flat_map(Verdict::rows));
        let mut table = String::new();
        for (name, figure) in rows {
            // Writing to a string cannot fail.
            let _ = writeln!(table, "{name:<24} {figure}");
        }
        table
    }
}

/// A quotient with three decimals; 0 where nothing was measured, as JSON has no other number for it.
fn ratio(dividend: f64, divisor: f64) -> f64 {
    if divisor > 0.0 { round(dividend / divisor, 3) } else { 0.0 }
}

fn round(value: f64, decimals: i32) -> f64 {
    let scale = 10f64.powi(decimals);
    (value * scale).round() / scale
}

/// Counts of one run are far below 2^53, where a float stops being exact.
fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::Tally;
    use hdrhistogram::Histogram;

    fn sample(server: Option<ServerUse>) -> Report {
        let setting = Setting {
            target: "redis://h:1".into(),
            command: "PING".into(),
            connections: 2,
            pipeline: 3,
            keys: 100,
            keys_measured: 100,
            key_bytes: 24,
            own_core: false,
            seed: 1,
            threads: 1,
            workload: None,
            dialect: None,
            key_distribution: "uniform",
            zipf_exponent: None,
            denied_share_asked: None,
            rate: None,
            arrivals: None,
        };
        let mut batch_nanos = Histogram::new_with_bounds(1_000, 60_000_000_000, 3).unwrap();
        batch_nanos.record(2_000_000).unwrap();
        let tally = Tally { replies: 1_000, denied: 7, ..Tally::default() };
        let phase = Phase { tally, elapsed: Duration::from_secs(2), batch_nanos, punctuality: None };
        Report::new(setting, &phase, Duration::from_secs(1), server)
    }

    #[test]
    fn the_fields_that_scripts_read() {
        let cpu = CpuTime { user: Duration::from_millis(2), system: Duration::from_millis(1) };
        let report = sample(Some(ServerUse { cpu, rss_bytes: 6_400 }));
        let fields: serde_json::Value = serde_json::from_str(&report.to_json().unwrap()).unwrap();
        let expected = [
            ("calls", 1_000.0),
            ("seconds", 2.0),
            ("calls_per_second", 500.0),
            ("errors", 0.0),
            ("denied", 7.0),
            ("client_busy_percent", 50.0),
            ("server_cpu_ns_per_call", 3_000.0),
            ("server_user_ns_per_call", 2_000.0),
            ("server_system_ns_per_call", 1_000.0),
            ("server_rss_bytes", 6_400.0),
            ("server_rss_bytes_per_key", 64.0),
            ("connections", 2.0),
            ("pipeline", 3.0),
            ("keys", 100.0),
        ];
        for (name, value) in expected {
            assert_eq!(fields[name].as_f64(), Some(value), "{name}");
        }
        assert_eq!(fields["command"], "PING");
        assert!(fields["p999_us"].as_f64().unwrap() >= 1_998.0);
    }

    #[test]
    fn without_a_process_there_are_no_server_fields() {
        let report = sample(None);
        assert!(report.is_clean());
        assert!(!report.to_json().unwrap().contains("server_"));
        assert!(report.to_table().contains("calls per second         500\n"));
    }
}
