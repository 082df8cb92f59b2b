//! The figures of a run: as a table for people, as one JSON object for scripts, as a page for a browser.
//!
//! The server's own figures lead in each of them: its CPU time for a call moves least when the machine is shared.

mod fields;
mod html;
mod latency;
mod machine;
mod rerun;
mod table;

pub(crate) use html::{Axis, Chart, KEYS_MEASURED, Line, Page, Tile, latency_chart};
pub(crate) use latency::Latency;
pub(crate) use machine::Machine;
pub(crate) use rerun::command_line;
pub(crate) use table::{align, rows_to_text};

use crate::drive::Phase;
use crate::errors::ErrorTexts;
use crate::growth::Growth;
use crate::interrupt;
use crate::intervals::Interval;
use crate::process::{CpuUse, Sighting};
use crate::punctual::ScheduleReport;
use crate::verify::{Failover, Verdict};
use serde::Serialize;
use serde::ser::{SerializeSeq, Serializer};
use std::time::Duration;

/// A client that was on its CPU for a larger part of the run may have been what limited it.
const CLIENT_BUSY_PERCENT_MAX: f64 = 90.0;

/// With these errors a server says that it does not take calls now. What it charged before it said so is not known.
const OUTAGE_CODES: [&str; 3] = ["READONLY", "LOADING", "NOREPLICAS"];

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
    pub(crate) cpu: CpuUse,
    pub(crate) rss_bytes: u64,
    /// What touching the keys added, where it is known.
    pub(crate) growth: Option<Growth>,
}

/// The report. The names of its fields are stable: scripts read them.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Report {
    pub(crate) calls: u64,
    pub(crate) seconds: f64,
    pub(crate) calls_per_second: f64,
    pub(crate) errors: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_error: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "texts_and_counts")]
    errors_by_text: Vec<(String, u64)>,
    /// None if no reply said whether its call was denied.
    pub(crate) denied: Option<u64>,
    pub(crate) unexpected_replies: u64,
    /// Latency of a whole batch, from its sending to its last reply; none of no batch.
    pub(crate) p50_us: Option<f64>,
    pub(crate) p99_us: Option<f64>,
    pub(crate) p999_us: Option<f64>,
    pub(crate) latency: Latency,
    /// Share of the run that this client's thread spent on a CPU: near 100 the client was the bottleneck.
    client_busy_percent: f64,
    #[serde(flatten)]
    pub(crate) server: Option<ServerReport>,
    #[serde(flatten)]
    seen: Seen,
    #[serde(flatten)]
    setting: Setting,
    /// How an open loop kept its schedule.
    #[serde(flatten)]
    schedule: Option<ScheduleReport>,
    /// Of a closed loop: the longest time without any reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    longest_silence_seconds: Option<f64>,
    /// Whether a signal ended the measuring early.
    pub(crate) interrupted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    verify: Option<Verdict>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failover: Option<Failover>,
    /// Errors that a server which goes, and one which is not ready yet, are bound to cause.
    #[serde(skip)]
    errors_of_outage: u64,
    #[serde(flatten)]
    full: Option<Full>,
}

/// What the server used.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ServerReport {
    pub(crate) server_cpu_ns_per_call: f64,
    /// Whether the CPU time is exact, or counted in clock ticks.
    server_cpu_is_exact: bool,
    pub(crate) server_user_ns_per_call: f64,
    pub(crate) server_system_ns_per_call: f64,
    server_busy_percent: f64,
    server_rss_bytes: u64,
    /// What the process grew by while every key was called once, for each key that came; none where that is not known.
    pub(crate) server_rss_bytes_per_key: Option<f64>,
    /// Keys that came meanwhile.
    server_keys_made: Option<u64>,
}

/// Which process the server's figures are of, or why there are none.
#[derive(Debug, Clone, Default, Serialize)]
struct Seen {
    #[serde(skip_serializing_if = "Option::is_none")]
    server_pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_process: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_unseen: Option<String>,
    /// The process that listens at the target, where --pid named another.
    #[serde(skip)]
    listener: Option<u32>,
    /// It was seen, but not to the end.
    #[serde(skip)]
    has_ended: bool,
}

/// What spoils a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Warning {
    /// A signal ended the run before its time.
    Interrupted,
    /// The client may have been what limited the rate.
    ClientBusy,
    /// The client did not send when it was to.
    ClientLate,
    /// The server did not keep up with the rate.
    RateNotKept,
    /// The limits could not be checked.
    Unchecked,
    /// A limit was broken.
    Violations,
    /// The server's CPU time is not exact.
    ClockTicks,
    /// Replies do not look like one another.
    OtherShapes,
    /// The process that was looked at does not listen at the target.
    OtherProcess,
}

