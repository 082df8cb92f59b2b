//! The end of a log instead of all of it, for a copy elsewhere that has the rest.
//!
//! The problem: a log of tens of thousands of charges that changes all the time would be told whole some hundred times
//! a second. The idea: charges only add to a log's end, and what leaves it leaves in order of time. So a record keeps
//! up to which time its entries are as they were told last; a refund, an undone charge or another window puts that time
//! back, and a charge need not look at it, as the newest entry, which charges of its moment join, is always told again.
//!
//! ```text
//! told last   e1 e2 e3 e4 e5           dropped through d: e1 is gone; kept through t: e2, e3, e4 are as told
//! now            e2 e3 e4 e5 e6 e7     told now: d, t, e5 e6 e7
//!              d        t
//! ```
//!
//! One such time serves all copies: one that lacks the record, or something of it, is still to be given it whole. A
//! record that was made or put in anew is told whole, as nobody has any of it.
//!
//! **Invariant:** a copy that had all of a log when it was told last, or later, and is told this piece of it, once or
//! twice, has all of it.

use crate::body::Body;
use crate::content::{Content, Holding};
use crate::locate::Located;
use crate::record::{Header, KIND_LOG};
use crate::records::Records;
use crate::store::{RecordId, Store};
use tollgate_limits::{Log, LogChange, Micros, Policy, StateRef};

/// Of a log that nothing is known to have been told of.
const NOTHING_TOLD: u64 = 0;

impl Records {
    /// Changes a record's log, and marks the record dirty. False, and nothing done, for another kind.
    pub fn change_log(&mut self, id: u32, change: LogChange) -> bool {
        self.with_log(id, |log, told_through| {
            *told_through = log.apply(change).min(*told_through);
            true
        })
    }

    /// All that the record holds was told: a log from here on by what comes to it.
    pub fn told(&mut self, id: u32) {
        let (region, offset) = self.slab.words_mut(id);
        if Header(region[offset]).kind() == KIND_LOG
            && let Body::Log(log) = self.bodies.get(region[offset + 1] as u32)
        {
            region[offset + 2] = log.settled_through();
        }
    }

    /// The record, which is a log, is told whole next.
    pub fn forget_told(&mut self, id: u32) {
        let (region, offset) = self.slab.words_mut(id);
        debug_assert_eq!(Header(region[offset]).kind(), KIND_LOG);
        region[offset + 2] = NOTHING_TOLD;
    }

    /// The time up to which entries of a log are as they were told last. `None`: it has no such entries, or is no log.
    pub fn told_through(&self, id: u32) -> Option<Micros> {
        let (region, offset) = self.slab.words(id);
        if Header(region[offset]).kind() != KIND_LOG {
            return None;
        }
        let Body::Log(log) = self.bodies.get(region[offset + 1] as u32) else { return None };
        let told_through = region[offset + 2];
        log.entries().next().filter(|(oldest_at, _)| *oldest_at <= told_through).map(|_| told_through)
    }

    /// Has `change` change a record's log and the time up to which it is as told. It answers whether it did, and then
    /// the record is dirty. False for another kind.
    fn with_log(&mut self, id: u32, change: impl FnOnce(&mut Log, &mut Micros) -> bool) -> bool {
        let (region, offset) = self.slab.words_mut(id);
        let header = Header(region[offset]);
        if header.kind() != KIND_LOG {
            return false;
        }
        let Body::Log(log) = self.bodies.get_mut(region[offset + 1] as u32) else { return false };
        let before = log.heap_bytes() as u64;
        if !change(log, &mut region[offset + 2]) {
            return false;
        }
        self.body_heap_bytes = self.body_heap_bytes + log.heap_bytes() as u64 - before;
        region[offset] = Records::written(&mut self.changes, id, header).0;
        true
    }
}

impl Store {
    /// Has a record take the end of a log: `piece` is what the log holds after `keep_through`, up to which the record
    /// has its entries. It is kept under the policy of `piece` from then on. Beyond the memory bound if need be.
    ///
    /// False, and nothing done, if the record is no log, or one under another window; or if both together are more than
    /// a log can hold or out of order, which no charges lead to.
    pub fn join_piece(&mut self, at: Located, id: RecordId, piece: &Content, keep_through: Micros) -> bool {
        let Holding::Limit(policy @ Policy::Log { window, .. }, StateRef::Log(later)) = piece.holding() else {
            return false;
        };
        match self.records.limit(id.0) {
            Some((Policy::Log { window: held, .. }, _)) if held == window => {}
            _ => return false,
        }
        let is_whole = self.records.with_log(id.0, |log, told_through| {
            let is_whole = log.replace_after(keep_through, later);
            if is_whole {
                *told_through = keep_through.min(*told_through);
            }
            is_whole
        });
        if !is_whole {
            return false;
        }
        self.records.set_policy(id.0, policy);
        self.touch(at);
        true
    }
}
