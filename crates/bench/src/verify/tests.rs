//! Servers that are right and servers with a planted fault, told apart by their replies alone.
//!
//! Time is a number here: callers send, the server decides somewhere between sending and reply, by the same arithmetic
//! as the real one. What the checks see is what a run records.

use super::clock::ClockOffset;
use super::record::{Origin, Outcome};
use super::{Capture, Recorder, Verdict, Watch, judge};
use crate::keys::KeyNames;
use crate::random::Random;
use crate::scan::Sink;
use crate::workload::Form;
use std::time::{Duration, Instant};
use tollgate_limits::{Ask, Change, Decision, Log, Mode, Policy, Rate, Retry, StateRef, Window, decide};

/// The server's clock when the run begins: not the begin of a window.
const BASE_MICROS: u64 = 1_796_000_000_123_456;

/// What a planted server does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plant {
    Nothing,
    /// Admits some more than the limit.
    Generous(u64),
    /// Denies although there is room for some more.
    Strict(u64),
    /// Forgets every key once, in the middle.
    Forgetful,
    /// States one unit more as remaining than there is.
    Boastful,
    /// States that the limit will be as untouched later than it will, by two milliseconds.
    Slow,
}

/// How calls come.
#[derive(Debug, Clone, Copy)]
struct Traffic {
    keys: u32,
    calls: usize,
    callers: usize,
    /// From the sending to the reply at most.
    width_micros: u64,
    /// Calls of a hundred that fail, charged or not.
    failing_percent: u64,
    seed: u64,
}

const HOT: Traffic = Traffic { keys: 2, calls: 6_000, callers: 16, width_micros: 900, failing_percent: 0, seed: 1 };

enum State {
    Small(Change),
    Log(Log),
}

struct Server {
    plant: Plant,
    policies: Vec<Policy>,
    states: Vec<Option<State>>,
}

impl Server {
    /// Decides a call on all limits of a key, as RL.ALL does; one limit is the common case of it.
    fn decide(&mut self, key: u32, now: u64) -> Vec<Decision> {
        let first = key as usize * self.policies.len();
        let peeked: Vec<Decision> =
            (0..self.policies.len()).map(|rule| self.one(first, rule, now, Mode::Peek)).collect();
        if self.policies.len() > 1 && peeked.iter().any(|decision| decision.allowed == 0) {
            return peeked;
        }
        (0..self.policies.len()).map(|rule| self.one(first, rule, now, Mode::Charge)).collect()
    }

    fn one(&mut self, first: usize, rule: usize, now: u64, mode: Mode) -> Decision {
        let policy = self.policies[rule];
        let place = &mut self.states[first + rule];
        let shifted = with_limit(&policy, |limit| match self.plant {
            Plant::Generous(more) => limit + more,
            Plant::Strict(less) => limit - less,
            _ => limit,
        });
        let stored = place.as_ref().map(|state| match state {
            State::Log(log) => StateRef::Log(log),
            State::Small(Change::Slide(_, slide)) => StateRef::Slide(*slide),
            State::Small(Change::Fixed(_, fixed)) => StateRef::Fixed(*fixed),
            State::Small(Change::Bucket(_, bucket)) if matches!(policy, Policy::Leak { .. }) => StateRef::Leak(*bucket),
            State::Small(Change::Bucket(_, bucket)) => StateRef::Token(*bucket),
            State::Small(other) => panic!("{other:?} is not kept"),
        });
        let ask = Ask { policy: shifted, cost: 1, mode };
        let outcome = decide(stored.map(|state| (&shifted, state)), &ask, now).unwrap();
        match outcome.change {
            Change::Keep => {}
            Change::Remove => *place = None,
            Change::Log(_, change) => {
                let mut log = match place.take() {
                    Some(State::Log(log)) => log,
                    _ => Log::default(),
                };
                log.apply(change);
                *place = Some(State::Log(log));
            }
            change => *place = Some(State::Small(change)),
        }
        let mut decision = outcome.decision;
        let used = shifted.limit() - decision.remaining;
        decision.limit = policy.limit();
        decision.remaining = if decision.allowed == 0 { 0 } else { policy.limit().saturating_sub(used) };
        match self.plant {
            Plant::Boastful if decision.allowed == 1 => decision.remaining += 1,
            Plant::Slow => decision.reset_ms += 2,
            _ => {}
        }
        decision
    }
}

fn with_limit(policy: &Policy, change: impl Fn(u64) -> u64) -> Policy {
    match *policy {
        Policy::Slide { limit, window } => Policy::Slide { limit: change(limit), window },
        Policy::Fixed { limit, window } => Policy::Fixed { limit: change(limit), window },
        Policy::Log { limit, window } => Policy::Log { limit: change(limit), window },
        Policy::Token { capacity, rate } => Policy::Token { capacity: change(capacity), rate },
        Policy::Leak { capacity, rate } => Policy::Leak { capacity: change(capacity), rate },
    }
}

