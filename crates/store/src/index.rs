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
//! A table of depth `d` holds the hashes whose bits 24 to 24+d are its number. Inside a table hashbrown uses the low
//! bits for the place and the top seven for the tag, so those bits are free as long as tables stay below 2^24 buckets.
//!
//! A walk goes by the *reversed* bits: in that order each table covers one interval, and a split cuts an interval in
//! two. So a position between two tables stays one, however many splits happen before the walk goes on.
//! **Invariant:** an entry that is there from a walk's begin to its end is met at least once.

use hashbrown::HashTable;

/// Positions of a walk: 2^17, also the most tables an index is split into. Beyond them tables grow on.
pub(crate) const WALK_BITS: u32 = 17;
/// One past the last position of a walk.
pub(crate) const WALK_END: u32 = 1 << WALK_BITS;
/// Entries per table, on average, above which one is split. A table waiting for its turn holds up to twice as many, as
/// does the first one before there is a directory: 896 is what hashbrown puts into 1,024 buckets.
pub(crate) const SPLIT_LOAD: usize = 448;

const HASH_SHIFT: u32 = 24;
/// Tables of a directory segment: the directory must not move as a whole either.
const SEGMENT: usize = 256;
/// What the allocator keeps of its own for a table.
const TABLE_COST_BYTES: u64 = 16;

/// What an index must be able to ask about the numbers in it.
pub(crate) trait Entries {
    /// The hash under which `id` was put in.
    fn hash_of(&self, id: u32) -> u64;
    /// If `id` is outlived: frees it and says so.
    fn reap(&mut self, id: u32) -> bool;
    /// Reads something of what the other two will read. The result means nothing.
    fn warm(&self, id: u32) -> u64;
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
    first: HashTable<u32>,
    split: Option<Box<Split>>,
}

struct Split {
    segments: Vec<Vec<HashTable<u32>>>,
    level: u32,
    /// The table that is split next, below 2^level.
    next: usize,
    keys: usize,
}

impl Split {
    fn table_count(&self) -> usize {
        (1 << self.level) + self.next
    }

    /// The number and the depth of the table that holds these hash bits.
    #[inline]
    fn place(&self, bits: u32) -> (usize, u32) {
        let low = bits as usize & ((1 << self.level) - 1);
        if low < self.next { (bits as usize & ((2 << self.level) - 1), self.level + 1) } else { (low, self.level) }
    }

    #[inline]
    fn table(&self, number: usize) -> &HashTable<u32> {
        &self.segments[number / SEGMENT][number % SEGMENT]
    }

    #[inline]
    fn table_mut(&mut self, number: usize) -> &mut HashTable<u32> {
        &mut self.segments[number / SEGMENT][number % SEGMENT]
    }

    fn push(&mut self, table: HashTable<u32>) {
        match self.segments.last_mut() {
            Some(segment) if segment.len() < SEGMENT => segment.push(table),
            _ => self.segments.push(vec![table]),
        }
    }

    fn bytes(&self) -> u64 {
        let cells: usize = self.segments.iter().map(Vec::capacity).sum();
        let directory = cells * size_of::<HashTable<u32>>() + self.segments.capacity() * size_of::<Vec<u8>>();
        (size_of::<Split>() + directory) as u64
    }
}

impl Index {
    pub fn new() -> Index {
        Index { first: HashTable::new(), split: None }
    }

    pub fn len(&self) -> usize {
        self.split.as_ref().map_or(self.first.len(), |split| split.keys)
    }

    #[inline]
    fn table(&self, hash: u64) -> &HashTable<u32> {
        match &self.split {
            None => &self.first,
            Some(split) => split.table(split.place(walk_bits(hash)).0),
        }
    }

    #[inline]
    fn table_mut(&mut self, hash: u64) -> &mut HashTable<u32> {
        match &mut self.split {
            None => &mut self.first,
            Some(split) => split.table_mut(split.place(walk_bits(hash)).0),
        }
    }

