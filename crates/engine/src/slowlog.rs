//! SLOWLOG: the commands that took longest, with who sent them.
//!
//! Each core keeps the entries of its own clients in a ring; numbers come from one counter of the process, so that the
//! rings merge into one log, newest first. What is kept of a call is bounded, and secrets are not kept at all.

use crate::bounds::OUTPUT_BYTES_MAX;
use crate::call::Call;
use crate::core::Core;
use crate::fragment::{TOO_LONG, split_count, sum_counts, write_count};
use crate::limit_commands::integer;
use crate::numbers::parse_integer;
use crate::registry::Entry;
use crate::tunables::Tunable;
use std::collections::VecDeque;
use tollgate_limits::Micros;
use tollgate_resp::{Args, Protocol, Reply, printable};

/// The most arguments of a call that are kept, a note on those left out among them.
const ARGUMENTS_MAX: usize = 32;
/// The most bytes of an argument that are kept.
const ARGUMENT_BYTES_MAX: usize = 128;
/// Entries that SLOWLOG GET shows if it is not told how many.
const SHOWN_DEFAULT: usize = 10;
/// What stands in place of a secret.
const REDACTED: &[u8] = b"(redacted)";
/// The place of the last word of the longest HELLO. What stands behind it is not looked at but hidden.
const HELLO_PLACE_MAX: usize = 6;
const COUNT_ERROR: &str = "ERR count should be greater than or equal to -1";

/// A call that took long, before its client's name is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowCall {
    micros: u64,
    at_seconds: u64,
    arguments: Vec<Vec<u8>>,
}

/// Who sent a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Author {
    /// `ip:port`.
    pub address: String,
    /// CLIENT SETNAME, empty if there is none.
    pub name: String,
}

impl SlowCall {
    /// What is kept of a call that took `micros`.
    pub fn new(entry: &Entry, args: Args<'_>, micros: u64, now: Micros) -> SlowCall {
        SlowCall { micros, at_seconds: now / 1_000_000, arguments: kept_arguments(entry.command.name, args) }
    }
}

fn kept_arguments(command: &str, args: Args<'_>) -> Vec<Vec<u8>> {
    let shown = if args.len() > ARGUMENTS_MAX { ARGUMENTS_MAX - 1 } else { args.len() };
    let mut kept: Vec<Vec<u8>> = args
        .iter()
        .enumerate()
        .take(shown)
        .map(|(at, argument)| if is_secret(command, args, at) { REDACTED.to_vec() } else { kept_bytes(argument) })
        .collect();
    if shown < args.len() {
        kept.push(format!("... ({} more arguments)", args.len() - shown).into_bytes());
    }
    kept
}

fn kept_bytes(argument: &[u8]) -> Vec<u8> {
    match argument.split_at_checked(ARGUMENT_BYTES_MAX) {
        Some((front, rest)) if !rest.is_empty() => {
            let mut kept = front.to_vec();
            kept.extend_from_slice(format!("... ({} more bytes)", rest.len()).as_bytes());
            kept
        }
        _ => argument.to_vec(),
    }
}

/// Whether the argument at `at` is, or may be, a password or a user's name.
pub(crate) fn is_secret(command: &str, args: Args<'_>, at: usize) -> bool {
    match command {
        // What is asked about here is a whole call of another command.
        "command|getkeys" | "command|getkeysandflags" => is_secret_within(&inner_name(args, 2), args, 2, at),
        "acl|dryrun" => at > 2 && is_secret_within(&inner_name(args, 3), args, 3, at),
        _ => is_secret_within(command, args, 0, at),
    }
}

/// The name, as a row has it, of the call that begins at `from`.
fn inner_name(args: Args<'_>, from: usize) -> String {
    let word = |at: usize| String::from_utf8_lossy(args.get(at).unwrap_or_default()).to_ascii_lowercase();
    match word(from).as_str() {
        container @ ("acl" | "config") => format!("{container}|{}", word(from + 1)),
        other => other.to_owned(),
    }
}

/// The same for a call whose name stands at `from`. Malformed calls are refused, but they are shown too: what stands
/// where a password may be meant is hidden whether or not it is one.
fn is_secret_within(command: &str, args: Args<'_>, from: usize, at: usize) -> bool {
    let Some(place) = at.checked_sub(from) else { return false };
    let is_auth = |at: usize| args.get(at).is_some_and(|argument| argument.eq_ignore_ascii_case(b"AUTH"));
    let names_a_secret = |at: usize| {
        let name = args.get(at).unwrap_or_default().to_ascii_lowercase();
        [&b"pass"[..], b"auth", b"secret"].iter().any(|part| name.windows(part.len()).any(|word| word == *part))
    };
    match command {
        "auth" => place > 0,
        "hello" => place > HELLO_PLACE_MAX || (from + 1..at).any(is_auth),
        "config|set" => place > 2 && place % 2 == 1 && names_a_secret(at - 1),
        "acl|setuser" => place > 2,
        _ => false,
    }
}

