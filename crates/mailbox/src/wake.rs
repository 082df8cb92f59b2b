//! The handshake between a core that goes to sleep and the cores that send to it.
//!
//! ```text
//!   sleeper                               sender
//!   1. asleep = true                      1. put the message into the lane
//!   2. fence                              2. fence
//!   3. look at the lanes: empty? sleep    3. look at asleep: true? set it to false and wake
//! ```
//!
//! With the two fences in one total order, either the sleeper's look comes after the message, or the sender's look
//! comes after the flag. A sender that sees the flag turns it off and wakes; later senders see it off and pay one load.
//! Two senders that see it at the same moment both wake, which costs and harms nothing; so a plain store will do.

#[cfg(feature = "loom")]
use loom::sync::atomic::{AtomicBool, Ordering, fence};
#[cfg(not(feature = "loom"))]
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// Whether a core sleeps. One for each core, shared with all that send to it.
#[derive(Debug)]
pub struct WakeFlag {
    asleep: AtomicBool,
}

impl Default for WakeFlag {
    fn default() -> Self {
        WakeFlag::new()
    }
}

impl WakeFlag {
    /// Of a core that is awake.
    pub fn new() -> WakeFlag {
        WakeFlag { asleep: AtomicBool::new(false) }
    }

    /// Called by the core before it sleeps. `has_work` looks at its lanes. Answers whether it may sleep: if so, any
    /// sender from now on will wake it; if not, it is awake and has work.
    pub fn may_sleep(&self, has_work: impl FnOnce() -> bool) -> bool {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if has_work() {
            self.asleep.store(false, Ordering::Relaxed);
            return false;
        }
        true
    }

    /// Called by the core when it no longer sleeps, for whatever reason it woke.
    pub fn awake(&self) {
        // A plain store would also dirty the line when it is already false, which is the common case.
        if self.asleep.load(Ordering::Relaxed) {
            self.asleep.store(false, Ordering::Relaxed);
        }
    }

    /// Called by a sender after its messages are in the lanes. Answers whether this sender must wake the core.
    pub fn must_wake(&self) -> bool {
        fence(Ordering::SeqCst);
        if !self.asleep.load(Ordering::Relaxed) {
            return false;
        }
        self.asleep.store(false, Ordering::Relaxed);
        true
    }
}
