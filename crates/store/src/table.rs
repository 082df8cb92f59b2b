//! A small hash table whose lookup reads one line of memory.
//!
//! The problem: in a table with its tags in one place and its numbers in another, a lookup misses the cache twice
//! before it comes to the record, and what is moved into another table must be hashed again, a miss for each. The idea:
//! a line of 64 bytes holds eight numbers and beside them 32 bits of each one's hash, which are all that its place
//! depends on. An entry lies in the first line from its own on that had room, and what is removed is replaced by an
//! entry of a later line that belongs there; so a lookup ends at the first line that is not full, and removals leave no
//! trace.
//! (Linear probing with buckets: D. E. Knuth, The Art of Computer Programming, vol. 3, 6.4, algorithms L and R.)
//!
//! ```text
//! line   | id0 id1 id2 id3 id4 id5 id6 id7 | tag0 tag1 tag2 tag3 tag4 tag5 tag6 tag7 |
//! tag    bits 0 to 16: which table (index.rs)     bits 17 to 31: which line of it
//! ```
//!
//! **Invariants:** the entries of a line come first in it. All lines from an entry's own up to the one it lies in are
//! full.

use crate::region::{HugeRegion, LINE_WORDS};
use crate::slab::{BLOCK_WORDS_MAX, Line, Slab, class_of, class_words};
use crate::wide::{Lanes, Narrow};

/// Entries of a line.
const LINE_ENTRIES: usize = 8;
/// The most lines of a table.
const LINES_MAX: usize = BLOCK_WORDS_MAX / LINE_WORDS;
/// Bits of a tag below those that choose the line.
const HOME_SHIFT: u32 = 17;
/// Bits that choose the line.
const HOME_BITS: u32 = u32::BITS - HOME_SHIFT;
/// The number of no entry.
const NONE: u32 = u32::MAX;

const _: () = assert!(LINES_MAX <= 1 << HOME_BITS && LINES_MAX * LINE_ENTRIES <= u16::MAX as usize);

/// The memory of tables: what they are is known to them alone. What its pages have beyond the tables, at most some
/// dozen pages, is in nobody's account, as what an allocator keeps is not.
pub(crate) struct Tables {
    slab: Slab,
}

impl Tables {
    pub fn new() -> Tables {
        Tables { slab: Slab::new() }
    }

    pub fn wants_huge_region(&self) -> bool {
        self.slab.wants_huge_region()
    }

    pub fn renew_region(&mut self, huge: HugeRegion) -> HugeRegion {
        self.slab.renew_region(huge)
    }
}

/// One entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The part of the hash that decides where the entry lies.
    pub tag: u32,
    /// The number that is kept under it; never the highest one of all.
    pub id: u32,
}

/// A set of entries. Its memory lies in [`Tables`] and is given back by [`Table::clear`] only.
#[derive(Default)]
pub(crate) struct Table {
    block: u32,
    len: u16,
    lines: u16,
}

impl Table {
    /// An empty table with room for so many entries. It has less if memory or block numbers are used up.
    pub fn with_capacity(entries: usize, tables: &mut Tables) -> Table {
        Table::of_lines(lines_for(entries), tables)
    }

    fn of_lines(lines: usize, tables: &mut Tables) -> Table {
        let block = if lines == 0 { None } else { tables.slab.allocate(lines * LINE_WORDS, true) };
        let Some(block) = block else { return Table::default() };
        let table = Table { block, len: 0, lines: lines as u16 };
        for line in 0..lines {
            *table.line_mut(line, tables) = [u64::MAX, u64::MAX, u64::MAX, u64::MAX, 0, 0, 0, 0];
        }
        table
    }

    #[inline]
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Entries above which it should grow.
    #[inline]
    pub fn capacity(&self) -> usize {
        capacity(usize::from(self.lines))
    }

    #[inline]
    pub fn is_full(&self) -> bool {
        self.len() >= self.capacity()
    }

    /// Bytes of its memory.
    #[inline]
    pub fn bytes(&self) -> u64 {
        line_bytes(usize::from(self.lines))
    }

    /// Bytes of its memory once [`Table::grow`] has made it larger.
    pub fn bytes_grown(&self) -> u64 {
        line_bytes(self.lines_grown())
    }

    /// The number under `tag` that `is_it` accepts.
    #[inline(always)]
    pub fn find(&self, tag: u32, tables: &Tables, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        if self.lines == 0 {
            return None;
        }
        let home = self.home(tag);
        let line = self.line(home, tables);
        if let Some(id) = find_in(line, tag, &mut is_it) {
            return Some(id);
        }
        if is_full(line) { self.find_behind(home, tag, tables, is_it) } else { None }
    }

