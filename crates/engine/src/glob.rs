//! Redis's glob patterns, matched in time linear in the text.
//!
//! The problem: matching `*a*a*a*b` by going back at each star takes time exponential or at least quadratic in what a
//! client may send. The idea: run all ways of matching at once. The set of pattern elements that a match may stand
//! before is a bit set; each byte of the text moves it by one shift and one mask (Baeza-Yates and Gonnet's Shift-And,
//! with a loop at each star), so that a byte costs one step for every 64 elements, whatever the pattern.

/// The longest pattern, in bytes.
pub const PATTERN_BYTES_MAX: usize = 1024;

const WORD_BITS: usize = 64;

/// A pattern made ready.
#[derive(Debug)]
pub struct Glob {
    words: usize,
    /// For each byte, a bit for each element that matches it.
    matching: Vec<u64>,
    /// A bit for each element with a star before it, the end included.
    loops: Vec<u64>,
    /// The bit of the end.
    end: usize,
    matches_all: bool,
}

impl Glob {
    /// `None` if the pattern is longer than [`PATTERN_BYTES_MAX`].
    ///
    /// `*` any bytes, `?` one byte, `[abc]` `[a-z]` `[^a]` one of a set, `\x` the byte x. An unclosed set ends with the
    /// pattern, as in Redis.
    pub fn new(pattern: &[u8]) -> Option<Glob> {
        if pattern.len() > PATTERN_BYTES_MAX {
            return None;
        }
        let mut elements: Vec<ByteSet> = Vec::new();
        let mut stars = Vec::new();
        let mut rest = pattern;
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            match byte {
                b'*' => stars.push(elements.len()),
                b'?' => elements.push(ByteSet::all()),
                b'[' => elements.push(ByteSet::parse(&mut rest)),
                b'\\' if !rest.is_empty() => elements.push(ByteSet::one(take_byte(&mut rest))),
                _ => elements.push(ByteSet::one(byte)),
            }
        }
        let end = elements.len();
        let words = end / WORD_BITS + 1;
        let mut glob = Glob { words, matching: vec![0; 256 * words], loops: vec![0; words], end, matches_all: false };
        for (position, element) in elements.iter().enumerate() {
            (0..=255u8).filter(|byte| element.has(*byte)).for_each(|byte| {
                set(glob.matching.get_mut(usize::from(byte) * words..).unwrap_or_default(), position);
            });
        }
        stars.iter().for_each(|position| set(&mut glob.loops, *position));
        glob.matches_all = end == 0 && !stars.is_empty();
        Some(glob)
    }

    /// Whether the pattern matches the whole text.
    pub fn is_match(&self, text: &[u8]) -> bool {
        if self.matches_all {
            return true;
        }
        let mut standing = vec![0u64; self.words];
        set(&mut standing, 0);
        for byte in text {
            let row = usize::from(*byte) * self.words;
            let matching = self.matching.get(row..row + self.words).unwrap_or_default();
            let mut carry = 0;
            for ((word, matching), stay) in standing.iter_mut().zip(matching).zip(&self.loops) {
                let moved = *word & matching;
                *word = (moved << 1) | carry | (*word & stay);
                carry = moved >> (WORD_BITS - 1);
            }
            if standing.iter().all(|word| *word == 0) {
                return false;
            }
        }
        standing.get(self.end / WORD_BITS).is_some_and(|word| word >> (self.end % WORD_BITS) & 1 == 1)
    }
}

fn set(bits: &mut [u64], position: usize) {
    if let Some(word) = bits.get_mut(position / WORD_BITS) {
        *word |= 1 << (position % WORD_BITS);
    }
}

fn take_byte(rest: &mut &[u8]) -> u8 {
    let Some((&byte, after)) = rest.split_first() else { return 0 };
    *rest = after;
    byte
}

#[derive(Clone, Copy, Debug)]
struct ByteSet([u64; 4]);

impl ByteSet {
    const fn all() -> ByteSet {
        ByteSet([u64::MAX; 4])
    }

    fn one(byte: u8) -> ByteSet {
        let mut bytes = ByteSet([0; 4]);
        bytes.add(byte);
        bytes
    }

    fn add(&mut self, byte: u8) {
        set(&mut self.0, usize::from(byte));
    }

    fn has(self, byte: u8) -> bool {
        self.0.get(usize::from(byte) / WORD_BITS).is_some_and(|word| word >> (usize::from(byte) % WORD_BITS) & 1 == 1)
    }

    /// What follows a `[`, through the `]`.
    fn parse(rest: &mut &[u8]) -> ByteSet {
        let inverted = rest.first() == Some(&b'^');
        if inverted {
            take_byte(rest);
        }
        let mut bytes = ByteSet([0; 4]);
        while !rest.is_empty() {
            let byte = take_byte(rest);
            match (byte, *rest) {
                (b']', _) => break,
                (b'\\', [_, ..]) => bytes.add(take_byte(rest)),
                (from, [b'-', to, ..]) => {
                    let (from, to) = (from.min(*to), from.max(*to));
                    (from..=to).for_each(|byte| bytes.add(byte));
                    take_byte(rest);
                    take_byte(rest);
                }
                _ => bytes.add(byte),
            }
        }
        if inverted { ByteSet(bytes.0.map(|word| !word)) } else { bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_redis_documents_them() {
        let cases: &[(&str, &str, bool)] = &[
            ("*", "", true),
            ("*", "anything", true),
            ("", "", true),
            ("", "a", false),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h*llo", "hllo", true),
            ("h*llo", "heeeello", true),
            ("h*llo", "heeeell", false),
            ("h[ae]llo", "hallo", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hello", false),
            ("h[^e]llo", "hbllo", true),
            ("h[a-b]llo", "hallo", true),
            ("h[b-a]llo", "hallo", true),
            ("h[a-b]llo", "hcllo", false),
            ("h\\*llo", "h*llo", true),
            ("h\\*llo", "hxllo", false),
            ("rl:{*}:orders", "rl:{ak_42}:orders", true),
            ("[abc", "b", true),
            ("a\\", "a\\", true),
            ("[\\]]", "]", true),
            ("**a**", "xxaxx", true),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(Glob::new(pattern.as_bytes()).unwrap().is_match(text.as_bytes()), *expected, "{pattern} {text}");
        }
    }

    #[test]
    fn long_patterns_cross_words() {
        let literal = "x".repeat(200);
        let glob = Glob::new(format!("{literal}*y").as_bytes()).unwrap();
        assert!(glob.is_match(format!("{literal}zzzy").as_bytes()));
        assert!(!glob.is_match(format!("{literal}zzz").as_bytes()));
        assert!(Glob::new(&[b'a'; PATTERN_BYTES_MAX + 1]).is_none());
    }

    #[test]
    fn a_bomb_costs_no_more_than_its_length() {
        let pattern = "a*".repeat(500) + "b";
        let text = "a".repeat(60_000);
        assert!(!Glob::new(pattern.as_bytes()).unwrap().is_match(text.as_bytes()));
    }
}
