//! What a client is at the moment, besides what it said about itself: CLIENT KILL, REPLY, NO-EVICT and MONITOR set it,
//! CLIENT LIST shows it, and the shell acts on it.

use std::cell::Cell;

/// Whether CLIENT KILL has met a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Killed {
    /// No.
    #[default]
    No,
    /// By itself: its reply leaves first.
    AfterReply,
    /// By another: it ends wherever it is, and what it was not sent yet is lost.
    AtOnce,
}

/// Which replies a client gets, by CLIENT REPLY.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replies {
    /// All.
    #[default]
    On,
    /// None.
    Off,
    /// All but that of the next command.
    SkipNext,
    /// The command that runs now is the one whose reply is skipped.
    Skip,
}

/// The state that others than its own session see or set.
#[derive(Debug, Default)]
pub struct ClientState {
    /// By CLIENT KILL.
    pub killed: Cell<Killed>,
    /// Whether it is shown what others do, by MONITOR.
    pub monitors: Cell<bool>,
    /// Whether it is a replica, which is told what a core holds.
    pub is_replica: Cell<bool>,
    /// Whether a command of it waits for the end of CLIENT PAUSE.
    pub waits: Cell<bool>,
    /// Commands kept since MULTI; `None` outside of a transaction.
    pub queued: Cell<Option<usize>>,
    /// Bytes that these take.
    pub queued_bytes: Cell<usize>,
    /// By CLIENT NO-EVICT.
    pub no_evict: Cell<bool>,
    /// Whether it reads what a replica of a cluster holds, by READONLY.
    pub reads_copies: Cell<bool>,
    /// By CLIENT NO-TOUCH.
    pub no_touch: Cell<bool>,
    /// Bytes that it sent and that did not run yet.
    pub query_bytes: Cell<u64>,
    /// Bytes that the buffer of these has room for besides.
    pub query_room_bytes: Cell<u64>,
    /// Bytes of replies that the socket did not take yet.
    pub unsent_bytes: Cell<u64>,
}

impl ClientState {
    /// The letters of CLIENT LIST's `flags`, in Redis's order; `N` if none applies.
    pub fn flags(&self, unix_socket: bool) -> String {
        let letters = [
            (self.monitors.get(), 'O'),
            (self.is_replica.get(), 'S'),
            (self.queued.get().is_some(), 'x'),
            (self.waits.get(), 'b'),
            (self.killed.get() == Killed::AfterReply, 'c'),
            (self.killed.get() == Killed::AtOnce, 'A'),
            (unix_socket, 'U'),
            (self.reads_copies.get(), 'r'),
            (self.no_evict.get(), 'e'),
            (self.no_touch.get(), 'T'),
        ];
        let shown: String = letters.into_iter().filter(|(applies, _)| *applies).map(|(_, letter)| letter).collect();
        if shown.is_empty() { "N".to_owned() } else { shown }
    }

    /// Forgets what RESET makes a client forget.
    pub fn reset(&self) {
        self.queued.set(None);
        self.monitors.set(false);
        self.no_evict.set(false);
        self.reads_copies.set(false);
        self.no_touch.set(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_stand_for_what_applies() {
        let state = ClientState::default();
        assert_eq!((state.flags(false), state.flags(true)), ("N".to_owned(), "U".to_owned()));
        state.monitors.set(true);
        state.no_evict.set(true);
        state.no_touch.set(true);
        state.waits.set(true);
        state.killed.set(Killed::AtOnce);
        assert_eq!(state.flags(true), "ObAUeT");
        state.reset();
        assert_eq!(state.flags(false), "bA");
    }
}
