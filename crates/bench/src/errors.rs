//! What error replies said, and how often each text came.
//!
//! A run against a server in trouble can get millions of errors, each with a text of its own. A bounded number of texts
//! is told apart, and the rest is counted together.

/// More different texts than this are not told apart.
const TEXTS_MAX: usize = 16;

/// Errors whose text names a place: the same trouble has another text for each key.
const PLACED: [&str; 2] = ["MOVED", "ASK"];

/// Where an unknown command's text goes on with the arguments, of which one is the key.
const ARGUMENTS: &str = ", with args beginning with:";

/// Error texts and their counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ErrorTexts {
    counts: Vec<(String, u64)>,
    others: u64,
}

impl ErrorTexts {
    /// Counts one error reply; `text` is what followed its first byte.
    pub(crate) fn count(&mut self, text: &[u8]) {
        let is_known = |(known, _): &&mut (String, u64)| known.as_bytes() == text;
        if let Some((_, count)) = self.counts.iter_mut().find(is_known) {
            *count = count.saturating_add(1);
            return;
        }
        let text = String::from_utf8_lossy(text);
        let code = text.split(' ').next().unwrap_or_default();
        let common = match text.split_once(ARGUMENTS) {
            _ if PLACED.contains(&code) => code,
            Some((common, _)) => common,
            None => &text,
        };
        self.add(common, 1);
    }

    /// Adds what another thread counted.
    pub(crate) fn merge(&mut self, other: &ErrorTexts) {
        for (text, count) in &other.counts {
            self.add(text, *count);
        }
        self.others = self.others.saturating_add(other.others);
    }

    /// Texts and counts, the most frequent first; what was not told apart comes last.
    pub(crate) fn by_count(&self) -> Vec<(String, u64)> {
        let mut sorted = self.counts.clone();
        // A stable sort: among equals the one that came first is first.
        sorted.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        if self.others > 0 {
            sorted.push(("other texts".to_owned(), self.others));
        }
        sorted
    }

    /// Errors whose text begins with one of these codes.
    pub(crate) fn of_codes(&self, codes: &[&str]) -> u64 {
        let is_one = |text: &str| text.split(' ').next().is_some_and(|code| codes.contains(&code));
        self.counts.iter().filter(|(text, _)| is_one(text)).map(|(_, count)| *count).fold(0, u64::saturating_add)
    }

    /// Counts several errors of one text.
    pub(crate) fn add(&mut self, text: &str, more: u64) {
        if let Some((_, count)) = self.counts.iter_mut().find(|(known, _)| known == text) {
            *count = count.saturating_add(more);
        } else if self.counts.len() < TEXTS_MAX {
            self.counts.push((text.to_owned(), more));
        } else {
            self.others = self.others.saturating_add(more);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(texts: &[&str]) -> ErrorTexts {
        let mut counts = ErrorTexts::default();
        texts.iter().for_each(|text| counts.count(text.as_bytes()));
        counts
    }

    fn check(counts: &ErrorTexts, expected: &[(&str, u64)]) {
        let found = counts.by_count();
        let found: Vec<(&str, u64)> = found.iter().map(|(text, count)| (text.as_str(), *count)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn texts_are_counted_and_the_frequent_come_first() {
        check(&counted(&[]), &[]);
        check(&counted(&["ERR a", "BUSY b", "ERR a"]), &[("ERR a", 2), ("BUSY b", 1)]);
        check(&counted(&["BUSY b", "ERR a"]), &[("BUSY b", 1), ("ERR a", 1)]);
        let unknown = |key| format!("ERR unknown command 'X', with args beginning with: '{key}' '1' ");
        check(&counted(&[&unknown(1), &unknown(2), "ERR x"]), &[("ERR unknown command 'X'", 2), ("ERR x", 1)]);
        check(&counted(&["MOVED 1 h:1", "MOVED 2 h:1", "ASK 3 h:2"]), &[("MOVED", 2), ("ASK", 1)]);
    }

    #[test]
    fn a_bounded_number_is_told_apart() {
        let texts: Vec<String> = (0..50).map(|number| format!("ERR {number}")).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let mut counts = counted(&texts);
        assert_eq!(counts.by_count().len(), TEXTS_MAX + 1);
        counts.merge(&counted(&["ERR 0", "ERR 49"]));
        let found = counts.by_count();
        assert_eq!(found.first(), Some(&("ERR 0".to_owned(), 2)));
        assert_eq!(found.last(), Some(&("other texts".to_owned(), 35)));
    }
}
