//! Groups of nodes: they begin, elect, propose, lose their leader, come back.

#![allow(clippy::unwrap_used, reason = "a value that a test has made")]

mod common;

use common::{Directory, group, join_all, leader, start, try_start, try_start_at};
use std::net::TcpListener;
use std::time::{Duration, Instant};
use tollgate_cluster::{FILE_NAME, StartError};
use tollgate_topology::Change;
use tollgate_topology::slots::SlotSet;

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

#[tokio::test]
async fn a_node_of_a_group_comes_back_elsewhere_and_is_found() {
    let directories: Vec<Directory> = (0..3).map(|_| Directory::new()).collect();
    let mut nodes: Vec<_> = directories.iter().map(|at| try_start(Some(&at.0), None).unwrap()).collect();
    join_all(&nodes).await;
    nodes[0].adds(0..100).await;
    for _ in 0..2 {
        let at = leader(&nodes);
        let before = &nodes[at];
        let id = before.id();
        before.cluster.stop();
        nodes[at] = try_start(Some(&directories[at].0), None).unwrap();
        assert_eq!(nodes[at].id(), id);
        let endpoint = nodes[at].info.endpoint.clone();
        for node in &nodes {
            node.sees("it is elsewhere now", |map| map.nodes.get(&id).is_some_and(|it| it.info.endpoint == endpoint))
                .await;
        }
        let change = Change::BumpEpoch { id };
        nodes[at].cluster.propose(change).await.unwrap();
    }
    nodes[0].has("it serves", |node| node.process.serves()).await;
}

#[tokio::test]
async fn when_all_nodes_crash_at_once_the_group_comes_back() {
    let directories: Vec<Directory> = (0..3).map(|_| Directory::new()).collect();
    let nodes: Vec<_> = directories.iter().map(|at| try_start(Some(&at.0), None).unwrap()).collect();
    join_all(&nodes).await;
    nodes[0].adds(0..100).await;
    let epoch = nodes[0].map().epoch;
    for node in &nodes {
        node.sees("all know", |map| map.epoch >= epoch).await;
    }
    // What is on disk now is what a crash leaves: nothing is written while nothing is decided.
    let crashed: Vec<Directory> = directories.iter().map(|_| Directory::new()).collect();
    for (from, to) in directories.iter().zip(&crashed) {
        std::fs::copy(from.0.join(FILE_NAME), to.0.join(FILE_NAME)).unwrap();
    }
    let (first, ports): (_, Vec<u16>) =
        (nodes[0].id(), nodes.iter().map(|node| node.info.endpoint.peer_port).collect());
    nodes.iter().for_each(|node| node.cluster.stop());
    let again = |(at, port): (&Directory, &u16)| {
        try_start_at(TcpListener::bind(("127.0.0.1", *port)).unwrap(), Some(&at.0), None).unwrap()
    };
    let nodes: Vec<_> = crashed.iter().zip(&ports).map(again).collect();
    assert_eq!(nodes[0].id(), first);
    for node in &nodes {
        node.sees("the slots are there", |map| map.nodes.len() == 3 && map.owner_of(99) == Some(first)).await;
    }
    nodes[0].has("it serves", |node| node.process.serves()).await;
    nodes[2].adds([200]).await;
}

#[tokio::test]
async fn five_nodes_bear_the_loss_of_two() {
    let mut nodes = group(5).await;
    for _ in 0..2 {
        let gone = nodes.remove(leader(&nodes));
        gone.cluster.stop();
        let since = Instant::now();
        nodes[0].cluster.propose(Change::BumpEpoch { id: nodes[0].id() }).await.unwrap();
        eprintln!("the next leader's first change after {:?}", since.elapsed());
        nodes[1].has("a leader answers", |node| node.health().has_leader).await;
    }
    let (one, rest) = nodes.split_first().unwrap();
    for node in rest {
        node.sees("all know", |map| map.epoch == one.map().epoch).await;
    }
}

#[tokio::test]
async fn a_long_log_becomes_a_snapshot_that_a_new_node_gets() {
    let directory = Directory::new();
    let node = try_start(Some(&directory.0), None).unwrap();
    node.is_there().await;
    let (id, other) = (node.id(), start());
    for slot in 0..700u16 {
        node.cluster.propose(Change::AddSlots { id, slots: SlotSet::new([slot]) }).await.unwrap();
    }
    other.is_there().await;
    other.meets(&node).await;
    assert_eq!(other.map().owner_of(699), Some(id));
    node.cluster.stop();
    let node = try_start(Some(&directory.0), None).unwrap();
    node.sees("all is there", |map| map.owner_of(699) == Some(id) && map.nodes.len() == 2).await;
}

#[test]
fn a_damaged_file_and_one_in_use_are_errors() {
    let directory = Directory::new();
    let path = directory.0.join(FILE_NAME);
    let node = try_start(Some(&directory.0), None).unwrap();
    let in_use = try_start(Some(&directory.0), None).err().unwrap();
    assert!(matches!(in_use, StartError::Open(_)), "{in_use}");
    node.cluster.stop();
    let whole = std::fs::read(&path).unwrap();
    let spoilt = |spoil: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = whole.clone();
        spoil(&mut bytes);
        bytes
    };
    let cases = [
        ("not a database", b"this is no database".to_vec()),
        ("cut in the middle", spoilt(&|bytes| bytes.truncate(bytes.len() / 2))),
        ("cut in the header", spoilt(&|bytes| bytes.truncate(100))),
        ("a header of zeros", spoilt(&|bytes| bytes[..512].fill(0))),
        ("zeros after the header", spoilt(&|bytes| bytes[4096..].fill(0))),
        ("ones after the header", spoilt(&|bytes| bytes[4096..].fill(0xff))),
    ];
    for (what, bytes) in cases {
        std::fs::write(&path, bytes).unwrap();
        let error = try_start(Some(&directory.0), None).err();
        assert!(error.is_some(), "{what}");
        eprintln!("{what}: {}", error.unwrap());
    }
    // Anywhere else a byte may be one that matters or not.
    for at in (0..whole.len()).step_by(whole.len() / 60) {
        std::fs::write(&path, spoilt(&|bytes| bytes[at] ^= 0x41)).unwrap();
        if let Ok(node) = try_start(Some(&directory.0), None) {
            node.cluster.stop();
        }
    }
    std::fs::write(&path, &whole).unwrap();
    try_start(Some(&directory.0), None).unwrap().cluster.stop();
}
