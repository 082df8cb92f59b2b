//! Inline commands: a line of words, for people at a terminal with `nc`.
//!
//! Words without quotes are spans of the buffer, like any argument. A line with quotes says something other than its
//! bytes do (`"a\x20b"` means `a b`), and a span cannot say that, so such a line is copied, bounded by the line's own
//! length. Quoting is a convenience for people, and a copy at typing speed costs nothing.

use crate::error::ProtocolError;
use crate::limits::RequestLimits;
use crate::span::{OwnedArgs, Span};

/// Splits one line, its line end removed, into words. Words without quotes are appended to `spans`, counted from
/// `origin` at the start of the line; a line with quotes gives its words in a buffer of their own.
pub(crate) fn split(
    line: &[u8],
    origin: usize,
    limits: &RequestLimits,
    spans: &mut Vec<Span>,
) -> Result<Option<OwnedArgs>, ProtocolError> {
    if looks_like_http(line) {
        return Err(ProtocolError::Http);
    }
    if line.iter().any(|byte| matches!(byte, b'"' | b'\'')) {
        return split_quoted(line, limits).map(Some);
    }
    let mut words: usize = 0;
    let mut at: usize = 0;
    for word in line.split(is_separator) {
        if !word.is_empty() {
            words += 1;
            check_word(words, word.len(), limits)?;
            spans.push(Span::new(origin + at, origin + at + word.len()));
        }
        at += word.len() + 1;
    }
    Ok(None)
}

/// Whether a line is the start of an HTTP request or one of its headers. A key may well be called `HTTP/1.1`, but
/// `GET / HTTP/1.1` sent by a browser must not be a command, nor may the lines after it.
fn looks_like_http(line: &[u8]) -> bool {
    let mut words = line.split(is_separator).filter(|word| !word.is_empty());
    let first = words.next().unwrap_or_default();
    first.eq_ignore_ascii_case(b"POST")
        || first.eq_ignore_ascii_case(b"Host:")
        || words.nth(1).is_some_and(|third| third.starts_with(b"HTTP/"))
}

fn is_separator(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r')
}

/// The same bounds as for a RESP command, in the same words.
fn check_word(words: usize, bytes: usize, limits: &RequestLimits) -> Result<(), ProtocolError> {
    if words > limits.arguments_max {
        return Err(limits.too_many_arguments());
    }
    if bytes > limits.bulk_bytes_max {
        return Err(limits.too_long_argument());
    }
    Ok(())
}

/// What the splitter is inside of.
enum Quote {
    None,
    Single,
    Double,
}

fn split_quoted(line: &[u8], limits: &RequestLimits) -> Result<OwnedArgs, ProtocolError> {
    let mut owned = OwnedArgs::default();
    let mut words: usize = 0;
    let mut rest = line;
    loop {
        while let [separator, after @ ..] = rest
            && is_separator(separator)
        {
            rest = after;
        }
        if rest.is_empty() {
            return Ok(owned);
        }
        rest = read_word(rest, &mut owned)?;
        words += 1;
        check_word(words, owned.finish_argument(), limits)?;
    }
}

/// Reads one word from the front of `rest` into `owned` and gives what follows it. A quote may open in the middle of
/// a word, but one that closes must end it.
fn read_word<'a>(mut rest: &'a [u8], owned: &mut OwnedArgs) -> Result<&'a [u8], ProtocolError> {
    let mut quote = Quote::None;
    while let [byte, after @ ..] = rest {
        rest = after;
        match (&quote, byte) {
            (Quote::None, separator) if is_separator(separator) => return Ok(rest),
            (Quote::None, b'"') => quote = Quote::Double,
            (Quote::None, b'\'') => quote = Quote::Single,
            (Quote::Double, b'"') | (Quote::Single, b'\'') => return after_closing_quote(rest),
            (Quote::Double, b'\\') => {
                let (meant, left) = unescape(rest);
                owned.push_byte(meant);
                rest = left;
            }
            (Quote::Single, b'\\') if rest.first() == Some(&b'\'') => {
                owned.push_byte(b'\'');
                rest = rest.get(1..).unwrap_or_default();
            }
            (_, &plain) => owned.push_byte(plain),
        }
    }
    match quote {
        Quote::None => Ok(rest),
        Quote::Single | Quote::Double => Err(ProtocolError::UnbalancedQuotes),
    }
}

fn after_closing_quote(rest: &[u8]) -> Result<&[u8], ProtocolError> {
    match rest.first() {
        Some(byte) if !is_separator(byte) => Err(ProtocolError::UnbalancedQuotes),
        _ => Ok(rest),
    }
}

/// The byte that an escape stands for, `escaped` being what follows the backslash, and what follows the escape. An
/// unknown escape stands for the character itself; a backslash before the end of the line stands for itself, and the
/// missing quote is then the error.
fn unescape(escaped: &[u8]) -> (u8, &[u8]) {
    match escaped {
        [b'x', high, low, rest @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
            (hex_value(*high) << 4 | hex_value(*low), rest)
        }
        [b'n', rest @ ..] => (b'\n', rest),
        [b'r', rest @ ..] => (b'\r', rest),
        [b't', rest @ ..] => (b'\t', rest),
        [b'b', rest @ ..] => (0x08, rest),
        [b'a', rest @ ..] => (0x07, rest),
        [itself, rest @ ..] => (*itself, rest),
        [] => (b'\\', &[]),
    }
}

/// The value of one hexadecimal digit; 0 for anything else.
fn hex_value(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        b'A'..=b'F' => digit - b'A' + 10,
        _ => 0,
    }
}