/// A limit of each kind: so many calls in a window.
fn limits(limit: u64, window_micros: u64) -> Vec<(Form, Vec<Policy>)> {
    let window = Window::new(window_micros).unwrap();
    let rate = Rate::new(limit, u128::from(window_micros)).unwrap();
    let slide = Policy::Slide { limit, window };
    let token = Policy::Token { capacity: limit, rate };
    vec![
        (Form::Five, vec![slide]),
        (Form::Five, vec![Policy::Fixed { limit, window }]),
        (Form::Five, vec![Policy::Log { limit, window }]),
        (Form::Five, vec![token]),
        (Form::Five, vec![Policy::Leak { capacity: limit, rate }]),
        (Form::Throttle, vec![token]),
        (Form::All, vec![slide, token]),
    ]
}

/// One call: who sent it when, when it is decided, when the reply is there.
struct Flight {
    key: u32,
    sent: u64,
    decided: u64,
    ended: u64,
    fails: bool,
}

fn flights(traffic: Traffic) -> Vec<Flight> {
    let mut random = Random::new(traffic.seed);
    let mut below = |bound: u64| random.next() % bound.max(1);
    let mut free: Vec<u64> = (0..traffic.callers).map(|_| below(traffic.width_micros)).collect();
    let mut flights: Vec<Flight> = (0..traffic.calls)
        .map(|call| {
            let caller = call % traffic.callers;
            let sent = free[caller];
            let decided = sent + below(traffic.width_micros);
            let ended = decided + below(traffic.width_micros - (decided - sent)) + 1;
            free[caller] = ended;
            let fails = below(100) < traffic.failing_percent;
            Flight { key: below(u64::from(traffic.keys)) as u32, sent, decided, ended, fails }
        })
        .collect();
    flights.sort_by_key(|flight| flight.decided);
    flights
}

/// What the checks say about a server with a fault.
fn verdict(plant: Plant, form: Form, policies: &[Policy], traffic: Traffic, overshoot: u64) -> Verdict {
    let watch = Watch {
        form,
        admitted: policies.to_vec(),
        denied: policies.to_vec(),
        first_denied: traffic.keys,
        names: KeyNames::new("k", 12, traffic.keys, false).unwrap(),
        overshoot,
        fails_over: false,
        checks_fields: true,
    };
    let epoch = Instant::now();
    let mut recorder = Recorder::new(&watch, epoch, usize::MAX);
    let states = (0..traffic.keys as usize * policies.len()).map(|_| None).collect();
    let mut server = Server { plant, policies: policies.to_vec(), states };
    let mut random = Random::new(traffic.seed ^ 5);
    let mut replies = Vec::new();
    let flights = flights(traffic);
    for (number, flight) in flights.iter().enumerate() {
        if plant == Plant::Forgetful && number == flights.len() / 2 {
            server.states.iter_mut().for_each(|state| *state = None);
        }
        let is_charged = !flight.fails || random.below(2) == 0;
        let decisions = if is_charged { server.decide(flight.key, BASE_MICROS + flight.decided) } else { Vec::new() };
        replies.push((flight, decisions));
    }
    replies.sort_by_key(|(flight, _)| flight.ended);
    let at = |micros| epoch + Duration::from_micros(micros);
    let mut capture = Capture::new(form, policies.len());
    for (flight, decisions) in &replies {
        if flight.fails && flight.sent % 2 == 0 {
            recorder.lost(flight.key, at(flight.sent)).unwrap();
            continue;
        }
        integers(form, decisions).into_iter().for_each(|value| capture.integer(value));
        capture.end(flight.fails);
        let answer = capture.take().next().unwrap();
        recorder.answered(flight.key, at(flight.sent), at(flight.ended), &answer, Origin::First).unwrap();
    }
    let base = BASE_MICROS as i64;
    judge(&watch, vec![recorder], ClockOffset { low: base - 20, high: base + 15 })
}

fn integers(form: Form, decisions: &[Decision]) -> Vec<i64> {
    let five = |decision: &Decision| {
        let retry = match decision.retry {
            Retry::After(milliseconds) => milliseconds as i64,
            Retry::Never => -1,
        };
        let Decision { allowed, limit, remaining, reset_ms, .. } = *decision;
        [allowed as i64, limit as i64, remaining as i64, retry, reset_ms as i64]
    };
    match (form, decisions) {
        (_, []) => Vec::new(),
        (Form::All, all) => {
            let allowed = i64::from(all.iter().all(|decision| decision.allowed == 1));
            [allowed, 0].into_iter().chain(all.iter().flat_map(five)).collect()
        }
        (Form::Throttle, [decision, ..]) => {
            let [allowed, limit, remaining, retry, reset] = five(decision);
            let seconds = |milliseconds: i64| (milliseconds + 999) / 1_000;
            vec![allowed, limit, remaining, seconds(reset), seconds(retry)]
        }
        (_, [decision, ..]) => five(decision).to_vec(),
    }
}

