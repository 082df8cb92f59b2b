//! The linear glob matcher against a naive one that goes back at each star, as Redis's own does.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use tollgate_engine::glob::{Glob, PATTERN_BYTES_MAX};

/// Whether `pattern` matches the whole of `text`, by trying every way.
fn naive(pattern: &[u8], text: &[u8]) -> bool {
    match pattern {
        [] => text.is_empty(),
        [b'*', rest @ ..] => (0..=text.len()).any(|skipped| naive(rest, &text[skipped..])),
        [b'[', rest @ ..] => {
            let [byte, text_rest @ ..] = text else { return false };
            let (is_in, after) = naive_set(rest, *byte);
            is_in && naive(after, text_rest)
        }
        [b'?', rest @ ..] => !text.is_empty() && naive(rest, &text[1..]),
        [b'\\', literal, rest @ ..] | [literal, rest @ ..] => text.first() == Some(literal) && naive(rest, &text[1..]),
    }
}

/// Whether the set that begins here (after its `[`) holds the byte, and what follows the set.
fn naive_set(set: &[u8], byte: u8) -> (bool, &[u8]) {
    let is_inverted = set.first() == Some(&b'^');
    let mut rest = if is_inverted { &set[1..] } else { set };
    let mut is_in = false;
    loop {
        match rest {
            [] => return (is_in != is_inverted, rest),
            [b'\\', escaped, after @ ..] => {
                is_in |= *escaped == byte;
                rest = after;
            }
            [b']', after @ ..] => return (is_in != is_inverted, after),
            [from, b'-', to, after @ ..] => {
                is_in |= (from.min(to)..=from.max(to)).contains(&&byte);
                rest = after;
            }
            [literal, after @ ..] => {
                is_in |= *literal == byte;
                rest = after;
            }
        }
    }
}

/// Patterns of the bytes that mean something, and few letters, so that much matches.
fn patterns() -> impl Strategy<Value = Vec<u8>> {
    vec(select(b"aab**?[]^-\\c".to_vec()), 0..14)
}

fn texts() -> impl Strategy<Value = Vec<u8>> {
    vec(select(b"aaabbc]-^\\[*".to_vec()), 0..10)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_matchers_agree(pattern in patterns(), text in texts()) {
        let glob = Glob::new(&pattern).expect("a short pattern");
        prop_assert_eq!(glob.is_match(&text), naive(&pattern, &text));
    }

    #[test]
    fn both_agree_on_any_bytes(pattern in vec(any::<u8>(), 0..6), text in vec(any::<u8>(), 0..6)) {
        let glob = Glob::new(&pattern).expect("a short pattern");
        prop_assert_eq!(glob.is_match(&text), naive(&pattern, &text));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_agree_where_a_pattern_spans_several_words(
        parts in vec(select(vec!["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "b", "?", "[ab]", "aaaaaaa"]), 0..12),
        star in any::<proptest::sample::Index>(),
        letters in vec(select(b"aaaaaaaaaaaaaaaab".to_vec()), 0..160),
    ) {
        let mut pattern = parts.concat().into_bytes();
        let exact = pattern.iter().map(|byte| if *byte == b'?' { b'x' } else { *byte }).collect::<Vec<_>>();
        pattern.insert(star.index(pattern.len() + 1), b'*');
        let glob = Glob::new(&pattern).expect("a pattern within the bound");
        for text in [&letters, &exact] {
            prop_assert_eq!(glob.is_match(text), naive(&pattern, text));
        }
    }
}

#[test]
fn a_pattern_is_bounded() {
    assert!(Glob::new(&[b'*'; PATTERN_BYTES_MAX]).is_some_and(|glob| glob.is_match(b"anything")));
    assert!(Glob::new(&[b'*'; PATTERN_BYTES_MAX + 1]).is_none());
    assert!(Glob::new(&[b'?'; PATTERN_BYTES_MAX]).is_some_and(|glob| glob.is_match(&[b'x'; PATTERN_BYTES_MAX])));
}
