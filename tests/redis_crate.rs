//! The server as the crate `redis` sees it: RESP2 and RESP3, at one core and at two.
//!
//! Each test starts a server of its own on a free port and ends it with SIGTERM, which it must obey in order.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "what a test cannot do is a test that fails")]

mod common;

use common::{Five, PATIENCE, Server};
use redis::{AsyncCommands, Client, Commands, Connection, ErrorKind, ServerErrorKind, Value, cmd, pipe};
use std::time::Instant;

fn open(server: &Server, protocol: &str) -> Client {
    Client::open(format!("redis://127.0.0.1:{}/?protocol={protocol}", server.port)).expect("an address")
}

fn connect(server: &Server, protocol: &str) -> Connection {
    let connection = open(server, protocol).get_connection_with_timeout(PATIENCE).expect("a connection");
    connection.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    connection
}

/// Runs `test` against servers of one and two cores, in both protocols, and ends each server in order.
fn everywhere(test: impl Fn(&mut Connection)) {
    for cores in [1, 2] {
        let server = Server::start(cores);
        for protocol in ["resp2", "resp3"] {
            let mut connection = connect(&server, protocol);
            let () = cmd("FLUSHALL").query(&mut connection).expect("FLUSHALL");
            test(&mut connection);
        }
        let status = server.end();
        assert_eq!(status.code(), Some(0), "{cores} cores: {status}");
    }
}

/// A command written in words.
fn command(line: &str) -> redis::Cmd {
    let mut words = line.split(' ');
    let mut built = cmd(words.next().expect("a name"));
    words.for_each(|word| {
        built.arg(word);
    });
    built
}

#[test]
fn limits_answer_five_integers() {
    everywhere(|connection| {
        for (line, expected) in [
            ("RL.SLIDE rl:{ak_42}:orders 2 60", (1, 2, 1, 0, 120_000)),
            ("RL.SLIDE rl:{ak_42}:orders 2 60", (1, 2, 0, 0, 120_000)),
            ("RL.SLIDE rl:{ak_42}:orders 2 60", (0, 2, 0, 60_001, 120_000)),
            ("RL.TOKEN t 5 1 COST 3 PARTIAL", (3, 5, 2, 0, 3_000)),
            ("RL.FIXED f 5 60 COST 6", (0, 5, 5, -1, 0)),
            ("RL.LOG l 5 60 PEEK", (1, 5, 5, 0, 0)),
            ("RL.LEAK q 3 2", (1, 3, 2, 0, 500)),
            ("CL.THROTTLE c 4 5 5", (0, 5, 4, -1, 1)),
        ] {
            let reply: Five = command(line).query(connection).expect(line);
            assert_eq!(reply, expected, "{line}");
        }
    });
}

#[test]
fn replies_of_a_pipeline_come_in_order() {
    everywhere(|connection| {
        let mut pipeline = pipe();
        for number in 0..500 {
            pipeline.cmd("RL.FIXED").arg(format!("k{number}")).arg(1_000 + number).arg("1h");
            pipeline.cmd("ECHO").arg(number);
        }
        let replies: Vec<(Five, i64)> = {
            let flat: Vec<Value> = pipeline.query(connection).expect("a pipeline");
            let pairs = flat.as_chunks::<2>().0.iter();
            pairs.map(|[five, echo]| (typed(five), typed(echo))).collect()
        };
        assert_eq!(replies.len(), 500);
        for (number, (five, echo)) in (0..).zip(replies) {
            assert_eq!(five, (1, 1_000 + number, 999 + number, 0, 3_600_000));
            assert_eq!(echo, number);
        }
        let size: i64 = cmd("DBSIZE").query(connection).expect("DBSIZE");
        assert!(size == 500, "{size} keys");
    });
}

fn typed<T: redis::FromRedisValue>(value: &Value) -> T {
    redis::from_redis_value(value.clone()).unwrap_or_else(|_| panic!("{value:?} is of another type"))
}

#[test]
fn all_is_all_or_nothing() {
    everywhere(|connection| {
        // Enough keys that they lie on every core.
        let groups: Vec<String> = (0..16).map(|number| format!("k{number} FIXED 5 1h 2")).collect();
        let line = format!("RL.ALL {}", groups.join(" "));
        for (allowed, five) in [(1, (1, 5, 3, 0, 3_600_000)), (1, (1, 5, 1, 0, 3_600_000))] {
            assert_all(connection, &line, allowed, 0, &[five; 16]);
        }
        // One limit refuses: none is charged.
        let one_full = line.replace("k7 FIXED 5 1h 2", "full FIXED 1 1h 2").replace("5 1h 2", "50 1h 2");
        let mut fives = [(1, 50, 46, 0, 3_600_000); 16];
        fives[7] = (0, 1, 1, -1, 0);
        assert_all(connection, &one_full, 0, 7, &fives);
        let exists: i64 = cmd("EXISTS").arg("full").query(connection).expect("EXISTS");
        assert_eq!(exists, 0);
    });
}

