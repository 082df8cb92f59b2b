//! Plain calls in a row: one limit (SLIDE, FIXED, TOKEN or LEAK) that a client asks about for one key after another.
//!
//! The problem: what a command costs beside its decision (finding its row, its policy and its way, counting it, making
//! a reply from nothing) is several times the decision. The idea: where many calls follow each other that differ in
//! their keys alone, all of that is found out once, and the records of all of them are loaded before the first is
//! decided. What is not common (a new key, one kept under another limit) is run as it is everywhere.
//!
//! **Invariant:** a row of plain calls has the replies, the effects and the counts of the same calls one by one.

use crate::core::Core;
use crate::limit_commands::{answer, five};
use crate::registry::Entry;
use tollgate_limits::{Ask, Decision, Micros, Mode, Policy, parse_amount, parse_rate, parse_window};
use tollgate_resp::{Admitted, Args, Protocol, Replies, Reply, Span};
use tollgate_store::{Lanes, Located, Narrow, Sighting, Spell, Work};

/// The most calls of a row: as many as a batch has commands.
pub const ROW_CALLS_MAX: usize = 64;

/// A plain call on a limit, but for its key.
#[derive(Clone, Debug)]
pub struct Plain {
    entry: &'static Entry,
    ask: Ask,
    spell: Spell,
    /// What the reply of a SLIDE that admits begins with.
    admitted: Admitted,
}

impl Plain {
    /// The row of the command table.
    pub fn entry(&self) -> &'static Entry {
        self.entry
    }

    /// The limit that is asked about.
    pub fn policy(&self) -> &Policy {
        &self.ask.policy
    }

    /// What is the same in all calls like this one. `None` if it is none that runs in a row.
    pub fn of(entry: &'static Entry, args: Args<'_>) -> Option<Plain> {
        if args.len() != 4 {
            return None;
        }
        let limit = parse_amount(args.get(2)?).ok()?;
        let window = || parse_window(args.get(3)?).ok();
        let rate = || parse_rate(args.get(3)?).ok();
        let policy = match entry.command.name {
            "rl.slide" => Policy::Slide { limit, window: window()? },
            "rl.fixed" => Policy::Fixed { limit, window: window()? },
            "rl.token" => Policy::Token { capacity: limit, rate: rate()? },
            "rl.leak" => Policy::Leak { capacity: limit, rate: rate()? },
            _ => return None,
        };
        let ask = Ask { policy, cost: 1, mode: Mode::Charge };
        Some(Plain { entry, ask, spell: Spell::of(&ask)?, admitted: Admitted::under(limit) })
    }
}

/// A plain call in a row: what is its own.
#[derive(Clone, Copy, Debug)]
pub struct PlainCall {
    /// Where its key lies.
    pub at: Located,
    /// The core that owns the key.
    pub core: u16,
    /// The key, in the buffer that goes with the row.
    pub key: Span,
}

impl PlainCall {
    /// A place for a call.
    pub const NONE: PlainCall = PlainCall { at: Located { slot: 0, hash: 0 }, core: 0, key: Span { start: 0, end: 0 } };
}

const _: () = assert!(size_of::<PlainCall>() <= 32);

/// Calls that follow each other in what was read.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    /// What all of them are.
    pub plain: &'a Plain,
    /// What is each one's own; at most [`ROW_CALLS_MAX`].
    pub calls: &'a [PlainCall],
    /// Where their keys lie.
    pub buffer: &'a [u8],
    /// The core's time.
    pub now: Micros,
}

/// What is done with the calls of a row in their order, beside running those of this core.
pub trait Order {
    /// Takes a call for another core. The replies of this core that come before it end at `end` of the output.
    fn elsewhere(&mut self, call: &PlainCall, key: &[u8], end: usize);
    /// Takes note of a reply of this core, which ends at `end` of the output.
    fn answered(&mut self, end: usize);
}

/// Runs the calls that a row begins with as far as they are common.
struct RunCommon<'a, Order, Lanes> {
    core: &'a mut Core,
    lanes: Lanes,
    row: Row<'a>,
    out: &'a mut Vec<u8>,
    order: &'a mut Order,
}

impl<O: Order, L: Lanes> Work for RunCommon<'_, O, L> {
    type Output = usize;

    #[inline(always)]
    fn run(self) -> usize {
        self.core.run_common(self.row, self.out, self.order, self.lanes)
    }
}

impl Core {
    /// Runs the calls of a row that lie on this core, and appends their replies. Of a cluster, those are answered that
    /// this node serves, and all others sent on.
    pub fn run_plain(&mut self, row: Row<'_>, protocol: Protocol, out: &mut Vec<u8>, order: &mut impl Order) {
        if let Some(view) = &self.view {
            let are_served = match row.calls {
                // What a loop takes to be set up is more than the question.
                [call] => view.serves(call.at.slot),
                calls => view.serves_all(calls.iter().map(|call| call.at.slot)),
            };
            if !are_served {
                return self.run_row_in_pieces(row, protocol, out, order);
            }
        }
        self.run_served(row, protocol, out, order);
    }