    /// The line in which an entry with this tag is looked for first. `None` if there is none at all.
    #[inline(always)]
    pub fn first_line<'a>(&self, tag: u32, tables: &'a Tables) -> Option<&'a Line> {
        (self.lines > 0).then(|| self.line(self.home(tag), tables))
    }

    #[inline(never)]
    fn find_behind(&self, home: usize, tag: u32, tables: &Tables, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        for step in 1..usize::from(self.lines) {
            let line = self.line(self.after(home, step), tables);
            if let Some(id) = find_in(line, tag, &mut is_it) {
                return Some(id);
            }
            if !is_full(line) {
                break;
            }
        }
        None
    }

    /// Puts another number in the place of one that is there.
    pub fn replace(&mut self, old: Entry, new: u32, tables: &mut Tables) {
        if let Some((line, place)) = self.place_of(old, tables) {
            numbers_mut(self.line_mut(line, tables))[place] = new;
        }
    }

    /// Puts an entry in, even beyond the capacity. False if there is no place at all.
    pub fn insert(&mut self, entry: Entry, tables: &mut Tables) -> bool {
        let home = self.home(entry.tag);
        for step in 0..usize::from(self.lines) {
            let line = self.line_mut(self.after(home, step), tables);
            if let Some(place) = numbers(line)[..LINE_ENTRIES].iter().position(|id| *id == NONE) {
                put(line, place, entry);
                self.len += 1;
                return true;
            }
        }
        false
    }

    /// Takes an entry out. False if it is not in.
    pub fn remove(&mut self, entry: Entry, tables: &mut Tables) -> bool {
        let Some((line, place)) = self.place_of(entry, tables) else { return false };
        self.len -= 1;
        let was_full = take(self.line_mut(line, tables), place);
        if was_full {
            self.close_gap(line, tables);
        }
        true
    }

    /// After an entry left a line that was full: brings back one that had to go on from there, and so on.
    fn close_gap(&mut self, gap: usize, tables: &mut Tables) {
        let (mut gap, mut step) = (gap, 0);
        while step + 1 < usize::from(self.lines) {
            step += 1;
            let at = self.after(gap, step);
            let line = *self.line(at, tables);
            // What lies at least as far behind its own line as the gap is away may lie in the gap.
            let may_move = |entry: &Entry| self.distance(self.home(entry.tag), at) >= step;
            let found = entries_of(&line).enumerate().find(|(_, entry)| may_move(entry));
            if let Some((place, entry)) = found {
                let place_in_gap = entries_of(self.line(gap, tables)).count();
                put(self.line_mut(gap, tables), place_in_gap, entry);
                take(self.line_mut(at, tables), place);
                (gap, step) = (at, 0);
            }
            if !is_full(&line) {
                break;
            }
        }
    }

    /// Every entry.
    pub fn entries<'a>(&'a self, tables: &'a Tables) -> impl Iterator<Item = Entry> + 'a {
        (0..usize::from(self.lines)).flat_map(|line| entries_of(self.line(line, tables)))
    }

    /// Keeps the entries that `keep` accepts, and the memory. Returns how many went.
    pub fn retain(&mut self, tables: &mut Tables, mut keep: impl FnMut(u32) -> bool) -> usize {
        let entries: Vec<Entry> = self.entries(tables).collect();
        let kept: Vec<Entry> = entries.iter().copied().filter(|entry| keep(entry.id)).collect();
        let gone = entries.len() - kept.len();
        if gone > 0 {
            for line in 0..usize::from(self.lines) {
                numbers_mut(self.line_mut(line, tables))[..LINE_ENTRIES].fill(NONE);
            }
            self.len = 0;
            self.extend(kept, tables);
        }
        gone
    }

    /// Puts in what there is room for.
    pub fn extend(&mut self, entries: impl IntoIterator<Item = Entry>, tables: &mut Tables) {
        for entry in entries {
            let is_in = self.insert(entry, tables);
            debug_assert!(is_in, "a table was made too small");
        }
    }

    /// Makes the table larger by about a quarter, if it is not as large as it can be. Returns how many entries it
    /// moved.
    pub fn grow(&mut self, tables: &mut Tables) -> usize {
        self.rebuild(self.lines_grown(), tables)
    }

    /// Makes the table as small as so many entries allow, if that is smaller. Returns how many entries it moved.
    pub fn shrink(&mut self, entries: usize, tables: &mut Tables) -> usize {
        let lines = lines_for(entries.max(self.len()));
        if lines < usize::from(self.lines) { self.rebuild(lines, tables) } else { 0 }
    }

    fn rebuild(&mut self, lines: usize, tables: &mut Tables) -> usize {
        let mut rebuilt = Table::of_lines(lines, tables);
        if usize::from(rebuilt.lines) * LINE_ENTRIES < self.len() || lines == usize::from(self.lines) {
            rebuilt.clear(tables);
            return 0;
        }
        for line in 0..usize::from(self.lines) {
            let line = *self.line(line, tables);
            rebuilt.extend(entries_of(&line), tables);
        }
        std::mem::swap(self, &mut rebuilt);
        rebuilt.clear(tables);
        self.len()
    }

    /// Drops everything.
    pub fn clear(&mut self, tables: &mut Tables) {
        if self.lines > 0 {
            tables.slab.free(self.block);
        }
        *self = Table::default();
    }

    /// The lines it has after its next growth.
    fn lines_grown(&self) -> usize {
        let lines = usize::from(self.lines);
        lines_of_block(lines + (lines / 4).max(1)).min(LINES_MAX)
    }

    /// The line that an entry belongs into.
    #[inline(always)]
    fn home(&self, tag: u32) -> usize {
        (((tag >> HOME_SHIFT) * u32::from(self.lines)) >> HOME_BITS) as usize
    }

    /// The line so many steps on.
    #[inline]
    fn after(&self, line: usize, steps: usize) -> usize {
        let line = line + steps;
        if line < usize::from(self.lines) { line } else { line - usize::from(self.lines) }
    }

    /// How many steps it is from one line to another.
    fn distance(&self, from: usize, to: usize) -> usize {
        if from <= to { to - from } else { to + usize::from(self.lines) - from }
    }

    fn place_of(&self, entry: Entry, tables: &Tables) -> Option<(usize, usize)> {
        let home = self.home(entry.tag);
        for step in 0..usize::from(self.lines) {
            let number = self.after(home, step);
            let line = self.line(number, tables);
            if let Some(place) = entries_of(line).position(|found| found == entry) {
                return Some((number, place));
            }
            if !is_full(line) {
                break;
            }
        }
        None
    }

    #[inline(always)]
    fn line<'a>(&self, number: usize, tables: &'a Tables) -> &'a Line {
        tables.slab.line(self.block + (number * LINE_WORDS) as u32)
    }

    #[inline]
    fn line_mut<'a>(&self, number: usize, tables: &'a mut Tables) -> &'a mut Line {
        tables.slab.line_mut(self.block + (number * LINE_WORDS) as u32)
    }
}