fn assert_all(connection: &mut Connection, line: &str, allowed: i64, binding: i64, fives: &[Five]) {
    let reply: Vec<Value> = command(line).query(connection).expect(line);
    let [first, second, rest @ ..] = reply.as_slice() else { panic!("{reply:?}") };
    assert_eq!((typed::<i64>(first), typed::<i64>(second)), (allowed, binding));
    let answered: Vec<Five> = rest.iter().map(typed).collect();
    assert_eq!(answered, fives);
}

#[test]
fn scan_is_walked_by_the_iterator() {
    everywhere(|connection| {
        for number in 0..300 {
            let _: Five = command(&format!("RL.TOKEN user:{number} 5 1/1h")).query(connection).expect("a limit");
        }
        let mut keys: Vec<String> = connection.scan().expect("SCAN").map(|key| key.expect("a key")).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 300);
        let matching: Vec<String> =
            connection.scan_match("user:1?").expect("SCAN MATCH").map(|key| key.expect("a key")).collect();
        assert_eq!(matching.len(), 10);
        let kind: String = cmd("TYPE").arg("user:1").query(connection).expect("TYPE");
        assert_eq!(kind, "rl.token");
        let deleted: i64 = connection.del(&["user:1", "user:2", "none"][..]).expect("DEL");
        assert_eq!(deleted, 2);
        let wait_ms: i64 = connection.pttl("user:3").expect("PTTL");
        assert_eq!(wait_ms, 3_600_000);
    });
}

#[test]
fn errors_have_their_types() {
    everywhere(|connection| {
        let _: Five = command("RL.SLIDE k 5 1").query(connection).expect("a limit");
        let response = ErrorKind::Server(ServerErrorKind::ResponseError);
        for (line, kind, code, part) in [
            ("RL.SLIDE k five 1", response, "ERR", "limit must be a whole number"),
            ("RL.SLIDE k 5", response, "ERR", "wrong number of arguments for 'rl.slide' command"),
            ("RL.TOKEN k 5 1", ErrorKind::Extension, "WRONGTYPE", "wrong kind of value"),
            ("NOPE a", response, "ERR", "unknown command 'NOPE'"),
            ("CLIENT TRACKING ON", response, "ERR", "client side caching is not offered"),
            ("CLUSTER INFO", response, "ERR", "This instance has cluster support disabled"),
            ("HELLO 9", ErrorKind::Extension, "NOPROTO", "unsupported protocol version"),
        ] {
            let error = command(line).query::<Value>(connection).expect_err(line);
            assert_eq!((error.kind(), error.code()), (kind, Some(code)), "{line}: {error}");
            assert!(error.detail().is_some_and(|detail| detail.contains(part)), "{line}: {error}");
        }
        let alive: String = cmd("PING").query(connection).expect("PING");
        assert_eq!(alive, "PONG");
    });
}

#[test]
fn a_pipeline_with_an_error_in_it_keeps_its_place() {
    everywhere(|connection| {
        let mut pipeline = pipe();
        pipeline.cmd("RL.FIXED").arg("a").arg(5).arg("1h");
        pipeline.cmd("RL.FIXED").arg("a").arg("x").arg("1h");
        pipeline.cmd("RL.FIXED").arg("b").arg(5).arg("1h");
        assert!(pipeline.query::<Vec<Five>>(connection).is_err());
        let alive: Five = command("RL.FIXED b 5 1h").query(connection).expect("a limit");
        assert_eq!(alive, (1, 5, 3, 0, 3_600_000));
    });
}

#[test]
fn the_clock_moves_by_command_and_on_all_cores() {
    everywhere(|connection| {
        for number in 0..8 {
            let _: Five = command(&format!("RL.FIXED k{number} 1 10")).query(connection).expect("a limit");
        }
        let before: u64 = cmd("RL.CLOCK").query(connection).expect("RL.CLOCK");
        let () = command("RL.CLOCK ADVANCE 10s").query(connection).expect("RL.CLOCK ADVANCE");
        let after: u64 = cmd("RL.CLOCK").query(connection).expect("RL.CLOCK");
        assert_eq!(after - before, 10_000_000);
        for number in 0..8 {
            let five: Five = command(&format!("RL.FIXED k{number} 1 10")).query(connection).expect("a limit");
            assert_eq!((five.0, five.2), (1, 0), "k{number}");
        }
    });
}

#[test]
fn requests_in_flight_do_not_keep_it_from_ending() {
    let server = Server::start(2);
    let mut connections: Vec<Connection> = (0..8).map(|_| connect(&server, "resp3")).collect();
    for connection in &mut connections {
        let mut pipeline = pipe();
        (0..200).for_each(|number| {
            pipeline.cmd("RL.SLIDE").arg(format!("k{number}")).arg(1_000).arg(60);
        });
        connection.send_packed_command(&pipeline.get_packed_pipeline()).expect("it is sent");
    }
    assert_eq!(server.end().code(), Some(0));
}

