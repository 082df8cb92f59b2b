//! Policies by the words that name them.
//!
//! Nearly all calls of a gateway name one of a few limits. Reading `100` and `1m` anew for each costs more than the
//! decision, and reading a rate needs a greatest common divisor. So the last few are remembered by their very bytes:
//! both words in one piece, with what lies between them on the wire, as it is the same each time. What is longer than
//! sixteen bytes in all is read each time.

use tollgate_limits::{Algorithm, Ask, Mode, Policy};
use tollgate_resp::Stretch;

/// Places in the memo. Few, so that all of it stays in the cache.
const PLACES: usize = 32;

/// The words of a policy: where these are equal, the algorithm and both words are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    /// The algorithm, and the lengths of all, of the first word and of the second.
    form: u64,
    /// The first bytes and the last ones, which may overlap: with the length they are all of them.
    first: u64,
    last: u64,
}

impl Words {
    /// `None` where both words together are shorter than two bytes or longer than sixteen.
    #[inline(always)]
    pub fn new(algorithm: Algorithm, words: Stretch<'_>) -> Option<Words> {
        let (first, last) = ends(words.bytes)?;
        // Lengths are below 17, as there are no more bytes in all.
        let lengths = u64::from(words.first_bytes) << 16 | u64::from(words.second_bytes) << 24;
        let form = u64::from(number(algorithm)) | lengths | u64::try_from(words.bytes.len()).ok()? << 8;
        Some(Words { form, first, last })
    }

    #[inline(always)]
    fn place(&self) -> usize {
        let mixed = (self.first ^ self.last.rotate_left(19)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        usize::try_from(mixed >> 59).unwrap_or(0) % PLACES
    }
}

#[inline(always)]
const fn number(algorithm: Algorithm) -> u8 {
    match algorithm {
        Algorithm::Slide => 0,
        Algorithm::Token => 1,
        Algorithm::Fixed => 2,
        Algorithm::Log => 3,
        Algorithm::Leak => 4,
    }
}

/// The first and the last bytes of two to sixteen.
#[inline(always)]
fn ends(bytes: &[u8]) -> Option<(u64, u64)> {
    match (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        (Some(first), Some(last)) if bytes.len() <= 16 => Some((u64::from_le_bytes(*first), u64::from_le_bytes(*last))),
        _ => short_ends(bytes),
    }
}

/// The same of two to seven bytes, as where nothing lies between the words.
#[inline]
fn short_ends(bytes: &[u8]) -> Option<(u64, u64)> {
    match bytes.len() {
        4..8 => {
            let (first, last) = (bytes.first_chunk::<4>()?, bytes.last_chunk::<4>()?);
            Some((u64::from(u32::from_le_bytes(*first)), u64::from(u32::from_le_bytes(*last))))
        }
        2..4 => {
            let (first, last) = (bytes.first_chunk::<2>()?, bytes.last_chunk::<2>()?);
            Some((u64::from(u16::from_le_bytes(*first)), u64::from(u16::from_le_bytes(*last))))
        }
        _ => None,
    }
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
    #[inline(always)]
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

    fn words(text: &str, first_bytes: u32, second_bytes: u32) -> Option<Words> {
        Words::new(Algorithm::Slide, Stretch { bytes: text.as_bytes(), first_bytes, second_bytes })
    }

    /// Whether what `kept` named is remembered for `asked`.
    fn is_recalled(kept: (&str, u32, u32), asked: (&str, u32, u32)) -> bool {
        let policy = Policy::Slide { limit: 5, window: Window::new(60_000_000).unwrap() };
        let mut memo = PolicyMemo::default();
        memo.put(words(kept.0, kept.1, kept.2).unwrap(), policy);
        memo.get(&words(asked.0, asked.1, asked.2).unwrap()).is_some()
    }

    #[test]
    fn only_the_same_two_words_are_recalled() {
        // Whatever the pieces and the cuts: recalled is what has the same words, and only that.
        let pieces = ["11", "111", "1111", "11111", "111111", "1111111", "11111111", "111111111", "1 1", "11 11"];
        let more =
            ["1111 11", "1m\r\n$2\r\n1m", "1m\r\n$2\r\n1h", "60\r\n60", "11111\u{7}\0\0\0", "1\u{0}\u{0}\u{0}\u{8}"];
        let pieces: Vec<&str> = pieces.into_iter().chain(more).collect();
        let cuts = |piece: &str| {
            let bytes = piece.len();
            (0..=bytes).flat_map(move |first| (0..=bytes - first).map(move |second| (first, second)))
        };
        for kept in &pieces {
            for (first, second) in cuts(kept) {
                let kept_words = (&kept[..first], &kept[kept.len() - second..]);
                for asked in &pieces {
                    for (asked_first, asked_second) in cuts(asked) {
                        let asked_words = (&asked[..asked_first], &asked[asked.len() - asked_second..]);
                        let number = |length: usize| length as u32;
                        let recalled = is_recalled(
                            (kept, number(first), number(second)),
                            (asked, number(asked_first), number(asked_second)),
                        );
                        assert!(!recalled || kept_words == asked_words, "{kept_words:?} for {asked_words:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_piece_that_differs_in_a_byte_is_another() {
        for length in 2..=16usize {
            let kept = "5".repeat(length);
            let (first, second) = (length.min(8) as u32 / 2, length.min(8) as u32 / 2);
            assert!(is_recalled((&kept, first, second), (&kept, first, second)), "{length}");
            for place in 0..length {
                let mut other = kept.clone();
                other.replace_range(place..=place, "6");
                assert!(!is_recalled((&kept, first, second), (&other, first, second)), "{length} {place}");
            }
        }
        assert_eq!((words("1", 0, 1), words("12345678901234567", 8, 9)), (None, None));
    }

    #[test]
    fn what_was_put_is_found_for_its_algorithm_only() {
        let mut memo = PolicyMemo::default();
        let policy = Policy::Slide { limit: 5, window: Window::new(60_000_000).unwrap() };
        let five_a_minute = words("5 60", 1, 2).unwrap();
        memo.put(five_a_minute, policy);
        assert_eq!(memo.get(&five_a_minute).unwrap().policy, policy);
        let fixed = Stretch { bytes: b"5 60", first_bytes: 1, second_bytes: 2 };
        assert!(memo.get(&Words::new(Algorithm::Fixed, fixed).unwrap()).is_none());
        assert!(memo.get(&words("6 50", 1, 2).unwrap()).is_none());
    }
}
