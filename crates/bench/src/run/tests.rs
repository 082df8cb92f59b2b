//! Whole runs against a small server in this process, which answers as a test wants and records what it was asked.

use super::run;
use crate::arguments::Arguments;
use crate::keys::core_of;
use crate::plan::Plan;
use clap::Parser;
use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Mutex};
use std::thread;

const FIVE_INTEGERS: &str = "*5\r\n:1\r\n:100\r\n:99\r\n:0\r\n:60000\r\n";

mod failover;
mod faulty;
mod outages;
mod workloads;

/// A connection's number and the words of a command to the reply; an empty reply closes the connection.
pub(crate) type Answer = fn(usize, &[String]) -> String;

/// Commands that the server got, with the connection of each.
pub(crate) type Seen = Arc<Mutex<Vec<(usize, Vec<String>)>>>;

#[derive(Parser)]
pub(crate) struct Command {
    #[command(flatten)]
    pub(crate) arguments: Arguments,
}

/// What a person who types `flags` asks for.
pub(crate) fn bench_arguments(flags: &[&str]) -> Arguments {
    Command::parse_from([&["bench"], flags].concat()).arguments
}

/// Runs with `flags` and returns the report's fields, or the error's text.
fn bench(target: &str, flags: &[&str]) -> Result<serde_json::Value, String> {
    let warmup = if flags.contains(&"--warmup") { vec![] } else { vec!["--warmup", "0"] };
    let line = [&["bench", "--target", target], &warmup[..], flags].concat();
    let arguments = Command::parse_from(line).arguments;
    let report = Plan::check(arguments).and_then(|plan| run(&plan, None)).map_err(|error| error.to_string())?;
    Ok(serde_json::from_str(&report.to_json().unwrap()).unwrap())
}

/// Answers every call with five integers.
pub(crate) fn five(_: usize, words: &[String]) -> String {
    if words == ["PING"] { "+PONG\r\n".to_owned() } else { FIVE_INTEGERS.to_owned() }
}

/// Connections take turns on three cores.
fn three_cores(connection: usize, words: &[String]) -> String {
    let info = match words.first().map(String::as_str) {
        Some("CLIENT") => format!("id=7 addr=127.0.0.1:1 core={} name=\n", connection % 3),
        Some("INFO") => "# Server\r\nredis_version:7.2.4\r\ntollgate_cores:3\r\n".to_owned(),
        _ => return five(connection, words),
    };
    format!("${}\r\n{info}\r\n", info.len())
}

/// Counts each call as denied or as an error by the last digit of its key.
fn by_last_digit(connection: usize, words: &[String]) -> String {
    match words.get(1).and_then(|key| key.chars().last()) {
        Some('3') => "*5\r\n:0\r\n:100\r\n:0\r\n:7\r\n:9\r\n".to_owned(),
        Some('4') => "-BUSY the core is full\r\n".to_owned(),
        Some('5') => ":1\r\n".to_owned(),
        _ => five(connection, words),
    }
}

fn with_scripts(_: usize, words: &[String]) -> String {
    match words.first().map(String::as_str) {
        Some("SCRIPT") => "$6\r\nabc123\r\n".to_owned(),
        Some("EVALSHA") if words.get(1).is_some_and(|sha| sha == "abc123") => "*2\r\n:1\r\n:99\r\n".to_owned(),
        _ => "+PONG\r\n".to_owned(),
    }
}

#[test]
fn exactly_the_requested_calls_are_made() {
    let cases = [("1", "1", "100", 5), ("3", "16", "100", 1_003), ("8", "64", "100", 3), ("4", "7", "1", 100)];
    for (connections, pipeline, keys, calls) in cases {
        let (target, seen) = serve_tcp(five);
        let calls_text = calls.to_string();
        let shape = ["--connections", connections, "--pipeline", pipeline, "--keys", keys, "--limit", "100"];
        let report = bench(&target, &[&shape[..], &["--requests", &calls_text]].concat()).unwrap();
        assert_eq!(report["calls"], calls, "{shape:?}");
        assert_eq!(report["errors"].as_u64().max(report["denied"].as_u64()), Some(0), "{shape:?}");
        let seen = seen.lock().unwrap();
        assert_eq!(seen.len(), calls, "{shape:?}");
        assert!(
            seen.iter().all(|(_, words)| words[0] == "RL.SLIDE" && words[1].len() == 24 && words[2..] == ["100", "60"])
        );
    }
}

