//! Which of the 16,384 slots a key belongs to, as every Redis Cluster client computes it.
//!
//! The problem: the checksum is taken of every key of every call, and a table of one byte a step costs as much as the
//! decision itself. The idea: CRC-16 is linear, so eight bytes can be looked up side by side in eight tables and
//! XORed, each table being the one before it pushed on by a zero byte.

/// Slots that the key space is cut into.
pub const SLOTS: u16 = 16_384;

/// x^16 + x^12 + x^5 + 1, highest bit first, starting from zero: the variant called XMODEM.
const POLYNOMIAL: u16 = 0x1021;

static TABLES: [[u16; 256]; 8] = tables();

/// The slot of a key: CRC-16 of the key, or of what stands between its first `{` and the next `}` if that is not
/// empty, modulo [`SLOTS`].
#[inline]
pub fn slot_of(key: &[u8]) -> u16 {
    crc16(if has_brace(key) { hashed_part(key) } else { key }) % SLOTS
}

/// Whether there is a `{` in the key. The usual length is looked at in two overlapping pieces, each one comparison of
/// sixteen bytes at once.
#[inline]
fn has_brace(key: &[u8]) -> bool {
    match (key.first_chunk::<16>(), key.last_chunk::<16>()) {
        (Some(first), Some(last)) if key.len() <= 32 => piece_has_brace(first) | piece_has_brace(last),
        _ => position(key, b'{').is_some(),
    }
}

#[inline]
fn piece_has_brace(piece: &[u8; 16]) -> bool {
    piece.iter().fold(false, |found, byte| found | (*byte == b'{'))
}

/// The part of a key that decides its slot.
#[inline(never)]
fn hashed_part(key: &[u8]) -> &[u8] {
    match position(key, b'{') {
        None => key,
        Some(open) => tag(key, open),
    }
}

/// The tag that opens at `open`, or the whole key if it is empty or never closed.
#[inline]
fn tag(key: &[u8], open: usize) -> &[u8] {
    let Some(inside) = key.get(open + 1..) else { return key };
    match position(inside, b'}') {
        None | Some(0) => key,
        Some(close) => inside.get(..close).unwrap_or(key),
    }
}

/// The first place of `wanted`: eight bytes a step until a word holds one, then byte by byte.
#[inline]
fn position(bytes: &[u8], wanted: u8) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    let (words, rest) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let differences = u64::from_le_bytes(*word) ^ (ONES * u64::from(wanted));
        // The lowest marked byte is exact: borrows only ever mark bytes above a true match.
        let zeros = differences.wrapping_sub(ONES) & !differences & HIGHS;
        if zeros != 0 {
            return Some(index * 8 + zeros.trailing_zeros() as usize / 8);
        }
    }
    rest.iter().position(|byte| *byte == wanted).map(|index| words.len() * 8 + index)
}

/// CRC-16/XMODEM.
#[inline]
fn crc16(bytes: &[u8]) -> u16 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut crc = 0u16;
    for word in words {
        let [high, low] = crc.to_be_bytes();
        crc = TABLES[7][usize::from(word[0] ^ high)]
            ^ TABLES[6][usize::from(word[1] ^ low)]
            ^ TABLES[5][usize::from(word[2])]
            ^ TABLES[4][usize::from(word[3])]
            ^ TABLES[3][usize::from(word[4])]
            ^ TABLES[2][usize::from(word[5])]
            ^ TABLES[1][usize::from(word[6])]
            ^ TABLES[0][usize::from(word[7])];
    }
    for byte in rest {
        let [high, low] = crc.to_be_bytes();
        crc = TABLES[0][usize::from(high ^ byte)] ^ u16::from_be_bytes([low, 0]);
    }
    crc
}

const fn tables() -> [[u16; 256]; 8] {
    let mut tables = [[0u16; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ POLYNOMIAL };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[table - 1][byte];
            tables[table][byte] = (before << 8) ^ tables[0][(before >> 8) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, a bit at a time.
    fn crc16_slow(bytes: &[u8]) -> u16 {
        let mut crc = 0u16;
        for byte in bytes {
            crc ^= u16::from(*byte) << 8;
            for _ in 0..8 {
                crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ POLYNOMIAL };
            }
        }
        crc
    }

    #[test]
    fn checksum_is_xmodem() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        let bytes: Vec<u8> = (0..200u32).map(|i| (i * 37 + 11).to_le_bytes()[0]).collect();
        for from in 0..20 {
            for to in from..bytes.len() {
                assert_eq!(crc16(&bytes[from..to]), crc16_slow(&bytes[from..to]), "{from}..{to}");
            }
        }
    }

    #[test]
    fn only_the_first_tag_counts() {
        let cases: [(&str, &str); 12] = [
            ("", ""),
            ("plain", "plain"),
            ("{user1000}.following", "user1000"),
            ("a-long-prefix{user1000}.following", "user1000"),
            ("foo{}{bar}", "foo{}{bar}"),
            ("foo{{bar}}zap", "{bar"),
            ("foo{bar}{zap}", "bar"),
            ("foo{bar", "foo{bar"),
            ("foo}bar{", "foo}bar{"),
            ("12345678{", "12345678{"),
            ("rl:{ak_42}:orders", "ak_42"),
            ("}{}", "}{}"),
        ];
        for (key, part) in cases {
            assert_eq!(hashed_part(key.as_bytes()), part.as_bytes(), "{key}");
        }
        assert_eq!(slot_of(b"foo"), 12_182);
        assert_eq!(slot_of(b""), 0);
    }
}
