//! From a hash to a number: the hash table of one slot, which never takes a long step.
//!
//! The problem: a hash table that doubles moves everything it holds, and one hash tag can put ten million keys into one
//! slot. The idea is linear hashing over small tables: the index begins as one table; past a load it is split one table
//! at a time, in order, so that a step never moves more than one table's entries.
//!
//! ```text
//! level 2, split 1:   tables  0   1   2   3 | 4        4 = what was split off 0
//!                     depth   3   2   2   2 | 3        the next split: 1 into 1 and 5
//! ```
//!
//! A table of depth `d` holds the hashes whose bits 24 to 24+d are its number. An entry keeps bits 24 to 55 of its hash
//! (table.rs), so no key is hashed again to move it.
//!
//! A walk goes by the *reversed* bits: in that order each table covers one interval, and a split cuts an interval in
//! two. So a position between two tables stays one, however many splits happen before the walk goes on.
//! **Invariant:** an entry that is there from a walk's begin to its end is met at least once.

use crate::slab::Line;
use crate::table::{Entry, Table, Tables, first_in};
use crate::wide::Lanes;

/// Positions of a walk: 2^17, also the most tables an index is split into. Beyond them tables grow on.
pub(crate) const WALK_BITS: u32 = 17;
/// One past the last position of a walk.
pub(crate) const WALK_END: u32 = 1 << WALK_BITS;
/// Entries per table, on average, above which one is split. A table waiting for its turn holds up to twice as many, as
/// does the first one before there is a directory.
pub(crate) const SPLIT_LOAD: usize = 448;

const HASH_SHIFT: u32 = 24;
/// Tables of a directory segment: the directory must not move as a whole either.
const SEGMENT: usize = 256;

/// What an index must be able to ask about the numbers in it.
pub(crate) trait Entries {
    /// Whether any of them may be outlived.
    fn may_be_outlived(&self) -> bool;
    /// If `id` is outlived: frees it and says so.
    fn reap(&mut self, id: u32) -> bool;
    /// Begins to load what the other will read.
    fn prefetch(&self, id: u32);
}

/// What a step did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Step {
    /// Entries put into another table.
    pub moved: usize,
    /// Outlived entries dropped on the way.
    pub reaped: usize,
    /// Tables made.
    pub tables: usize,
    /// Bytes before and after of all that the step touched.
    pub bytes_before: u64,
    pub bytes_after: u64,
}

/// A set of numbers by hash.
pub(crate) struct Index {
    /// All there is until the first split, empty afterwards.
    first: Table,
    split: Option<Box<Split>>,
}

struct Split {
    segments: Vec<Vec<Table>>,
    level: u32,
    /// The table that is split next, below 2^level.
    next: usize,
    keys: usize,
}

impl Split {
    fn table_count(&self) -> usize {
        (1 << self.level) + self.next
    }

    /// The number and the depth of the table that holds the entries with these lowest bits of their tags.
    #[inline]
    fn place(&self, bits: u32) -> (usize, u32) {
        let low = bits as usize & ((1 << self.level) - 1);
        if low < self.next { (bits as usize & ((2 << self.level) - 1), self.level + 1) } else { (low, self.level) }
    }

    #[inline]
    fn table(&self, number: usize) -> &Table {
        &self.segments[number / SEGMENT][number % SEGMENT]
    }

    #[inline]
    fn table_mut(&mut self, number: usize) -> &mut Table {
        &mut self.segments[number / SEGMENT][number % SEGMENT]
    }

    fn push(&mut self, table: Table) {
        match self.segments.last_mut() {
            Some(segment) if segment.len() < SEGMENT => segment.push(table),
            _ => self.segments.push(vec![table]),
        }
    }

    fn bytes(&self) -> u64 {
        let cells: usize = self.segments.iter().map(Vec::capacity).sum();
        let directory = cells * size_of::<Table>() + self.segments.capacity() * size_of::<Vec<u8>>();
        (size_of::<Split>() + directory) as u64
    }
}

