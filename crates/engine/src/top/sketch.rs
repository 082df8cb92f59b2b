//! The busiest keys of a stream in bounded memory: Space-Saving, in sets of four.
//!
//! The problem: there are millions of keys, and each call may name any of them; a table of all of them would be as
//! large as the store. The idea (Metwally, Agrawal and El Abbadi, 2005): keep a fixed number of counters. A key that
//! has one adds to it; one that has none takes over the least counter, with its count, which is noted as the error that
//! this key may carry. So what a key has is never below its true count, and above it by at most its error; and a key
//! that has no counter was called at most as often as the least counter says. Here a hash chooses one of many small
//! sets and Space-Saving runs within the set, so that a call reads a few cache lines and no list or heap is kept.
//!
//! The answer is to cover the last minute or two, so there are two tables, for odd and even epochs. Each set carries
//! the epoch that it counts, and begins anew when it is first used in another: no step clears a whole table.
//!
//! A key's bytes are copied only where its counter was free or it came again several times, so that the many keys that
//! come once do not cost a copy each.

/// Counters of a set.
const WAYS: usize = 4;
/// Bits that number a counter of a set.
const WAY_BITS: u32 = 2;
const WAY_MASK: u64 = (1 << WAY_BITS) - 1;
const _: () = assert!(WAYS == 1 << WAY_BITS);
/// A key that took over another's counter is named once it came so many times since.
const PROOF_CALLS: u64 = 4;

/// Counters for the busiest keys of two epochs.
#[derive(Debug)]
pub struct Sketch {
    even: Vec<Set>,
    odd: Vec<Set>,
    /// Sets of each table, less one: they are a power of two.
    mask: usize,
}

/// What one key was counted with in the epoch asked for and the one before: its true number lies between `upper` less
/// `error`, and `upper`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Its weight is at most this.
    pub upper: u64,
    /// The part of `upper` that may be others'.
    pub error: u64,
}

#[derive(Debug)]
struct Set {
    epoch: u64,
    /// 0: the counter is free.
    hashes: [u64; WAYS],
    /// A count and, in the lowest bits, the counter's own place in the set: the least of these numbers says at once
    /// where the least count lies.
    ranks: [u64; WAYS],
    /// What the counter held when its key took it over.
    errors: [u64; WAYS],
    names: [Option<Box<[u8]>>; WAYS],
}

/// One counter of a set, read.
#[derive(Clone, Copy)]
struct Counter<'a> {
    hash: u64,
    count: u64,
    error: u64,
    name: Option<&'a [u8]>,
}

impl Sketch {
    /// A sketch of `sets` times four counters for each of two epochs; `sets` is rounded up to a power of two. It
    /// takes its memory when it is first used.
    pub fn new(sets: usize) -> Sketch {
        Sketch { even: Vec::new(), odd: Vec::new(), mask: sets.max(1).next_power_of_two() - 1 }
    }

    /// Counts `weight` calls of the key with this hash. Epochs only ever go up.
    #[inline(always)]
    pub fn add(&mut self, epoch: u64, hash: u64, key: &[u8], weight: u64) {
        // 0 marks a free counter; a key whose hash is 0 shares the counter of one in 2^64.
        let hash = hash.max(1);
        let place = self.place(hash);
        let table = if epoch & 1 == 0 { &mut self.even } else { &mut self.odd };
        match table.get_mut(place) {
            Some(set) if set.epoch == epoch => set.add(hash, key, weight),
            _ => self.begin(epoch, hash, key, weight),
        }
    }

    /// The first call of a set in an epoch.
    #[inline(never)]
    fn begin(&mut self, epoch: u64, hash: u64, key: &[u8], weight: u64) {
        let (place, sets) = (self.place(hash), self.mask + 1);
        let table = if epoch & 1 == 0 { &mut self.even } else { &mut self.odd };
        if table.is_empty() {
            table.resize_with(sets, || Set::new(0));
        }
        if let Some(set) = table.get_mut(place) {
            *set = Set::new(epoch);
            set.add(hash, key, weight);
        }
    }

    /// Calls `visit` with every key that has a counter in `epoch` or the one before and whose name is known.
    pub fn each<'a>(&'a self, epoch: u64, mut visit: impl FnMut(Sighting<'a>)) {
        for place in 0..=self.mask {
            let (newer, older) = self.sets_at(place, epoch);
            for counter in counters(newer) {
                if let Some(sighting) = counter.joined(find(older, counter.hash)) {
                    visit(sighting);
                }
            }
            for counter in counters(older) {
                if !counters(newer).any(|other| other.hash == counter.hash)
                    && let Some(sighting) = counter.joined(find(newer, counter.hash))
                {
                    visit(sighting);
                }
            }
        }
    }

