//! Who is granted a lease when, and who takes over: one case after another, with the time given.

#![allow(clippy::unwrap_used, reason = "a value that a test has made")]

use std::collections::BTreeMap;
use tollgate_topology::change::Change;
use tollgate_topology::leader::{Leader, NotYet, wait_micros};
use tollgate_topology::lease::{Ask, Follows, Holder};
use tollgate_topology::map::Info;
use tollgate_topology::slots::SlotSet;
use tollgate_topology::{NodeId, RunId, SlotMap};

const P: NodeId = NodeId([1; 20]);
const R: NodeId = NodeId([2; 20]);
const LEASE: u64 = 500_000;

fn info(run: u8) -> Info {
    Info { run: RunId([run; 20]), ..Info::default() }
}

/// P with all slots, and R in step with it.
fn pair() -> SlotMap {
    let mut map = SlotMap::default();
    for (id, slots) in [(P, SlotSet::new(0..16_384)), (R, SlotSet::default())] {
        let run = id.0[0];
        map.apply(&Change::Join { id, info: info(run), slots, config_epoch: 0 }).unwrap();
    }
    map.apply(&Change::Replicate { id: R, of: P }).unwrap();
    let replicas = BTreeMap::from([(R, RunId([2; 20]))]);
    map.apply(&Change::InStep { of: P, since: 1, number: 1, replicas }).unwrap();
    map
}

fn asks(map: &SlotMap, id: NodeId, run: u8, number: u64) -> Ask {
    let follows = Follows { since: 1, is_in_step: true, progress: 5 };
    let leads_since = map.leading(id).map(|leading| leading.since);
    Ask {
        id,
        info: info(run),
        number,
        epoch: map.epoch,
        leads_since,
        follows: leads_since.is_none().then_some(follows),
    }
}

#[test]
fn a_lease_begins_when_it_was_asked_for() {
    let map = pair();
    let mut leader = Leader::new(0);
    let mut holder = Holder::default();
    holder.follow_map(&map, P, RunId([1; 20]));
    let number = holder.ask(1_000);
    let grant = leader.grant(&map, &asks(&map, P, 1, number), 300_000).unwrap();
    holder.granted(&grant, 450_000);
    assert_eq!(holder.until(), 1_000 + LEASE);
    // One that has given up takes nothing for what it asked before.
    let number = holder.ask(500_000);
    assert_eq!(holder.give_up(), number);
    let late = leader.grant(&map, &asks(&map, P, 1, number), 510_000).unwrap();
    holder.granted(&late, 520_000);
    assert_eq!(holder.until(), 0);
}

#[test]
fn nobody_takes_over_before_the_lease_has_ended_by_any_clock() {
    let map = pair();
    let wait = wait_micros(&map);
    assert!(wait > LEASE + LEASE / 5_000);
    let mut leader = Leader::new(0);
    leader.grant(&map, &asks(&map, P, 1, 1), 100_000).unwrap();
    let mut taken_over = None;
    for now in (100_000..1_000_000).step_by(10_000) {
        leader.hears(&asks(&map, R, 2, now), now);
        if let Some(change) = leader.look(&map, now).pop() {
            taken_over.get_or_insert((now, change));
        }
    }
    let (at, change) = taken_over.unwrap();
    assert_eq!(change, Change::Promote { from: P, since: 1, to: R, run: RunId([2; 20]), is_forced: false });
    assert!((100_000 + wait..100_000 + wait + 10_000).contains(&at), "{at}");
    // Until it is known what became of that, the old one is granted nothing, and is not replaced again.
    assert_eq!(leader.grant(&map, &asks(&map, P, 1, 2), at), None);
    assert_eq!(leader.look(&map, at + 10_000), []);
    leader.settled(&change);
    assert!(leader.grant(&map, &asks(&map, P, 1, 3), at + 20_000).is_some(), "it was not committed");
}

#[test]
fn a_new_leader_waits_for_what_the_one_before_may_have_granted() {
    let map = pair();
    let mut leader = Leader::new(5_000_000);
    let promoted_at = (5_000_000..6_000_000).step_by(10_000).find(|now| {
        leader.hears(&asks(&map, R, 2, *now), *now);
        !leader.look(&map, *now).is_empty()
    });
    assert!(promoted_at.unwrap() >= 5_000_000 + wait_micros(&map));
}

#[test]
fn who_has_stood_still_listens_first() {
    let map = pair();
    let mut leader = Leader::new(0);
    leader.hears(&asks(&map, P, 1, 1), 0);
    leader.hears(&asks(&map, R, 2, 1), 0);
    assert_eq!(leader.look(&map, 10_000), []);
    // A second later: not the primary was silent, but the leader was deaf.
    assert_eq!(leader.look(&map, 1_010_000), []);
    leader.hears(&asks(&map, P, 1, 2), 1_020_000);
    assert_eq!(leader.look(&map, 1_030_000), []);
}

