//! A limit's record, kept aside so that a charge can be undone exactly.

use crate::locate::Located;
use crate::records::NewState;
use crate::store::{RecordId, Store};
use tollgate_limits::{Bucket, Fixed, Log, Policy, Slide, StateRef};

/// What a limit's key held at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    policy: Policy,
    state: SavedState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum SavedState {
    Slide(Slide),
    Token(Bucket),
    Fixed(Fixed),
    Log(Log),
    Leak(Bucket),
}

impl Saved {
    /// The policy the record is kept under.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The state.
    pub fn state(&self) -> StateRef<'_> {
        match &self.state {
            SavedState::Slide(slide) => StateRef::Slide(*slide),
            SavedState::Token(bucket) => StateRef::Token(*bucket),
            SavedState::Fixed(fixed) => StateRef::Fixed(*fixed),
            SavedState::Log(log) => StateRef::Log(log),
            SavedState::Leak(bucket) => StateRef::Leak(*bucket),
        }
    }

    pub(crate) fn of(policy: &Policy, state: StateRef<'_>) -> Saved {
        let state = match state {
            StateRef::Slide(slide) => SavedState::Slide(slide),
            StateRef::Token(bucket) => SavedState::Token(bucket),
            StateRef::Fixed(fixed) => SavedState::Fixed(fixed),
            StateRef::Log(log) => SavedState::Log(log.clone()),
            StateRef::Leak(bucket) => SavedState::Leak(bucket),
        };
        Saved { policy: *policy, state }
    }

    pub(crate) fn to_new_state(&self) -> Option<NewState> {
        match &self.state {
            SavedState::Slide(slide) => Some(NewState::slide(*slide)),
            SavedState::Token(bucket) | SavedState::Leak(bucket) => NewState::bucket(self.policy.algorithm(), *bucket),
            SavedState::Fixed(fixed) => Some(NewState::fixed(*fixed)),
            SavedState::Log(log) => Some(NewState::Log(log.clone())),
        }
    }
}

impl Store {
    /// A copy of what the record of a limit holds. `None` if it is no limit.
    pub fn save(&self, id: RecordId) -> Option<Saved> {
        self.records.limit(id.0).map(|(policy, state)| Saved::of(policy, state))
    }

    /// Whether the record holds what was saved.
    pub fn is_same(&self, id: RecordId, saved: &Saved) -> bool {
        let Some((policy, state)) = self.records.limit(id.0) else { return false };
        let is_same_state = match (state, &saved.state) {
            (StateRef::Slide(now), SavedState::Slide(then)) => now == *then,
            (StateRef::Token(now), SavedState::Token(then)) => now == *then,
            (StateRef::Fixed(now), SavedState::Fixed(then)) => now == *then,
            (StateRef::Log(now), SavedState::Log(then)) => now == then,
            (StateRef::Leak(now), SavedState::Leak(then)) => now == *then,
            _ => false,
        };
        is_same_state && *policy == saved.policy
    }

    /// Puts back what was saved, or takes the record away for `None`. `id` is the key's record as it is now. It may
    /// pass the memory bound: an undo never fails. Returns where the record is now.
    pub fn restore(
        &mut self,
        at: Located,
        key: &[u8],
        id: Option<RecordId>,
        saved: Option<&Saved>,
    ) -> Option<RecordId> {
        let state = saved.and_then(|saved| saved.to_new_state().map(|state| (&saved.policy, state)));
        match (id, state) {
            (None, None) => None,
            (Some(id), None) => {
                self.remove(at, id);
                None
            }
            (Some(id), Some((policy, state))) if self.overwrite(id, policy, &state) => {
                self.touch(at);
                Some(id)
            }
            (id, Some((policy, state))) => {
                if let Some(id) = id {
                    self.drop_record(at, id.0);
                }
                // No moment is given, so nothing that the index holds counts as expired.
                self.create(at, key, Some(policy), state, true, 0)
            }
        }
    }

    /// Writes a state over a record of the same kind. False for another kind, and for a log.
    fn overwrite(&mut self, id: RecordId, policy: &Policy, state: &NewState) -> bool {
        let is_written = match state {
            NewState::Words2(kind, words) => self.records.write2(id.0, *kind, *words),
            NewState::Words4(kind, words) => self.records.write4(id.0, *kind, *words),
            NewState::Log(_) | NewState::Bytes(..) => false,
        };
        if is_written {
            self.records.set_policy(id.0, policy);
        }
        is_written
    }
}
