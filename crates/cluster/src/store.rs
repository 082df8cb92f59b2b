//! What a node keeps on disk: who it is, which group it is in, and the group's log, vote and snapshot.
//!
//! The problem: a node that has promised something and forgets it over a crash breaks the promises of the whole group.
//! The idea: one redb file; whatever is promised is written and synced before it is answered; and what must change
//! together (another group, its empty log, no intent any more) is one transaction.
//!
//! ```text
//! facts: format, node, group, intent, vote, committed, purged, snapshot_meta, snapshot     log: index -> entry
//! ```
//!
//! All values are JSON, so that a later version can add to them. Writes run on a thread that may wait for the disk.
//!
//! **Invariant:** after the node has entered another group nothing of the old one is written any more.

use crate::bounds;
use crate::hello::{hex, random};
use crate::raft::{Entry, LogId, SnapshotMeta, StorageError, Types, Vote};
use openraft::storage::{LogFlushed, RaftLogStorage};
use openraft::{ErrorSubject, ErrorVerb, LogState, RaftLogReader};
use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use std::io;
use std::ops::RangeBounds;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tollgate_topology::NodeId;
use tollgate_topology::map::Endpoint;

/// The name of the file in the directory.
pub const FILE_NAME: &str = "tollgate.cluster";
const FORMAT: u32 = 1;
const GROUP_BYTES: usize = 16;

const FACTS: TableDefinition<&str, &[u8]> = TableDefinition::new("facts");
const LOG: TableDefinition<u64, &[u8]> = TableDefinition::new("log");

const KEY_FORMAT: &str = "format";
const KEY_NODE: &str = "node";
const KEY_GROUP: &str = "group";
const KEY_INTENT: &str = "intent";
const KEY_VOTE: &str = "vote";
const KEY_COMMITTED: &str = "committed";
const KEY_PURGED: &str = "purged";
const KEY_SNAPSHOT_META: &str = "snapshot_meta";
const KEY_SNAPSHOT: &str = "snapshot";
/// What is of one group, and goes with it.
const KEYS_OF_GROUP: [&str; 5] = [KEY_VOTE, KEY_COMMITTED, KEY_PURGED, KEY_SNAPSHOT_META, KEY_SNAPSHOT];

/// Why what is kept cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file cannot be opened: it is damaged, or another process has it.
    #[error("{} cannot be opened: {source}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the database said.
        source: redb::DatabaseError,
    },
    /// It cannot be read or written.
    #[error("{} cannot be used: {source}", path.display())]
    Use {
        /// The file.
        path: PathBuf,
        /// What the database said.
        source: io::Error,
    },
    /// It is of a later version.
    #[error("{} has the format {format}, this version knows {FORMAT}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: u32,
    },
}

/// The group that a node is in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupFact {
    /// What it is called: 32 hexadecimal digits.
    pub id: String,
    /// Whether this node began it.
    pub is_founder: bool,
    /// Where somebody is who is in it, until the map says more.
    pub sponsor: Option<Endpoint>,
}

impl GroupFact {
    fn found() -> io::Result<GroupFact> {
        Ok(GroupFact { id: hex(&random::<GROUP_BYTES>()?), is_founder: true, sponsor: None })
    }
}

/// Who a node is.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Its id.
    pub id: NodeId,
    /// Its group.
    pub group: GroupFact,
    /// Where it was about to join another group.
    pub intent: Option<Endpoint>,
}

/// The file.
#[derive(Clone)]
pub struct Store {
    database: Arc<Database>,
    /// The generation of the group that is written for now, and the one that this value was made for.
    present: Arc<AtomicU64>,
    generation: u64,
}

