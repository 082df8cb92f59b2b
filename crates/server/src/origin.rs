//! Whose state this process holds, and whether a primary goes on from it.
//!
//! The problem: a replica takes over whatever its primary holds, and a primary that restarted, empty or from an older
//! snapshot, may hold less than the replica does. The idea: every process has a run id, and what it holds is some
//! process's state: its own, or that of the primary that it follows. A primary says whose state it goes on from, if it
//! had all of it: that of the primary it followed until it was promoted, or its own before it was ended in order. A
//! replica follows, by itself, only a process whose state it holds or that goes on from it; anything else an operator
//! must say by REPLICAOF. A file beside the snapshot keeps that over a restart.
//!
//! ```text
//! primary A, ended in order ──> primary B goes on from A      killed ──> C goes on from nobody
//! replica of A, promoted    ──> primary D goes on from A
//! ```
//!
//! **Invariant:** what a process goes on from, it once had all of.

use crate::saving::PLAIN_FILE;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tollgate_replication::flow::RUN_ID_BYTES;
use tollgate_replication::snapshot::Stamp;

/// What names a process.
pub type RunId = [u8; RUN_ID_BYTES];

const FILE_NAME: &str = "tollgate.origin";
const TEMPORARY_FILE_NAME: &str = "tollgate.origin.tmp";
/// What follows the run id in the file, where nothing came after the snapshot of these times.
const ENDED: &str = "ended";
const FILE_BYTES_MAX: u64 = 128;
/// Of what was kept without a word whose it is: nobody goes on from it.
const UNKNOWN: RunId = [b'?'; RUN_ID_BYTES];

/// Whose state is held here.
#[derive(Debug)]
pub struct Origin {
    directory: Option<PathBuf>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// What this process's own state is called.
    own: RunId,
    has_led: bool,
    /// The process whose state it is; none: there is nothing.
    of: Option<RunId>,
    /// Whether that process ended in order, and this is all there was of it.
    is_ended: bool,
    /// What this process goes on from, as a primary.
    continues: Option<RunId>,
}

impl Origin {
    /// Of a process that begins, with the state that it has kept in its directory: `last` is of the snapshot there.
    pub fn new(own: RunId, directory: Option<PathBuf>, last: Option<Stamp>) -> Origin {
        let mut state = State { own, has_led: false, of: None, is_ended: false, continues: None };
        if let (Some(last), Some(directory)) = (last, &directory) {
            let kept = read(directory);
            state.of = Some(kept.map_or(UNKNOWN, |(of, _)| of));
            state.is_ended = kept.is_some_and(|(_, ended)| ended == Some(last));
        }
        Origin { directory, state: Mutex::new(state) }
    }

    /// This process is a primary from now on. `other`: what its state is called if it has led before, and has followed
    /// another since.
    pub fn leads(&self, other: impl FnOnce() -> Option<RunId>) {
        let mut state = self.state();
        if state.of == Some(state.own) {
            return;
        }
        state.continues = state.of.filter(|_| state.is_ended);
        if state.has_led {
            state.own = other().unwrap_or(state.own);
        }
        state.has_led = true;
        (state.of, state.is_ended) = (Some(state.own), false);
        self.write(state.own, None);
    }

    /// This process is a primary of a cluster from now on, and the cluster says what its state is called.
    pub fn leads_as(&self, name: RunId) {
        let mut state = self.state();
        (state.own, state.of) = (name, Some(name));
        (state.has_led, state.is_ended, state.continues) = (true, false, None);
    }

    /// The process whose state is held here; `None`: there is nothing.
    pub fn of(&self) -> Option<RunId> {
        self.state().of
    }

    /// The state of this process is taken over from now on.
    pub fn takes_over(&self, run_id: RunId) {
        let mut state = self.state();
        (state.is_ended, state.continues) = (false, None);
        if state.of != Some(run_id) {
            state.of = Some(run_id);
            self.write(run_id, None);
        }
    }

    /// What the state is called that replicas are told, and what it goes on from.
    pub fn told(&self) -> (RunId, Option<RunId>) {
        let state = self.state();
        (state.own, state.continues)
    }

