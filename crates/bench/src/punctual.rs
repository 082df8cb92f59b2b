//! The part of the report that says how an open loop kept its schedule.

use crate::drive::Phase;
use crate::format;
use crate::open::Punctuality;
use crate::report::Warning;
use serde::Serialize;

/// A client that is later than this with one batch in a hundred did not keep its schedule.
const LATE_MICROS_MAX: f64 = 500.0;

/// Less than this part of the asked rate is not the rate.
const REACHED_MIN: f64 = 0.99;

/// How an open loop kept its schedule. The names of the fields are stable: scripts read them.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ScheduleReport {
    /// Calls a second that were asked for.
    rate_asked: f64,
    /// Calls a second that were due: where they come at random, a little more or less than was asked for.
    rate_due: f64,
    /// Calls a second that were answered, over the schedule's time or until the last reply if that came later.
    rate_reached: f64,
    /// Calls that were due and never left, as the server was too far behind; their wait counts in the latencies.
    calls_unsent: u64,
    /// By how much batches left late although a connection was free: the client's own lateness. It is part of the
    /// latencies.
    client_late_p50_us: f64,
    client_late_p99_us: f64,
    client_late_max_us: f64,
    /// False if the client itself was late: the latencies are then partly its own.
    client_kept_schedule: bool,
    /// False if fewer calls were answered than asked for.
    rate_kept: bool,
}

impl ScheduleReport {
    /// Of a phase in an open loop.
    pub(crate) fn new(punctuality: &Punctuality, phase: &Phase) -> ScheduleReport {
        let per_second = |calls: u64, seconds: f64| if seconds > 0.0 { round(calls as f64 / seconds) } else { 0.0 };
        let late_us = |quantile| round(punctuality.late_nanos.value_at_quantile(quantile) as f64 / 1_000.0);
        let scheduled = punctuality.scheduled.as_secs_f64();
        let elapsed = phase.elapsed.as_secs_f64();
        // Independent callers are not as many as on average.
        let rate_due = per_second(punctuality.calls_due, if scheduled > 0.0 { scheduled } else { elapsed });
        let rate_reached = per_second(phase.tally.replies, elapsed);
        ScheduleReport {
            rate_asked: punctuality.rate as f64,
            rate_due,
            rate_reached,
            calls_unsent: punctuality.calls_unsent,
            client_late_p50_us: late_us(0.5),
            client_late_p99_us: late_us(0.99),
            client_late_max_us: late_us(1.0),
            client_kept_schedule: late_us(0.99) <= LATE_MICROS_MAX,
            rate_kept: punctuality.calls_unsent == 0 && rate_reached >= rate_due * REACHED_MIN,
        }
    }

    /// Lines of the report's table.
    pub(crate) fn rows(&self) -> Vec<(&'static str, String)> {
        let rates = [self.rate_asked, self.rate_due, self.rate_reached];
        let [asked, due, reached] = rates.map(|rate| format::count(rate.round() as u64));
        let late = [self.client_late_p50_us, self.client_late_p99_us, self.client_late_max_us];
        let [p50, p99, max] = late.map(format::micros);
        vec![
            ("rate asked, due, reached", format!("{asked}, {due}, {reached} a second")),
            ("calls never sent", format::count(self.calls_unsent)),
            ("client late", format!("p50 {p50}, p99 {p99}, max {max}")),
        ]
    }

    /// What a reader must know before trusting a latency.
    pub(crate) fn warnings(&self) -> Vec<(Warning, String)> {
        let mut warnings = Vec::new();
        if !self.client_kept_schedule {
            let text = "This client was late by itself: the latencies are partly its own.".to_owned();
            warnings.push((Warning::ClientLate, text));
        }
        if !self.rate_kept {
            let unsent = format::count(self.calls_unsent);
            let text = format!("The server fell behind the rate: {unsent} calls that were due never left.");
            warnings.push((Warning::RateNotKept, text));
        }
        warnings
    }
}

fn round(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}
