//! Groups become one, or stay as they were.

#![allow(clippy::unwrap_used, reason = "a value that a test has made")]

mod common;

use common::{Directory, Node, group, start, try_start, try_start_at};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;
use tollgate_cluster::MeetError;
use tollgate_topology::Change;
use tollgate_topology::slots::SlotSet;

async fn meeting(one: &Node, other: &Node) -> Result<(), MeetError> {
    one.cluster.meet("127.0.0.1".to_owned(), 1, Some(other.info.endpoint.peer_port)).await
}

async fn alone() -> Node {
    let node = start();
    node.is_there().await;
    node
}

#[tokio::test]
async fn a_lone_node_joins_with_its_slots_and_serves_on() {
    let (one, other) = (alone().await, alone().await);
    one.adds(0..100).await;
    other.adds(100..200).await;
    meeting(&one, &other).await.unwrap();
    assert_eq!(one.map().owner_of(5), Some(one.id()));
    assert_eq!(one.map().owner_of(105), Some(other.id()));
    assert_eq!(other.map().nodes.len(), 2);
    one.has("it serves on, under the lease of the group", |node| node.process.serves()).await;
    meeting(&one, &other).await.unwrap();
    meeting(&other, &one).await.unwrap();
}

#[tokio::test]
async fn a_node_whose_slots_are_another_s_goes_on_as_it_was() {
    let (one, other) = (alone().await, alone().await);
    one.adds(0..100).await;
    other.adds(99..200).await;
    let refused = meeting(&one, &other).await.unwrap_err();
    assert_eq!(refused.to_string(), "ERR Slot 99 is already busy");
    one.has("it serves on", |node| node.process.serves()).await;
    one.cluster
        .propose(Change::DelSlots { by: one.id(), lapsed: Default::default(), slots: SlotSet::new([99]) })
        .await
        .unwrap();
    meeting(&one, &other).await.unwrap();
    assert_eq!(other.map().owner_of(98), Some(one.id()));
}

#[tokio::test]
async fn a_group_takes_in_a_lone_node_whichever_is_told() {
    let nodes = group(2).await;
    let (third, fourth) = (alone().await, alone().await);
    third.adds([7]).await;
    meeting(&nodes[1], &third).await.unwrap();
    meeting(&fourth, &nodes[1]).await.unwrap();
    nodes[0].sees("all four are in", |map| map.nodes.len() == 4).await;
    assert_eq!(nodes[0].map().owner_of(7), Some(third.id()));
}

#[tokio::test]
async fn two_groups_of_more_than_one_stay_two() {
    let (one, other) = (group(2).await, group(2).await);
    let refused = meeting(&one[0], &other[1]).await.unwrap_err();
    assert_eq!(refused, MeetError::TwoGroups);
    assert!(refused.to_string().starts_with("ERR Both nodes are in groups of more than one: "));
}

#[tokio::test]
async fn two_that_join_each_other_at_once_are_one_group() {
    for _ in 0..4 {
        let (one, other) = (alone().await, alone().await);
        one.adds([1]).await;
        other.adds([2]).await;
        let (first, second) = tokio::join!(meeting(&one, &other), meeting(&other, &one));
        assert!(first.is_ok() || second.is_ok(), "{first:?} {second:?}");
        for node in [&one, &other] {
            node.sees("both are in", |map| map.nodes.len() == 2).await;
            node.has("it serves on", |node| node.process.serves()).await;
        }
        assert_eq!(one.map().owner_of(2), Some(other.id()));
    }
}

#[tokio::test]
async fn five_join_one_at_once() {
    let mut nodes = Vec::new();
    for _ in 0..6 {
        nodes.push(alone().await);
    }
    let since = Instant::now();
    let port = nodes[0].info.endpoint.peer_port;
    let meetings: Vec<_> = nodes[1..]
        .iter()
        .map(|node| {
            let cluster = node.cluster.clone();
            tokio::spawn(async move { cluster.meet("127.0.0.1".to_owned(), 1, Some(port)).await })
        })
        .collect();
    for met in meetings {
        met.await.unwrap().unwrap();
    }
    eprintln!("five joins took {:?}", since.elapsed());
    for node in &nodes {
        node.sees("all six are in", |map| map.nodes.len() == 6).await;
        node.has("five vote", |node| node.health().voters.len() == 5).await;
    }
}