impl Store {
    /// Opens the file in a directory, or one in memory.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(directory: Option<&Path>) -> Result<(Store, Identity), OpenError> {
        let path = directory.map_or_else(|| PathBuf::from("memory"), |directory| directory.join(FILE_NAME));
        let mut builder = Database::builder();
        builder.set_cache_size(bounds::DATABASE_CACHE_BYTES);
        // The file is small; without that the database panics at some kinds of damage.
        builder.set_check_integrity_on_open(true);
        let database = match directory {
            Some(_) => builder.create(&path),
            None => builder.create_with_backend(redb::backends::InMemoryBackend::new()),
        };
        let database = database.map_err(|source| OpenError::Open { path: path.clone(), source })?;
        let store = Store { database: Arc::new(database), present: Arc::new(AtomicU64::new(0)), generation: 0 };
        let failed = |source| OpenError::Use { path: path.clone(), source };
        let format = store.begin().map_err(failed)?;
        if format > FORMAT {
            return Err(OpenError::Format { path, format });
        }
        let identity = store.identity().map_err(failed)?;
        Ok((store, identity))
    }

    /// Makes what is missing in a new file.
    fn begin(&self) -> io::Result<u32> {
        self.write_now(Durability::Immediate, |transaction| {
            transaction.open_table(LOG).map_err(io::Error::other)?;
            let mut facts = transaction.open_table(FACTS).map_err(io::Error::other)?;
            let mut format = FORMAT;
            if let Some(known) = facts.get(KEY_FORMAT).map_err(io::Error::other)? {
                format = from_json(known.value())?;
            }
            if facts.get(KEY_NODE).map_err(io::Error::other)?.is_none() {
                put_in(&mut facts, KEY_FORMAT, &FORMAT)?;
                put_in(&mut facts, KEY_NODE, &NodeId(random()?))?;
                put_in(&mut facts, KEY_GROUP, &GroupFact::found()?)?;
            }
            Ok(format)
        })
    }

    fn identity(&self) -> io::Result<Identity> {
        let missing = || io::Error::new(io::ErrorKind::InvalidData, "a fact is missing");
        let id = self.fact(KEY_NODE)?.ok_or_else(missing)?;
        let group = self.fact(KEY_GROUP)?.ok_or_else(missing)?;
        Ok(Identity { id, group, intent: self.fact(KEY_INTENT)? })
    }

    fn fact<T: DeserializeOwned>(&self, key: &str) -> io::Result<Option<T>> {
        let read = self.database.begin_read().map_err(io::Error::other)?;
        let facts = read.open_table(FACTS).map_err(io::Error::other)?;
        let value = facts.get(key).map_err(io::Error::other)?;
        value.map(|value| from_json(value.value())).transpose()
    }

    fn write_now<T>(
        &self,
        durability: Durability,
        change: impl FnOnce(&WriteTransaction) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut transaction = self.database.begin_write().map_err(io::Error::other)?;
        transaction.set_durability(durability).map_err(io::Error::other)?;
        if self.present.load(Ordering::Acquire) != self.generation {
            return Err(io::Error::other("the node has entered another group"));
        }
        let value = change(&transaction)?;
        transaction.commit().map_err(io::Error::other)?;
        Ok(value)
    }

    /// Writes on a thread that may wait for the disk.
    async fn write<T: Send + 'static>(
        &self,
        durability: Durability,
        change: impl FnOnce(&WriteTransaction) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let store = self.clone();
        let writing = tokio::task::spawn_blocking(move || store.write_now(durability, change));
        writing.await.map_err(io::Error::other)?
    }

    async fn put<T: Serialize>(&self, durability: Durability, key: &'static str, value: &T) -> io::Result<()> {
        let json = serde_json::to_vec(value)?;
        self.write(durability, move |transaction| {
            let mut facts = transaction.open_table(FACTS).map_err(io::Error::other)?;
            facts.insert(key, json.as_slice()).map_err(io::Error::other)?;
            Ok(())
        })
        .await
    }

    /// Keeps where the node is about to join a group; none: nowhere any more.
    ///
    /// # Errors
    /// The disk.
    pub async fn intend(&self, intent: Option<Endpoint>) -> io::Result<()> {
        match intent {
            Some(intent) => self.put(Durability::Immediate, KEY_INTENT, &intent).await,
            None => {
                self.write(Durability::Immediate, |transaction| {
                    let mut facts = transaction.open_table(FACTS).map_err(io::Error::other)?;
                    facts.remove(KEY_INTENT).map_err(io::Error::other)?;
                    Ok(())
                })
                .await
            }
        }
    }

    /// Leaves the group and enters another, in which this node knows nothing yet. Values of the old one write no more.
    ///
    /// # Errors
    /// The disk: the node is in its group still.
    pub async fn enter(&self, group: GroupFact) -> io::Result<Store> {
        let store = self.clone();
        let next = self.generation.wrapping_add(1);
        let entering = tokio::task::spawn_blocking(move || {
            store.write_now(Durability::Immediate, |transaction| {
                transaction.delete_table(LOG).map_err(io::Error::other)?;
                transaction.open_table(LOG).map_err(io::Error::other)?;
                let mut facts = transaction.open_table(FACTS).map_err(io::Error::other)?;
                for key in KEYS_OF_GROUP.into_iter().chain([KEY_INTENT]) {
                    facts.remove(key).map_err(io::Error::other)?;
                }
                put_in(&mut facts, KEY_GROUP, &group)?;
                // Seen by whoever begins to write next, as there is one writer at a time.
                store.present.store(next, Ordering::Release);
                Ok(())
            })
        });
        if let Err(error) = entering.await.map_err(io::Error::other).flatten() {
            self.present.store(self.generation, Ordering::Release);
            return Err(error);
        }
        Ok(Store { generation: next, ..self.clone() })
    }

    /// The snapshot that is kept.
    ///
    /// # Errors
    /// The disk.
    pub fn snapshot(&self) -> io::Result<Option<(SnapshotMeta, Vec<u8>)>> {
        let Some(meta) = self.fact(KEY_SNAPSHOT_META)? else { return Ok(None) };
        let read = self.database.begin_read().map_err(io::Error::other)?;
        let facts = read.open_table(FACTS).map_err(io::Error::other)?;
        let bytes = facts.get(KEY_SNAPSHOT).map_err(io::Error::other)?;
        Ok(bytes.map(|bytes| (meta, bytes.value().to_vec())))
    }

    /// Keeps a snapshot instead of the one before.
    ///
    /// # Errors
    /// The disk.
    pub async fn keep_snapshot(&self, meta: &SnapshotMeta, bytes: Vec<u8>) -> io::Result<()> {
        let meta = serde_json::to_vec(meta)?;
        self.write(Durability::Immediate, move |transaction| {
            let mut facts = transaction.open_table(FACTS).map_err(io::Error::other)?;
            facts.insert(KEY_SNAPSHOT_META, meta.as_slice()).map_err(io::Error::other)?;
            facts.insert(KEY_SNAPSHOT, bytes.as_slice()).map_err(io::Error::other)?;
            Ok(())
        })
        .await
    }

    fn entries(&self, range: impl RangeBounds<u64>) -> io::Result<Vec<Entry>> {
        let read = self.database.begin_read().map_err(io::Error::other)?;
        let log = read.open_table(LOG).map_err(io::Error::other)?;
        let mut entries = Vec::new();
        for found in log.range(range).map_err(io::Error::other)? {
            let (_, json) = found.map_err(io::Error::other)?;
            entries.push(from_json(json.value())?);
        }
        Ok(entries)
    }

    fn last_entry(&self) -> io::Result<Option<Entry>> {
        let read = self.database.begin_read().map_err(io::Error::other)?;
        let log = read.open_table(LOG).map_err(io::Error::other)?;
        let last = log.last().map_err(io::Error::other)?;
        last.map(|(_, json)| from_json(json.value())).transpose()
    }
}

