//! What the tests share: a key that is written as a store would write it, and policies from their words.

#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(clippy::expect_used, reason = "what a test cannot read is a fault of the test")]

pub mod history;
pub mod model;

use tollgate_limits::{
    Algorithm, Ask, Bucket, Change, Decision, Fixed, Log, Micros, Mode, Outcome, Policy, Retry, Slide, StateRef, Under,
    decide, expires_at, parse_rate, parse_window,
};

/// The instant `t` of the example table, in microseconds.
pub const T: Micros = 1_751_540_400_000_000;

/// A policy from its words, as RL.ALL takes them: `policy("SLIDE", 100, "1m")`.
pub fn policy(algorithm: &str, limit: u64, width: &str) -> Policy {
    let window = || parse_window(width.as_bytes()).expect(width);
    let rate = || parse_rate(width.as_bytes()).expect(width);
    match algorithm {
        "SLIDE" => Policy::Slide { limit, window: window() },
        "FIXED" => Policy::Fixed { limit, window: window() },
        "LOG" => Policy::Log { limit, window: window() },
        "TOKEN" => Policy::Token { capacity: limit, rate: rate() },
        "LEAK" => Policy::Leak { capacity: limit, rate: rate() },
        other => panic!("no such algorithm: {other}"),
    }
}

/// An owned state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Slide(Slide),
    Fixed(Fixed),
    Token(Bucket),
    Leak(Bucket),
    Log(Log),
}

impl State {
    pub fn lend(&self) -> StateRef<'_> {
        match self {
            State::Slide(state) => StateRef::Slide(*state),
            State::Fixed(state) => StateRef::Fixed(*state),
            State::Token(state) => StateRef::Token(*state),
            State::Leak(state) => StateRef::Leak(*state),
            State::Log(state) => StateRef::Log(state),
        }
    }
}

/// One key, as a store keeps it: each state goes through its packed form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Key {
    pub record: Option<(Policy, State)>,
}

impl Key {
    pub fn new() -> Key {
        Key::default()
    }

    pub fn stored(&self) -> Option<(&Policy, StateRef<'_>)> {
        self.record.as_ref().map(|(policy, state)| (policy, state.lend()))
    }

    /// When the record expires; 0 if there is none.
    pub fn expires_at(&self) -> Micros {
        self.stored().map_or(0, |(policy, state)| expires_at(policy, state))
    }

    pub fn exists(&self, now: Micros) -> bool {
        now < self.expires_at()
    }

    /// What a call would do.
    pub fn ask(&self, ask: &Ask, now: Micros) -> Outcome {
        decide(self.stored(), ask, now).expect("the algorithm of the record")
    }

    /// One call: decides and writes.
    pub fn call(&mut self, ask: &Ask, now: Micros) -> Decision {
        let outcome = self.ask(ask, now);
        self.write(outcome.change, &ask.policy);
        outcome.decision
    }

    /// Writes a change as the store does.
    pub fn write(&mut self, change: Change, asked: &Policy) {
        let (under, state) = match change {
            Change::Keep => return,
            Change::Remove => {
                self.record = None;
                return;
            }
            Change::Slide(under, state) => (under, State::Slide(Slide::unpack(state.pack()))),
            Change::Fixed(under, state) => (under, State::Fixed(Fixed::unpack(state.pack()))),
            Change::Bucket(under, state) => {
                let wide = Bucket::unpack_wide(state.pack_wide());
                let kept = state.pack().map_or(wide, Bucket::unpack);
                assert_eq!(kept, state, "a bucket keeps its value when packed");
                let leak = asked.algorithm() == Algorithm::Leak;
                (under, if leak { State::Leak(kept) } else { State::Token(kept) })
            }
            Change::Log(under, change) => {
                let mut log = match self.record.take() {
                    Some((policy, State::Log(log))) => {
                        self.record = Some((policy, State::Log(Log::default())));
                        log
                    }
                    _ => Log::default(),
                };
                log.apply(change);
                (under, State::Log(log))
            }
        };
        let kept_policy = match under {
            Under::Asked => *asked,
            Under::Stored => self.record.as_ref().expect("something is stored").0,
        };
        self.record = Some((kept_policy, state));
    }
}

/// The five integers of a reply, as they go over the wire.
pub fn five(decision: Decision) -> [i128; 5] {
    let retry = match decision.retry {
        Retry::After(ms) => i128::from(ms),
        Retry::Never => -1,
    };
    [decision.allowed.into(), decision.limit.into(), decision.remaining.into(), retry, decision.reset_ms.into()]
}

/// A call in its words: `"TOKEN 5 1 COST 3 PARTIAL"`.
pub fn ask(text: &str) -> Ask {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [algorithm, limit, width, options @ ..] = words.as_slice() else {
        panic!("not a call: {text}");
    };
    let mut ask = Ask { policy: policy(algorithm, limit.parse().expect(text), width), cost: 1, mode: Mode::Charge };
    let mut options = options.iter();
    while let Some(option) = options.next() {
        match *option {
            "COST" => ask.cost = options.next().expect(text).parse().expect(text),
            "PEEK" => ask.mode = Mode::Peek,
            "PARTIAL" => ask.mode = Mode::Partial,
            "REFUND" => ask.mode = Mode::Refund,
            other => panic!("no such option: {other}"),
        }
    }
    ask
}