#[test]
fn warming_touches_every_key_once_from_all_connections() {
    let (target, seen) = serve_tcp(five);
    let flags = ["--warm-keys", "--requests", "0", "--keys", "5003", "--connections", "4", "--pipeline", "16"];
    let report = bench(&target, &flags).unwrap();
    assert_eq!(report["calls"], 0);
    let seen = seen.lock().unwrap();
    let keys: HashSet<&String> = seen.iter().map(|(_, words)| &words[1]).collect();
    let connections: HashSet<usize> = seen.iter().map(|(connection, _)| *connection).collect();
    assert_eq!((seen.len(), keys.len(), connections.len()), (5_003, 5_003, 4));
}

#[test]
fn a_duration_ends_the_run() {
    let (target, _) = serve_tcp(five);
    let report =
        bench(&target, &["--duration", "30ms", "--warmup", "10ms", "--keys", "10", "--connections", "2"]).unwrap();
    assert!(report["calls"].as_u64().unwrap() > 0);
    assert!(report["seconds"].as_f64().unwrap() >= 0.03);
}

#[test]
fn denials_errors_and_other_shapes_are_counted() {
    let (target, _) = serve_tcp(by_last_digit);
    let report =
        bench(&target, &["--requests", "100", "--keys", "100", "--connections", "3", "--pipeline", "9"]).unwrap();
    assert_eq!((report["calls"].as_u64(), report["denied"].as_u64()), (Some(100), Some(10)));
    // Ten replies are one integer; should one of them come first, it is the other shape that is unexpected.
    let unexpected = report["unexpected_replies"].as_u64().unwrap();
    assert!(unexpected == 10 || unexpected == 80, "{unexpected}");
    assert_eq!(report["errors"], 10);
    assert_eq!(report["first_error"], "BUSY the core is full");
}

#[test]
fn each_connection_keeps_to_the_keys_of_its_core() {
    for command in ["RL.SLIDE {key} 100 60", "RL.SLIDE a:{{key}}:b 100 60"] {
        let (target, seen) = serve_tcp(three_cores);
        let flags = ["--own-core", "--requests", "900", "--keys", "1000", "--connections", "6", "--command", command];
        assert_eq!(bench(&target, &flags).unwrap()["calls"], 900);
        let seen = seen.lock().unwrap();
        let calls: Vec<_> = seen.iter().filter(|(_, words)| words[0] == "RL.SLIDE").collect();
        assert_eq!(calls.len(), 900);
        assert!(calls.iter().all(|(connection, words)| core_of(words[1].as_bytes(), 3) == connection % 3));
    }
}

#[test]
fn a_script_is_loaded_and_named_by_its_sha() {
    let (target, seen) = serve_tcp(with_scripts);
    let file = std::env::temp_dir().join(format!("tollgate-bench-{}.lua", std::process::id()));
    std::fs::write(&file, "return {1, 99}").unwrap();
    let path = file.to_str().unwrap();
    let command = "EVALSHA {sha} 1 {key} 100 60";
    let flags = ["--script", path, "--command", command, "--requests", "40", "--keys", "10"];
    let report = bench(&target, &flags);
    std::fs::remove_file(&file).unwrap();
    let report = report.unwrap();
    assert_eq!((report["calls"].as_u64(), report["errors"].as_u64()), (Some(40), Some(0)));
    assert_eq!(seen.lock().unwrap()[0].1, ["SCRIPT", "LOAD", "return {1, 99}"]);
}

