//! Commands about replication.

use crate::call::Call;
use crate::core::Core;
use crate::dispatch::LOADING;
use crate::effect::{Effect, ToldBefore};
use crate::limit_commands::integer;
use crate::session::Session;
use crate::settings::FollowingState;
use tollgate_resp::Reply;
use tollgate_topology::{NodeId, RunId};

/// REPLICAOF host port, REPLICAOF NO ONE; SLAVEOF likewise.
pub fn replicaof(core: &mut Core, _session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    if core.settings.cluster {
        return reply.error("ERR REPLICAOF not allowed in cluster mode.");
    }
    let process = &core.settings.process;
    if call.is_word(1, "NO") && call.is_word(2, "ONE") {
        return match process.follow(None) {
            Ok(()) => reply.simple("OK"),
            Err(error) => reply.error(&format!("ERR {error}")),
        };
    }
    let Some(port) = port(call.argument(2)) else { return reply.error("ERR Invalid master port") };
    match process.follow(Some((call.text(1).into_owned(), port))) {
        Ok(()) => reply.simple("OK"),
        Err(error) => reply.error(&format!("ERR {error}")),
    }
}

fn port(text: &[u8]) -> Option<u16> {
    std::str::from_utf8(text).ok()?.parse().ok().filter(|port| *port > 0)
}

/// ROLE.
pub fn role(core: &mut Core, _session: &mut Session, _call: &Call<'_>, reply: &mut Reply<'_>) {
    let process = &core.settings.process;
    let Some(following) = process.following() else {
        let replicas = process.replicas();
        reply.array(3);
        reply.bulk_str("master");
        reply.integer(0);
        reply.array(replicas.len());
        for replica in replicas {
            reply.array(3);
            reply.bulk_str(&replica.host);
            reply.bulk_str(&replica.port.to_string());
            reply.bulk_str("0");
        }
        return;
    };
    reply.array(5);
    reply.bulk_str("slave");
    reply.bulk_str(&following.host);
    reply.integer(i64::from(following.port));
    reply.bulk_str(match following.state {
        FollowingState::Connect => "connect",
        FollowingState::Connecting => "connecting",
        FollowingState::Sync => "sync",
        FollowingState::Connected => "connected",
    });
    reply.integer(0);
}

/// WAIT numreplicas timeout: how many replicas have acknowledged all that was changed before.
pub fn wait(core: &mut Core, _session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    if core.settings.shared.is_replica() {
        return reply.error("ERR WAIT cannot be used with replica instances.");
    }
    let number = |position| std::str::from_utf8(call.argument(position)).ok().and_then(|text| text.parse::<i64>().ok());
    let Some(count) = number(1) else { return reply.error("ERR value is not an integer or out of range") };
    let Some(timeout) = number(2) else { return reply.error("ERR timeout is not an integer or out of range") };
    let Ok(timeout) = u64::try_from(timeout) else { return reply.error("ERR timeout is negative") };
    core.effects.push(Effect::AwaitReplicas { count: u64::try_from(count).unwrap_or(0), timeout });
}

/// RL.FLOW version core port [run-id telling number] [AS node run]: what a replica says to be told what a core holds,
/// up to where it was told before, and which node of the cluster it is.
pub fn flow(core: &mut Core, _session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    let number = |position| std::str::from_utf8(call.argument(position)).ok().and_then(|text| text.parse::<u16>().ok());
    let (Some(version), Some(of), Some(port)) = (number(1), number(2), number(3)) else {
        return reply.error("ERR RL.FLOW takes a version, a core and a port");
    };
    if version != FLOW_VERSION {
        return reply.error(&format!("ERR this Tollgate tells replicas in version {FLOW_VERSION}, not {version}"));
    }
    if core.settings.shared.is_replica() {
        return reply.error("ERR a replica has no replicas: follow its primary");
    }
    if core.settings.shared.is_loading() {
        return reply.error(LOADING);
    }
    if of >= core.cores {
        return reply.error(&format!("ERR no such core: there are {}", integer(u64::from(core.cores))));
    }
    let Some((arguments, node)) = node(call) else {
        return reply.error("ERR RL.FLOW takes a node and its run after AS");
    };
    let told = match arguments {
        4 => None,
        7 => match told_before(call) {
            Some(told) => Some(told),
            None => return reply.error("ERR RL.FLOW takes a run id, a telling and a number of a flush"),
        },
        _ => return reply.error("ERR RL.FLOW takes a run id, a telling and a number of a flush, or none of them"),
    };
    core.effects.push(Effect::Flow { core: of, port, told, node });
}

/// How many arguments come before AS, and who is named after it. `None`: nobody can be called so.
fn node(call: &Call<'_>) -> Option<(usize, Option<(NodeId, RunId)>)> {
    let arguments = call.args.len();
    let Some(at) = arguments.checked_sub(3).filter(|at| *at >= 4 && call.is_word(*at, "AS")) else {
        return Some((arguments, None));
    };
    let [id, run] = [1, 2].map(|next| std::str::from_utf8(call.argument(at.saturating_add(next))).ok());
    Some((at, Some((id?.parse().ok()?, run?.parse().ok()?))))
}

fn told_before(call: &Call<'_>) -> Option<ToldBefore> {
    let run_id = call.argument(4).try_into().ok()?;
    let [telling, number] = [5, 6].map(|position| std::str::from_utf8(call.argument(position)).ok());
    Some(ToldBefore { run_id, telling: telling?.parse().ok()?, number: number?.parse().ok()? })
}

/// The version of what replicas are told.
pub const FLOW_VERSION: u16 = 1;
