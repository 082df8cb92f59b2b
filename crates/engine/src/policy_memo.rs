//! Policies by the words that name them.
//!
//! Nearly all calls of a gateway name one of a few limits. Reading `100` and `1m` anew for each costs more than the
//! decision, and reading a rate needs a greatest common divisor. So the last few are remembered by their very bytes;
//! a word that is longer than eight bytes is read each time.

use tollgate_limits::{Algorithm, Ask, Mode, Policy};

/// Places in the memo. Few, so that all of it stays in the cache.
const PLACES: usize = 32;

/// The words of a policy: equal words are equal values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    algorithm: Algorithm,
    first: u64,
    second: u64,
    lengths: (u8, u8),
}

impl Words {
    /// `None` for a word that is empty or longer than eight bytes.
    #[inline]
    pub fn new(algorithm: Algorithm, first: &[u8], second: &[u8]) -> Option<Words> {
        let (first, first_length) = word(first)?;
        let (second, second_length) = word(second)?;
        Some(Words { algorithm, first, second, lengths: (first_length, second_length) })
    }

    #[inline]
    fn place(&self) -> usize {
        let mixed = (self.first ^ self.second.rotate_left(19)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        usize::try_from(mixed >> 59).unwrap_or(0) % PLACES
    }
}

/// Up to eight bytes as one number. With the length it is the word's own: overlapping loads repeat bytes, in places
/// that the length alone decides.
#[inline]
fn word(bytes: &[u8]) -> Option<(u64, u8)> {
    let length = bytes.len();
    let value = match length {
        4..=8 => {
            let (first, last) = (bytes.first_chunk::<4>()?, bytes.last_chunk::<4>()?);
            u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << 32
        }
        1..4 => {
            let bytes = [bytes.first()?, bytes.get(length / 2)?, bytes.last()?];
            let [first, middle, last] = bytes.map(|byte| u64::from(*byte));
            first | middle << 8 | last << 16
        }
        _ => return None,
    };
    Some((value, u8::try_from(length).ok()?))
}

/// The policies that were named last, each as the plain call of cost 1 that most calls are.
#[derive(Debug)]
pub struct PolicyMemo {
    places: Box<[Option<(Words, Ask)>; PLACES]>,
}

impl Default for PolicyMemo {
    fn default() -> Self {
        PolicyMemo { places: Box::new([None; PLACES]) }
    }
}

impl PolicyMemo {
    /// A call of cost 1 under the policy that these words named before.
    #[inline]
    pub fn get(&self, words: &Words) -> Option<&Ask> {
        match self.places.get(words.place()) {
            Some(Some((kept, ask))) if kept == words => Some(ask),
            _ => None,
        }
    }

    /// Remembers what these words name, in the place of others.
    pub fn put(&mut self, words: Words, policy: Policy) {
        if let Some(place) = self.places.get_mut(words.place()) {
            *place = Some((words, Ask { policy, cost: 1, mode: Mode::Charge }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_limits::Window;

    #[test]
    fn words_are_equal_only_if_their_bytes_are() {
        let samples = ["1", "11", "111", "1111", "11111", "111111", "1111111", "11111111", "1m", "1h", "121", "12121"];
        for a in samples {
            for b in samples {
                let words = |text: &str| Words::new(Algorithm::Slide, b"5", text.as_bytes()).unwrap();
                assert_eq!(words(a) == words(b), a == b, "{a} {b}");
            }
        }
        for length in 1..=8usize {
            for place in 0..length {
                let word = vec![b'5'; length];
                let mut other = word.clone();
                other[place] = b'6';
                let words = |text: &[u8]| Words::new(Algorithm::Slide, text, b"60").unwrap();
                assert_ne!(words(&word), words(&other), "{length} {place}");
            }
        }
        assert_eq!(Words::new(Algorithm::Slide, b"", b"1"), None);
        assert_eq!(Words::new(Algorithm::Slide, b"123456789", b"1"), None);
    }

    #[test]
    fn what_was_put_is_found_for_its_algorithm_only() {
        let mut memo = PolicyMemo::default();
        let policy = Policy::Slide { limit: 5, window: Window::new(60_000_000).unwrap() };
        let words = Words::new(Algorithm::Slide, b"5", b"60").unwrap();
        memo.put(words, policy);
        assert_eq!(memo.get(&words).unwrap().policy, policy);
        assert!(memo.get(&Words::new(Algorithm::Fixed, b"5", b"60").unwrap()).is_none());
        assert!(memo.get(&Words::new(Algorithm::Slide, b"60", b"5").unwrap()).is_none());
    }
}
