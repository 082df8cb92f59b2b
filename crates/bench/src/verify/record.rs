//! What is kept of every call: 32 bytes for each of its limits.

use super::{RULES_MAX, Watch};
use crate::error::BenchError;
use crate::scan::Sink;
use crate::workload::Form;
use std::time::Instant;

/// Records that are kept in all: 1 GiB.
pub(crate) const RECORDS_MAX: usize = 1 << 25;

/// A call that never ends, as seen from here.
pub(crate) const FOREVER: u32 = u32::MAX;

/// A retry of -1: never.
pub(crate) const NEVER: u32 = u32::MAX;

/// A retry too long to be kept: at least so much.
pub(crate) const LONG: u32 = u32::MAX - 1;

/// Integers of the longest reply.
const INTEGERS_MAX: usize = 2 + 5 * RULES_MAX;

/// The two highest bits of a record's key say what became of the call.
const OUTCOME_SHIFT: u32 = 30;

/// The bit below them says which server answered.
const SECOND_SERVER: u32 = 1 << 29;

/// Which server a connection leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The target.
    First,
    /// The one that took over.
    Second,
}

/// What became of a call at one limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Admitted, and charged.
    Admitted,
    /// Refused by this limit.
    Denied,
    /// Refused by another limit of the same call, while this one would have admitted it.
    Passed,
    /// An error, or no reply: charged or not.
    Unknown,
}

/// What a reply says about one limit, as it stands there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stated {
    pub(crate) outcome: Outcome,
    pub(crate) limit: u64,
    pub(crate) remaining: u64,
    pub(crate) retry: u32,
    pub(crate) reset: u64,
}

/// What a reply says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer {
    stated: [Stated; RULES_MAX],
    /// Why the reply is none that the command can give.
    fault: Option<&'static str>,
}

/// One call at one limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record {
    /// Not after it was sent, in microseconds of the run.
    pub(crate) sent_micros: u64,
    /// As stated, in the unit of the reply.
    pub(crate) reset: u64,
    /// The limit's number (key times limits a call, and the place of the limit in it), and what became of it.
    limit_and_outcome: u32,
    /// From `sent_micros` until not before the reply was read.
    pub(crate) width_micros: u32,
    /// As stated.
    pub(crate) remaining: u32,
    /// As stated, in the unit of the reply.
    pub(crate) retry: u32,
}

impl Record {
    /// Which limit this is about: its key times the limits of a call, and its place among them.
    pub(crate) fn limit_number(&self) -> u32 {
        self.limit_and_outcome & (SECOND_SERVER - 1)
    }

    /// Who answered; a call without an answer is of the first server.
    pub(crate) fn server(&self) -> Origin {
        if self.limit_and_outcome & SECOND_SERVER == 0 { Origin::First } else { Origin::Second }
    }

    /// When the reply had been read, in microseconds of the run, rounded up; none of a call without a reply.
    pub(crate) fn answered_micros(&self) -> Option<u64> {
        (self.width_micros != FOREVER).then(|| self.sent_micros.saturating_add(u64::from(self.width_micros)))
    }

    /// What became of the call.
    pub(crate) fn outcome(&self) -> Outcome {
        match self.limit_and_outcome >> OUTCOME_SHIFT {
            0 => Outcome::Admitted,
            1 => Outcome::Denied,
            2 => Outcome::Passed,
            _ => Outcome::Unknown,
        }
    }
}

/// Collects the integers of replies as they are scanned.
#[derive(Debug)]
pub(crate) struct Capture {
    form: Form,
    rules: usize,
    integers: [i64; INTEGERS_MAX],
    count: usize,
    /// Whole replies of the read that is being scanned.
    answers: Vec<Answer>,
}

impl Capture {
    /// Reads replies of one form, with so many limits.
    pub(crate) fn new(form: Form, rules: usize) -> Capture {
        Capture { form, rules, integers: [0; INTEGERS_MAX], count: 0, answers: Vec::new() }
    }

    /// Hands out the replies of the last read, in order.
    pub(crate) fn take(&mut self) -> std::vec::Drain<'_, Answer> {
        self.answers.drain(..)
    }

    /// Forgets a reply that will not be finished.
    pub(crate) fn restart(&mut self) {
        self.count = 0;
        self.answers.clear();
    }

    fn read(&self) -> Answer {
        let integers = self.integers.get(..self.count).unwrap_or_default();
        let read = match (self.form, integers) {
            (Form::Five, [allowed, limit, remaining, retry, reset])
            | (Form::Throttle, [allowed, limit, remaining, reset, retry]) => {
                five([*allowed, *limit, *remaining, *retry, *reset]).map(|stated| [stated; RULES_MAX])
            }
            (Form::Cell, [limited, limit, remaining, retry, reset]) => {
                cell([*limited, *limit, *remaining, *retry, *reset]).map(|stated| [stated; RULES_MAX])
            }
            (Form::All, [allowed, _, fives @ ..]) if fives.len() == self.rules.saturating_mul(5) => {
                all(*allowed, fives)
            }
            _ => Err("a reply of another form"),
        };
        match read {
            Ok(stated) => Answer { stated, fault: None },
            Err(fault) => Answer { stated: [UNKNOWN; RULES_MAX], fault: Some(fault) },
        }
    }
}