fn from_json<T: DeserializeOwned>(json: &[u8]) -> io::Result<T> {
    serde_json::from_slice(json).map_err(io::Error::from)
}

fn put_in<T: Serialize>(facts: &mut redb::Table<'_, &str, &[u8]>, key: &str, value: &T) -> io::Result<()> {
    facts.insert(key, serde_json::to_vec(value)?.as_slice()).map_err(io::Error::other)?;
    Ok(())
}

/// A fault of the disk as the library wants it.
pub fn fault(subject: ErrorSubject<NodeId>, verb: ErrorVerb) -> impl FnOnce(io::Error) -> StorageError {
    move |error| StorageError::from_io_error(subject, verb, error)
}

impl RaftLogReader<Types> for Store {
    async fn try_get_log_entries<R: RangeBounds<u64> + Clone + Debug + Send>(
        &mut self,
        range: R,
    ) -> Result<Vec<Entry>, StorageError> {
        self.entries(range).map_err(fault(ErrorSubject::Logs, ErrorVerb::Read))
    }
}

impl RaftLogStorage<Types> for Store {
    type LogReader = Store;

    async fn get_log_state(&mut self) -> Result<LogState<Types>, StorageError> {
        let state = || {
            let last_purged_log_id: Option<LogId> = self.fact(KEY_PURGED)?;
            let last_log_id = self.last_entry()?.map(|entry| entry.log_id).or(last_purged_log_id);
            Ok(LogState { last_purged_log_id, last_log_id })
        };
        state().map_err(fault(ErrorSubject::Logs, ErrorVerb::Read))
    }

