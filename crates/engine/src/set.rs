//! The commands that give a key a value: SET SETNX SETEX PSETEX GETSET.
//!
//! All of them are one thing, a write with a condition, a lifetime and perhaps the old value as the answer; each reads
//! its own arguments into that.

use crate::call::Call;
use crate::core::Core;
use crate::deadline::{Deadline, Written};
use crate::failure::Failure;
use crate::limit_commands::refuse;
use crate::values::{check_length, find_value, read_value, write_value};
use tollgate_resp::{Args, Protocol, Reply};
use tollgate_store::{RecordId, Value};

/// When a write is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
    Always,
    /// NX.
    IfAbsent,
    /// XX.
    IfPresent,
}

/// What becomes of the time at which the key expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lifetime<'a> {
    /// It does not expire.
    Forever,
    /// KEEPTTL.
    Kept,
    /// A time, in the words of the call.
    Until(Written, &'a [u8]),
}

/// One write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Write<'a> {
    value: &'a [u8],
    condition: Condition,
    lifetime: Lifetime<'a>,
    /// GET: the old value is the answer.
    answers_old: bool,
}

/// What came of a write.
struct Outcome {
    is_written: bool,
    /// The old value as a reply, if it was asked for.
    old: Option<Vec<u8>>,
}

impl<'a> Write<'a> {
    fn plain(value: &'a [u8]) -> Write<'a> {
        Write { value, condition: Condition::Always, lifetime: Lifetime::Forever, answers_old: false }
    }

    /// The options of SET. As in Redis an option may be repeated, and of several times alike the last counts.
    fn read_set(args: Args<'a>) -> Result<Write<'a>, Failure> {
        let syntax_error = || Failure::Syntax("syntax error".to_owned());
        let mut write = Write::plain(args.get(2).unwrap_or_default());
        let mut position = 3;
        while let Some(word) = args.get(position) {
            position += 1;
            if let Some(written) = Written::from_word(word) {
                let argument = args.get(position).ok_or_else(syntax_error)?;
                position += 1;
                match write.lifetime {
                    Lifetime::Forever => {}
                    Lifetime::Until(before, _) if before == written => {}
                    Lifetime::Until(..) | Lifetime::Kept => return Err(syntax_error()),
                }
                write.lifetime = Lifetime::Until(written, argument);
                continue;
            }
            match (word.to_ascii_uppercase().as_slice(), write.condition, write.lifetime) {
                (b"NX", Condition::Always | Condition::IfAbsent, _) => write.condition = Condition::IfAbsent,
                (b"XX", Condition::Always | Condition::IfPresent, _) => write.condition = Condition::IfPresent,
                (b"GET", ..) => write.answers_old = true,
                (b"KEEPTTL", _, Lifetime::Forever | Lifetime::Kept) => write.lifetime = Lifetime::Kept,
                _ => return Err(syntax_error()),
            }
        }
        Ok(write)
    }

    /// Writes. `command` is named where its time is out of range.
    fn run(&self, core: &mut Core, call: &Call<'_>, command: &str, protocol: Protocol) -> Result<Outcome, Failure> {
        let deadline = match self.lifetime {
            Lifetime::Forever | Lifetime::Kept => None,
            Lifetime::Until(written, argument) => {
                Some(Deadline::read_positive(core, call, written, argument, command)?)
            }
        };
        check_length(core, self.value.len())?;
        let found = if self.answers_old { read_value(core, call)? } else { find_value(core, call)? };
        let old = self.answers_old.then(|| {
            let mut old = Vec::new();
            write_value(core, found, &mut Reply::new(&mut old, protocol));
            old
        });
        let is_written = match self.condition {
            Condition::Always => true,
            Condition::IfAbsent => found.is_none(),
            Condition::IfPresent => found.is_some(),
        };
        if is_written {
            self.put(core, call, found, deadline)?;
        }
        Ok(Outcome { is_written, old })
    }

    fn put(
        &self,
        core: &mut Core,
        call: &Call<'_>,
        found: Option<RecordId>,
        deadline: Option<Deadline>,
    ) -> Result<(), Failure> {
        let expires_at = match (self.lifetime, deadline) {
            (_, Some(deadline)) if deadline.has_passed(call.now) => {
                // What is expired as it is written is not there: neither the new value nor the old.
                if let Some(id) = found {
                    core.store.remove(call.at, id);
                }
                return Ok(());
            }
            (_, Some(deadline)) => Some(deadline.kept()),
            (Lifetime::Kept, None) => found.and_then(|id| core.store.expires_at(id)),
            (_, None) => None,
        };
        core.store.put_value(call.at, call.key(), found, Value::of(self.value), expires_at, call.now)?;
        Ok(())
    }
}

/// SET key value [NX | XX] [GET] [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds |
/// KEEPTTL].
pub fn set(core: &mut Core, call: &Call<'_>, reply: &mut Reply<'_>) {
    let outcome = Write::read_set(call.args).and_then(|write| write.run(core, call, "set", reply.protocol()));
    match outcome {
        Ok(Outcome { old: Some(old), .. }) => reply.raw(&old),
        Ok(Outcome { is_written: true, .. }) => reply.simple("OK"),
        Ok(_) => reply.null(),
        Err(failure) => refuse(core, &failure, reply),
    }
}

/// SETNX key value.
pub fn setnx(core: &mut Core, call: &Call<'_>, reply: &mut Reply<'_>) {
    let write = Write { condition: Condition::IfAbsent, ..Write::plain(call.argument(2)) };
    match write.run(core, call, "setnx", reply.protocol()) {
        Ok(outcome) => reply.integer(i64::from(outcome.is_written)),
        Err(failure) => refuse(core, &failure, reply),
    }
}

/// SETEX key seconds value.
pub fn setex(core: &mut Core, call: &Call<'_>, reply: &mut Reply<'_>) {
    set_for(core, call, Written::Ex, "setex", reply);
}

/// PSETEX key milliseconds value.
pub fn psetex(core: &mut Core, call: &Call<'_>, reply: &mut Reply<'_>) {
    set_for(core, call, Written::Px, "psetex", reply);
}

fn set_for(core: &mut Core, call: &Call<'_>, written: Written, command: &str, reply: &mut Reply<'_>) {
    let lifetime = Lifetime::Until(written, call.argument(2));
    let write = Write { lifetime, ..Write::plain(call.argument(3)) };
    match write.run(core, call, command, reply.protocol()) {
        Ok(_) => reply.simple("OK"),
        Err(failure) => refuse(core, &failure, reply),
    }
}

/// GETSET key value.
pub fn getset(core: &mut Core, call: &Call<'_>, reply: &mut Reply<'_>) {
    let write = Write { answers_old: true, ..Write::plain(call.argument(2)) };
    match write.run(core, call, "getset", reply.protocol()) {
        Ok(outcome) => reply.raw(&outcome.old.unwrap_or_default()),
        Err(failure) => refuse(core, &failure, reply),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_resp::Span;

    /// What a line of words is read as, without the value.
    fn read(line: &str) -> Option<(Condition, String, bool)> {
        let mut spans = Vec::new();
        let mut start = 0;
        for word in line.split(' ') {
            let end = start + u32::try_from(word.len()).unwrap();
            spans.push(Span { start, end });
            start = end + 1;
        }
        let write = Write::read_set(Args::new(line.as_bytes(), &spans)).ok()?;
        let lifetime = match write.lifetime {
            Lifetime::Forever => "forever".to_owned(),
            Lifetime::Kept => "kept".to_owned(),
            Lifetime::Until(written, argument) => format!("{written:?} {}", String::from_utf8_lossy(argument)),
        };
        assert_eq!(write.value, b"v");
        Some((write.condition, lifetime, write.answers_old))
    }

    #[test]
    fn options_come_in_any_order_and_case() {
        use Condition::{Always, IfAbsent, IfPresent};
        let table = [
            ("SET k v", Always, "forever", false),
            ("SET k v nx", IfAbsent, "forever", false),
            ("SET k v XX GET", IfPresent, "forever", true),
            ("SET k v get NX", IfAbsent, "forever", true),
            ("SET k v EX 10", Always, "Ex 10", false),
            ("SET k v px 10 xx", IfPresent, "Px 10", false),
            ("SET k v NX exat x GET", IfAbsent, "Exat x", true),
            ("SET k v PXAT 1", Always, "Pxat 1", false),
            ("SET k v KeepTtl", Always, "kept", false),
            ("SET k v EX 1 EX 2", Always, "Ex 2", false),
            ("SET k v NX NX GET GET KEEPTTL KEEPTTL", IfAbsent, "kept", true),
        ];
        for (line, condition, lifetime, answers_old) in table {
            assert_eq!(read(line), Some((condition, lifetime.to_owned(), answers_old)), "{line}");
        }
        let refused =
            ["NX XX", "XX NX", "EX", "EX 1 PX 1", "KEEPTTL EX 1", "EX 1 KEEPTTL", "PERSIST", "EXX 1", "1", ""];
        for options in refused {
            assert_eq!(read(&format!("SET k v {options}")), None, "{options}");
        }
    }
}
