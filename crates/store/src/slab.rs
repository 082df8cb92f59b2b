//! Memory for records: blocks of whole words, cut from pages of 64 KiB.
//!
//! The problem: a box for each record costs 16 bytes of it in the allocator, scatters what a sweep wants to read in
//! order, and needs a 64-bit pointer in the index. The idea: every page serves blocks of one size, a block is named by
//! the 32-bit number of its first word, and what a page needs to know about itself is kept outside of it. Pages lie in
//! regions of 32 (region.rs), and a region goes back to the system with its last page.
//!
//! ```text
//! id = page * 8192 + offset        32 bits of 8-byte words: 32 GiB a core
//! page   | block | block | free -> | block | free -| never used yet ...
//!                                                  ^ fresh
//! ```
//!
//! A page is in use, or spare (it has memory and no block), or vacant (a number without memory). New pages take the
//! lowest vacant number, so that the upper regions come free.
//!
//! The first word of a free block names the next free block of its page. **Invariant:** the kind byte (bits 48 to 55)
//! of a record's first word is zero exactly when its block is free; whoever makes a record must write it.

use crate::region::{HugeRegion, LINE_WORDS, REGION_WORDS, Region, Words};
use std::collections::{BTreeSet, VecDeque};

/// Words of a page.
pub(crate) const PAGE_WORDS: usize = 8_192;
/// Bytes of a page.
pub(crate) const PAGE_BYTES: u64 = 65_536;
/// The largest block: two to a page.
pub(crate) const BLOCK_WORDS_MAX: usize = 4_096;
/// What a page costs: its words, its header, and its share of the region's entry.
pub(crate) const PAGE_COST_BYTES: u64 =
    PAGE_BYTES + (size_of::<PageHeader>() + size_of::<Option<Region>>().div_ceil(REGION_PAGES)) as u64;
/// Pages of a region.
const REGION_PAGES: usize = REGION_WORDS / PAGE_WORDS;

/// Sixteen sizes in steps of one word, then eight to each doubling, so that at most an eighth is wasted and keys of
/// many lengths do not hold a page each.
const CLASSES: usize = 80;
/// Free pages that are kept for the next use: enough that a size class at the edge of a page does not go back and
/// forth to the allocator.
const SPARE_PAGES: usize = 8;
/// Pages compared to find one that is quickly vacated.
const PAGES_COMPARED: usize = 8;
const PAGES_MAX: usize = 1 << 19;
const NO_PAGE: u32 = u32::MAX;
const NO_OFFSET: u16 = u16::MAX;
const KIND_MASK: u64 = 0xFF << 48;

const _: () = assert!(PAGE_WORDS as u64 * 8 == PAGE_BYTES);
const _: () = assert!(PAGES_MAX * PAGE_WORDS == 1 << 32);
const _: () = assert!(CLASSES <= 128, "a class is a bit of a u128");
const _: () = assert!(PAGE_WORDS.is_multiple_of(LINE_WORDS));

/// One line of a block that is made of whole lines.
pub(crate) type Line = [u64; LINE_WORDS];

#[derive(Clone, Copy)]
struct PageHeader {
    /// Neighbours in the list of the class's pages that have a free block.
    previous: u32,
    next: u32,
    /// Words of a block; 0 while the page has no memory.
    stride: u16,
    /// Blocks in use.
    live: u16,
    /// Offset of the first word that no block was ever cut from.
    fresh: u16,
    /// Offset of the first free block below `fresh`.
    free: u16,
}

const UNUSED: PageHeader =
    PageHeader { previous: NO_PAGE, next: NO_PAGE, stride: 0, live: 0, fresh: 0, free: NO_OFFSET };

impl PageHeader {
    fn capacity(&self) -> usize {
        if self.stride == 0 { 0 } else { PAGE_WORDS / usize::from(self.stride) }
    }

    fn is_full(&self) -> bool {
        usize::from(self.live) == self.capacity()
    }
}

/// The blocks of one core.
pub(crate) struct Slab {
    regions: Vec<Option<Region>>,
    /// By page.
    headers: Vec<PageHeader>,
    /// By class: the first page that has a free block.
    open: [u32; CLASSES],
    /// A bit for each class that has such a page.
    open_classes: u128,
    /// By class: blocks that are not in use.
    free_blocks: [u32; CLASSES],
    /// Pages without memory, to be used before new numbers.
    vacant: BTreeSet<u32>,
    /// Pages with memory and without a block: used from the back, given back from the front.
    spare: VecDeque<u32>,
    /// The page that is being emptied, so that the next step goes on with it and does not fill it from another.
    vacating: u32,
    pages_held: u64,
    blocks_held: u64,
}

