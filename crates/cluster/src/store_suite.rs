//! The consensus library's own tests of storage, on what is kept here: in memory, and in a file.

use crate::machine::Machine;
use crate::raft::{StorageError, Types};
use crate::store::Store;
use openraft::testing::{StoreBuilder, Suite};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

static DIRECTORIES: AtomicU32 = AtomicU32::new(0);

/// A directory that goes with this value; none: in memory.
struct Place(Option<PathBuf>);

impl Place {
    fn new() -> Place {
        let number = DIRECTORIES.fetch_add(1, Ordering::SeqCst);
        let path = std::env::temp_dir().join(format!("tollgate-store-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Place(Some(path))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _ = std::fs::remove_dir_all(path);
        }
    }
}

struct Builder {
    is_file: bool,
}

impl StoreBuilder<Types, Store, Machine, Place> for Builder {
    async fn build(&self) -> Result<(Place, Store, Machine), StorageError> {
        let place = if self.is_file { Place::new() } else { Place(None) };
        let (store, _) = Store::open(place.0.as_deref()).unwrap();
        let machine = Machine::new(store.clone(), Arc::new(|_| {})).unwrap();
        Ok((place, store, machine))
    }
}

#[test]
fn the_library_finds_nothing_wrong_with_the_store_in_memory() {
    Suite::test_all(Builder { is_file: false }).unwrap();
}

#[test]
fn the_library_finds_nothing_wrong_with_the_store_in_a_file() {
    Suite::test_all(Builder { is_file: true }).unwrap();
}

#[tokio::test]
async fn what_was_promised_is_there_when_the_file_is_opened_again() {
    use crate::raft::{Entry, LogId, Vote};
    use openraft::storage::{RaftLogStorage, RaftLogStorageExt};
    use openraft::{CommittedLeaderId, EntryPayload, RaftLogReader};
    use tollgate_topology::NodeId;
    let place = Place::new();
    let vote = Vote::new(7, NodeId::from(3));
    let log_id = |index| LogId::new(CommittedLeaderId::new(7, NodeId::from(3)), index);
    let entry = |index| Entry { log_id: log_id(index), payload: EntryPayload::Blank };
    let (mut store, identity) = Store::open(place.0.as_deref()).unwrap();
    store.save_vote(&vote).await.unwrap();
    store.blocking_append([entry(0), entry(1), entry(2)]).await.unwrap();
    store.purge(log_id(0)).await.unwrap();
    drop(store);
    let (mut store, again) = Store::open(place.0.as_deref()).unwrap();
    assert_eq!((again.id, &again.group), (identity.id, &identity.group));
    assert_eq!(store.read_vote().await.unwrap(), Some(vote));
    assert_eq!(store.try_get_log_entries(..).await.unwrap(), [entry(1), entry(2)]);
    // In another group nothing of that is there, and who writes for the old one is refused.
    let group = crate::store::GroupFact { id: "other".to_owned(), is_founder: false, sponsor: None };
    let mut next = store.enter(group.clone()).await.unwrap();
    assert!(store.save_vote(&vote).await.is_err());
    assert_eq!(next.read_vote().await.unwrap(), None);
    assert_eq!(next.try_get_log_entries(..).await.unwrap(), []);
    next.save_vote(&vote).await.unwrap();
    drop((store, next));
    assert_eq!(Store::open(place.0.as_deref()).unwrap().1.group, group);
}
