//! What a failover cost, counted over both servers from the records of all calls.
//!
//! The problem: a server that takes over may have been told less than was admitted, and admits that much again. It
//! cannot say how much, as it does not know what it never heard. The idea: callers know what they were answered. All
//! replies are held against the limits as if one server had given them, so what was admitted above a limit is what was
//! forgotten and used again; and it is set beside what the first server said of itself before it went.
//!
//! ```text
//!   first server    admitted ── scraped: overshoot O ── U units answered since ── killed
//!   second server                                                                 └── admitted ── denied
//!                                                                     above the limits: at most O + U
//! ```
//!
//! What was forgotten of a key shows only once its limit is used up again, which its first denial by the second server
//! proves: so these keys are counted too.

use super::record::{Origin, Outcome};
use super::{Recorder, Verdict};
use crate::format;
use serde::Serialize;
use std::time::Instant;

/// What the first server said of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scrape {
    /// Before it was asked, in microseconds of the run.
    pub(crate) asked_micros: u64,
    /// Units that it had admitted and that its replicas had not acknowledged.
    pub(crate) overshoot: u64,
}

/// How the connections of one thread, or of all, went over.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Transfer {
    /// How often one was lost.
    pub(crate) connections_lost: u64,
    /// When the first was.
    pub(crate) lost_at: Option<Instant>,
}

/// What came of it. The names of its fields are stable: scripts read them.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Failover {
    /// The server that takes over.
    pub(crate) target: String,
    /// How often a connection was lost, on either server.
    pub(crate) connections_lost: u64,
    /// Calls that were sent and never answered: charged or not, and admitted to nobody.
    pub(crate) calls_lost: u64,
    /// Seconds from the begin of the run until the first connection was lost; none if none was.
    pub(crate) lost_at_seconds: Option<f64>,
    /// Until the first answer of the second server that was no error.
    pub(crate) answered_at_seconds: Option<f64>,
    /// Units admitted by each of the two.
    pub(crate) units_by_first: u64,
    pub(crate) units_by_second: u64,
    /// Keys of which the second server denied a call: what was forgotten of them has been used again.
    pub(crate) keys_denied_by_second: u64,
    /// Units admitted above the limits, over both servers, all keys and all windows: the least that it can have been.
    pub(crate) units_above_limits: u64,
    /// What `--overshoot-max` allows; none if that is any number.
    pub(crate) overshoot_max: Option<u64>,
    /// What the first server said last of what a failover would forget; none if it never did.
    pub(crate) overshoot_scraped: Option<u64>,
    /// When it was asked for that.
    pub(crate) scraped_at_seconds: Option<f64>,
    /// Units that it admitted in answers that came after it was asked.
    pub(crate) units_since_scrape: Option<u64>,
}

impl Transfer {
    /// A connection was lost.
    pub(crate) fn lost(&mut self, now: Instant) {
        self.connections_lost = self.connections_lost.saturating_add(1);
        self.lost_at.get_or_insert(now);
    }

    /// Adds another thread's.
    pub(crate) fn add(&mut self, other: Transfer) {
        self.connections_lost = self.connections_lost.saturating_add(other.connections_lost);
        self.lost_at = [self.lost_at, other.lost_at].into_iter().flatten().min();
    }
}