impl Index {
    pub fn new() -> Index {
        Index { first: Table::default(), split: None }
    }

    pub fn len(&self) -> usize {
        self.split.as_ref().map_or(self.first.len(), |split| split.keys)
    }

    #[inline]
    fn table(&self, hash: u64) -> &Table {
        match &self.split {
            None => &self.first,
            Some(split) => split.table(split.place(tag(hash)).0),
        }
    }

    #[inline]
    fn table_mut(&mut self, hash: u64) -> &mut Table {
        match &mut self.split {
            None => &mut self.first,
            Some(split) => split.table_mut(split.place(tag(hash)).0),
        }
    }

    /// The number under `hash` that `is_it` accepts.
    #[inline(always)]
    pub fn find(&self, hash: u64, tables: &Tables, is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        self.table(hash).find(tag(hash), tables, is_it)
    }

    /// The line in which `hash` is looked for first. `None` if nothing is under it.
    #[inline(always)]
    pub fn first_line<'a>(&self, hash: u64, tables: &'a Tables) -> Option<&'a Line> {
        self.table(hash).first_line(tag(hash), tables)
    }

    /// The number under `hash` that its first line has first, if it has one.
    #[inline(always)]
    pub fn first_in(line: &Line, hash: u64, lanes: impl Lanes) -> Option<u32> {
        first_in(line, tag(hash), lanes)
    }

    /// Puts another number in the place of one that is there.
    pub fn replace(&mut self, hash: u64, old: u32, new: u32, tables: &mut Tables) {
        self.table_mut(hash).replace(Entry { tag: tag(hash), id: old }, new, tables);
    }

    /// Whether [`Index::make_room`] must be called before [`Index::insert`].
    #[inline]
    pub fn wants_step(&self, hash: u64, split_load: usize) -> bool {
        self.table(hash).is_full() || self.wants_split(split_load)
    }

    #[inline]
    fn wants_split(&self, split_load: usize) -> bool {
        match &self.split {
            None => self.first.len() >= split_load.saturating_mul(2),
            Some(split) => {
                split.keys > split.table_count().saturating_mul(split_load) && split.table_count() < WALK_END as usize
            }
        }
    }

    /// How much more memory [`Index::make_room`] may need, in bytes.
    pub fn growth_bytes(&self, hash: u64, split_load: usize) -> u64 {
        let table = self.table(hash);
        let for_table = if table.is_full() { table.bytes_grown() - table.bytes() } else { 0 };
        if self.wants_split(split_load) { for_table + self.split_bytes() } else { for_table }
    }

    /// What the next split may add: both halves can need as much as the whole had, and the directory grows.
    fn split_bytes(&self) -> u64 {
        let source = match &self.split {
            None => &self.first,
            Some(split) => split.table(split.next),
        };
        let segments = self.split.as_ref().map_or(0, |split| split.segments.len());
        let directory = SEGMENT / 2 * size_of::<Table>() + (segments + 3) * size_of::<Vec<Table>>();
        source.bytes_grown() + (size_of::<Split>() + directory) as u64
    }

    /// Puts `id` in, for which room should have been made. False if there is none.
    #[inline]
    pub fn insert(&mut self, hash: u64, id: u32, tables: &mut Tables) -> bool {
        let is_in = self.table_mut(hash).insert(Entry { tag: tag(hash), id }, tables);
        if let Some(split) = &mut self.split {
            split.keys += usize::from(is_in);
        }
        is_in
    }

    /// Takes `id` out. `None` if it is not in; else what it did to give memory back.
    pub fn remove(&mut self, hash: u64, id: u32, tables: &mut Tables) -> Option<Step> {
        let table = self.table_mut(hash);
        if !table.remove(Entry { tag: tag(hash), id }, tables) {
            return None;
        }
        let mut step = Step::default();
        if table.len() == 0 || table.len() * 8 < table.capacity() {
            step.bytes_before = table.bytes();
            step.moved += table.shrink(table.len() * 2, tables);
            step.bytes_after = table.bytes();
        }
        if let Some(split) = &mut self.split {
            split.keys -= 1;
            if split.keys == 0 {
                step.bytes_before += self.bytes();
                self.split = None;
            }
        }
        Some(step)
    }

    /// Makes room for one entry under `hash`: splits the next table if there are too many entries, or grows the table
    /// at hand if that one is full. What is outlived is dropped first, and if enough went nothing else is done. Moves
    /// one table's entries at most, so a table that is full goes before the split of another.
    pub fn make_room(&mut self, hash: u64, split_load: usize, tables: &mut Tables, entries: &mut impl Entries) -> Step {
        let mut step = Step::default();
        let is_next = self.split.as_ref().is_none_or(|split| split.place(tag(hash)).0 == split.next);
        let wants_split = self.wants_split(split_load);
        let table = self.table_mut(hash);
        let is_full = table.is_full();
        if wants_split && (is_next || !is_full) {
            step.bytes_before = self.split.as_ref().map_or(0, |split| split.bytes());
            self.split_next(split_load, tables, entries, &mut step);
            step.bytes_after += self.split.as_ref().map_or(0, |split| split.bytes());
        } else if is_full {
            step.bytes_before = table.bytes();
            step.reaped = reap_all(table, tables, entries);
            grow_unless_reaped(table, tables, &mut step);
            step.bytes_after = table.bytes();
            if let Some(split) = &mut self.split {
                split.keys -= step.reaped;
            }
        }
        step
    }

    fn split_next(&mut self, split_load: usize, tables: &mut Tables, entries: &mut impl Entries, step: &mut Step) {
        let first = &mut self.first;
        let split = self.split.get_or_insert_with(|| {
            let keys = first.len();
            Box::new(Split { segments: vec![vec![std::mem::take(first)]], level: 0, next: 0, keys })
        });
        let (number, bit) = (split.next, 1 << split.level);
        let mut source = std::mem::take(split.table_mut(number));
        step.bytes_before += source.bytes();
        step.reaped = reap_all(&mut source, tables, entries);
        split.keys -= step.reaped;
        if split.keys <= split.table_count() * split_load {
            if source.is_full() {
                grow_unless_reaped(&mut source, tables, step);
            }
            step.bytes_after += source.bytes();
            *split.table_mut(number) = source;
            return;
        }
        let Some((low, high)) = part(&mut source, bit, tables) else {
            step.bytes_after += source.bytes();
            *split.table_mut(number) = source;
            return;
        };
        step.moved = low.len() + high.len();
        step.tables = 1;
        step.bytes_after += low.bytes() + high.bytes();
        *split.table_mut(number) = low;
        split.push(high);
        split.next += 1;
        if split.next == 1 << split.level {
            split.level += 1;
            split.next = 0;
        }
    }

    /// The table that covers `position` (below [`WALK_END`]) of a walk, and the position after it.
    pub fn walk<'a>(&'a self, position: u32, tables: &'a Tables) -> (impl Iterator<Item = u32> + 'a, u32) {
        let (table, next) = match &self.split {
            None => (&self.first, WALK_END),
            Some(split) => {
                let (number, depth) = split.place(reversed(position));
                let covered = WALK_END >> depth;
                (split.table(number), reversed(number as u32) + covered)
            }
        };
        (table.entries(tables).map(|entry| entry.id), next)
    }

    /// Every number.
    pub fn iter<'a>(&'a self, tables: &'a Tables) -> impl Iterator<Item = u32> + 'a {
        self.all().flat_map(|table| table.entries(tables)).map(|entry| entry.id)
    }

    fn all(&self) -> impl Iterator<Item = &Table> {
        std::iter::once(&self.first).chain(self.split.iter().flat_map(|split| split.segments.iter().flatten()))
    }

    /// Takes one table out of an index that is given up, shows its numbers, and answers how many they were and how many
    /// bytes went. `None` at the end.
    pub fn take_table(&mut self, tables: &mut Tables, visit: impl FnMut(u32)) -> Option<(usize, u64)> {
        let (mut table, directory_bytes) = match &mut self.split {
            None if self.first.len() == 0 => return None,
            None => (std::mem::take(&mut self.first), 0),
            Some(split) => {
                let before = split.bytes();
                while split.segments.last().is_some_and(Vec::is_empty) {
                    split.segments.pop();
                }
                match split.segments.last_mut().and_then(Vec::pop) {
                    Some(table) => (table, before - split.bytes()),
                    None => {
                        self.split = None;
                        (Table::default(), before)
                    }
                }
            }
        };
        let (entries, bytes) = (table.len(), table.bytes() + directory_bytes);
        table.entries(tables).map(|entry| entry.id).for_each(visit);
        table.clear(tables);
        Some((entries, bytes))
    }

    /// Bytes of all tables, counted one by one.
    pub fn bytes(&self) -> u64 {
        self.all().map(Table::bytes).sum::<u64>() + self.split.as_ref().map_or(0, |split| split.bytes())
    }

    /// An entry's share of its table, in bytes.
    pub fn share_bytes(&self, hash: u64) -> u64 {
        let table = self.table(hash);
        table.bytes() / table.len().max(1) as u64
    }

    /// Tables in it.
    #[cfg(test)]
    pub fn table_count(&self) -> usize {
        self.split.as_ref().map_or(1, |split| split.table_count())
    }
}

