//! The request parser: one command at a time, from a buffer that it never owns.
//!
//! A socket delivers commands cut anywhere. Parsing again from the command's start after each read would be quadratic
//! for a client that sends byte by byte, and buffering by declared lengths would let a client reserve memory with a
//! few digits. So the parser works on whatever is there and keeps its progress, counted from the command's start:
//! the next byte to look at, how many arguments are missing, and the spans already found.
//!
//! ```text
//!            *3 \r\n $8 \r\n RL.SLIDE \r\n $5 \r\n user
//!            ^ start         [span 0]              ^ position   remaining 2, bulk 5
//! ```
//!
//! A command that is wholly in the buffer, the usual case, never touches that progress: its spans go straight to the
//! caller. The progress is written only when the bytes run out.

use crate::error::ProtocolError;
use crate::header::{Header, read_count, read_length};
use crate::inline;
use crate::limits::RequestLimits;
use crate::shape::Shape;
use crate::short::{BUFFER_BYTES_MAX, read_short_command};
use crate::span::{OwnedArgs, Span};

/// The bytes after each argument.
const LINE_END: &[u8] = b"\r\n";

/// How many spans the parser keeps room for between commands. One command cut in two with many arguments must not
/// leave its memory with an idle connection for ever.
const PENDING_KEPT: usize = 32;

/// What one call of [`Parser::step`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// One whole command; its arguments were appended to the caller's spans. There may be none at all (`*0`, `*-1`,
    /// an empty line): such a command is skipped without an answer.
    Command {
        /// The first byte after the command.
        end: usize,
    },
    /// One whole inline command that was written with quotes. Nothing was appended to the caller's spans.
    Inline {
        /// The first byte after the command.
        end: usize,
        /// What the quoted words mean.
        arguments: OwnedArgs,
    },
    /// More bytes are needed.
    Incomplete {
        /// The command's name, once it is there and more arguments are to come. A caller that refuses the command
        /// by its name calls [`Parser::discard`] instead of buffering the rest.
        name: Option<Span>,
    },
    /// A part of a command that is being thrown away. Everything before `end` may be dropped, and the next call starts
    /// at `end`.
    Discarded {
        /// The first byte that is still needed.
        end: usize,
        /// Whether the command is over; if not, and nothing follows in the buffer, more bytes are needed.
        done: bool,
    },
}

/// Reads commands from a buffer and remembers how far it came in an unfinished one.
#[derive(Debug)]
pub struct Parser {
    limits: RequestLimits,
    /// Whether no short command can be above a bound, and so none need be compared with them.
    short_allowed: bool,
    /// That of a short command that was accepted under these bounds.
    shape: Shape,
    stage: Stage,
    /// The arguments found so far of an unfinished command, counted from the command's start.
    pending: Vec<Span>,
}

/// Where in a command the parser stands.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Before its first byte.
    Between,
    /// In the header that says how many arguments there are.
    Count,
    /// In its arguments.
    Arguments(Progress),
    /// In the arguments of a command that is thrown away; `dropped` bytes of it are already gone.
    Discarding { progress: Progress, dropped: usize },
    /// In a line of words of which `scanned` bytes hold no line end.
    Line { scanned: usize },
}

/// How far a command's arguments have been read.
#[derive(Clone, Copy, Debug)]
struct Progress {
    /// The next byte to look at, counted from the command's start.
    position: usize,
    /// How many arguments are not complete.
    remaining: usize,
    /// The length of the argument whose header is read but whose bytes are not all there.
    bulk: Option<usize>,
}

impl Parser {
    /// A parser that stands between commands.
    pub fn new(limits: RequestLimits) -> Parser {
        let short_allowed = limits.allow_short_commands();
        Parser { limits, short_allowed, shape: Shape::NONE, stage: Stage::Between, pending: Vec::new() }
    }

    /// Changes the bounds, from the next header on. A connection that authenticates calls this before it reads the
    /// next command.
    pub fn set_limits(&mut self, limits: RequestLimits) {
        self.limits = limits;
        self.short_allowed = limits.allow_short_commands();
        self.shape = Shape::NONE;
    }

    /// Reads one command from `buffer[start..]`.
    ///
    /// After [`Step::Command`] the command's arguments have been appended to `spans`, as places in `buffer`.
    /// Between a [`Step::Incomplete`] and the next call the caller may append to the buffer and may move the
    /// unfinished bytes (`start` is then another), but `buffer[start..]` must still begin with the same bytes. No
    /// byte is looked at more than twice, however many calls it takes.
    ///
    /// # Errors
    ///
    /// A [`ProtocolError`] where the bytes break the protocol or a bound. `spans` is then as it was, and the
    /// connection should be closed.
    #[inline]
    pub fn step(&mut self, buffer: &[u8], start: usize, spans: &mut Vec<Span>) -> Result<Step, ProtocolError> {
        if !u32::try_from(buffer.len()).is_ok_and(|length| length <= BUFFER_BYTES_MAX) {
            // Spans could not point there. No bound comes near it, so such a buffer is one that nobody bounded.
            return Err(ProtocolError::TooBigCommand);
        }
        if let Stage::Between = self.stage {
            if let Some(window) = buffer.get(start..).and_then(<[u8]>::first_chunk)
                && let Some(end) = self.shape.recognise(window, start, spans)
            {
                return Ok(Step::Command { end });
            }
            if let Some(end) = self.step_short(buffer, start, spans) {
                return Ok(Step::Command { end });
            }
        }
        self.step_carefully(buffer, start, spans)
    }