#[tokio::test]
async fn nobody_is_met_where_nobody_is() {
    let node = alone().await;
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let nobody = node.cluster.meet("127.0.0.1".to_owned(), 1, Some(port)).await.unwrap_err();
    assert!(matches!(nobody, MeetError::Unreachable { .. }), "{nobody}");
    assert_eq!(node.cluster.meet("127.0.0.1".to_owned(), 60_000, None).await, Err(MeetError::NoPeerPort));
    // Itself it knows.
    meeting(&node, &node).await.unwrap();
}

/// Answers as a node would until it is asked to take somebody in; then it breaks the connection.
fn breaks_at_the_join(listener: TcpListener, joins: usize) -> TcpListener {
    let send = |stream: &mut TcpStream, json: &str| {
        stream.write_all(&u32::try_from(json.len()).unwrap().to_le_bytes()).unwrap();
        stream.write_all(json.as_bytes()).unwrap();
    };
    let receive = |stream: &mut TcpStream| {
        let mut length = [0; 4];
        stream.read_exact(&mut length).unwrap();
        let mut json = vec![0; usize::try_from(u32::from_le_bytes(length)).unwrap()];
        stream.read_exact(&mut json).unwrap();
        String::from_utf8(json).unwrap()
    };
    let (id, nonce) = ("a".repeat(40), "b".repeat(64));
    let mut broken = 0;
    while broken < joins {
        let (mut stream, _) = listener.accept().unwrap();
        receive(&mut stream);
        let hello = r#"{"magic":"tollgate-peer","version":1,"group":"g","id":"ID","nonce":"NONCE","has_secret":false}"#;
        send(&mut stream, &hello.replace("ID", &id).replace("NONCE", &nonce));
        if receive(&mut stream).contains("WhoAreYou") {
            send(&mut stream, &r#"{"Group":{"group":"g","id":"ID","nodes":1}}"#.replace("ID", &id));
        } else {
            broken += 1;
        }
    }
    listener
}

#[tokio::test]
async fn who_does_not_know_whether_it_was_taken_in_serves_nothing_until_it_does() {
    let directory = Directory::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let node = try_start(Some(&directory.0), None).unwrap();
    node.is_there().await;
    node.adds(0..100).await;
    node.has("it serves", |node| node.process.serves()).await;
    let stranger = std::thread::spawn(move || breaks_at_the_join(listener, 3));
    let cluster = node.cluster.clone();
    let meeting = tokio::spawn(async move { cluster.meet("127.0.0.1".to_owned(), 1, Some(port)).await });
    let listener = tokio::task::spawn_blocking(|| stranger.join().unwrap()).await.unwrap();
    assert!(!node.process.serves());
    node.cluster.stop();
    assert_eq!(meeting.await.unwrap(), Err(MeetError::Stopped));
    // The next process neither.
    drop(listener);
    let node = try_start(Some(&directory.0), None).unwrap();
    node.sees("its own map is there", |map| map.owner_of(99) == Some(node.id())).await;
    let until = Instant::now() + std::time::Duration::from_millis(1_200);
    node.has("two leases have passed", |node| {
        assert!(!node.process.serves());
        Instant::now() > until
    })
    .await;
    // Whoever is there now takes it in, with its slots.
    let other = try_start_at(TcpListener::bind(("127.0.0.1", port)).unwrap(), None, None).unwrap();
    node.sees("it is taken in", |map| map.nodes.len() == 2 && map.owner_of(99) == Some(node.id())).await;
    node.has("it serves", |node| node.process.serves()).await;
    other.sees("it is known", |map| map.nodes.len() == 2).await;
}
