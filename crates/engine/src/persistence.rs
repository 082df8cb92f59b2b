//! Commands about snapshots.

use crate::call::Call;
use crate::core::Core;
use crate::effect::Effect;
use crate::limit_commands::integer;
use crate::session::Session;
use crate::settings::{NotStarted, Pace};
use tollgate_resp::Reply;

/// SAVE. It is answered once the snapshot is written, and nobody else waits for it.
pub fn save(core: &mut Core, _session: &mut Session, _call: &Call<'_>, reply: &mut Reply<'_>) {
    match core.settings.process.start_snapshot(Pace::AtOnce) {
        Ok(number) => core.effects.push(Effect::AwaitSnapshot(number)),
        Err(error) => reply.error(&format!("ERR {error}")),
    }
}

/// BGSAVE [SCHEDULE].
pub fn bgsave(core: &mut Core, _session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    let is_scheduled = match call.args.len() {
        1 => false,
        2 if call.is_word(1, "SCHEDULE") => true,
        _ => return reply.error("ERR syntax error"),
    };
    match core.settings.process.start_snapshot(Pace::Gentle) {
        Ok(_) => reply.simple("Background saving started"),
        Err(NotStarted::IsRunning) if is_scheduled => {
            core.settings.process.schedule_snapshot();
            reply.simple("Background saving scheduled");
        }
        Err(error) => reply.error(&format!("ERR {error}")),
    }
}

/// LASTSAVE: when the last snapshot was written, in Unix seconds.
pub fn lastsave(core: &mut Core, _session: &mut Session, _call: &Call<'_>, reply: &mut Reply<'_>) {
    reply.integer(integer(core.settings.process.persistence().last_save_seconds));
}
