//! Who asks, for the parts of a command that must know.
//!
//! The problem: a part on another core sees arguments only, and CLIENT KILL must know which of the clients is the one
//! that sent it. The idea: a row with [`Flags::TOLD_WHO`](crate::command::Flags::TOLD_WHO) is given the number of its
//! client as one more argument, the last, after its arity was checked; no other row sees it.

use tollgate_resp::{Args, OwnedArgs};

/// A call's arguments with its client's number behind them.
pub fn with_asker(args: Args<'_>, id: u64) -> OwnedArgs {
    args.iter().chain(std::iter::once(id.to_string().as_bytes())).collect()
}

/// The number of arguments that were sent, and the client that sent them. 0, which no client has, where nobody told.
pub fn split_asker(args: Args<'_>) -> (usize, u64) {
    let given = args.len().saturating_sub(1);
    let asker = args.get(given).and_then(|id| std::str::from_utf8(id).ok()?.parse().ok());
    (given, asker.unwrap_or(0))
}
