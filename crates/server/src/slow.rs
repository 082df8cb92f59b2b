//! Where the time of commands for several cores is taken, and slow calls come home from other cores.
//!
//! Such a command is timed as a whole, from the first part that is sent to the last that came back: that is what its
//! client waits for. What one core runs by itself is timed by the engine.

use crate::worker::Worker;
use tollgate_engine::dispatch::{Ready, Way};
use tollgate_engine::parcel::Parcel;
use tollgate_engine::session::Client;
use tollgate_resp::Args;

impl Worker {
    /// The beginning of a command that waits for other cores. `None` if it is not timed.
    pub fn begin(&self, ready: &Ready) -> Option<u64> {
        let core = self.core.borrow();
        (is_spread(ready) && core.timing.times(ready.entry)).then(|| core.timing.read())
    }

    /// The end of it, for the slow log, LATENCY and the counters of errors. `reply` is what it was answered with.
    pub fn end(&self, ready: &Ready, args: Args<'_>, begun: Option<u64>, reply: &[u8], client: &Client) {
        let mut core = self.core.borrow_mut();
        if let Some(begun) = begun {
            core.took(ready.entry, args, begun, self.now());
        }
        if is_spread(ready)
            && let Some(text) = reply.strip_prefix(b"-")
        {
            core.counters.failed(ready.entry.index, text);
        }
        core.sign_slow(client);
    }

    /// Keeps the calls of a parcel that took long where it ran, as those of the client that sent it.
    pub fn keep_slow(&self, parcel: &mut Parcel, client: &Client) {
        if !parcel.slow.is_empty() {
            let mut core = self.core.borrow_mut();
            core.timing.pending.append(&mut parcel.slow);
            core.sign_slow(client);
        }
    }
}

/// Whether parts of it run on several cores. All else is timed, and its errors are counted, where it runs.
fn is_spread(ready: &Ready) -> bool {
    matches!(ready.way, Way::PerKey | Way::Every | Way::Cursor | Way::AllOrNothing | Way::Steps)
}
