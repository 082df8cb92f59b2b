//! Which core owns what.

use tollgate_store::SLOTS;

/// Slots lie on cores in runs of this many, so that a contiguous range of slots still spreads over all cores.
pub const SLOT_RUN: u16 = 64;

/// The core that owns a slot.
#[inline]
pub fn owner(slot: u16, cores: u16) -> u16 {
    if cores <= 1 { 0 } else { slot / SLOT_RUN % cores }
}

/// The slot in a SCAN cursor's upper bits.
pub const fn cursor_slot(cursor: u32) -> u16 {
    let slot = cursor >> CURSOR_POSITION_BITS;
    // At most 14 bits are left of a cursor below 2^31; a larger one is refused before.
    (slot & 0x3fff) as u16
}

/// Bits of a SCAN cursor below the slot.
pub const CURSOR_POSITION_BITS: u32 = 17;
/// Cursors lie below this.
pub const CURSOR_END: u32 = (SLOTS as u32) << CURSOR_POSITION_BITS;
