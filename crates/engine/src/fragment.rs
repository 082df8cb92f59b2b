//! What one core's part of a command for several writes, and only its merge reads: status bytes, numbers, raw replies.

/// All groups of this part were charged.
pub const ADMITTED: u8 = 1;
/// Some group refused; none was charged.
pub const DENIED: u8 = 0;
/// The part failed; the rest is the text of the error.
pub const FAILED: u8 = 2;

/// What a merge answers where the fragments are too long for a reply: a part stops at that length by itself.
pub const TOO_LONG: &str = "ERR the answer would pass the output limit of 32 MiB";

const NUMBER_BYTES: usize = 8;

/// Appends a count.
pub fn write_count(fragment: &mut Vec<u8>, count: u64) {
    fragment.extend_from_slice(&count.to_le_bytes());
}

/// Takes a count off the front.
pub fn split_count(fragment: &[u8]) -> Option<(u64, &[u8])> {
    let (count, rest) = fragment.split_first_chunk::<NUMBER_BYTES>()?;
    Some((u64::from_le_bytes(*count), rest))
}

/// The sum of the counts at the front of each fragment.
pub fn sum_counts(fragments: &[&[u8]]) -> u64 {
    fragments.iter().filter_map(|fragment| split_count(fragment)).fold(0, |sum, (count, _)| sum.saturating_add(count))
}

/// Takes the status off the front.
pub fn split_status(fragment: &[u8]) -> Option<(u8, &[u8])> {
    fragment.split_first().map(|(status, rest)| (*status, rest))
}

/// Appends five integers.
pub fn write_five(fragment: &mut Vec<u8>, five: [i64; 5]) {
    five.iter().for_each(|number| fragment.extend_from_slice(&number.to_le_bytes()));
}

/// The fives of a fragment whose status was taken off.
pub fn read_fives(body: &[u8]) -> impl Iterator<Item = [i64; 5]> + '_ {
    body.chunks_exact(5 * NUMBER_BYTES).map(|chunk| {
        let mut five = [0; 5];
        for (number, bytes) in five.iter_mut().zip(chunk.as_chunks::<NUMBER_BYTES>().0) {
            *number = i64::from_le_bytes(*bytes);
        }
        five
    })
}