/// Entries above which so many lines are too few. A single line may be filled.
fn capacity(lines: usize) -> usize {
    if lines <= 1 { lines * LINE_ENTRIES } else { lines * (LINE_ENTRIES - 1) }
}

fn line_bytes(lines: usize) -> u64 {
    (lines * LINE_WORDS * 8) as u64
}

/// Lines for so many entries.
fn lines_for(entries: usize) -> usize {
    let lines = if entries <= LINE_ENTRIES { entries.min(1) } else { entries.div_ceil(LINE_ENTRIES - 1) };
    lines_of_block(lines).min(LINES_MAX)
}

/// The lines of the smallest block that holds so many.
fn lines_of_block(lines: usize) -> usize {
    match lines * LINE_WORDS {
        words @ 1..=BLOCK_WORDS_MAX => class_words(class_of(words)) / LINE_WORDS,
        _ => lines,
    }
}

/// The ids of a line and behind them its tags.
#[inline(always)]
fn numbers(line: &Line) -> &[u32; LINE_ENTRIES * 2] {
    bytemuck::cast_ref(line)
}

#[inline(always)]
fn numbers_mut(line: &mut Line) -> &mut [u32; LINE_ENTRIES * 2] {
    bytemuck::cast_mut(line)
}

#[inline(always)]
fn is_full(line: &Line) -> bool {
    numbers(line)[LINE_ENTRIES - 1] != NONE
}

fn entries_of(line: &Line) -> impl Iterator<Item = Entry> + '_ {
    let (ids, tags) = numbers(line).split_at(LINE_ENTRIES);
    ids.iter().zip(tags).take_while(|(id, _)| **id != NONE).map(|(id, tag)| Entry { tag: *tag, id: *id })
}

/// The number that a line has first under `tag`.
#[inline(always)]
pub(crate) fn first_in(line: &Line, tag: u32, lanes: impl Lanes) -> Option<u32> {
    find_among(lanes.places(tag, tags(line)), line, &mut |_| true)
}

#[inline(always)]
fn find_in(line: &Line, tag: u32, is_it: &mut impl FnMut(u32) -> bool) -> Option<u32> {
    find_among(Narrow.places(tag, tags(line)), line, is_it)
}

/// As [`find_in`], where the places that have the tag are known.
#[inline(always)]
fn find_among(mut places: u32, line: &Line, is_it: &mut impl FnMut(u32) -> bool) -> Option<u32> {
    let numbers = numbers(line);
    while places != 0 {
        let id = numbers[places.trailing_zeros() as usize % LINE_ENTRIES];
        // What is behind the last entry has a tag too.
        if id != NONE && is_it(id) {
            return Some(id);
        }
        places &= places - 1;
    }
    None
}

