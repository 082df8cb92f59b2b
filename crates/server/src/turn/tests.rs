//! Replies over a stream as narrow as one likes, in a time that moves by itself.

use super::*;
use crate::clock::boot_micros;
use crate::config::{Config, ServeArguments};
use crate::connection::{Connection, Peer};
use crate::run::assemble;
use crate::stream::Stream;
use clap::Parser;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::runtime::{Builder, LocalOptions};
use tokio::time::{Instant, sleep, timeout};
use tollgate_engine::cluster::{Health, View};
use tollgate_engine::core::{Core, Parts};
use tollgate_engine::session::Client;
use tollgate_engine::tunables::Tunable;
use tollgate_store::StoreConfig;
use tollgate_topology::change::Change;
use tollgate_topology::map::Info;
use tollgate_topology::slots::SlotSet;
use tollgate_topology::{NodeId, SlotMap};

impl Stream for DuplexStream {
    fn descriptor(&self) -> i32 {
        -1
    }

    async fn gone(&self) {
        std::future::pending().await
    }
}

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    serve: ServeArguments,
}

fn worker() -> Rc<Worker> {
    worker_with(&[])
}

fn worker_with(arguments: &[&str]) -> Rc<Worker> {
    let arguments = ["serve", "--test-clock"].iter().chain(arguments);
    let config = Command::parse_from(arguments).serve.load(std::iter::empty(), &[0]).unwrap().config;
    let config = Config { cores: 1, ..config };
    let (memory_max_bytes, eviction) = (config.memory_max_bytes, config.eviction);
    let store = StoreConfig { hash_seed: [1, 2, 3, 4], core: 0, cores: 1, memory_max_bytes, eviction, random_seed: 5 };
    let (hub, _deliveries) = assemble(config, 10, 0).unwrap();
    let core = Core::new(Parts { settings: hub.settings.clone(), counters: hub.counters.clone(), store });
    Rc::new(Worker::new(core, hub))
}

/// A client of a server that has room for `width` bytes each way.
struct Served {
    worker: Rc<Worker>,
    client: Rc<Client>,
    stream: DuplexStream,
    connection: tokio::task::JoinHandle<()>,
}

fn serve(width: usize) -> Served {
    serve_by(worker(), width)
}

fn serve_by(worker: Rc<Worker>, width: usize) -> Served {
    let (stream, server) = tokio::io::duplex(width);
    let peer = Peer { address: "a:1".to_owned(), local_address: "b:2".to_owned() };
    let connection = Connection::new(worker.clone(), server, peer);
    let client = connection.session.client.clone();
    Served { worker, client, stream, connection: tokio::task::spawn_local(connection.run()) }
}

async fn until_one_ran(client: &Client) {
    while client.commands.get() == 0 {
        tokio::task::yield_now().await;
    }
}

/// Runs a test in a time that moves only while nothing else does.
fn run<F: Future>(test: impl FnOnce() -> F) -> F::Output {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build_local(LocalOptions::default());
    runtime.unwrap().block_on(async move { test().await })
}

fn echo(word: &str) -> (String, String) {
    let bulk = format!("${}\r\n{word}\r\n", word.len());
    (format!("*2\r\n$4\r\nECHO\r\n{bulk}"), bulk)
}

#[test]
fn replies_pass_a_stream_of_any_width_whole_and_in_order() {
    for width in [1, 2, 7, 64, 1_000, 100_000] {
        for depth in [1, 2, 16, 63, 64, 65, 300] {
            let (requests, replies): (Vec<_>, Vec<_>) =
                (0..depth).map(|number| echo(&format!("word {number}"))).unzip();
            let (requests, replies) = (requests.concat(), replies.concat());
            let (received, sent_bytes) = run(|| async {
                let Served { worker, client, stream, connection } = serve(width);
                let (mut reads, mut writes) = tokio::io::split(stream);
                let mut received = vec![0; replies.len()];
                let write = async { writes.write_all(requests.as_bytes()).await.unwrap() };
                let read = async { reads.read_exact(&mut received).await.unwrap() };
                tokio::join!(write, read);
                drop((reads, writes));
                connection.await.unwrap();
                assert_eq!(client.output_bytes.get(), u64::try_from(replies.len()).unwrap());
                (received, worker.core.borrow().counters.net_output_bytes.get())
            });
            assert_eq!(String::from_utf8_lossy(&received), replies, "width {width}, depth {depth}");
            assert_eq!(sent_bytes, u64::try_from(replies.len()).unwrap());
        }
    }
}