#[test]
fn a_new_process_leads_only_where_no_replica_knows_more() {
    let mut map = pair();
    let mut leader = Leader::new(0);
    let now = 2_000_000;
    for at in (0..=now).step_by(100_000) {
        leader.hears(&asks(&map, P, 7, at), at);
        for change in leader.look(&map, at) {
            assert_eq!(change, Change::Announce { id: P, info: info(7) });
        }
    }
    map.apply(&Change::Announce { id: P, info: info(7) }).unwrap();
    assert_eq!(leader.grant(&map, &asks(&map, P, 7, 99), now), None);
    assert_eq!(leader.look(&map, now), [], "its replica may come again");
    // The replica restarts too: nobody knows more than what the primary has kept.
    map.apply(&Change::Announce { id: R, info: info(8) }).unwrap();
    let anew = Change::LeadAnew { id: P, since: 1, run: RunId([7; 20]), is_forced: false };
    assert_eq!(leader.look(&map, now), std::slice::from_ref(&anew));
    map.apply(&anew).unwrap();
    leader.settled(&anew);
    assert!(leader.grant(&map, &asks(&map, P, 7, 100), now).is_some());
}

#[test]
fn what_was_handed_over_is_not_taken_back_by_an_old_word() {
    let map = pair();
    let mut leader = Leader::new(0);
    leader.hears(&asks(&map, R, 2, 1), 10);
    leader.grant(&map, &asks(&map, P, 1, 5), 10).unwrap();
    assert_eq!(leader.hand_over(&map, (P, 1), 4, R, 20), Err(NotYet::LeaseHeld), "it has asked again since");
    let change = leader.hand_over(&map, (P, 1), 5, R, 20).unwrap();
    assert_eq!(leader.grant(&map, &asks(&map, P, 1, 6), 30), None);
    assert_eq!(leader.hand_over(&map, (P, 1), 5, R, 40), Err(NotYet::Busy));
    leader.settled(&change);
}

#[test]
fn an_operator_waits_for_the_end_of_a_lease_too() {
    let map = pair();
    let mut leader = Leader::new(0);
    leader.grant(&map, &asks(&map, P, 1, 1), 100_000).unwrap();
    let mut forced = Change::Promote { from: P, since: 1, to: R, run: RunId([2; 20]), is_forced: true };
    assert_eq!(leader.permit(&map, &mut forced, 200_000), Err(NotYet::PrimaryIsUp));
    assert_eq!(leader.permit(&map, &mut forced, 100_000 + wait_micros(&map)), Ok(()));
    leader.settled(&forced);
    let mut deleted = Change::DelSlots { by: R, lapsed: Default::default(), slots: SlotSet::new([1]) };
    leader.permit(&map, &mut deleted, 200_000).unwrap();
    assert!(matches!(deleted, Change::DelSlots { lapsed, .. } if lapsed.is_empty()));
}

#[test]
fn who_does_not_know_that_slots_were_taken_from_it_is_granted_nothing() {
    let mut map = pair();
    let mut leader = Leader::new(0);
    let before = asks(&map, P, 1, 1);
    let mut deleted = Change::DelSlots { by: P, lapsed: Default::default(), slots: SlotSet::new([1]) };
    leader.permit(&map, &mut deleted, 10).unwrap();
    assert_eq!(leader.grant(&map, &before, 10), None, "it may be committed at any moment");
    map.apply(&deleted).unwrap();
    leader.settled(&deleted);
    assert_eq!(leader.grant(&map, &before, 20), None);
    assert!(leader.grant(&map, &asks(&map, P, 1, 2), 30).is_some());
    let by_replica = Change::DelSlots { by: R, lapsed: Default::default(), slots: SlotSet::new([2]) };
    assert!(map.apply(&by_replica).is_err(), "its primary serves it");
}

#[test]
fn a_process_that_restarted_counts_its_asks_anew() {
    let mut map = pair();
    let mut leader = Leader::new(0);
    leader.grant(&map, &asks(&map, P, 1, 700), 10).unwrap();
    // It restarts and leads on, as its replica was not in step, which it is later.
    map.apply(&Change::InStep { of: P, since: 1, number: 2, replicas: BTreeMap::new() }).unwrap();
    map.apply(&Change::Announce { id: P, info: info(7) }).unwrap();
    map.apply(&Change::LeadAnew { id: P, since: 1, run: RunId([7; 20]), is_forced: false }).unwrap();
    let since = map.leading(P).unwrap().since;
    leader.hears(&asks(&map, R, 2, 1), 2_000_000);
    leader.grant(&map, &asks(&map, P, 7, 5), 2_000_000).unwrap();
    assert_eq!(leader.hand_over(&map, (P, since), 4, R, 2_000_010), Err(NotYet::LeaseHeld));
    assert!(leader.hand_over(&map, (P, since), 5, R, 2_000_020).is_ok(), "the one before had asked more often");
}