    async fn get_log_reader(&mut self) -> Store {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), StorageError> {
        let saved = self.put(Durability::Immediate, KEY_VOTE, vote).await;
        saved.map_err(fault(ErrorSubject::Vote, ErrorVerb::Write))
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, StorageError> {
        self.fact(KEY_VOTE).map_err(fault(ErrorSubject::Vote, ErrorVerb::Read))
    }

    // Not synced: it goes to disk with what is written next, and one that is too old does no harm.
    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), StorageError> {
        let saved = self.put(Durability::None, KEY_COMMITTED, &committed).await;
        saved.map_err(fault(ErrorSubject::Logs, ErrorVerb::Write))
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, StorageError> {
        let committed = self.fact::<Option<LogId>>(KEY_COMMITTED);
        committed.map(Option::flatten).map_err(fault(ErrorSubject::Logs, ErrorVerb::Read))
    }

    async fn append<I>(&mut self, entries: I, callback: LogFlushed<Types>) -> Result<(), StorageError>
    where
        I: IntoIterator<Item = Entry> + Send,
        I::IntoIter: Send,
    {
        let json = |entry: Entry| Ok((entry.log_id.index, serde_json::to_vec(&entry)?));
        let entries = entries.into_iter().map(json).collect::<io::Result<Vec<_>>>();
        let entries = entries.map_err(fault(ErrorSubject::Logs, ErrorVerb::Write))?;
        let written = self
            .write(Durability::Immediate, move |transaction| {
                let mut log = transaction.open_table(LOG).map_err(io::Error::other)?;
                for (index, json) in &entries {
                    log.insert(index, json.as_slice()).map_err(io::Error::other)?;
                }
                Ok(())
            })
            .await;
        let is_written = written.is_ok();
        let result = written.map_err(fault(ErrorSubject::Logs, ErrorVerb::Write));
        if is_written {
            callback.log_io_completed(Ok(()));
        }
        result
    }

    async fn truncate(&mut self, from: LogId) -> Result<(), StorageError> {
        let written = self
            .write(Durability::Immediate, move |transaction| {
                let mut log = transaction.open_table(LOG).map_err(io::Error::other)?;
                log.retain_in(from.index.., |_, _| false).map_err(io::Error::other)
            })
            .await;
        written.map_err(fault(ErrorSubject::Logs, ErrorVerb::Delete))
    }

    async fn purge(&mut self, through: LogId) -> Result<(), StorageError> {
        let written = self
            .write(Durability::Immediate, move |transaction| {
                let mut facts = transaction.open_table(FACTS).map_err(io::Error::other)?;
                put_in(&mut facts, KEY_PURGED, &through)?;
                let mut log = transaction.open_table(LOG).map_err(io::Error::other)?;
                log.retain_in(..=through.index, |_, _| false).map_err(io::Error::other)
            })
            .await;
        written.map_err(fault(ErrorSubject::Logs, ErrorVerb::Delete))
    }
}
