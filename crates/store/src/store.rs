//! The keys of one core: look up, change, insert, remove.
//!
//! The problem: one call on a key that exists must cost a few cache lines and no more, while everything that takes
//! longer (growth, expiry, memory) happens elsewhere and in bounded steps. The idea: a call finds its record first and
//! writes it in place; only a miss inserts, and only what needs more memory may have to make room.
//!
//! ```text
//! slot header -> tags -> record number -> record (header, state, key) -> policy
//! ```
//!
//! **Invariants:** the store never reads a clock: it is given `now`. An expired record is none. A version is raised by
//! every change, but not by expiry, which is no change: all copies of a slot expire alike, by their own time.

use crate::body::Body;
use crate::grave::Grave;
use crate::locate::{Hasher, Located};
use crate::record::{KEY_BYTES_MAX, KIND_FIXED, KIND_LEAK, KIND_LEAK_WIDE, KIND_SLIDE, KIND_TOKEN, KIND_TOKEN_WIDE};
use crate::records::{NewState, Records, RecordsAt};
use crate::region::HugeRegion;
use crate::removals::Removals;
use crate::room::Room;
use crate::slots::{SlotState, Slots};
use crate::soonest::Soonest;
use crate::stats::{StepMeter, StoreStats};
use crate::table::Tables;
use crate::watch::Clearings;
use tollgate_limits::{Bucket, Change, Log, LogChange, Micros, Policy, StateRef, Under};

/// What to do with a new key when memory is used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Eviction {
    /// Refuse it, so that a flood of new keys frees nobody's counter.
    #[default]
    NoEviction,
    /// Drop, from a bounded sample, the record whose loss frees least.
    EvictLeast,
}

/// How a store is set up.
#[derive(Clone, Copy)]
pub struct StoreConfig {
    /// The secret of the process, the same for all its cores.
    pub hash_seed: [u64; 4],
    /// The number of this core, below `cores`.
    pub core: u16,
    /// How many cores share the slots: slot `s` is of core `s / 64 % cores`.
    pub cores: u16,
    /// The most memory to hold, in bytes; 0 for no bound.
    pub memory_max_bytes: u64,
    /// What happens at the bound.
    pub eviction: Eviction,
    /// Seed of the sampling. The same seed and calls do the same.
    pub random_seed: u64,
}

impl std::fmt::Debug for StoreConfig {
    /// Keeps the secret out of logs.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("StoreConfig")
            .field("core", &self.core)
            .field("cores", &self.cores)
            .field("memory_max_bytes", &self.memory_max_bytes)
            .field("eviction", &self.eviction)
            .finish_non_exhaustive()
    }
}

/// A record's place. It holds until the record is removed, moved or expired: never keep one from call to call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RecordId(pub(crate) u32);

/// What needs more memory was refused: the bound is reached and nothing could make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory;

impl std::fmt::Display for OutOfMemory {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("refused: memory is used up")
    }
}

impl std::error::Error for OutOfMemory {}

/// The keys of one core.
pub struct Store {
    pub(crate) slots: Slots,
    /// What the slots' indexes are made of.
    pub(crate) tables: Tables,
    pub(crate) records: Records,
    pub(crate) grave: Grave,
    pub(crate) room: Room,
    pub(crate) core: u16,
    pub(crate) cores: u16,
    pub(crate) split_load: usize,
    /// Bytes of all tables that are in use or wait for being dropped.
    pub(crate) index_bytes: u64,
    /// Where the sweep goes on: a page, and a block in it.
    pub(crate) sweep_page: u32,
    pub(crate) sweep_block: usize,
    /// See [`Store::sweep_work`]: of this pass, and of the one before.
    pub(crate) sweep_pass_work: u64,
    pub(crate) sweep_last_work: u64,
    pub(crate) soonest: Soonest,
    pub(crate) removals: Removals,
    pub(crate) clearings: Clearings,
    pub(crate) meter: StepMeter,
    /// Grows with whatever may change counts and sizes.
    pub(crate) changes: u64,
    pub(crate) stats: StoreStats,
}

