//! The keys of a run: their names, the order they are called in, and the slot and core of each.

use crate::error::BenchError;
use crate::random::Random;

/// Slots of a cluster, by which Tollgate also spreads keys over its cores.
const SLOT_COUNT: u16 = 16_384;

/// Tollgate gives this many neighbouring slots to one core before the next core's turn.
const SLOTS_A_STEP: u16 = 64;

/// Key names: a prefix and a number padded with zeros, all of one length.
///
/// Keys of denied calls are numbered on from the count of the others. Their names bear a mark, so that whatever runs
/// came before, no such key has been one whose limit can come back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyNames {
    prefix: String,
    digits: usize,
    count: u32,
}

const MARK: u8 = b'd';

impl KeyNames {
    /// Names `count` keys of `key_bytes` bytes, and as many marked ones if there are denied calls; an error if the
    /// numbers do not fit behind the prefix.
    pub(crate) fn new(prefix: &str, key_bytes: usize, count: u32, marks: bool) -> Result<KeyNames, BenchError> {
        let largest = count.saturating_sub(1).to_string().len().saturating_add(usize::from(marks));
        let digits = key_bytes.saturating_sub(prefix.len());
        if digits < largest {
            let needed = prefix.len().saturating_add(largest);
            return Err(BenchError::Arguments(format!(
                "--key-bytes {key_bytes} is too short: {count} keys with the prefix {prefix:?} need {needed}"
            )));
        }
        Ok(KeyNames { prefix: prefix.to_owned(), digits, count })
    }

    /// Length of a key in bytes.
    pub(crate) fn key_bytes(&self) -> usize {
        self.prefix.len().saturating_add(self.digits)
    }

    /// Puts a key's name in place of what `out` holds.
    pub(crate) fn write(&self, index: u32, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(self.prefix.as_bytes());
        let marked = index.checked_sub(self.count);
        out.extend(marked.map(|_| MARK));
        let number = marked.unwrap_or(index).to_string();
        out.resize(self.key_bytes().saturating_sub(number.len()), b'0');
        out.extend_from_slice(number.as_bytes());
    }
}

/// The numbers below `count` once each, in an order that only the seed decides.
pub(crate) fn shuffled(count: u32, seed: u64) -> Vec<u32> {
    let mut order: Vec<u32> = (0..count).collect();
    let mut random = Random::new(seed);
    for remaining in (1..order.len()).rev() {
        let chosen = random.below(remaining.saturating_add(1));
        order.swap(remaining, chosen);
    }
    order
}

/// The core that owns a key on a Tollgate server of `core_count` cores.
pub(crate) fn core_of(key: &[u8], core_count: usize) -> usize {
    usize::from(slot_of(key) / SLOTS_A_STEP) % core_count.max(1)
}

/// A key's slot, as cluster clients compute it: of what stands between the first `{` and the next `}`, if anything.
fn slot_of(key: &[u8]) -> u16 {
    crc16(hash_tag(key).unwrap_or(key)) % SLOT_COUNT
}

fn hash_tag(key: &[u8]) -> Option<&[u8]> {
    let open = key.iter().position(|byte| *byte == b'{')?;
    let after = key.get(open.saturating_add(1)..)?;
    let close = after.iter().position(|byte| *byte == b'}')?;
    after.get(..close).filter(|tag| !tag.is_empty())
}

/// CRC16 with polynomial 0x1021 and start 0 (XMODEM). Bit by bit: it runs only before the clock starts.
fn crc16(bytes: &[u8]) -> u16 {
    let mut register: u16 = 0;
    for byte in bytes {
        register ^= u16::from(*byte) << 8;
        for _ in 0..8 {
            let carry = register & 0x8000 != 0;
            register <<= 1;
            if carry {
                register ^= 0x1021;
            }
        }
    }
    register
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_cluster_clients() {
        let cases: [(&str, u16); 8] = [
            ("123456789", 0x31c3),
            ("foo", 12_182),
            ("foo{}{bar}", 8_363),
            ("{foo}bar", 12_182),
            ("a{foo}{bar}", 12_182),
            ("{}foo", slot_of(b"{}foo")),
            ("", 0),
            ("{foo", crc16(b"{foo") % SLOT_COUNT),
        ];
        for (key, slot) in cases {
            assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
        }
        assert_eq!(core_of(b"foo", 1), 0);
        assert_eq!(core_of(b"foo", 4), 12_182 / 64 % 4);
    }

    #[test]
    fn names_have_one_length_and_must_fit() {
        let names = KeyNames::new("rl:", 7, 1_000, true).unwrap();
        let mut name = Vec::new();
        let cases = [(0, "rl:0000"), (7, "rl:0007"), (999, "rl:0999"), (1_000, "rl:d000"), (1_999, "rl:d999")];
        for (index, expected) in cases {
            names.write(index, &mut name);
            assert_eq!(name, expected.as_bytes());
        }
        assert!(KeyNames::new("rl:", 6, 1_001, false).is_err());
        assert!(KeyNames::new("rl:", 6, 1_000, true).is_err());
        assert!(KeyNames::new("rl:", 6, 1_000, false).is_ok());
        assert!(KeyNames::new("rl:", 2, 1, false).is_err());
        assert!(KeyNames::new("", 1, 10, false).is_ok());
    }

    #[test]
    fn an_order_holds_each_key_once_and_follows_its_seed() {
        let order = shuffled(1_000, 7);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..1_000).collect::<Vec<u32>>());
        assert_ne!(order, sorted);
        assert_eq!(order, shuffled(1_000, 7));
        assert_ne!(order, shuffled(1_000, 8));
    }
}
