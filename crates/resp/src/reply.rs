//! The reply writer: pushes onto a byte vector, in the client's protocol.
//!
//! A writer has no state but where it writes: whoever writes an array's header owes that many replies. The hot reply
//! is five integers, so integers are written by hand and without an allocation once the vector is warm.

use std::io::Write;

use crate::decimal::{push_admitted, push_five, push_line};

/// The most bytes of the text of an error or a status. The longest of Redis's own is below 300.
const LINE_TEXT_BYTES_MAX: usize = 1024;

/// Which protocol a connection speaks: 2 until its client says `HELLO 3`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// RESP2: strings, errors, integers, bulks, arrays.
    Resp2,
    /// RESP3: the same and maps, sets, doubles, booleans, null, pushes.
    Resp3,
}

/// Appends replies to a byte vector. What RESP2 has no type for is written as the type that Redis uses instead.
#[derive(Debug)]
pub struct Reply<'a> {
    out: &'a mut Vec<u8>,
    protocol: Protocol,
    /// Where the text of the last error begins; 0, where none can begin, before the first.
    error_at: usize,
}

impl<'a> Reply<'a> {
    /// A writer that appends to `out`.
    #[inline(always)]
    pub fn new(out: &'a mut Vec<u8>, protocol: Protocol) -> Reply<'a> {
        Reply { out, protocol, error_at: 0 }
    }

    /// The protocol that is written.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Changes the protocol of what is written from here on: HELLO answers in the one that it chose.
    pub fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    /// A status such as `OK`. Control characters become spaces and the length is bounded, as in an error.
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text);
    }

    /// An error; `text` is the whole of it with its code (`ERR no such key`). Control characters become spaces, so
    /// that nothing a client sent can start a line of its own, and what lies beyond 1 KiB is cut off.
    pub fn error(&mut self, text: &str) {
        self.error_at = self.out.len() + 1;
        self.line(b'-', text);
    }

    /// Whether an error was written.
    #[inline(always)]
    pub fn has_error(&self) -> bool {
        self.error_at > 0
    }

    /// The code of the last error that was written, such as `ERR`. Empty if there is none.
    pub fn error_code(&self) -> &[u8] {
        let text = self.out.get(self.error_at..).filter(|_| self.has_error()).unwrap_or_default();
        text.split(|byte| matches!(byte, b' ' | b'\r')).next().unwrap_or_default()
    }

    /// An integer.
    pub fn integer(&mut self, value: i64) {
        self.header(b':', value);
    }

    /// An array of five integers, the reply of every limit.
    pub fn five(&mut self, values: [i64; 5]) {
        push_five(self.out, values);
    }

    /// The five integers of a call that was admitted at once: `1, limit, remaining, 0, reset_ms`.
    #[inline]
    pub fn admitted(&mut self, limit: u64, remaining: u64, reset_ms: u64) {
        push_admitted(self.out, [limit, remaining, reset_ms]);
    }

    /// A string of any bytes.
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.length(b'$', bytes.len());
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    /// A string of text.
    pub fn bulk_str(&mut self, text: &str) {
        self.bulk(text.as_bytes());
    }

    /// Text for a person, which `redis-cli` prints as it is: a verbatim string of format `txt`; in RESP2 a bulk.
    pub fn verbatim_txt(&mut self, text: &str) {
        if self.protocol == Protocol::Resp2 {
            return self.bulk_str(text);
        }
        self.length(b'=', text.len() + 4);
        self.out.extend_from_slice(b"txt:");
        self.out.extend_from_slice(text.as_bytes());
        self.out.extend_from_slice(b"\r\n");
    }

    /// No value.
    pub fn null(&mut self) {
        self.choose(b"$-1\r\n", b"_\r\n");
    }

    /// No array, where RESP2 tells it from no value (an aborted EXEC).
    pub fn null_array(&mut self) {
        self.choose(b"*-1\r\n", b"_\r\n");
    }

    /// The start of an array; its `len` elements follow.
    pub fn array(&mut self, len: usize) {
        self.length(b'*', len);
    }

    /// The start of a map; its `len` pairs follow, key and value in turn. In RESP2 an array of twice the length.
    pub fn map(&mut self, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.length(b'*', len.saturating_mul(2)),
            Protocol::Resp3 => self.length(b'%', len),
        }
    }

    /// The start of a set; its `len` members follow. In RESP2 an array.
    pub fn set(&mut self, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.length(b'*', len),
            Protocol::Resp3 => self.length(b'~', len),
        }
    }

    /// The start of an out-of-band message; its `len` elements follow. In RESP2 an array.
    pub fn push(&mut self, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.length(b'*', len),
            Protocol::Resp3 => self.length(b'>', len),
        }
    }

    /// A floating point number, in the shortest decimal form that reads back as the same number. In RESP2 a bulk.
    pub fn double(&mut self, value: f64) {
        let text = double_text(value);
        match self.protocol {
            Protocol::Resp2 => self.bulk_str(&text),
            Protocol::Resp3 => self.line(b',', &text),
        }
    }

    /// A truth value. In RESP2 the integer 1 or 0.
    pub fn boolean(&mut self, value: bool) {
        match value {
            true => self.choose(b":1\r\n", b"#t\r\n"),
            false => self.choose(b":0\r\n", b"#f\r\n"),
        }
    }

    /// Bytes that are a reply, or whole replies, already.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    fn choose(&mut self, resp2: &[u8], resp3: &[u8]) {
        self.out.extend_from_slice(match self.protocol {
            Protocol::Resp2 => resp2,
            Protocol::Resp3 => resp3,
        });
    }

    /// Lengths are of things in memory, so they fit in 63 bits.
    fn length(&mut self, kind: u8, len: usize) {
        self.header(kind, i64::try_from(len).unwrap_or(i64::MAX));
    }

    #[inline]
    fn header(&mut self, kind: u8, value: i64) {
        push_line(self.out, kind, value);
    }

    fn line(&mut self, kind: u8, text: &str) {
        self.out.push(kind);
        let text = text.get(..text.floor_char_boundary(LINE_TEXT_BYTES_MAX)).unwrap_or(text);
        if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            self.out.extend_from_slice(text.as_bytes());
        } else {
            self.cleaned(text);
        }
        self.out.extend_from_slice(b"\r\n");
    }

    #[cold]
    fn cleaned(&mut self, text: &str) {
        let mut encoded = [0; 4];
        for character in text.chars() {
            let safe = if character.is_control() { ' ' } else { character };
            self.out.extend_from_slice(safe.encode_utf8(&mut encoded).as_bytes());
        }
    }
}

/// A double as Redis spells it: plain decimals for everyday sizes, an exponent beyond them, `inf`, `-inf` and `nan`.
fn double_text(value: f64) -> String {
    let size = value.abs();
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() || size == 0.0 || (1e-5..1e17).contains(&size) {
        return value.to_string();
    }
    // The standard library writes `1e300`; Redis and C write a sign there too.
    let mut text = Vec::new();
    let _infallible = write!(text, "{value:e}");
    let text = String::from_utf8(text).unwrap_or_default();
    if text.contains("e-") { text } else { text.replace('e', "e+") }
}
