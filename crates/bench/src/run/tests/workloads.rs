//! Workloads in every dialect, threads, distributions, and the open loop.

use super::{bench, five, serve_tcp};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

const QUICK: [&str; 8] = ["--requests", "64", "--keys", "10", "--connections", "4", "--pipeline", "8"];

/// Redis without modules: COMMAND INFO knows scripts only.
fn redis(_: usize, words: &[String]) -> String {
    match words.first().map(String::as_str) {
        Some("COMMAND") => {
            let known = |name: &String| matches!(name.as_str(), "EVALSHA" | "INCR" | "GET" | "PING");
            let row = |name: &String| if known(name) { "*1\r\n$1\r\nx\r\n" } else { "*-1\r\n" };
            let rows: String = words.iter().skip(2).map(row).collect();
            format!("!*{}\r\n{rows}", words.len() - 2)
        }
        Some("SCRIPT") => "$6\r\nabc123\r\n".to_owned(),
        Some("PING") => "+PONG\r\n".to_owned(),
        _ => "*5\r\n:1\r\n:100\r\n:99\r\n:0\r\n:60000\r\n".to_owned(),
    }
}

/// throttlecrab-server: THROTTLE, PING, and an error for all else.
fn throttlecrab(_: usize, words: &[String]) -> String {
    match words.first().map(String::as_str) {
        Some("THROTTLE") => "*5\r\n:1\r\n:100\r\n:99\r\n:60\r\n:0\r\n".to_owned(),
        Some("PING") => "+PONG\r\n".to_owned(),
        Some(name) => format!("-ERR unknown command '{name}'\r\n"),
        None => String::new(),
    }
}

#[test]
fn a_workload_is_asked_for_as_the_server_understands_it() {
    type Server = fn(usize, &[String]) -> String;
    let cases: [(Server, &str, &str, &str); 9] = [
        (five, "slide", "tollgate", "RL.SLIDE {key} 100 60"),
        (five, "throttle", "tollgate", "THROTTLE {key} 100 100 60"),
        (five, "incr", "tollgate", "INCR {key}"),
        (redis, "slide", "redis", "EVALSHA {sha} 1 {key} 100 60"),
        (redis, "all", "redis", "EVALSHA {sha} 2 {{key}}:s {{key}}:t 100 60"),
        (redis, "increx", "redis", "EVALSHA {sha} 1 {key} 100 60000"),
        (redis, "get", "redis", "GET {key}"),
        (throttlecrab, "throttle", "throttlecrab", "THROTTLE {key} 100 100 60"),
        (throttlecrab, "ping", "throttlecrab", "PING"),
    ];
    for (server, workload, dialect, command) in cases {
        let (target, _) = serve_tcp(server);
        let report = bench(&target, &[&QUICK[..], &["--workload", workload]].concat()).unwrap();
        let named = (report["workload"].as_str(), report["dialect"].as_str(), report["command"].as_str());
        assert_eq!(named, (Some(workload), Some(dialect), Some(command)));
        assert_eq!((report["calls"].as_u64(), report["errors"].as_u64()), (Some(64), Some(0)), "{workload}");
    }
}

#[test]
fn a_workload_that_a_server_cannot_do_is_told() {
    let (target, _) = serve_tcp(throttlecrab);
    let error = bench(&target, &[&QUICK[..], &["--workload", "slide"]].concat()).unwrap_err();
    let has = "as a server of the dialect throttlecrab it has THROTTLE and PING (workloads throttle and ping)";
    assert_eq!(error, format!("redis://{target} cannot do the workload slide: {has}"));
    let (target, seen) = serve_tcp(throttlecrab);
    let flags = ["--workload", "throttle", "--dialect", "redis"];
    let error = bench(&target, &[&QUICK[..], &flags].concat()).unwrap_err();
    assert_eq!(error, "SCRIPT LOAD was answered by: ERR unknown command 'SCRIPT'");
    assert!(seen.lock().unwrap().iter().all(|(_, words)| words[0] != "THROTTLE"));
}

