//! Who asks, for the parts of a command that must know.
//!
//! The problem: a part on another core sees arguments only, and CLIENT KILL must know which of the clients is the one
//! that sent it. The idea: a row with [`Flags::TOLD_WHO`](crate::command::Flags::TOLD_WHO) is given the number of its
//! client as one more argument, the last, after its arity was checked; no other row sees it.

use tollgate_resp::{Args, Span};

/// A call's arguments with its client's number behind them.
#[derive(Debug)]
pub struct WithAsker {
    bytes: Vec<u8>,
    spans: Vec<Span>,
}

impl WithAsker {
    /// For a call of client `id`.
    pub fn new(args: Args<'_>, id: u64) -> WithAsker {
        let mut with = WithAsker { bytes: Vec::new(), spans: Vec::with_capacity(args.len() + 1) };
        args.iter().for_each(|argument| with.push(argument));
        with.push(id.to_string().as_bytes());
        with
    }

    fn push(&mut self, argument: &[u8]) {
        // A command has at most a megabyte, far below what a span can state.
        let start = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        self.bytes.extend_from_slice(argument);
        self.spans.push(Span { start, end: u32::try_from(self.bytes.len()).unwrap_or(u32::MAX) });
    }

    /// The arguments, as any command's.
    pub fn args(&self) -> Args<'_> {
        Args::new(&self.bytes, &self.spans)
    }
}

/// The number of arguments that were sent, and the client that sent them. 0, which no client has, where nobody told.
pub fn split_asker(args: Args<'_>) -> (usize, u64) {
    let given = args.len().saturating_sub(1);
    let asker = args.get(given).and_then(|id| std::str::from_utf8(id).ok()?.parse().ok());
    (given, asker.unwrap_or(0))
}
