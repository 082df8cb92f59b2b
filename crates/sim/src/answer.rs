//! Replies and fragments, read back: what a client sees, and what one core wrote for another.

use std::fmt;

/// A value of a RESP2 reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// An integer.
    Number(i64),
    /// A simple or bulk string.
    Text(String),
    /// An error.
    Error(String),
    /// An array.
    List(Vec<Answer>),
}

impl fmt::Display for Answer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answer::Number(number) => write!(formatter, "{number}"),
            Answer::Text(text) => write!(formatter, "{text:?}"),
            Answer::Error(text) => write!(formatter, "-{text}"),
            Answer::List(list) => {
                let words: Vec<String> = list.iter().map(Answer::to_string).collect();
                write!(formatter, "[{}]", words.join(" "))
            }
        }
    }
}

/// The five integers of a limit's reply.
pub type Five = [i64; 5];

impl Answer {
    /// Reads one value off the front of `bytes`. `None` if it is not whole or no RESP2.
    pub fn read(bytes: &[u8]) -> Option<(Answer, &[u8])> {
        let (kind, rest) = bytes.split_first()?;
        let (line, rest) = split_line(rest)?;
        match kind {
            b':' => Some((Answer::Number(line.parse().ok()?), rest)),
            b'+' => Some((Answer::Text(line.to_owned()), rest)),
            b'-' => Some((Answer::Error(line.to_owned()), rest)),
            b'$' => {
                let (text, rest) = rest.split_at_checked(line.parse().ok()?)?;
                let rest = rest.strip_prefix(b"\r\n")?;
                Some((Answer::Text(String::from_utf8_lossy(text).into_owned()), rest))
            }
            b'*' => Answer::read_list(line.parse().ok()?, rest),
            _ => None,
        }
    }

    fn read_list(length: usize, bytes: &[u8]) -> Option<(Answer, &[u8])> {
        let mut rest = bytes;
        let mut list = Vec::new();
        for _ in 0..length {
            let (answer, behind) = Answer::read(rest)?;
            list.push(answer);
            rest = behind;
        }
        Some((Answer::List(list), rest))
    }

    /// All of `bytes` as one value.
    pub fn whole(bytes: &[u8]) -> Option<Answer> {
        Answer::read(bytes).filter(|(_, rest)| rest.is_empty()).map(|(answer, _)| answer)
    }

    /// The number, if it is one.
    pub fn number(&self) -> Option<i64> {
        if let Answer::Number(number) = self { Some(*number) } else { None }
    }

    /// The five integers, if it is that.
    pub fn five(&self) -> Option<Five> {
        let Answer::List(list) = self else { return None };
        let numbers: Vec<i64> = list.iter().filter_map(Answer::number).collect();
        numbers.try_into().ok().filter(|_| list.len() == 5)
    }

    /// `allowed`, `binding` and the fives of an RL.ALL, if it is that.
    pub fn all(&self) -> Option<(bool, i64, Vec<Five>)> {
        let Answer::List(list) = self else { return None };
        let [allowed, binding, fives @ ..] = list.as_slice() else { return None };
        let fives: Option<Vec<Five>> = fives.iter().map(Answer::five).collect();
        Some((allowed.number()? == 1, binding.number()?, fives?))
    }
}

/// What one core wrote about its groups of an RL.ALL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of them were charged.
    Charged(Vec<Five>),
    /// Some of them refused.
    Denied(Vec<Five>),
    /// The part failed, with this text.
    Failed(String),
}

impl Part {
    /// Reads a fragment. `None` if it is none.
    pub fn read(fragment: &[u8]) -> Option<Part> {
        let (status, body) = fragment.split_first()?;
        match status {
            0 => Some(Part::Denied(fives(body))),
            1 => Some(Part::Charged(fives(body))),
            2 => Some(Part::Failed(String::from_utf8_lossy(body).into_owned())),
            _ => None,
        }
    }
}

fn fives(body: &[u8]) -> Vec<Five> {
    let (numbers, _) = body.as_chunks::<8>();
    let (groups, _) = numbers.as_chunks::<5>();
    groups.iter().map(|group| group.map(i64::from_le_bytes)).collect()
}

/// The count at the front of a fragment of a command for several cores, and what follows.
pub fn split_count(fragment: &[u8]) -> Option<(u64, &[u8])> {
    let (count, rest) = fragment.split_first_chunk::<8>()?;
    Some((u64::from_le_bytes(*count), rest))
}

fn split_line(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let (line, rest) = bytes.split_at_checked(end)?;
    Some((std::str::from_utf8(line).ok()?, rest.get(2..)?))
}
