//! Any changes in any order: what a map may never be.

#![allow(clippy::unwrap_used, reason = "a value that a test has made")]

use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use tollgate_topology::change::{Change, Refused};
use tollgate_topology::map::{Info, Role};
use tollgate_topology::slots::{SLOTS, SlotSet};
use tollgate_topology::{NodeId, RunId, SlotMap};

fn id(number: u8) -> NodeId {
    NodeId([number; 20])
}

fn run(number: u8) -> RunId {
    RunId([number; 20])
}

fn info(number: u8) -> Info {
    Info { run: run(number), cores: 2, ..Info::default() }
}

fn slots(numbers: impl IntoIterator<Item = u16>) -> SlotSet {
    SlotSet::new(numbers)
}

fn any_slots() -> impl Strategy<Value = SlotSet> {
    prop::collection::vec(0..12u16, 0..6).prop_map(slots)
}

fn any_change() -> impl Strategy<Value = Change> {
    let node = || (0..5u8).prop_map(id);
    let process = || (0..3u8).prop_map(run);
    let since = || 0..12u64;
    prop_oneof![
        (node(), 0..3u8, any_slots(), 0..4u64).prop_map(|(id, process, slots, config_epoch)| Change::Join {
            id,
            info: info(process),
            slots,
            config_epoch
        }),
        (node(), 0..3u8).prop_map(|(id, process)| Change::Announce { id, info: info(process) }),
        (node(), any_slots()).prop_map(|(id, slots)| Change::AddSlots { id, slots }),
        (node(), prop::collection::btree_set(node(), 0..2), any_slots())
            .prop_map(|(by, lapsed, slots)| { Change::DelSlots { by, lapsed, slots } }),
        (node(), node()).prop_map(|(id, of)| Change::Replicate { id, of }),
        (node(), since(), 0..6u64, prop::collection::btree_map(node(), process(), 0..3))
            .prop_map(|(of, since, number, replicas)| Change::InStep { of, since, number, replicas }),
        (node(), since(), node(), process(), any::<bool>())
            .prop_map(|(from, since, to, run, is_forced)| { Change::Promote { from, since, to, run, is_forced } }),
        (node(), since(), process(), any::<bool>()).prop_map(|(id, since, run, is_forced)| Change::LeadAnew {
            id,
            since,
            run,
            is_forced
        }),
        (node(), 0..4u64).prop_map(|(id, epoch)| Change::SetConfigEpoch { id, epoch }),
        node().prop_map(|id| Change::BumpEpoch { id }),
        prop_oneof![Just(0), Just(100), Just(700)].prop_map(|ms| Change::SetLease { ms }),
        prop_oneof![Just(100), Just(700)].prop_map(|ms| Change::LeaseSettled { ms }),
    ]
}

/// What holds of every map.
fn check(map: &SlotMap) {
    let mut times = BTreeSet::new();
    for range in map.slots.ranges() {
        assert!(map.leading(range.owner).is_some(), "slots {range:?} are of no primary");
        assert!(range.first <= range.last && range.last < SLOTS);
    }
    for (id, node) in &map.nodes {
        match &node.role {
            Role::Replica { of } => {
                assert!(map.leading(*of).is_some(), "{id} follows no primary");
                assert_eq!(node.shard, map.nodes[of].shard, "{id}");
            }
            Role::Primary(leading) => {
                assert!(leading.since <= map.epoch);
                assert!(times.insert(leading.since), "two lead since {}", leading.since);
                for (replica, run) in &leading.in_step {
                    assert_eq!(
                        map.followed_by(*replica),
                        Some(*id),
                        "{replica} is in step with whom it does not follow"
                    );
                    assert_eq!(map.nodes[replica].info.run, *run, "{replica} has restarted");
                }
            }
        }
    }
    let text = serde_json::to_string(map).unwrap();
    assert_eq!(&serde_json::from_str::<SlotMap>(&text).unwrap(), map);
}

proptest! {
    #[test]
    fn a_map_is_sound_after_any_changes(changes in prop::collection::vec(any_change(), 0..60)) {
        let mut map = SlotMap::default();
        for change in changes {
            let before = map.clone();
            match map.apply(&change) {
                Ok(applied) => {
                    prop_assert_eq!(applied.epoch, map.epoch);
                    prop_assert_eq!(map.epoch, before.epoch + u64::from(applied.is_changed));
                    prop_assert_eq!(applied.is_changed, SlotMap { epoch: map.epoch, ..before } != map, "{:?}", change);
                }
                Err(_) => prop_assert_eq!(&map, &before, "{:?}", change),
            }
            check(&map);
            // What was told twice is done once.
            let once = map.clone();
            let twice = map.apply(&change);
            let ignores = matches!(change, Change::Promote { .. } | Change::BumpEpoch { .. });
            prop_assert!(ignores || map == once || twice.is_err(), "{:?}", change);
            map = once;
        }
    }
}

