//! The commands of one read: parsed and prepared all together, before the first of them runs.
//!
//! A random key is a cache miss, and several misses that do not wait for one another cost little more than one. So all
//! keys of a batch are located and their records fetched first, and only then are the commands run, in order.

use tollgate_engine::dispatch::{Dispatcher, Ready};
use tollgate_resp::{Args, OwnedArgs, Parser, ProtocolError, Span, Step};

/// The most commands of a batch: enough for the misses to overlap, few enough that what was fetched is still in the
/// cache when its turn comes.
pub const BATCH_COMMANDS_MAX: usize = 64;

/// One command of a batch.
pub struct Item {
    first_span: usize,
    end_span: usize,
    /// Its own arguments, if they do not lie in the buffer.
    owned: Option<OwnedArgs>,
    /// What is to be done, or the text of the error.
    pub ready: Result<Ready, String>,
}

impl Item {
    /// The arguments.
    #[inline]
    pub fn args<'a>(&'a self, buffer: &'a [u8], spans: &'a [Span]) -> Args<'a> {
        match &self.owned {
            Some(owned) => owned.args(),
            None => Args::new(buffer, spans.get(self.first_span..self.end_span).unwrap_or_default()),
        }
    }
}

/// Why parsing stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The batch is full; there may be more in the buffer.
    Full,
    /// Nothing whole is left in the buffer. The name is that of the unfinished command, once it is known.
    Incomplete(Option<Span>),
    /// The client does not speak RESP.
    Broken(ProtocolError),
}

/// Parsed commands, reused from read to read.
#[derive(Default)]
pub struct Batch {
    /// Where the arguments lie.
    pub spans: Vec<Span>,
    /// The commands, in order.
    pub items: Vec<Item>,
}

impl Batch {
    /// Parses up to `commands_max` commands from `buffer[*start..]` and moves `start` behind them.
    pub fn fill(
        &mut self,
        parser: &mut Parser,
        dispatcher: &Dispatcher,
        buffer: &[u8],
        start: &mut usize,
        commands_max: usize,
    ) -> Stop {
        self.spans.clear();
        self.items.clear();
        while self.items.len() < commands_max {
            let first_span = self.spans.len();
            match parser.step(buffer, *start, &mut self.spans) {
                Ok(Step::Command { end }) => {
                    *start = end;
                    let end_span = self.spans.len();
                    // An empty command is skipped without an answer, as in Redis.
                    if end_span > first_span {
                        let args = Args::new(buffer, self.spans.get(first_span..end_span).unwrap_or_default());
                        let ready = dispatcher.prepare(args);
                        self.items.push(Item { first_span, end_span, owned: None, ready });
                    }
                }
                Ok(Step::Inline { end, arguments }) => {
                    *start = end;
                    let ready = dispatcher.prepare(arguments.args());
                    self.items.push(Item { first_span, end_span: first_span, owned: Some(arguments), ready });
                }
                Ok(Step::Discarded { end, done }) => {
                    *start = end;
                    if !done && end >= buffer.len() {
                        return Stop::Incomplete(None);
                    }
                }
                Ok(Step::Incomplete { name }) => return Stop::Incomplete(name),
                Err(error) => return Stop::Broken(error),
            }
        }
        Stop::Full
    }
}
