//! The command of every call: read from one line as a shell would, rendered as RESP bytes with a hole for the key.
//!
//! All keys of a run have one length, so everything but the key's bytes is known beforehand: a template is literal
//! bytes and holes in turn, and rendering a call is copying.

use crate::error::BenchError;

const KEY_HOLE: &str = "{key}";
pub(crate) const SHA_HOLE: &str = "{sha}";

/// A command whose calls differ only in their key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template {
    pieces: Vec<Piece>,
    /// The command's name in upper case.
    name: String,
    /// The argument that holds the key, as text around the hole; none if the command has no key.
    key_argument: Option<(String, String)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Literal(Vec<u8>),
    Key,
}

impl Template {
    /// Reads a command line; `sha` takes the place of `{sha}`, and each key will be `key_bytes` long.
    pub(crate) fn parse(line: &str, sha: Option<&str>, key_bytes: usize) -> Result<Template, BenchError> {
        let mut words = split_words(line)?;
        for word in &mut words {
            if word.contains(SHA_HOLE) {
                let sha = sha.ok_or_else(|| BenchError::Arguments("{sha} in --command needs --script FILE".into()))?;
                *word = word.replace(SHA_HOLE, sha);
            }
        }
        let name = words.first().map(|word| word.to_ascii_uppercase());
        let name = name.ok_or_else(|| BenchError::Arguments("--command is empty".into()))?;
        let key_argument = words
            .iter()
            .find_map(|word| word.split_once(KEY_HOLE))
            .map(|(before, after)| (before.to_owned(), after.to_owned()));
        Ok(Template { pieces: render_pieces(&words, key_bytes), name, key_argument })
    }

    /// The command's name in upper case.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether calls have a key at all.
    pub(crate) fn has_key(&self) -> bool {
        self.key_argument.is_some()
    }

    /// Length of one call in bytes.
    pub(crate) fn call_bytes(&self, key_bytes: usize) -> usize {
        let piece_bytes = |piece: &Piece| match piece {
            Piece::Literal(bytes) => bytes.len(),
            Piece::Key => key_bytes,
        };
        self.pieces.iter().map(piece_bytes).sum()
    }

    /// Appends one call.
    pub(crate) fn render(&self, key: &[u8], out: &mut Vec<u8>) {
        for piece in &self.pieces {
            match piece {
                Piece::Literal(bytes) => out.extend_from_slice(bytes),
                Piece::Key => out.extend_from_slice(key),
            }
        }
    }

    /// Writes the whole key that the server will see: the hole may be only a part of the argument.
    pub(crate) fn server_key(&self, key: &[u8], out: &mut Vec<u8>) {
        out.clear();
        if let Some((before, after)) = &self.key_argument {
            out.extend_from_slice(before.as_bytes());
            out.extend_from_slice(key);
            out.extend_from_slice(after.as_bytes());
        }
    }
}

/// Appends a request that has no hole.
pub(crate) fn write_request(arguments: &[&str], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("*{}\r\n", arguments.len()).as_bytes());
    for argument in arguments {
        out.extend_from_slice(format!("${}\r\n{argument}\r\n", argument.len()).as_bytes());
    }
}

fn render_pieces(words: &[String], key_bytes: usize) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut literal = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        let holes = word.matches(KEY_HOLE).count();
        let length = word.len().saturating_sub(holes * KEY_HOLE.len()).saturating_add(holes * key_bytes);
        literal.extend_from_slice(format!("${length}\r\n").as_bytes());
        for (place, part) in word.split(KEY_HOLE).enumerate() {
            if place > 0 {
                pieces.push(Piece::Literal(std::mem::take(&mut literal)));
                pieces.push(Piece::Key);
            }
            literal.extend_from_slice(part.as_bytes());
        }
        literal.extend_from_slice(b"\r\n");
    }
    pieces.push(Piece::Literal(literal));
    pieces
}