/// What a walk in address order needs to know of a page.
#[derive(Clone, Copy)]
pub(crate) struct PageShape {
    pub stride: usize,
    pub fresh: usize,
}

impl Slab {
    pub fn new() -> Slab {
        Slab {
            regions: Vec::new(),
            headers: Vec::new(),
            open: [NO_PAGE; CLASSES],
            open_classes: 0,
            free_blocks: [0; CLASSES],
            vacant: BTreeSet::new(),
            spare: VecDeque::new(),
            vacating: NO_PAGE,
            pages_held: 0,
            blocks_held: 0,
        }
    }

    /// The region of a block and the block's offset in it.
    #[inline(always)]
    pub fn words(&self, id: u32) -> (&Words, usize) {
        match &self.regions[region_of(id)] {
            Some(region) => (region.words(), offset_of(id)),
            None => unreachable!("a block's number outlives its page only by a bug"),
        }
    }

    /// As [`Slab::words`], to write.
    #[inline(always)]
    pub fn words_mut(&mut self, id: u32) -> (&mut Words, usize) {
        match &mut self.regions[region_of(id)] {
            Some(region) => (region.words_mut(), offset_of(id)),
            None => unreachable!("a block's number outlives its page only by a bug"),
        }
    }

    /// The line that begins at the word `id`, in a block of whole lines.
    #[inline(always)]
    pub fn line(&self, id: u32) -> &Line {
        let (words, offset) = self.words(id);
        &words.as_chunks().0[offset / LINE_WORDS]
    }

    /// As [`Slab::line`], to write.
    #[inline(always)]
    pub fn line_mut(&mut self, id: u32) -> &mut Line {
        let (words, offset) = self.words_mut(id);
        &mut words.as_chunks_mut().0[offset / LINE_WORDS]
    }

    /// Whether a block of `words` can be had without another page: of its own class, or of a larger one.
    pub fn has_block(&self, words: usize, or_larger: bool) -> bool {
        let class = class_of(words);
        if or_larger { self.open_classes >> class != 0 } else { self.open_classes >> class & 1 != 0 }
    }

    /// Blocks of the class of `words` that are not in use.
    pub fn free_blocks(&self, words: usize) -> usize {
        self.free_blocks[class_of(words)] as usize
    }

    /// Whether a block of `words` is of the size that `id` names.
    pub fn is_of_class(&self, id: u32, words: usize) -> bool {
        self.block_words(id) == class_words(class_of(words))
    }

    /// Pages that so many blocks of the class of `words` fill.
    pub fn pages_for(&self, words: usize, blocks: usize) -> u64 {
        blocks.div_ceil(PAGE_WORDS / class_words(class_of(words))) as u64
    }

    /// Pages at hand that cost no more memory.
    pub fn spare_pages(&self) -> u64 {
        self.spare.len() as u64
    }

    /// A block of at least `words`. Without `may_grow` it takes no memory, and a larger block where none fits exactly.
    /// `None` if there is no block, or the 32 GiB that can be named are used up.
    pub fn allocate(&mut self, words: usize, may_grow: bool) -> Option<u32> {
        let class = class_of(words);
        if self.open_classes >> class & 1 != 0 {
            return Some(self.take_block(self.open[class]));
        }
        if may_grow && self.open_page(class) {
            return Some(self.take_block(self.open[class]));
        }
        let larger = self.open_classes >> class;
        (larger != 0).then(|| self.take_block(self.open[class + larger.trailing_zeros() as usize]))
    }

    /// Copies a block's words into a free block of the same size in another page. Both are in use then. `None` if
    /// there is none.
    pub fn copy_elsewhere(&mut self, id: u32) -> Option<u32> {
        let from = page_of(id);
        let words = usize::from(self.headers[from].stride);
        let first = self.open[class_of(words)];
        let number = if first as usize == from { self.headers[from].next } else { first };
        if number == NO_PAGE {
            return None;
        }
        let copy = self.take_block(number);
        let (source, target) = (offset_of(id), offset_of(copy));
        match self.regions.get_disjoint_mut([region_of(id), region_of(copy)]) {
            Ok([Some(old), Some(new)]) => {
                new.words_mut()[target..target + words].copy_from_slice(&old.words()[source..source + words]);
            }
            _ => self.words_mut(id).0.copy_within(source..source + words, target),
        }
        Some(copy)
    }

