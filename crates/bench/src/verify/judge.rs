//! Sorts the calls into keys, and holds each key's calls against its meter in the order of their ends.

use super::aligned::Aligned;
use super::bucket::Bucket;
use super::clock::ClockOffset;
use super::findings::{Fault, Findings};
use super::log::Exact;
use super::record::{FOREVER, LONG, NEVER, Outcome, Record};
use super::{Recorder, Verdict, Watch};
use crate::workload::Form;
use tollgate_limits::Policy;

/// Later than any call.
const NO_END: i64 = i64::MAX / 4;

/// One call on one limit, in microseconds of the server's clock: decided between `start` and `end`, both included.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) outcome: Outcome,
    pub(super) remaining: u64,
    pub(super) retry: u32,
    pub(super) reset: u64,
}

/// The least and the most that a call can have found in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) least: u64,
    pub(super) most: u64,
}

/// What a reply's times must lie between, in microseconds; none where nothing can be said.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Fields {
    pub(super) reset: Option<(i64, i64)>,
    pub(super) retry: Option<(i64, i64)>,
}

/// What can be said about the use of one key.
pub(super) trait Meter {
    /// Takes up the calls of a key, sorted by their ends.
    fn begin(&mut self, calls: &[Call]);

    /// Cuts a call's interval to the moments that its reset allows; false if there is none. Before [`Meter::begin`].
    fn narrow(&self, _call: &mut Call, _unit_micros: i64) -> bool {
        true
    }

    /// The least that was in use after some call that had ended when this admitted one had, itself included. Asked
    /// once for each admitted call in their order.
    fn least_through(&mut self, call: &Call) -> u64;

    /// The admitted call that was just asked about broke the limit: it counts no longer.
    fn forgive(&mut self, call: &Call);

    /// What the call can have found, itself not included.
    fn found(&mut self, call: &Call) -> Range;

    /// What its times must be; asked after [`Meter::found`] of the same call.
    fn fields(&mut self, call: &Call) -> Fields;
}

/// Holds all calls of a run against their limits.
pub(crate) fn judge(watch: &Watch, recorders: Vec<Recorder>, offset: ClockOffset) -> Verdict {
    let mut findings = Findings::default();
    let mut records: Vec<Record> = Vec::new();
    for recorder in recorders {
        if let Some((key, fault)) = recorder.first_fault {
            let words = format!("key {}: {fault}", watch.key_name(key));
            (0..recorder.faults).for_each(|_| findings.add(Fault::Inconsistent, i64::MIN, || words.clone()));
        }
        match records.is_empty() {
            true => records = recorder.records,
            false => records.extend(recorder.records),
        }
    }
    let places = sorted_places(&records);
    let mut bench = Bench::new(watch, offset);
    let (mut limits, mut calls) = (0_u64, Vec::new());
    for group in places.chunk_by(|one, other| limit_at(&records, *one) == limit_at(&records, *other)) {
        let Some(number) = group.first().and_then(|place| limit_at(&records, *place)) else { continue };
        calls.clear();
        calls.extend(group.iter().filter_map(|place| records.get(usize::try_from(*place).ok()?)));
        bench.check(number, &calls, &mut findings);
        limits = limits.saturating_add(1);
    }
    let rules = u64::try_from(watch.rules()).unwrap_or(1).max(1);
    let count = |records: usize| u64::try_from(records).unwrap_or(u64::MAX) / rules;
    let answered = records.iter().filter(|record| record.outcome() != Outcome::Unknown);
    let widest = answered.clone().map(|record| record.width_micros).max().unwrap_or_default();
    Verdict {
        calls_checked: count(answered.count()),
        keys: limits / rules,
        unknown: count(records.iter().filter(|record| record.outcome() == Outcome::Unknown).count()),
        clock_slack_us: u64::try_from(offset.slack_micros()).unwrap_or_default(),
        widest_call_us: u64::from(widest),
        ..findings.verdict(watch.overshoot)
    }
}

impl Watch {
    fn key_name(&self, key: u32) -> String {
        let mut name = Vec::new();
        self.names.write(key, &mut name);
        String::from_utf8_lossy(&name).into_owned()
    }
}