#[test]
fn a_unix_socket_is_a_target() {
    let path = std::env::temp_dir().join(format!("tollgate-bench-{}.sock", std::process::id()));
    let listener = UnixListener::bind(&path).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            thread::spawn(move || answer_all(0, stream.try_clone().unwrap(), stream, five, &Seen::default()));
        }
    });
    let report =
        bench(&format!("unix:{}", path.display()), &["--requests", "100", "--keys", "10", "--connections", "2"]);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(report.unwrap()["calls"], 100);
}

#[test]
fn an_unusable_server_is_told_in_words() {
    let cases: [(Answer, &str); 7] = [
        (|_, _| "-NOAUTH Authentication required.\r\n".into(), "refused to authenticate: NOAUTH"),
        (|_, _| "-DENIED only loopback\r\n".into(), "refused to authenticate: DENIED"),
        (|_, _| "-LOADING wait\r\n".into(), "PING was answered by: LOADING wait"),
        (|_, _| "HTTP/1.1 400 Bad Request\r\n".into(), "is this a RESP server?"),
        (|_, _| String::new(), "the server closed a connection"),
        (|_, words| if words == ["PING"] { "+PONG\r\n".into() } else { String::new() }, "closed a connection"),
        (
            |_, words| if words == ["PING"] { "+PONG\r\n".into() } else { ":1\r\n:1\r\n:1\r\n".into() },
            "more replies came",
        ),
    ];
    for (answer, expected) in cases {
        let (target, _) = serve_tcp(answer);
        let error =
            bench(&target, &["--requests", "10", "--keys", "10", "--connections", "2", "--pipeline", "1"]).unwrap_err();
        assert!(error.contains(expected), "{error:?} does not say {expected:?}");
    }
    let (target, _) = serve_tcp(by_last_digit);
    let error = bench(&target, &["--warm-keys", "--requests", "0", "--keys", "50"]).unwrap_err();
    assert_eq!(error, "5 calls of touching the keys failed, the first with: BUSY the core is full");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let error = bench(&address, &["--requests", "1"]).unwrap_err();
    assert!(error.starts_with("no server answers at redis://127.0.0.1:"), "{error}");
}

#[test]
fn flags_that_do_not_fit_are_refused_before_connecting() {
    for flags in [
        ["--connections", "0"],
        ["--threads", "51"],
        ["--cpu", "0,1"],
        ["--rate", "0"],
        ["--arrivals", "poisson"],
        ["--limit", "0"],
        ["--window", "0.1ms"],
        ["--denied", "1.5"],
        ["--denied", "NaN"],
        ["--zipf-exponent", "1"],
        ["--pipeline", "10001"],
        ["--keys", "0"],
        ["--key-bytes", "7"],
        ["--key-bytes", "1025"],
        ["--target", "redis://h:x"],
        ["--script", "/nowhere/at.all"],
    ] {
        let arguments = Command::parse_from([&["bench"], &flags[..]].concat()).arguments;
        assert!(Plan::check(arguments).is_err(), "{flags:?}");
    }
    // What would be left out without a word.
    let cases: [(&[&str], &str); 8] = [
        (&["--zipf-exponent", "1"], "--zipf-exponent needs --key-distribution zipf"),
        (&["--zipf-exponent", "0", "--key-distribution", "zipf"], "is not between"),
        (&["--workload", "ping", "--limit", "5"], "--limit: the workload ping limits nothing"),
        (&["--workload", "get", "--window", "5"], "--window: the workload get limits nothing"),
        (&["--workload", "ping", "--warm-keys"], "--warm-keys: the calls have no key"),
        (&["--command", "PING", "--warm-keys"], "--warm-keys: the calls have no key"),
        (&["--command", "PING", "--command", "PING"], "--command was given 2 times"),
        (&["--command", "PING", "--script", "a", "--script", "b"], "--script was given 2 times"),
    ];
    for (flags, expected) in cases {
        let error = Plan::check(bench_arguments(flags)).unwrap_err().to_string();
        assert!(error.contains(expected), "{flags:?}: {error}");
    }
}