    /// This process ends, and nothing has changed since the snapshot of these times.
    pub fn ends(&self, last: Stamp) {
        let state = self.state();
        if state.of == Some(state.own) {
            self.write(state.own, Some(last));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, of: RunId, ended: Option<Stamp>) {
        let Some(directory) = &self.directory else { return };
        if let Err(error) = write(directory, of, ended) {
            // Without it a restart goes on from nobody, and an operator is asked.
            tracing::error!(%error, "whose state is held here cannot be written down");
            let _ = std::fs::remove_file(directory.join(FILE_NAME));
        }
    }
}

fn write(directory: &Path, of: RunId, ended: Option<Stamp>) -> io::Result<()> {
    let temporary = directory.join(TEMPORARY_FILE_NAME);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600).custom_flags(PLAIN_FILE);
    let mut file = options.open(&temporary)?;
    file.write_all(&of)?;
    if let Some(Stamp { timeline, wall }) = ended {
        file.write_all(format!(" {ENDED} {timeline} {wall}").as_bytes())?;
    }
    file.write_all(b"\n")?;
    file.sync_all()?;
    std::fs::rename(&temporary, directory.join(FILE_NAME))?;
    File::open(directory)?.sync_all()
}

/// Whose state was kept, and the snapshot after which nothing came. `None`: the file does not say.
fn read(directory: &Path) -> Option<(RunId, Option<Stamp>)> {
    let mut text = Vec::new();
    let mut options = OpenOptions::new();
    let file = options.read(true).custom_flags(PLAIN_FILE).open(directory.join(FILE_NAME)).ok()?;
    file.take(FILE_BYTES_MAX).read_to_end(&mut text).ok()?;
    let (run_id, rest) = text.split_first_chunk::<RUN_ID_BYTES>()?;
    let mut words = std::str::from_utf8(rest).ok()?.split_ascii_whitespace();
    let ended = match words.next() {
        None => None,
        Some(ENDED) => Some(Stamp { timeline: words.next()?.parse().ok()?, wall: words.next()?.parse().ok()? }),
        Some(_) => return None,
    };
    Some((*run_id, ended))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Scratch;

    const A: RunId = [b'a'; RUN_ID_BYTES];
    const B: RunId = [b'b'; RUN_ID_BYTES];
    const C: RunId = [b'c'; RUN_ID_BYTES];

    const LAST: Stamp = Stamp { timeline: 5, wall: 7 };

    #[test]
    fn who_is_promoted_goes_on_from_nobody_and_who_led_before_is_another() {
        let replica = Origin::new(C, None, None);
        replica.takes_over(A);
        assert_eq!(replica.of(), Some(A));
        replica.leads(|| Some(B));
        replica.leads(|| Some(B));
        assert_eq!((replica.told(), replica.of()), ((C, None), Some(C)));
        replica.takes_over(A);
        replica.leads(|| Some(B));
        assert_eq!(replica.told(), (B, None), "its replicas know another state by the first name");
    }

    #[test]
    fn a_restart_goes_on_only_from_an_end_in_order_and_its_last_snapshot() {
        let folder = Scratch::new();
        let begin = |own, last| Origin::new(own, Some(folder.path().to_owned()), last);
        let lead = |own, last| {
            let origin = begin(own, last);
            origin.leads(|| None);
            origin
        };
        let first = lead(A, None);
        assert_eq!(lead(B, Some(LAST)).told(), (B, None), "it was killed");
        lead(A, None).ends(LAST);
        drop(first);
        assert_eq!(begin(C, Some(Stamp { wall: 6, ..LAST })).of(), Some(A));
        let older = Origin::new(C, Some(folder.path().to_owned()), Some(Stamp { wall: 6, ..LAST }));
        older.leads(|| None);
        assert_eq!(older.told(), (C, None), "an older snapshot was put back");
        lead(A, None).ends(LAST);
        let ended = lead(C, Some(LAST));
        assert_eq!(ended.told(), (C, Some(A)));
        // It is killed before it has written anything, and the snapshot is still that of the one before.
        assert_eq!(lead(B, Some(LAST)).told(), (B, None));
        // Without the snapshot there is nothing to go on from, and a replica's end says nothing of its primary's.
        lead(B, None).ends(LAST);
        assert_eq!(lead(A, None).told(), (A, None));
        let replica = begin(A, None);
        replica.takes_over(B);
        replica.ends(LAST);
        assert_eq!(lead(C, Some(LAST)).told(), (C, None));
        std::fs::write(folder.path().join(FILE_NAME), "rubbish").unwrap();
        assert_eq!((begin(A, Some(LAST)).of(), begin(A, None).of()), (Some(UNKNOWN), None));
    }
}
