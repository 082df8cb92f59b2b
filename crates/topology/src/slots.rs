//! Sets of slots, and who owns which.

use crate::id::NodeId;
use serde::{Deserialize, Serialize};

/// How many slots there are.
pub const SLOTS: u16 = 16_384;

/// Neighbouring slots of one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    /// The first.
    pub first: u16,
    /// The last.
    pub last: u16,
    /// Whose they are.
    pub owner: NodeId,
}

impl Range {
    /// How many there are.
    pub fn count(&self) -> u16 {
        self.last.saturating_sub(self.first).saturating_add(1)
    }
}

/// Who owns which slots, as ranges in order that could not be longer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Slots(Vec<Range>);

impl Slots {
    /// The ranges in order.
    pub fn ranges(&self) -> &[Range] {
        &self.0
    }

    /// The owner of a slot.
    pub fn owner_of(&self, slot: u16) -> Option<NodeId> {
        let at = self.0.partition_point(|range| range.last < slot);
        self.0.get(at).filter(|range| range.first <= slot).map(|range| range.owner)
    }

    /// How many have an owner.
    pub fn count(&self) -> u16 {
        self.0.iter().map(Range::count).sum()
    }

    /// Gives slots to `owner`, or to nobody.
    pub fn give(&mut self, slots: &SlotSet, owner: Option<NodeId>) {
        let mut owners = self.spread();
        for slot in slots.iter() {
            if let Some(place) = owners.get_mut(usize::from(slot)) {
                *place = owner;
            }
        }
        self.gather(&owners);
    }

    /// Gives all slots of one node to another.
    pub fn give_all(&mut self, from: NodeId, to: NodeId) {
        let mut owners = self.spread();
        owners.iter_mut().filter(|owner| **owner == Some(from)).for_each(|owner| *owner = Some(to));
        self.gather(&owners);
    }

    fn spread(&self) -> Vec<Option<NodeId>> {
        (0..SLOTS).map(|slot| self.owner_of(slot)).collect()
    }

    fn gather(&mut self, owners: &[Option<NodeId>]) {
        self.0.clear();
        for (slot, owner) in (0..SLOTS).zip(owners) {
            let Some(owner) = *owner else { continue };
            match self.0.last_mut() {
                Some(range) if range.owner == owner && range.last + 1 == slot => range.last = slot,
                _ => self.0.push(Range { first: slot, last: slot, owner }),
            }
        }
    }
}

/// A set of slots, as ranges in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SlotSet(Vec<(u16, u16)>);

impl SlotSet {
    /// Of slots in any order, each once or more often. What is no slot is left out.
    pub fn new(slots: impl IntoIterator<Item = u16>) -> SlotSet {
        let mut slots: Vec<u16> = slots.into_iter().filter(|slot| *slot < SLOTS).collect();
        slots.sort_unstable();
        slots.dedup();
        let mut ranges: Vec<(u16, u16)> = Vec::new();
        for slot in slots {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == slot => *last = slot,
                _ => ranges.push((slot, slot)),
            }
        }
        SlotSet(ranges)
    }

    /// The slots, in order. One that came from outside may name what is no slot: that is left out.
    pub fn iter(&self) -> impl Iterator<Item = u16> {
        self.0.iter().flat_map(|(first, last)| *first..=(*last).min(SLOTS - 1))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_say_what_a_list_of_all_slots_says(
            gifts in prop::collection::vec((prop::collection::vec(0..SLOTS, 0..40), 0u8..4), 0..12)
        ) {
            let mut slots = Slots::default();
            let mut model = vec![None; usize::from(SLOTS)];
            for (given, owner) in gifts {
                let owner = (owner > 0).then_some(NodeId([owner; 20]));
                given.iter().for_each(|slot| model[usize::from(*slot)] = owner);
                slots.give(&SlotSet::new(given), owner);
            }
            prop_assert_eq!(&slots.spread(), &model);
            prop_assert_eq!(usize::from(slots.count()), model.iter().flatten().count());
            for pair in slots.ranges().windows(2) {
                prop_assert!(pair[0].last < pair[1].first);
                prop_assert!(pair[0].owner != pair[1].owner || pair[0].last + 1 < pair[1].first, "could be longer");
            }
        }
    }

    #[test]
    fn what_is_no_slot_is_left_out() {
        let set: SlotSet = serde_json::from_str("[[3,4],[16383,65535],[9,2]]").unwrap();
        assert_eq!(set.iter().collect::<Vec<_>>(), [3, 4, 16_383]);
        assert!(SlotSet::new([16_384, 65_535]).is_empty());
    }
}
