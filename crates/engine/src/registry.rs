//! From a name on the wire to its row.
//!
//! Names have at most 16 bytes, so a name folded to lower case is two words, and finding its row is one multiplication
//! and usually one comparison.

use crate::command::{Command, Flags, Handler, KeyFn, Route};
use crate::table;
use std::sync::OnceLock;
use tollgate_resp::Args;

/// The longest name of a command that is not a subcommand.
const NAME_BYTES_MAX: usize = 16;
/// Places in the hash table: a power of two, several times the number of rows.
const PLACES: usize = 1024;

/// A row and its position among [`rows`], by which it is counted, and what every call asks of it, close together.
#[derive(Debug)]
pub struct Entry {
    /// The row.
    pub command: &'static Command,
    /// Its position.
    pub index: usize,
    /// The row's route.
    pub route: Route,
    /// Whether it may run before AUTH.
    pub before_auth: bool,
    /// Whether a batch ends with it: it may change how what follows is read, run or answered.
    pub ends_batch: bool,
    /// Whether it lacks the flag `fast`: such commands are always timed.
    pub is_slow: bool,
    /// What runs it, if that is a function of its key's core and it is flagged as fast.
    pub run: Option<KeyFn>,
    arguments_min: usize,
    arguments_max: usize,
    /// Where its subcommands lie among the entries.
    subcommands: std::ops::Range<usize>,
}

/// All rows by name.
#[derive(Debug)]
pub struct Registry {
    entries: Vec<Entry>,
    /// `None` for subcommands, which are found through their containers.
    names: Vec<Option<Folded>>,
    places: Box<[u16; PLACES]>,
}

impl Entry {
    fn new(command: &'static Command, index: usize) -> Entry {
        let wanted = usize::from(command.arity.unsigned_abs());
        let run = match command.handler {
            Handler::Key(run) if command.flags.has(Flags::FAST) => Some(run),
            _ => None,
        };
        Entry {
            command,
            index,
            route: command.route,
            before_auth: command.flags.has(Flags::NO_AUTH),
            // Just the commands that may come before AUTH are those that change who the client is.
            ends_batch: command.flags.has(Flags::NO_AUTH) || command.flags.has(Flags::ENDS_BATCH),
            is_slow: !command.flags.has(Flags::FAST),
            run,
            arguments_min: wanted,
            arguments_max: if command.arity < 0 { usize::MAX } else { wanted },
            subcommands: 0..0,
        }
    }

    /// Whether a call with `arguments` arguments, the name included, has as many as the row asks for.
    #[inline]
    pub fn accepts(&self, arguments: usize) -> bool {
        arguments >= self.arguments_min && arguments <= self.arguments_max
    }
}

/// The row for one key that a name was last found to stand for, under the very bytes of that name: a client sends the
/// same command again and again, and two comparisons are less than folding, hashing and looking up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recent {
    first: u64,
    last: u64,
    /// 0 before there is a row.
    length: usize,
    entry: Option<&'static Entry>,
}

impl Recent {
    /// The row, if this is its name in the same spelling.
    #[inline(always)]
    pub fn recall(&self, name: &[u8]) -> Option<&'static Entry> {
        let (Some(first), Some(last)) = (name.first_chunk::<8>(), name.last_chunk::<8>()) else {
            return self.recall_short(name);
        };
        if name.len() != self.length
            || u64::from_le_bytes(*first) != self.first
            || u64::from_le_bytes(*last) != self.last
        {
            return None;
        }
        self.entry
    }

    /// The same for a name below eight bytes. Not in line, so that longer ones pay nothing for it.
    #[inline(never)]
    fn recall_short(&self, name: &[u8]) -> Option<&'static Entry> {
        let is_same = name.len() == self.length && short_words(name)? == (self.first, self.last);
        if is_same { self.entry } else { None }
    }

    /// Keeps what `name` was found to stand for. Only commands for one key are kept: they are what is sent in great
    /// numbers, and none of them is a container, whose name alone does not say which row is meant.
    pub fn note(&mut self, name: &[u8], entry: &'static Entry) {
        if let Some((first, last)) = words(name)
            && entry.route == Route::Key
        {
            *self = Recent { first, last, length: name.len(), entry: Some(entry) };
        }
    }
}