    /// A page whose blocks in use all find a place in other pages: the same as the last time as long as it is one, else
    /// the emptiest of some, of the first size that has a whole page's worth of free blocks.
    pub fn page_to_vacate(&mut self) -> Option<u32> {
        let has_enough = |class: &usize| self.free_blocks[*class] as usize >= PAGE_WORDS / class_words(*class);
        let stride = self.headers.get(self.vacating as usize).map_or(0, |header| usize::from(header.stride));
        if stride > 0 && has_enough(&class_of(stride)) {
            return Some(self.vacating);
        }
        let class = (0..CLASSES).find(has_enough)?;
        let successor = |page: &u32| self.headers.get(*page as usize).map(|header| header.next);
        let open = std::iter::successors(Some(self.open[class]), successor).take(PAGES_COMPARED);
        let page = open.filter(|page| *page != NO_PAGE).min_by_key(|page| self.headers[*page as usize].live)?;
        self.vacating = page;
        Some(page)
    }

    /// Gives back the memory of a page that was made and never used.
    pub fn close_unused_page(&mut self, page: u32) {
        let is_unused = |header: &PageHeader| header.stride != 0 && header.live == 0;
        if self.headers.get(page as usize).is_some_and(is_unused) {
            self.unlink(page as usize);
            self.close_page(page as usize);
        }
    }

    /// Makes a page for blocks of `words`. False if there is none at hand that costs no more memory.
    pub fn open_spare_page(&mut self, words: usize) -> bool {
        self.has_spare_page() && self.open_page(class_of(words))
    }

    /// Gives a block back. Its id must not be used again.
    pub fn free(&mut self, id: u32) {
        let number = page_of(id);
        let mut header = self.headers[number];
        let was_full = header.is_full();
        let (words, offset) = self.words_mut(id);
        words[offset] = u64::from(header.free);
        header.free = (offset % PAGE_WORDS) as u16;
        header.live -= 1;
        self.headers[number] = header;
        self.free_blocks[class_of(usize::from(header.stride))] += 1;
        if was_full {
            self.link(number);
        }
        if header.live == 0 {
            self.unlink(number);
            self.close_page(number);
        }
    }

    /// Whether `id`, which must lie below its page's `fresh`, is in use.
    #[inline]
    pub fn is_live(&self, id: u32) -> bool {
        let (words, offset) = self.words(id);
        words[offset] & KIND_MASK != 0
    }

    /// Whether `id`, which may be any number, names a block in use.
    pub fn names_a_record(&self, id: u32) -> bool {
        let offset = id as usize % PAGE_WORDS;
        let shape = self.shape(page_of(id) as u32);
        shape.is_some_and(|shape| offset < shape.fresh && offset.is_multiple_of(shape.stride)) && self.is_live(id)
    }

    /// Page numbers that were ever used: 0 to this, exclusive.
    pub fn page_count(&self) -> u32 {
        self.headers.len() as u32
    }

    /// The shape of a page, `None` if it has no memory.
    #[inline]
    pub fn shape(&self, page: u32) -> Option<PageShape> {
        let header = self.headers.get(page as usize)?;
        (header.stride != 0).then(|| PageShape { stride: usize::from(header.stride), fresh: usize::from(header.fresh) })
    }

    /// Words of the block that `id` names.
    pub fn block_words(&self, id: u32) -> usize {
        usize::from(self.headers[page_of(id)].stride)
    }

    /// Forgets every block at once. The pages become spare ones; [`Slab::trim`] gives them back bit by bit.
    pub fn forget_all(&mut self) {
        let is_used = |number: &usize| self.headers[*number].stride != 0;
        let used = (0..self.headers.len()).rev().filter(is_used).map(|number| number as u32);
        let forgotten = Slab::new();
        *self = Slab {
            spare: used.chain(self.spare.iter().copied()).collect(),
            regions: std::mem::take(&mut self.regions),
            headers: vec![UNUSED; self.headers.len()],
            vacant: std::mem::take(&mut self.vacant),
            pages_held: self.pages_held,
            ..forgotten
        };
    }

