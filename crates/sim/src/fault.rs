//! Faults that are planted in the simulated messages, to prove that the checkers see what they are there for.

/// What the simulated shell does wrong now and then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An undo comes back as if done, and was not.
    UndoDropped,
    /// A charge is taken off once more after its undo.
    UndoTwice,
    /// A part of an RL.ALL that was refused is charged all the same.
    ChargedThoughRefused,
    /// Two replies to one client change places.
    RepliesSwapped,
    /// A reply is lost.
    ReplyLost,
    /// A core runs a command with a time that lies a while back.
    ClockBehind,
    /// An RL.ALL that a core refused is answered as admitted, and nobody undoes anything.
    RefusalIgnored,
    /// A denied call wears off: use that is there is forgotten after a refusal.
    ForgottenAfterRefusal,
    /// A batch that waits for a full lane does not ask again about the others, which may be full by then.
    RoomAskedInPart,
}

/// How often a planted fault strikes where it can, of a thousand times.
pub const FAULT_PERMILLE: u64 = 300;
