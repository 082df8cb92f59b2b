//! Why a request was refused, in Redis's words where Redis has words for it.

use std::fmt;

use crate::printable::printable_char;

/// A request that breaks the protocol or a bound. The caller answers `-ERR ` and the displayed text (nothing for
/// [`ProtocolError::Http`]) and closes the connection: what follows in the stream cannot be trusted to be a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// The number after `*` is no number, or is above the bound of an authenticated client.
    InvalidMultibulkLength,
    /// The number after `$` is no number, or is negative, or is more than anybody may send.
    InvalidBulkLength,
    /// A longer argument than an authenticated client may send.
    TooLongBulk {
        /// The most bytes of an argument: the setting `proto-max-bulk-len`.
        bytes_max: usize,
    },
    /// More arguments than a client may send before it authenticates.
    UnauthenticatedMultibulkLength,
    /// A longer argument than a client may send before it authenticates.
    UnauthenticatedBulkLength,
    /// An argument does not start with `$`.
    ExpectedBulk {
        /// The byte that stood there.
        found: u8,
    },
    /// An argument is longer than it was declared: no line end follows its last byte.
    ExpectedLineEnd,
    /// The line with the number of arguments does not end.
    TooBigMultibulkCount,
    /// The line with the length of an argument does not end.
    TooBigBulkCount,
    /// An inline command longer than its bound.
    TooBigInline,
    /// The command as a whole is longer than its bound, though no single argument is.
    TooBigCommand,
    /// A quote of an inline command is not closed, or something other than a space follows a closing one.
    UnbalancedQuotes,
    /// An HTTP request was sent here, perhaps by a browser that was talked into it. Redis hangs up without a word.
    Http,
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            ProtocolError::InvalidMultibulkLength => "invalid multibulk length",
            ProtocolError::InvalidBulkLength => "invalid bulk length",
            // Redis's text, and what whoever meets it must know: which bound it was and what sets it.
            ProtocolError::TooLongBulk { bytes_max } => {
                let text = "Protocol error: invalid bulk length, at most";
                return write!(formatter, "{text} {bytes_max} bytes (proto-max-bulk-len)");
            }
            ProtocolError::UnauthenticatedMultibulkLength => "unauthenticated multibulk length",
            ProtocolError::UnauthenticatedBulkLength => "unauthenticated bulk length",
            ProtocolError::ExpectedBulk { found } => {
                return write!(formatter, "Protocol error: expected '$', got '{}'", printable_char(*found));
            }
            ProtocolError::ExpectedLineEnd => "expected a line end after an argument",
            ProtocolError::TooBigMultibulkCount => "too big mbulk count string",
            ProtocolError::TooBigBulkCount => "too big bulk count string",
            ProtocolError::TooBigInline => "too big inline request",
            ProtocolError::TooBigCommand => "too big command",
            ProtocolError::UnbalancedQuotes => "unbalanced quotes in request",
            ProtocolError::Http => "HTTP request on a RESP port",
        };
        write!(formatter, "Protocol error: {text}")
    }
}

impl std::error::Error for ProtocolError {}

#[cfg(test)]
mod tests {
    use super::ProtocolError;

    #[test]
    fn an_echoed_byte_cannot_start_a_line() {
        let samples = [(b'x', "x"), (b'\r', "?"), (b'\n', "?"), (0, "?"), (0xff, "?"), (b'*', "*")];
        for (found, shown) in samples {
            let expected = format!("Protocol error: expected '$', got '{shown}'");
            assert_eq!(ProtocolError::ExpectedBulk { found }.to_string(), expected);
        }
    }
}
