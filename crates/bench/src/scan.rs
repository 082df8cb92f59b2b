//! Counts replies without keeping them.
//!
//! The client must never be slower than the server, so replies are not decoded into values: a small machine walks
//! the bytes once, knows where a reply ends, and remembers only what the report needs (errors, denials, replies of
//! another shape). It keeps its place between reads, allocates nothing, and does not recurse: how deep a reply is
//! nested only changes how many values are left before it ends.

use crate::errors::ErrorTexts;

/// An error text is kept up to this length.
const ERROR_BYTES_MAX: usize = 200;

/// A bulk reply, or the element count of an aggregate, larger than this is taken for a broken server.
const LENGTH_MAX: i64 = 512 << 20;

/// What was counted since it was last taken.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Whole replies, errors included.
    pub(crate) replies: u64,
    /// Error replies.
    pub(crate) errors: u64,
    /// Replies that deny the call.
    pub(crate) denied: u64,
    /// Replies that say whether the call was denied.
    pub(crate) telling: u64,
    /// Replies that are neither errors nor of the shape of the first reply.
    pub(crate) unexpected: u64,
    /// The first error's text.
    pub(crate) first_error: Option<String>,
    /// How often each error text came.
    pub(crate) error_texts: ErrorTexts,
    /// Errors that say that the server does not have the script.
    pub(crate) missing_scripts: u64,
    /// Calls that will never be answered; they are among the replies and errors.
    pub(crate) lost: u64,
}

impl Tally {
    /// Adds what another thread counted.
    pub(crate) fn add(&mut self, other: Tally) {
        self.replies = self.replies.saturating_add(other.replies);
        self.errors = self.errors.saturating_add(other.errors);
        self.denied = self.denied.saturating_add(other.denied);
        self.telling = self.telling.saturating_add(other.telling);
        self.unexpected = self.unexpected.saturating_add(other.unexpected);
        self.missing_scripts = self.missing_scripts.saturating_add(other.missing_scripts);
        self.lost = self.lost.saturating_add(other.lost);
        self.first_error = self.first_error.take().or(other.first_error);
        self.error_texts.merge(&other.error_texts);
    }

    /// Counts calls that will never be answered.
    pub(crate) fn add_lost(&mut self, calls: u64, text: &str) {
        self.replies = self.replies.saturating_add(calls);
        self.errors = self.errors.saturating_add(calls);
        self.lost = self.lost.saturating_add(calls);
        self.first_error.get_or_insert_with(|| text.to_owned());
        self.error_texts.add(text, calls);
    }
}

/// Who wants to know more of replies than their number. Where nobody does it is `()`, and nothing of it is left in the
/// machine code.
pub(crate) trait Sink {
    /// Whether integers are worth reading beyond the one that denies.
    const WANTS_INTEGERS: bool;
    /// An integer of the present reply, at any depth, in order.
    fn integer(&mut self, value: i64);
    /// The present reply is whole.
    fn end(&mut self, is_error: bool);
}

impl Sink for () {
    const WANTS_INTEGERS: bool = false;
    #[inline(always)]
    fn integer(&mut self, _value: i64) {}
    #[inline(always)]
    fn end(&mut self, _is_error: bool) {}
}

/// How a reply says that a call was denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Denial {
    /// Not at all: nothing is limited, or nobody knows how it is said.
    Never,
    /// The first element is 0: RL.*, THROTTLE, the scripts of workloads.
    FirstIsZero,
    /// The first element is 0, or the reply is a plain 0: what scripts of one's own answer.
    Script,
    /// The first element is 1: CL.THROTTLE and its alias.
    FirstIsOne,
    /// The second element is 0: INCREX, which answers the value and what was added.
    SecondIsZero,
}

impl Denial {
    /// The way of a command, by its name in upper case.
    pub(crate) fn of_command(name: &str) -> Denial {
        match name {
            "CL.THROTTLE" | "RL.THROTTLE" => Denial::FirstIsOne,
            "INCREX" => Denial::SecondIsZero,
            "RL.GET" | "RL.HELP" | "RL.TOP" | "RL.CLOCK" => Denial::Never,
            "THROTTLE" => Denial::FirstIsZero,
            "EVAL" | "EVALSHA" | "EVAL_RO" | "EVALSHA_RO" | "FCALL" | "FCALL_RO" => Denial::Script,
            _ if name.starts_with("RL.") => Denial::FirstIsZero,
            _ => Denial::Never,
        }
    }

