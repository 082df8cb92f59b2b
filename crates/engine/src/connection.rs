//! Commands about the connection itself: PING ECHO QUIT RESET HELLO AUTH SELECT CLIENT.

use crate::bounds::CLIENT_NAME_BYTES_MAX;
use crate::call::Call;
use crate::client_commands::{ClientType, in_order};
use crate::client_state::Replies;
use crate::core::Core;
use crate::effect::Effect;
use crate::limit_commands::integer;
use crate::numbers::{check_database, parse_integer};
use crate::session::Session;
use crate::settings::REDIS_VERSION;
use crate::transaction::Transactions;
use tollgate_resp::{Args, Protocol, Reply, printable};

/// The reply to a command that needs a password first.
pub const NOAUTH: &str = "NOAUTH Authentication required.";
const WRONGPASS: &str = "WRONGPASS invalid username-password pair or user is disabled.";
const NO_PASSWORD_SET: &str = "ERR AUTH <password> called without any password configured for the default user. \
                               Are you sure your configuration is correct?";
const HELLO_NOAUTH: &str = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO \
                            <proto> AUTH <user> <pass> option can be used to authenticate the client and select the \
                            RESP protocol version at the same time";
const SYNTAX: &str = "ERR syntax error";
const BAD_NAME: &str = "ERR Client names cannot contain spaces, newlines or special characters.";

/// PING [message].
pub fn ping(_core: &mut Core, _session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    match call.args.len() {
        1 => reply.simple("PONG"),
        2 => reply.bulk(call.argument(1)),
        _ => reply.error("ERR wrong number of arguments for 'ping' command"),
    }
}

/// ECHO message.
pub fn echo(_core: &mut Core, _session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    reply.bulk(call.argument(1));
}

/// QUIT.
pub fn quit(core: &mut Core, _session: &mut Session, _call: &Call<'_>, reply: &mut Reply<'_>) {
    core.effects.push(Effect::Close);
    reply.simple("OK");
}

/// RESET: as if the client had just come.
pub fn reset(core: &mut Core, session: &mut Session, _call: &Call<'_>, reply: &mut Reply<'_>) {
    session.set_protocol(Protocol::Resp2);
    session.client.name.borrow_mut().clear();
    session.transactions = Transactions::default();
    session.client.state.reset();
    session.replies = Replies::On;
    session.authenticated = core.settings.password.is_none();
    core.effects.push(Effect::SessionChanged);
    reply.simple("RESET");
}

/// SELECT index: there is one database.
pub fn select(core: &mut Core, _session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    match check_database(call.argument(1)) {
        Err("ERR DB index is out of range") if core.settings.cluster => {
            reply.error("ERR SELECT is not allowed in cluster mode");
        }
        Ok(()) => reply.simple("OK"),
        Err(text) => reply.error(text),
    }
}

/// AUTH [username] password.
pub fn auth(core: &mut Core, session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    let (user, password): (&[u8], &[u8]) = match call.args.len() {
        2 => (b"default", call.argument(1)),
        3 => (call.argument(1), call.argument(2)),
        _ => return reply.error(SYNTAX),
    };
    if core.settings.password.is_none() && call.args.len() == 2 {
        return reply.error(NO_PASSWORD_SET);
    }
    match log_in(core, session, user, password) {
        true => reply.simple("OK"),
        false => reply.error(WRONGPASS),
    }
}

/// The only user is `default`; without a password any word is right for it, as in Redis.
fn are_right(core: &Core, user: &[u8], password: &[u8]) -> bool {
    // The password is checked for any user, so that the time tells nothing about which users there are.
    let password_fits = core.settings.password.as_ref().is_none_or(|check| check(password));
    password_fits && user == b"default"
}

fn log_in(core: &mut Core, session: &mut Session, user: &[u8], password: &[u8]) -> bool {
    let fits = are_right(core, user, password);
    if fits {
        session.authenticated = true;
        core.effects.push(Effect::SessionChanged);
    } else {
        core.counters.auth_failures.add(1);
    }
    fits
}

/// What a HELLO asks for.
struct Greeting<'a> {
    protocol: Protocol,
    /// User and password.
    credentials: Option<(&'a [u8], &'a [u8])>,
    name: Option<&'a [u8]>,
}

