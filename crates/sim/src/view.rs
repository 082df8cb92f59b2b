//! How a key looks on a core, in the bytes that a replica would be told.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use tollgate_limits::{AMOUNT_MAX, Ask, Decision, Log, Micros, Policy, StateRef, decide};
use tollgate_replication::{Record, write};
use tollgate_store::{Content, Hasher as KeyHasher, Holding, Located, Store};

/// What all stores of a run hash with: fixed, so that a run depends on its seed alone.
pub const HASH_SEED: [u64; 4] = [11, 22, 33, 44];

/// Where keys lie in every store.
pub fn hasher() -> KeyHasher {
    KeyHasher::new(HASH_SEED)
}

/// A key of the run, and where it lies.
#[derive(Clone, Debug)]
pub struct Key {
    /// Its name.
    pub name: String,
    /// Its place in every store.
    pub at: Located,
}

/// What a key holds, one that has expired included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// The version of its slot.
    pub version: u64,
    /// Its record; `None`: nothing.
    pub record: Option<Vec<u8>>,
}

/// Looks at a key without letting it expire.
pub fn look(store: &mut Store, key: &Key) -> View {
    // At the time 0 nothing has expired.
    let record = store.find(key.at, key.name.as_bytes(), 0).map(|id| {
        let mut record = Vec::new();
        write(&mut record, key.name.as_bytes(), Some(store.holding(id)));
        record
    });
    View { version: store.slot_version(key.at.slot), record }
}

/// What a record says.
pub fn content(record: &[u8]) -> Option<Content> {
    let mut rest = record;
    Record::read(&mut rest).ok().and_then(|record| record.content)
}

/// The record, unless it has expired by then.
pub fn alive(record: Option<&Vec<u8>>, now: Micros) -> Option<&Vec<u8>> {
    let record = record?;
    let expires_at = match content(record)?.holding() {
        Holding::Limit(policy, state) => tollgate_limits::expires_at(policy, state),
        Holding::Value(_, expires_at) => expires_at.unwrap_or(u64::MAX),
    };
    (expires_at > now).then_some(record)
}

/// The record as far as it says anything of a call at that time or later: a log may have dropped what no longer counts,
/// and that never comes back. `None`: nothing.
pub fn lasting(record: Option<&Vec<u8>>, now: Micros) -> Option<Vec<u8>> {
    let record = alive(record, now)?;
    let content = content(record)?;
    let Holding::Limit(policy @ Policy::Log { window, .. }, StateRef::Log(log)) = content.holding() else {
        return Some(record.clone());
    };
    let through = now.saturating_sub(window.micros());
    let counting: Vec<(Micros, u64)> = log.entries().filter(|(at, _)| *at > through).collect();
    let log = Log::of(through, &counting)?;
    let mut bytes = Vec::new();
    let key = Record::read(&mut record.as_slice()).map_or(&[][..], |record| record.key);
    write(&mut bytes, key, Some(Holding::Limit(policy, StateRef::Log(&log))));
    Some(bytes)
}

/// What a limit's record answers to a call. `None`: it is no limit, or of another algorithm.
pub fn decision(record: Option<&Vec<u8>>, ask: &Ask, now: Micros) -> Option<Decision> {
    let content = match alive(record, now) {
        None => return decide(None, ask, now).map(|outcome| outcome.decision),
        Some(record) => content(record)?,
    };
    let Holding::Limit(policy, state) = content.holding() else { return None };
    let stored: (&Policy, StateRef<'_>) = (policy, state);
    decide(Some(stored), ask, now).map(|outcome| outcome.decision)
}

/// The same window or rate, with the largest limit there is.
pub fn with_room(policy: &Policy) -> Policy {
    let limit = AMOUNT_MAX;
    match *policy {
        Policy::Slide { window, .. } => Policy::Slide { limit, window },
        Policy::Fixed { window, .. } => Policy::Fixed { limit, window },
        Policy::Log { window, .. } => Policy::Log { limit, window },
        Policy::Token { rate, .. } => Policy::Token { capacity: limit, rate },
        Policy::Leak { rate, .. } => Policy::Leak { capacity: limit, rate },
    }
}

/// A number that equal sets of records share, whatever their order.
pub fn digest<'a>(records: impl Iterator<Item = &'a Vec<u8>>) -> u64 {
    let one = |record: &Vec<u8>| {
        let mut hasher = DefaultHasher::new();
        record.hash(&mut hasher);
        hasher.finish()
    };
    records.map(one).fold(0, u64::wrapping_add)
}

/// A record for a person to read.
pub fn shown(record: Option<&Vec<u8>>) -> String {
    match record.map(|record| content(record)) {
        None => "nothing".to_owned(),
        Some(None) => "no record".to_owned(),
        Some(Some(content)) => format!("{:?}", content.holding()),
    }
}

impl fmt::Display for View {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}, version {}", shown(self.record.as_ref()), self.version)
    }
}
