//! ACL: there is one user, `default`, who may do everything once it has given the password.

use crate::call::Call;
use crate::core::Core;
use crate::numbers::parse_integer;
use crate::registry::rows;
use crate::session::Session;
use crate::slowlog::wrong_number;
use std::collections::BTreeSet;
use tollgate_resp::{Reply, printable};

/// The only user.
const DEFAULT_USER: &str = "default";
/// What stands for a password: neither it nor its hash is shown.
const HIDDEN_PASSWORD: &str = "#(hidden)";
/// Bits of a generated password, and how many may be asked for.
const GENERATED_BITS: usize = 256;
const GENERATED_BITS_MAX: i64 = 4096;

/// ACL WHOAMI.
pub fn whoami(_core: &mut Core, _session: &mut Session, _call: &Call<'_>, reply: &mut Reply<'_>) {
    reply.bulk_str(DEFAULT_USER);
}

/// ACL USERS.
pub fn users(_core: &mut Core, _session: &mut Session, _call: &Call<'_>, reply: &mut Reply<'_>) {
    reply.array(1);
    reply.bulk_str(DEFAULT_USER);
}

/// ACL LIST: the rules of the user, a line.
pub fn list(core: &mut Core, _session: &mut Session, _call: &Call<'_>, reply: &mut Reply<'_>) {
    let password = if core.settings.password.is_some() { HIDDEN_PASSWORD } else { "nopass" };
    reply.array(1);
    reply.bulk_str(&format!("user {DEFAULT_USER} on {password} ~* &* +@all"));
}

/// ACL GETUSER name.
pub fn getuser(core: &mut Core, _session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    if call.argument(2) != DEFAULT_USER.as_bytes() {
        return reply.null();
    }
    let has_password = core.settings.password.is_some();
    let flags: &[&str] = if has_password { &["on"] } else { &["on", "nopass"] };
    let passwords: &[&str] = if has_password { &[HIDDEN_PASSWORD] } else { &[] };
    reply.map(6);
    reply.bulk_str("flags");
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.bulk_str(flag));
    reply.bulk_str("passwords");
    reply.array(passwords.len());
    passwords.iter().for_each(|password| reply.bulk_str(password));
    for (field, rule) in [("commands", "+@all"), ("keys", "~*"), ("channels", "&*")] {
        reply.bulk_str(field);
        reply.bulk_str(rule);
    }
    reply.bulk_str("selectors");
    reply.array(0);
}

/// ACL CAT [category]: the categories of the command table, or the commands of one.
pub fn cat(_core: &mut Core, _session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    let names: BTreeSet<&str> = match call.args.len() {
        2 => rows().iter().flat_map(|row| row.categories).map(|name| name.trim_start_matches('@')).collect(),
        3 => {
            let wanted = format!("@{}", call.text(2).to_ascii_lowercase());
            let fits = |categories: &[&str]| categories.iter().any(|category| *category == wanted);
            rows().iter().filter(|row| fits(row.categories)).map(|row| row.name).collect()
        }
        _ => return reply.error(&wrong_number(call)),
    };
    if names.is_empty() {
        return reply.error(&format!("ERR Unknown category '{}'", printable(call.argument(2))));
    }
    reply.array(names.len());
    names.iter().for_each(|name| reply.bulk_str(name));
}

/// ACL GENPASS [bits]: a password of so many random bits, in hexadecimal digits.
pub fn genpass(core: &mut Core, _session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    let bits = match call.args.get(2) {
        _ if call.args.len() > 3 => return reply.error(&wrong_number(call)),
        None => GENERATED_BITS,
        Some(text) => match parse_integer(text).ok() {
            None => return reply.error("ERR value is not an integer or out of range"),
            Some(bits @ 1..=GENERATED_BITS_MAX) => usize::try_from(bits).unwrap_or(GENERATED_BITS),
            Some(_) => {
                return reply.error(
                    "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number \
                     up to 4096",
                );
            }
        },
    };
    let digits = bits.div_ceil(4);
    let mut bytes = vec![0; digits.div_ceil(2)];
    if !core.settings.process.fill_random(&mut bytes) {
        return reply.error("ERR the system gives no random bytes");
    }
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    reply.bulk_str(text.get(..digits).unwrap_or(&text));
}

/// ACL SETUSER, DELUSER, LOAD, SAVE, LOG, DRYRUN: users beside `default` come with a later version.
pub fn not_yet(_core: &mut Core, _session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    let word = printable(call.argument(1)).to_ascii_uppercase();
    reply.error(&format!("ERR ACL {word} is not there yet: the only user is '{DEFAULT_USER}', with --requirepass"));
}
