//! The commands of one read: parsed and prepared all together, before the first of them runs.
//!
//! A random key is a cache miss, and several misses that do not wait for one another cost little more than one. So all
//! keys of a batch are located and their records fetched first, and only then are the commands run, in order.

use tollgate_engine::dispatch::{Dispatcher, Ready, Way};
use tollgate_engine::registry::{Entry, Recent};
use tollgate_engine::transaction::ABORTED_BECAUSE;
use tollgate_resp::{Args, OwnedArgs, Parser, ProtocolError, Span, Step};
use tollgate_store::Located;

/// The most commands of a batch: enough for the misses to overlap, few enough that what was fetched is still in the
/// cache when its turn comes.
pub const BATCH_COMMANDS_MAX: usize = 64;

/// One command of a batch. Half a cache line, since every command makes one: what is rare lies in the batch's side
/// lists.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    /// The command's row. `None`: it is answered with an error, whose text is number `first` of the refusals.
    entry: Option<&'static Entry>,
    hash: u64,
    slot: u16,
    way: Way,
    /// The arguments: spans `first` to `end`. An `end` of zero, which no arguments have: number `first` of the owned.
    first: u32,
    end: u32,
}

const _: () = assert!(size_of::<Item>() <= 32);

impl Item {
    #[inline(always)]
    fn new(ready: Ready, first: usize, end: usize) -> Item {
        let Ready { entry, way, at } = ready;
        Item { entry: Some(entry), hash: at.hash, slot: at.slot, way, first: index(first), end: index(end) }
    }

    fn refused(place: usize) -> Item {
        Item { entry: None, hash: 0, slot: 0, way: Way::Here, first: index(place), end: 0 }
    }

    /// What is to be run. `None`: an error is to be answered, [`Batch::refusal`].
    #[inline(always)]
    pub fn ready(&self) -> Option<Ready> {
        let at = Located { slot: self.slot, hash: self.hash };
        self.entry.map(|entry| Ready { entry, way: self.way, at })
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
    recent: Recent,
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
                    if self.add(dispatcher, buffer, first_span) {
                        return Stop::Full;
                    }
                }
                Ok(Step::Inline { end, arguments }) => {
                    *start = end;
                    if self.add_owned(dispatcher, arguments) {
                        return Stop::Full;
                    }
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
        let (first, end) = (usize_of(item.first), usize_of(item.end));
        match self.spans.get(first..end) {
            Some(spans) if end > 0 => Args::new(buffer, spans),
            _ => self.owned.get(first).map(OwnedArgs::args).unwrap_or(Args::new(&[], &[])),
        }
    }

    /// The text of the error that a command is answered with.
    pub fn refusal(&self, item: &Item) -> &str {
        self.refusals.get(usize_of(item.first)).map_or("ERR internal error: no text", String::as_str)
    }

    /// Adds the command whose arguments are the spans from `first` on. One that is like the last, for one key, goes in
    /// line. Answers whether the batch must end with it: AUTH changes the bounds of what follows, MULTI how it is run,
    /// CLIENT REPLY whether it is answered.
    #[inline(always)]
    fn add(&mut self, dispatcher: &Dispatcher, buffer: &[u8], first: usize) -> bool {
        let args = Args::new(buffer, self.spans.get(first..).unwrap_or_default());
        if let Some(entry) = args.get(0).and_then(|name| self.recent.recall(name))
            && let Some((core, at)) = dispatcher.place(entry, args)
        {
            let end = self.spans.len();
            self.items.push(Item::new(Ready { entry, way: Way::To(core), at }, first, end));
            false
        } else {
            self.add_uncommon(dispatcher, buffer, first)
        }
    }

    #[inline(never)]
    fn add_uncommon(&mut self, dispatcher: &Dispatcher, buffer: &[u8], first: usize) -> bool {
        let args = Args::new(buffer, self.spans.get(first..).unwrap_or_default());
        // An empty command is skipped without an answer, as in Redis.
        let Some(name) = args.get(0) else { return false };
        let ends;
        let item = match dispatcher.prepare(args) {
            Ok(ready) => {
                self.recent.note(name, ready.entry);
                ends = ready.entry.ends_batch;
                Item::new(ready, first, self.spans.len())
            }
            Err(text) => {
                // An EXEC that is refused ends its transaction, and what follows is run again, not kept.
                ends = text.starts_with(ABORTED_BECAUSE);
                refuse(&mut self.refusals, text)
            }
        };
        self.items.push(item);
        ends
    }

