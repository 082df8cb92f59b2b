//! `--failover`: a server that dies under the calls, and another that goes on from what it was told.

use super::faulty::now_micros;
use super::{Command, serve_tcp};
use crate::plan::Plan;
use crate::report::Report;
use crate::run::run;
use clap::Parser;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// The next window of this length begins in years.
const WINDOW_MICROS: u64 = 3_650 * 86_400 * 1_000_000;
const LIMIT: u64 = 60;
/// What the first server says that a failover would forget.
const SAID: u64 = 7;

const FLAGS: [&str; 17] = [
    "--workload",
    "fixed",
    "--dialect",
    "tollgate",
    "--limit",
    "60",
    "--window",
    "3650d",
    "--keys",
    "5",
    "--connections",
    "4",
    "--pipeline",
    "3",
    "--warmup",
    "0",
    "--verify",
];

/// What both servers know between them.
#[derive(Default)]
struct Pair {
    /// Keys of the units that the first has admitted, in order.
    admitted: Vec<String>,
    calls: u64,
    /// What the second counts, once it has been asked for a call.
    second: Option<HashMap<String, u64>>,
    /// Times that the second was asked who it is.
    asked: u64,
}

impl Pair {
    fn first_counts(&self, forgotten: usize) -> HashMap<String, u64> {
        let told = self.admitted.len().saturating_sub(forgotten);
        let mut counts = HashMap::new();
        self.admitted[..told].iter().for_each(|key| *counts.entry(key.clone()).or_default() += 1);
        counts
    }
}

fn five(allowed: bool, count: u64) -> String {
    let reset = (WINDOW_MICROS - now_micros() % WINDOW_MICROS).div_ceil(1_000);
    let retry = if allowed { 0 } else { reset };
    format!("*5\r\n:{}\r\n:{LIMIT}\r\n:{}\r\n:{retry}\r\n:{reset}\r\n", u64::from(allowed), LIMIT - count)
}

/// Dies after so many calls.
fn first(pair: Arc<Mutex<Pair>>, dies_after: u64) -> impl Fn(usize, &[String]) -> String + Clone + Send + 'static {
    move |_: usize, words: &[String]| {
        let mut pair = pair.lock().unwrap();
        if pair.calls >= dies_after {
            return String::new();
        }
        match words[0].as_str() {
            "PING" => "+PONG\r\n".to_owned(),
            "RL.CLOCK" => format!(":{}\r\n", now_micros()),
            "INFO" => {
                let text = format!("# Replication\r\nrole:master\r\nfailover_overshoot:{SAID}\r\n");
                format!("${}\r\n{text}\r\n", text.len())
            }
            _ => {
                pair.calls += 1;
                let count = pair.first_counts(0).get(&words[1]).copied().unwrap_or_default();
                if count < LIMIT {
                    pair.admitted.push(words[1].clone());
                }
                five(count < LIMIT, (count + 1).min(LIMIT))
            }
        }
    }
}

/// Knows all but the last `forgotten` units. It loads, then follows, and takes calls once it has been asked `late`
/// times.
fn second(
    pair: Arc<Mutex<Pair>>,
    forgotten: usize,
    late: u64,
) -> impl Fn(usize, &[String]) -> String + Clone + Send + 'static {
    move |_: usize, words: &[String]| {
        let mut pair = pair.lock().unwrap();
        match words[0].as_str() {
            "PING" if pair.asked * 2 < late => {
                pair.asked += 1;
                "-LOADING what was kept is being loaded\r\n".to_owned()
            }
            "PING" => "+PONG\r\n".to_owned(),
            "RL.CLOCK" => format!(":{}\r\n", now_micros()),
            "ROLE" => {
                pair.asked += 1;
                let role = if pair.asked > late { "$6\r\nmaster" } else { "$5\r\nslave" };
                format!("*1\r\n{role}\r\n")
            }
            _ if pair.asked <= late => "-READONLY You can't write against a read only replica.\r\n".to_owned(),
            _ => {
                let known = pair.first_counts(forgotten);
                let counts = pair.second.get_or_insert(known);
                let count = counts.entry(words[1].clone()).or_default();
                let allowed = *count < LIMIT;
                *count += u64::from(allowed);
                five(allowed, *count)
            }
        }
    }
}