    /// How many values of a reply of this kind have begun when the one that tells is there; an array itself is the
    /// first.
    #[inline]
    fn place(self, kind: u8) -> u64 {
        match (self, kind) {
            (Denial::FirstIsZero | Denial::FirstIsOne | Denial::Script, b'*') => 2,
            (Denial::SecondIsZero, b'*') => 3,
            (Denial::Script, b':') => 1,
            _ => u64::MAX,
        }
    }

    fn holds(self, value: i64) -> bool {
        match self {
            Denial::Never => false,
            Denial::FirstIsZero | Denial::SecondIsZero | Denial::Script => value == 0,
            Denial::FirstIsOne => value == 1,
        }
    }
}

/// The bytes were no RESP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ScanError {
    /// No reply starts with this byte.
    UnknownKind(u8),
    /// A length that is no number or is out of all bounds.
    BadLength,
}

/// One connection's place in the replies that arrive.
#[derive(Debug, Clone)]
pub(crate) struct Scanner {
    state: State,
    denial: Denial,
    /// Which value of the present reply tells whether the call was denied.
    denial_place: u64,
    /// Values that the reply still needs, those inside it included; 0 between replies.
    values_left: i64,
    /// Values of the reply that have begun.
    values_begun: u64,
    shape: Shape,
    /// Whether the present reply denies its call, as far as it says.
    denied: Option<bool>,
    error_text: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before the byte that says what a value is.
    Kind,
    /// In the digits of an integer or a length.
    Digits { kind: u8, value: i64, negative: bool },
    /// In a line whose content does not matter, unless it is the text of an error.
    Line { is_error: bool },
    /// In the body of a bulk; its end of line is included.
    Body { bytes_left: usize },
}

/// What a reply is from the outside: its kind and, for an aggregate, its number of elements.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    kind: u8,
    elements: i64,
}

/// The digits of an integer or a length, as far as they have come.
#[derive(Clone, Copy)]
struct Digits {
    value: i64,
    negative: bool,
}

/// Ten times this and a digit more is still a number; beyond it the largest number stands for all.
const VALUE_MAX: i64 = i64::MAX / 10 - 1;

impl Digits {
    /// Reads on from `byte`, and takes what belongs to the line off `rest`. Answers whether the line has ended.
    #[inline]
    fn read(mut self, mut byte: u8, rest: &mut &[u8]) -> Result<(Digits, bool), ScanError> {
        let mut left = *rest;
        let is_whole = loop {
            match byte {
                b'0'..=b'9' if self.value <= VALUE_MAX => {
                    // Small enough by the guard: the checks of overflow would cost more than all the rest.
                    self.value = self.value.wrapping_mul(10).wrapping_add(i64::from(byte & 0x0f));
                }
                b'0'..=b'9' => self.value = i64::MAX,
                b'-' => self.negative = true,
                b'\r' => {}
                b'\n' => break true,
                _ => return Err(ScanError::BadLength),
            }
            let Some((&next, after)) = left.split_first() else { break false };
            (byte, left) = (next, after);
        };
        *rest = left;
        Ok((self, is_whole))
    }

    fn signed(self) -> i64 {
        if self.negative { -self.value } else { self.value }
    }
}

impl Scanner {
    /// A scanner at the start of a reply.
    pub(crate) fn new(denial: Denial) -> Scanner {
        Scanner {
            state: State::Kind,
            denial,
            denial_place: u64::MAX,
            values_left: 0,
            values_begun: 0,
            shape: Shape::default(),
            denied: None,
            error_text: Vec::with_capacity(ERROR_BYTES_MAX),
        }
    }

    /// The text of the last reply, if it was an error.
    pub(crate) fn last_error(&self) -> Option<String> {
        let is_whole = self.values_left == 0 && !self.error_text.is_empty();
        is_whole.then(|| String::from_utf8_lossy(&self.error_text).into_owned())
    }

