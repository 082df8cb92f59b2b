//! A small cluster, as one node of it sees it: two primaries, two replicas of the first, and slots of nobody.

use super::{Node, Setup};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use tollgate_engine::cluster::{Health, View};
use tollgate_topology::change::Change;
use tollgate_topology::map::{Endpoint, Info};
use tollgate_topology::slots::SlotSet;
use tollgate_topology::{NodeId, RunId, SlotMap};

/// The first primary: slots 0-100, 200-8191 and 16000.
pub const FIRST: NodeId = NodeId([0x11; 20]);
/// The other: 101-199 and 8192-15999. Nobody has 16001 to 16383.
pub const OTHER: NodeId = NodeId([0x22; 20]);
/// A replica of the first, in step with it.
pub const REPLICA: NodeId = NodeId([0x33; 20]);
/// Another, which has not been in step.
pub const FRESH: NodeId = NodeId([0x44; 20]);

/// Whom slots of [`OTHER`] are answered with.
pub const OTHER_ADDRESS: &str = "10.0.0.2:7002";

pub fn info(number: u8) -> Info {
    let endpoint = Endpoint { host: format!("10.0.0.{number}"), port: 7_000 + u16::from(number), peer_port: 17_000 };
    Info { run: RunId([number; 20]), endpoint, cores: 2, core_ports: Vec::new() }
}

/// Applies changes to a map.
pub fn changed(mut map: SlotMap, changes: &[Change]) -> SlotMap {
    for change in changes {
        map.apply(change).unwrap_or_else(|refused| panic!("{change:?}: {refused}"));
    }
    map
}

pub fn map() -> SlotMap {
    let slots = |ranges: &[(u16, u16)]| SlotSet::new(ranges.iter().flat_map(|(first, last)| *first..=*last));
    let join = |id, number, slots, config_epoch| Change::Join { id, info: info(number), slots, config_epoch };
    let map = changed(
        SlotMap::default(),
        &[
            join(FIRST, 1, slots(&[(0, 100), (200, 8_191), (16_000, 16_000)]), 5),
            join(OTHER, 2, slots(&[(101, 199), (8_192, 15_999)]), 7),
            join(REPLICA, 3, SlotSet::default(), 0),
            join(FRESH, 4, SlotSet::default(), 0),
            Change::Replicate { id: REPLICA, of: FIRST },
            Change::Replicate { id: FRESH, of: FIRST },
        ],
    );
    let since = map.leading(FIRST).expect("a primary").since;
    let replicas = BTreeMap::from([(REPLICA, RunId([3; 20]))]);
    changed(map, &[Change::InStep { of: FIRST, since, number: 1, replicas }])
}

/// All hear one another.
pub fn healthy() -> Health {
    Health { has_leader: true, ..Health::default() }
}

/// A node of the cluster, with so many cores.
pub fn node_in_cluster(id: NodeId, cores: u16) -> Node {
    let node = Node::new(Setup { cores, cluster: true, ..Setup::default() });
    set_view(&node, View::new(id, Arc::new(map()), healthy()));
    node
}

pub fn set_view(node: &Node, view: View) {
    node.cores[0].settings.shared.set_view(Arc::new(view));
}

/// The first key of `prefix0`, `prefix1`, ... whose slot this holds of.
pub fn key_where(prefix: &str, holds: impl Fn(u16) -> bool) -> String {
    let mut names = (0..100_000).map(|number| format!("{prefix}{number}"));
    names.find(|name| holds(tollgate_store::slot_of(name.as_bytes()))).expect("some key lies there")
}

pub fn is_of_other(slot: u16) -> bool {
    owner_of(slot) == Some(OTHER)
}

pub fn is_of_first(slot: u16) -> bool {
    owner_of(slot) == Some(FIRST)
}

fn owner_of(slot: u16) -> Option<NodeId> {
    static MAP: OnceLock<SlotMap> = OnceLock::new();
    MAP.get_or_init(map).owner_of(slot)
}