/// An entry of the log.
#[derive(Clone, Debug)]
struct Kept {
    id: u64,
    call: SlowCall,
    author: Author,
}

impl Kept {
    /// Its six elements. They are the same in both protocols.
    fn write(&self, reply: &mut Reply<'_>) {
        reply.array(6);
        reply.integer(integer(self.id));
        reply.integer(integer(self.call.at_seconds));
        reply.integer(integer(self.call.micros));
        reply.array(self.call.arguments.len());
        self.call.arguments.iter().for_each(|argument| reply.bulk(argument));
        reply.bulk_str(&self.author.address);
        reply.bulk_str(&self.author.name);
    }
}

/// One core's part of the slow log.
#[derive(Debug, Default)]
pub struct Slowlog {
    /// The oldest first.
    entries: VecDeque<Kept>,
    length_max: usize,
}

impl Slowlog {
    /// A log of at most so many entries.
    pub fn new(length_max: u64) -> Slowlog {
        let mut log = Slowlog::default();
        log.keep(length_max);
        log
    }

    /// Keeps at most so many entries from here on.
    pub fn keep(&mut self, length_max: u64) {
        self.length_max = usize::try_from(length_max).unwrap_or(usize::MAX);
        self.drop_oldest();
    }

    /// Adds a call.
    pub fn add(&mut self, id: u64, call: SlowCall, author: Author) {
        self.entries.push_back(Kept { id, call, author });
        self.drop_oldest();
    }

    fn drop_oldest(&mut self) {
        while self.entries.len() > self.length_max {
            self.entries.pop_front();
        }
    }
}

/// Too many arguments for a subcommand that takes some or none, in Redis's words.
pub(crate) fn wrong_number(call: &Call<'_>) -> String {
    let (container, word) = (printable(call.argument(0)).to_ascii_uppercase(), printable(call.argument(1)));
    format!("ERR unknown subcommand or wrong number of arguments for '{word}'. Try {container} HELP.")
}

/// How many entries a SLOWLOG GET asks for.
fn asked(call: &Call<'_>) -> Option<usize> {
    let Some(argument) = call.args.get(2) else { return Some(SHOWN_DEFAULT) };
    match parse_integer(argument).ok()? {
        -1 => Some(usize::MAX),
        count => usize::try_from(count).ok(),
    }
}

/// One core's part of SLOWLOG GET: the bound on all entries, then its newest, each with its number and its length.
pub fn get_part(core: &mut Core, call: &Call<'_>, fragment: &mut Vec<u8>) {
    write_count(fragment, core.settings.tunables.count(Tunable::SlowlogMaxLen));
    let mut entry = Vec::new();
    for kept in core.slowlog.entries.iter().rev().take(asked(call).unwrap_or(0)) {
        // The merge sees by the length that it was too much, and refuses the whole.
        if fragment.len() >= OUTPUT_BYTES_MAX {
            break;
        }
        entry.clear();
        kept.write(&mut Reply::new(&mut entry, Protocol::Resp2));
        write_count(fragment, kept.id);
        write_count(fragment, u64::try_from(entry.len()).unwrap_or(0));
        fragment.extend_from_slice(&entry);
    }
}

/// SLOWLOG GET [count]: newest first.
pub fn get_merge(fragments: &[&[u8]], call: &Call<'_>, reply: &mut Reply<'_>) {
    if call.args.len() > 3 {
        return reply.error(&wrong_number(call));
    }
    let Some(count) = asked(call) else { return reply.error(COUNT_ERROR) };
    let mut entries: Vec<(u64, &[u8])> = Vec::new();
    let mut length_max = 0;
    for (bound, body) in fragments.iter().filter_map(|fragment| split_count(fragment)) {
        length_max = usize::try_from(bound).unwrap_or(usize::MAX);
        entries.extend(Entries(body));
    }
    entries.sort_unstable_by_key(|(id, _)| std::cmp::Reverse(*id));
    entries.truncate(count.min(length_max));
    let bytes: usize = entries.iter().map(|(_, entry)| entry.len()).sum();
    if bytes >= OUTPUT_BYTES_MAX || fragments.iter().any(|fragment| fragment.len() >= OUTPUT_BYTES_MAX) {
        return reply.error(TOO_LONG);
    }
    reply.array(entries.len());
    entries.iter().for_each(|(_, entry)| reply.raw(entry));
}

/// Reads what [`get_part`] wrote, the bound left off.
struct Entries<'a>(&'a [u8]);

