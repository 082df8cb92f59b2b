//! What a command asks of the shell besides its reply. The engine decides; the shell does.

use tollgate_limits::Micros;

/// One thing to be done before the connection's next command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// End this connection once its replies are written.
    Close,
    /// The session's rights or protocol changed: the parser's bounds follow.
    SessionChanged,
    /// Move the test clock to this time on all cores, before the reply leaves.
    SetClock(Micros),
    /// End the process in order.
    Shutdown,
}
