//! Taking one charge back off a record that others may have touched since.
//!
//! The problem: a group of limits that spreads over cores is charged part by part, and where one part refuses, the
//! others must be undone, while other calls go on. The idea: take the charge off exactly where it lies (its window, its
//! entry, its share of the bucket). Wherever it cannot be told whether it still lies there, it stays: use is
//! over-stated until it runs out by itself, and nobody is admitted who should not be.

use crate::ask::{Change, StateRef, Under};
use crate::bucket::{self, Bucket, Charged};
use crate::{Fixed, Log, LogChange, Micros, Policy, Rate, Slide, Window};

/// Units charged at a time: what an undo needs to find them again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// The policy they were charged under.
    pub policy: Policy,
    /// How many.
    pub units: u64,
    /// When.
    pub at: Micros,
}

/// What to write to take `charge` back off a record that was touched since it was charged.
///
/// [`Change::Keep`], [`Change::Remove`], or a write under [`Under::Stored`]. Never takes more off than is certainly
/// still there, and never more than there is. (A record that nothing else has touched is better put back as it was.)
///
/// A record does not remember which policies it has been under: one whose window or rate was changed *and changed back*
/// by admitted calls between the charge and its undo, which follow each other within milliseconds, is taken for one
/// that kept its policy.
pub fn undo(stored: Option<(&Policy, StateRef<'_>)>, charge: &Charge, now: Micros) -> Change {
    let Some((policy, state)) = stored else {
        return Change::Keep;
    };
    match (policy, state, &charge.policy) {
        // Under another window, what was charged was rounded and merged into a window of another length: it stays.
        (Policy::Slide { window, .. }, StateRef::Slide(slide), Policy::Slide { window: charged, .. }) => {
            if window == charged { off_slide(slide, *window, charge) } else { Change::Keep }
        }
        (Policy::Fixed { window, .. }, StateRef::Fixed(fixed), Policy::Fixed { window: charged, .. }) => {
            if window == charged { off_fixed(fixed, *window, charge) } else { Change::Keep }
        }
        (Policy::Log { window, .. }, StateRef::Log(log), Policy::Log { .. }) => off_log(log, *window, charge, now),
        (Policy::Token { rate, .. }, StateRef::Token(bucket), Policy::Token { rate: charged, .. })
        | (Policy::Leak { rate, .. }, StateRef::Leak(bucket), Policy::Leak { rate: charged, .. }) => {
            off_bucket(bucket, rate, charged, charge, now)
        }
        _ => Change::Keep,
    }
}

fn off_slide(state: Slide, window: Window, charge: &Charge) -> Change {
    match state.take_off(window, charge.at, charge.units) {
        left if left == state => Change::Keep,
        Slide { cur: 0, prev: 0, .. } => Change::Remove,
        left => Change::Slide(Under::Stored, left),
    }
}

fn off_fixed(state: Fixed, window: Window, charge: &Charge) -> Change {
    match state.take_off(window, charge.at, charge.units) {
        left if left == state => Change::Keep,
        Fixed { count: 0, .. } => Change::Remove,
        left => Change::Fixed(Under::Stored, left),
    }
}

fn off_log(log: &Log, window: Window, charge: &Charge, now: Micros) -> Change {
    let at = charge.at.max(1);
    let drop_through = now.saturating_sub(window.micros());
    let units = charge.units.min(log.units_of(at));
    if units == 0 || at <= drop_through {
        return Change::Keep;
    }
    if units == log.units_after(drop_through) {
        return Change::Remove;
    }
    Change::Log(Under::Stored, LogChange::TakeOff { at, units, drop_through })
}

fn off_bucket(state: Bucket, rate: &Rate, charged_rate: &Rate, charge: &Charge, now: Micros) -> Change {
    let charged = Charged { rate: charged_rate, units: charge.units, at: charge.at };
    bucket::take_off(state, rate, charged, now).unwrap_or(Change::Keep)
}
