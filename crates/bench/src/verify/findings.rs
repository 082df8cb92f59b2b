//! What the checks found: counts, and the first reply that broke the limit, in words.

use super::ANY_OVERSHOOT;
use crate::format;
use serde::Serialize;

/// What is wrong with a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// More were admitted than the limit allows.
    OverAdmitted,
    /// Denied although the limit surely was not used up.
    DishonestDenial,
    /// What the reply says besides cannot be.
    Inconsistent,
}

/// The result of a verified run.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Verdict {
    /// Calls whose replies were held against their limits, those that only touched keys and warmed included.
    pub(crate) calls_checked: u64,
    /// Keys that they went to.
    pub(crate) keys: u64,
    /// Calls that failed: whether they were charged is unknown, and they count for neither side.
    pub(crate) unknown: u64,
    /// Replies that broke their limit, `over_admitted` beyond the allowed overshoot included.
    pub(crate) violations: u64,
    /// Calls that were admitted beyond a limit.
    pub(crate) over_admitted: u64,
    /// Calls that were denied although there was room.
    pub(crate) dishonest_denials: u64,
    /// Replies whose remaining, retry or reset cannot be, or of a form that the command does not have.
    pub(crate) inconsistent_replies: u64,
    /// What `--overshoot-max` allows; none if that is any number.
    pub(crate) overshoot_allowed: Option<u64>,
    /// The earliest of the violations, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) first_violation: Option<String>,
    /// How uncertain the server's clock is, seen from here; 0 if it does not matter.
    pub(crate) clock_slack_us: u64,
    /// False if the server's clock leaves it open whether the limits were kept: the counts then mean nothing.
    pub(crate) limits_checked: bool,
    /// Why they could not be checked, as a sentence without its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) clock_doubt: Option<String>,
    /// The longest time between sending and reply among the answered calls.
    pub(crate) widest_call_us: u64,
}

impl Verdict {
    /// Lines of the report's table.
    pub(crate) fn rows(&self) -> Vec<(&'static str, String)> {
        let Verdict { calls_checked, keys, unknown, violations, .. } = self;
        let mut checked = format!("{calls_checked} calls on {keys} keys");
        if *unknown > 0 {
            checked = format!("{checked}, and {unknown} that failed");
        }
        let mut rows = vec![("verified", checked), ("violations", violations.to_string())];
        if self.over_admitted > 0 {
            let allowed = self.overshoot_allowed.map_or("any number".to_owned(), |most| most.to_string());
            rows.push(("admitted beyond a limit", format!("{} ({allowed} allowed)", self.over_admitted)));
        }
        if self.dishonest_denials > 0 {
            rows.push(("denied without reason", self.dishonest_denials.to_string()));
        }
        if self.inconsistent_replies > 0 {
            rows.push(("inconsistent replies", self.inconsistent_replies.to_string()));
        }
        if self.clock_slack_us > 0 {
            let slack = format::micros(self.clock_slack_us as f64);
            rows.push(("server's clock", format!("known to within {slack}")));
        }
        rows.extend(self.first_violation.iter().map(|words| ("first violation", words.clone())));
        rows
    }
}

/// Counts as they are made.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) over_admitted: u64,
    pub(super) dishonest_denials: u64,
    pub(super) inconsistent: u64,
    /// The earliest admission too many, and the earliest other fault: when, and in words.
    first_over: Option<(i64, String)>,
    first_other: Option<(i64, String)>,
}

impl Findings {
    /// Notes a fault; `words` are asked for only if it is the earliest.
    pub(super) fn add(&mut self, fault: Fault, at: i64, words: impl FnOnce() -> String) {
        let (count, first) = match fault {
            Fault::OverAdmitted => (&mut self.over_admitted, &mut self.first_over),
            Fault::DishonestDenial => (&mut self.dishonest_denials, &mut self.first_other),
            Fault::Inconsistent => (&mut self.inconsistent, &mut self.first_other),
        };
        *count = count.saturating_add(1);
        if first.as_ref().is_none_or(|(earliest, _)| at < *earliest) {
            *first = Some((at, words()));
        }
    }

    /// Puts the result together; admissions within the overshoot are none that break the limit.
    pub(super) fn verdict(self, overshoot: u64) -> Verdict {
        let over = self.over_admitted.saturating_sub(overshoot);
        let first_over = self.first_over.filter(|_| over > 0);
        let first = [first_over, self.first_other].into_iter().flatten().min_by_key(|(at, _)| *at);
        Verdict {
            violations: over.saturating_add(self.dishonest_denials).saturating_add(self.inconsistent),
            over_admitted: self.over_admitted,
            dishonest_denials: self.dishonest_denials,
            inconsistent_replies: self.inconsistent,
            overshoot_allowed: (overshoot != ANY_OVERSHOOT).then_some(overshoot),
            first_violation: first.map(|(_, words)| words),
            ..Verdict::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_fault_has_a_line() {
        let mut findings = Findings::default();
        let faults = [Fault::OverAdmitted, Fault::DishonestDenial, Fault::Inconsistent, Fault::Inconsistent];
        for (at, fault) in (0..).zip(faults) {
            findings.add(fault, at, || format!("fault {at}"));
        }
        let rows = findings.verdict(0).rows();
        let expected = [
            ("violations", "4"),
            ("admitted beyond a limit", "1 (0 allowed)"),
            ("denied without reason", "1"),
            ("inconsistent replies", "2"),
            ("first violation", "fault 0"),
        ];
        assert_eq!(rows.iter().skip(1).map(|(name, text)| (*name, text.as_str())).collect::<Vec<_>>(), expected);
    }
}