fn limit_at(records: &[Record], place: u32) -> Option<u32> {
    records.get(usize::try_from(place).ok()?).map(Record::limit_number)
}

/// The places of all records, by limit, and within a limit in their own order: a counting sort, linear in both.
fn sorted_places(records: &[Record]) -> Vec<u32> {
    let index = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    let limits = records.iter().map(Record::limit_number).max().map_or(0, |largest| index(largest).saturating_add(1));
    let mut next: Vec<u32> = vec![0; limits];
    for record in records {
        if let Some(count) = next.get_mut(index(record.limit_number())) {
            *count = count.saturating_add(1);
        }
    }
    let mut sum = 0_u32;
    for place in &mut next {
        let count = std::mem::replace(place, sum);
        sum = sum.saturating_add(count);
    }
    let mut places = vec![0_u32; records.len()];
    for (from, record) in records.iter().enumerate() {
        let Some(to) = next.get_mut(index(record.limit_number())) else { continue };
        if let Some(place) = places.get_mut(index(*to)) {
            *place = u32::try_from(from).unwrap_or(u32::MAX);
        }
        *to = to.saturating_add(1);
    }
    places
}

/// The meters of a run, and room for the calls of one key.
struct Bench<'a> {
    watch: &'a Watch,
    offset: ClockOffset,
    /// The unit of retry and reset in replies.
    unit_micros: i64,
    /// A meter for each limit of a call, of both families.
    meters: Vec<Box<dyn Meter>>,
    calls: Vec<Call>,
}

impl<'a> Bench<'a> {
    fn new(watch: &'a Watch, offset: ClockOffset) -> Bench<'a> {
        let unit_micros = if matches!(watch.form, Form::Throttle | Form::Cell) { 1_000_000 } else { 1_000 };
        let meters = watch.admitted.iter().chain(&watch.denied).map(meter).collect();
        Bench { watch, offset, unit_micros, meters, calls: Vec::new() }
    }

    /// Checks all calls on one limit.
    fn check(&mut self, number: u32, records: &[&Record], findings: &mut Findings) {
        let rules = u32::try_from(self.watch.rules()).unwrap_or(1).max(1);
        let (key, rule) = (number / rules, usize::try_from(number % rules).unwrap_or_default());
        let family = if key < self.watch.first_denied { 0 } else { self.watch.rules() };
        let Some(policy) = self.watch.policies(key).get(rule).copied() else { return };
        let Some(meter) = self.meters.get_mut(family.saturating_add(rule)) else { return };
        let name = || self.watch.key_name(key);
        self.calls.clear();
        for record in records {
            let mut call = call_of(record, self.offset);
            if self.watch.checks_fields && !meter.narrow(&mut call, self.unit_micros) {
                let reset = call.reset;
                findings.add(Fault::Inconsistent, call.end, || {
                    format!("key {}: a reset of {reset} is not true at any moment {}", name(), interval(&call))
                });
            }
            self.calls.push(call);
        }
        self.calls.sort_by_key(|call| call.end);
        meter.begin(&self.calls);
        let case = Case { policy, overshoot: self.watch.overshoot, unit_micros: self.unit_micros, name: &name };
        for call in &self.calls {
            case.check_admission(call, meter.as_mut(), findings);
            case.check_use(call, meter.as_mut(), self.watch.checks_fields, findings);
        }
    }
}

fn meter(policy: &Policy) -> Box<dyn Meter> {
    match *policy {
        Policy::Slide { window, .. } => Box::new(Aligned::new(window.micros(), true)),
        Policy::Fixed { window, .. } => Box::new(Aligned::new(window.micros(), false)),
        Policy::Log { window, .. } => Box::new(Exact::new(window.micros())),
        Policy::Token { capacity, rate } => Box::new(Bucket::new(capacity, rate, false)),
        Policy::Leak { capacity, rate } => Box::new(Bucket::new(capacity, rate, true)),
    }
}

fn call_of(record: &Record, offset: ClockOffset) -> Call {
    let sent = i64::try_from(record.sent_micros).unwrap_or(NO_END);
    let end = match record.width_micros {
        FOREVER => NO_END,
        width => sent.saturating_add(i64::from(width)).saturating_add(offset.high),
    };
    // The server's clock is cut to whole microseconds.
    let start = sent.saturating_add(offset.low).saturating_sub(1);
    let (remaining, retry, reset) = (u64::from(record.remaining), record.retry, record.reset);
    Call { start, end, outcome: record.outcome(), remaining, retry, reset }
}

/// The checks of one call, and what messages need.
struct Case<'a> {
    policy: Policy,
    overshoot: u64,
    unit_micros: i64,
    name: &'a dyn Fn() -> String,
}

