//! CONFIG: what the server was started with, and what of it can change while it runs.
//!
//! CONFIG SET goes to every core. Each part checks all pairs before it changes anything, and as all parts check the
//! same words they come to the same result: either every core has all the new values or none has any.

use crate::call::Call;
use crate::core::Core;
use crate::fragment::{ADMITTED, FAILED, split_status};
use crate::glob::Glob;
use crate::session::Session;
use crate::settings::Settings;
use crate::tunables::Tunable;
use tollgate_resp::{Reply, printable};

/// CONFIG GET pattern [pattern ...].
pub fn get(core: &mut Core, _session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    let Some(globs) = call.args.iter().skip(2).map(|p| Glob::new(&p.to_ascii_lowercase())).collect::<Option<Vec<_>>>()
    else {
        return reply.error("ERR pattern is too long");
    };
    let fits = |name: &str| globs.iter().any(|glob| glob.is_match(name.as_bytes()));
    let tunables = Tunable::ALL.map(|tunable| (tunable.name(), core.settings.tunables.text(tunable)));
    let fixed = core.settings.parameters.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let fixed = fixed.filter(|(name, _)| Tunable::find(name.as_bytes()).is_none());
    let all = tunables.iter().map(|(name, value)| (*name, value.as_str())).chain(fixed);
    let found: Vec<_> = all.filter(|(name, _)| fits(name)).collect();
    reply.map(found.len());
    for (name, value) in found {
        reply.bulk_str(name);
        reply.bulk_str(value);
    }
}

/// What a CONFIG SET asks for, all of it checked.
fn asked(settings: &Settings, call: &Call<'_>) -> Result<Vec<(Tunable, i64)>, String> {
    if call.args.len() % 2 == 1 {
        return Err("ERR syntax error".to_owned());
    }
    let failed = |name: &[u8], why: &str| {
        let name = printable(name);
        format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}")
    };
    let pairs: Vec<_> = (2..call.args.len()).step_by(2).map(|at| (call.argument(at), call.argument(at + 1))).collect();
    let mut named = Vec::new();
    for (name, value) in pairs {
        let is_fixed = || settings.parameters.iter().any(|(fixed, _)| fixed.as_bytes().eq_ignore_ascii_case(name));
        match Tunable::find(name) {
            Some(tunable) if named.iter().any(|(other, _, _)| *other == tunable) => {
                return Err(failed(name, "duplicate parameter"));
            }
            Some(tunable) => named.push((tunable, name, value)),
            None if is_fixed() => return Err(failed(name, "can't set immutable config")),
            None => {
                let name = printable(name);
                return Err(format!("ERR Unknown option or number of arguments for CONFIG SET - '{name}'"));
            }
        }
    }
    let checked = |(tunable, name, value): (Tunable, &[u8], &[u8])| match tunable.parse(value) {
        Ok(value) => Ok((tunable, value)),
        Err(why) => Err(failed(name, &why)),
    };
    named.into_iter().map(checked).collect()
}

/// One core's part of CONFIG SET: a status, and the text of the error.
pub fn set_part(core: &mut Core, call: &Call<'_>, fragment: &mut Vec<u8>) {
    match asked(&core.settings, call) {
        Ok(values) => {
            values.into_iter().for_each(|(tunable, value)| core.settings.tunables.set(tunable, value));
            core.follow_tunables();
            fragment.push(ADMITTED);
        }
        Err(text) => {
            fragment.push(FAILED);
            fragment.extend_from_slice(text.as_bytes());
        }
    }
}

/// CONFIG SET name value [name value ...].
pub fn set_merge(fragments: &[&[u8]], _call: &Call<'_>, reply: &mut Reply<'_>) {
    let mut failures = fragments.iter().filter_map(|fragment| split_status(fragment));
    match failures.find(|(status, _)| *status == FAILED) {
        Some((_, text)) => reply.error(&String::from_utf8_lossy(text)),
        None => reply.simple("OK"),
    }
}

/// One core's part of CONFIG RESETSTAT.
pub fn reset_part(core: &mut Core, _call: &Call<'_>, _fragment: &mut Vec<u8>) {
    core.store.reset_counts();
    core.counters.reset();
}

/// CONFIG REWRITE: brings the values that differ into the configuration file.
pub fn rewrite(core: &mut Core, _session: &mut Session, _call: &Call<'_>, reply: &mut Reply<'_>) {
    match core.settings.process.rewrite_config(&core.settings.tunables) {
        Ok(()) => reply.simple("OK"),
        Err(text) => reply.error(&format!("ERR {text}")),
    }
}