#[test]
fn ordinary_commands() {
    everywhere(|connection| {
        let () = connection.set("k", "one").expect("SET");
        let not_new: bool = connection.set_nx("k", "two").expect("SETNX");
        let old: Option<String> = connection.getset("k", "two").expect("GETSET");
        let length: i64 = connection.append("k", "!").expect("APPEND");
        assert_eq!((not_new, old.as_deref(), length), (false, Some("one"), 4));
        let () = connection.set_ex("k", "v", 100).expect("SETEX");
        let seconds: i64 = connection.ttl("k").expect("TTL");
        let is_set: bool = connection.expire("k", 200).expect("EXPIRE");
        let millis: i64 = connection.pttl("k").expect("PTTL");
        let is_kept: bool = connection.persist("k").expect("PERSIST");
        let none: i64 = connection.ttl("k").expect("TTL");
        assert_eq!((seconds, is_set, millis, is_kept, none), (100, true, 200_000, true, -1));

        let bytes: Vec<u8> = (0..=255).collect();
        let () = connection.mset(&[("a", b"1".as_slice()), ("b", bytes.as_slice())]).expect("MSET");
        let several: (i64, Option<i64>, Vec<u8>) = connection.mget(&["a", "nobody", "b"][..]).expect("MGET");
        assert_eq!(several, (1, None, bytes));
        let raised: i64 = connection.incr("a", 41).expect("INCRBY");
        let lowered: i64 = connection.decr("a", 50).expect("DECRBY");
        let fraction: f64 = connection.incr("f", 0.5).expect("INCRBYFLOAT");
        assert_eq!((raised, lowered, fraction), (42, -8, 0.5));
        let () = connection.rename("a", "z").expect("RENAME");
        let is_there: bool = connection.exists("a").expect("EXISTS");
        let deleted: i64 = connection.unlink(&["z", "b", "f", "nobody"][..]).expect("UNLINK");
        assert_eq!((is_there, deleted), (false, 3));

        let () = connection.pset_ex("k", "v", 1_500).expect("PSETEX");
        for (line, expected) in [("RL.CLOCK ADVANCE 1499ms", Some("v")), ("RL.CLOCK ADVANCE 1ms", None)] {
            let () = command(line).query(connection).expect(line);
            let value: Option<String> = connection.get("k").expect("GET");
            assert_eq!(value.as_deref(), expected, "{line}");
        }
    });
}

#[test]
fn transactions_are_one_step_and_watched_keys_are_watched() {
    everywhere(|connection| {
        let mut limited = pipe();
        limited.atomic().incr("a", 1).cmd("RL.FIXED").arg("f").arg(5).arg(60);
        let answers: (i64, Five) = limited.query(connection).expect("a transaction");
        assert_eq!(answers, (1, (1, 5, 4, 0, 60_000)));

        // Somebody comes between twice: the closure runs a third time.
        let mut runs = 0;
        let raised: (i64,) = redis::transaction(connection, &["n"], |connection, pipeline| {
            let value: i64 = connection.get::<_, Option<i64>>("n")?.unwrap_or(0);
            runs += 1;
            if runs < 3 {
                let () = connection.set("n", runs * 10)?;
            }
            pipeline
                .incr("n", 1)
                .query(connection)
                .map(|answer: Option<(i64,)>| answer.inspect(|_| assert_eq!(value, 20)))
        })
        .expect("a transaction");
        assert_eq!((raised, runs), ((21,), 3));

        let mut refused = pipe();
        refused.atomic().incr("a", 1).cmd("NO.SUCH").arg("a");
        let error = refused.query::<Value>(connection).expect_err("an unknown command");
        assert!(error.to_string().contains("unknown command"), "{error}");
        let value: i64 = connection.get("a").expect("GET");
        assert_eq!(value, 1);
    });
}

#[test]
fn connections_shared_by_tasks_come_back_after_a_restart() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        for protocol in ["resp2", "resp3"] {
            let server = Server::start(2);
            let client = open(&server, protocol);
            let mut shared = client.get_multiplexed_async_connection().await.expect("a connection");
            let mut managed = client.get_connection_manager().await.expect("a connection");
            let calls: Vec<_> = (0..200)
                .map(|_| {
                    let mut connection = shared.clone();
                    tokio::spawn(async move {
                        command("RL.SLIDE shared 100 1h").query_async::<Five>(&mut connection).await.expect("a limit").0
                    })
                })
                .collect();
            let mut allowed = 0;
            for call in calls {
                allowed += call.await.expect("a task");
            }
            assert_eq!(allowed, 100);

            let port = server.port;
            assert_eq!(server.end().code(), Some(0));
            let server = Server::start_at(2, port);
            // A plain connection is gone for good; a managed one says so once, and is back for the next call.
            shared.incr::<_, _, i64>("after", 1).await.expect_err("the connection is gone");
            let begun = Instant::now();
            let counted = loop {
                match managed.incr::<_, _, i64>("after", 1).await {
                    Ok(counted) => break counted,
                    Err(error) => assert!(error.is_io_error() && begun.elapsed() < PATIENCE, "{error}"),
                }
            };
            assert_eq!(counted, 1);
            assert_eq!(server.end().code(), Some(0));
        }
    });
}
