//! The commands of one read: parsed and prepared all together, before the first of them runs.
//!
//! A random key is a cache miss, and several misses that do not wait for one another cost little more than one. So all
//! keys of a batch are located and their records fetched first, and only then are the commands run, in order.

use tollgate_engine::dispatch::{Dispatcher, Ready};
use tollgate_resp::{Args, OwnedArgs, Parser, ProtocolError, Span, Step};

/// The most commands of a batch: enough for the misses to overlap, few enough that what was fetched is still in the
/// cache when its turn comes.
pub const BATCH_COMMANDS_MAX: usize = 64;

/// One command of a batch. Small, since every command makes one: what is rare lies in the batch's side lists.
pub struct Item {
    first_span: u32,
    end_span: u32,
    /// What is to be done with it.
    pub kind: Kind,
}

/// What is to be done with a command.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Run it.
    Run(Ready),
    /// Run it, with arguments that do not lie in the buffer: their place in the side list.
    RunOwned(Ready, usize),
    /// Answer an error: its place in the side list.
    Refuse(usize),
}

impl Kind {
    /// What is to be run.
    #[inline]
    pub fn ready(&self) -> Option<&Ready> {
        match self {
            Kind::Run(ready) | Kind::RunOwned(ready, _) => Some(ready),
            Kind::Refuse(_) => None,
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
    owned: Vec<OwnedArgs>,
    refusals: Vec<String>,
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
        self.owned.clear();
        self.refusals.clear();
        while self.items.len() < commands_max {
            let first_span = self.spans.len();
            match parser.step(buffer, *start, &mut self.spans) {
                Ok(Step::Command { end }) => {
                    *start = end;
                    let end_span = self.spans.len();
                    // An empty command is skipped without an answer, as in Redis.
                    if end_span > first_span {
                        let args = Args::new(buffer, self.spans.get(first_span..end_span).unwrap_or_default());
                        let kind = match dispatcher.check(args) {
                            Some(ready) => Kind::Run(ready),
                            None => refuse(&mut self.refusals, dispatcher, args),
                        };
                        let item = Item { first_span: index(first_span), end_span: index(end_span), kind };
                        self.items.push(item);
                    }
                }
                Ok(Step::Inline { end, arguments }) => {
                    *start = end;
                    let kind = match dispatcher.check(arguments.args()) {
                        Some(ready) => Kind::RunOwned(ready, self.owned.len()),
                        None => refuse(&mut self.refusals, dispatcher, arguments.args()),
                    };
                    self.owned.push(arguments);
                    self.items.push(Item { first_span: 0, end_span: 0, kind });
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

    /// The arguments of a command of this batch.
    #[inline]
    pub fn args<'a>(&'a self, buffer: &'a [u8], item: &Item) -> Args<'a> {
        if let Kind::RunOwned(_, place) = item.kind {
            return self.owned.get(place).map(OwnedArgs::args).unwrap_or(Args::new(&[], &[]));
        }
        let range = usize_of(item.first_span)..usize_of(item.end_span);
        Args::new(buffer, self.spans.get(range).unwrap_or_default())
    }

    /// The text of an error.
    pub fn refusal(&self, place: usize) -> &str {
        self.refusals.get(place).map_or("ERR internal error: no text", String::as_str)
    }
}

#[cold]
fn refuse(refusals: &mut Vec<String>, dispatcher: &Dispatcher, args: Args<'_>) -> Kind {
    refusals.push(dispatcher.refusal(args));
    Kind::Refuse(refusals.len() - 1)
}

/// Spans of a batch are far fewer than 2^32: each takes at least a byte of a buffer whose places are 32 bits.
#[inline]
fn index(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}

#[inline]
fn usize_of(index: u32) -> usize {
    usize::try_from(index).unwrap_or(usize::MAX)
}