    /// Gives at most `pages_max` spare pages beyond those worth keeping (or every one, for `all`) back. Returns how
    /// many it gave.
    pub fn trim(&mut self, pages_max: usize, all: bool) -> usize {
        let keep = if all { 0 } else { SPARE_PAGES };
        let mut given = 0;
        while self.spare.len() > keep
            && given < pages_max
            && let Some(page) = self.spare.pop_front()
        {
            self.vacate(page);
            given += 1;
        }
        given
    }

    /// Whether a page is at hand that costs no more memory.
    pub fn has_spare_page(&self) -> bool {
        !self.spare.is_empty()
    }

    /// Pages that have memory, spare ones included.
    pub fn pages_held(&self) -> u64 {
        self.pages_held
    }

    /// Blocks that the pages in use have room for.
    pub fn blocks_held(&self) -> u64 {
        self.blocks_held
    }

    /// Bytes of all pages, their headers included.
    pub fn bytes(&self) -> u64 {
        self.pages_held * PAGE_COST_BYTES
    }

    /// [`Slab::bytes`], counted again.
    pub fn bytes_recounted(&self) -> u64 {
        let used = self.headers.iter().filter(|header| header.stride != 0).count();
        (used + self.spare.len()) as u64 * PAGE_COST_BYTES
    }

    /// Whether a region is full and would be read faster from a huge page.
    pub fn wants_huge_region(&self) -> bool {
        self.region_to_renew().is_some()
    }

    fn region_to_renew(&self) -> Option<usize> {
        let is_full = |region: &Region| region.pages_held as usize == REGION_PAGES;
        let mut regions = self.regions.iter().enumerate();
        regions.position(|(number, region)| {
            region.as_ref().is_some_and(|region| is_full(region) && region.wants_huge(number))
        })
    }

    /// Puts a full region, if there is still one, into a huge page. What comes back is no longer in use.
    pub fn renew_region(&mut self, huge: HugeRegion) -> HugeRegion {
        let HugeRegion(mut region) = huge;
        if let Some(number) = self.region_to_renew()
            && let Some(full) = &mut self.regions[number]
        {
            region.words_mut().copy_from_slice(full.words());
            region.pages_held = full.pages_held;
            std::mem::swap(full, &mut region);
        }
        HugeRegion(region)
    }

    /// A block of a page that has a free one.
    fn take_block(&mut self, page: u32) -> u32 {
        let number = page as usize;
        let mut header = self.headers[number];
        let offset = if header.free == NO_OFFSET {
            let offset = header.fresh;
            header.fresh += header.stride;
            offset
        } else {
            let offset = header.free;
            let (words, at) = self.words(page * PAGE_WORDS as u32 + u32::from(offset));
            header.free = words[at] as u16;
            offset
        };
        header.live += 1;
        self.headers[number] = header;
        self.free_blocks[class_of(usize::from(header.stride))] -= 1;
        if header.is_full() {
            self.unlink(number);
        }
        page * PAGE_WORDS as u32 + u32::from(offset)
    }

    /// Finds memory for one more page of `class`. False if there is none, or no page number is left.
    fn open_page(&mut self, class: usize) -> bool {
        let Some(page) = self.spare.pop_back().or_else(|| self.take_memory()) else { return false };
        let number = page as usize;
        self.headers[number] = PageHeader { stride: class_words(class) as u16, ..UNUSED };
        let blocks = self.headers[number].capacity();
        self.blocks_held += blocks as u64;
        self.free_blocks[class] += blocks as u32;
        self.link(number);
        true
    }

    /// A page that had no memory.
    fn take_memory(&mut self) -> Option<u32> {
        let page = self.vacant.first().copied().unwrap_or(self.headers.len() as u32);
        if page as usize >= PAGES_MAX {
            return None;
        }
        let number = page as usize / REGION_PAGES;
        if self.regions.len() <= number {
            self.regions.resize_with(number + 1, || None);
        }
        let region = &mut self.regions[number];
        if region.is_none() {
            *region = Region::new();
        }
        region.as_mut()?.pages_held += 1;
        self.pages_held += 1;
        if !self.vacant.remove(&page) {
            self.headers.push(UNUSED);
        }
        Some(page)
    }

