//! Which of the 16,384 slots a key belongs to, as every Redis Cluster client computes it.
//!
//! The problem: the checksum is taken of every key of every call, and a table of one byte a step costs as much as the
//! decision itself. The idea: a CRC is the remainder of a division of polynomials over one bit, where the square of a
//! sum is the sum of the squares. So the powers of this polynomial have four terms as it has, and a whole word is
//! divided by its fourth power in a few shifts; only the last 32 bits are looked up, side by side in four tables.

use crate::wide::Wide;

/// Slots that the key space is cut into.
pub const SLOTS: u16 = 16_384;

/// x^16 + x^12 + x^5 + 1, highest bit first, starting from zero: the variant called XMODEM.
const POLYNOMIAL: u16 = 0x1021;

static TABLES: [[u16; 256]; 4] = tables();

/// The slot of a key: CRC-16 of the key, or of what stands between its first `{` and the next `}` if that is not
/// empty, modulo [`SLOTS`]. A key of three words, the usual length, goes in line and without a loop.
#[inline(always)]
pub fn slot_of(key: &[u8]) -> u16 {
    if let (Some(first), Some(last), 17..=24) = (key.first_chunk::<16>(), key.last_chunk::<16>(), key.len())
        && !(piece_has_brace(first) | piece_has_brace(last))
    {
        return crc16_of_three_words(first, key.len(), last) % SLOTS;
    }
    slot_of_any(key)
}

/// [`slot_of`] on a CPU that multiplies without carries.
#[inline(always)]
pub(crate) fn slot_of_wide(wide: Wide, key: &[u8]) -> u16 {
    if let (Some(first), Some(last), 17..=24) = (key.first_chunk::<16>(), key.last_chunk::<16>(), key.len())
        && !(piece_has_brace(first) | piece_has_brace(last))
    {
        return wide.crc16(three_words(first, key.len(), last)) % SLOTS;
    }
    slot_of_any(key)
}

#[inline(never)]
fn slot_of_any(key: &[u8]) -> u16 {
    crc16(if has_brace(key) { hashed_part(key) } else { key }) % SLOTS
}

/// Whether there is a `{` in the key. The usual lengths are looked at in two overlapping pieces, each one comparison of
/// sixteen bytes at once.
#[inline]
fn has_brace(key: &[u8]) -> bool {
    match (key.first_chunk::<16>(), key.last_chunk::<16>()) {
        (Some(first), Some(last)) if key.len() <= 32 => piece_has_brace(first) | piece_has_brace(last),
        _ => brace_anywhere(key),
    }
}

#[inline(always)]
fn piece_has_brace<const BYTES: usize>(piece: &[u8; BYTES]) -> bool {
    piece.iter().fold(false, |found, byte| found | (*byte == b'{'))
}