impl Case<'_> {
    /// No window and no bucket admits more than it may.
    fn check_admission(&self, call: &Call, meter: &mut dyn Meter, findings: &mut Findings) {
        if call.outcome != Outcome::Admitted {
            return;
        }
        let used = meter.least_through(call);
        let limit = self.policy.limit();
        if used > limit {
            meter.forgive(call);
            findings.add(Fault::OverAdmitted, call.end, || {
                format!(
                    "{} admitted {}, when at least {used} of {limit} were in use with it",
                    self.who(),
                    interval(call)
                )
            });
        }
    }

    /// A denial is honest, and what is stated fits what can be in use.
    fn check_use(&self, call: &Call, meter: &mut dyn Meter, checks_fields: bool, findings: &mut Findings) {
        if call.outcome == Outcome::Unknown {
            return;
        }
        let limit = self.policy.limit();
        let Range { least, most } = meter.found(call);
        if call.outcome == Outcome::Denied && most < limit {
            findings.add(Fault::DishonestDenial, call.end, || {
                format!("{} denied {}, when at most {most} of {limit} can have been in use", self.who(), interval(call))
            });
            return;
        }
        if !checks_fields {
            return;
        }
        let own = u64::from(call.outcome == Outcome::Admitted);
        let mut wrong = |what: &str| {
            findings.add(Fault::Inconsistent, call.end, || {
                let Call { outcome, remaining, retry, reset, .. } = call;
                let said = format!("remaining {remaining}, retry {retry}, reset {reset}");
                format!(
                    "{} {outcome:?} {} with {said}: {what}, {least} to {most} of {limit} were in use before",
                    self.who(),
                    interval(call)
                )
            });
        };
        let used = limit.saturating_sub(call.remaining);
        let is_least_kept = call.remaining == 0 || used.saturating_add(self.overshoot) >= least.saturating_add(own);
        if call.remaining > limit || used > most.saturating_add(own) || !is_least_kept {
            wrong("remaining cannot be");
            return;
        }
        if call.outcome == Outcome::Denied
            && (call.retry == 0 || call.retry == NEVER || u64::from(call.retry) > call.reset)
        {
            wrong("retry is not between 1 and reset");
            return;
        }
        let Fields { reset, mut retry } = meter.fields(call);
        if call.retry == LONG {
            retry = None;
        }
        if !self.fits(call.reset, reset) {
            wrong("reset cannot be");
        } else if !self.fits(u64::from(call.retry), retry) {
            wrong("retry cannot be");
        } else if call.outcome == Outcome::Admitted && retry.is_none() && !matches!(call.retry, 0 | LONG) {
            wrong("retry is not 0");
        }
    }

    /// Whether a stated time, which is rounded up to the unit, can stand for one in the range.
    fn fits(&self, stated: u64, range: Option<(i64, i64)>) -> bool {
        let Some((least, most)) = range else { return true };
        let most_stated = i64::try_from(stated).unwrap_or(NO_END).saturating_mul(self.unit_micros);
        // What a failover forgot may be missing in the times too.
        let is_enough = self.overshoot > 0 || most_stated >= least;
        is_enough && (stated == 0 || most_stated.saturating_sub(self.unit_micros) < most)
    }

    fn who(&self) -> String {
        format!("key {} ({}):", (self.name)(), self.policy.algorithm().word())
    }
}

fn interval(call: &Call) -> String {
    let seconds = |micros: i64| format!("{}.{:06}", micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
    format!("between {} and {} s of the server's clock", seconds(call.start), seconds(call.end))
}
