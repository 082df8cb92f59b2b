//! What operators want changed: CLUSTER MEET, ADDSLOTS, ADDSLOTSRANGE, DELSLOTS, DELSLOTSRANGE, REPLICATE, FAILOVER,
//! SET-CONFIG-EPOCH and BUMPEPOCH.
//!
//! A command is read and checked here, in Redis's words, and becomes a wish: a value that the shell carries out, with
//! other nodes and in its own time, and answers then.

use super::nodes::named;
use super::{NO_CLUSTER, View};
use crate::call::Call;
use crate::cluster::slot_keys::parse_slot;
use crate::core::Core;
use crate::effect::Effect;
use crate::numbers::parse_integer;
use crate::session::Session;
use core::net::IpAddr;
use tollgate_resp::{Reply, printable};
use tollgate_topology::change::Change;
use tollgate_topology::slots::SlotSet;
use tollgate_topology::{NodeId, SlotMap};

/// How a replica is to take over from its primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failover {
    /// With its primary's help, so that nothing is lost.
    Asked,
    /// Whether or not its primary can help.
    Forced,
    /// The same. Redis does not ask the others then; here a majority is asked in any case.
    TakenOver,
}

/// What an operator wants of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterWish {
    /// This node's group and the node there become one.
    Meet {
        /// Where that node is reached.
        host: String,
        /// See `host`.
        port: u16,
        /// For nodes, if it is not the one that follows from `port`.
        peer_port: Option<u16>,
    },
    /// The map becomes otherwise.
    Propose(Change),
    /// The same, unless this node holds a key, which it would forget: [`NOT_EMPTY`] then.
    ProposeIfEmpty(Change),
    /// This replica takes over.
    FailOver(Failover),
}

/// The answer to what only a node without keys may do.
pub const NOT_EMPTY: &str = "ERR To set a master the node must be empty and without assigned slots.";

/// What a change that was made is answered with; `map` has it.
pub fn answer_to(change: &Change, is_changed: bool, map: &SlotMap) -> String {
    let Change::BumpEpoch { id } = change else { return "OK".to_owned() };
    let epoch = map.nodes.get(id).map_or(0, |node| node.config_epoch);
    format!("{} {epoch}", if is_changed { "BUMPED" } else { "STILL" })
}