/// How a client that reads nothing for a while is treated.
struct Unread {
    /// Seconds of CONFIG SET timeout; 0 for none.
    idle_seconds: i64,
    /// The client reads a byte every so many seconds, so often.
    reads: (u64, u32),
    ended_after_seconds: u64,
}

#[test]
fn who_takes_none_of_his_replies_for_long_is_ended() {
    let cases = [
        Unread { idle_seconds: 0, reads: (0, 0), ended_after_seconds: 30 },
        Unread { idle_seconds: 0, reads: (20, 3), ended_after_seconds: 90 },
        Unread { idle_seconds: 5, reads: (0, 0), ended_after_seconds: 5 },
        Unread { idle_seconds: 5, reads: (4, 4), ended_after_seconds: 21 },
        Unread { idle_seconds: 60, reads: (0, 0), ended_after_seconds: 30 },
    ];
    for Unread { idle_seconds, reads: (pause_seconds, reads), ended_after_seconds } in cases {
        run(|| async {
            let Served { worker, client, mut stream, connection } = serve(16);
            worker.hub.settings.tunables.set(Tunable::Timeout, idle_seconds);
            let (begun, (request, reply)) = (Instant::now(), echo(&"x".repeat(100)));
            stream.write_all(request.as_bytes()).await.unwrap();
            until_one_ran(&client).await;
            // A second command lies in the stream, and is not read.
            stream.write_all(b"PING\r\n").await.unwrap();
            for taken in 0..reads {
                sleep(Duration::from_secs(pause_seconds)).await;
                let unsent = reply.len() - 16 - usize::try_from(taken).unwrap();
                assert_eq!(client.state.unsent_bytes.get(), u64::try_from(unsent).unwrap());
                assert_eq!(client.commands.get(), 1);
                stream.read_u8().await.unwrap();
            }
            connection.await.unwrap();
            assert_eq!(begun.elapsed().as_secs(), ended_after_seconds, "timeout {idle_seconds}");
            let core = worker.core.borrow();
            assert_eq!((core.counters.slow_disconnections.get(), core.counters.net_output_bytes.get()), (1, 0));
        });
    }
}

#[test]
fn who_does_not_read_is_ended_by_a_kill_at_once() {
    run(|| async {
        let Served { worker, client, mut stream, connection } = serve(16);
        stream.write_all(echo(&"x".repeat(100)).0.as_bytes()).await.unwrap();
        sleep(Duration::from_secs(1)).await;
        assert!(client.state.unsent_bytes.get() > 0);
        client.state.killed.set(tollgate_engine::client_state::Killed::AtOnce);
        worker.wake_client(client.id);
        timeout(Duration::from_secs(1), connection).await.unwrap().unwrap();
    });
}

/// The turn in which the replies are made is that in which the connections are told to end.
#[test]
fn what_was_answered_before_a_kill_or_a_stop_leaves() {
    for kill in [true, false] {
        run(|| async {
            let Served { worker, client, mut stream, connection } = serve(1_000);
            let (request, reply) = echo("last words");
            stream.write_all(request.as_bytes()).await.unwrap();
            until_one_ran(&client).await;
            match kill {
                true => client.state.killed.set(tollgate_engine::client_state::Killed::AtOnce),
                false => worker.stop_connections(),
            }
            worker.wake_client(client.id);
            let mut received = String::new();
            stream.read_to_string(&mut received).await.unwrap();
            assert_eq!(received, reply);
            drop(stream);
            connection.await.unwrap();
            assert!(!worker.has_connections());
        });
    }
}

