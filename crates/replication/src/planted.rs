//! Faults that are planted on purpose, to prove that the simulation of a primary and its replicas would see them.
//!
//! The problem: a simulation that finds nothing may be one that looks at nothing. The idea: where the code does what
//! matters, a test can have it done wrong. Without the feature `planted-faults`, which only tests turn on, nothing is
//! ever planted, and the question costs nothing.

/// What is done wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Planted {
    /// A replica acknowledges what it has not put yet.
    AcknowledgesBeforeApplying,
    /// A replica runs a call again, on its own state and time, instead of taking over what came of it.
    ShipsTheCommand,
    /// What a slot's version was when it was told is not compared.
    DropsTheSlotVersion,
    /// A removed key is told as one that holds nothing much.
    DeleteRecreates,
    /// A replica lets records expire by the clock of its own machine.
    ExpiresByOwnClock,
    /// A replica's time waits at its primary's last time until its own clock is there, instead of going on from it.
    TimeFloorClamps,
    /// What is changed while a copy is under way is not told of what it has passed.
    CopyMissesChanges,
    /// One of the slots that differ is left out when a link resumes.
    ResumeSkipsASlot,
    /// A flush counts as one unit, whatever was admitted in it.
    OvershootPerFlush,
    /// The first of several replicas to acknowledge counts for all.
    OvershootReleasedByFirst,
    /// An answer leaves though it is to wait.
    ReplyBeforeGate,
    /// That a charge of RL.ALL was taken back is not told.
    UndoNotTold,
    /// The charges of a log that is told again are added to those that are there.
    LogDoubled,
    /// A replica takes units that were given back off once more.
    RefundBelowZero,
    /// A replica takes over what another run of its primary holds, which may know less.
    OlderRunAccepted,
    /// A snapshot that ends between two parts counts as whole.
    CutSnapshotAccepted,
}

impl Planted {
    /// All of them.
    pub const ALL: [Planted; 16] = [
        Planted::AcknowledgesBeforeApplying,
        Planted::ShipsTheCommand,
        Planted::DropsTheSlotVersion,
        Planted::DeleteRecreates,
        Planted::ExpiresByOwnClock,
        Planted::TimeFloorClamps,
        Planted::CopyMissesChanges,
        Planted::ResumeSkipsASlot,
        Planted::OvershootPerFlush,
        Planted::OvershootReleasedByFirst,
        Planted::ReplyBeforeGate,
        Planted::UndoNotTold,
        Planted::LogDoubled,
        Planted::RefundBelowZero,
        Planted::OlderRunAccepted,
        Planted::CutSnapshotAccepted,
    ];
}

#[cfg(feature = "planted-faults")]
mod planting {
    use super::Planted;
    use std::cell::Cell;

    thread_local! {
        static PLANTED: Cell<Option<Planted>> = const { Cell::new(None) };
    }

    /// Plants a fault for this thread, or none.
    pub fn plant(fault: Option<Planted>) {
        PLANTED.set(fault);
    }

    /// Whether this fault is planted.
    pub fn is_planted(fault: Planted) -> bool {
        PLANTED.get() == Some(fault)
    }
}

#[cfg(not(feature = "planted-faults"))]
mod planting {
    use super::Planted;

    /// Plants nothing: the feature `planted-faults` is off.
    pub fn plant(_fault: Option<Planted>) {}

    /// Whether this fault is planted: it never is.
    #[inline(always)]
    pub fn is_planted(_fault: Planted) -> bool {
        false
    }
}

pub use planting::{is_planted, plant};

/// What is done wrong where a record is put.
#[cfg(feature = "planted-faults")]
pub(crate) mod putting {
    use super::{Planted, is_planted};
    use tollgate_limits::{AMOUNT_MAX, Ask, Log, Micros, Mode, Policy, StateRef, decide};
    use tollgate_store::{Content, Holding, Located, RecordId, Store};

    /// Puts a record, or a piece of a log, wrongly, if a fault is planted that does. Answers whether it is put.
    pub(crate) fn puts(
        store: &mut Store,
        at: Located,
        key: &[u8],
        (content, is_piece): (&Content, bool),
        now: Micros,
    ) -> bool {
        let Holding::Limit(policy, state) = content.holding() else { return false };
        let id = store.find(at, key, now);
        let (before, after) = (id.and_then(|id| used(store, id, now)), used_of(policy, state, now));
        let call = |mode, cost| Ask { policy: *policy, cost, mode };
        match (before, after) {
            _ if is_piece && !is_planted(Planted::LogDoubled) => false,
            (before, Some(after)) if is_planted(Planted::ShipsTheCommand) => {
                let before = before.unwrap_or(0);
                let mode = if after >= before { Mode::Charge } else { Mode::Refund };
                store.charge(at, key, &call(mode, after.abs_diff(before)), now).is_ok()
            }
            (Some(before), Some(after)) if is_planted(Planted::RefundBelowZero) && after < before => {
                let put = store.put_content(at, key, id, content, true, now);
                put.is_ok() && store.charge(at, key, &call(Mode::Refund, before - after), now).is_ok()
            }
            (Some(_), _) if is_planted(Planted::LogDoubled) => {
                let doubled = id.and_then(|id| doubled(store.holding(id), content.holding()));
                doubled.is_some_and(|doubled| store.put_content(at, key, id, &doubled, true, now).is_ok())
            }
            _ => false,
        }
    }

    fn used(store: &Store, id: RecordId, now: Micros) -> Option<u64> {
        store.limit(id).and_then(|(policy, state)| used_of(policy, state, now))
    }

    /// Units in use: what is missing to the limit, or the limit where more is in use.
    fn used_of(policy: &Policy, state: StateRef<'_>, now: Micros) -> Option<u64> {
        let ask = Ask { policy: *policy, cost: 0, mode: Mode::Peek };
        let remaining = decide(Some((policy, state)), &ask, now)?.decision.remaining;
        Some(policy.limit().min(AMOUNT_MAX).saturating_sub(remaining))
    }

    /// A log that has the charges of both.
    fn doubled(stored: Holding<'_>, told: Holding<'_>) -> Option<Content> {
        let (Holding::Limit(_, StateRef::Log(stored)), Holding::Limit(policy, StateRef::Log(told))) = (stored, told)
        else {
            return None;
        };
        let mut charges: std::collections::BTreeMap<Micros, u64> = told.entries().collect();
        stored.entries().for_each(|(at, units)| *charges.entry(at).or_insert(0) += units);
        let charges: Vec<(Micros, u64)> = charges.into_iter().filter(|(at, _)| *at > told.dropped_through()).collect();
        let log = Log::of(told.dropped_through(), &charges)?;
        Some(Content::of(Holding::Limit(policy, StateRef::Log(&log))))
    }
}