impl Sink for Capture {
    const WANTS_INTEGERS: bool = true;

    fn integer(&mut self, value: i64) {
        if let Some(place) = self.integers.get_mut(self.count) {
            *place = value;
        }
        self.count = self.count.saturating_add(1);
    }

    fn end(&mut self, is_error: bool) {
        let answer = if is_error { Answer { stated: [UNKNOWN; RULES_MAX], fault: None } } else { self.read() };
        self.answers.push(answer);
        self.count = 0;
    }
}

const UNKNOWN: Stated = Stated { outcome: Outcome::Unknown, limit: 0, remaining: 0, retry: 0, reset: 0 };

fn five([allowed, limit, remaining, retry, reset]: [i64; 5]) -> Result<Stated, &'static str> {
    let outcome = match allowed {
        1 => Outcome::Admitted,
        0 => Outcome::Denied,
        _ => return Err("allowed is neither 0 nor 1"),
    };
    let natural = |value: i64| u64::try_from(value).map_err(|_| "a number below zero that cannot be");
    let retry = if retry == -1 { NEVER } else { u32::try_from(natural(retry)?).unwrap_or(LONG).min(LONG) };
    Ok(Stated { outcome, limit: natural(limit)?, remaining: natural(remaining)?, retry, reset: natural(reset)? })
}

/// redis-cell says it the other way round, and an admitted call's retry is -1.
fn cell([limited, limit, remaining, retry, reset]: [i64; 5]) -> Result<Stated, &'static str> {
    match limited {
        0 if retry == -1 => five([1, limit, remaining, 0, reset]),
        1 => five([0, limit, remaining, retry, reset]),
        _ => Err("limited is neither 0 nor 1, or an admitted call is told to wait"),
    }
}

fn all(allowed: i64, fives: &[i64]) -> Result<[Stated; RULES_MAX], &'static str> {
    let mut stated = [UNKNOWN; RULES_MAX];
    for (place, integers) in stated.iter_mut().zip(fives.chunks_exact(5)) {
        if let [allowed, limit, remaining, retry, reset] = integers {
            *place = five([*allowed, *limit, *remaining, *retry, *reset])?;
        }
    }
    let is_refused = stated.iter().any(|one| one.outcome == Outcome::Denied);
    match (allowed, is_refused) {
        (1, false) => Ok(stated),
        (0, true) => {
            for one in stated.iter_mut().filter(|one| one.outcome == Outcome::Admitted) {
                one.outcome = Outcome::Passed;
            }
            Ok(stated)
        }
        (1, true) => Err("admitted although one of its limits refuses"),
        (0, false) => Err("denied although none of its limits refuses"),
        _ => Err("allowed is neither 0 nor 1"),
    }
}

/// The calls of one thread.
#[derive(Debug)]
pub(crate) struct Recorder {
    pub(crate) records: Vec<Record>,
    /// Replies that no server of this command gives, and the first of them.
    pub(crate) faults: u64,
    pub(crate) first_fault: Option<(u32, &'static str)>,
    most: usize,
    epoch: Instant,
    rules: usize,
    first_denied: u32,
    limits: [[u64; RULES_MAX]; 2],
}

impl Recorder {
    /// Keeps at most `most` records; times are counted from `epoch`.
    pub(crate) fn new(watch: &Watch, epoch: Instant, most: usize) -> Recorder {
        let mut limits = [[0; RULES_MAX]; 2];
        for (kept, policies) in limits.iter_mut().zip([&watch.admitted, &watch.denied]) {
            kept.iter_mut().zip(policies).for_each(|(limit, policy)| *limit = policy.limit());
        }
        let (rules, first_denied) = (watch.rules(), watch.first_denied);
        Recorder { records: Vec::new(), faults: 0, first_fault: None, most, epoch, rules, first_denied, limits }
    }