    /// Gives a page's memory back, and forgets the numbers at the end that have none.
    fn vacate(&mut self, page: u32) {
        let region = &mut self.regions[page as usize / REGION_PAGES];
        if let Some(held) = region {
            held.pages_held -= 1;
            if held.pages_held == 0 {
                *region = None;
            }
        }
        self.pages_held -= 1;
        self.vacant.insert(page);
        while self.vacant.last().is_some_and(|last| *last as usize + 1 == self.headers.len()) {
            self.vacant.pop_last();
            self.headers.pop();
        }
    }

    fn close_page(&mut self, number: usize) {
        let blocks = self.headers[number].capacity();
        self.blocks_held -= blocks as u64;
        let class = class_of(usize::from(self.headers[number].stride));
        self.free_blocks[class] -= blocks as u32;
        self.headers[number] = UNUSED;
        if self.vacating == number as u32 {
            self.vacating = NO_PAGE;
        }
        if self.spare.len() < SPARE_PAGES {
            self.spare.push_back(number as u32);
        } else {
            self.vacate(number as u32);
        }
    }

    /// Puts a page at the head of its class's list of pages that have a free block.
    fn link(&mut self, number: usize) {
        let class = class_of(usize::from(self.headers[number].stride));
        let head = self.open[class];
        self.headers[number].previous = NO_PAGE;
        self.headers[number].next = head;
        if let Some(next) = self.headers.get_mut(head as usize) {
            next.previous = number as u32;
        }
        self.open[class] = number as u32;
        self.open_classes |= 1 << class;
    }

    fn unlink(&mut self, number: usize) {
        let PageHeader { previous, next, stride, .. } = self.headers[number];
        let class = class_of(usize::from(stride));
        match self.headers.get_mut(previous as usize) {
            Some(header) => header.next = next,
            None => self.open[class] = next,
        }
        if let Some(header) = self.headers.get_mut(next as usize) {
            header.previous = previous;
        }
        if self.open[class] == NO_PAGE {
            self.open_classes &= !(1 << class);
        }
    }
}

#[inline]
fn page_of(id: u32) -> usize {
    id as usize / PAGE_WORDS
}

#[inline]
fn region_of(id: u32) -> usize {
    id as usize / REGION_WORDS
}

/// Where in its region a block begins.
#[inline]
fn offset_of(id: u32) -> usize {
    id as usize % REGION_WORDS
}

/// The smallest class whose blocks hold `words` (1 to [`BLOCK_WORDS_MAX`]).
pub(crate) fn class_of(words: usize) -> usize {
    if words <= 16 {
        return words - 1;
    }
    let last = words - 1;
    let exponent = last.ilog2() as usize;
    16 + (exponent - 4) * 8 + ((last - (1 << exponent)) >> (exponent - 3))
}

