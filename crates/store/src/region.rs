//! Memory of the operating system, in pieces as large as its huge pages.
//!
//! The problem: records and tables are read at random, and with pages of 4 KiB every read of a large store misses the
//! CPU's list of translations as well as its caches. The idea: memory is taken in regions of 2 MiB that begin where a
//! huge page may begin, and the kernel is asked to back each by one (`madvise`). The first few regions of an owner are
//! left in small pages, which cost what is touched and no more: a small store stays small, and its translations fit.
//!
//! Measured: where each access asks the mapping anew for its length and alignment, RL.SLIDE at pipeline 16 takes 31
//! instructions more of 650 (benches/instructions).

#![expect(unsafe_code, reason = "a mapping is bytes of unknown length and alignment to all but this file")]

use memmap2::{Advice, MmapMut};
use std::ptr::NonNull;

/// Words of a region.
pub(crate) const REGION_WORDS: usize = 1 << 18;
const REGION_BYTES: usize = REGION_WORDS * 8;
/// Words of a line: what a CPU reads at once.
pub(crate) const LINE_WORDS: usize = 8;
/// Regions in small pages: 8 MiB, as much as the translations that a CPU keeps can cover.
const SMALL_REGIONS: usize = 4;

/// All words of a region.
pub(crate) type Words = [u64; REGION_WORDS];

/// One region, zeroed at first.
pub(crate) struct Region {
    /// Lies in the mapping, which is never touched otherwise.
    words: NonNull<Words>,
    map: MmapMut,
    /// How many pages of it are in use; kept by the owner.
    pub pages_held: u32,
}

// SAFETY: a region owns its mapping, which is memory as any other, and lends it as it is borrowed itself.
unsafe impl Send for Region {}
// SAFETY: as above; nothing changes behind a shared reference.
unsafe impl Sync for Region {}

impl Region {
    /// The region that its owner takes after `before` others. `None` if the system has no memory left.
    pub fn new(before: usize) -> Option<Region> {
        // Newer kernels place such a mapping where a huge page fits; elsewhere a part of a larger one does.
        let region = Region::in_mapping(REGION_BYTES).or_else(|| Region::in_mapping(2 * REGION_BYTES))?;
        if before >= SMALL_REGIONS {
            // A kernel without huge pages refuses, which costs nothing but speed.
            let _ = region.map.advise(Advice::HugePage);
        }
        Some(region)
    }

    fn in_mapping(bytes: usize) -> Option<Region> {
        let mut map = MmapMut::map_anon(bytes).ok()?;
        let skip = map.as_ptr().align_offset(REGION_BYTES);
        let region = map.get_mut(skip..skip.checked_add(REGION_BYTES)?)?;
        let words: &mut Words = bytemuck::try_from_bytes_mut(region).ok()?;
        Some(Region { words: NonNull::from(words), map, pages_held: 0 })
    }

    #[inline(always)]
    pub fn words(&self) -> &Words {
        // SAFETY: the words lie in the mapping, which lives as long as the region and is reached in no other way.
        unsafe { self.words.as_ref() }
    }

    #[inline(always)]
    pub fn words_mut(&mut self) -> &mut Words {
        // SAFETY: as above, and the region is borrowed for writing.
        unsafe { self.words.as_mut() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_begin_where_a_huge_page_may() {
        for before in [0, SMALL_REGIONS] {
            let mut region = Region::new(before).unwrap_or_else(|| panic!("2 MiB"));
            assert_eq!(region.words().as_ptr().align_offset(REGION_BYTES), 0);
            assert!(region.words().iter().all(|word| *word == 0));
            region.words_mut()[REGION_WORDS - 1] = 7;
            assert_eq!(region.words()[REGION_WORDS - 1], 7);
        }
    }
}