/// The bytes of a name of at most 16 as two words that overlap, which saves the copy that padding would need: names of
/// one length are equal if and only if these are. `None` if it is empty or too long for a command.
#[inline]
fn words(name: &[u8]) -> Option<(u64, u64)> {
    match name.len() {
        8..=NAME_BYTES_MAX => Some((u64::from_le_bytes(*name.first_chunk()?), u64::from_le_bytes(*name.last_chunk()?))),
        _ => short_words(name),
    }
}

/// [`words`] of a name below eight bytes.
#[inline]
fn short_words(name: &[u8]) -> Option<(u64, u64)> {
    let length = name.len();
    match length {
        4..8 => Some((
            u64::from(u32::from_le_bytes(*name.first_chunk()?)),
            u64::from(u32::from_le_bytes(*name.last_chunk()?)),
        )),
        1..4 => {
            let [first, middle, last] =
                [name.first()?, name.get(length / 2)?, name.last()?].map(|byte| u64::from(*byte));
            Some((first | middle << 8, last))
        }
        _ => None,
    }
}

/// What a name stands for.
#[derive(Clone, Copy, Debug)]
pub enum Found {
    /// This row.
    Row(&'static Entry),
    /// No row.
    UnknownCommand,
    /// A container without such a subcommand.
    UnknownSubcommand(&'static Command),
}

/// The registry of this process.
pub fn registry() -> &'static Registry {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    REGISTRY.get_or_init(Registry::build)
}

/// All rows, subcommands after their containers, in the order of their indexes.
pub fn rows() -> Vec<&'static Command> {
    registry().entries.iter().map(|entry| entry.command).collect()
}

impl Registry {
    fn build() -> Registry {
        let mut registry = Registry { entries: Vec::new(), names: Vec::new(), places: Box::new([0; PLACES]) };
        for command in table::COMMANDS {
            registry.add(command);
            let first = registry.entries.len();
            for subcommand in command.subcommands {
                registry.add(subcommand);
            }
            let end = registry.entries.len();
            if let Some(container) = registry.entries.get_mut(first - 1) {
                container.subcommands = first..end;
            }
        }
        for index in 0..registry.entries.len() {
            registry.place(index);
        }
        registry
    }

    fn add(&mut self, command: &'static Command) {
        let index = self.entries.len();
        self.entries.push(Entry::new(command, index));
        self.names.push(if command.name.contains('|') { None } else { fold(command.name.as_bytes()) });
    }

    fn place(&mut self, index: usize) {
        let Some(&Some(name)) = self.names.get(index) else { return };
        let mut place = place_of(name);
        while self.places.get(place).is_some_and(|taken| *taken != 0) {
            place = (place + 1) % PLACES;
        }
        if let (Some(free), Ok(number)) = (self.places.get_mut(place), u16::try_from(index + 1)) {
            *free = number;
        }
    }

    /// The row of a call, its subcommand's if it is a container.
    #[inline]
    pub fn find(&'static self, args: Args<'_>) -> Found {
        let Some(entry) = args.get(0).and_then(|name| self.find_name(name)) else { return Found::UnknownCommand };
        if entry.subcommands.is_empty() {
            return Found::Row(entry);
        }
        self.find_subcommand(entry, args.get(1))
    }

    fn find_subcommand(&'static self, container: &'static Entry, word: Option<&[u8]>) -> Found {
        // Without a subcommand a container is called itself, and its arity decides.
        let Some(word) = word else { return Found::Row(container) };
        let rows = self.entries.get(container.subcommands.clone()).unwrap_or_default();
        match rows.iter().find(|row| row.command.word().as_bytes().eq_ignore_ascii_case(word)) {
            Some(row) => Found::Row(row),
            // COMMAND and RL.CLOCK answer something by themselves; what they do with other words is their own affair.
            None => Found::UnknownSubcommand(container.command),
        }
    }

