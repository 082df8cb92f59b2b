//! What simulated clients ask, in a form that the checkers can read, and as the arguments that the server would see.

use std::fmt;
use tollgate_limits::{Algorithm, Mode, Policy, parse_rate, parse_window};

/// A limit as a client writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Limit or capacity.
    pub limit: u64,
    /// Window or rate, as written.
    pub width: &'static str,
}

impl Rule {
    /// The policy that it names. A width that cannot be read counts as one second, or one a second: the tables of
    /// widths hold none.
    pub fn policy(&self) -> Policy {
        let limit = self.limit;
        let text = self.width.as_bytes();
        let window = parse_window(text).or_else(|_| parse_window(b"1"));
        let rate = parse_rate(text).or_else(|_| parse_rate(b"1"));
        match (self.algorithm, window, rate) {
            (Algorithm::Slide, Ok(window), _) => Policy::Slide { limit, window },
            (Algorithm::Fixed, Ok(window), _) => Policy::Fixed { limit, window },
            (Algorithm::Log, Ok(window), _) => Policy::Log { limit, window },
            (Algorithm::Token, _, Ok(rate)) => Policy::Token { capacity: limit, rate },
            (Algorithm::Leak, _, Ok(rate)) => Policy::Leak { capacity: limit, rate },
            _ => unreachable!("one second is a window and one a second is a rate"),
        }
    }
}

/// One limit of an RL.ALL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// The key, by its position in the plan.
    pub key: usize,
    /// The limit.
    pub rule: Rule,
    /// Units.
    pub cost: u64,
}

/// One command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// `RL.<algorithm> key a b COST n [mode]`.
    Limit(Group, Mode),
    /// RL.ALL.
    All(Vec<Group>),
    /// DEL.
    Delete(Vec<usize>),
    /// EXISTS.
    Exists(Vec<usize>),
    /// TYPE.
    Type(usize),
    /// PTTL.
    Pttl(usize),
    /// KEYS *.
    Keys,
    /// ECHO of a text that no other request has.
    Echo(String),
    /// A call on this key that cannot be read, and what is wrong with it.
    Malformed(usize, Mistake),
}

impl fmt::Display for Request {
    /// As it is asked, with `key <position>` for the names of keys.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let highest = self.keys().into_iter().max().unwrap_or(0);
        let names: Vec<String> = (0..=highest).map(|key| format!("key{key}")).collect();
        let words = self.arguments(&names);
        let words: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
        write!(formatter, "{}", words.join(" "))
    }
}

/// What is wrong with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// A cost that is no number.
    Cost,
    /// A window that is no window.
    Window,
    /// An option that does not exist.
    Option,
    /// An RL.ALL with a key that comes twice.
    KeyTwice,
    /// No such command.
    Command,
}

impl Request {
    /// The keys, in the order of the arguments.
    pub fn keys(&self) -> Vec<usize> {
        match self {
            Request::Limit(group, _) => vec![group.key],
            Request::All(groups) => groups.iter().map(|group| group.key).collect(),
            Request::Delete(keys) | Request::Exists(keys) => keys.clone(),
            Request::Type(key) | Request::Pttl(key) | Request::Malformed(key, _) => vec![*key],
            Request::Keys | Request::Echo(_) => Vec::new(),
        }
    }

    /// The group of an RL.ALL or of a single call that concerns a key.
    pub fn group(&self, key: usize) -> Option<Group> {
        match self {
            Request::Limit(group, _) => Some(*group).filter(|group| group.key == key),
            Request::All(groups) => groups.iter().copied().find(|group| group.key == key),
            _ => None,
        }
    }

    /// The arguments as they come over the wire; `names` are the plan's keys.
    pub fn arguments(&self, names: &[String]) -> Vec<Vec<u8>> {
        let name = |key: &usize| names.get(*key).cloned().unwrap_or_default();
        let words: Vec<String> = match self {
            Request::Limit(group, mode) => limit_words(group, *mode, name(&group.key)),
            Request::All(groups) => {
                let each = groups.iter().flat_map(|group| group_words(group, name(&group.key)));
                std::iter::once("RL.ALL".to_owned()).chain(each).collect()
            }
            Request::Delete(keys) => std::iter::once("DEL".to_owned()).chain(keys.iter().map(name)).collect(),
            Request::Exists(keys) => std::iter::once("EXISTS".to_owned()).chain(keys.iter().map(name)).collect(),
            Request::Type(key) => vec!["TYPE".to_owned(), name(key)],
            Request::Pttl(key) => vec!["PTTL".to_owned(), name(key)],
            Request::Keys => vec!["KEYS".to_owned(), "*".to_owned()],
            Request::Echo(text) => vec!["ECHO".to_owned(), text.clone()],
            Request::Malformed(key, mistake) => mistaken(&name(key), *mistake),
        };
        words.into_iter().map(String::into_bytes).collect()
    }
}

fn limit_words(group: &Group, mode: Mode, name: String) -> Vec<String> {
    let Rule { algorithm, limit, width } = group.rule;
    let mut words = vec![format!("RL.{}", algorithm.word()), name, limit.to_string(), width.to_owned()];
    words.extend(["COST".to_owned(), group.cost.to_string()]);
    let option = match mode {
        Mode::Charge => None,
        Mode::Peek => Some("PEEK"),
        Mode::Partial => Some("PARTIAL"),
        Mode::Refund => Some("REFUND"),
    };
    words.extend(option.map(str::to_owned));
    words
}

fn group_words(group: &Group, name: String) -> [String; 5] {
    let Rule { algorithm, limit, width } = group.rule;
    [name, algorithm.word().to_owned(), limit.to_string(), width.to_owned(), group.cost.to_string()]
}

fn mistaken(name: &str, mistake: Mistake) -> Vec<String> {
    let text = match mistake {
        Mistake::Cost => format!("RL.SLIDE {name} 5 1 COST -1"),
        Mistake::Window => format!("RL.FIXED {name} 5 0.0001"),
        Mistake::Option => format!("RL.TOKEN {name} 5 1 COST 1 GENTLY"),
        Mistake::KeyTwice => format!("RL.ALL {name} SLIDE 5 1 1 {name} SLIDE 5 1 1"),
        Mistake::Command => format!("RL.GUESS {name} 5 1"),
    };
    text.split(' ').map(str::to_owned).collect()
}