/// A server that forgets its scripts gets them again; the calls in between are errors.
#[test]
fn a_script_that_is_gone_is_loaded_again() {
    let is_loaded = Arc::new(Mutex::new((false, 0)));
    let server = move |number: usize, words: &[String]| {
        let mut state = is_loaded.lock().unwrap();
        match words[0].as_str() {
            "SCRIPT" => state.0 = true,
            "EVALSHA" => {
                state.1 += 1;
                if state.1 == 100 {
                    state.0 = false;
                }
                if !state.0 {
                    return "-NOSCRIPT No matching script. Please use EVAL.\r\n".to_owned();
                }
            }
            _ => {}
        }
        redis(number, words)
    };
    let (target, seen) = serve_tcp(server);
    let flags = ["--requests", "2000", "--keys", "10", "--connections", "2", "--pipeline", "4"];
    let report = bench(&target, &flags).unwrap();
    let errors = report["errors"].as_u64().unwrap();
    assert!((1..1_000).contains(&errors), "{errors}");
    assert!(report["first_error"].as_str().unwrap().starts_with("NOSCRIPT"));
    let loads = seen.lock().unwrap().iter().filter(|(_, words)| words[0] == "SCRIPT").count();
    assert!(loads >= 2, "{loads}");
}

#[test]
fn threads_share_calls_and_connections() {
    for threads in ["1", "3"] {
        let (target, seen) = serve_tcp(five);
        let flags = ["--threads", threads, "--requests", "1001", "--warm-keys", "--keys", "500", "--connections", "7"];
        let report = bench(&target, &flags).unwrap();
        assert_eq!((report["calls"].as_u64(), report["threads"].to_string()), (Some(1_001), threads.to_owned()));
        let seen = seen.lock().unwrap();
        let mut touched: HashMap<&String, u32> = HashMap::new();
        seen.iter().take(500).for_each(|(_, words)| *touched.entry(&words[1]).or_default() += 1);
        assert_eq!((seen.len(), touched.len()), (1_501, 500), "every key is touched once before any is called again");
    }
}

#[test]
fn a_zipf_run_calls_few_keys_often() {
    let (target, seen) = serve_tcp(five);
    let flags = ["--key-distribution", "zipf", "--zipf-exponent", "1.2", "--requests", "5000", "--keys", "1000"];
    let report = bench(&target, &[&flags[..], &["--connections", "4"]].concat()).unwrap();
    assert_eq!((report["key_distribution"].as_str(), report["zipf_exponent"].as_f64()), (Some("zipf"), Some(1.2)));
    let mut counts: HashMap<String, u32> = HashMap::new();
    seen.lock().unwrap().iter().for_each(|(_, words)| *counts.entry(words[1].clone()).or_default() += 1);
    // The first of a thousand ranks has 23 % of the calls.
    let hottest = counts.values().max().unwrap();
    assert!((900..1_400).contains(hottest), "{hottest}");
}

/// Calls of the spent family name a limit of one; whoever counts them by their limit sees the share.
#[test]
fn the_share_of_denied_calls_is_as_asked() {
    let limiter = |_: usize, words: &[String]| match (words[0].as_str(), words.get(2).map(String::as_str)) {
        ("PING", _) => "+PONG\r\n".to_owned(),
        ("RL.SLIDE", Some("1")) => "*5\r\n:0\r\n:1\r\n:0\r\n:5\r\n:9\r\n".to_owned(),
        _ => super::FIVE_INTEGERS.to_owned(),
    };
    for (share, keys) in [("0.3", "1"), ("0.3", "5000"), ("0", "10"), ("1", "10")] {
        let (target, seen) = serve_tcp(limiter);
        let flags = ["--denied", share, "--requests", "20000", "--keys", keys, "--connections", "4"];
        let report = bench(&target, &flags).unwrap();
        let asked: f64 = share.parse().unwrap();
        let denied = report["denied"].as_f64().unwrap() / 20_000.0;
        // Four standard deviations of 20000 draws.
        assert!((denied - asked).abs() <= 4.0 * (asked * (1.0 - asked) / 20_000.0).sqrt(), "{share} {keys}: {denied}");
        let seen = seen.lock().unwrap();
        let mut first_denied = seen.iter().filter(|(_, words)| words[2] == "1").map(|(_, words)| &words[1]);
        assert!(first_denied.all(|key| key.contains('d')));
        assert!(seen.iter().filter(|(_, words)| words[2] != "1").all(|(_, words)| words[2] == "1000000000"));
    }
}

