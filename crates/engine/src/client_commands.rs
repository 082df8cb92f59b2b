//! What one client does to others and to how it is treated: CLIENT KILL, PAUSE, REPLY, NO-EVICT and the like, MONITOR,
//! DEBUG SLEEP. The engine checks and decides; the shell, by an effect, ends, holds, shows and sleeps.

use crate::asker::split_asker;
use crate::bounds::SLEEP_SECONDS_MAX;
use crate::call::Call;
use crate::client_state::{Killed, Replies};
use crate::core::Core;
use crate::effect::Effect;
use crate::fragment::{sum_counts, write_count};
use crate::limit_commands::integer;
use crate::session::{Client, Session};
use tollgate_limits::Micros;
use tollgate_resp::{Reply, printable};

const SYNTAX: &str = "ERR syntax error";
const SECOND_MICROS: u64 = 1_000_000;

/// Which clients CLIENT KILL means.
#[derive(Debug, Default)]
struct Victims<'a> {
    id: Option<u64>,
    address: Option<&'a [u8]>,
    local_address: Option<&'a [u8]>,
    /// Another type than `normal`, which no client has.
    kind: Option<ClientType>,
    age_seconds_min: u64,
    skip_asker: bool,
    /// The one address of the form that came first: it must meet a client, and may be the asker's own.
    by_address_only: bool,
}

