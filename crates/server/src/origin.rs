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

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tollgate_replication::flow::RUN_ID_BYTES;

/// What names a process.
pub type RunId = [u8; RUN_ID_BYTES];

const FILE_NAME: &str = "tollgate.origin";
const TEMPORARY_FILE_NAME: &str = "tollgate.origin.tmp";
/// What follows the run id in the file, where nothing came after the last snapshot.
const ENDED: &[u8] = b" ended";
const FILE_BYTES_MAX: u64 = 64;
/// Of what was kept without a word whose it is: nobody goes on from it.
const UNKNOWN: RunId = [b'?'; RUN_ID_BYTES];

/// Whose state is held here.
#[derive(Debug)]
pub struct Origin {
    own: RunId,
    directory: Option<PathBuf>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The process whose state it is; none: there is nothing.
    of: Option<RunId>,
    /// Whether all of that was here.
    is_whole: bool,
    /// What this process goes on from, as a primary.
    continues: Option<RunId>,
}

impl Origin {
    /// Of a process that begins, with the state that it has kept in its directory, if it `has_snapshot`.
    pub fn new(own: RunId, directory: Option<PathBuf>, has_snapshot: bool) -> Origin {
        let mut state = State::default();
        if has_snapshot && let Some(directory) = &directory {
            let kept = read(directory);
            state.of = Some(kept.map_or(UNKNOWN, |(of, _)| of));
            state.is_whole = kept.is_some_and(|(_, is_ended)| is_ended);
        }
        Origin { own, directory, state: Mutex::new(state) }
    }

    /// This process is a primary from now on.
    pub fn leads(&self) {
        let mut state = self.state();
        if state.of != Some(self.own) {
            state.continues = state.of.filter(|_| state.is_whole);
        }
        (state.of, state.is_whole) = (Some(self.own), true);
        self.write(self.own, false);
    }

    /// The process whose state is held here; `None`: there is nothing.
    pub fn of(&self) -> Option<RunId> {
        self.state().of
    }

    /// The state of this process is taken over from now on.
    pub fn takes_over(&self, run_id: RunId) {
        let mut state = self.state();
        if state.of != Some(run_id) {
            *state = State { of: Some(run_id), is_whole: false, continues: None };
            self.write(run_id, false);
        }
    }

    /// All of it is here.
    pub fn is_whole(&self) {
        self.state().is_whole = true;
    }

    /// What this process goes on from, as a primary.
    pub fn continues(&self) -> Option<RunId> {
        self.state().continues
    }

    /// Nothing has changed since the last snapshot, and this process ends.
    pub fn ends(&self) {
        if self.state().of == Some(self.own) {
            self.write(self.own, true);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, of: RunId, is_ended: bool) {
        let Some(directory) = &self.directory else { return };
        if let Err(error) = write(directory, of, is_ended) {
            // Without it a restart goes on from nobody, and an operator is asked.
            tracing::error!(%error, "whose state is held here cannot be written down");
            let _ = std::fs::remove_file(directory.join(FILE_NAME));
        }
    }
}

fn write(directory: &Path, of: RunId, is_ended: bool) -> io::Result<()> {
    let temporary = directory.join(TEMPORARY_FILE_NAME);
    let no_follow = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600).custom_flags(no_follow);
    let mut file = options.open(&temporary)?;
    file.write_all(&of)?;
    file.write_all(if is_ended { ENDED } else { b"" })?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    std::fs::rename(&temporary, directory.join(FILE_NAME))?;
    File::open(directory)?.sync_all()
}

/// Whose state was kept, and whether nothing came after it. `None`: the file does not say.
fn read(directory: &Path) -> Option<(RunId, bool)> {
    let mut text = Vec::new();
    File::open(directory.join(FILE_NAME)).ok()?.take(FILE_BYTES_MAX).read_to_end(&mut text).ok()?;
    let (run_id, rest) = text.split_first_chunk::<RUN_ID_BYTES>()?;
    match rest.trim_ascii_end() {
        [] => Some((*run_id, false)),
        ENDED => Some((*run_id, true)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Scratch;

    const A: RunId = [b'a'; RUN_ID_BYTES];
    const B: RunId = [b'b'; RUN_ID_BYTES];
    const C: RunId = [b'c'; RUN_ID_BYTES];

    #[test]
    fn who_is_promoted_goes_on_from_what_it_had_all_of() {
        let replica = Origin::new(C, None, false);
        replica.takes_over(A);
        replica.leads();
        assert_eq!(replica.continues(), None, "it was promoted in the middle of the copy");
        let replica = Origin::new(C, None, false);
        replica.takes_over(A);
        replica.is_whole();
        replica.leads();
        replica.leads();
        assert_eq!(replica.continues(), Some(A));
        // It follows the other way round, from what it leads itself to nobody's.
        replica.takes_over(B);
        assert_eq!((replica.continues(), replica.of()), (None, Some(B)));
    }

    #[test]
    fn a_restart_goes_on_only_from_an_end_in_order() {
        let folder = Scratch::new();
        let begin = |own, has_snapshot| Origin::new(own, Some(folder.path().to_owned()), has_snapshot);
        begin(A, false).leads();
        let killed = begin(B, true);
        killed.leads();
        assert_eq!(killed.continues(), None);
        killed.ends();
        let ended = begin(C, true);
        ended.leads();
        assert_eq!(ended.continues(), Some(B));
        // It is killed before it has written anything, and the snapshot is still that of B.
        let killed = begin(A, true);
        killed.leads();
        assert_eq!(killed.continues(), None);
        // Without the snapshot there is nothing to go on from.
        killed.ends();
        let lost = begin(B, false);
        lost.leads();
        assert_eq!(lost.continues(), None);
        // As a replica it expects who it knew; a snapshot without a word is nobody's.
        let replica = begin(C, true);
        assert_eq!(replica.of(), Some(B));
        replica.takes_over(B);
        replica.is_whole();
        replica.ends();
        let again = begin(A, true);
        again.leads();
        assert_eq!(again.continues(), None, "its primary has gone on meanwhile");
        std::fs::write(folder.path().join(FILE_NAME), "rubbish").unwrap();
        assert_eq!((begin(A, true).of(), begin(A, false).of()), (Some(UNKNOWN), None));
    }
}
