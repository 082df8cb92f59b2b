//! A set of slots, one bit each: 2 KiB, of which a question reads one word.

use tollgate_store::SLOTS;

const WORDS: usize = SLOTS as usize / 64;

/// A set of slots.
#[derive(Clone, PartialEq, Eq)]
pub struct SlotBits([u64; WORDS]);

impl Default for SlotBits {
    fn default() -> SlotBits {
        SlotBits([0; WORDS])
    }
}

impl SlotBits {
    /// Whether a slot is in it. What is no slot is asked for as another.
    #[inline(always)]
    pub fn has(&self, slot: u16) -> bool {
        self.bit(slot) != 0
    }

    /// Whether all of these slots are in it.
    #[inline(always)]
    pub fn has_all(&self, slots: impl Iterator<Item = u16>) -> bool {
        // Mostly all are: to look at each costs less than to ask after each whether to go on.
        slots.fold(1, |all, slot| all & self.bit(slot)) != 0
    }

    #[inline(always)]
    fn bit(&self, slot: u16) -> u64 {
        // Within the words whatever is asked, so that nothing need be compared.
        self.0.get(usize::from(slot >> 6) % WORDS).map_or(0, |word| word >> (slot & 63) & 1)
    }
}

impl FromIterator<u16> for SlotBits {
    fn from_iter<Slots: IntoIterator<Item = u16>>(slots: Slots) -> SlotBits {
        let mut bits = SlotBits::default();
        for slot in slots {
            if let Some(word) = bits.0.get_mut(usize::from(slot >> 6)) {
                *word |= 1 << (slot & 63);
            }
        }
        bits
    }
}

impl std::fmt::Debug for SlotBits {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let count: u32 = self.0.iter().map(|word| word.count_ones()).sum();
        write!(formatter, "SlotBits({count} slots)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_was_put_in() {
        let bits: SlotBits = [0, 63, 64, 5_000, 16_383, 16_384, u16::MAX].into_iter().collect();
        let held: Vec<u16> = (0..SLOTS).filter(|slot| bits.has(*slot)).collect();
        assert_eq!(held, [0, 63, 64, 5_000, 16_383]);
    }
}