    /// After [`Step::Incomplete`] with a name: the rest of this command is to be thrown away unbuffered. The following
    /// calls of [`Parser::step`] answer [`Step::Discarded`] until it is over, the first of them still from the
    /// command's start. Bounds and form are checked as before. Elsewhere than in a command's arguments this does
    /// nothing.
    pub fn discard(&mut self) {
        if let Stage::Arguments(progress) = self.stage {
            self.stage = Stage::Discarding { progress, dropped: 0 };
            self.release_pending();
        }
    }

    /// Whether a command has begun and is not over: its remaining bytes are due.
    pub fn is_mid_command(&self) -> bool {
        !matches!(self.stage, Stage::Between)
    }

    /// Whether it stands between commands, under bounds that no short command can break: then whoever recognises a
    /// short command by other means may pass over it.
    #[inline(always)]
    pub fn takes_short(&self) -> bool {
        self.short_allowed && matches!(self.stage, Stage::Between)
    }

    /// How many bytes of memory the parser holds beyond its own size. At most about three bytes for each byte of the
    /// unfinished command that has arrived, whatever that command declares; next to nothing between commands.
    pub fn memory_bytes(&self) -> usize {
        self.pending.capacity().saturating_mul(size_of::<Span>())
    }

    /// Reads a short command of a shape that was not recognised.
    #[inline(never)]
    fn step_short(&mut self, buffer: &[u8], start: usize, spans: &mut Vec<Span>) -> Option<usize> {
        if !self.short_allowed {
            return None;
        }
        let spans_before = spans.len();
        let end = read_short_command(buffer, start, spans)?;
        if let Some(window) = buffer.get(start..)?.first_chunk() {
            self.shape.note(window, start, end.saturating_sub(start), spans.get(spans_before..)?);
        }
        Some(end)
    }

    /// The definition of what a command means: everything that is not short, whole and plain.
    #[inline(never)]
    fn step_carefully(&mut self, buffer: &[u8], start: usize, spans: &mut Vec<Span>) -> Result<Step, ProtocolError> {
        let bytes = buffer.get(start..).unwrap_or_default();
        match self.stage {
            Stage::Between => self.begin(bytes, start, spans),
            _ => self.resume(bytes, start, spans),
        }
    }

    fn begin(&mut self, bytes: &[u8], start: usize, spans: &mut Vec<Span>) -> Result<Step, ProtocolError> {
        match bytes.first() {
            Some(b'*') => {}
            Some(_) => return self.read_line(bytes, start, 0, spans),
            None => return Ok(Step::Incomplete { name: None }),
        }
        let Header::Whole { number: remaining, bytes: position } = read_count(bytes, &self.limits)? else {
            self.stage = Stage::Count;
            return Ok(Step::Incomplete { name: None });
        };
        let mut progress = Progress { position, remaining, bulk: None };
        let spans_before = spans.len();
        match read_arguments(bytes, start, &mut progress, &self.limits, spans) {
            Ok(true) => Ok(Step::Command { end: start + progress.position }),
            Ok(false) => {
                self.pending.extend(spans.drain(spans_before..).map(|span| span.moved_down(start)));
                Ok(self.pause(progress, start))
            }
            Err(error) => {
                spans.truncate(spans_before);
                Err(error)
            }
        }
    }

    fn resume(&mut self, bytes: &[u8], start: usize, spans: &mut Vec<Span>) -> Result<Step, ProtocolError> {
        match std::mem::replace(&mut self.stage, Stage::Between) {
            Stage::Between | Stage::Count => self.begin(bytes, start, spans),
            Stage::Line { scanned } => self.read_line(bytes, start, scanned, spans),
            Stage::Discarding { progress, dropped } => self.read_discarded(bytes, start, progress, dropped),
            Stage::Arguments(mut progress) => {
                let whole = read_arguments(bytes, 0, &mut progress, &self.limits, &mut self.pending);
                if whole == Ok(false) {
                    return Ok(self.pause(progress, start));
                }
                let spans_found = self.pending.iter().map(|span| span.moved_up(start));
                let step = whole.map(|_| {
                    spans.extend(spans_found);
                    Step::Command { end: start + progress.position }
                });
                self.release_pending();
                step
            }
        }
    }

    /// Keeps `progress` for the next call.
    fn pause(&mut self, progress: Progress, start: usize) -> Step {
        self.stage = Stage::Arguments(progress);
        Step::Incomplete { name: self.pending.first().map(|span| span.moved_up(start)) }
    }

    fn release_pending(&mut self) {
        self.pending.clear();
        self.pending.shrink_to(PENDING_KEPT);
    }

