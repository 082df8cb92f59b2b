//! `--verify` and `--reconnect` against servers over sockets that are right, wrong, or drop connections.

use super::{bench, serve_tcp};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

const WINDOW_MICROS: u64 = 100_000;

/// Calls of each key in each window.
type Counts = Arc<Mutex<HashMap<(String, u64), u64>>>;

pub(super) fn now_micros() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()).unwrap()
}

/// A fixed window of `limit` calls that says it is one of 20, and forgets everything at each call of which `forgets`
/// says so.
fn fixed(limit: u64, forgets: fn(u64) -> bool) -> impl Fn(usize, &[String]) -> String + Clone + Send + 'static {
    fixed_by(limit, forgets, |_| now_micros())
}

/// The same by another clock, which knows how many calls there were.
fn fixed_by(
    limit: u64,
    forgets: fn(u64) -> bool,
    clock: impl Fn(u64) -> u64 + Clone + Send + 'static,
) -> impl Fn(usize, &[String]) -> String + Clone + Send + 'static {
    let counts: Counts = Counts::default();
    let calls = Arc::new(Mutex::new(0_u64));
    move |_: usize, words: &[String]| {
        let mut calls = calls.lock().unwrap();
        let now = clock(*calls);
        match words[0].as_str() {
            "PING" => return "+PONG\r\n".to_owned(),
            "RL.CLOCK" => return format!(":{now}\r\n"),
            _ => *calls += 1,
        }
        let mut counts = counts.lock().unwrap();
        if forgets(*calls) {
            counts.clear();
        }
        let count = counts.entry((words[1].clone(), now / WINDOW_MICROS)).or_default();
        let allowed = *count < limit;
        *count += u64::from(allowed);
        let remaining = if allowed { 20_u64.saturating_sub(*count) } else { 0 };
        let reset = (WINDOW_MICROS - now % WINDOW_MICROS).div_ceil(1_000);
        let retry = if allowed { 0 } else { reset };
        format!("*5\r\n:{}\r\n:20\r\n:{remaining}\r\n:{retry}\r\n:{reset}\r\n", u64::from(allowed))
    }
}

const FLAGS: [&str; 13] = [
    "--workload",
    "fixed",
    "--limit",
    "20",
    "--window",
    "100ms",
    "--verify",
    "--keys",
    "2",
    "--connections",
    "3",
    "--pipeline",
    "4",
];

fn verified(server: impl Fn(usize, &[String]) -> String + Clone + Send + 'static, flags: &[&str]) -> serde_json::Value {
    bench(&serve_tcp(server).0, &[&FLAGS[..], &["--duration", "350ms"], flags].concat()).unwrap()["verify"].take()
}

#[test]
fn a_right_server_passes_in_both_loops() {
    for flags in [&["--threads", "1"][..], &["--threads", "2"], &["--rate", "4000"], &["--denied", "0.5"]] {
        let verify = verified(fixed(20, |_| false), flags);
        // With denied calls the second family has a limit of its own, which this server does not know.
        if flags[0] != "--denied" {
            assert_eq!(verify["violations"], 0, "{flags:?}: {verify}");
            assert_eq!((verify["keys"].as_u64(), verify["unknown"].as_u64()), (Some(2), Some(0)), "{verify}");
            assert!(verify["calls_checked"].as_u64().unwrap() > 200, "{verify}");
        } else {
            assert!(verify["inconsistent_replies"].as_u64().unwrap() > 0, "{verify}");
        }
    }
}

#[test]
fn wrong_servers_are_told_apart() {
    let generous = verified(fixed(24, |_| false), &[]);
    assert!(generous["over_admitted"].as_u64().unwrap() > 0, "{generous}");
    assert_eq!(generous["dishonest_denials"], 0, "{generous}");
    let words = generous["first_violation"].as_str().unwrap();
    assert!(words.contains("(FIXED): admitted between") && words.contains("of 20 were in use"), "{words}");
    let strict = verified(fixed(5, |_| false), &[]);
    assert!(strict["dishonest_denials"].as_u64().unwrap() > 0, "{strict}");
    assert_eq!(strict["over_admitted"], 0, "{strict}");
    let forgetful = verified(fixed(20, |call| call % 500 == 0), &[]);
    assert!(forgetful["violations"].as_u64().unwrap() > 0, "{forgetful}");
    assert_eq!(forgetful["dishonest_denials"], 0, "{forgetful}");
}