/// The report of a run in which the second forgets so much.
fn fail_over(forgotten: usize, late: u64, flags: &[&str]) -> Report {
    let pair = Arc::<Mutex<Pair>>::default();
    let (target, _) = serve_tcp(first(pair.clone(), 150));
    let (other, seen) = serve_tcp(second(pair, forgotten, late));
    let line = [&["bench", "--target", &target, "--failover", &other], &FLAGS[..], flags].concat();
    let report = Plan::check(Command::parse_from(line).arguments).and_then(|plan| run(&plan, None)).unwrap();
    let calls = seen.lock().unwrap().iter().filter(|(_, words)| words[0] == "RL.FIXED").count();
    assert_eq!(calls > 0, late < u64::MAX, "a server that follows is not called");
    report
}

fn fields(report: &Report) -> serde_json::Value {
    serde_json::from_str(&report.to_json().unwrap()).unwrap()
}

#[test]
fn what_was_forgotten_is_counted_exactly() {
    for pace in [&["--threads", "1"][..], &["--threads", "2"], &["--rate", "5000"]] {
        for forgotten in [0, 1, 37] {
            let report = fail_over(forgotten, 6, &[pace, &["--requests", "700"]].concat());
            let json = fields(&report);
            let (failover, verify) = (&json["failover"], &json["verify"]);
            let number = |name: &str| failover[name].as_f64().unwrap();
            assert_eq!(failover["units_above_limits"], forgotten, "{pace:?}: {json}");
            assert_eq!((failover["keys_denied_by_second"].as_u64(), verify["violations"].as_u64()), (Some(5), Some(0)));
            let units = number("units_by_first") + number("units_by_second");
            assert_eq!(units, 5.0 * LIMIT as f64 + number("units_above_limits"), "{json}");
            assert_eq!(failover["overshoot_scraped"], SAID);
            assert!(number("units_since_scrape") <= number("units_by_first"), "{json}");
            assert!(number("answered_at_seconds") >= number("lost_at_seconds"), "{json}");
            assert!(number("connections_lost") >= 4.0 && number("calls_lost") > 0.0, "{json}");
            assert_eq!(
                (failover["calls_lost"].as_u64(), json["errors"].as_u64()),
                (verify["unknown"].as_u64(), verify["unknown"].as_u64())
            );
            assert!(failover["overshoot_max"].is_null() && verify["overshoot_allowed"].is_null(), "{json}");
            assert!(report.is_clean(), "{json}");
            assert!(report.to_table().contains("any number allowed"), "{}", report.to_table());
        }
    }
}

#[test]
fn more_than_was_allowed_is_a_violation() {
    for (allowed, violations) in [("37", 0), ("36", 1), ("0", 37)] {
        let report = fail_over(37, 0, &["--requests", "700", "--overshoot-max", allowed]);
        let json = fields(&report);
        assert_eq!(json["failover"]["units_above_limits"], 37, "{json}");
        assert_eq!(json["failover"]["overshoot_max"].to_string(), allowed);
        assert_eq!(report.is_clean(), violations == 0, "{json}");
        let verify = &json["verify"];
        assert_eq!(verify["over_admitted"].as_u64().unwrap().saturating_sub(allowed.parse().unwrap()), violations);
    }
}

/// The run ends with its time, and says that nobody answered.
#[test]
fn a_server_that_goes_on_following_is_waited_for_until_the_end() {
    let report = fail_over(0, u64::MAX, &["--duration", "400ms"]);
    let json = fields(&report);
    assert!(!report.is_clean(), "{json}");
    assert!(json["failover"]["answered_at_seconds"].is_null(), "{json}");
    assert_eq!(json["failover"]["units_by_second"], 0, "{json}");
    assert!(report.to_table().contains("never answered"), "{}", report.to_table());
}

#[test]
fn flags_that_do_not_go_with_it_are_refused() {
    for flags in [&["--own-core"][..], &["--compare", "h:1"]] {
        let line = [&["bench", "--failover", "h:2", "--verify"], flags].concat();
        assert!(Command::try_parse_from(line).is_err(), "{flags:?}");
    }
    assert!(Command::try_parse_from(["bench", "--failover", "h:2"]).is_err());
    let line = ["bench", "--verify", "--failover", "redis://:hidden@h:x"];
    let error = Plan::check(Command::parse_from(line).arguments).unwrap_err().to_string();
    assert!(error.starts_with("--failover \"h:x\" is not understood"), "{error}");
}