    /// Forgets a reply that will not be finished.
    pub(crate) fn restart(&mut self) {
        self.state = State::Kind;
        self.values_left = 0;
        self.error_text.clear();
    }

    /// Walks bytes as they came from the socket and counts what ends in them. The first reply that is no error
    /// sets `expected`, which all later ones are held against.
    pub(crate) fn feed<S: Sink>(
        &mut self,
        bytes: &[u8],
        expected: &mut Option<Shape>,
        tally: &mut Tally,
        sink: &mut S,
    ) -> Result<(), ScanError> {
        let mut rest = bytes;
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            match self.state {
                State::Kind => self.begin_value::<S>(byte)?,
                State::Digits { kind, value, negative } => {
                    let digits = Digits { value, negative };
                    match digits.read(byte, &mut rest)? {
                        (whole, true) => self.end_digits(kind, whole.signed(), expected, tally, sink)?,
                        (Digits { value, negative }, false) => self.state = State::Digits { kind, value, negative },
                    }
                }
                State::Line { is_error: false } => {
                    // A line that does not matter: what matters is where it ends.
                    if byte == b'\n' {
                        self.end_value(expected, tally, sink);
                    } else if let Some(end) = rest.iter().position(|other| *other == b'\n') {
                        rest = rest.get(end.saturating_add(1)..).unwrap_or_default();
                        self.end_value(expected, tally, sink);
                    } else {
                        rest = &[];
                    }
                }
                State::Line { is_error: true } => {
                    if byte == b'\n' {
                        self.end_value(expected, tally, sink);
                    } else if byte != b'\r' && self.error_text.len() < ERROR_BYTES_MAX {
                        self.error_text.push(byte);
                    }
                }
                State::Body { bytes_left } => {
                    // The byte just taken is the body's first.
                    let more = rest.len().min(bytes_left.saturating_sub(1));
                    rest = rest.get(more..).unwrap_or_default();
                    match bytes_left.saturating_sub(more).saturating_sub(1) {
                        0 => self.end_value(expected, tally, sink),
                        bytes_left => self.state = State::Body { bytes_left },
                    }
                }
            }
        }
        Ok(())
    }

    fn begin_value<S: Sink>(&mut self, kind: u8) -> Result<(), ScanError> {
        if self.values_left == 0 {
            self.values_left = 1;
            self.values_begun = 0;
            self.denied = None;
            self.denial_place = self.denial.place(kind);
            self.shape = Shape { kind, elements: 0 };
            self.error_text.clear();
        }
        self.values_begun = self.values_begun.saturating_add(1);
        self.state = match kind {
            // An integer that nobody reads is a line.
            b':' if !S::WANTS_INTEGERS && self.values_begun != self.denial_place => State::Line { is_error: false },
            b':' | b'*' | b'$' | b'~' | b'%' | b'=' | b'!' => State::Digits { kind, value: 0, negative: false },
            b'-' => State::Line { is_error: self.values_begun == 1 },
            b'+' | b'_' | b',' | b'#' | b'(' => State::Line { is_error: false },
            other => return Err(ScanError::UnknownKind(other)),
        };
        Ok(())
    }

    fn end_digits<S: Sink>(
        &mut self,
        kind: u8,
        value: i64,
        expected: &mut Option<Shape>,
        tally: &mut Tally,
        sink: &mut S,
    ) -> Result<(), ScanError> {
        if kind == b':' {
            if self.values_begun == self.denial_place {
                self.denied = Some(self.denial.holds(value));
            }
            sink.integer(value);
            self.end_value(expected, tally, sink);
            return Ok(());
        }
        if value > LENGTH_MAX {
            return Err(ScanError::BadLength);
        }
        match kind {
            // A negative length is the null of RESP2.
            _ if value < 0 => self.end_value(expected, tally, sink),
            b'$' | b'=' | b'!' => {
                let body_bytes = usize::try_from(value).map_err(|_| ScanError::BadLength)?;
                self.state = State::Body { bytes_left: body_bytes.saturating_add(2) };
            }
            _ => {
                if self.values_begun == 1 {
                    self.shape.elements = value;
                }
                let inside = if kind == b'%' { value.saturating_mul(2) } else { value };
                self.values_left = self.values_left.saturating_add(inside);
                self.end_value(expected, tally, sink);
            }
        }
        Ok(())
    }

    fn end_value<S: Sink>(&mut self, expected: &mut Option<Shape>, tally: &mut Tally, sink: &mut S) {
        self.state = State::Kind;
        self.values_left = self.values_left.saturating_sub(1);
        if self.values_left > 0 {
            return;
        }
        tally.replies = tally.replies.saturating_add(1);
        let is_error = matches!(self.shape.kind, b'-' | b'!');
        sink.end(is_error);
        if is_error {
            tally.errors = tally.errors.saturating_add(1);
            tally.error_texts.count(&self.error_text);
            if self.error_text.starts_with(b"NOSCRIPT") {
                tally.missing_scripts = tally.missing_scripts.saturating_add(1);
            }
            if tally.first_error.is_none() {
                tally.first_error = Some(String::from_utf8_lossy(&self.error_text).into_owned());
            }
            return;
        }
        if *expected.get_or_insert(self.shape) != self.shape {
            tally.unexpected = tally.unexpected.saturating_add(1);
        }
        if let Some(denied) = self.denied {
            tally.telling = tally.telling.saturating_add(1);
            tally.denied = tally.denied.saturating_add(u64::from(denied));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds the text split at every place, which must make no difference, and returns what was counted.
    fn counted(denial: Denial, text: &str) -> Result<Tally, ScanError> {
        let bytes = text.as_bytes();
        let mut results = Vec::new();
        for split in 0..=bytes.len() {
            let (first, second) = bytes.split_at(split);
            let (mut scanner, mut expected, mut tally) = (Scanner::new(denial), None, Tally::default());
            let fed = scanner
                .feed(first, &mut expected, &mut tally, &mut ())
                .and_then(|()| scanner.feed(second, &mut expected, &mut tally, &mut ()));
            results.push(fed.map(|()| tally));
        }
        let (last, others) = results.split_last().unwrap();
        assert!(others.iter().all(|other| other == last), "{text:?} depends on where it is split");
        last.clone()
    }

    fn check(text: &str, replies: u64, errors: u64, denied: u64, unexpected: u64) {
        let tally = counted(Denial::FirstIsZero, text).unwrap();
        let counts = (tally.replies, tally.errors, tally.denied, tally.unexpected);
        assert_eq!(counts, (replies, errors, denied, unexpected), "{text:?}");
    }

    #[test]
    fn replies_are_counted_wherever_they_are_split() {
        check("", 0, 0, 0, 0);
        check(":1\r\n:0\r\n:-5\r\n", 3, 0, 0, 0);
        check("+OK\r\n+PONG\r\n", 2, 0, 0, 0);
        check("*5\r\n:1\r\n:100\r\n:99\r\n:0\r\n:60000\r\n", 1, 0, 0, 0);
        check("*5\r\n:0\r\n:100\r\n:0\r\n:2\r\n:1\r\n*5\r\n:1\r\n:0\r\n:0\r\n:0\r\n:0\r\n", 2, 0, 1, 0);
        check("*2\r\n:1\r\n", 0, 0, 0, 0);
        check("$5\r\na\r\nbc\r\n$0\r\n\r\n$-1\r\n", 3, 0, 0, 0);
        check("*-1\r\n*0\r\n_\r\n#t\r\n,1.5\r\n(12345678901234567890\r\n", 6, 0, 0, 4);
        check("*3\r\n:1\r\n*2\r\n:1\r\n*0\r\n*1\r\n$3\r\na\nb\r\n:7\r\n", 2, 0, 0, 1);
        check("%2\r\n+a\r\n:1\r\n+b\r\n~2\r\n:1\r\n:2\r\n", 1, 0, 0, 0);
        check("-ERR one\r\n:1\r\n-ERR two\r\n", 3, 2, 0, 0);
        check(":1\r\n+OK\r\n*1\r\n:0\r\n", 3, 0, 1, 2);
        check("*1\r\n:1\r\n*2\r\n:1\r\n:1\r\n", 2, 0, 0, 1);
        check("*2\r\n-ERR inside\r\n:1\r\n", 1, 0, 0, 0);
        check(":99999999999999999999999\r\n", 1, 0, 0, 0);
    }

    #[test]
    fn the_first_error_is_kept() {
        let tally = counted(Denial::Never, "-NOAUTH first\r\n-ERR second\r\n").unwrap();
        assert_eq!(tally.first_error.as_deref(), Some("NOAUTH first"));
        let long = format!("-{}\r\n", "x".repeat(1_000));
        assert_eq!(counted(Denial::Never, &long).unwrap().first_error.unwrap().len(), ERROR_BYTES_MAX);
    }

    /// Keeps what it is told, an end as none.
    #[derive(Default)]
    struct Told(Vec<Option<i64>>);

    impl Sink for Told {
        const WANTS_INTEGERS: bool = true;
        fn integer(&mut self, value: i64) {
            self.0.push(Some(value));
        }
        fn end(&mut self, _is_error: bool) {
            self.0.push(None);
        }
    }

    #[test]
    fn a_sink_is_told_the_integers_of_each_reply() {
        let (mut scanner, mut told) = (Scanner::new(Denial::FirstIsZero), Told::default());
        let text = b"*3\r\n:1\r\n*1\r\n:-7\r\n:2\r\n-NOSCRIPT no\r\n:9\r\n";
        let (mut expected, mut tally) = (None, Tally::default());
        scanner.feed(text, &mut expected, &mut tally, &mut told).unwrap();
        assert_eq!(told.0, [Some(1), Some(-7), Some(2), None, None, Some(9), None]);
        assert_eq!(tally.missing_scripts, 1);
    }

    #[test]
    fn what_is_no_reply_is_told() {
        assert_eq!(counted(Denial::Never, "HTTP/1.1 400\r\n"), Err(ScanError::UnknownKind(b'H')));
        assert_eq!(counted(Denial::Never, "*x\r\n"), Err(ScanError::BadLength));
        assert_eq!(counted(Denial::Never, "*99999999999\r\n"), Err(ScanError::BadLength));
        assert_eq!(counted(Denial::Never, "$99999999999999999999999\r\n"), Err(ScanError::BadLength));
    }

    #[test]
    fn denial_goes_by_the_command() {
        let cases = [
            ("RL.SLIDE", Denial::FirstIsZero),
            ("RL.ALL", Denial::FirstIsZero),
            ("EVALSHA", Denial::Script),
            ("FCALL", Denial::Script),
            ("CL.THROTTLE", Denial::FirstIsOne),
            ("RL.THROTTLE", Denial::FirstIsOne),
            ("RL.GET", Denial::Never),
            ("INCR", Denial::Never),
            ("INCREX", Denial::SecondIsZero),
        ];
        for (name, denial) in cases {
            assert_eq!(Denial::of_command(name), denial, "{name}");
        }
        let limited = "*5\r\n:1\r\n:100\r\n:0\r\n:5\r\n:9\r\n";
        assert_eq!(counted(Denial::FirstIsOne, limited).unwrap().denied, 1);
        assert_eq!(counted(Denial::Never, limited).unwrap().denied, 0);
        // Only arrays of the commands with fields tell; a plain integer is not theirs.
        let mixed = "*2\r\n:0\r\n:9\r\n*2\r\n:1\r\n:0\r\n:0\r\n:1\r\n$1\r\n0\r\n*1\r\n*1\r\n:0\r\n-ERR 0\r\n";
        for (denial, denied, telling) in [(Denial::Script, 2, 4), (Denial::FirstIsZero, 1, 2), (Denial::Never, 0, 0)] {
            let tally = counted(denial, mixed).unwrap();
            assert_eq!((tally.denied, tally.telling), (denied, telling), "{denial:?}");
        }
        let counters = "*2\r\n:0\r\n:1\r\n*2\r\n:5\r\n:0\r\n";
        assert_eq!(counted(Denial::SecondIsZero, counters).unwrap().denied, 1);
    }
}