    /// Reads an inline command whose first `scanned` bytes are known to hold no line end.
    fn read_line(
        &mut self,
        bytes: &[u8],
        start: usize,
        scanned: usize,
        spans: &mut Vec<Span>,
    ) -> Result<Step, ProtocolError> {
        // The line may be as long as its bound, a carriage return included, and the line feed needs one byte more.
        let bytes_max = self.limits.inline_bytes_max.saturating_add(1);
        let line_and_end = bytes.get(..bytes_max).unwrap_or(bytes);
        let unscanned = line_and_end.get(scanned..).unwrap_or_default();
        let Some(newline) = unscanned.iter().position(|&byte| byte == b'\n') else {
            if line_and_end.len() == bytes_max {
                return Err(ProtocolError::TooBigInline);
            }
            self.stage = Stage::Line { scanned: line_and_end.len() };
            return Ok(Step::Incomplete { name: None });
        };
        let newline = scanned + newline;
        let line = bytes.get(..newline).unwrap_or_default();
        let end = start + newline + 1;
        let spans_before = spans.len();
        match inline::split(line, start, &self.limits, spans) {
            Ok(None) => Ok(Step::Command { end }),
            Ok(Some(arguments)) => Ok(Step::Inline { end, arguments }),
            Err(error) => {
                spans.truncate(spans_before);
                Err(error)
            }
        }
    }

    /// Reads on in a command of which nothing is kept. Only an unfinished header stays in the buffer.
    fn read_discarded(
        &mut self,
        bytes: &[u8],
        start: usize,
        mut progress: Progress,
        dropped: usize,
    ) -> Result<Step, ProtocolError> {
        let done = skip_arguments(bytes, dropped, &mut progress, &self.limits)?;
        // A caller that broke the contract by shortening the buffer must not be told to drop what it does not have.
        let read = progress.position.min(bytes.len());
        if !done {
            let dropped = dropped.saturating_add(read);
            self.stage = Stage::Discarding { progress: Progress { position: 0, ..progress }, dropped };
        }
        Ok(Step::Discarded { end: start + read, done })
    }
}

/// Reads arguments until the command is whole (`true`) or the bytes run out (`false`), appending a span for each,
/// counted from `origin` at the command's start.
#[inline]
fn read_arguments(
    bytes: &[u8],
    origin: usize,
    progress: &mut Progress,
    limits: &RequestLimits,
    spans: &mut Vec<Span>,
) -> Result<bool, ProtocolError> {
    let Progress { mut position, mut remaining, mut bulk } = *progress;
    while remaining > 0 {
        let length = match bulk.take() {
            Some(length) => length,
            None => match read_length(bytes.get(position..).unwrap_or_default(), limits)? {
                Header::Whole { number, bytes: header } => {
                    position += header;
                    check_command_bytes(position, number, limits)?;
                    number
                }
                Header::Incomplete => break,
            },
        };
        let end = position + length;
        match bytes.get(end..end + LINE_END.len()) {
            Some(LINE_END) => {}
            Some(_) => return Err(ProtocolError::ExpectedLineEnd),
            None => {
                bulk = Some(length);
                break;
            }
        }
        spans.push(Span::new(origin + position, origin + end));
        position = end + LINE_END.len();
        remaining -= 1;
    }
    *progress = Progress { position, remaining, bulk };
    Ok(remaining == 0)
}

/// Passes over arguments until the command is over (`true`) or the bytes run out (`false`). `progress` moves on within
/// an argument too, so that its bytes need not be there at the same time.
fn skip_arguments(
    bytes: &[u8],
    dropped: usize,
    progress: &mut Progress,
    limits: &RequestLimits,
) -> Result<bool, ProtocolError> {
    while progress.remaining > 0 {
        let rest = bytes.get(progress.position..).unwrap_or_default();
        let Some(length) = progress.bulk else {
            let Header::Whole { number, bytes: header } = read_length(rest, limits)? else { return Ok(false) };
            progress.position += header;
            progress.bulk = Some(number);
            check_command_bytes(dropped.saturating_add(progress.position), number, limits)?;
            continue;
        };
        let Some(after) = rest.get(length..) else {
            progress.position += rest.len();
            progress.bulk = Some(length - rest.len());
            return Ok(false);
        };
        progress.position += length;
        progress.bulk = Some(0);
        match after.get(..LINE_END.len()) {
            Some(LINE_END) => {}
            Some(_) => return Err(ProtocolError::ExpectedLineEnd),
            None => return Ok(false),
        }
        progress.position += LINE_END.len();
        progress.bulk = None;
        progress.remaining -= 1;
    }
    Ok(true)
}

/// Refuses a command that would pass its bound with an argument of `length` bytes starting at `position`.
#[inline]
fn check_command_bytes(position: usize, length: usize, limits: &RequestLimits) -> Result<(), ProtocolError> {
    let end = position.saturating_add(length).saturating_add(LINE_END.len());
    if end > limits.command_bytes_max { Err(ProtocolError::TooBigCommand) } else { Ok(()) }
}
