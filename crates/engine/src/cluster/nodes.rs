//! What a node says of its cluster: CLUSTER SLOTS, SHARDS, NODES, REPLICAS, LINKS, INFO, MYID, MYSHARDID and
//! COUNT-FAILURE-REPORTS, in Redis's shapes.
//!
//! What clients are told of a replica is told only while the group has recorded that it is in step: what it holds may
//! be old otherwise. Operators are told of all nodes.

use super::{NO_CLUSTER, View};
use crate::call::Call;
use crate::core::Core;
use crate::session::Session;
use core::net::IpAddr;
use std::collections::BTreeMap;
use std::fmt::Write;
use tollgate_resp::{Reply, printable};
use tollgate_topology::NodeId;
use tollgate_topology::map::{Endpoint, Node, Role};

/// What an answer is made of.
struct Asked<'a, 'b, 'c> {
    view: &'a View,
    call: &'a Call<'b>,
    reply: &'a mut Reply<'c>,
}

/// Answers by the view that holds now, or that there is no cluster.
fn answer(core: &mut Core, call: &Call<'_>, reply: &mut Reply<'_>, write: impl FnOnce(Asked<'_, '_, '_>)) {
    core.refresh_view();
    match core.view.clone() {
        Some(view) => write(Asked { view: &view, call, reply }),
        None => reply.error(NO_CLUSTER),
    }
}

/// CLUSTER SLOTS.
pub fn slots(core: &mut Core, _session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    answer(core, call, reply, |Asked { view, reply, .. }| {
        let ranges = view.map.slots.ranges();
        let known: Vec<_> =
            ranges.iter().filter_map(|range| Some((range, view.map.nodes.get(&range.owner)?))).collect();
        reply.array(known.len());
        for (range, owner) in known {
            let replicas: Vec<_> = view.map.replicas_of(range.owner).filter(|(id, _)| is_offered(view, *id)).collect();
            reply.array(3 + replicas.len());
            reply.integer(i64::from(range.first));
            reply.integer(i64::from(range.last));
            slots_node(range.owner, owner, reply);
            replicas.iter().for_each(|(id, node)| slots_node(*id, node, reply));
        }
    });
}

/// Whether callers that read from replicas are told of this one.
fn is_offered(view: &View, replica: NodeId) -> bool {
    view.is_in_step(replica) && !view.is_silent(replica)
}

fn slots_node(id: NodeId, node: &Node, reply: &mut Reply<'_>) {
    let Endpoint { host, port, .. } = &node.info.endpoint;
    reply.array(4);
    reply.bulk_str(host);
    reply.integer(i64::from(*port));
    reply.bulk_str(&id.to_string());
    // What else there is to know of it, which is nothing: as Redis, an array in RESP2 and a map in RESP3.
    reply.map(0);
}

/// CLUSTER SHARDS.
pub fn shards(core: &mut Core, _session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    answer(core, call, reply, |Asked { view, reply, .. }| {
        let mut shards: BTreeMap<NodeId, Vec<(NodeId, &Node)>> = BTreeMap::new();
        for (id, node) in &view.map.nodes {
            shards.entry(node.shard).or_default().push((*id, node));
        }
        reply.array(shards.len());
        for mut nodes in shards.into_values() {
            nodes.sort_by_key(|(id, node)| (matches!(node.role, Role::Replica { .. }), *id));
            let ranges: Vec<_> = nodes.iter().flat_map(|(id, _)| view.map.slots_of(*id)).collect();
            reply.map(2);
            reply.bulk_str("slots");
            reply.array(ranges.len() * 2);
            for bound in ranges.iter().flat_map(|range| [range.first, range.last]) {
                reply.integer(i64::from(bound));
            }
            reply.bulk_str("nodes");
            reply.array(nodes.len());
            nodes.iter().for_each(|(id, node)| shards_node(view, *id, node, reply));
        }
    });
}

fn shards_node(view: &View, id: NodeId, node: &Node, reply: &mut Reply<'_>) {
    let endpoint = &node.info.endpoint;
    let is_replica = matches!(node.role, Role::Replica { .. });
    let health = match is_replica {
        _ if fails(view, id) => "fail",
        true if !view.is_in_step(id) => "loading",
        _ => "online",
    };
    let hostname = hostname(endpoint);
    reply.map(7 + usize::from(hostname.is_some()));
    field("id", &id.to_string(), reply);
    reply.bulk_str("port");
    reply.integer(i64::from(endpoint.port));
    field("ip", &endpoint.host, reply);
    field("endpoint", &endpoint.host, reply);
    if let Some(name) = hostname {
        field("hostname", name, reply);
    }
    field("role", if is_replica { "replica" } else { "master" }, reply);
    reply.bulk_str("replication-offset");
    reply.integer(0);
    field("health", health, reply);
}

fn field(name: &str, value: &str, reply: &mut Reply<'_>) {
    reply.bulk_str(name);
    reply.bulk_str(value);
}

/// The host if it is a name and no address.
fn hostname(endpoint: &Endpoint) -> Option<&str> {
    Some(endpoint.host.as_str()).filter(|host| host.parse::<IpAddr>().is_err())
}

/// CLUSTER NODES.
pub fn nodes(core: &mut Core, _session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    answer(core, call, reply, |Asked { view, call, reply }| {
        let lines = view.map.nodes.iter().map(|(id, node)| node_line(view, *id, node, call.now));
        let text: String = lines.map(|line| line + "\n").collect();
        reply.verbatim_txt(&text);
    });
}

/// A node as CLUSTER NODES and REPLICAS show it, without the line's end.
fn node_line(view: &View, id: NodeId, node: &Node, now: u64) -> String {
    let Endpoint { host, port, peer_port } = &node.info.endpoint;
    let (is_me, is_silent) = (id == view.id, fails(view, id));
    let named = hostname(&node.info.endpoint).map_or(String::new(), |name| format!(",{name}"));
    let (role, primary, config_epoch) = match node.role {
        Role::Primary(_) => ("master", "-".to_owned(), node.config_epoch),
        Role::Replica { of } => ("slave", of.to_string(), shown_epoch(view, id)),
    };
    let (mine, fails) = (if is_me { "myself," } else { "" }, if is_silent { ",fail" } else { "" });
    // Nobody here is pinged: who is heard was heard just now.
    let heard_ms = if is_me || is_silent { 0 } else { now / 1_000 };
    let link = if is_silent { "disconnected" } else { "connected" };
    let mut line = format!(
        "{id} {host}:{port}@{peer_port}{named} {mine}{role}{fails} {primary} 0 {heard_ms} {config_epoch} {link}"
    );
    for range in view.map.slots_of(id) {
        let _ = match range.count() {
            1 => write!(line, " {}", range.first),
            _ => write!(line, " {}-{}", range.first, range.last),
        };
    }
    line
}

/// Whether a node is shown as one that does not answer. This one does.
fn fails(view: &View, id: NodeId) -> bool {
    id != view.id && view.is_silent(id)
}

/// A node's configuration epoch; of a replica its primary's, as in Redis.
fn shown_epoch(view: &View, id: NodeId) -> u64 {
    view.map.nodes.get(&view.map.primary_of(id)).map_or(0, |node| node.config_epoch)
}

/// CLUSTER REPLICAS and SLAVES.
pub fn replicas(core: &mut Core, _session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    answer(core, call, reply, |Asked { view, call, reply }| match named(view, call.argument(2)) {
        Err(text) => reply.error(&text),
        Ok((_, Node { role: Role::Replica { .. }, .. })) => reply.error("ERR The specified node is not a master"),
        Ok((id, _)) => {
            let lines: Vec<_> =
                view.map.replicas_of(id).map(|(id, node)| node_line(view, id, node, call.now)).collect();
            reply.array(lines.len());
            lines.iter().for_each(|line| reply.bulk_str(line));
        }
    });
}

/// The node that an argument names.
pub(super) fn named<'a>(view: &'a View, argument: &[u8]) -> Result<(NodeId, &'a Node), String> {
    let id = std::str::from_utf8(argument).ok().and_then(|text| text.parse().ok());
    let known = id.and_then(|id| view.map.nodes.get(&id).map(|node| (id, node)));
    known.ok_or_else(|| format!("ERR Unknown node {}", printable(argument)))
}

