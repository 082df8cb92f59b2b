//! Bytes from outside, made fit to be read by a person.

/// The most bytes of a client's input that are ever echoed.
const ECHO_BYTES_MAX: usize = 128;

/// Makes bytes from a client fit to be shown in an error or a log: every control or non-ASCII byte becomes `?`, and
/// what lies beyond 128 bytes is cut off.
///
/// So an echo can neither start a new line, nor steer a terminal, nor fill a log.
pub fn printable(bytes: &[u8]) -> String {
    bytes.iter().take(ECHO_BYTES_MAX).map(|&byte| printable_char(byte)).collect()
}

/// One byte as [`printable`] shows it.
pub(crate) fn printable_char(byte: u8) -> char {
    if byte == b' ' || byte.is_ascii_graphic() { char::from(byte) } else { '?' }
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn echoes_are_safe_and_short() {
        let samples: [(&[u8], &str); 5] = [
            (b"", ""),
            (b"RL.SLIDE user:1 ~", "RL.SLIDE user:1 ~"),
            (b"a\r\nb\0\x1b[2J\x7f", "a??b??[2J?"),
            ("gr\u{fc}n".as_bytes(), "gr??n"),
            (b"it's \"so\"", "it's \"so\""),
        ];
        for (bytes, shown) in samples {
            assert_eq!(printable(bytes), shown);
        }
        assert_eq!(printable(&[b'x'; 128]).len(), 128);
        assert_eq!(printable(&[b'x'; 129]).len(), 128);
        assert_eq!(printable(&[0xff; 5000]), "?".repeat(128));
    }
}
