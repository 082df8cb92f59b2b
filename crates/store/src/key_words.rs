//! A key against the words that hold it, without a call.
//!
//! The problem: a lookup ends with one comparison of some twenty bytes, and a call of the general comparison costs more
//! than the comparison. The idea: stored keys are padded with zeros to whole words, so a key is compared word by word,
//! its own last bytes padded likewise.

/// Above so many bytes the general comparison, which takes more than a word a step, is the quicker one.
const SHORT_BYTES_MAX: usize = 64;

/// Whether `words` begin with `key`, padded with zeros to a whole word.
#[inline(always)]
pub(crate) fn are_of(words: &[u64], key: &[u8]) -> bool {
    // The usual length, without a loop.
    if let ([first, second, third, ..], Some(whole), 17..=24) = (words, key.first_chunk::<16>(), key.len()) {
        let asked = u128::from_le_bytes(*whole);
        let stored = u128::from(u64::from_le(*first)) | u128::from(u64::from_le(*second)) << 64;
        return stored == asked && u64::from_le(*third) == last_word(key);
    }
    if key.len() > SHORT_BYTES_MAX {
        return bytemuck::cast_slice(words).starts_with(key);
    }
    let (whole, _) = key.as_chunks::<8>();
    let Some((stored, rest)) = words.split_at_checked(whole.len()) else { return false };
    for (stored, asked) in stored.iter().zip(whole) {
        if u64::from_le(*stored) != u64::from_le_bytes(*asked) {
            return false;
        }
    }
    key.len().is_multiple_of(8) || rest.first().is_some_and(|stored| u64::from_le(*stored) == last_word(key))
}

/// The bytes of `key` in the last of the words that hold it, of which there are one to eight, padded with zeros.
#[inline]
fn last_word(key: &[u8]) -> u64 {
    let unused_bits = key.len().wrapping_neg() as u32 % 8 * 8;
    match key.last_chunk::<8>() {
        Some(last) => u64::from_le_bytes(*last) >> unused_bits,
        None => short_word(key),
    }
}

/// One to seven bytes as one word. The loads overlap, and what lies twice is the same in both.
#[inline]
fn short_word(bytes: &[u8]) -> u64 {
    let length = bytes.len();
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        return u64::from(first) | u64::from(last) << ((length - 4) * 8);
    }
    let Some((first, last)) = bytes.first().zip(bytes.last()) else { return 0 };
    u64::from(*first) | u64::from(bytes[length / 2]) << (length / 2 * 8) | u64::from(*last) << ((length - 1) * 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of a key as a record holds them.
    fn stored(key: &[u8]) -> Vec<u64> {
        let mut words = vec![0u64; key.len().div_ceil(8)];
        bytemuck::cast_slice_mut::<u64, u8>(&mut words)[..key.len()].copy_from_slice(key);
        words
    }

    #[test]
    fn a_key_is_told_from_one_that_differs_in_a_byte() {
        for length in 0..=80usize {
            let key: Vec<u8> = (0..length).map(|place| (place * 7 + 129) as u8).collect();
            let words = stored(&key);
            assert!(are_of(&words, &key), "{length}");
            for place in 0..length {
                let mut other = key.clone();
                other[place] ^= 0x80;
                assert!(!are_of(&words, &other), "{length} {place}");
            }
            assert!(length % 8 == 0 || !are_of(&words, &[&key[..], b"x"].concat()), "{length}");
        }
        assert!(!are_of(&[], b"12345678") && !are_of(&[], b"1"));
    }
}