/// Reads a wish with the view that holds now, and hands it to the shell, which will answer.
fn wish(
    core: &mut Core,
    call: &Call<'_>,
    reply: &mut Reply<'_>,
    read: impl FnOnce(&View, &Call<'_>) -> Result<ClusterWish, String>,
) {
    core.refresh_view();
    let Some(view) = core.view.clone() else { return reply.error(NO_CLUSTER) };
    match read(&view, call) {
        Ok(wish) => core.effects.push(Effect::Cluster(Box::new(wish))),
        Err(text) => reply.error(&text),
    }
}

/// CLUSTER MEET host port [peer-port].
pub fn meet(core: &mut Core, _session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    wish(core, call, reply, |_, call| {
        if call.args.len() > 5 {
            return Err(too_many("MEET"));
        }
        let shown = |position| printable(call.argument(position));
        let number = |position: usize, name: &str| {
            parse_integer(call.argument(position))
                .map_err(|_| format!("ERR Invalid TCP {name} port specified: {}", shown(position)))
        };
        let port = u16::try_from(number(3, "base")?).ok().filter(|port| *port > 0);
        let peer_port = match call.args.len() {
            5 => Some(u16::try_from(number(4, "bus")?).ok().filter(|port| *port > 0)),
            _ => None,
        };
        match (host(call.argument(2)), port, peer_port) {
            (Some(host), Some(port), None) => Ok(ClusterWish::Meet { host, port, peer_port: None }),
            (Some(host), Some(port), Some(Some(peer))) => Ok(ClusterWish::Meet { host, port, peer_port: Some(peer) }),
            _ => Err(format!("ERR Invalid node address specified: {}:{}", shown(2), shown(3))),
        }
    });
}

/// Bytes of a host's name, by RFC 1035.
const HOST_BYTES_MAX: usize = 253;

/// An address, or a name that may be one's: letters, digits, dots and hyphens, and not all of it digits and dots.
fn host(argument: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(argument).ok()?;
    let of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    let is_name = (1..=HOST_BYTES_MAX).contains(&text.len())
        && text.bytes().all(of_name)
        && !text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    (is_name || text.parse::<IpAddr>().is_ok()).then(|| text.to_owned())
}

fn too_many(word: &str) -> String {
    format!("ERR unknown subcommand or wrong number of arguments for '{word}'. Try CLUSTER HELP.")
}

/// CLUSTER ADDSLOTS slot [slot ...].
pub fn add_slots(core: &mut Core, _session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    wish(core, call, reply, |view, call| Ok(added(view.id, single_slots(call)?)));
}

/// CLUSTER ADDSLOTSRANGE first last [first last ...].
pub fn add_slots_range(core: &mut Core, _session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    wish(core, call, reply, |view, call| Ok(added(view.id, slot_ranges(call, "addslotsrange")?)));
}

/// CLUSTER DELSLOTS slot [slot ...].
pub fn del_slots(core: &mut Core, _session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    wish(core, call, reply, |view, call| Ok(deleted(view.id, single_slots(call)?)));
}

/// CLUSTER DELSLOTSRANGE first last [first last ...].
pub fn del_slots_range(core: &mut Core, _session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    wish(core, call, reply, |view, call| Ok(deleted(view.id, slot_ranges(call, "delslotsrange")?)));
}

fn added(id: NodeId, slots: SlotSet) -> ClusterWish {
    ClusterWish::Propose(Change::AddSlots { id, slots })
}

fn deleted(by: NodeId, slots: SlotSet) -> ClusterWish {
    ClusterWish::Propose(Change::DelSlots { by, lapsed: Default::default(), slots })
}

fn slot(argument: &[u8]) -> Result<u16, String> {
    parse_slot(argument).ok_or_else(|| "ERR Invalid or out of range slot".to_owned())
}

/// The slots that are named one by one.
fn single_slots(call: &Call<'_>) -> Result<SlotSet, String> {
    each_once(call.args.iter().skip(2).map(slot).collect::<Result<Vec<_>, _>>()?)
}

/// The slots that are named by their bounds.
fn slot_ranges(call: &Call<'_>, word: &str) -> Result<SlotSet, String> {
    if call.args.len() % 2 == 1 {
        return Err(format!("ERR wrong number of arguments for 'cluster|{word}' command"));
    }
    let mut slots = Vec::new();
    for position in (2..call.args.len()).step_by(2) {
        let (first, last) = (slot(call.argument(position))?, slot(call.argument(position + 1))?);
        if first > last {
            return Err(format!("ERR start slot number {first} is greater than end slot number {last}"));
        }
        slots.extend(first..=last);
        // Whatever comes behind is one too many already, and so many arguments could name many times as many slots.
        if slots.len() > usize::from(tollgate_store::SLOTS) {
            break;
        }
    }
    each_once(slots)
}

fn each_once(slots: Vec<u16>) -> Result<SlotSet, String> {
    let mut seen = vec![false; usize::from(tollgate_store::SLOTS)];
    for slot in &slots {
        if let Some(before) = seen.get_mut(usize::from(*slot))
            && std::mem::replace(before, true)
        {
            return Err(format!("ERR Slot {slot} specified multiple times"));
        }
    }
    Ok(SlotSet::new(slots))
}

/// CLUSTER REPLICATE node-id.
pub fn replicate(core: &mut Core, _session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    wish(core, call, reply, |view, call| {
        let (of, _) = named(view, call.argument(2))?;
        let change = Change::Replicate { id: view.id, of };
        // What the change itself would be refused for goes first, as in Redis.
        (*view.map).clone().apply(&change).map_err(|refused| refused.to_string())?;
        match view.map.leading(view.id) {
            Some(_) => Ok(ClusterWish::ProposeIfEmpty(change)),
            None => Ok(ClusterWish::Propose(change)),
        }
    });
}

/// CLUSTER FAILOVER [FORCE | TAKEOVER].
pub fn fail_over(core: &mut Core, _session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    wish(core, call, reply, |view, call| {
        let how = match call.args.len() {
            2 => Failover::Asked,
            3 if call.is_word(2, "FORCE") => Failover::Forced,
            3 if call.is_word(2, "TAKEOVER") => Failover::TakenOver,
            3 => return Err("ERR syntax error".to_owned()),
            _ => return Err(too_many("FAILOVER")),
        };
        match view.map.followed_by(view.id) {
            None => Err("ERR You should send CLUSTER FAILOVER to a replica".to_owned()),
            Some(primary) if how == Failover::Asked && view.is_silent(primary) => {
                Err("ERR Master is down or failed, please use CLUSTER FAILOVER FORCE".to_owned())
            }
            Some(_) => Ok(ClusterWish::FailOver(how)),
        }
    });
}

/// CLUSTER SET-CONFIG-EPOCH epoch.
pub fn set_config_epoch(core: &mut Core, _session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    wish(core, call, reply, |view, call| {
        let epoch = parse_integer(call.argument(2)).map_err(|failure| failure.to_string())?;
        let epoch = u64::try_from(epoch).map_err(|_| format!("ERR Invalid config epoch specified: {epoch}"))?;
        let change = Change::SetConfigEpoch { id: view.id, epoch };
        (*view.map).clone().apply(&change).map_err(|refused| refused.to_string())?;
        Ok(ClusterWish::Propose(change))
    });
}

/// CLUSTER BUMPEPOCH.
pub fn bump_epoch(core: &mut Core, _session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    wish(core, call, reply, |view, _| Ok(ClusterWish::Propose(Change::BumpEpoch { id: view.id })));
}