    /// The number under `hash` that `is_it` accepts.
    #[inline(always)]
    pub fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        self.table(hash).find(hash, |id| is_it(*id)).copied()
    }

    /// Puts another number in the place of one that is there.
    pub fn replace(&mut self, hash: u64, old: u32, new: u32) {
        if let Some(id) = self.table_mut(hash).find_mut(hash, |id| *id == old) {
            *id = new;
        }
    }

    /// Whether [`Index::make_room`] must be called before [`Index::insert`].
    #[inline]
    pub fn wants_step(&self, hash: u64, split_load: usize) -> bool {
        let table = self.table(hash);
        table.len() == table.capacity() || self.wants_split(split_load)
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
        let for_table = if table.len() == table.capacity() { table_bytes(table) + 64 } else { 0 };
        if self.wants_split(split_load) { for_table + self.split_bytes() } else { for_table }
    }

    /// What the next split may add: both halves can need as much as the whole had, and the directory grows.
    fn split_bytes(&self) -> u64 {
        let source = match &self.split {
            None => &self.first,
            Some(split) => split.table(split.next),
        };
        table_bytes(source) + (size_of::<Split>() + SEGMENT / 2 * size_of::<HashTable<u32>>()) as u64
    }

    /// Puts `id` in. There must be room.
    #[inline]
    pub fn insert(&mut self, hash: u64, id: u32) {
        if let Some(split) = &mut self.split {
            split.keys += 1;
        }
        // The hasher would only be called to grow, for which make_room has left no need.
        self.table_mut(hash).insert_unique(hash, id, |_| hash);
    }

    /// Takes `id` out. `None` if it is not in; else what it did to give memory back.
    pub fn remove(&mut self, hash: u64, id: u32, entries: &impl Entries) -> Option<Step> {
        let table = self.table_mut(hash);
        match table.find_entry(hash, |found| *found == id) {
            Ok(entry) => entry.remove(),
            Err(_) => return None,
        };
        let mut step = Step::default();
        if table.is_empty() || table.len() * 8 < table.capacity() {
            step.bytes_before = table_bytes(table);
            rebuild(table, table.len() * 2, entries, &mut step);
            step.bytes_after = table_bytes(table);
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
    pub fn make_room(&mut self, hash: u64, split_load: usize, entries: &mut impl Entries) -> Step {
        let mut step = Step::default();
        let bits = walk_bits(hash);
        let is_next = self.split.as_ref().is_none_or(|split| split.place(bits).0 == split.next);
        let wants_split = self.wants_split(split_load);
        let table = self.table_mut(hash);
        let is_full = table.len() == table.capacity();
        if wants_split && (is_next || !is_full) {
            step.bytes_before = self.split.as_ref().map_or(0, |split| split.bytes());
            self.split_next(split_load, entries, &mut step);
            step.bytes_after += self.split.as_ref().map_or(0, |split| split.bytes());
        } else if is_full {
            step.bytes_before = table_bytes(table);
            step.reaped = reap_all(table, entries);
            resize(table, entries, &mut step);
            step.bytes_after = table_bytes(table);
            if let Some(split) = &mut self.split {
                split.keys -= step.reaped;
            }
        }
        step
    }

    fn split_next(&mut self, split_load: usize, entries: &mut impl Entries, step: &mut Step) {
        let first = &mut self.first;
        let split = self.split.get_or_insert_with(|| {
            let keys = first.len();
            Box::new(Split { segments: vec![vec![std::mem::take(first)]], level: 0, next: 0, keys })
        });
        let (number, bit) = (split.next, 1 << split.level);
        let mut source = std::mem::take(split.table_mut(number));
        step.bytes_before += table_bytes(&source);
        step.reaped = reap_all(&mut source, entries);
        split.keys -= step.reaped;
        if split.keys <= split.table_count() * split_load {
            resize(&mut source, entries, step);
            step.bytes_after += table_bytes(&source);
            *split.table_mut(number) = source;
            return;
        }
        let (low, high) = part(&source, bit, entries);
        step.moved = source.len();
        step.tables = 1;
        step.bytes_after += table_bytes(&low) + table_bytes(&high);
        *split.table_mut(number) = low;
        split.push(high);
        split.next += 1;
        if split.next == 1 << split.level {
            split.level += 1;
            split.next = 0;
        }
    }

    /// The table that covers `position` (below [`WALK_END`]) of a walk, and the position after it.
    pub fn walk(&self, position: u32) -> (impl Iterator<Item = u32> + '_, u32) {
        let (table, next) = match &self.split {
            None => (&self.first, WALK_END),
            Some(split) => {
                let (number, depth) = split.place(reversed(position));
                let covered = WALK_END >> depth;
                (split.table(number), reversed(number as u32) + covered)
            }
        };
        (table.iter().copied(), next)
    }

    /// Every number.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let split = self.split.iter().flat_map(|split| split.segments.iter().flatten());
        std::iter::once(&self.first).chain(split).flat_map(|table| table.iter().copied())
    }

    /// Takes one table out of an index that is given up: its numbers, and the bytes that went. `None` at the end.
    pub fn take_table(&mut self) -> Option<(HashTable<u32>, u64)> {
        if let Some(split) = &mut self.split {
            let directory_before = split.bytes();
            while split.segments.last().is_some_and(Vec::is_empty) {
                split.segments.pop();
            }
            if let Some(table) = split.segments.last_mut().and_then(Vec::pop) {
                let bytes = table_bytes(&table) + directory_before - split.bytes();
                return Some((table, bytes));
            }
            let bytes = directory_before;
            self.split = None;
            return Some((HashTable::new(), bytes));
        }
        if self.first.capacity() == 0 {
            return None;
        }
        let table = std::mem::take(&mut self.first);
        let bytes = table_bytes(&table);
        Some((table, bytes))
    }

    /// Bytes of all tables, counted one by one.
    pub fn bytes(&self) -> u64 {
        let split = self.split.iter().flat_map(|split| split.segments.iter().flatten());
        let tables: u64 = std::iter::once(&self.first).chain(split).map(table_bytes).sum();
        tables + self.split.as_ref().map_or(0, |split| split.bytes())
    }

    /// An entry's share of its table, in bytes.
    pub fn share_bytes(&self, hash: u64) -> usize {
        let table = self.table(hash);
        table.allocation_size() / table.len().max(1)
    }

    /// Tables in it.
    #[cfg(test)]
    pub fn table_count(&self) -> usize {
        self.split.as_ref().map_or(1, |split| split.table_count())
    }
}

