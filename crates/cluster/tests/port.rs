//! The peer port: who is let in, and what bytes of any kind do to it.

#![allow(clippy::unwrap_used, reason = "a value that a test has made")]

mod common;

use common::{Node, start, try_start};
use proptest::prelude::*;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};
use tollgate_cluster::MeetError;

/// Longer than any bound of the port that a test waits for.
const WAIT: Duration = Duration::from_secs(8);

fn connect(node: &Node) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", node.info.endpoint.peer_port)).unwrap();
    stream.set_read_timeout(Some(WAIT)).unwrap();
    stream
}

fn frame(json: &str) -> Vec<u8> {
    let mut bytes = u32::try_from(json.len()).unwrap().to_le_bytes().to_vec();
    bytes.extend_from_slice(json.as_bytes());
    bytes
}

fn hello(has_secret: bool) -> Vec<u8> {
    let (id, nonce) = ("a".repeat(40), "b".repeat(64));
    frame(&format!(
        r#"{{"magic":"tollgate-peer","version":1,"group":"none","id":"{id}","nonce":"{nonce}",
            "has_secret":{has_secret},"said_by_a_later_version":[1]}}"#
    ))
}

/// What comes until the other side closes; panics if it does not.
fn until_closed(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => bytes,
        Err(error) if error.kind() == ErrorKind::ConnectionReset => bytes,
        Err(error) => panic!("it is not closed: {error}"),
    }
}

fn read_frame(stream: &mut TcpStream) -> String {
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut json = vec![0; usize::try_from(u32::from_le_bytes(length)).unwrap()];
    stream.read_exact(&mut json).unwrap();
    String::from_utf8(json).unwrap()
}

/// One that has greeted.
fn greeted(node: &Node) -> TcpStream {
    let mut stream = connect(node);
    stream.write_all(&hello(false)).unwrap();
    assert!(read_frame(&mut stream).contains(&node.id().to_string()));
    stream
}

async fn still_works(node: &Node) {
    node.adds([1]).await;
    node.has("it serves", |node| node.process.serves()).await;
}

#[tokio::test]
async fn nodes_meet_only_with_the_same_secret() {
    let one = try_start(None, Some("horse battery")).unwrap();
    let same = try_start(None, Some("horse battery")).unwrap();
    let other = try_start(None, Some("horse staple")).unwrap();
    let none = start();
    for node in [&one, &same, &other, &none] {
        node.is_there().await;
    }
    one.meets(&same).await;
    one.has("a leader answers", |node| node.health().has_leader).await;
    for (from, to) in [(&one, &other), (&other, &one), (&one, &none), (&none, &one)] {
        let port = to.info.endpoint.peer_port;
        let refused = from.cluster.meet("127.0.0.1".to_owned(), 1, Some(port)).await.unwrap_err();
        assert!(matches!(refused, MeetError::Unreachable { .. }), "{refused}");
    }
    assert_eq!(one.map().nodes.len(), 2);
    still_works(&other).await;
    still_works(&none).await;
}

#[tokio::test]
async fn who_does_not_prove_that_it_knows_the_secret_gets_no_answer() {
    let node = try_start(None, Some("horse battery")).unwrap();
    node.is_there().await;
    for proof in
        [frame(r#"{"proof":""}"#), frame(&format!(r#"{{"proof":"{}"}}"#, "0".repeat(64))), frame("\"WhoAreYou\"")]
    {
        let mut stream = connect(&node);
        stream.write_all(&hello(true)).unwrap();
        assert!(read_frame(&mut stream).contains("has_secret\":true"));
        stream.write_all(&proof).unwrap();
        assert_eq!(until_closed(&mut stream), b"");
    }
    let mut stream = connect(&node);
    stream.write_all(&hello(false)).unwrap();
    read_frame(&mut stream);
    assert_eq!(until_closed(&mut stream), b"");
    still_works(&node).await;
}

#[tokio::test]
async fn what_a_group_decides_is_nobody_else_s() {
    let node = start();
    node.is_there().await;
    let mut stream = greeted(&node);
    let hand_over = format!(r#"{{"HandOver":{{"to":"{}","since":1}}}}"#, "0".repeat(40));
    for request in [r#"{"MissesLeader":null}"#, hand_over.as_str()] {
        stream.write_all(&frame(request)).unwrap();
        assert_eq!(read_frame(&mut stream), r#""OtherGroup""#);
    }
    stream.write_all(&frame(r#""WhoAreYou""#)).unwrap();
    assert!(read_frame(&mut stream).contains("\"nodes\":1"));
    stream.write_all(&frame(r#"{"Surrender":{}}"#)).unwrap();
    assert_eq!(until_closed(&mut stream), b"", "what is not understood ends the connection");
    still_works(&node).await;
}

#[tokio::test]
async fn lengths_that_are_only_declared_end_the_connection() {
    let node = start();
    node.is_there().await;
    for length in [4 * 1024 + 1, 8 * 1024 * 1024, u32::MAX] {
        let mut stream = connect(&node);
        stream.write_all(&length.to_le_bytes()).unwrap();
        assert_eq!(until_closed(&mut stream), b"");
    }
    let mut stream = greeted(&node);
    stream.write_all(&(8u32 * 1024 * 1024 + 1).to_le_bytes()).unwrap();
    assert_eq!(until_closed(&mut stream), b"");
    // One that might come, and does not.
    let mut stream = greeted(&node);
    stream.write_all(&(8u32 * 1024 * 1024).to_le_bytes()).unwrap();
    stream.write_all(&[b' '; 100]).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(until_closed(&mut stream), b"");
    still_works(&node).await;
}

#[tokio::test]
async fn those_who_say_nothing_are_few_and_do_not_stay() {
    let (node, other) = (start(), start());
    node.is_there().await;
    other.is_there().await;
    let since = Instant::now();
    let mut silent: Vec<TcpStream> = (0..16).map(|_| connect(&node)).collect();
    silent[0].write_all(&[20, 0]).unwrap();
    let mut one_more = connect(&node);
    assert_eq!(until_closed(&mut one_more), b"");
    assert!(since.elapsed() < Duration::from_secs(1), "{:?}", since.elapsed());
    for stream in &mut silent {
        assert_eq!(until_closed(stream), b"");
    }
    assert!(since.elapsed() < Duration::from_secs(4), "{:?}", since.elapsed());
    other.meets(&node).await;
}

#[test]
fn no_bytes_do_any_harm() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let node = start();
    runtime.block_on(node.is_there());
    let bytes = || prop::collection::vec(any::<u8>(), 0..300);
    let json = prop_oneof![
        bytes(),
        bytes().prop_map(|bytes| frame(&String::from_utf8_lossy(&bytes))),
        "[\\[\\]{}\":,a-zA-Z0-9]{0,60}".prop_map(|json| frame(&json)),
        Just(frame(&"[".repeat(4_000))),
    ];
    proptest!(ProptestConfig::with_cases(200), |(is_greeted in any::<bool>(), sent in json, cut in 0usize..400)| {
        let mut stream = if is_greeted { greeted(&node) } else { connect(&node) };
        // It may have been closed before all was sent.
        let _ = stream.write_all(&sent[..cut.min(sent.len())]);
        let _ = stream.shutdown(Shutdown::Write);
        until_closed(&mut stream);
    });
    runtime.block_on(still_works(&node));
}