    /// A call of `key` that was sent at `sent` has been answered by `now`, by `server`.
    pub(crate) fn answered(
        &mut self,
        key: u32,
        sent: Instant,
        now: Instant,
        answer: &Answer,
        server: Origin,
    ) -> Result<(), BenchError> {
        let family = usize::from(key >= self.first_denied);
        let limits = self.limits.get(family).copied().unwrap_or_default();
        let mut fault = answer.fault;
        let end_micros = self.micros(now).saturating_add(1);
        let sent_micros = self.micros(sent);
        let width = end_micros.saturating_sub(sent_micros);
        for (place, (stated, limit)) in answer.stated.iter().zip(limits).enumerate().take(self.rules) {
            if stated.outcome != Outcome::Unknown && stated.limit != limit {
                fault = fault.or(Some("the limit that is stated is not the one that was asked for"));
            }
            self.push(key, place, (sent_micros, width), stated, server)?;
        }
        if let Some(fault) = fault {
            self.faults = self.faults.saturating_add(1);
            self.first_fault.get_or_insert((key, fault));
        }
        Ok(())
    }

    /// A call of `key` that was sent at `sent` will never be answered.
    pub(crate) fn lost(&mut self, key: u32, sent: Instant) -> Result<(), BenchError> {
        let sent_micros = self.micros(sent);
        for place in 0..self.rules {
            self.push(key, place, (sent_micros, u64::from(FOREVER)), &UNKNOWN, Origin::First)?;
        }
        Ok(())
    }

    fn push(
        &mut self,
        key: u32,
        place: usize,
        (sent, width): (u64, u64),
        stated: &Stated,
        server: Origin,
    ) -> Result<(), BenchError> {
        if self.records.len() >= self.most {
            return Err(BenchError::TooManyToVerify { most: RECORDS_MAX });
        }
        let small = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        let outcome: u32 = match stated.outcome {
            Outcome::Admitted => 0,
            Outcome::Denied => 1,
            Outcome::Passed => 2,
            Outcome::Unknown => 3,
        };
        // Below 2^29: a verified run has at most ten million keys in each family.
        let limit_number = key
            .saturating_mul(small(self.rules.try_into().unwrap_or(1)))
            .saturating_add(small(place.try_into().unwrap_or(0)));
        let of_server = if server == Origin::Second { SECOND_SERVER } else { 0 };
        self.records.push(Record {
            sent_micros: sent,
            reset: stated.reset,
            limit_and_outcome: limit_number | of_server | outcome << OUTCOME_SHIFT,
            width_micros: small(width),
            remaining: small(stated.remaining),
            retry: stated.retry,
        });
        Ok(())
    }

    /// A moment in microseconds of the run.
    fn micros(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.epoch).as_micros()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(form: Form, rules: usize, integers: &[i64]) -> Answer {
        let mut capture = Capture::new(form, rules);
        integers.iter().for_each(|value| capture.integer(*value));
        capture.end(false);
        capture.take().next().unwrap()
    }

    #[test]
    fn replies_of_every_form_are_read() {
        let stated = |outcome, retry, reset| Stated { outcome, limit: 9, remaining: 3, retry, reset };
        let cases = [
            (Form::Five, vec![1, 9, 3, 0, 60], stated(Outcome::Admitted, 0, 60)),
            (Form::Five, vec![0, 9, 3, -1, 60], stated(Outcome::Denied, NEVER, 60)),
            (Form::Throttle, vec![0, 9, 3, 60, 5], stated(Outcome::Denied, 5, 60)),
            (Form::Cell, vec![0, 9, 3, -1, 60], stated(Outcome::Admitted, 0, 60)),
            (Form::Cell, vec![1, 9, 3, 5, 60], stated(Outcome::Denied, 5, 60)),
        ];
        for (form, integers, expected) in cases {
            let answer = read(form, 1, &integers);
            assert_eq!((answer.stated[0], answer.fault), (expected, None), "{form:?} {integers:?}");
        }
        let answer = read(Form::All, 2, &[0, 1, 1, 9, 3, 0, 60, 0, 9, 0, 5, 60]);
        assert_eq!((answer.stated[0].outcome, answer.stated[1].outcome), (Outcome::Passed, Outcome::Denied));
    }

    #[test]
    fn what_no_server_answers_is_a_fault() {
        let cases = [
            (Form::Five, vec![1, 9, 3, 0]),
            (Form::Five, vec![2, 9, 3, 0, 60]),
            (Form::Five, vec![1, 9, -3, 0, 60]),
            (Form::Cell, vec![0, 9, 3, 5, 60]),
            (Form::All, vec![1, 0, 1, 9, 3, 0, 60]),
            (Form::All, vec![1, 0, 1, 9, 3, 0, 60, 0, 9, 0, 5, 60]),
            (Form::All, vec![0, 0, 1, 9, 3, 0, 60, 1, 9, 2, 0, 60]),
            (Form::All, vec![0; 40]),
        ];
        for (form, integers) in cases {
            assert!(read(form, 2, &integers).fault.is_some(), "{form:?} {integers:?}");
        }
    }

    #[test]
    fn a_record_is_as_large_as_the_page_says() {
        assert_eq!(size_of::<Record>(), 32);
    }
}