impl Store {
    /// An empty store.
    pub fn new(config: StoreConfig) -> Store {
        Store {
            slots: Slots::new(),
            tables: Tables::new(),
            records: Records::new(Hasher::new(config.hash_seed)),
            grave: Grave::new(),
            room: Room::new(config.memory_max_bytes, config.eviction, config.random_seed),
            core: config.core,
            cores: config.cores.max(1),
            split_load: crate::index::SPLIT_LOAD,
            index_bytes: 0,
            sweep_page: 0,
            sweep_block: 0,
            sweep_pass_work: 0,
            sweep_last_work: 0,
            soonest: Soonest::new(),
            removals: Removals::new(),
            clearings: Clearings::new(),
            meter: StepMeter::new(),
            changes: 0,
            stats: StoreStats::default(),
        }
    }

    /// Splits tables above so many entries on average, instead of the 448 that suit memory and steps: for tests.
    pub fn set_split_load(&mut self, entries: usize) {
        self.split_load = entries.max(1);
    }

    /// The hasher that locates keys for this store and for every other of the same seed.
    pub fn hasher(&self) -> Hasher {
        self.records.hasher.clone()
    }

    /// The record of `key`. One that has expired is freed and is none.
    #[inline]
    pub fn find(&mut self, at: Located, key: &[u8], now: Micros) -> Option<RecordId> {
        let records = &self.records;
        let index = &self.slots.get(at.slot)?.index;
        // The first entry with the right tag is mostly the key's, and a probe that looks at no record is the quicker.
        let id = match index.find(at.hash, &self.tables, |_| true)? {
            first if records.is_of(first, key) => first,
            _ => index.find(at.hash, &self.tables, |id| records.is_of(id, key))?,
        };
        if records.is_expired(id, now) {
            self.drop_record(at, id);
            self.stats.expired += 1;
            return None;
        }
        Some(RecordId(id))
    }

    /// The policy and the state of a record. `None` if it is not a limit.
    #[inline]
    pub fn limit(&self, id: RecordId) -> Option<(&Policy, StateRef<'_>)> {
        self.records.limit(id.0)
    }

    /// Writes `change` to a record that exists; `asked` is the policy for [`Under::Asked`]. Never refused for want of
    /// memory, as an undo must not be: a call asks [`Store::make_room_for`] first. Returns where the record is now;
    /// `None` if it went.
    ///
    /// A change for another algorithm than the record's is a bug of the caller: it is not made.
    #[inline]
    pub fn apply(&mut self, at: Located, id: RecordId, asked: &Policy, change: &Change) -> Option<RecordId> {
        let (under, is_written) = match change {
            Change::Keep => return Some(id),
            Change::Remove => {
                self.remove(at, id);
                return None;
            }
            Change::Slide(under, slide) => (under, self.records.write2(id.0, KIND_SLIDE, slide.pack())),
            Change::Fixed(under, fixed) => (under, self.records.write2(id.0, KIND_FIXED, fixed.pack())),
            Change::Bucket(under, bucket) => return self.apply_bucket(at, id, asked, *under, *bucket),
            Change::Log(under, change) => (under, self.records.change_log(id.0, *change)),
        };
        debug_assert!(is_written, "a change for another kind of record");
        if is_written {
            if *under == Under::Asked {
                self.records.set_policy(id.0, asked);
            }
            self.touch(at);
        }
        Some(id)
    }