/// What a report in a file holds besides: it will be read without the terminal and the machine beside it.
#[derive(Debug, Clone, Serialize)]
struct Full {
    /// The command that was given, without credentials.
    command_line: String,
    machine: Machine,
    intervals: Vec<Interval>,
}

impl Report {
    /// Puts the figures of the measured phase together. `client_cpu` is the CPU time of this client's thread.
    pub(crate) fn new(setting: Setting, phase: &Phase, client_cpu: Duration, server: Option<ServerUse>) -> Report {
        let calls = phase.tally.replies;
        let percent_of_run = |time: Duration| ratio(time.as_secs_f64() * 100.0, phase.elapsed.as_secs_f64());
        // JSON has null for what is no number.
        let nanos_per_call =
            |time: Duration| if calls == 0 { f64::NAN } else { ratio(time.as_secs_f64() * 1e9, float(calls)) };
        let server = server.map(|server| ServerReport {
            server_cpu_ns_per_call: nanos_per_call(server.cpu.total()),
            server_cpu_is_exact: server.cpu.is_exact,
            server_user_ns_per_call: nanos_per_call(server.cpu.user),
            server_system_ns_per_call: nanos_per_call(server.cpu.system),
            server_busy_percent: percent_of_run(server.cpu.total()),
            server_rss_bytes: server.rss_bytes,
            server_rss_bytes_per_key: server.growth.map(|growth| ratio(float(growth.bytes), float(growth.keys))),
            server_keys_made: server.growth.map(|growth| growth.keys),
        });
        let latency = Latency::new(phase.batch_nanos.clone());
        Report {
            calls,
            seconds: round(phase.elapsed.as_secs_f64(), 6),
            calls_per_second: ratio(float(calls), phase.elapsed.as_secs_f64()),
            errors: phase.tally.errors,
            first_error: phase.tally.first_error.clone(),
            errors_by_text: ErrorTexts::by_count(&phase.tally.error_texts),
            denied: (phase.tally.telling > 0).then_some(phase.tally.denied),
            unexpected_replies: phase.tally.unexpected,
            p50_us: latency.percentile_us(50.0),
            p99_us: latency.percentile_us(99.0),
            p999_us: latency.percentile_us(99.9),
            latency,
            client_busy_percent: percent_of_run(client_cpu),
            server,
            seen: Seen::default(),
            setting,
            schedule: phase.punctuality.as_ref().map(|punctuality| ScheduleReport::new(punctuality, phase)),
            longest_silence_seconds: phase.longest_silence.map(|silence| round(silence.as_secs_f64(), 6)),
            interrupted: interrupt::signal().is_some(),
            verify: None,
            failover: None,
            errors_of_outage: phase.tally.lost.saturating_add(phase.tally.error_texts.of_codes(&OUTAGE_CODES)),
            full: None,
        }
    }

    /// Says which process the server's figures are of, or why there are none.
    pub(crate) fn tell_server(&mut self, sighting: &Sighting) {
        self.seen = match sighting {
            Sighting::Seen { pid, name, .. } if self.server.is_none() => {
                let reason = format!("process {pid} {name} ended before the measuring did");
                Seen { server_unseen: Some(reason), has_ended: true, ..Seen::default() }
            }
            Sighting::Seen { pid, name, listener } => Seen {
                server_pid: Some(*pid),
                server_process: Some(name.clone()),
                listener: *listener,
                ..Seen::default()
            },
            Sighting::Unseen { reason } => Seen { server_unseen: Some(reason.clone()), ..Seen::default() },
        };
    }

    /// Takes what a key takes of the server's memory over from a run that made the keys.
    pub(crate) fn take_memory_per_key(&mut self, made: &Report) {
        if let (Some(own), Some(made)) = (&mut self.server, &made.server) {
            own.server_rss_bytes_per_key = made.server_rss_bytes_per_key;
            own.server_keys_made = made.server_keys_made;
        }
    }

    /// The share of denied calls in percent, 0 to 100; none if the replies do not tell.
    pub(crate) fn denied_percent(&self) -> Option<f64> {
        self.denied.map(|denied| ratio(float(denied) * 100.0, float(self.calls)))
    }

    /// Adds what a report in a file holds besides the figures.
    pub(crate) fn complete(&mut self, command_line: String, machine: Machine, intervals: Vec<Interval>) {
        self.full = Some(Full { command_line, machine, intervals });
    }

    /// The names and values of all settings.
    pub(crate) fn settings(&self) -> Vec<(String, String)> {
        fields::of(&self.setting)
    }

