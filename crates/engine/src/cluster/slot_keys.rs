//! CLUSTER COUNTKEYSINSLOT and GETKEYSINSLOT: the keys of one slot, on the core that owns it; and whether there are any
//! keys at all.
//!
//! **Invariant:** a key that has expired is in no slot. A tool that moves what is in a slot asks until nothing is.

use super::NO_CLUSTER;
use crate::bounds::OUTPUT_BYTES_PAUSE;
use crate::call::Call;
use crate::core::Core;
use crate::fragment::write_count;
use crate::limit_commands::integer;
use crate::numbers::parse_integer;
use std::ops::ControlFlow;
use tollgate_resp::{Protocol, Reply};
use tollgate_store::{Content, SLOTS};

/// An argument as the number of a slot.
pub fn parse_slot(argument: &[u8]) -> Option<u16> {
    u16::try_from(parse_integer(argument).ok()?).ok().filter(|slot| *slot < SLOTS)
}

/// CLUSTER COUNTKEYSINSLOT slot.
pub fn count(core: &mut Core, call: &Call<'_>, reply: &mut Reply<'_>) {
    if !core.settings.cluster {
        return reply.error(NO_CLUSTER);
    }
    if let Err(failure) = parse_integer(call.argument(2)) {
        return reply.error(&failure.to_string());
    }
    match parse_slot(call.argument(2)) {
        Some(slot) => reply.integer(integer(core.store.slot_len(slot, call.now))),
        None => reply.error("ERR Invalid slot"),
    }
}

/// CLUSTER GETKEYSINSLOT slot count. Where they would be too much for one answer it names fewer: who asks for the keys
/// of a slot asks again until there are none.
pub fn get(core: &mut Core, call: &Call<'_>, reply: &mut Reply<'_>) {
    if !core.settings.cluster {
        return reply.error(NO_CLUSTER);
    }
    let (asked, most) = match (parse_integer(call.argument(2)), parse_integer(call.argument(3))) {
        (Ok(_), Ok(most)) => (parse_slot(call.argument(2)), usize::try_from(most)),
        (Err(failure), _) | (_, Err(failure)) => return reply.error(&failure.to_string()),
    };
    let (Some(slot), Ok(most)) = (asked, most) else {
        return reply.error("ERR Invalid slot or number of keys");
    };
    let (mut keys, mut count) = (Vec::new(), 0);
    let _ = core.store.for_each_in_slot(slot, call.now, &mut |_, key| {
        if count == most || keys.len() > OUTPUT_BYTES_PAUSE {
            return ControlFlow::Break(());
        }
        Reply::new(&mut keys, Protocol::Resp2).bulk(key);
        count += 1;
        ControlFlow::Continue(())
    });
    reply.array(count);
    reply.raw(&keys);
}

/// Whether a core holds any key: a step of a plan that only looks. Its fragment is a count, 0 or 1.
pub fn holds_any(
    core: &mut Core,
    call: &Call<'_>,
    _content: Option<Box<Content>>,
    fragment: &mut Vec<u8>,
) -> Option<Box<Content>> {
    let is_met = core.store.for_each(call.now, &mut |_, _| ControlFlow::Break(())).is_break();
    write_count(fragment, u64::from(is_met));
    None
}
