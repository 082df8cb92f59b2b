//! Servers that close connections, go away for a while or for good, or never answer.

use super::{FIVE_INTEGERS, Seen, bench, read_command, serve_tcp};
use crate::live::Live;
use crate::plan::Plan;
use crate::run::run;
use clap::Parser;
use std::io::{BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const SHAPE: [&str; 6] = ["--connections", "4", "--pipeline", "1", "--keys", "50"];

/// Long enough for a busy machine, and far less than the patience with a server that is silent.
const SOON: Duration = Duration::from_secs(20);

/// Answers every call; the last reply of each connection comes together with the end of its sending side, and what
/// comes then is read and never answered.
fn serve_half_closing(calls_of_connection: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            thread::spawn(move || half_close_after(calls_of_connection, &stream.unwrap()));
        }
    });
    address
}

fn half_close_after(calls: usize, stream: &TcpStream) {
    stream.set_nodelay(true).unwrap();
    let mut reader = BufReader::new(stream);
    let mut left = calls;
    let mut writer = stream;
    while let Some(words) = read_command(&mut reader) {
        let is_call = words[0] == "RL.SLIDE";
        left -= usize::from(is_call);
        let reply = if is_call { FIVE_INTEGERS } else { "+PONG\r\n" };
        if writer.write_all(reply.as_bytes()).is_err() || left == 0 {
            break;
        }
    }
    let _ = stream.shutdown(Shutdown::Write);
    let _ = reader.read_to_end(&mut Vec::new());
}

#[test]
fn a_connection_that_ends_with_its_last_reply_is_seen_to_end() {
    for pace in [&["--threads", "1"][..], &["--threads", "2"], &["--rate", "2000"]] {
        let started = Instant::now();
        let flags = [&SHAPE[..], &["--dialect", "tollgate", "--duration", "400ms"], pace].concat();
        let error = bench(&serve_half_closing(40), &flags).unwrap_err();
        assert_eq!(error, "the server closed a connection", "{pace:?}");
        let more = ["--reconnect", "--warmup", "150ms"];
        let report = bench(&serve_half_closing(40), &[&flags[..], &more].concat()).unwrap();
        let calls = report["calls"].as_u64().unwrap();
        assert!(calls > 4 * 40 && calls > report["errors"].as_u64().unwrap() * 4, "{pace:?}: {report}");
        assert!(started.elapsed() < SOON, "{pace:?}: {:?}", started.elapsed());
    }
}

/// What a server said before it closed a connection is told once, and not what was said of connections lost before.
#[test]
fn what_was_said_before_the_end_is_told() {
    let calls = Arc::new(AtomicU64::new(0));
    let says = move |_: usize, words: &[String]| match words[0].as_str() {
        "PING" => "+PONG\r\n".to_owned(),
        _ if calls.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) => "-ERR full\r\n".to_owned(),
        _ => String::new(),
    };
    let flags = ["--connections", "1", "--pipeline", "1", "--keys", "9", "--dialect", "tollgate", "--requests", "20"];
    let error = bench(&serve_tcp(says.clone()).0, &flags).unwrap_err();
    assert_eq!(error, "the server closed a connection after saying: ERR full");
    let report = bench(&serve_tcp(says).0, &[&flags[..], &["--reconnect"]].concat()).unwrap();
    let texts = report["errors_by_text"].as_array().unwrap();
    let texts: Vec<&str> = texts.iter().map(|row| row["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["ERR full", "the server closed a connection after saying: ERR full"]);
}

/// A server that goes away after so many calls, and comes back after a time, if at all.
fn leaving(calls: u64, away: Option<Duration>) -> impl Fn(usize, &[String]) -> String + Clone + Send + 'static {
    let (left, gone) = (Arc::new(AtomicU64::new(calls)), Arc::new(AtomicBool::new(false)));
    let since = Arc::new(std::sync::OnceLock::<Instant>::new());
    move |_: usize, words: &[String]| {
        if words[0] == "RL.SLIDE"
            && left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_err()
        {
            gone.store(true, Ordering::Relaxed);
        }
        let is_away =
            gone.load(Ordering::Relaxed) && away.is_none_or(|away| since.get_or_init(Instant::now).elapsed() < away);
        match words[0].as_str() {
            _ if is_away => String::new(),
            "PING" => "+PONG\r\n".to_owned(),
            _ => FIVE_INTEGERS.to_owned(),
        }
    }
}

#[test]
fn an_outage_is_part_of_the_time_and_can_be_seen() {
    for (away, silent_at_least, threads) in [(None, 0.7, "1"), (None, 0.7, "2"), (Some(400), 0.4, "1")] {
        let server = leaving(500, away.map(Duration::from_millis));
        let flags = [&SHAPE[..], &["--dialect", "tollgate", "--duration", "1500ms", "--reconnect"]].concat();
        let target = serve_tcp(server).0;
        let line = [&["bench", "--target", &target, "--warmup", "0", "--threads", threads], &flags[..]].concat();
        let plan = Plan::check(super::Command::parse_from(line).arguments).unwrap();
        let live = Live::new().unwrap();
        let report = run(&plan, Some(&live)).unwrap();
        let json: serde_json::Value = serde_json::from_str(&report.to_json().unwrap()).unwrap();
        let number = |name: &str| json[name].as_f64().unwrap();
        assert!((1.5..10.0).contains(&number("seconds")), "{json}");
        assert!((number("calls_per_second") - number("calls") / number("seconds")).abs() < 1.0, "{json}");
        assert!(number("longest_silence_seconds") >= silent_at_least, "{json}");
        assert!(json["latency"]["max_us"].as_f64().unwrap() >= silent_at_least * 1e6 * 0.99, "{json}");
        assert!(report.to_table().contains("without a reply"));
        let intervals = live.take_intervals();
        if away.is_none() {
            // All calls were made in the first moments, unless the machine stood still.
            let later: f64 =
                intervals.iter().filter(|one| one.from_seconds > 0.7).map(|one| one.calls_per_second).sum();
            assert!(later < 1.0, "{intervals:?}");
        }
    }
}

