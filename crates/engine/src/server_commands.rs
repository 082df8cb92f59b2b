//! Commands about the server: TIME, SHUTDOWN, CLUSTER KEYSLOT, RL.CLOCK.

use crate::bounds::CLOCK_MICROS_MAX;
use crate::call::Call;
use crate::core::Core;
use crate::effect::Effect;
use crate::limit_commands::integer;
use crate::session::Session;
use crate::settings::NotStarted;
use tollgate_limits::{parse_duration, parse_instant};
use tollgate_resp::{Reply, printable};
use tollgate_store::slot_of;

const SECOND_MICROS: u64 = 1_000_000;

/// TIME: unix seconds and microseconds of the core's time.
pub fn time(_core: &mut Core, _session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    reply.array(2);
    reply.bulk_str(&(call.now / SECOND_MICROS).to_string());
    reply.bulk_str(&(call.now % SECOND_MICROS).to_string());
}

/// SHUTDOWN [NOSAVE | SAVE] [NOW] [FORCE] [ABORT].
pub fn shutdown(core: &mut Core, _session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    let mut saves = None;
    for word in call.args.iter().skip(1) {
        match word.to_ascii_uppercase().as_slice() {
            b"NOW" | b"FORCE" => {}
            b"NOSAVE" if saves != Some(true) => saves = Some(false),
            b"SAVE" if saves != Some(false) => saves = Some(true),
            b"ABORT" => return reply.error("ERR No shutdown in progress."),
            _ => return reply.error("ERR syntax error"),
        }
    }
    if saves == Some(true) && !core.settings.process.persistence().can_save {
        return reply.error(&format!("ERR {}", NotStarted::NoDirectory));
    }
    core.effects.push(Effect::Shutdown { saves });
    core.effects.push(Effect::Close);
}

/// CLUSTER KEYSLOT key.
pub fn cluster_keyslot(_core: &mut Core, _session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    reply.integer(i64::from(slot_of(call.argument(2))));
}

/// RL.CLOCK [SET unix-time | ADVANCE duration].
pub fn rl_clock(core: &mut Core, _session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    if call.args.len() == 1 {
        return reply.integer(integer(call.now));
    }
    let target = match (call.is_word(1, "SET"), call.is_word(1, "ADVANCE"), call.args.len()) {
        (true, _, 3) => parse_instant(call.argument(2)).map_err(|error| format!("ERR unix time {error}")),
        (_, true, 3) => match parse_duration(call.argument(2)) {
            Ok(duration) => Ok(call.now.saturating_add(duration)),
            Err(error) => Err(format!("ERR duration {error}")),
        },
        (true, _, _) | (_, true, _) => Err("ERR wrong number of arguments for 'rl.clock' command".to_owned()),
        _ => Err(format!("ERR syntax error: RL.CLOCK takes SET or ADVANCE, not '{}'", printable(call.argument(1)))),
    };
    match target {
        Err(text) => reply.error(&text),
        Ok(_) if !core.settings.test_clock => {
            reply.error("ERR the clock can be moved only on a server started with --test-clock");
        }
        Ok(target) if target < call.now => reply.error("ERR the clock never runs backwards"),
        Ok(target) if target > CLOCK_MICROS_MAX => reply.error("ERR the clock cannot be set beyond the year 9999"),
        Ok(target) => {
            core.effects.push(Effect::SetClock(target));
            reply.simple("OK");
        }
    }
}