/// The words of a block of `class`.
pub(crate) fn class_words(class: usize) -> usize {
    if class < 16 {
        return class + 1;
    }
    let exponent = (class - 16) / 8 + 4;
    (1 << exponent) + ((class - 16) % 8 + 1) * (1 << (exponent - 3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_what_they_are_asked_for() {
        assert_eq!(class_of(BLOCK_WORDS_MAX), CLASSES - 1);
        for words in 1..=BLOCK_WORDS_MAX {
            let class = class_of(words);
            assert!(class_words(class) >= words);
            assert!(class == 0 || class_words(class - 1) < words);
            assert!(class_words(class) * 8 <= words * 9 + 8);
        }
    }

    /// Takes a block and marks it as in use.
    fn take(slab: &mut Slab, words: usize, may_grow: bool) -> Option<u32> {
        let id = slab.allocate(words, may_grow)?;
        let (words, offset) = slab.words_mut(id);
        words[offset] = 1 << 48;
        Some(id)
    }

    #[test]
    fn blocks_are_used_again_and_pages_come_back() {
        let mut slab = Slab::new();
        let ids: Vec<u32> = (0..20 * 1_365).filter_map(|_| take(&mut slab, 6, true)).collect();
        assert_eq!((ids.len(), slab.pages_held()), (20 * 1_365, 20));
        slab.free(ids[7]);
        assert!(!slab.is_live(ids[7]));
        assert_eq!(take(&mut slab, 6, true), Some(ids[7]));
        for id in &ids {
            assert!(slab.is_live(*id));
            slab.free(*id);
        }
        assert_eq!((slab.pages_held(), slab.blocks_held()), (SPARE_PAGES as u64, 0));
        assert_eq!(slab.bytes(), slab.bytes_recounted());
        assert_eq!(slab.trim(100, true), SPARE_PAGES);
        assert_eq!(slab.bytes(), 0);
    }

    #[test]
    fn a_larger_block_serves_where_memory_may_not_grow() {
        let mut slab = Slab::new();
        let long = take(&mut slab, 9, true);
        assert_eq!(take(&mut slab, 10, false), None);
        assert!(slab.has_block(4, true) && !slab.has_block(4, false));
        let short = take(&mut slab, 4, false);
        assert_eq!(short.map(|id| slab.block_words(id)), long.map(|id| slab.block_words(id)));
    }

    #[test]
    fn forgotten_pages_serve_again() {
        let mut slab = Slab::new();
        for _ in 0..40 {
            take(&mut slab, 2_000, true);
        }
        slab.forget_all();
        assert_eq!((slab.pages_held(), slab.blocks_held(), slab.spare_pages()), (10, 0, 10));
        let id = take(&mut slab, 2_000, true);
        assert_eq!((id, slab.pages_held()), (Some(0), 10));
        assert_eq!(slab.bytes(), slab.bytes_recounted());
        assert_eq!(slab.trim(100, true), 9);
        assert_eq!((slab.pages_held(), slab.page_count()), (1, 1));
    }

    #[test]
    fn full_regions_beyond_the_first_move_and_keep_what_is_in_them() {
        let mut slab = Slab::new();
        let ids: Vec<u32> = (0..6 * REGION_PAGES * 2).filter_map(|_| take(&mut slab, BLOCK_WORDS_MAX, true)).collect();
        for id in &ids {
            let (words, offset) = slab.words_mut(*id);
            words[offset + 1] = u64::from(*id);
        }
        slab.free(ids[5 * REGION_PAGES * 2]);
        slab.free(ids[5 * REGION_PAGES * 2 + 1]);
        slab.trim(usize::MAX, true);
        let mut renewed = 0;
        while slab.wants_huge_region()
            && let Some(huge) = HugeRegion::new()
        {
            slab.renew_region(huge);
            renewed += 1;
        }
        assert!(renewed <= 1, "the fifth alone: the first four are small, the sixth is not full");
        for id in ids.iter().filter(|id| !(5 * REGION_PAGES..5 * REGION_PAGES + 1).contains(&page_of(**id))) {
            let (words, offset) = slab.words(*id);
            assert_eq!(words[offset + 1], u64::from(*id));
        }
        if let Some(unused) = HugeRegion::new() {
            slab.renew_region(unused);
        }
        assert_eq!(slab.bytes(), slab.bytes_recounted());
    }

    #[test]
    fn regions_go_with_their_last_page() {
        let mut slab = Slab::new();
        let regions = |slab: &Slab| slab.regions.iter().filter(|region| region.is_some()).count();
        let ids: Vec<u32> =
            (0..6 * REGION_PAGES).filter_map(|_| take(&mut slab, BLOCK_WORDS_MAX - 100, true)).collect();
        assert_eq!((ids.len(), regions(&slab)), (6 * REGION_PAGES, 3));
        // All but one page of the first and one of the last region.
        for id in ids.iter().filter(|id| !matches!(page_of(**id), 3 | 90)) {
            slab.free(*id);
        }
        slab.trim(usize::MAX, true);
        assert_eq!((slab.pages_held(), regions(&slab), slab.page_count()), (2, 2, 91));
        // The lowest numbers are used first, and what was in use before is untouched.
        let again: Vec<Option<u32>> = (0..4).map(|_| take(&mut slab, BLOCK_WORDS_MAX, true)).collect();
        let half = BLOCK_WORDS_MAX as u32;
        assert_eq!(again, [0, half, half * 2, half * 3].map(Some));
        assert_eq!(
            ids.iter().filter(|id| slab.shape(page_of(**id) as u32).is_some_and(|_| slab.is_live(**id))).count(),
            8
        );
        assert_eq!(slab.bytes(), slab.bytes_recounted());
    }
}