#[test]
fn more_connections_than_are_written_for_in_a_row_are_all_answered() {
    run(|| async {
        let worker = worker();
        let mut clients = Vec::new();
        for number in 0..3 * WRITES_IN_A_ROW + 1 {
            let (mut stream, server) = tokio::io::duplex(100);
            let (request, reply) = echo(&number.to_string());
            stream.write_all(request.as_bytes()).await.unwrap();
            let peer = Peer { address: "a:1".to_owned(), local_address: "b:2".to_owned() };
            tokio::task::spawn_local(Connection::new(worker.clone(), server, peer).run());
            clients.push((stream, reply));
        }
        for (stream, reply) in &mut clients {
            let mut received = vec![0; reply.len()];
            stream.read_exact(&mut received).await.unwrap();
            assert_eq!(received, reply.as_bytes());
        }
        drop(clients);
        while worker.has_connections() {
            tokio::task::yield_now().await;
        }
    });
}

/// A node of a cluster that owns all slots, with a lease for a minute.
fn node() -> Served {
    let worker = worker_with(&["--cluster-enabled", "yes"]);
    let (id, mut map) = (NodeId::default(), SlotMap::default());
    let slots = SlotSet::new(0..tollgate_store::SLOTS);
    map.apply(&Change::Join { id, info: Info::default(), slots, config_epoch: 1 }).unwrap();
    worker.hub.settings.shared.set_view(Arc::new(View::new(id, Arc::new(map), Health::default())));
    worker.hub.tenure.set_owns_slots(true);
    worker.hub.tenure.set_until(boot_micros() + 60_000_000);
    serve_by(worker, 1_000)
}

const CALL: &[u8] = b"RL.SLIDE a 5 60\r\n";
const ADMITTED: &str = "*5\r\n:1\r\n:5\r\n:4\r\n:0\r\n:120000\r\n";
const DOWN: &str = "-CLUSTERDOWN The cluster is down\r\n";

async fn receive(stream: &mut DuplexStream, expected: &str) {
    let mut received = vec![0; expected.len()];
    stream.read_exact(&mut received).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&received), expected);
}

#[test]
fn an_answer_leaves_under_a_lease_whatever_there_was_when_it_was_made() {
    for comes_back in [true, false] {
        run(|| async {
            let Served { worker, client, mut stream, .. } = node();
            let (tenure, of) = (worker.hub.tenure.clone(), client.clone());
            // Always on the list of what is to run, so that it is there before who writes.
            let ended = tokio::task::spawn_local(std::future::poll_fn(move |context| {
                if of.commands.get() == 0 {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                tenure.set_until(0);
                Poll::Ready(())
            }));
            stream.write_all(CALL).await.unwrap();
            ended.await.unwrap();
            sleep(Duration::from_millis(1)).await;
            assert_eq!(client.output_bytes.get(), 0, "it is kept");
            if comes_back {
                worker.hub.tenure.set_until(boot_micros() + 60_000_000);
                receive(&mut stream, ADMITTED).await;
            } else {
                receive(&mut stream, DOWN).await;
            }
        });
    }
}

#[test]
fn a_call_waits_for_a_lease_and_not_for_long() {
    run(|| async {
        let Served { worker, client, mut stream, .. } = node();
        let tenure = worker.hub.tenure.clone();
        tenure.set_until(0);
        let begun = boot_micros();
        stream.write_all(CALL).await.unwrap();
        receive(&mut stream, DOWN).await;
        assert!(boot_micros() - begun >= 50_000);
        // What asks nothing of keys is answered.
        stream.write_all(b"ECHO a\r\n").await.unwrap();
        receive(&mut stream, "$1\r\na\r\n").await;
        let answered = client.output_bytes.get();
        stream.write_all(CALL).await.unwrap();
        sleep(Duration::from_millis(2)).await;
        assert_eq!(client.output_bytes.get(), answered, "it waits");
        tenure.set_until(boot_micros() + 60_000_000);
        receive(&mut stream, ADMITTED).await;
    });
}