    fn apply_bucket(
        &mut self,
        at: Located,
        id: RecordId,
        asked: &Policy,
        under: Under,
        bucket: Bucket,
    ) -> Option<RecordId> {
        let kind = self.records.header(id.0).kind();
        let mut id = id;
        let is_written = match (kind, bucket.pack()) {
            (KIND_TOKEN | KIND_LEAK, Some(words)) => self.records.write2(id.0, kind, words),
            (KIND_TOKEN_WIDE | KIND_LEAK_WIDE, _) => self.records.write4(id.0, kind, bucket.pack_wide()),
            (KIND_TOKEN, None) => self.widen(at, &mut id, KIND_TOKEN_WIDE, bucket),
            (KIND_LEAK, None) => self.widen(at, &mut id, KIND_LEAK_WIDE, bucket),
            _ => false,
        };
        debug_assert!(is_written, "a change for another kind of record");
        if is_written {
            if under == Under::Asked {
                self.records.set_policy(id.0, asked);
            }
            self.touch(at);
        }
        Some(id)
    }

    /// Moves a bucket to a record of the wide form. It stays wide, so that it does not move back and forth. False, and
    /// nothing done, if no block can be named any more.
    fn widen(&mut self, at: Located, id: &mut RecordId, kind: u8, bucket: Bucket) -> bool {
        let Some((policy, _)) = self.records.limit(id.0) else { return false };
        let (policy, key) = (*policy, self.records.key(id.0).to_vec());
        let state = NewState::Words4(kind, bucket.pack_wide());
        let Some(wide) = self.records.create(Some(&policy), state, &key, true) else { return false };
        self.slots.make(at.slot).index.replace(at.hash, id.0, wide, &mut self.tables);
        self.records.free(id.0);
        *id = RecordId(wide);
        true
    }

    /// Makes a record for a key that has none ([`Store::find`] said so), kept under `asked`. [`Change::Keep`],
    /// [`Change::Remove`] and changes under a stored policy, which there is not, make none.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`] at the memory bound, and for a key above [`KEY_BYTES_MAX`]; nothing has changed then, except
    /// that expired records may be gone and, under [`Eviction::EvictLeast`], evicted ones.
    pub fn insert(
        &mut self,
        at: Located,
        key: &[u8],
        asked: &Policy,
        change: &Change,
        now: Micros,
    ) -> Result<Option<RecordId>, OutOfMemory> {
        let Some(state) = new_state(asked, change) else { return Ok(None) };
        self.insert_state(at, key, Some(asked), state, now).map(Some)
    }

    /// Makes a record for a key that has none.
    #[inline]
    pub(crate) fn insert_state(
        &mut self,
        at: Located,
        key: &[u8],
        policy: Option<&Policy>,
        state: NewState,
        now: Micros,
    ) -> Result<RecordId, OutOfMemory> {
        let made = match self.make_room(at, key.len(), policy, &state, now) {
            Ok(may_grow) => self.create(at, key, policy, state, may_grow, now),
            Err(OutOfMemory) => None,
        };
        match made {
            Some(id) => {
                self.stats.inserts += 1;
                Ok(id)
            }
            None => {
                self.stats.oom_refusals += 1;
                Err(OutOfMemory)
            }
        }
    }

    /// Makes and indexes a record, whatever the bound says.
    pub(crate) fn create(
        &mut self,
        at: Located,
        key: &[u8],
        policy: Option<&Policy>,
        state: NewState,
        may_grow: bool,
        now: Micros,
    ) -> Option<RecordId> {
        if key.len() > KEY_BYTES_MAX {
            return None;
        }
        let id = self.records.create(policy, state, key, may_grow)?;
        let slot = self.slots.make(at.slot);
        if slot.index.wants_step(at.hash, self.split_load) {
            self.step_index(at, now);
        }
        let slot = self.slots.make(at.slot);
        if !slot.index.insert(at.hash, id, &mut self.tables) {
            self.records.free(id);
            return None;
        }
        slot.version += 1;
        if let Some(end) = self.records.expires_at(id) {
            self.soonest.made(end);
        }
        self.stats.keys += 1;
        self.changes += 1;
        Some(RecordId(id))
    }

