//! Asks a server ten times a second what a failover would forget, beside the calls of the run.
//!
//! What it says last before it goes is what an operator's dashboard would show, and what is held against the count of
//! what was admitted above the limits. A thread of its own asks, on a connection of its own, so that neither waits for
//! the other.

use crate::dialog::Dialog;
use crate::error::BenchError;
use crate::target::Target;
use crate::verify::Scrape;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Between two askings.
const INTERVAL: Duration = Duration::from_millis(100);

/// A thread that asks.
#[derive(Debug)]
pub(crate) struct Scraper {
    /// Its end is the thread's.
    running: Sender<()>,
    thread: JoinHandle<Option<Scrape>>,
}

impl Scraper {
    /// Begins to ask; times are counted from `epoch`.
    pub(crate) fn start(target: &Target, epoch: Instant) -> Result<Scraper, BenchError> {
        let dialog = Dialog::open(target)?;
        let (running, ending) = channel();
        let thread = std::thread::Builder::new().name("scrape".to_owned());
        let thread = thread.spawn(move || ask(dialog, &ending, epoch));
        Ok(Scraper { running, thread: thread.map_err(BenchError::system("no further thread"))? })
    }

    /// Ends it, and tells what was said last; none if nothing was.
    pub(crate) fn finish(self) -> Option<Scrape> {
        drop(self.running);
        self.thread.join().ok().flatten()
    }
}

/// Asks until it is to end, or the server has gone.
fn ask(mut dialog: Dialog, ending: &Receiver<()>, epoch: Instant) -> Option<Scrape> {
    let mut last = None;
    loop {
        // What is answered counts from before the asking: later is not sure to be in what it says.
        let asked_micros = u64::try_from(epoch.elapsed().as_micros()).unwrap_or(u64::MAX);
        let Ok(Some(overshoot)) = dialog.failover_overshoot() else { return last };
        last = Some(Scrape { asked_micros, overshoot });
        if ending.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout) {
            return last;
        }
    }
}