/// The bits of a hash that choose the table, as many as there are positions.
#[inline]
fn walk_bits(hash: u64) -> u32 {
    (hash >> HASH_SHIFT) as u32 & (WALK_END - 1)
}

fn reversed(bits: u32) -> u32 {
    bits.reverse_bits() >> (u32::BITS - WALK_BITS)
}

fn table_bytes(table: &HashTable<u32>) -> u64 {
    let bytes = table.allocation_size() as u64;
    if bytes == 0 { 0 } else { bytes + TABLE_COST_BYTES }
}

fn with_capacity(entries: usize) -> HashTable<u32> {
    if entries == 0 { HashTable::new() } else { HashTable::with_capacity(entries) }
}

fn reap_all(table: &mut HashTable<u32>, entries: &mut impl Entries) -> usize {
    // Reads that wait for nothing overlap, ten at a time; each entry's own work would wait for its miss alone.
    let warmth = table.iter().fold(0, |warmth, id| warmth ^ entries.warm(*id));
    std::hint::black_box(warmth);
    let before = table.len();
    table.retain(|id| !entries.reap(*id));
    before - table.len()
}

/// Two tables for one: the entries without and with `bit` among those that choose the table.
fn part(source: &HashTable<u32>, bit: u32, entries: &impl Entries) -> (HashTable<u32>, HashTable<u32>) {
    let hashes: Vec<(u64, u32)> = source.iter().map(|id| (entries.hash_of(*id), *id)).collect();
    let is_high = |hash: u64| walk_bits(hash) & bit != 0;
    let high_count = hashes.iter().filter(|(hash, _)| is_high(*hash)).count();
    // One more each, as the entry that asked for the step goes into either.
    let mut high = with_capacity(high_count + 1);
    let mut low = with_capacity(hashes.len() - high_count + 1);
    for (hash, id) in &hashes {
        let table = if is_high(*hash) { &mut high } else { &mut low };
        table.insert_unique(*hash, *id, |_| *hash);
    }
    (low, high)
}

/// Gives a table room if it has none: at its size if a quarter of it is free without the traces of removals, at twice
/// its size else.
fn resize(table: &mut HashTable<u32>, entries: &impl Entries, step: &mut Step) {
    if table.len() < table.capacity() {
        return;
    }
    let full = full_capacity(table.num_buckets());
    let capacity = if table.len() < full - full / 4 { full } else { full + 1 };
    rebuild(table, capacity.max(1), entries, step);
}

