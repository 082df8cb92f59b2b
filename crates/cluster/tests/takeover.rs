//! A replica takes over: by itself when its primary is gone, in order or by force when an operator says so.

#![allow(clippy::unwrap_used, reason = "a value that a test has made")]

mod common;

use common::{Node, group};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tollgate_cluster::{FailOverError, Failover};
use tollgate_topology::Change;

/// Three nodes: the first serves all slots, the second follows it, in step or not.
async fn pair(is_in_step: bool) -> Vec<Node> {
    let nodes = group(3).await;
    let (primary, replica) = (&nodes[0], &nodes[1]);
    primary.adds(0..16_384).await;
    replica.cluster.propose(Change::Replicate { id: replica.id(), of: primary.id() }).await.unwrap();
    let since = primary.map().leading(primary.id()).unwrap().since;
    replica.process.follows_since.store(since, Ordering::SeqCst);
    if is_in_step {
        let replicas = BTreeMap::from([(replica.id(), replica.info.run)]);
        primary.cluster.propose(Change::InStep { of: primary.id(), since, number: 1, replicas }).await.unwrap();
    }
    let id = replica.id();
    for node in &nodes {
        let is_so = |map: &tollgate_topology::SlotMap| {
            map.followed_by(id).is_some() && map.leading(primary.id()).unwrap().in_step.len() == usize::from(is_in_step)
        };
        node.sees("it follows", is_so).await;
    }
    primary.has("it serves", |node| node.process.serves()).await;
    nodes
}

#[tokio::test]
async fn asked_for_it_goes_in_order_and_at_once() {
    let nodes = pair(true).await;
    let since = Instant::now();
    nodes[1].cluster.fail_over(Failover::Asked).await.unwrap();
    nodes[1].has("the replica serves", |node| node.process.serves()).await;
    eprintln!("failover in order after {:?}", since.elapsed());
    assert!(since.elapsed() < Duration::from_millis(500), "{:?}", since.elapsed());
    assert!(!nodes[0].process.serves());
    let map = nodes[1].map();
    assert_eq!(map.owner_of(0), Some(nodes[1].id()));
    assert_eq!(map.followed_by(nodes[0].id()), Some(nodes[1].id()));
    let again = nodes[1].cluster.fail_over(Failover::Asked).await.unwrap_err();
    assert_eq!(again.to_string(), "ERR You should send CLUSTER FAILOVER to a replica");
}

#[tokio::test]
async fn a_primary_that_cannot_drain_serves_on() {
    let nodes = pair(true).await;
    nodes[0].process.drains.store(false, Ordering::SeqCst);
    let refused = nodes[1].cluster.fail_over(Failover::Asked).await.unwrap_err();
    assert_eq!(refused.to_string(), "ERR The replica is not in step with its primary");
    nodes[0].has("it serves on", |node| node.process.serves()).await;
    assert_eq!(nodes[1].map().owner_of(0), Some(nodes[0].id()));
}

#[tokio::test]
async fn one_that_is_not_in_step_takes_over_by_force_alone_once_the_lease_is_over() {
    let nodes = pair(false).await;
    let asked = nodes[1].cluster.fail_over(Failover::Asked).await.unwrap_err();
    assert_eq!(asked.to_string(), "ERR The replica is not in step with its primary");
    nodes[0].cluster.stop();
    let asked = nodes[1].cluster.fail_over(Failover::Asked).await.unwrap_err();
    assert_eq!(asked, FailOverError::PrimaryIsDown);
    nodes[1].cluster.fail_over(Failover::Forced).await.unwrap();
    nodes[1].has("the replica serves", |node| node.process.serves()).await;
}

#[tokio::test]
async fn a_primary_that_dies_is_replaced_within_two_seconds() {
    let nodes = pair(true).await;
    // A crash, as far as the others can tell: nothing is said when the thread ends.
    nodes[0].cluster.stop();
    let since = Instant::now();
    nodes[1].has("the replica serves", |node| node.process.serves()).await;
    eprintln!("the replica serves after {:?}", since.elapsed());
    assert!(since.elapsed() < Duration::from_secs(2), "{:?}", since.elapsed());
    assert_eq!(
        nodes[2].sees("all know", |map| map.owner_of(0) == Some(nodes[1].id())).await.owner_of(9),
        Some(nodes[1].id())
    );
}

#[tokio::test]
async fn without_a_majority_nothing_is_changed_and_nobody_serves() {
    let nodes = pair(true).await;
    nodes[0].cluster.stop();
    nodes[2].cluster.stop();
    nodes[1].has("no leader answers", |node| !node.health().has_leader).await;
    let refused = nodes[1].cluster.fail_over(Failover::TakenOver).await.unwrap_err();
    assert!(refused.to_string().starts_with("ERR no majority"), "{refused}");
    assert!(!nodes[1].process.serves());
}