    /// One bounded step of the index's growth.
    #[cold]
    fn step_index(&mut self, at: Located, now: Micros) {
        let begun = self.meter.begin();
        let index = &mut self.slots.make(at.slot).index;
        let may_be_over = self.soonest.may_be_over(now);
        let mut records = RecordsAt { records: &mut self.records, now, may_be_over };
        let step = index.make_room(at.hash, self.split_load, &mut self.tables, &mut records);
        self.index_bytes = self.index_bytes + step.bytes_after - step.bytes_before;
        self.stats.keys -= step.reaped as u64;
        self.stats.expired += step.reaped as u64;
        self.stats.splits += step.tables as u64;
        self.stats.moved_max = self.stats.moved_max.max(step.moved as u64);
        self.meter.end(begun);
    }

    /// Removes a record.
    pub fn remove(&mut self, at: Located, id: RecordId) {
        self.records.note_removed(id.0);
        if self.drop_record(at, id.0) {
            self.stats.removed += 1;
            self.removals.note(at);
            self.touch(at);
        }
    }

    /// How many keys were removed since the store was made: a mark for [`Store::removed_since`].
    pub fn removals(&self) -> u64 {
        self.removals.count()
    }

    /// Whether the key at `at` was removed since that mark, by a call or to make room, so that what lies there now is
    /// another record. Yes also where that is no longer known.
    pub fn removed_since(&self, mark: u64, at: Located) -> bool {
        self.removals.since(mark, at)
    }

    /// Takes a record out of the index and frees it. False if the index does not name it.
    pub(crate) fn drop_record(&mut self, at: Located, id: u32) -> bool {
        let Some(slot) = self.slots.get_mut(at.slot) else { return false };
        let Some(step) = slot.index.remove(at.hash, id, &mut self.tables) else { return false };
        self.index_bytes = self.index_bytes + step.bytes_after - step.bytes_before;
        self.records.free(id);
        self.stats.keys -= 1;
        self.changes += 1;
        true
    }

    #[inline]
    pub(crate) fn touch(&mut self, at: Located) {
        self.changes += 1;
        if let Some(slot) = self.slots.get_mut(at.slot) {
            slot.version += 1;
        }
    }

    /// The first microsecond at which the record is as if untouched; `u64::MAX` is beyond what can be counted. `None`:
    /// it does not expire.
    pub fn expires_at(&self, id: RecordId) -> Option<Micros> {
        self.records.expires_at(id.0)
    }

    /// The record's key.
    pub fn key(&self, id: RecordId) -> &[u8] {
        self.records.key(id.0)
    }

    /// Bytes that the record takes: its block, its share of the index and what its body holds (MEMORY USAGE).
    pub fn record_bytes(&self, id: RecordId) -> usize {
        let at = self.records.hasher.locate(self.records.key(id.0));
        let share = self.slots.get(at.slot).map_or(0, |slot| slot.index.share_bytes(at.hash));
        let body = self.records.body(id.0).map_or(0, |body| size_of::<Body>() + body.heap_bytes());
        self.records.slab.block_words(id.0) * 8 + share as usize + body
    }

    /// Whether the record was made or changed since [`Store::copied`].
    pub fn is_dirty(&self, id: RecordId) -> bool {
        self.records.header(id.0).is_dirty()
    }

    /// Keys held (DBSIZE). Those that have expired and were not met yet are among them.
    pub fn len(&self) -> u64 {
        self.stats.keys
    }

    /// Whether no key is held.
    pub fn is_empty(&self) -> bool {
        self.stats.keys == 0
    }

    /// A number that every change of the slot raises; 0 before the first.
    pub fn slot_version(&self, slot: u16) -> u64 {
        self.slots.get(slot).map_or(0, |slot| slot.version)
    }

    /// The sum of all slots' versions: any change of any key raises it.
    pub fn slot_changes(&self) -> u64 {
        self.slots.iter().map(|slot| slot.version).fold(0, u64::wrapping_add)
    }

    /// Who may serve the slot.
    pub fn slot_state(&self, slot: u16) -> SlotState {
        self.slots.get(slot).map_or(SlotState::Owned, |slot| slot.state)
    }