#[test]
fn one_hot_key_is_not_denied_unless_that_is_wanted() {
    let (target, seen) = serve_tcp(five);
    let shape = ["--requests", "3", "--connections", "1", "--keys", "1"];
    bench(&target, &shape).unwrap();
    bench(&target, &[&shape[..], &["--limit", "7"]].concat()).unwrap();
    let limits: Vec<String> = seen.lock().unwrap().iter().map(|(_, words)| words[2].clone()).collect();
    assert_eq!(limits, ["1000000000", "1000000000", "1000000000", "7", "7", "7"]);
}

#[test]
fn a_cpu_that_is_not_there_is_told_with_those_that_are() {
    let (target, _) = serve_tcp(five);
    let error = bench(&target, &["--requests", "1", "--cpu", "1023"]).unwrap_err();
    assert!(error.starts_with("--cpu 1023 is none of the CPUs that this program may use: "), "{error}");
}

#[test]
fn whether_a_script_denies_is_told_by_a_plain_integer_too() {
    let by_digit = |_: usize, words: &[String]| match words[0].as_str() {
        "PING" => "+PONG\r\n".to_owned(),
        "INCR" => ":0\r\n".to_owned(),
        "FCALL" => "+OK\r\n".to_owned(),
        _ => format!(":{}\r\n", u8::from(!words[3].ends_with('3'))),
    };
    let cases = [
        ("EVAL x 1 {key}", Some(10)),
        ("EVALSHA x 1 {key}", Some(10)),
        ("FCALL f 1 {key}", None),
        ("INCR {key}", None),
    ];
    for (command, denied) in cases {
        let (target, _) = serve_tcp(by_digit);
        let flags = ["--requests", "100", "--keys", "100", "--connections", "2", "--command", command];
        assert_eq!(bench(&target, &flags).unwrap()["denied"].as_u64(), denied, "{command}");
    }
}

/// Serves on a free port; the answers may come from a state that all connections share.
pub(crate) fn serve_tcp(answer: impl Fn(usize, &[String]) -> String + Clone + Send + 'static) -> (String, Seen) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let seen = Seen::default();
    let record = seen.clone();
    thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let (stream, record, answer) = (stream.unwrap(), record.clone(), answer.clone());
            // Replies are written one by one: held back, they would take 40 ms each time.
            stream.set_nodelay(true).unwrap();
            thread::spawn(move || answer_all(number, stream.try_clone().unwrap(), stream, answer, &record));
        }
    });
    (address, seen)
}

fn answer_all(
    number: usize,
    stream: impl Read,
    mut writer: impl Write,
    answer: impl Fn(usize, &[String]) -> String,
    seen: &Seen,
) {
    let mut reader = BufReader::new(stream);
    while let Some(words) = read_command(&mut reader) {
        let own = answer(number, &words);
        let name = words.first().map(String::as_str);
        // Servers that have nothing to say about it know all commands.
        let reply = match name {
            Some("COMMAND") if !own.starts_with(['-', '!']) => known_commands(words.get(2..).unwrap()),
            _ => own.trim_start_matches('!').to_owned(),
        };
        if !matches!(name, Some("PING" | "COMMAND" | "TIME" | "RL.CLOCK")) {
            seen.lock().unwrap().push((number, words));
        }
        if reply.is_empty() || writer.write_all(reply.as_bytes()).is_err() {
            return;
        }
    }
}

/// What COMMAND INFO answers where everything is known but scripts.
fn known_commands(names: &[String]) -> String {
    let row = |name: &String| if name == "EVALSHA" { "*-1\r\n" } else { "*1\r\n$1\r\nx\r\n" };
    format!("*{}\r\n{}", names.len(), names.iter().map(row).collect::<String>())
}

fn read_command(reader: &mut impl BufRead) -> Option<Vec<String>> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let count: usize = line.trim_end().strip_prefix('*')?.parse().ok()?;
    let mut words = Vec::new();
    for _ in 0..count {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let length: usize = line.trim_end().strip_prefix('$')?.parse().ok()?;
        let mut word = vec![0; length + 2];
        reader.read_exact(&mut word).ok()?;
        word.truncate(length);
        words.push(String::from_utf8(word).ok()?);
    }
    Some(words)
}