    #[cold]
    fn add_owned(&mut self, dispatcher: &Dispatcher, arguments: OwnedArgs) -> bool {
        let ends;
        let item = match dispatcher.prepare(arguments.args()) {
            Ok(ready) => {
                ends = ready.entry.ends_batch;
                Item::new(ready, self.owned.len(), 0)
            }
            Err(text) => {
                // An EXEC that is refused ends its transaction, and what follows is run again, not kept.
                ends = text.starts_with(ABORTED_BECAUSE);
                refuse(&mut self.refusals, text)
            }
        };
        self.owned.push(arguments);
        self.items.push(item);
        ends
    }
}

#[cold]
fn refuse(refusals: &mut Vec<String>, text: String) -> Item {
    refusals.push(text);
    Item::refused(refusals.len() - 1)
}

/// Spans of a batch are far fewer than 2^32: each takes at least a byte of a buffer whose places are 32 bits.
#[inline(always)]
fn index(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}

#[inline(always)]
fn usize_of(index: u32) -> usize {
    usize::try_from(index).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_resp::RequestLimits;
    use tollgate_store::Hasher;

    fn on_the_wire(line: &str) -> String {
        let words: Vec<&str> = line.split(' ').collect();
        let bulks: String = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
        format!("*{}\r\n{bulks}", words.len())
    }

    /// Every command of a batch is what it would be alone, whatever came before it.
    #[test]
    fn a_batch_is_its_commands_one_by_one() {
        let long_key = format!("RL.SLIDE {} 5 60", "k".repeat(2_000));
        let lines =
            ["RL.SLIDE a 5 60", "RL.SLIDE {b}a 5 60", "rl.slide a 5", "RL.TOKEN a 5 1", "PING", "NO.SUCH a 5 60"];
        let more = ["DEL a b c d e f", "CLUSTER KEYSLOT a", "CLUSTER NONE", "RL.SLIDE", "FLUSHALL", &long_key];
        let lines: Vec<&str> = lines.into_iter().chain(more).collect();
        let dispatcher = Dispatcher::new(Hasher::new([1, 2, 3, 4]), 4);
        for first in &lines {
            for second in &lines {
                let order = [first, second, second, first, first, second];
                let mut text: String = order.iter().map(|line| on_the_wire(line)).collect();
                text.push_str("*0\r\nRL.SLIDE 'a b' 5 60\r\nNO.SUCH 'a b'\r\n");
                let buffer = text.as_bytes();
                let (mut batch, mut start) = (Batch::default(), 0);
                let mut parser = Parser::new(RequestLimits::AUTHENTICATED);
                let stop = batch.fill(&mut parser, &dispatcher, buffer, &mut start, BATCH_COMMANDS_MAX);
                assert_eq!((stop, start, batch.items.len()), (Stop::Incomplete(None), buffer.len(), 8));
                for (item, line) in batch.items.iter().zip(order) {
                    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
                    match item.ready() {
                        Some(ready) => {
                            assert_eq!(batch.args(buffer, item).iter().collect::<Vec<_>>(), words);
                            let alone = dispatcher.prepare(batch.args(buffer, item)).unwrap();
                            let of = |ready: &Ready| (ready.entry.command.name, ready.way, ready.at);
                            assert_eq!(of(&ready), of(&alone), "{line}");
                        }
                        None => assert!(batch.refusal(item).starts_with("ERR "), "{line}"),
                    }
                    let is_refused =
                        ["rl.slide a 5", "NO.SUCH a 5 60", "CLUSTER NONE", "RL.SLIDE", &long_key].contains(line);
                    assert_eq!(item.ready().is_none(), is_refused, "{line}");
                }
                let quoted: Vec<Vec<&[u8]>> =
                    batch.items[6..7].iter().map(|item| batch.args(buffer, item).iter().collect()).collect();
                assert_eq!(quoted, [[&b"RL.SLIDE"[..], b"a b", b"5", b"60"]]);
                assert!(batch.refusal(&batch.items[7]).contains("'a b'"), "{}", batch.refusal(&batch.items[7]));
            }
        }
    }
}