/// CLUSTER COUNT-FAILURE-REPORTS. One speaks for all: the leader, which hears every node or does not.
pub fn failure_reports(core: &mut Core, _session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    answer(core, call, reply, |Asked { view, call, reply }| match named(view, call.argument(2)) {
        Ok((id, _)) => reply.integer(i64::from(view.is_silent(id))),
        Err(text) => reply.error(&text),
    });
}

/// CLUSTER LINKS: one to and one from each node that is heard.
pub fn links(core: &mut Core, _session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    answer(core, call, reply, |Asked { view, reply, .. }| {
        let others: Vec<_> = view.map.nodes.keys().filter(|id| **id != view.id && !view.is_silent(**id)).collect();
        reply.array(others.len() * 2);
        for (id, direction) in others.iter().flat_map(|id| [(id, "to"), (id, "from")]) {
            reply.map(6);
            field("direction", direction, reply);
            field("node", &id.to_string(), reply);
            reply.bulk_str("create-time");
            reply.integer(0);
            field("events", "r", reply);
            for name in ["send-buffer-allocated", "send-buffer-used"] {
                reply.bulk_str(name);
                reply.integer(0);
            }
        }
    });
}

/// CLUSTER MYID.
pub fn my_id(core: &mut Core, _session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    answer(core, call, reply, |Asked { view, reply, .. }| reply.bulk_str(&view.id.to_string()));
}