/// Three nodes: two primaries, of which the first has a replica in step.
fn pair_and_one() -> SlotMap {
    let mut map = SlotMap::default();
    for (number, slots) in [(1, slots(0..8000)), (2, slots(8000..SLOTS)), (3, slots([]))] {
        map.apply(&Change::Join { id: id(number), info: info(number), slots, config_epoch: u64::from(number) })
            .unwrap();
    }
    map.apply(&Change::Replicate { id: id(3), of: id(1) }).unwrap();
    let since = map.leading(id(1)).unwrap().since;
    map.apply(&Change::InStep { of: id(1), since, number: 1, replicas: BTreeMap::from([(id(3), run(3))]) }).unwrap();
    map
}

#[test]
fn a_replica_in_step_takes_over_and_is_followed() {
    let mut map = pair_and_one();
    let since = map.leading(id(1)).unwrap().since;
    let promote = |since, run, is_forced| Change::Promote { from: id(1), since, to: id(3), run, is_forced };
    for (change, refused) in
        [(promote(since + 1, run(3), true), Refused::Stale), (promote(since, run(4), true), Refused::Stale)]
    {
        assert_eq!(map.apply(&change), Err(refused));
    }
    map.apply(&promote(since, run(3), false)).unwrap();
    assert_eq!(map.owner_of(0), Some(id(3)));
    assert_eq!(map.followed_by(id(1)), Some(id(3)));
    assert_eq!(map.nodes[&id(3)].config_epoch, 4);
    assert_eq!(map.nodes[&id(3)].shard, id(1), "it is the same shard");
    assert_eq!(map.leading(id(3)).unwrap().since, map.epoch);
}

#[test]
fn who_has_restarted_is_not_in_step() {
    let mut map = pair_and_one();
    let since = map.leading(id(1)).unwrap().since;
    map.apply(&Change::Announce { id: id(3), info: info(9) }).unwrap();
    let promote = |is_forced| Change::Promote { from: id(1), since, to: id(3), run: run(9), is_forced };
    assert_eq!(map.apply(&promote(false)), Err(Refused::NotInStep));
    // A primary that restarted leads on, as no replica knows more.
    map.apply(&Change::Announce { id: id(1), info: info(8) }).unwrap();
    map.apply(&Change::LeadAnew { id: id(1), since, run: run(8), is_forced: false }).unwrap();
    assert_eq!(map.apply(&promote(true)), Err(Refused::Stale), "it was meant for the process before");
}

#[test]
fn the_longest_lease_is_remembered_until_it_is_settled() {
    let mut map = SlotMap::default();
    let mut set = |change| {
        map.apply(&change).unwrap();
        (map.lease.ms, map.lease.longest_ms)
    };
    assert_eq!(set(Change::SetLease { ms: 15_000 }), (15_000, 15_000));
    assert_eq!(set(Change::SetLease { ms: 500 }), (500, 15_000));
    assert_eq!(set(Change::LeaseSettled { ms: 700 }), (500, 15_000), "another was set since");
    assert_eq!(set(Change::LeaseSettled { ms: 500 }), (500, 500));
}

#[test]
fn who_knew_all_before_takes_over_again_rather_than_who_knows_less() {
    let mut map = pair_and_one();
    let since = map.leading(id(1)).unwrap().since;
    map.apply(&Change::Promote { from: id(1), since, to: id(3), run: run(3), is_forced: false }).unwrap();
    // Nobody is in step with it yet, as it is killed and comes back with less.
    map.apply(&Change::Announce { id: id(3), info: info(9) }).unwrap();
    let since = map.leading(id(3)).unwrap().since;
    let back = Change::Promote { from: id(3), since, to: id(1), run: run(1), is_forced: false };
    map.clone().apply(&back).unwrap();
    // It is no heir any more once it restarted, or once another is in step.
    let mut restarted = map.clone();
    restarted.apply(&Change::Announce { id: id(1), info: info(8) }).unwrap();
    let other = Change::Promote { from: id(3), since, to: id(1), run: run(8), is_forced: false };
    assert_eq!(restarted.apply(&other), Err(Refused::NotInStep));
    map.apply(&Change::Replicate { id: id(2), of: id(3) }).unwrap_err();
    map.apply(&Change::InStep { of: id(3), since, number: 1, replicas: BTreeMap::from([(id(1), run(1))]) }).unwrap();
    assert_eq!(map.leading(id(3)).unwrap().heirs, BTreeMap::new());
    map.apply(&back).unwrap();
}
