//! What a snapshot holds, read when the server starts.
//!
//! The problem: a server that serves before it knows what callers have used hands them fresh budgets, and one that
//! does not answer meanwhile looks dead. The idea: cores listen at once and answer `-LOADING`, while each reads the
//! whole file and takes what is its own; nothing is served before all have read it to its end.

use crate::clock::AHEAD_MICROS_MAX;
use crate::worker::Worker;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use tollgate_replication::import;
use tollgate_replication::snapshot::{Part, Reader, Stamp, Unreadable, stamp_of};

/// Bytes read from the file at once.
const READ_BYTES: usize = 256 * 1024;

/// A snapshot cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[error(
    "the snapshot {} cannot be loaded: {why}. It is left as it is. To start without it, move it away",
    path.display()
)]
pub struct NotLoaded {
    path: PathBuf,
    why: String,
}

impl NotLoaded {
    fn new(path: &Path, why: &impl ToString) -> NotLoaded {
        NotLoaded { path: path.to_owned(), why: why.to_string() }
    }
}

/// A first look at the snapshot at `path`: when it was finished. `None`: there is none. `wall` is what the wall clock
/// says; `None` takes any time.
///
/// # Errors
/// It is none, damaged at its ends, of another version, or from the future.
pub fn look_at(path: &Path, wall: Option<u64>) -> Result<Option<Stamp>, NotLoaded> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(NotLoaded::new(path, &error)),
    };
    let stamp = stamp_of(&mut file).map_err(|error| NotLoaded::new(path, &error))?;
    match wall {
        Some(wall) if stamp.timeline > wall.saturating_add(AHEAD_MICROS_MAX) => Err(NotLoaded::new(
            path,
            &"its time is more than 24 hours ahead of this machine's clock, which is wrong or was when it was written",
        )),
        _ => Ok(Some(stamp)),
    }
}

/// Loads what the snapshot at `path` holds of this core's keys.
pub async fn load(worker: Rc<Worker>, path: PathBuf) {
    match load_all(&worker, &path).await {
        Ok(()) => worker.hub.loaded(),
        Err(error) => worker.hub.fail_to_load(NotLoaded::new(&path, &error)),
    }
}

async fn load_all(worker: &Worker, path: &Path) -> Result<(), Unreadable> {
    let mut reader = Reader::new(BufReader::with_capacity(READ_BYTES, File::open(path)?))?;
    let mut body = Vec::new();
    for number in 0.. {
        match reader.next(&mut body)? {
            Part::Records(count) => {
                let mut core = worker.core.borrow_mut();
                let read = import(&body, &mut core.store, worker.now());
                let records = read.map_err(|error| Unreadable::Record(number, error))?;
                if records != count {
                    return Err(Unreadable::Damaged(number, "it has other than the records that it says"));
                }
            }
            Part::End(_) => break,
        }
        // Those who ask meanwhile get their answer.
        tokio::task::yield_now().await;
    }
    let mut core = worker.core.borrow_mut();
    core.counters.slot_changes.set(core.store.slot_changes());
    core.publish();
    Ok(())
}