/// The bits of a hash that an entry keeps.
#[inline(always)]
fn tag(hash: u64) -> u32 {
    (hash >> HASH_SHIFT) as u32
}

/// The bits of a tag that choose the table, as many as there are positions.
#[inline]
fn walk_bits(tag: u32) -> u32 {
    tag & (WALK_END - 1)
}

fn reversed(bits: u32) -> u32 {
    bits.reverse_bits() >> (u32::BITS - WALK_BITS)
}

fn reap_all(table: &mut Table, tables: &mut Tables, entries: &mut impl Entries) -> usize {
    if !entries.may_be_outlived() {
        return 0;
    }
    table.entries(tables).for_each(|entry| entries.prefetch(entry.id));
    table.retain(tables, |id| !entries.reap(id))
}

/// Two tables for one: the entries without and with `bit` among those that choose the table. `None`, and nothing done,
/// if there is no memory for them.
fn part(source: &mut Table, bit: u32, tables: &mut Tables) -> Option<(Table, Table)> {
    let is_high = |entry: &Entry| walk_bits(entry.tag) & bit != 0;
    let (high_entries, low_entries): (Vec<Entry>, Vec<Entry>) = source.entries(tables).partition(is_high);
    // One more each, as the entry that asked for the step goes into either.
    let mut low = Table::with_capacity(low_entries.len() + 1, tables);
    let mut high = Table::with_capacity(high_entries.len() + 1, tables);
    if low.is_full() || high.is_full() {
        low.clear(tables);
        high.clear(tables);
        return None;
    }
    low.extend(low_entries, tables);
    high.extend(high_entries, tables);
    source.clear(tables);
    Some((low, high))
}

