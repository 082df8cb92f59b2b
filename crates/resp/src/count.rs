//! How many replies there are in bytes that this crate wrote.
//!
//! The problem: replies that were made and may not leave after all must each be answered with an error, and by then
//! they are only bytes. The idea: a reply says at its begin how long it is or how many values follow.

/// Replies in `bytes`, which are whole ones; what is pushed (RESP3) is no reply.
pub fn count_replies(bytes: &[u8]) -> usize {
    let (mut rest, mut replies) = (bytes, 0);
    while let Some(kind) = rest.first() {
        replies += usize::from(*kind != b'>');
        rest = skip_value(rest);
    }
    replies
}

/// What is behind the first value; nothing if it is none.
fn skip_value(bytes: &[u8]) -> &[u8] {
    let (mut rest, mut values) = (bytes, 1_u64);
    while values > 0 {
        let Some((kind, behind)) = rest.split_first() else { return &[] };
        let Some(end) = behind.iter().position(|byte| *byte == b'\n') else { return &[] };
        let (line, behind) = behind.split_at(end + 1);
        rest = behind;
        values -= 1;
        // A length below zero is one of nothing.
        let number = || std::str::from_utf8(line.trim_ascii()).ok().and_then(|text| text.parse::<u64>().ok());
        match kind {
            b'$' | b'=' | b'!' => {
                if let Some(length) = number() {
                    let length = usize::try_from(length).unwrap_or(usize::MAX).saturating_add(2);
                    rest = rest.get(length..).unwrap_or_default();
                }
            }
            b'*' | b'~' | b'>' => values = values.saturating_add(number().unwrap_or(0)),
            // The value that attributes belong to follows them.
            b'|' => values = values.saturating_add(number().unwrap_or(0).saturating_mul(2).saturating_add(1)),
            b'%' => values = values.saturating_add(number().unwrap_or(0).saturating_mul(2)),
            _ => {}
        }
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_counted_whatever_they_are() {
        let samples =
            ["+OK\r\n", "-ERR x\r\n", ":5\r\n", "$5\r\na\r\nbc\r\n", "$-1\r\n", "*-1\r\n", "*0\r\n", "$0\r\n\r\n"];
        let nested = ["*2\r\n*1\r\n:1\r\n$1\r\nx\r\n", "%1\r\n+a\r\n*2\r\n_\r\n#t\r\n", "|1\r\n+a\r\n+b\r\n:3\r\n"];
        for reply in samples.iter().chain(&nested) {
            assert_eq!(count_replies(reply.as_bytes()), 1, "{reply:?}");
        }
        assert_eq!(count_replies([samples.concat(), nested.concat()].concat().as_bytes()), 11);
        assert_eq!(count_replies(b">2\r\n+a\r\n+b\r\n+OK\r\n,1.5\r\n"), 2);
        assert_eq!(count_replies(b""), 0);
        // What is none ends.
        for broken in
            ["*99999999999999999999\r\n", "*5\r\n", "$10\r\nabc", "+", "\n\n", "*18446744073709551615\r\n:1\r\n"]
        {
            assert!(count_replies(broken.as_bytes()) <= 2, "{broken:?}");
        }
    }
}