    /// Runs a row of which some calls are for slots that this node does not serve, and sends those to who does.
    #[cold]
    #[inline(never)]
    fn run_row_in_pieces(&mut self, row: Row<'_>, protocol: Protocol, out: &mut Vec<u8>, order: &mut impl Order) {
        let mut rest = row.calls;
        while let Some(is_served) = rest.first().map(|call| self.serves(call.at.slot)) {
            let length = rest.iter().position(|call| self.serves(call.at.slot) != is_served).unwrap_or(rest.len());
            let (calls, after) = rest.split_at(length);
            rest = after;
            if is_served {
                self.run_piece(Row { calls, ..row }, protocol, out, order);
                continue;
            }
            for call in calls {
                let text = self.view.as_ref().map(|view| view.redirection(call.at.slot)).unwrap_or_default();
                self.counters.rejected(row.plain.entry.index, &text);
                Reply::new(out, protocol).error(&text);
                order.answered(out.len());
            }
        }
    }

    /// [`Core::run_served`] where it need not be fast, so that there is one of it where it must.
    #[inline(never)]
    fn run_piece(&mut self, row: Row<'_>, protocol: Protocol, out: &mut Vec<u8>, order: &mut impl Order) {
        self.run_served(row, protocol, out, order);
    }

    #[inline(always)]
    fn run_served(&mut self, row: Row<'_>, protocol: Protocol, out: &mut Vec<u8>, order: &mut impl Order) {
        // Of one call there is nothing to share and nothing to load ahead of.
        let done = match (row.calls.len(), self.wide) {
            (0 | 1, _) => 0,
            (_, Some(wide)) => wide.run(RunCommon { core: self, lanes: wide, row, out, order }),
            (_, None) => RunCommon { core: self, lanes: Narrow, row, out, order }.run(),
        };
        if let Some(calls @ [_, ..]) = row.calls.get(done..) {
            self.run_less_plain(Row { calls, ..row }, protocol, out, order);
        }
    }

    /// Runs the calls that a row begins with as far as they are common, and answers how many those are.
    #[inline(always)]
    fn run_common(&mut self, row: Row<'_>, out: &mut Vec<u8>, order: &mut impl Order, lanes: impl Lanes) -> usize {
        let Row { plain, calls, buffer, now } = row;
        let core = self.index;
        let place = |call: &PlainCall| (call.core == core, call.at);
        let mut sightings = [Sighting::NONE; ROW_CALLS_MAX];
        self.store.sight_row(calls, place, lanes, &mut sightings);
        let mut replies = Replies::begin(out, calls.len());
        let (mut spell, mut done, mut elsewhere, mut otherwise) = (plain.spell, 0, 0, 0);
        for (call, sighting) in calls.iter().zip(&sightings) {
            let key = call.key.of(buffer);
            if call.core == core {
                if self.top.is_due() {
                    self.top.count(call.at, key, now);
                }
                let end = if let Some(decision) = self.store.charge_sighted(*sighting, key, &mut spell, now) {
                    self.top.pass_counted();
                    replies.push(&plain.admitted, decision.remaining, decision.reset_ms)
                } else if let Some(decision) = self.decide_otherwise(plain, call, *sighting, key, now) {
                    otherwise += 1;
                    replies.push_five(five(&decision))
                } else {
                    break;
                };
                order.answered(end);
            } else {
                order.elsewhere(call, key, replies.end());
                elsewhere += 1;
            }
            done += 1;
        }
        replies.finish();
        let own = u64::try_from(done).unwrap_or(0).saturating_sub(elsewhere);
        let admitted = own.saturating_sub(otherwise);
        self.counters.ran_times(plain.entry.index, own);
        self.counters.keyspace_hits.add(admitted);
        self.counters.admitted(plain.ask.policy.algorithm(), admitted);
        done
    }

    /// Decides a call of a row that is not the commonest, if it can be decided where its record was seen.
    #[cold]
    #[inline(never)]
    fn decide_otherwise(
        &mut self,
        plain: &Plain,
        call: &PlainCall,
        sighting: Sighting,
        key: &[u8],
        now: Micros,
    ) -> Option<Decision> {
        let decision = self.store.decide_sighted(sighting, key, &plain.spell, now)?;
        self.count_settled(plain.ask.policy.algorithm(), call.at, key, &decision);
        Some(decision)
    }

    /// Runs what is left of a row from the first call on that is not common. What was sighted may be gone behind it,
    /// and the number of the policy too.
    #[inline(never)]
    fn run_less_plain(&mut self, row: Row<'_>, protocol: Protocol, out: &mut Vec<u8>, order: &mut impl Order) {
        let Row { plain, calls, buffer, now } = row;
        let algorithm = plain.ask.policy.algorithm();
        for call in calls {
            let key = call.key.of(buffer);
            if call.core != self.index {
                order.elsewhere(call, key, out.len());
                continue;
            }
            self.counters.ran(plain.entry.index);
            let mut reply = Reply::new(out, protocol);
            if self.top.is_due() {
                self.top.count(call.at, key, now);
            }
            if let Some(admitted) = self.store.charge_common(call.at, key, &plain.ask, now) {
                self.top.pass_counted();
                self.counters.keyspace_hits.add(1);
                self.counters.admitted(algorithm, 1);
                reply.admitted(admitted.limit, admitted.remaining, admitted.reset_ms);
            } else if let Some(decision) = self.store.decide_common(call.at, key, &plain.ask, now) {
                self.count_settled(algorithm, call.at, key, &decision);
                reply.five(five(&decision));
            } else {
                let decision = self.limit_uncommon(call.at, key, now, &plain.ask);
                answer(self, decision, &mut reply);
                if reply.has_error() {
                    self.counters.failed(plain.entry.index, reply.error_code());
                }
            }
            order.answered(out.len());
        }
    }
}