#[inline(always)]
fn tags(line: &Line) -> &[u32; LINE_ENTRIES] {
    let [_, _, _, _, _, _, _, _, tags @ ..] = numbers(line);
    tags
}

fn put(line: &mut Line, place: usize, entry: Entry) {
    let numbers = numbers_mut(line);
    numbers[place] = entry.id;
    numbers[LINE_ENTRIES + place] = entry.tag;
}

/// Takes an entry out of its line; the last one takes its place. True: the line was full.
fn take(line: &mut Line, place: usize) -> bool {
    let was_full = is_full(line);
    let last = entries_of(line).count() - 1;
    let numbers = numbers_mut(line);
    numbers[place] = numbers[last];
    numbers[LINE_ENTRIES + place] = numbers[LINE_ENTRIES + last];
    numbers[last] = NONE;
    was_full
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// The same entries in a model, and both invariants.
    fn assert_is(table: &Table, tables: &Tables, model: &BTreeMap<u32, u32>) {
        let mut met = BTreeMap::new();
        for number in 0..usize::from(table.lines) {
            let line = table.line(number, tables);
            let first_free = entries_of(line).count();
            assert!(numbers(line)[first_free..LINE_ENTRIES].iter().all(|id| *id == NONE));
            for entry in entries_of(line) {
                let home = table.home(entry.tag);
                let way = (0..table.distance(home, number)).map(|step| table.line(table.after(home, step), tables));
                assert!(way.into_iter().all(is_full), "{entry:?} in line {number}, of line {home}");
                assert_eq!(met.insert(entry.id, entry.tag), None);
            }
        }
        assert_eq!((&met, table.len()), (model, model.len()));
        for (id, tag) in model {
            assert_eq!(table.find(*tag, tables, |found| found == *id), Some(*id));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

        /// Few different tags make long runs of full lines, at the end of the table too; the highest and the lowest
        /// are among them.
        #[test]
        fn a_table_is_a_map(
            tags in prop::collection::vec(prop_oneof![any::<u32>(), Just(0), Just(u32::MAX), 0xF000_0000u32..], 1..12),
            steps in prop::collection::vec((0u8..9, any::<u16>()), 1..300),
        ) {
            let (mut tables, mut model) = (Tables::new(), BTreeMap::new());
            let mut table = Table::default();
            for (next_id, (step, choice)) in (0u32..).zip(steps) {
                let choice = usize::from(choice);
                let entry = model.iter().nth(choice % model.len().max(1)).map(|(id, tag)| Entry { tag: *tag, id: *id });
                match (step, entry) {
                    (0..5, _) => {
                        if table.is_full() {
                            table.grow(&mut tables);
                        }
                        let entry = Entry { tag: tags[choice % tags.len()], id: next_id };
                        prop_assert!(table.insert(entry, &mut tables));
                        model.insert(entry.id, entry.tag);
                    }
                    (5 | 6, Some(entry)) => {
                        prop_assert!(table.remove(entry, &mut tables));
                        prop_assert!(!table.remove(entry, &mut tables));
                        model.remove(&entry.id);
                    }
                    (7, Some(entry)) => {
                        table.replace(entry, next_id, &mut tables);
                        model.remove(&entry.id);
                        model.insert(next_id, entry.tag);
                    }
                    (8, Some(_)) if choice % 3 == 0 => {
                        let gone = table.retain(&mut tables, |id| id % 3 > 0);
                        let before = model.len();
                        model.retain(|id, _| id % 3 > 0);
                        prop_assert_eq!(gone, before - model.len());
                    }
                    (8, _) => {
                        table.shrink(choice % 50, &mut tables);
                        prop_assert!(model.len() <= usize::from(table.lines) * LINE_ENTRIES);
                    }
                    _ => {}
                }
                assert_is(&table, &tables, &model);
            }
            table.clear(&mut tables);
            prop_assert_eq!((table.bytes(), tables.slab.blocks_held()), (0, 0));
        }
    }

    #[test]
    fn a_table_is_full_at_its_largest_and_says_so() {
        let mut tables = Tables::new();
        let mut table = Table::default();
        let places = (LINES_MAX * LINE_ENTRIES) as u32;
        for id in 0..places {
            if table.is_full() {
                table.grow(&mut tables);
            }
            assert!(table.insert(Entry { tag: id.wrapping_mul(0x9E37_79B9), id }, &mut tables));
        }
        assert!(!table.insert(Entry { tag: 0, id: places }, &mut tables));
        assert_eq!((table.len() as u32, table.bytes_grown()), (places, table.bytes()));
    }
}