impl<'a> Iterator for Entries<'a> {
    type Item = (u64, &'a [u8]);

    fn next(&mut self) -> Option<(u64, &'a [u8])> {
        let (id, rest) = split_count(self.0)?;
        let (length, rest) = split_count(rest)?;
        let (entry, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        Some((id, entry))
    }
}

/// One core's part of SLOWLOG LEN: the bound on all entries, and how many it has.
pub fn len_part(core: &mut Core, _call: &Call<'_>, fragment: &mut Vec<u8>) {
    write_count(fragment, core.settings.tunables.count(Tunable::SlowlogMaxLen));
    write_count(fragment, u64::try_from(core.slowlog.entries.len()).unwrap_or(u64::MAX));
}

/// SLOWLOG LEN.
pub fn len_merge(fragments: &[&[u8]], _call: &Call<'_>, reply: &mut Reply<'_>) {
    let parts: Vec<_> = fragments.iter().filter_map(|fragment| split_count(fragment)).collect();
    let bound = parts.iter().map(|(bound, _)| *bound).min().unwrap_or(0);
    let counts: Vec<_> = parts.iter().map(|(_, counts)| *counts).collect();
    reply.integer(integer(sum_counts(&counts).min(bound)));
}

/// One core's part of SLOWLOG RESET.
pub fn reset_part(core: &mut Core, _call: &Call<'_>, _fragment: &mut Vec<u8>) {
    core.slowlog.entries.clear();
}

/// The reply of what cannot fail.
pub fn ok_merge(_fragments: &[&[u8]], _call: &Call<'_>, reply: &mut Reply<'_>) {
    reply.simple("OK");
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_resp::Span;

    fn kept(command: &str, words: &[&[u8]]) -> Vec<String> {
        let mut spans = Vec::new();
        let mut bytes = Vec::new();
        for word in words {
            let start = u32::try_from(bytes.len()).unwrap();
            bytes.extend_from_slice(word);
            spans.push(Span { start, end: u32::try_from(bytes.len()).unwrap() });
        }
        let kept = kept_arguments(command, Args::new(&bytes, &spans));
        kept.into_iter().map(|argument| String::from_utf8(argument).unwrap()).collect()
    }

    fn words(line: &str) -> Vec<&[u8]> {
        line.split(' ').map(str::as_bytes).collect()
    }

    #[test]
    fn secrets_are_not_kept() {
        for (command, line, expected) in [
            ("auth", "AUTH s3cret", "AUTH (redacted)"),
            ("auth", "auth me s3cret", "auth (redacted) (redacted)"),
            ("hello", "HELLO 3 AUTH me s3cret SETNAME x", "HELLO 3 AUTH (redacted) (redacted) (redacted) (redacted)"),
            ("hello", "HELLO 2 auth me two s3cret", "HELLO 2 auth (redacted) (redacted) (redacted)"),
            ("hello", "HELLO auth s3cret", "HELLO auth (redacted)"),
            ("hello", "HELLO 3 SETNAME x", "HELLO 3 SETNAME x"),
            ("config|set", "CONFIG SET requirepass s3cret timeout 5", "CONFIG SET requirepass (redacted) timeout 5"),
            ("acl|setuser", "ACL SETUSER me on >s3cret", "ACL SETUSER me (redacted) (redacted)"),
            ("acl|getuser", "ACL GETUSER me", "ACL GETUSER me"),
            ("acl|dryrun", "ACL DRYRUN me AUTH s3cret", "ACL DRYRUN me AUTH (redacted)"),
            ("acl|dryrun", "ACL DRYRUN auth GET k", "ACL DRYRUN auth GET k"),
            ("command|getkeys", "COMMAND GETKEYS AUTH s3cret", "COMMAND GETKEYS AUTH (redacted)"),
            (
                "command|getkeys",
                "COMMAND GETKEYS hello 3 auth me pw",
                "COMMAND GETKEYS hello 3 auth (redacted) (redacted)",
            ),
            ("command|getkeys", "COMMAND GETKEYS ACL SETUSER me >pw", "COMMAND GETKEYS ACL SETUSER me (redacted)"),
            (
                "command|getkeys",
                "COMMAND GETKEYS CONFIG SET requirepass pw",
                "COMMAND GETKEYS CONFIG SET requirepass (redacted)",
            ),
            ("command|getkeys", "COMMAND GETKEYS GET auth", "COMMAND GETKEYS GET auth"),
            ("get", "GET auth", "GET auth"),
        ] {
            assert_eq!(kept(command, &words(line)).join(" "), expected);
        }
    }

    #[test]
    fn long_calls_are_cut_as_redis_cuts_them() {
        let many = "DEL ".to_owned() + &vec!["k"; 40].join(" ");
        let cut = kept("del", &words(&many));
        assert_eq!((cut.len(), cut.last().map(String::as_str)), (32, Some("... (10 more arguments)")));
        let just = "DEL ".to_owned() + &vec!["k"; 31].join(" ");
        assert_eq!(kept("del", &words(&just)).join(" "), just);
        let long = [b'x'; 130];
        let shown = kept("echo", &[b"ECHO", &long, &long[..128]]);
        assert_eq!(shown[1], "x".repeat(128) + "... (2 more bytes)");
        assert_eq!(shown[2], "x".repeat(128));
    }
}
