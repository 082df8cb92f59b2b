//! The server as the crate `redis` sees it: RESP2 and RESP3, at one core and at two.
//!
//! Each test starts a server of its own on a free port and ends it with SIGTERM, which it must obey in order.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "what a test cannot do is a test that fails")]

use redis::{Client, Commands, Connection, ErrorKind, ServerErrorKind, Value, cmd, pipe};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take before the test gives up.
const PATIENCE: Duration = Duration::from_secs(20);

/// The five integers of a limit.
type Five = (i64, i64, i64, i64, i64);

/// A running server, ended when it goes out of scope.
struct Server {
    process: Child,
    port: u16,
}

impl Server {
    /// Starts one at a time that stands still, and waits until it says where it serves.
    fn start(cores: u16) -> Server {
        let mut process = Command::new(env!("CARGO_BIN_EXE_tollgate"))
            .args([
                "serve",
                "--bind",
                "127.0.0.1",
                "--port",
                "0",
                "--admin-port",
                "0",
                "--test-clock",
                "--log-format",
                "text",
            ])
            .args(["--cores", &cores.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut lines = BufReader::new(process.stderr.take().expect("a pipe")).lines();
        let port = lines.by_ref().map_while(Result::ok).find_map(|line| port_in(&line));
        // Read on to the end, so that the server never waits for its log to be read.
        std::thread::spawn(move || lines.for_each(drop));
        Server { process, port: port.expect("the banner names the port") }
    }

    fn connect(&self, protocol: &str) -> Connection {
        let client = Client::open(format!("redis://127.0.0.1:{}/?protocol={protocol}", self.port)).expect("an address");
        let connection = client.get_connection_with_timeout(PATIENCE).expect("a connection");
        connection.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        connection
    }

    /// Asks it to end, and how it did.
    fn end(mut self) -> ExitStatus {
        let asked = Command::new("sh").args(["-c", &format!("kill -TERM {}", self.process.id())]).status();
        assert!(asked.expect("a shell runs").success());
        let begun = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait().expect("a child") {
                return status;
            }
            assert!(begun.elapsed() < PATIENCE, "the server does not end");
            std::thread::yield_now();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The port in the banner's first line, `... serves on 127.0.0.1:PORT ...`.
fn port_in(line: &str) -> Option<u16> {
    let (_, rest) = line.split_once("serves on 127.0.0.1:")?;
    rest.split(|character: char| !character.is_ascii_digit()).next()?.parse().ok()
}

/// Runs `test` against servers of one and two cores, in both protocols, and ends each server in order.
fn everywhere(test: impl Fn(&mut Connection)) {
    for cores in [1, 2] {
        let server = Server::start(cores);
        for protocol in ["resp2", "resp3"] {
            let mut connection = server.connect(protocol);
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
            ("CLIENT TRACKING ON", response, "ERR", "unknown subcommand"),
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
    let mut connections: Vec<Connection> = (0..8).map(|_| server.connect("resp3")).collect();
    for connection in &mut connections {
        let mut pipeline = pipe();
        (0..200).for_each(|number| {
            pipeline.cmd("RL.SLIDE").arg(format!("k{number}")).arg(1_000).arg(60);
        });
        connection.send_packed_command(&pipeline.get_packed_pipeline()).expect("it is sent");
    }
    assert_eq!(server.end().code(), Some(0));
}
