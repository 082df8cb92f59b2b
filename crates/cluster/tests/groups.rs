//! Groups of nodes: they begin, elect, propose, lose their leader, come back.

#![allow(clippy::unwrap_used, reason = "a value that a test has made")]

mod common;

use common::{Directory, group, leader, start, try_start};
use std::time::{Duration, Instant};
use tollgate_topology::Change;

#[tokio::test]
async fn a_fresh_node_is_a_group_of_one_and_serves_what_it_adds() {
    let node = start();
    node.is_there().await;
    node.adds(0..16_384).await;
    assert_eq!(node.map().owner_of(16_383), Some(node.id()));
    node.has("it holds a lease", |node| node.process.serves()).await;
    assert!(node.process.heard.load(std::sync::atomic::Ordering::SeqCst) > 1_000_000_000);
    let before = node.map().epoch;
    node.adds([5]).await;
    assert_eq!(node.map().epoch, before, "already so");
    node.cluster.stop();
    assert!(!node.process.serves());
}

#[tokio::test]
async fn three_nodes_propose_from_everywhere_and_lose_their_leader() {
    let mut nodes = group(3).await;
    for (at, node) in (0u16..).zip(&nodes) {
        node.adds(at * 100..at * 100 + 50).await;
        node.has("it holds a lease", |node| node.process.serves()).await;
    }
    let gone = nodes.remove(leader(&nodes));
    gone.cluster.stop();
    let since = Instant::now();
    nodes[0].cluster.propose(Change::BumpEpoch { id: nodes[0].id() }).await.unwrap();
    let took = since.elapsed();
    eprintln!("the next leader's first change after {took:?}");
    assert!(took < Duration::from_secs(2), "{took:?}");
    let epoch = nodes[0].map().epoch;
    nodes[1].sees("what the other has proposed", |map| map.epoch >= epoch).await;
    nodes[1].has("the one that is gone is silent", |node| node.health().silent == [gone.id()]).await;
}

#[tokio::test]
async fn a_node_keeps_its_id_and_its_map_over_a_restart() {
    let directory = Directory::new();
    let node = try_start(Some(&directory.0), None).unwrap();
    node.is_there().await;
    node.adds(0..100).await;
    let (id, map) = (node.id(), node.map());
    node.cluster.stop();
    let node = try_start(Some(&directory.0), None).unwrap();
    assert_eq!(node.id(), id);
    let now = node.sees("the slots are its own", |map| map.owner_of(99) == Some(id)).await;
    assert!(now.epoch >= map.epoch);
    node.has("the new process leads anew, once the lease of the one before is over", |node| node.process.serves())
        .await;
}