/// Makes a table larger that was full, unless the loss of what was outlived left a quarter of it free.
fn grow_unless_reaped(table: &mut Table, tables: &mut Tables, step: &mut Step) {
    if table.len() * 4 >= table.capacity() * 3 {
        step.moved += table.grow(tables);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Entries are their own seeds; those below the bound are outlived.
    struct Seeds {
        outlived_below: u32,
    }

    impl Entries for Seeds {
        fn may_be_outlived(&self) -> bool {
            self.outlived_below > 0
        }
        fn reap(&mut self, id: u32) -> bool {
            id < self.outlived_below
        }
        fn prefetch(&self, _id: u32) {}
    }

    fn hash_of(id: u32) -> u64 {
        (u64::from(id) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29).wrapping_mul(0xD6E8_FEB8_6659_FD93)
    }

    /// An index with the memory of its tables.
    struct Sample {
        index: Index,
        tables: Tables,
        load: usize,
    }

    impl Sample {
        fn new(load: usize) -> Sample {
            Sample { index: Index::new(), tables: Tables::new(), load }
        }

        fn add(&mut self, id: u32, seeds: &mut Seeds) -> Step {
            let (hash, index) = (hash_of(id), &mut self.index);
            let wants_step = index.wants_step(hash, self.load);
            let said = index.growth_bytes(hash, self.load);
            let step =
                if wants_step { index.make_room(hash, self.load, &mut self.tables, seeds) } else { Step::default() };
            assert!(step.bytes_after <= step.bytes_before + said, "{step:?}: {said}");
            assert!(index.insert(hash, id, &mut self.tables));
            step
        }
    }

    #[test]
    fn no_step_moves_more_than_one_table() {
        let mut seeds = Seeds { outlived_below: 0 };
        let mut sample = Sample::new(SPLIT_LOAD);
        let (mut moved_max, mut bytes) = (0, 0);
        for id in 0..100_000 {
            let step = sample.add(id, &mut seeds);
            moved_max = moved_max.max(step.moved);
            bytes = bytes + step.bytes_after - step.bytes_before;
        }
        let Sample { mut index, mut tables, .. } = sample;
        assert!(moved_max <= 1_200, "{moved_max}");
        assert_eq!(index.table_count(), 224);
        assert_eq!(bytes, index.bytes());
        for id in 0..100_000 {
            assert_eq!(index.find(hash_of(id), &tables, |found| found == id), Some(id));
        }
        for id in 0..100_000 {
            let step = index.remove(hash_of(id), id, &mut tables);
            bytes = step.map_or(0, |step| bytes + step.bytes_after - step.bytes_before);
        }
        assert_eq!((bytes, index.bytes(), index.len(), index.table_count()), (0, 0, 0, 1));
        assert_eq!(index.remove(1, 1, &mut tables), None);
    }

    #[test]
    fn the_outlived_go_before_a_table_grows() {
        let mut seeds = Seeds { outlived_below: 0 };
        let mut sample = Sample::new(SPLIT_LOAD);
        let mut next_id = 0;
        while next_id < 224 || !sample.index.wants_step(hash_of(next_id), SPLIT_LOAD) {
            sample.add(next_id, &mut seeds);
            next_id += 1;
        }
        let bytes = sample.index.bytes();
        seeds.outlived_below = 150;
        let step = sample.add(next_id, &mut seeds);
        assert_eq!((step.reaped, sample.index.len(), sample.index.bytes()), (150, next_id as usize - 149, bytes));
    }

    #[test]
    fn a_walk_meets_all_that_stay_while_tables_split() {
        for load in [1, 3, 20] {
            let mut seeds = Seeds { outlived_below: 0 };
            let mut sample = Sample::new(load);
            for id in 0..500 {
                sample.add(id, &mut seeds);
            }
            let (mut position, mut next_id, mut met) = (0, 500, BTreeSet::new());
            while position < WALK_END {
                let (table, next) = sample.index.walk(position, &sample.tables);
                met.extend(table);
                assert!(next > position);
                position = next;
                for _ in 0..7 {
                    sample.add(next_id, &mut seeds);
                    next_id += 1;
                }
            }
            assert!((0..500).all(|id| met.contains(&id)), "load {load}");
        }
    }

    #[test]
    fn an_index_given_up_is_taken_apart() {
        let mut seeds = Seeds { outlived_below: 0 };
        let mut sample = Sample::new(4);
        for id in 0..5_000 {
            sample.add(id, &mut seeds);
        }
        let Sample { mut index, mut tables, .. } = sample;
        let mut bytes = index.bytes();
        let mut met = BTreeSet::new();
        while let Some((_, gone)) = index.take_table(&mut tables, |id| assert!(met.insert(id))) {
            bytes -= gone;
        }
        assert_eq!((met.len(), bytes), (5_000, 0));
    }
}
