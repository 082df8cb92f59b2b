//! Memory of the operating system, in pieces as large as its huge pages.
//!
//! The problem: records and tables are read at random, and with pages of 4 KiB every read of a large store misses the
//! CPU's list of translations as well as its caches. The idea: memory is taken in regions of 2 MiB that begin where a
//! huge page may begin. A region begins in small pages, which cost what is touched and no more; once it is full,
//! another thread has a huge page made ([`HugeRegion::new`]: the kernel clears it, and the host of a virtual machine
//! may have to find its memory first, which takes milliseconds), and the owner copies the region into it. The first few
//! regions of an owner stay as they are: their translations fit.
//!
//! Measured: where each region was a huge page from the start, the longest step of a growing store was 6 to 9 ms, which
//! is 0.5 ms now; in small pages alone a call on a random one of 10 million keys takes a third longer (benches/decide).
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
/// Words of a page that is not huge.
const SMALL_PAGE_WORDS: usize = 512;
/// Regions that stay in small pages: 8 MiB, as much as the translations that a CPU keeps can cover.
const SMALL_REGIONS: usize = 4;

/// All words of a region.
pub(crate) type Words = [u64; REGION_WORDS];

/// One region, zeroed at first.
pub(crate) struct Region {
    /// Lies in the mapping, which is never touched otherwise.
    words: NonNull<Words>,
    map: MmapMut,
    /// Whether it lies in a huge page, as far as the system had one.
    is_huge: bool,
    /// How many pages of it are in use; kept by the owner.
    pub pages_held: u32,
}

// SAFETY: a region owns its mapping, which is memory as any other, and lends it as it is borrowed itself.
unsafe impl Send for Region {}
// SAFETY: as above; nothing changes behind a shared reference.
unsafe impl Sync for Region {}

impl Region {
    /// A region that takes memory as it is touched. `None` if the system has none left.
    pub fn new() -> Option<Region> {
        // Newer kernels place such a mapping where a huge page fits; elsewhere a part of a larger one does.
        Region::in_mapping(REGION_BYTES).or_else(|| Region::in_mapping(2 * REGION_BYTES))
    }

    /// Whether it gains by a huge page, as the region that its owner has after `before` others.
    pub fn wants_huge(&self, before: usize) -> bool {
        before >= SMALL_REGIONS && !self.is_huge
    }

    fn in_mapping(bytes: usize) -> Option<Region> {
        let mut map = MmapMut::map_anon(bytes).ok()?;
        let skip = map.as_ptr().align_offset(REGION_BYTES);
        let region = map.get_mut(skip..skip.checked_add(REGION_BYTES)?)?;
        let words: &mut Words = bytemuck::try_from_bytes_mut(region).ok()?;
        Some(Region { words: NonNull::from(words), map, is_huge: false, pages_held: 0 })
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

/// Memory in a huge page, for a region that is full.
pub struct HugeRegion(pub(crate) Region);

impl HugeRegion {
    /// Takes milliseconds, so never call it on a core's thread. `None` if the system offers no huge pages, or has no
    /// memory left.
    pub fn new() -> Option<HugeRegion> {
        let mut region = Region::new()?;
        region.map.advise(Advice::HugePage).ok()?;
        region.is_huge = true;
        // By writing, as `MADV_POPULATE_WRITE` would keep the core from mapping anything until all is there.
        region.words_mut().iter_mut().step_by(SMALL_PAGE_WORDS).for_each(|word| *word = std::hint::black_box(0));
        Some(HugeRegion(region))
    }
}

impl std::fmt::Debug for HugeRegion {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("HugeRegion")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_begin_where_a_huge_page_may() {
        let regions = [Region::new(), HugeRegion::new().map(|huge| huge.0).or_else(Region::new)];
        for mut region in regions.into_iter().flatten() {
            assert_eq!(region.words().as_ptr().align_offset(REGION_BYTES), 0);
            assert!(region.words().iter().all(|word| *word == 0));
            region.words_mut()[REGION_WORDS - 1] = 7;
            assert_eq!(region.words()[REGION_WORDS - 1], 7);
        }
    }
}