/// CLUSTER MYSHARDID.
pub fn my_shard_id(core: &mut Core, _session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    answer(core, call, reply, |Asked { view, reply, .. }| {
        let shard = view.map.nodes.get(&view.id).map_or(view.id, |node| node.shard);
        reply.bulk_str(&shard.to_string());
    });
}

/// CLUSTER INFO.
pub fn info(core: &mut Core, _session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    answer(core, call, reply, |Asked { view, reply, .. }| reply.verbatim_txt(&info_text(view)));
}

fn info_text(view: &View) -> String {
    let map = &view.map;
    let assigned = map.slots.count();
    let silent = map.slots.ranges().iter().filter(|range| view.is_silent(range.owner));
    let failed: u16 = silent.map(|range| range.count()).sum();
    let is_ok = view.health.has_leader && assigned > 0;
    let lines = [
        ("cluster_state", if is_ok { "ok" } else { "fail" }.to_owned()),
        ("cluster_slots_assigned", assigned.to_string()),
        ("cluster_slots_ok", assigned.saturating_sub(failed).to_string()),
        ("cluster_slots_pfail", "0".to_owned()),
        ("cluster_slots_fail", failed.to_string()),
        ("cluster_known_nodes", map.nodes.len().to_string()),
        ("cluster_size", map.primaries_with_slots().to_string()),
        ("cluster_current_epoch", map.epoch.max(map.config_epoch_max()).to_string()),
        ("cluster_my_epoch", shown_epoch(view, view.id).to_string()),
        ("cluster_stats_messages_sent", "0".to_owned()),
        ("cluster_stats_messages_received", "0".to_owned()),
        ("total_cluster_links_buffer_limit_exceeded", "0".to_owned()),
    ];
    lines.into_iter().map(|(name, value)| format!("{name}:{value}\r\n")).collect()
}

/// CLUSTER SAVECONFIG: what the group decides is on disk before anybody hears of it.
pub fn save_config(core: &mut Core, _session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    answer(core, call, reply, |Asked { reply, .. }| reply.simple("OK"));
}

/// READONLY: this client is content with what a replica holds.
pub fn readonly(core: &mut Core, session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    answer(core, call, reply, |Asked { reply, .. }| {
        session.client.state.reads_copies.set(true);
        reply.simple("OK");
    });
}

/// READWRITE: it is so no more.
pub fn readwrite(core: &mut Core, session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    answer(core, call, reply, |Asked { reply, .. }| {
        session.client.state.reads_copies.set(false);
        reply.simple("OK");
    });
}

/// ASKING: no slot is half here and half there, so there is nothing to ask for.
pub fn asking(core: &mut Core, _session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    answer(core, call, reply, |Asked { reply, .. }| reply.simple("OK"));
}
