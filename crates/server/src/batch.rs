//! The commands of one read: parsed and prepared all together, before the first of them runs.
//!
//! A random key is a cache miss, and several misses that do not wait for one another cost little more than one. So all
//! keys of a batch are located and their records fetched first, and only then are the commands run, in order.
//!
//! A client mostly says the same thing about one key after another. What it was last found to say is kept as a
//! [`Habit`]; a command that follows it needs only its key read.

use std::ops::Range;
use tollgate_engine::dispatch::{Dispatcher, Ready, Way};
use tollgate_engine::plain::{Plain, PlainCall, ROW_CALLS_MAX, Row};
use tollgate_engine::registry::{Entry, Recent};
use tollgate_engine::transaction::ABORTED_BECAUSE;
use tollgate_limits::Micros;
use tollgate_resp::{Args, BUFFER_BYTES_MAX, Likeness, OwnedArgs, Parser, ProtocolError, Span, Step};
use tollgate_store::{Located, Wide, Work};

/// The most commands of a batch: enough for the misses to overlap, few enough that what was fetched is still in the
/// cache when its turn comes.
pub const BATCH_COMMANDS_MAX: usize = 64;

/// One command of a batch, or a row of them. Half a cache line, since every command makes one: what is rare lies in the
/// batch's side lists.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    /// The command's row of the table. `None`: see `way`.
    entry: Option<&'static Entry>,
    hash: u64,
    slot: u16,
    /// Of what has no entry: [`Way::To`] means a row of plain calls, and anything else an error.
    way: Way,
    /// The arguments: spans `first` to `end`. An `end` of zero, which no arguments have: number `first` of the owned.
    /// Of a row, its calls. Of an error, `first` is the number of its text.
    first: u32,
    end: u32,
}

const _: () = assert!(size_of::<Item>() <= 32);
const _: () = assert!(BATCH_COMMANDS_MAX <= ROW_CALLS_MAX, "a batch may be one row of plain calls");

impl Item {
    #[inline(always)]
    fn new(ready: Ready, first: usize, end: usize) -> Item {
        let Ready { entry, way, at } = ready;
        Item { entry: Some(entry), hash: at.hash, slot: at.slot, way, first: index(first), end: index(end) }
    }

    fn refused(place: usize) -> Item {
        Item { entry: None, hash: 0, slot: 0, way: Way::Here, first: index(place), end: 0 }
    }

    fn row(calls: Range<usize>) -> Item {
        Item { entry: None, hash: 0, slot: 0, way: Way::To(0), first: index(calls.start), end: index(calls.end) }
    }

    /// Whether it is a row of plain calls, [`Batch::row`].
    #[inline(always)]
    pub fn is_row(&self) -> bool {
        self.entry.is_none() && matches!(self.way, Way::To(_))
    }

    /// What is to be run. `None`: it is a row, or an error is to be answered, [`Batch::refusal`].
    #[inline(always)]
    pub fn ready(&self) -> Option<Ready> {
        let at = Located { slot: self.slot, hash: self.hash };
        self.entry.map(|entry| Ready { entry, way: self.way, at })
    }
}

/// What a client was last found to say again and again, but for the key.
#[derive(Default)]
struct Habit {
    likeness: Likeness,
    /// The row of such a command. `None`: there is no habit yet.
    entry: Option<&'static Entry>,
    /// What it is if it can be run in a row.
    plain: Option<Plain>,
    /// Commands out of the habit to pass over before one is taken for a new habit, and how many to pass over after
    /// that. A client that says something else each time would pay for a habit with each command.
    pause: u8,
    next_pause: u8,
}

/// The longest pause between two habits that nobody kept to.
const PAUSE_MAX: u8 = 63;

impl Habit {
    /// Takes note of a command for one key that is out of the habit.
    #[inline(always)]
    fn broken_by(&mut self, entry: &'static Entry, buffer: &[u8], start: usize, end: usize, spans: &[Span]) {
        match self.pause.checked_sub(1) {
            Some(pause) => self.pause = pause,
            None => self.begin(entry, buffer, start, end, spans),
        }
    }