/// Splits a line into words as a shell does: blanks part words, quotes keep them, a backslash takes the next
/// character as it is (between double quotes only before `"` and `\`, between single quotes never).
fn split_words(line: &str) -> Result<Vec<String>, BenchError> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut characters = line.chars().peekable();
    let unfinished = |what: &str| BenchError::Arguments(format!("--command ends inside {what}"));
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(open), close) if open == close => quote = None,
            (Some('"'), '\\') if matches!(characters.peek(), Some('"' | '\\')) => {
                word.get_or_insert_default().extend(characters.next());
            }
            (Some(_), other) => word.get_or_insert_default().push(other),
            (None, '"' | '\'') => {
                // Two quotes with nothing between are a word too: an empty one.
                word.get_or_insert_default();
                quote = Some(character);
            }
            (None, '\\') => {
                let next = characters.next().ok_or_else(|| unfinished("an escape"))?;
                word.get_or_insert_default().push(next);
            }
            (None, blank) if blank.is_whitespace() => words.extend(word.take()),
            (None, other) => word.get_or_insert_default().push(other),
        }
    }
    if quote.is_some() {
        return Err(unfinished("quotes"));
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(line: &str, key: &str) -> String {
        let template = Template::parse(line, Some("abc123"), key.len()).unwrap();
        let mut out = Vec::new();
        template.render(key.as_bytes(), &mut out);
        assert_eq!(template.call_bytes(key.len()), out.len());
        String::from_utf8(out).unwrap().replace("\r\n", " ")
    }

    #[test]
    fn calls_are_rendered_as_resp() {
        let cases = [
            ("RL.SLIDE {key} 100 60", "k1", "*4 $8 RL.SLIDE $2 k1 $3 100 $2 60 "),
            ("PING", "k1", "*1 $4 PING "),
            ("get rl:{hot}:{key}", "12", "*2 $3 get $11 rl:{hot}:12 "),
            (
                "RL.ALL {key}a SLIDE 1 60 1 {key}{key} SLIDE 1 60 1",
                "xy",
                "*11 $6 RL.ALL $3 xya $5 SLIDE $1 1 $2 60 $1 1 $4 xyxy $5 SLIDE $1 1 $2 60 $1 1 ",
            ),
            ("EVALSHA {sha} 1 {key} 100", "k", "*5 $7 EVALSHA $6 abc123 $1 1 $1 k $3 100 "),
            ("EVAL 'return {1, \"two\"}' 0", "k", "*3 $4 EVAL $17 return {1, \"two\"} $1 0 "),
        ];
        for (line, key, expected) in cases {
            assert_eq!(rendered(line, key), expected, "{line}");
        }
    }

    #[test]
    fn words_are_split_as_in_a_shell() {
        let cases: [(&str, &[&str]); 8] = [
            ("a b\tc", &["a", "b", "c"]),
            ("  a  ", &["a"]),
            ("'a b' \"c d\"", &["a b", "c d"]),
            ("a'b'\"c\"", &["abc"]),
            ("'' x \"\"", &["", "x", ""]),
            (r#"a\ b "q\"\\\n" 'r\s'"#, &["a b", "q\"\\\\n", "r\\s"]),
            ("'it'\\''s'", &["it's"]),
            ("", &[]),
        ];
        for (line, expected) in cases {
            assert_eq!(split_words(line).unwrap(), expected, "{line}");
        }
        for line in ["'a", "\"a", "a\\", "\"a\\\""] {
            assert!(split_words(line).is_err(), "{line}");
        }
    }

    #[test]
    fn templates_say_what_they_need() {
        assert!(Template::parse("", None, 1).is_err());
        assert!(Template::parse("EVALSHA {sha} 1 {key}", None, 1).is_err());
        let template = Template::parse("incr a{key}b", None, 1).unwrap();
        assert!(template.has_key());
        assert_eq!(template.name(), "INCR");
        let mut key = Vec::new();
        template.server_key(b"7", &mut key);
        assert_eq!(key, b"a7b");
    }
}