#[test]
fn a_right_server_passes() {
    let shapes = [(100, 50_000), (7, 3_000), (1, 1_000), (1_000, 20_000_000), (40, 1_234_567), (3, 700_001)];
    let mut seed = 0;
    for (limit, window_micros) in shapes {
        for (form, policies) in limits(limit, window_micros) {
            for (keys, callers, width_micros, failing_percent) in
                [(1, 1, 50, 0), (2, 16, 900, 0), (3, 40, 9_000, 0), (2, 8, 300, 20), (50, 16, 200_000, 5)]
            {
                seed += 1;
                let traffic = Traffic { keys, calls: 2_000, callers, width_micros, failing_percent, seed };
                let found = verdict(Plant::Nothing, form, &policies, traffic, 0);
                assert_eq!(found.violations, 0, "{form:?} {policies:?} {traffic:?}: {found:?}");
                assert_eq!(found.calls_checked + found.unknown, 2_000);
            }
        }
    }
}

/// A hot key, many callers, a limit that is used up all the time: any unit too many or too few shows.
#[test]
fn planted_faults_are_told_apart() {
    for (form, policies) in limits(50, 100_000) {
        let found = |plant| verdict(plant, form, &policies, HOT, 0);
        let generous = found(Plant::Generous(20));
        assert!(generous.over_admitted > 0, "{form:?} {policies:?}: {generous:?}");
        let words = generous.first_violation.unwrap();
        assert!(words.contains("key k0000000000"), "{words}");
        let strict = found(Plant::Strict(20));
        assert!(strict.dishonest_denials > 0 && strict.over_admitted == 0, "{form:?} {policies:?}: {strict:?}");
        let forgetful = found(Plant::Forgetful);
        assert!(forgetful.violations > 0 && forgetful.dishonest_denials == 0, "{form:?} {policies:?}: {forgetful:?}");
    }
}

/// One caller leaves nothing open: a single unit shows, and a time that is off by two milliseconds.
#[test]
fn with_one_caller_a_single_unit_shows() {
    let traffic = Traffic { callers: 1, keys: 1, width_micros: 100, ..HOT };
    for (form, policies) in limits(50, 100_000) {
        for plant in [Plant::Generous(1), Plant::Strict(1), Plant::Boastful, Plant::Slow] {
            if plant == Plant::Slow && form == Form::Throttle {
                // In whole seconds two milliseconds do not show.
                continue;
            }
            let found = verdict(plant, form, &policies, traffic, 0);
            assert!(found.violations > 0, "{plant:?} {form:?} {policies:?}: {found:?}");
            assert_eq!(found.over_admitted > 0, plant == Plant::Generous(1), "{plant:?} {policies:?}: {found:?}");
            assert_eq!(found.dishonest_denials > 0, plant == Plant::Strict(1), "{plant:?} {policies:?}: {found:?}");
        }
    }
}

/// A failover may forget what was in use: at most as much as was said, over all limits, is no fault.
#[test]
fn what_a_failover_costs_can_be_allowed_for() {
    for (form, policies) in limits(50, 20_000_000) {
        let found = |overshoot| verdict(Plant::Forgetful, form, &policies, HOT, overshoot);
        // Both keys were used up when they were forgotten: fifty each, at each limit, can be admitted again.
        let forgotten = 100 * policies.len() as u64;
        let allowed = found(forgotten);
        assert_eq!(allowed.violations, 0, "{form:?} {policies:?}: {allowed:?}");
        let refused = found(forgotten * 4 / 5);
        assert!(refused.violations > 0 && refused.over_admitted <= forgotten, "{form:?} {policies:?}: {refused:?}");
    }
}

#[test]
fn a_record_keeps_its_outcome_and_its_limit() {
    let policies = limits(5, 1_000_000).pop().unwrap().1;
    let watch = Watch {
        form: Form::All,
        admitted: policies.clone(),
        denied: policies,
        first_denied: 10,
        names: KeyNames::new("", 4, 10, true).unwrap(),
        overshoot: 0,
        fails_over: false,
        checks_fields: true,
    };
    let epoch = Instant::now();
    let mut recorder = Recorder::new(&watch, epoch, 3);
    let mut capture = Capture::new(Form::All, 2);
    [0, 1, 1, 5, 3, 0, 60, 0, 5, 0, 5, 60].into_iter().for_each(|value| capture.integer(value));
    capture.end(false);
    let answer = capture.take().next().unwrap();
    recorder.answered(19, epoch, epoch, &answer, Origin::First).unwrap();
    let kept: Vec<_> = recorder.records.iter().map(|record| (record.limit_number(), record.outcome())).collect();
    assert_eq!(kept, [(38, Outcome::Passed), (39, Outcome::Denied)]);
    let error = recorder.answered(19, epoch, epoch, &answer, Origin::First).unwrap_err().to_string();
    assert!(error.starts_with("--verify keeps 32 bytes"), "{error}");
}