    #[inline(never)]
    fn begin(&mut self, entry: &'static Entry, buffer: &[u8], start: usize, end: usize, spans: &[Span]) {
        self.pause = self.next_pause;
        self.next_pause = self.next_pause.saturating_mul(2).saturating_add(1).min(PAUSE_MAX);
        // A likeness holds what is said beside the key. Of a limit, and where there is nothing, that is no secret.
        let is_open = spans.len() == 2 || entry.command.categories.contains(&"@ratelimit");
        if is_open
            && !entry.ends_batch
            && entry.run.is_some()
            && let Some(likeness) = Likeness::of(buffer, start, end, spans)
        {
            self.likeness = likeness;
            self.entry = Some(entry);
            self.plain = Plain::of(entry, Args::new(buffer, spans));
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
pub struct Batch {
    /// Where the arguments lie.
    pub spans: Vec<Span>,
    /// The commands, in order.
    pub items: Vec<Item>,
    /// How many those are, each call of a row counted.
    pub commands: usize,
    /// Room for the calls of all rows, and how many there are: a call that is put into a list is compared with its
    /// end, and moves it, each time.
    plain_calls: Box<[PlainCall; ROW_CALLS_MAX]>,
    plain_count: usize,
    owned: Vec<OwnedArgs>,
    refusals: Vec<String>,
    recent: Recent,
    habit: Habit,
    wide: Option<Wide>,
}

impl Default for Batch {
    /// Holds nothing.
    fn default() -> Batch {
        Batch {
            spans: Vec::new(),
            items: Vec::new(),
            commands: 0,
            plain_calls: Box::new([PlainCall::NONE; ROW_CALLS_MAX]),
            plain_count: 0,
            owned: Vec::new(),
            refusals: Vec::new(),
            recent: Recent::default(),
            habit: Habit::default(),
            wide: Wide::detect(),
        }
    }
}

impl Batch {
    /// Parses up to `commands_max` commands from `buffer[*start..]` and moves `start` behind them. Where `makes_rows`,
    /// plain calls become rows, of which nothing is known but what [`Batch::row`] gives.
    pub fn fill(
        &mut self,
        parser: &mut Parser,
        dispatcher: &Dispatcher,
        buffer: &[u8],
        start: &mut usize,
        commands_max: usize,
        makes_rows: bool,
    ) -> Stop {
        self.spans.clear();
        self.items.clear();
        self.commands = 0;
        self.plain_count = 0;
        self.owned.clear();
        self.refusals.clear();
        // Beyond, spans could not point into it; the parser says what is to be said about such a buffer.
        let is_bounded = u32::try_from(buffer.len()).is_ok_and(|bytes| bytes <= BUFFER_BYTES_MAX);
        while self.commands < commands_max {
            if is_bounded && self.habit.entry.is_some() && parser.takes_short() {
                let room = commands_max - self.commands;
                *start = match makes_rows && self.habit.plain.is_some() {
                    true => self.add_row(dispatcher, buffer, *start, room),
                    false => self.add_by_habit(dispatcher, buffer, *start, room),
                };
                if *start == buffer.len() {
                    return Stop::Incomplete(None);
                }
                if self.commands >= commands_max {
                    break;
                }
            }
            let (begin, first_span) = (*start, self.spans.len());
            match parser.step(buffer, *start, &mut self.spans) {
                Ok(Step::Command { end }) => {
                    *start = end;
                    if self.add(dispatcher, buffer, begin..end, first_span) {
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

    /// Adds a row of the plain calls that `buffer` goes on with from `start`, `room` at most, and gives the end of the
    /// last of them.
    fn add_row(&mut self, dispatcher: &Dispatcher, buffer: &[u8], start: usize, room: usize) -> usize {
        let first = self.plain_count;
        let likeness = &mut self.habit.likeness;
        let end = first.saturating_add(room).min(ROW_CALLS_MAX);
        let calls = self.plain_calls.get_mut(first..end).unwrap_or_default();
        let (end, count) = match self.wide {
            Some(wide) => wide.run(Recognise {
                likeness,
                calls,
                buffer,
                start,
                locate: |key: &[u8]| dispatcher.locate_wide(wide, key),
            }),
            None => Recognise { likeness, calls, buffer, start, locate: |key: &[u8]| dispatcher.locate(key) }.run(),
        };
        if count > 0 {
            self.plain_count += count;
            self.commands += count;
            self.items.push(Item::row(first..self.plain_count));
            self.habit.next_pause = 0;
        }
        end
    }

    /// Adds the commands of the habit that `buffer` goes on with from `start`, `room` at most; gives their end.
    #[inline(never)]
    fn add_by_habit(&mut self, dispatcher: &Dispatcher, buffer: &[u8], start: usize, room: usize) -> usize {
        let Batch { spans, items, habit, .. } = self;
        let (Some(entry), Ok(mut next)) = (habit.entry, u32::try_from(start)) else { return start };
        let items_before = items.len();
        for _ in 0..room {
            let first = spans.len();
            let Some(alike) = habit.likeness.recognise(buffer, next) else { break };
            habit.likeness.push_spans(alike, next, spans);
            next = alike.end;
            let (core, at) = dispatcher.locate(alike.key.of(buffer));
            items.push(Item::new(Ready { entry, way: Way::To(core), at }, first, spans.len()));
        }
        if items.len() > items_before {
            self.commands += items.len() - items_before;
            self.habit.next_pause = 0;
        }
        usize_of(next)
    }

    /// The row that an item is, at the time `now`; `buffer` is that of [`Batch::fill`].
    pub fn row<'a>(&'a self, buffer: &'a [u8], item: &Item, now: Micros) -> Option<Row<'a>> {
        let calls = self.plain_calls.get(usize_of(item.first)..usize_of(item.end))?;
        self.habit.plain.as_ref().filter(|_| item.is_row()).map(|plain| Row { plain, calls, buffer, now })
    }

    /// Adds the command whose arguments are the spans from `first` on. One that is like the last, for one key, goes in
    /// line. Answers whether the batch must end with it: AUTH changes the bounds of what follows, MULTI how it is run,
    /// CLIENT REPLY whether it is answered.
    #[inline(always)]
    fn add(&mut self, dispatcher: &Dispatcher, buffer: &[u8], place: Range<usize>, first: usize) -> bool {
        let spans = self.spans.get(first..).unwrap_or_default();
        let args = Args::new(buffer, spans);
        if let Some(entry) = args.get(0).and_then(|name| self.recent.recall(name))
            && let Some((core, at)) = dispatcher.place(entry, args)
        {
            // What the rows of this batch are must stay what it is.
            if self.plain_count == 0 {
                self.habit.broken_by(entry, buffer, place.start, place.end, spans);
            }
            let end = self.spans.len();
            self.items.push(Item::new(Ready { entry, way: Way::To(core), at }, first, end));
            self.commands += 1;
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
        self.commands += 1;
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
        self.commands += 1;
        ends
    }
}

/// Reads plain calls from `start` on, as many as there is room for; gives the end of the last of them, and how many
/// they are.
struct Recognise<'a, Locate> {
    likeness: &'a mut Likeness,
    calls: &'a mut [PlainCall],
    buffer: &'a [u8],
    start: usize,
    locate: Locate,
}

impl<Locate: Fn(&[u8]) -> (u16, Located)> Work for Recognise<'_, Locate> {
    type Output = (usize, usize);

    #[inline(always)]
    fn run(self) -> (usize, usize) {
        let Ok(mut next) = u32::try_from(self.start) else { return (self.start, 0) };
        let mut count = 0;
        for call in self.calls {
            let Some(alike) = self.likeness.recognise(self.buffer, next) else { break };
            next = alike.end;
            let (core, at) = (self.locate)(alike.key.of(self.buffer));
            *call = PlainCall { at, core, key: alike.key };
            count += 1;
        }
        (usize_of(next), count)
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
    use tollgate_limits::Policy;
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
                let stop = batch.fill(&mut parser, &dispatcher, buffer, &mut start, BATCH_COMMANDS_MAX, false);
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

    /// A call: the row of the table, the core, where the key lies, the policy of a plain call, and the key or all
    /// arguments.
    type Flat = (&'static str, Way, Located, Option<Policy>, Vec<Vec<u8>>);

    /// What a batch would run, call by call.
    fn flattened(batch: &Batch, buffer: &[u8]) -> Vec<Flat> {
        let mut calls: Vec<Flat> = Vec::new();
        for item in &batch.items {
            match (batch.row(buffer, item, 0), item.ready()) {
                (Some(row), None) => calls.extend(row.calls.iter().map(|call| {
                    let key = vec![call.key.of(buffer).to_vec()];
                    (row.plain.entry().command.name, Way::To(call.core), call.at, Some(*row.plain.policy()), key)
                })),
                (None, Some(ready)) => {
                    let args = batch.args(buffer, item);
                    let policy = Plain::of(ready.entry, args).map(|plain| *plain.policy());
                    let all = args.iter().map(<[u8]>::to_vec);
                    let arguments = if policy.is_some() { all.skip(1).take(1).collect() } else { all.collect() };
                    calls.push((ready.entry.command.name, ready.way, ready.at, policy, arguments));
                }
                (None, None) => calls.push(("refused", Way::Here, Located { slot: 0, hash: 0 }, None, Vec::new())),
                (Some(_), Some(_)) => panic!("a row is no command"),
            }
        }
        calls
    }

    /// Whatever the commands, and wherever the reads are cut: rows are the calls that would be run without them.
    #[test]
    fn rows_are_calls_like_any_others() {
        let plain = |number: usize| format!("RL.SLIDE {}{number} 100 60", "key:".repeat(number % 24));
        let others =
            ["PING", "RL.TOKEN a 5 1", "GET a", "RL.SLIDE a 5 60", "NO.SUCH a", "RL.SLIDE", "RL.SLIDE a 100 60"];
        let dispatcher = Dispatcher::new(Hasher::new([1, 2, 3, 4]), 4);
        for step in 1..12usize {
            let lines: Vec<String> = (0..300)
                .map(|number| match number % step {
                    0 => others[number / step % others.len()].to_owned(),
                    _ => plain(number),
                })
                .collect();
            let text: String = lines.iter().map(|line| on_the_wire(line)).collect();
            let buffer = text.as_bytes();
            let run = |makes_rows: bool, read_bytes: usize, commands_max: usize| {
                let (mut batch, mut parser) = (Batch::default(), Parser::new(RequestLimits::AUTHENTICATED));
                let (mut calls, mut rows, mut start) = (Vec::new(), 0, 0);
                batch.wide = batch.wide.filter(|_| step % 2 == 0);
                for end in (0..buffer.len()).step_by(read_bytes).skip(1).chain([buffer.len()]) {
                    loop {
                        let read = &buffer[..end];
                        let stop = batch.fill(&mut parser, &dispatcher, read, &mut start, commands_max, makes_rows);
                        let of_batch = flattened(&batch, read);
                        assert_eq!(of_batch.len(), batch.commands);
                        rows += batch.items.iter().filter(|item| item.is_row()).count();
                        calls.extend(of_batch);
                        if stop != Stop::Full {
                            break;
                        }
                    }
                }
                assert_eq!(start, buffer.len());
                (calls, rows)
            };
            let (expected, no_rows) = run(false, buffer.len(), BATCH_COMMANDS_MAX);
            assert_eq!((expected.len(), no_rows), (300, 0), "step {step}");
            for (read_bytes, commands_max) in [(buffer.len(), 64), (1_000, 64), (97, 5), (16_384, 1)] {
                let (calls, rows) = run(true, read_bytes, commands_max);
                assert_eq!(calls, expected, "step {step}, reads of {read_bytes} bytes");
                assert!(rows > 0 || step == 1, "step {step}");
            }
        }
    }
}