/// The lateness is the client's own: not what a server costs that closes connections.
#[test]
fn closed_connections_do_not_make_the_client_late() {
    let calls = Arc::new(AtomicU64::new(0));
    let closing = move |_: usize, words: &[String]| match words[0].as_str() {
        "PING" => {
            // A server that is slow to accept.
            thread::sleep(Duration::from_millis(5));
            "+PONG\r\n".to_owned()
        }
        _ if calls.fetch_add(1, Ordering::Relaxed) % 10 == 9 => String::new(),
        _ => FIVE_INTEGERS.to_owned(),
    };
    let flags = ["--dialect", "tollgate", "--duration", "600ms", "--rate", "1000", "--reconnect"];
    let report = bench(&serve_tcp(closing).0, &[&SHAPE[..], &flags].concat()).unwrap();
    assert!(report["errors"].as_u64().unwrap() > 10, "{report}");
    assert!(report["client_late_p50_us"].as_f64().unwrap() < 2_000.0, "{report}");
}

/// Nothing but the preparation is answered, or nothing after some calls.
#[test]
fn a_server_that_never_answers_ends_the_run_soon_after_its_time() {
    for (pace, answered) in [(&["--threads", "1"][..], 0), (&["--threads", "2"], 100), (&["--rate", "1000"], 100)] {
        let seen = Seen::default();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = listener.local_addr().unwrap().to_string();
        let left = Arc::new(AtomicU64::new(answered));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (left, seen) = (left.clone(), seen.clone());
                thread::spawn(move || answer_some(&stream.unwrap(), &left, &seen));
            }
        });
        let started = Instant::now();
        let flags = [&SHAPE[..], &["--dialect", "tollgate", "--duration", "300ms"], pace].concat();
        let report = bench(&target, &flags).unwrap();
        assert!(started.elapsed() < SOON, "{pace:?}: {:?}", started.elapsed());
        let errors = report["errors"].as_u64().unwrap();
        assert!(errors > 0 && report["calls"].as_u64() == Some(answered + errors), "{pace:?}: {report}");
        assert_eq!(report["first_error"], "no reply until the run ended", "{pace:?}");
        assert!(report["latency"]["max_us"].as_f64().unwrap() > 1e6, "{pace:?}: {report}");
        let error = bench(&target, &[&flags[..], &["--warmup", "100ms"]].concat()).unwrap_err();
        let expected = if pace[0] == "--rate" { "no reply for" } else { "no reply for 2 s while 4 connections wait" };
        assert!(error.starts_with(expected), "{pace:?}: {error}");
    }
}

fn answer_some(stream: &TcpStream, left: &AtomicU64, seen: &Seen) {
    let mut reader = BufReader::new(stream);
    let mut writer = stream;
    while let Some(words) = read_command(&mut reader) {
        let is_call = words[0] == "RL.SLIDE";
        if is_call && left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_err() {
            seen.lock().unwrap().push((0, words));
            continue;
        }
        writer.write_all(if is_call { FIVE_INTEGERS } else { "+PONG\r\n" }.as_bytes()).unwrap();
    }
}

#[test]
fn the_rate_that_was_asked_for_is_the_one_that_is_shown() {
    let cases: [(&[&str], f64, u64); 4] = [
        (&["--rate", "10", "--requests", "2", "--pipeline", "1"], 10.0, 2),
        (&["--rate", "7", "--duration", "500ms", "--pipeline", "1"], 7.0, 4),
        (&["--rate", "100", "--duration", "200ms", "--pipeline", "16"], 100.0, 20),
        (&["--rate", "100", "--duration", "200ms", "--pipeline", "16", "--threads", "2"], 100.0, 20),
    ];
    for (flags, asked, calls) in cases {
        let report =
            bench(&serve_tcp(super::five).0, &[flags, &["--keys", "9", "--connections", "2"]].concat()).unwrap();
        assert_eq!((report["rate_asked"].as_f64(), report["calls"].as_u64()), (Some(asked), Some(calls)), "{flags:?}");
        let reached = report["rate_reached"].as_f64().unwrap();
        assert!(reached <= asked * 1.15 && report["rate_kept"] == true, "{flags:?}: {report}");
    }
    let too_large = ["--rate", "1", "--pipeline", "64", "--duration", "2s"];
    let error = bench("127.0.0.1:1", &too_large).unwrap_err();
    assert!(error.starts_with("--pipeline 64 is more than the 2 calls of --rate 1 in 2s"), "{error}");
}