/// How many entries hashbrown puts into so many buckets.
fn full_capacity(buckets: usize) -> usize {
    if buckets < 8 { buckets.saturating_sub(1) } else { buckets / 8 * 7 }
}

fn rebuild(table: &mut HashTable<u32>, capacity: usize, entries: &impl Entries, step: &mut Step) {
    let mut rebuilt = with_capacity(capacity);
    for id in table.iter() {
        let hash = entries.hash_of(*id);
        rebuilt.insert_unique(hash, *id, |_| hash);
    }
    step.moved += table.len();
    *table = rebuilt;
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
        fn hash_of(&self, id: u32) -> u64 {
            (u64::from(id) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29).wrapping_mul(0xD6E8_FEB8_6659_FD93)
        }
        fn reap(&mut self, id: u32) -> bool {
            id < self.outlived_below
        }
        fn warm(&self, _id: u32) -> u64 {
            0
        }
    }

    fn add(index: &mut Index, id: u32, load: usize, seeds: &mut Seeds) -> Step {
        let hash = seeds.hash_of(id);
        let step = if index.wants_step(hash, load) { index.make_room(hash, load, seeds) } else { Step::default() };
        index.insert(hash, id);
        step
    }

    #[test]
    fn no_step_moves_more_than_one_table() {
        let mut seeds = Seeds { outlived_below: 0 };
        let mut index = Index::new();
        let (mut moved_max, mut bytes) = (0, 0);
        for id in 0..100_000 {
            let step = add(&mut index, id, SPLIT_LOAD, &mut seeds);
            moved_max = moved_max.max(step.moved);
            bytes = bytes + step.bytes_after - step.bytes_before;
        }
        assert!(moved_max <= 1_200, "{moved_max}");
        assert_eq!(index.table_count(), 224);
        assert_eq!(bytes, index.bytes());
        for id in 0..100_000 {
            assert_eq!(index.find(seeds.hash_of(id), |found| found == id), Some(id));
        }
        for id in 0..100_000 {
            let step = index.remove(seeds.hash_of(id), id, &seeds);
            bytes = step.map_or(0, |step| bytes + step.bytes_after - step.bytes_before);
        }
        assert_eq!((bytes, index.bytes(), index.len(), index.table_count()), (0, 0, 0, 1));
        assert_eq!(index.remove(1, 1, &seeds), None);
    }

    #[test]
    fn the_outlived_go_before_a_table_grows() {
        let mut seeds = Seeds { outlived_below: 0 };
        let mut index = Index::new();
        for id in 0..224 {
            add(&mut index, id, SPLIT_LOAD, &mut seeds);
        }
        let bytes = index.bytes();
        seeds.outlived_below = 150;
        let step = add(&mut index, 224, SPLIT_LOAD, &mut seeds);
        assert_eq!((step.reaped, index.len(), index.bytes()), (150, 75, bytes));
    }

    #[test]
    fn a_walk_meets_all_that_stay_while_tables_split() {
        for load in [1, 3, 20] {
            let mut seeds = Seeds { outlived_below: 0 };
            let mut index = Index::new();
            for id in 0..500 {
                add(&mut index, id, load, &mut seeds);
            }
            let (mut position, mut next_id, mut met) = (0, 500, BTreeSet::new());
            while position < WALK_END {
                let (table, next) = index.walk(position);
                met.extend(table);
                assert!(next > position);
                position = next;
                for _ in 0..7 {
                    add(&mut index, next_id, load, &mut seeds);
                    next_id += 1;
                }
            }
            assert!((0..500).all(|id| met.contains(&id)), "load {load}");
        }
    }

    #[test]
    fn an_index_given_up_is_taken_apart() {
        let mut seeds = Seeds { outlived_below: 0 };
        let mut index = Index::new();
        for id in 0..5_000 {
            add(&mut index, id, 4, &mut seeds);
        }
        let mut bytes = index.bytes();
        let mut met = BTreeSet::new();
        while let Some((table, gone)) = index.take_table() {
            met.extend(table.iter().copied());
            bytes -= gone;
        }
        assert_eq!((met.len(), bytes), (5_000, 0));
    }
}
