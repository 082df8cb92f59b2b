//! The two header lines of a request: `*<arguments>` and `$<bytes>`.
//!
//! Nearly every header has one digit, so that spelling is matched first, as a fixed pattern of bytes. Everything
//! else takes the careful path below, which gives the same answers.

use crate::error::ProtocolError;
use crate::limits::RequestLimits;
use crate::number::parse_canonical;

/// The longest header line in bytes, sign and line end included. The longest number that 64 bits hold has twenty
/// characters; a line that has not ended after 32 bytes is nonsense, and need not be buffered to be recognised.
const HEADER_BYTES_MAX: usize = 32;

/// What Redis itself takes for a number of arguments at all (a C `int`): above it, its text does not depend on
/// authentication.
const COUNT_MAX: i64 = 2_147_483_647;

/// Likewise for the length of an argument: the default of `proto-max-bulk-len`, 512 MiB. An authenticated client is
/// told the bound of this server all the same.
const LENGTH_MAX: i64 = 512 * 1024 * 1024;

/// A header as far as it can be read.
pub(crate) enum Header {
    /// Its number, and how many bytes the line takes with its end.
    Whole { number: usize, bytes: usize },
    /// The line has not ended yet.
    Incomplete,
}

/// Reads `*<arguments>` from the front of `bytes`, whose first byte is known to be `*`. A negative number counts as 0.
#[inline]
pub(crate) fn read_count(bytes: &[u8], limits: &RequestLimits) -> Result<Header, ProtocolError> {
    let (number, length) = match *bytes {
        [_, digit @ b'0'..=b'9', b'\r', b'\n', ..] => (usize::from(digit - b'0'), 4),
        _ => match read_line(bytes, ProtocolError::TooBigMultibulkCount, ProtocolError::InvalidMultibulkLength)? {
            None => return Ok(Header::Incomplete),
            Some((number, _)) if number > COUNT_MAX => return Err(ProtocolError::InvalidMultibulkLength),
            Some((number, length)) => (usize::try_from(number).unwrap_or(0), length),
        },
    };
    if number > limits.arguments_max {
        return Err(limits.too_many_arguments());
    }
    Ok(Header::Whole { number, bytes: length })
}

/// Reads `$<bytes>` from the front of `bytes`.
#[inline]
pub(crate) fn read_length(bytes: &[u8], limits: &RequestLimits) -> Result<Header, ProtocolError> {
    let (number, length) = match *bytes {
        [b'$', digit @ b'0'..=b'9', b'\r', b'\n', ..] => (usize::from(digit - b'0'), 4),
        [b'$', tens @ b'1'..=b'9', ones @ b'0'..=b'9', b'\r', b'\n', ..] => {
            (usize::from(tens - b'0') * 10 + usize::from(ones - b'0'), 5)
        }
        _ => match read_length_slowly(bytes, limits)? {
            None => return Ok(Header::Incomplete),
            Some(read) => read,
        },
    };
    if number > limits.bulk_bytes_max {
        return Err(limits.too_long_argument());
    }
    Ok(Header::Whole { number, bytes: length })
}

#[cold]
fn read_length_slowly(bytes: &[u8], limits: &RequestLimits) -> Result<Option<(usize, usize)>, ProtocolError> {
    match bytes.first() {
        None => return Ok(None),
        Some(b'$') => {}
        Some(&found) => return Err(ProtocolError::ExpectedBulk { found }),
    }
    match read_line(bytes, ProtocolError::TooBigBulkCount, ProtocolError::InvalidBulkLength)? {
        None => Ok(None),
        Some((number, _)) if number > LENGTH_MAX && !limits.authenticated => Err(ProtocolError::InvalidBulkLength),
        Some((number, length)) => {
            let number = usize::try_from(number).map_err(|_| ProtocolError::InvalidBulkLength)?;
            Ok(Some((number, length)))
        }
    }
}

/// Reads the number of a header line and the line's length with its end; `None` while the line has not ended.
#[cold]
fn read_line(
    bytes: &[u8],
    too_long: ProtocolError,
    invalid: ProtocolError,
) -> Result<Option<(i64, usize)>, ProtocolError> {
    const RETURN_WITHIN: usize = HEADER_BYTES_MAX - 1;
    let line = bytes.get(..RETURN_WITHIN).unwrap_or(bytes);
    let Some(end) = line.iter().position(|&byte| byte == b'\r') else {
        return if line.len() < RETURN_WITHIN { Ok(None) } else { Err(too_long) };
    };
    match bytes.get(end + 1) {
        None => Ok(None),
        Some(b'\n') => {
            let number = line.get(1..end).and_then(parse_canonical).ok_or(invalid)?;
            Ok(Some((number, end + 2)))
        }
        Some(_) => Err(invalid),
    }
}