    /// The row of a name that is not a subcommand's.
    #[inline]
    pub fn find_name(&'static self, name: &[u8]) -> Option<&'static Entry> {
        let folded = fold(name)?;
        let mut place = place_of(folded);
        loop {
            let index = usize::from(*self.places.get(place)?).checked_sub(1)?;
            if *self.names.get(index)? == Some(folded) {
                return self.entries.get(index);
            }
            place = (place + 1) % PLACES;
        }
    }

    /// The row of a full name, `container|subcommand` included.
    pub fn find_full_name(&'static self, name: &[u8]) -> Option<&'static Entry> {
        self.entries.iter().find(|entry| entry.command.name.as_bytes().eq_ignore_ascii_case(name))
    }

    /// The rows that are not subcommands.
    pub fn top_level(&'static self) -> impl Iterator<Item = &'static Entry> {
        self.entries.iter().filter(|entry| !entry.command.name.contains('|'))
    }
}

/// A name in lower case as two words and its length: names are equal if and only if these are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Folded {
    first: u64,
    last: u64,
    length: usize,
}

/// `None` if the name is empty or too long for a command.
#[inline]
fn fold(name: &[u8]) -> Option<Folded> {
    let (first, last) = words(name)?;
    Some(Folded { first: to_lower_case(first), last: to_lower_case(last), length: name.len() })
}

/// All bytes at once: the high bit of each byte says whether it is in A..=Z.
#[inline]
fn to_lower_case(word: u64) -> u64 {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    let seven = word & (ONES * 0x7f);
    let from_a = seven.wrapping_add(ONES * (0x80 - b'A' as u64));
    let above_z = seven.wrapping_add(ONES * (0x7f - b'Z' as u64));
    let upper = (from_a ^ above_z) & !word & (ONES * 0x80);
    word | (upper >> 2)
}

#[inline]
fn place_of(folded: Folded) -> usize {
    let mixed = (folded.first ^ folded.last.rotate_left(23)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    usize::try_from(mixed >> 54).unwrap_or(0) % PLACES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_found_in_any_case() {
        for entry in registry().top_level() {
            let name = entry.command.name;
            for spelled in [name.to_owned(), name.to_ascii_uppercase()] {
                assert_eq!(registry().find_name(spelled.as_bytes()).unwrap().command.name, name);
            }
        }
    }

    #[test]
    fn what_was_found_last_is_recalled_by_its_own_name_only() {
        let names = || registry().top_level().map(|entry| entry.command.name);
        for kept in names() {
            let mut recent = Recent::default();
            assert!(recent.recall(kept.as_bytes()).is_none());
            let entry = registry().find_name(kept.as_bytes()).unwrap();
            recent.note(kept.as_bytes(), entry);
            let is_kept = entry.route == Route::Key;
            for name in names() {
                let recalled = recent.recall(name.as_bytes()).map(|entry| entry.command.name);
                assert_eq!(recalled, (is_kept && name == kept).then_some(name), "{name} after {kept}");
            }
            assert!(recent.recall(kept.to_ascii_uppercase().as_bytes()).is_none());
            assert!(recent.recall(b"").is_none());
        }
    }

    #[test]
    fn what_is_no_command_is_not_found() {
        for name in ["", "\0", "get\0", "rl.slid", "rl.slidee", "a-name-that-is-far-too-long", "[et"] {
            assert!(registry().find_name(name.as_bytes()).is_none(), "{name:?}");
        }
    }

    #[test]
    fn folding_changes_letters_only() {
        for byte in 0..=255u8 {
            let word = u64::from_le_bytes([byte; 8]);
            assert_eq!(to_lower_case(word), u64::from_le_bytes([byte.to_ascii_lowercase(); 8]), "{byte}");
        }
    }

    #[test]
    fn names_of_any_length_are_told_apart() {
        let names: Vec<String> = (1..=NAME_BYTES_MAX).map(|length| "abcdefghijklmnop"[..length].to_owned()).collect();
        for name in &names {
            for other in &names {
                assert_eq!(fold(name.as_bytes()) == fold(other.as_bytes()), name == other, "{name} {other}");
            }
        }
        for length in 1..=NAME_BYTES_MAX {
            for place in 0..length {
                let mut other = names[length - 1].clone().into_bytes();
                other[place] = b'~';
                assert_ne!(fold(&other), fold(names[length - 1].as_bytes()));
            }
        }
    }
}