impl<'a> Greeting<'a> {
    /// Reads the arguments of a HELLO that comes while `protocol` is spoken; or the error's text.
    fn read(args: Args<'a>, protocol: Protocol) -> Result<Greeting<'a>, String> {
        let mut greeting = Greeting { protocol, credentials: None, name: None };
        if let Some(version) = args.get(1) {
            greeting.protocol = match parse_integer(version).ok() {
                Some(2) => Protocol::Resp2,
                Some(3) => Protocol::Resp3,
                Some(_) => return Err("NOPROTO unsupported protocol version".to_owned()),
                None => return Err("ERR Protocol version is not an integer or out of range".to_owned()),
            };
        }
        let mut position = 2;
        while let Some(word) = args.get(position) {
            match (args.get(position + 1), args.get(position + 2)) {
                (Some(user), Some(password)) if word.eq_ignore_ascii_case(b"AUTH") => {
                    greeting.credentials = Some((user, password));
                    position += 3;
                }
                (Some(name), _) if word.eq_ignore_ascii_case(b"SETNAME") => {
                    greeting.name = Some(name);
                    position += 2;
                }
                _ => return Err(format!("ERR Syntax error in HELLO option '{}'", printable(word))),
            }
        }
        Ok(greeting)
    }
}

/// The protocol that will be spoken behind a HELLO of an authenticated session that speaks `protocol` before it.
/// Nothing is changed or counted.
pub fn protocol_behind_hello(core: &Core, protocol: Protocol, args: Args<'_>) -> Protocol {
    let Ok(greeting) = Greeting::read(args, protocol) else { return protocol };
    let may_enter = greeting.credentials.is_none_or(|(user, password)| are_right(core, user, password));
    let is_named = greeting.name.is_none_or(|name| clean_name(name).is_some());
    if may_enter && is_named { greeting.protocol } else { protocol }
}

/// HELLO [2 | 3 [AUTH username password] [SETNAME name]].
pub fn hello(core: &mut Core, session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    let Greeting { protocol, credentials, name } = match Greeting::read(call.args, session.protocol) {
        Ok(greeting) => greeting,
        Err(text) => return reply.error(&text),
    };
    if let Some((user, password)) = credentials
        && !log_in(core, session, user, password)
    {
        return reply.error(WRONGPASS);
    }
    if !session.authenticated {
        return reply.error(HELLO_NOAUTH);
    }
    if let Some(name) = name
        && !set_name(session, name)
    {
        return reply.error(BAD_NAME);
    }
    session.set_protocol(protocol);
    core.effects.push(Effect::SessionChanged);
    reply.set_protocol(protocol);
    reply.map(7);
    for (field, value) in [("server", "redis"), ("version", REDIS_VERSION)] {
        reply.bulk_str(field);
        reply.bulk_str(value);
    }
    reply.bulk_str("proto");
    reply.integer(if protocol == Protocol::Resp3 { 3 } else { 2 });
    reply.bulk_str("id");
    reply.integer(integer(session.client.id));
    let role = if core.settings.shared.is_replica() { "replica" } else { "master" };
    let mode = if core.settings.cluster { "cluster" } else { "standalone" };
    for (field, value) in [("mode", mode), ("role", role)] {
        reply.bulk_str(field);
        reply.bulk_str(value);
    }
    reply.bulk_str("modules");
    reply.array(0);
}

/// CLIENT ID.
pub fn client_id(_core: &mut Core, session: &mut Session, _call: &Call<'_>, reply: &mut Reply<'_>) {
    reply.integer(integer(session.client.id));
}

/// CLIENT GETNAME.
pub fn client_getname(_core: &mut Core, session: &mut Session, _call: &Call<'_>, reply: &mut Reply<'_>) {
    let name = session.client.name.borrow();
    if name.is_empty() { reply.null() } else { reply.bulk_str(&name) }
}

/// CLIENT SETNAME name.
pub fn client_setname(_core: &mut Core, session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    match set_name(session, call.argument(2)) {
        true => reply.simple("OK"),
        false => reply.error(BAD_NAME),
    }
}

fn set_name(session: &Session, name: &[u8]) -> bool {
    let Some(name) = clean_name(name) else { return false };
    *session.client.name.borrow_mut() = name;
    true
}

/// Names are shown in lines of fields, so they hold visible ASCII only.
fn clean_name(name: &[u8]) -> Option<String> {
    let clean = name.len() <= CLIENT_NAME_BYTES_MAX && name.iter().all(u8::is_ascii_graphic);
    std::str::from_utf8(name).ok().filter(|_| clean).map(str::to_owned)
}

/// CLIENT SETINFO LIB-NAME | LIB-VER value.
pub fn client_setinfo(_core: &mut Core, session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    let (place, field) = if call.is_word(2, "LIB-NAME") {
        (&session.client.lib_name, "lib-name")
    } else if call.is_word(2, "LIB-VER") {
        (&session.client.lib_version, "lib-ver")
    } else {
        return reply.error(&format!("ERR Unrecognized option '{}'", printable(call.argument(2))));
    };
    match clean_name(call.argument(3)) {
        Some(value) => {
            *place.borrow_mut() = value;
            reply.simple("OK");
        }
        None => reply.error(&format!("ERR {field} cannot contain spaces, newlines or special characters.")),
    }
}

/// CLIENT INFO.
pub fn client_info(_core: &mut Core, session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    let mut line = session.client.line(call.now);
    line.push('\n');
    reply.verbatim_txt(&line);
}

/// One core's part of CLIENT LIST.
pub fn client_list_part(core: &mut Core, call: &Call<'_>, fragment: &mut Vec<u8>) {
    let wanted: Option<Vec<u64>> = call.is_word(2, "ID").then(|| {
        let numbers = call.args.iter().skip(3).filter_map(|id| std::str::from_utf8(id).ok()?.parse().ok());
        numbers.collect()
    });
    for client in core.clients.values() {
        if wanted.as_ref().is_none_or(|ids| ids.contains(&client.id)) {
            fragment.extend_from_slice(client.line(call.now).as_bytes());
            fragment.push(b'\n');
        }
    }
}

/// CLIENT LIST [TYPE type] [ID id ...].
pub fn client_list_merge(fragments: &[&[u8]], call: &Call<'_>, reply: &mut Reply<'_>) {
    let by_type = call.is_word(2, "TYPE") && call.args.len() == 4;
    let by_id = call.is_word(2, "ID") && call.args.len() > 3;
    if call.args.len() > 2 && !by_type && !by_id {
        return reply.error(SYNTAX);
    }
    let mut ids = None;
    if by_id {
        let number = |id: &[u8]| u64::try_from(parse_integer(id).ok()?).ok().filter(|id| *id > 0);
        ids = call.args.iter().skip(3).map(number).collect::<Option<Vec<u64>>>();
        if ids.is_none() {
            return reply.error("ERR Invalid client ID");
        }
    }
    let lines = in_order(fragments, ids.as_deref());
    if !by_type {
        return reply.verbatim_txt(&lines);
    }
    match ClientType::parse(call.argument(3)) {
        None => reply.error(&format!("ERR Unknown client type '{}'", printable(call.argument(3)))),
        Some(kind) => reply.verbatim_txt(&kind.among(&lines)),
    }
}