#[inline(never)]
fn brace_anywhere(key: &[u8]) -> bool {
    if let Some(last) = key.last_chunk::<16>() {
        let (pieces, _) = key.as_chunks::<16>();
        return pieces.iter().any(piece_has_brace) || piece_has_brace(last);
    }
    match (key.first_chunk::<8>(), key.last_chunk::<8>()) {
        (Some(first), Some(last)) => piece_has_brace(first) | piece_has_brace(last),
        _ => key.contains(&b'{'),
    }
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

/// CRC-16/XMODEM of 17 to 24 bytes: the first ones and the last ones, which overlap.
#[inline(always)]
fn crc16_of_three_words(first: &[u8; 16], bytes: usize, last: &[u8; 16]) -> u16 {
    let [first, second, third] = three_words(first, bytes, last);
    checksum(pushed_by_a_word(pushed_by_a_word(first) ^ second) ^ third)
}

/// 17 to 24 bytes as words, the first byte highest and zeros in front.
#[inline(always)]
fn three_words(first: &[u8; 16], bytes: usize, last: &[u8; 16]) -> [u64; 3] {
    let (first, last) = (u128::from_be_bytes(*first), u128::from_be_bytes(*last));
    [(first >> 64) as u64 >> (192 - bytes * 8), (last >> 64) as u64, last as u64]
}

/// CRC-16/XMODEM.
#[inline]
fn crc16(bytes: &[u8]) -> u16 {
    // Zeros in front change nothing, as the checksum starts from zero: so the first one to eight bytes go as a word,
    // and whole words follow.
    let head_bytes = bytes.len().wrapping_sub(1) % 8 + 1;
    let (head, words) = match (bytes.first_chunk::<8>(), bytes.get(head_bytes..)) {
        (Some(first), Some(others)) => (u64::from_be_bytes(*first) >> (64 - head_bytes * 8), others.as_chunks::<8>().0),
        _ => (short_word(bytes), [].as_slice()),
    };
    checksum(words.iter().fold(head, |rest, word| pushed_by_a_word(rest) ^ u64::from_be_bytes(*word)))
}

/// What is left of a number of 64 bits.
#[inline(always)]
fn checksum(rest: u64) -> u16 {
    let [first, second, third, fourth] = halved(rest).to_be_bytes().map(usize::from);
    TABLES[3][first] ^ TABLES[2][second] ^ TABLES[1][third] ^ TABLES[0][fourth]
}

/// `rest` times x^64, in 64 bits again: the remainder by the fourth power of the polynomial, x^64 + x^48 + x^20 + 1.
#[inline(always)]
fn pushed_by_a_word(rest: u64) -> u64 {
    // The quotient q is what the division carries down: q = rest + q / x^16 + q / x^44, written out.
    let quotient = rest ^ rest >> 32;
    let quotient = quotient ^ quotient >> 16 ^ quotient >> 44;
    quotient ^ quotient << 20 ^ quotient << 48
}

/// The remainder by the second power of the polynomial, x^32 + x^24 + x^10 + 1.
#[inline(always)]
fn halved(rest: u64) -> u32 {
    let (high, low) = ((rest >> 32) as u32, rest as u32);
    let quotient = high ^ high >> 16;
    let quotient = quotient ^ quotient >> 8 ^ quotient >> 22;
    low ^ quotient ^ quotient << 10 ^ quotient << 24
}

/// Up to seven bytes as a number, the first one highest.
#[inline]
fn short_word(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// What a byte leaves when it is pushed on by two bytes, by three, by four and by five.
const fn tables() -> [[u16; 256]; 4] {
    let mut tables = [[0u16; 256]; 4];
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
    while table < 4 {
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
    fn a_slot_is_the_checksum_whatever_the_length() {
        let key: Vec<u8> = (0..60u8).map(|byte| byte.wrapping_mul(37) | 0x80).collect();
        for from in 0..8 {
            for to in from..key.len() {
                assert_eq!(slot_of(&key[from..to]), crc16_slow(&key[from..to]) % SLOTS, "{from}..{to}");
            }
        }
    }

    #[test]
    fn a_wide_cpu_finds_the_same_slots() {
        let Some(wide) = Wide::detect() else { return };
        let mut random = 1u64;
        for round in 0..20_000usize {
            let key: Vec<u8> = std::iter::repeat_with(|| {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (random >> 56) as u8
            })
            .take(round % 40)
            .collect();
            assert_eq!(slot_of_wide(wide, &key), slot_of(&key), "{key:?}");
        }
        for bit in 0..192usize {
            let mut key = [0u8; 24];
            key[bit / 8] = 1 << (bit % 8);
            assert_eq!(slot_of_wide(wide, &key), crc16_slow(&key) % SLOTS, "bit {bit}");
        }
    }

    #[test]
    fn a_tag_is_seen_wherever_it_stands() {
        for length in 3..80usize {
            for open in 0..length - 2 {
                let mut key = vec![b'z'; length];
                key[open] = b'{';
                key[length - 1] = b'}';
                assert_eq!(slot_of(&key), crc16(&key[open + 1..length - 1]) % SLOTS, "{length} {open}");
            }
            assert_eq!(slot_of(&vec![b'|'; length]), crc16(&vec![b'|'; length]) % SLOTS, "{length}");
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