    /// The most that a key without a counter can have been called in `epoch` and the one before.
    pub fn missed_at_most(&self, epoch: u64) -> u64 {
        let least = |place| {
            let (newer, older) = self.sets_at(place, epoch);
            least(newer) + least(older)
        };
        (0..=self.mask).map(least).max().unwrap_or(0)
    }

    #[inline]
    fn place(&self, hash: u64) -> usize {
        // The upper half: the store takes the lower bits, and a place of it must not be a place here.
        usize::try_from(hash >> 40).unwrap_or(0) & self.mask
    }

    fn sets_at(&self, place: usize, epoch: u64) -> (Option<&Set>, Option<&Set>) {
        let (newer, older) = if epoch & 1 == 0 { (&self.even, &self.odd) } else { (&self.odd, &self.even) };
        let newer = newer.get(place).filter(|set| set.epoch == epoch);
        let older = older.get(place).filter(|set| set.epoch.checked_add(1) == Some(epoch));
        (newer, older)
    }
}

impl Set {
    fn new(epoch: u64) -> Set {
        Set { epoch, hashes: [0; WAYS], ranks: [0, 1, 2, 3], errors: [0; WAYS], names: [const { None }; WAYS] }
    }

    #[inline(always)]
    fn add(&mut self, hash: u64, key: &[u8], weight: u64) {
        let Some(way) = self.hashes.iter().position(|kept| *kept == hash) else {
            return self.take_over(hash, key, weight);
        };
        if let Some(rank) = self.ranks.get_mut(way)
            && let Some(name) = self.names.get_mut(way)
            && let Some(error) = self.errors.get(way)
        {
            *rank += weight << WAY_BITS;
            if name.is_none() && (*rank >> WAY_BITS) - error >= weight * PROOF_CALLS {
                name_it(name, key);
            }
        }
    }

    /// Gives the least counter to another key. A free one is the least.
    #[inline(always)]
    fn take_over(&mut self, hash: u64, key: &[u8], weight: u64) {
        let [first, others @ ..] = &self.ranks;
        let least = others.iter().fold(*first, |least, rank| least.min(*rank));
        let way = usize::try_from(least & WAY_MASK).unwrap_or(0);
        if let Some(kept) = self.hashes.get_mut(way)
            && let Some(rank) = self.ranks.get_mut(way)
            && let Some(error) = self.errors.get_mut(way)
            && let Some(name) = self.names.get_mut(way)
        {
            *kept = hash;
            *rank = least + (weight << WAY_BITS);
            *error = least >> WAY_BITS;
            if *error == 0 {
                name_it(name, key);
            } else if name.is_some() {
                forget(name);
            }
        }
    }
}

#[cold]
#[inline(never)]
fn name_it(name: &mut Option<Box<[u8]>>, key: &[u8]) {
    *name = Some(key.into());
}

#[cold]
#[inline(never)]
fn forget(name: &mut Option<Box<[u8]>>) {
    *name = None;
}

impl<'a> Counter<'a> {
    /// Both epochs of a key; `other` is what the other epoch has of it.
    fn joined(self, other: Counter<'a>) -> Option<Sighting<'a>> {
        let key = self.name.or(other.name)?;
        Some(Sighting { key, upper: self.count + other.count, error: self.error + other.error })
    }
}

fn counters(set: Option<&Set>) -> impl Iterator<Item = Counter<'_>> {
    let ways = |set| {
        let Set { hashes, ranks, errors, names, .. }: &Set = set;
        hashes.iter().zip(ranks).zip(errors).zip(names).map(|(((hash, rank), error), name)| Counter {
            hash: *hash,
            count: *rank >> WAY_BITS,
            error: *error,
            name: name.as_deref(),
        })
    };
    set.into_iter().flat_map(ways).filter(|counter| counter.hash != 0)
}

/// The key's counter in a set; where it has none, what it may have had.
fn find(set: Option<&Set>, hash: u64) -> Counter<'_> {
    let most = least(set);
    counters(set).find(|counter| counter.hash == hash).unwrap_or(Counter { hash, count: most, error: most, name: None })
}

fn least(set: Option<&Set>) -> u64 {
    set.and_then(|set| set.ranks.iter().min()).map_or(0, |least| *least >> WAY_BITS)
}