/// A server that closes connections now and then: whether the calls on the way were counted nobody knows.
#[test]
fn lost_connections_are_opened_again_and_their_calls_count_for_neither_side() {
    for pace in [&["--threads", "2"][..], &["--rate", "4000"]] {
        let right = fixed(20, |_| false);
        let calls = Arc::new(Mutex::new(0_u64));
        let dropping = move |number: usize, words: &[String]| {
            let reply = right(number, words);
            let mut calls = calls.lock().unwrap();
            *calls += u64::from(words[0] == "RL.FIXED");
            if words[0] == "RL.FIXED" && calls.is_multiple_of(97) { String::new() } else { reply }
        };
        let flags = [&FLAGS[..], &["--duration", "350ms", "--reconnect"], pace].concat();
        let report = bench(&serve_tcp(dropping.clone()).0, &flags).unwrap();
        assert!(report["errors"].as_u64().unwrap() > 0, "{report}");
        let verify = &report["verify"];
        assert_eq!((verify["violations"].as_u64(), verify["unknown"].as_u64()), (Some(0), report["errors"].as_u64()));
        // However often it happened, it is one kind of trouble.
        assert_eq!(report["errors_by_text"].as_array().unwrap().len(), 1, "{report}");
        assert_eq!(report["errors_by_text"][0]["text"], "the server closed a connection");
        let flags = [&FLAGS[..], &["--duration", "350ms"], pace].concat();
        let error = bench(&serve_tcp(dropping).0, &flags).unwrap_err();
        assert!(error.starts_with("the server closed a connection"), "{error}");
    }
}

#[test]
fn what_cannot_be_verified_is_refused() {
    let (target, _) = serve_tcp(fixed(20, |_| false));
    let cases = [
        (&["--verify", "--workload", "incr"][..], "--verify has nothing to check in the workload incr"),
        (&["--verify", "--keys", "20000000"], "--keys with --verify 20000000 is not between"),
        (&["--verify", "--limit", "5000000000"], "--limit with --verify 5000000000 is not between"),
        (&["--verify", "--window", "1d", "--limit", "1000000", "--dialect", "redis"], "SCRIPT LOAD was answered"),
    ];
    for (flags, expected) in cases {
        let error = bench(&target, flags).unwrap_err();
        assert!(error.starts_with(expected), "{flags:?}: {error}");
    }
}

/// A clock that is moved after so many calls leaves nothing to be said of the limits, whether they are kept or not.
#[test]
fn after_a_step_of_the_servers_clock_nothing_is_claimed() {
    for (limit, moved) in [(39, 2_000_000), (39, 30_000_000), (20, 2_000_000), (20, -300_000), (39, -300_000)] {
        let clock =
            move |calls: u64| if calls < 300 { now_micros() } else { now_micros().saturating_add_signed(moved) };
        let flags = [&FLAGS[..], &["--rate", "4000", "--duration", "350ms"]].concat();
        let report = bench(&serve_tcp(fixed_by(limit, |_| false, clock)).0, &flags).unwrap();
        let verify = &report["verify"];
        assert_eq!(verify["limits_checked"], false, "{limit} {moved}: {verify}");
        let doubt = verify["clock_doubt"].as_str().unwrap();
        let expected = if moved > 0 { "was moved forwards by" } else { "was moved backwards by" };
        assert!(doubt.contains(expected), "{limit} {moved}: {doubt}");
    }
    let steady = verified(fixed(20, |_| false), &[]);
    assert_eq!(steady["limits_checked"], true, "{steady}");
    assert!(steady["clock_slack_us"].as_u64().unwrap() > 0 && steady["clock_doubt"].is_null(), "{steady}");
}

#[test]
fn a_clock_that_stands_still_is_refused() {
    for workload in ["slide", "fixed", "log", "token", "leak", "throttle", "all"] {
        let (target, seen) = serve_tcp(fixed_by(20, |_| false, |_| 1_577_836_800_000_000));
        let error = bench(&target, &["--workload", workload, "--verify", "--window", "1", "--keys", "9"]).unwrap_err();
        assert!(error.starts_with("the server's clock stands still"), "{workload}: {error}");
        assert!(seen.lock().unwrap().is_empty(), "{workload}");
    }
}