impl<'a> Victims<'a> {
    /// Of a call whose last argument is the asker's number; `given` are the arguments without it.
    fn parse(call: &Call<'a>, given: usize) -> Result<Victims<'a>, String> {
        if given == 3 {
            let address = Some(call.argument(2));
            return Ok(Victims { address, by_address_only: true, ..Victims::default() });
        }
        let mut victims = Victims { skip_asker: true, ..Victims::default() };
        let mut position = 2;
        while position < given {
            if position + 1 == given {
                return Err(SYNTAX.to_owned());
            }
            victims.add(call, position)?;
            position += 2;
        }
        Ok(victims)
    }

    /// Takes the filter at `position`, whose value follows it.
    fn add(&mut self, call: &Call<'a>, position: usize) -> Result<(), String> {
        let value = call.argument(position + 1);
        match call.argument(position).to_ascii_uppercase().as_slice() {
            b"ID" => self.id = Some(positive(value).ok_or("ERR client-id should be greater than 0")?),
            b"MAXAGE" => match whole(value) {
                None => return Err("ERR maxage is not an integer or out of range".to_owned()),
                Some(_) => self.age_seconds_min = positive(value).ok_or("ERR maxage should be greater than 0")?,
            },
            b"TYPE" => {
                let kind = ClientType::parse(value);
                self.kind = Some(kind.ok_or_else(|| format!("ERR Unknown client type '{}'", printable(value)))?);
            }
            b"ADDR" => self.address = Some(value),
            b"LADDR" => self.local_address = Some(value),
            // There is one user, and every client is this user.
            b"USER" if value == b"default" => {}
            b"USER" => return Err(format!("ERR No such user '{}'", printable(value))),
            b"SKIPME" => match value.to_ascii_lowercase().as_slice() {
                b"yes" => self.skip_asker = true,
                b"no" => self.skip_asker = false,
                _ => return Err(SYNTAX.to_owned()),
            },
            _ => return Err(SYNTAX.to_owned()),
        }
        Ok(())
    }

    fn means(&self, client: &Client, asker: u64, now: Micros) -> bool {
        let age_seconds = now.saturating_sub(client.since) / SECOND_MICROS;
        self.kind.is_none_or(|kind| kind.is_of(client))
            && client.state.killed.get() == Killed::No
            && self.id.is_none_or(|id| id == client.id)
            && self.address.is_none_or(|address| address == client.address.as_bytes())
            && self.local_address.is_none_or(|address| address == client.local_address.as_bytes())
            && age_seconds >= self.age_seconds_min
            && !(self.skip_asker && client.id == asker)
    }
}

/// A whole number as Redis reads one: no sign but a minus, no blanks, no leading zeros.
fn whole(text: &[u8]) -> Option<i64> {
    let number: i64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (number.to_string().as_bytes() == text).then_some(number)
}

fn positive(text: &[u8]) -> Option<u64> {
    whole(text).and_then(|number| u64::try_from(number).ok()).filter(|number| *number > 0)
}

/// One core's part of CLIENT KILL: marks its clients that are meant, and counts them.
pub fn client_kill_part(core: &mut Core, call: &Call<'_>, fragment: &mut Vec<u8>) {
    let (given, asker) = split_asker(call.args);
    let Ok(victims) = Victims::parse(call, given) else { return };
    let mut killed = 0;
    for client in core.clients.values().filter(|client| victims.means(client, asker, call.now)) {
        killed += 1;
        if client.id == asker {
            client.state.killed.set(Killed::AfterReply);
        } else {
            client.state.killed.set(Killed::AtOnce);
            core.effects.push(Effect::WakeClient(client.id));
        }
    }
    write_count(fragment, killed);
}

/// CLIENT KILL address | [ID id] [TYPE type] [USER user] [ADDR address] [LADDR address] [SKIPME yes | no] [MAXAGE s].
pub fn client_kill_merge(fragments: &[&[u8]], call: &Call<'_>, reply: &mut Reply<'_>) {
    let killed = sum_counts(fragments);
    match Victims::parse(call, split_asker(call.args).0) {
        Err(text) => reply.error(&text),
        Ok(victims) if !victims.by_address_only => reply.integer(integer(killed)),
        Ok(_) if killed == 0 => reply.error("ERR No such client"),
        Ok(_) => reply.simple("OK"),
    }
}

/// CLIENT PAUSE timeout [WRITE | ALL].
pub fn client_pause(core: &mut Core, _session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    let all = match call.args.len() {
        3 => true,
        4 if call.is_word(3, "ALL") => true,
        4 if call.is_word(3, "WRITE") => false,
        4 => return reply.error("ERR CLIENT PAUSE mode must be WRITE or ALL"),
        _ => return reply.error("ERR wrong number of arguments for 'client|pause' command"),
    };
    match whole(call.argument(2)).map(u64::try_from) {
        None => reply.error("ERR timeout is not an integer or out of range"),
        Some(Err(_)) => reply.error("ERR timeout is negative"),
        Some(Ok(milliseconds)) => {
            core.effects.push(Effect::Pause { milliseconds, all });
            reply.simple("OK");
        }
    }
}

/// CLIENT UNPAUSE.
pub fn client_unpause(core: &mut Core, _session: &mut Session, _call: &Call<'_>, reply: &mut Reply<'_>) {
    core.effects.push(Effect::Unpause);
    reply.simple("OK");
}

/// CLIENT REPLY ON | OFF | SKIP. What OFF and SKIP answer is nothing.
pub fn client_reply(_core: &mut Core, session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    if call.is_word(2, "ON") {
        session.replies = Replies::On;
        reply.simple("OK");
    } else if call.is_word(2, "OFF") {
        session.replies = Replies::Off;
    } else if call.is_word(2, "SKIP") {
        if session.replies != Replies::Off {
            session.replies = Replies::SkipNext;
        }
    } else {
        reply.error(SYNTAX);
    }
}

/// ON or OFF at position 2.
fn switch(call: &Call<'_>) -> Option<bool> {
    let (on, off) = (call.is_word(2, "ON"), call.is_word(2, "OFF"));
    (on || off).then_some(on)
}

/// CLIENT NO-EVICT ON | OFF. No client is ever ended to free memory, so this is noted and shown, and changes nothing.
pub fn client_no_evict(_core: &mut Core, session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    let Some(on) = switch(call) else { return reply.error(SYNTAX) };
    session.client.state.no_evict.set(on);
    reply.simple("OK");
}

/// CLIENT NO-TOUCH ON | OFF. Nothing here depends on when a key was last read, so this too is only noted and shown.
pub fn client_no_touch(_core: &mut Core, session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    let Some(on) = switch(call) else { return reply.error(SYNTAX) };
    session.client.state.no_touch.set(on);
    reply.simple("OK");
}

/// CLIENT TRACKING ON | OFF [option ...]. A counter that a client held a copy of would be a wrong one: ON is refused.
pub fn client_tracking(_core: &mut Core, _session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    let mut position = 3;
    while let Some(word) = call.args.get(position) {
        position += match word.to_ascii_uppercase().as_slice() {
            b"BCAST" | b"OPTIN" | b"OPTOUT" | b"NOLOOP" => 1,
            b"REDIRECT" | b"PREFIX" if call.args.get(position + 1).is_some() => 2,
            _ => return reply.error(SYNTAX),
        };
    }
    match switch(call) {
        Some(false) => reply.simple("OK"),
        Some(true) => reply.error("ERR client side caching is not offered: CLIENT TRACKING cannot be switched on"),
        None => reply.error(SYNTAX),
    }
}

/// CLIENT CACHING YES | NO.
pub fn client_caching(_core: &mut Core, _session: &mut Session, _call: &Call<'_>, reply: &mut Reply<'_>) {
    reply.error(
        "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
    );
}

/// CLIENT TRACKINGINFO: of a client that does not track, since none can.
pub fn client_trackinginfo(_core: &mut Core, _session: &mut Session, _call: &Call<'_>, reply: &mut Reply<'_>) {
    reply.map(3);
    reply.bulk_str("flags");
    reply.set(1);
    reply.bulk_str("off");
    reply.bulk_str("redirect");
    reply.integer(-1);
    reply.bulk_str("prefixes");
    reply.array(0);
}

/// CLIENT GETREDIR: -1, not tracking.
pub fn client_getredir(_core: &mut Core, _session: &mut Session, _call: &Call<'_>, reply: &mut Reply<'_>) {
    reply.integer(-1);
}

/// CLIENT UNBLOCK id [TIMEOUT | ERROR]: always 0, since there is no command that blocks.
pub fn client_unblock(_core: &mut Core, _session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    match call.args.len() {
        4 if !call.is_word(3, "TIMEOUT") && !call.is_word(3, "ERROR") => {
            reply.error("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR");
        }
        3 | 4 if whole(call.argument(2)).is_none() => reply.error("ERR value is not an integer or out of range"),
        3 | 4 => reply.integer(0),
        _ => reply.error("ERR wrong number of arguments for 'client|unblock' command"),
    }
}

/// MONITOR. The shell answers, since it knows whether too many do so already; said twice, it is answered once, as by
/// Redis.
pub fn monitor(core: &mut Core, session: &mut Session, _call: &Call<'_>, _reply: &mut Reply<'_>) {
    if !session.client.state.monitors.get() {
        core.effects.push(Effect::Monitor);
    }
}

/// One core's part of DEBUG SLEEP.
pub fn debug_sleep_part(core: &mut Core, call: &Call<'_>, _fragment: &mut Vec<u8>) {
    if let Some(micros) = sleep_micros(call) {
        core.effects.push(Effect::Sleep(micros));
    }
}

/// DEBUG SLEEP seconds: every core stands still.
pub fn debug_sleep_merge(_fragments: &[&[u8]], call: &Call<'_>, reply: &mut Reply<'_>) {
    match sleep_micros(call) {
        Some(_) => reply.simple("OK"),
        None => reply.error(&format!("ERR seconds must be a decimal number from 0 to {SLEEP_SECONDS_MAX}")),
    }
}

/// Digits with an optional decimal part, to the microsecond; finer digits are cut off.
fn sleep_micros(call: &Call<'_>) -> Option<u64> {
    let text = std::str::from_utf8(call.argument(2)).ok()?;
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    if !is_number(whole) || !is_number(part) {
        return None;
    }
    let micros = format!("{part:0<6}").get(..6)?.parse::<u64>().ok()?;
    let total = whole.parse::<u64>().ok()?.checked_mul(SECOND_MICROS)?.checked_add(micros)?;
    (total <= SLEEP_SECONDS_MAX * SECOND_MICROS).then_some(total)
}

/// Lines of CLIENT LIST in the order of their clients' numbers, which is that of their coming; with `ids`, in their
/// order.
pub fn in_order(fragments: &[&[u8]], ids: Option<&[u64]>) -> String {
    let text = fragments.concat();
    let text = String::from_utf8_lossy(&text);
    let number = |line: &str| line.strip_prefix("id=").and_then(|rest| rest.split(' ').next()?.parse::<u64>().ok());
    let mut lines: Vec<(u64, &str)> =
        text.split_inclusive('\n').map(|line| (number(line).unwrap_or(0), line)).collect();
    lines.sort_unstable();
    let found = |id: &u64| lines.binary_search_by_key(id, |(number, _)| *number).ok().and_then(|at| lines.get(at));
    match ids {
        None => lines.iter().map(|(_, line)| *line).collect(),
        Some(ids) => ids.iter().filter_map(found).map(|(_, line)| *line).collect(),
    }
}

/// What CLIENT LIST and CLIENT KILL call the type of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientType {
    /// One that asks and is answered.
    Normal,
    /// One that is told what a core holds.
    Replica,
    /// One that subscribes, or that is followed: there are none here.
    Nobody,
}

impl ClientType {
    /// The type of this name, in any case.
    pub fn parse(name: &[u8]) -> Option<ClientType> {
        match name.to_ascii_lowercase().as_slice() {
            b"normal" => Some(ClientType::Normal),
            b"replica" | b"slave" => Some(ClientType::Replica),
            b"master" | b"pubsub" => Some(ClientType::Nobody),
            _ => None,
        }
    }

    /// Whether a client is of it.
    pub fn is_of(self, client: &Client) -> bool {
        match self {
            ClientType::Normal => !client.state.is_replica.get(),
            ClientType::Replica => client.state.is_replica.get(),
            ClientType::Nobody => false,
        }
    }

    fn is_of_line(self, line: &str) -> bool {
        let is_replica = line.split(' ').any(|field| field.starts_with("flags=") && field.contains('S'));
        match self {
            ClientType::Normal => !is_replica,
            ClientType::Replica => is_replica,
            ClientType::Nobody => false,
        }
    }

    /// Of lines of CLIENT LIST those of clients of this type.
    pub fn among(self, lines: &str) -> String {
        lines.split_inclusive('\n').filter(|line| self.is_of_line(line)).collect()
    }
}
