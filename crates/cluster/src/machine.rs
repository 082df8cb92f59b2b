//! The map as the log makes it: entries in, maps out.
//!
//! **Invariant:** an entry that was decided in another term than the one in which it came into the log changes nothing.
//! What its leader knew when it decided it may not have been true any more.

use crate::raft::{Entry, LogId, Membership, Outcome, SnapshotMeta, StorageError, Types};
use crate::store::{Store, fault};
use openraft::storage::RaftStateMachine;
use openraft::{EntryPayload, ErrorSubject, ErrorVerb, RaftSnapshotBuilder, Snapshot};
use std::io::{self, Cursor};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tollgate_topology::{Refused, SlotMap};

/// Who is told of every map.
pub type Told = Arc<dyn Fn(&Arc<SlotMap>) + Send + Sync>;

#[derive(Clone, Default)]
struct State {
    applied: Option<LogId>,
    membership: Membership,
    map: Arc<SlotMap>,
}

/// The machine.
#[derive(Clone)]
pub struct Machine {
    store: Store,
    state: Arc<Mutex<State>>,
    told: Told,
}

impl Machine {
    /// As it was when the last snapshot was made; whoever is to be told is told that map.
    ///
    /// # Errors
    /// The disk, or a snapshot that is not understood.
    pub fn new(store: Store, told: Told) -> io::Result<Machine> {
        let state = match store.snapshot()? {
            Some((meta, bytes)) => state_of(&meta, &bytes)?,
            None => State::default(),
        };
        let machine = Machine { store, state: Arc::new(Mutex::new(state)), told };
        machine.tell();
        Ok(machine)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self) {
        let map = Arc::clone(&self.state().map);
        (self.told)(&map);
    }

    fn take(&self, entry: Entry) -> Outcome {
        let mut state = self.state();
        state.applied = Some(entry.log_id);
        match entry.payload {
            EntryPayload::Blank => None,
            EntryPayload::Membership(membership) => {
                state.membership = Membership::new(Some(entry.log_id), membership);
                None
            }
            EntryPayload::Normal(proposal) if proposal.term != entry.log_id.leader_id.term => Some(Err(Refused::Stale)),
            EntryPayload::Normal(proposal) => Some(Arc::make_mut(&mut state.map).apply(&proposal.change)),
        }
    }
}

fn state_of(meta: &SnapshotMeta, bytes: &[u8]) -> io::Result<State> {
    let map = serde_json::from_slice(bytes)?;
    Ok(State { applied: meta.last_log_id, membership: meta.last_membership.clone(), map: Arc::new(map) })
}

impl RaftSnapshotBuilder<Types> for Machine {
    async fn build_snapshot(&mut self) -> Result<Snapshot<Types>, StorageError> {
        let state = self.state().clone();
        let bytes = serde_json::to_vec(&*state.map).map_err(io::Error::from);
        let bytes = bytes.map_err(fault(ErrorSubject::Snapshot(None), ErrorVerb::Write))?;
        let snapshot_id = state.applied.map_or_else(|| "0".to_owned(), |applied| applied.to_string());
        let meta = SnapshotMeta { last_log_id: state.applied, last_membership: state.membership, snapshot_id };
        let kept = self.store.keep_snapshot(&meta, bytes.clone()).await;
        kept.map_err(fault(ErrorSubject::Snapshot(Some(meta.signature())), ErrorVerb::Write))?;
        Ok(Snapshot { meta, snapshot: Box::new(Cursor::new(bytes)) })
    }
}

impl RaftStateMachine<Types> for Machine {
    type SnapshotBuilder = Machine;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, Membership), StorageError> {
        let state = self.state();
        Ok((state.applied, state.membership.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<Outcome>, StorageError>
    where
        I: IntoIterator<Item = Entry> + Send,
        I::IntoIter: Send,
    {
        let outcomes = entries.into_iter().map(|entry| self.take(entry)).collect();
        self.tell();
        Ok(outcomes)
    }

    async fn get_snapshot_builder(&mut self) -> Machine {
        // What is applied later is not to come into a snapshot of now.
        let state = Arc::new(Mutex::new(self.state().clone()));
        Machine { state, ..self.clone() }
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<Cursor<Vec<u8>>>, StorageError> {
        Ok(Box::new(Cursor::new(Vec::new())))
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta,
        snapshot: Box<Cursor<Vec<u8>>>,
    ) -> Result<(), StorageError> {
        let bytes = snapshot.into_inner();
        let subject = || ErrorSubject::Snapshot(Some(meta.signature()));
        let state = state_of(meta, &bytes).map_err(fault(subject(), ErrorVerb::Read))?;
        let kept = self.store.keep_snapshot(meta, bytes).await;
        kept.map_err(fault(subject(), ErrorVerb::Write))?;
        *self.state() = state;
        self.tell();
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot<Types>>, StorageError> {
        let kept = self.store.snapshot().map_err(fault(ErrorSubject::Snapshot(None), ErrorVerb::Read))?;
        Ok(kept.map(|(meta, bytes)| Snapshot { meta, snapshot: Box::new(Cursor::new(bytes)) }))
    }
}