impl Failover {
    /// Counts what the records tell; `rules` are the limits of a call, and `epoch` is when the run began. What was
    /// admitted above the limits is still to be [judged](Failover::with_verdict).
    pub(crate) fn count(
        target: String,
        recorders: &[Recorder],
        rules: usize,
        transfer: Transfer,
        scrape: Option<Scrape>,
        epoch: Instant,
    ) -> Failover {
        let rules_u64 = u64::try_from(rules).unwrap_or(1).max(1);
        let (mut lost, mut since_scrape, mut by_first, mut by_second) = (0_u64, 0_u64, 0_u64, 0_u64);
        let mut answered_micros: Option<u64> = None;
        let mut denied_keys = Vec::new();
        for record in recorders.iter().flat_map(|recorder| &recorder.records) {
            let Some(answered) = record.answered_micros() else {
                lost = lost.saturating_add(1);
                continue;
            };
            let (outcome, server) = (record.outcome(), record.server());
            if server == Origin::Second && outcome != Outcome::Unknown {
                answered_micros = Some(answered_micros.map_or(answered, |least| least.min(answered)));
            }
            match (outcome, server) {
                (Outcome::Admitted, Origin::First) => {
                    let is_since = scrape.is_some_and(|scrape| answered >= scrape.asked_micros);
                    since_scrape = since_scrape.saturating_add(u64::from(is_since));
                    by_first = by_first.saturating_add(1);
                }
                (Outcome::Admitted, Origin::Second) => by_second = by_second.saturating_add(1),
                (Outcome::Denied, Origin::Second) => {
                    mark(&mut denied_keys, u64::from(record.limit_number()) / rules_u64)
                }
                _ => {}
            }
        }
        let seconds = |micros: u64| micros as f64 / 1e6;
        Failover {
            target,
            connections_lost: transfer.connections_lost,
            calls_lost: lost / rules_u64,
            lost_at_seconds: transfer.lost_at.map(|at| at.saturating_duration_since(epoch).as_secs_f64()),
            answered_at_seconds: answered_micros.map(seconds),
            units_by_first: by_first,
            units_by_second: by_second,
            keys_denied_by_second: denied_keys.iter().map(|is_denied| u64::from(*is_denied)).sum(),
            overshoot_scraped: scrape.map(|scrape| scrape.overshoot),
            scraped_at_seconds: scrape.map(|scrape| seconds(scrape.asked_micros)),
            units_since_scrape: scrape.map(|_| since_scrape),
            ..Failover::default()
        }
    }

    /// With what holding the calls against their limits found.
    pub(crate) fn with_verdict(self, verdict: &Verdict) -> Failover {
        let (units_above_limits, overshoot_max) = (verdict.over_admitted, verdict.overshoot_allowed);
        Failover { units_above_limits, overshoot_max, ..self }
    }

    /// Whether the calls went on, if they had to.
    pub(crate) fn went_on(&self) -> bool {
        self.lost_at_seconds.is_none() || self.answered_at_seconds.is_some()
    }

    /// Lines of the report's table.
    pub(crate) fn rows(&self) -> Vec<(&'static str, String)> {
        let count = format::count;
        let taken_over = match (self.lost_at_seconds, self.answered_at_seconds) {
            (None, _) => "not needed: no connection was lost".to_owned(),
            (Some(lost), None) => format!("{} never answered; connections were lost at {lost:.3} s", self.target),
            (Some(lost), Some(answered)) => format!(
                "{}: connections were lost at {lost:.3} s, it answered {:.3} s later; {} calls were lost",
                self.target,
                answered - lost,
                count(self.calls_lost)
            ),
        };
        let most =
            self.overshoot_max.map_or("any number allowed".to_owned(), |most| format!("{} allowed", count(most)));
        let above = format!("{} ({most})", count(self.units_above_limits));
        let mut rows = vec![("failover to", taken_over), ("units above limits", above)];
        if let (Some(overshoot), Some(since)) = (self.overshoot_scraped, self.units_since_scrape) {
            let said = format!("{}, and {} units answered since", count(overshoot), count(since));
            rows.push(("overshoot last seen", said));
        }
        rows
    }
}

/// Sets the mark of a key, of which there are at most twenty million.
fn mark(marks: &mut Vec<bool>, key: u64) {
    let place = usize::try_from(key).unwrap_or(usize::MAX);
    if place >= marks.len() {
        marks.resize(place.saturating_add(1), false);
    }
    if let Some(mark) = marks.get_mut(place) {
        *mark = true;
    }
}