    /// Says who may serve the slot. The store itself does not act on it.
    pub fn set_slot_state(&mut self, slot: u16, state: SlotState) {
        self.slots.make(slot).state = state;
    }

    /// Lends the store a clock, in microseconds from any start, to time its maintenance steps with.
    pub fn set_step_meter(&mut self, clock: fn() -> u64) {
        self.meter.clock = clock;
    }

    /// The longest maintenance step so far, in microseconds.
    pub fn longest_step_us(&self) -> u64 {
        self.meter.longest_us
    }

    /// Whether some of its memory is full and would be read faster from a huge page. Make one on another thread and
    /// give it to [`Store::renew_region`].
    pub fn wants_huge_region(&self) -> bool {
        self.tables.wants_huge_region() || self.records.slab.wants_huge_region()
    }

    /// Moves 2 MiB of what is full into a huge page: some tenths of a millisecond. Gives back what is not in use any
    /// more; drop it on another thread, as that takes a while too.
    pub fn renew_region(&mut self, huge: HugeRegion) -> HugeRegion {
        let begun = self.meter.begin();
        let slab_wants = !self.tables.wants_huge_region();
        let old = if slab_wants { self.records.slab.renew_region(huge) } else { self.tables.renew_region(huge) };
        self.meter.end(begun);
        old
    }

    /// A number that has grown whenever [`Store::stats`] or [`Store::memory_used`] may answer otherwise than before.
    /// Sweeps leave it as it is, and so do calls that only count up what is there.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Counts and sizes.
    pub fn stats(&self) -> StoreStats {
        StoreStats {
            longest_step_us: self.meter.longest_us,
            lasting: self.records.lasting,
            pages: self.records.slab.pages_held(),
            policies: self.records.policies.len() as u64,
            index_bytes: self.index_bytes,
            record_bytes: self.records.slab.bytes(),
            body_bytes: self.records.bodies.bytes() + self.records.body_heap_bytes,
            ..self.stats
        }
    }

    /// Bytes held: pages, tables, slot headers, policies, logs, and what waits for being dropped.
    #[inline]
    pub fn memory_used(&self) -> u64 {
        self.records.bytes() + self.index_bytes + self.slots.bytes() + self.grave.bytes()
    }

    /// [`Store::memory_used`] by a walk through everything, for tests and diagnosis.
    pub fn memory_recounted(&self) -> u64 {
        let indexes: u64 = self.slots.iter().map(|slot| slot.index.bytes()).sum();
        let body_heaps: usize = self.records.bodies.iter().map(Body::heap_bytes).sum();
        self.records.slab.bytes_recounted()
            + self.records.policies.bytes_recounted()
            + self.records.bodies.bytes_recounted()
            + body_heaps as u64
            + indexes
            + self.slots.bytes()
            + self.grave.bytes_recounted()
    }

    /// Sets the memory bound in bytes, 0 for none. What is held above it stays until it is removed or expires.
    pub fn set_memory_max(&mut self, bytes: u64) {
        self.room.memory_max_bytes = bytes;
    }

    /// The memory bound in bytes; 0 is none.
    pub fn memory_max(&self) -> u64 {
        self.room.memory_max_bytes
    }

    /// Sets what happens at the memory bound.
    pub fn set_eviction(&mut self, eviction: Eviction) {
        self.room.eviction = eviction;
    }
}

/// What a change makes of no record at all.
fn new_state(asked: &Policy, change: &Change) -> Option<NewState> {
    match change {
        Change::Slide(Under::Asked, slide) => Some(NewState::slide(*slide)),
        Change::Fixed(Under::Asked, fixed) => Some(NewState::fixed(*fixed)),
        Change::Bucket(Under::Asked, bucket) => NewState::bucket(asked.algorithm(), *bucket),
        Change::Log(Under::Asked, change) => Some(NewState::Log(new_log(*change))),
        _ => None,
    }
}

fn new_log(change: LogChange) -> Log {
    let mut log = Log::default();
    log.apply(change);
    log
}