    /// Which process the server's figures are of, or why there are none.
    pub(crate) fn server_in_words(&self) -> String {
        match (&self.seen.server_unseen, self.seen.server_pid, &self.seen.server_process) {
            (Some(reason), _, _) => format!("CPU not measured: {reason}"),
            (None, Some(pid), Some(name)) => format!("process {pid} {name}"),
            _ => String::new(),
        }
    }

    /// Adds what checking every reply found, and what a failover cost.
    pub(crate) fn with_verdict(self, verify: Option<Verdict>, failover: Option<Failover>) -> Report {
        Report { verify, failover, ..self }
    }

    /// Whether every call was answered as it should be.
    pub(crate) fn is_clean(&self) -> bool {
        let is_verified = self.verify.as_ref().is_none_or(|verdict| verdict.violations == 0 && verdict.limits_checked);
        let (errors, went_on) = match &self.failover {
            Some(failover) => (self.errors.saturating_sub(self.errors_of_outage), failover.went_on()),
            None => (self.errors, true),
        };
        errors == 0 && went_on && self.unexpected_replies == 0 && is_verified
    }

    /// One JSON object on one line: the fields, and the warnings.
    pub(crate) fn to_json(&self) -> Result<String, serde_json::Error> {
        #[derive(Serialize)]
        struct Whole<'a> {
            #[serde(flatten)]
            report: &'a Report,
            warnings: Vec<String>,
        }
        serde_json::to_string(&Whole { report: self, warnings: self.warnings() })
    }

    /// What a reader must know before trusting a figure, in sentences.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.kinds_of_warnings().into_iter().map(|(_, text)| text).collect()
    }

    /// The warnings, each of another kind.
    pub(crate) fn kinds_of_warnings(&self) -> Vec<(Warning, String)> {
        let mut warnings = Vec::new();
        if self.interrupted {
            let text = format!("Interrupted: the figures are of the {:.3} s until then.", self.seconds);
            warnings.push((Warning::Interrupted, text));
        }
        // An open loop waits for the next due time on its CPU, so there only its lateness tells.
        if self.schedule.is_none() && self.client_busy_percent > CLIENT_BUSY_PERCENT_MAX {
            let text = format!(
                "The client was busy {:.0} % of the time: it may have limited the rate, and made the latencies longer.",
                self.client_busy_percent
            );
            warnings.push((Warning::ClientBusy, text));
        }
        if let Some(schedule) = &self.schedule {
            warnings.extend(schedule.warnings());
        }
        if let Some(doubt) = self.verify.as_ref().and_then(|verdict| verdict.clock_doubt.as_ref()) {
            warnings.push((Warning::Unchecked, format!("The limits could not be checked: {doubt}.")));
        }
        if let Some(verdict) = self.verify.as_ref().filter(|verdict| verdict.violations > 0) {
            let text = format!("{} replies broke their limit.", verdict.violations);
            warnings.push((Warning::Violations, text));
        }
        if self.server.as_ref().is_some_and(|server| !server.server_cpu_is_exact) {
            let text = "The server's CPU time is counted in clock ticks: short runs are not exact.".to_owned();
            warnings.push((Warning::ClockTicks, text));
        }
        if let (Some(pid), Some(listener)) = (self.seen.server_pid, self.seen.listener) {
            let text = format!(
                "The server's figures are those of process {pid}, as --pid says, but it is process {listener} that \
                 listens at the target."
            );
            warnings.push((Warning::OtherProcess, text));
        }
        if self.unexpected_replies > 0 {
            let text = format!("{} replies are of another shape than the first reply.", self.unexpected_replies);
            warnings.push((Warning::OtherShapes, text));
        }
        warnings
    }
}

/// As a list of objects, since a text may be anything.
fn texts_and_counts<S: Serializer>(counts: &[(String, u64)], serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Row<'a> {
        text: &'a str,
        count: u64,
    }
    let mut list = serializer.serialize_seq(Some(counts.len()))?;
    for (text, count) in counts {
        list.serialize_element(&Row { text, count: *count })?;
    }
    list.end()
}

/// A quotient with three decimals; 0 where nothing was measured, as JSON has no other number for it.
pub(crate) fn ratio(dividend: f64, divisor: f64) -> f64 {
    if divisor > 0.0 { round(dividend / divisor, 3) } else { 0.0 }
}

pub(crate) fn round(value: f64, decimals: i32) -> f64 {
    let scale = 10f64.powi(decimals);
    (value * scale).round() / scale
}

/// Counts of one run are far below 2^53, where a float stops being exact.
pub(crate) fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
pub(crate) mod tests;