/// A server that stalls once for a tenth of a second, for all connections.
fn stalling() -> impl Fn(usize, &[String]) -> String + Clone + Send + 'static {
    let calls = Arc::new(Mutex::new(0_u32));
    move |_: usize, words: &[String]| {
        if words[0] == "PING" {
            return "+PONG\r\n".to_owned();
        }
        let mut calls = calls.lock().unwrap();
        *calls += 1;
        if *calls == 200 {
            thread::sleep(Duration::from_millis(100));
        }
        super::FIVE_INTEGERS.to_owned()
    }
}

/// In a closed loop a stall is one slow call; who calls at a rate sees as many as came meanwhile.
#[test]
fn an_open_loop_sees_a_stall_as_callers_do() {
    let flags = ["--duration", "1s", "--keys", "100", "--pipeline", "1"];
    let closed = bench(&serve_tcp(stalling()).0, &[&flags[..], &["--connections", "1"]].concat()).unwrap();
    assert!(closed["p99_us"].as_f64().unwrap() < 50_000.0, "{closed}");
    let open = ["--rate", "1000", "--connections", "4"];
    let open = bench(&serve_tcp(stalling()).0, &[&flags[..], &open].concat()).unwrap();
    // A tenth of the calls were due in the stall: the hundredth part that waited longest waited at least 90 ms of it,
    // and the eleventh part begins where nobody waited.
    assert!(open["p99_us"].as_f64().unwrap() > 80_000.0, "{open}");
    assert!(open["p50_us"].as_f64().unwrap() < 50_000.0, "{open}");
    assert_eq!((open["calls"].as_u64(), open["rate"].as_u64()), (Some(1_000), Some(1_000)));
    assert_eq!((open["calls_unsent"].as_u64(), open["arrivals"].as_str()), (Some(0), Some("even")));
    assert!(open["rate_reached"].as_f64().unwrap() > 900.0, "{open}");
}

/// A rate that no server keeps ends in time, and is told.
#[test]
fn a_rate_that_is_not_reached_is_told() {
    let slow = |number: usize, words: &[String]| {
        thread::sleep(Duration::from_millis(2));
        five(number, words)
    };
    let flags = ["--rate", "100000", "--duration", "100ms", "--keys", "10", "--connections", "2", "--pipeline", "1"];
    let report = bench(&serve_tcp(slow).0, &flags).unwrap();
    assert!(report["calls_unsent"].as_u64().unwrap() > 5_000, "{report}");
    assert_eq!((report["rate_kept"].as_bool(), report["rate_asked"].as_f64()), (Some(false), Some(100_000.0)));
    let calls = report["calls"].as_u64().unwrap() + report["calls_unsent"].as_u64().unwrap();
    assert_eq!(calls, 10_000, "whatever was due is accounted for");
}

#[test]
fn an_open_loop_makes_exactly_the_requested_calls() {
    for (threads, arrivals, pipeline) in [("1", "even", "1"), ("2", "poisson", "5"), ("3", "even", "7")] {
        let (target, seen) = serve_tcp(five);
        let shape = ["--threads", threads, "--arrivals", arrivals, "--pipeline", pipeline, "--connections", "6"];
        let report = bench(&target, &[&shape[..], &["--rate", "20000", "--requests", "1003", "--keys", "9"]].concat());
        assert_eq!((report.unwrap()["calls"].as_u64(), seen.lock().unwrap().len()), (Some(1_003), 1_003), "{shape:?}");
    }
}
