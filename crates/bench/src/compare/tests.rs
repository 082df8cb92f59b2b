//! Comparisons against small servers in this process, and how their figures are put together.

use super::*;
use crate::plan::Work;
use crate::report::tests::{check_documented, sample, sample_server};
use crate::run::tests::{Answer, Command, bench_arguments, five, serve_tcp};
use clap::Parser;
use serde_json::Value;
use std::collections::HashSet;

fn compare(targets: &[&str], flags: &[&str]) -> Result<Comparison, String> {
    let mut line = vec!["bench", "--warmup", "0"];
    targets.iter().for_each(|target| line.extend(["--compare", target]));
    let arguments = Command::parse_from([&line[..], flags].concat()).arguments;
    let mut comparison = Comparison::check(&arguments).map_err(|error| error.to_string())?;
    comparison.run(None).map_err(|error| error.to_string())?;
    Ok(comparison)
}

#[test]
fn servers_take_turns_in_being_first() {
    let orders = |servers| -> Vec<Vec<usize>> {
        (0..4).map(|round| (0..servers).map(|turn| order(round, turn, servers)).collect()).collect()
    };
    assert_eq!(orders(2), [[0, 1], [1, 0], [0, 1], [1, 0]]);
    assert_eq!(orders(3), [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]]);
}

#[test]
fn keys_are_touched_once_and_each_round_measures_every_server() {
    let servers = [serve_tcp(five), serve_tcp(five)];
    let targets = [servers[0].0.as_str(), servers[1].0.as_str()];
    let flags = ["--rounds", "3", "--requests", "40", "--keys", "100", "--connections", "2", "--pipeline", "5"];
    let comparison = compare(&targets, &flags).unwrap();
    for (_, seen) in &servers {
        assert_eq!(seen.lock().unwrap().len(), 100 + 3 * 40);
    }
    assert!(comparison.is_clean());
    let json = comparison.to_json();
    let rows = json["rows"].as_array().unwrap();
    let turns: Vec<(u64, &str)> =
        rows.iter().map(|row| (row["round"].as_u64().unwrap(), row["name"].as_str().unwrap())).collect();
    assert_eq!(turns, [(1, "A"), (1, "B"), (2, "B"), (2, "A"), (3, "A"), (3, "B")]);
    assert!(rows.iter().all(|row| row["calls"] == 40 && row["target"].is_string()));
    assert!(json["targets"][1]["medians"]["calls_per_second"].as_f64().unwrap() > 0.0);
}

#[test]
fn the_server_that_fails_is_named() {
    let errors: Answer = |_, words| if words == ["PING"] { "+PONG\r\n" } else { "-ERR unknown command\r\n" }.to_owned();
    let (good, _) = serve_tcp(five);
    let (bad, _) = serve_tcp(errors);
    let flags = ["--rounds", "1", "--requests", "9", "--keys", "9", "--connections", "1"];
    let message = compare(&[&good, &bad], &flags).unwrap_err();
    assert!(message.contains(&format!("stopped at redis://{bad}, touching the keys")), "{message}");
    let secret = format!("redis://:hidden@{bad}");
    let message = compare(&[&secret, &good], &flags).unwrap_err();
    assert!(message.contains(&bad) && !message.contains("hidden"), "{message}");
}

#[test]
fn flags_that_do_not_fit_are_refused() {
    let cases: [(&[&str], &[&str], &str); 4] = [
        (&["h:1"], &[], "1 times"),
        (&["h:1"; 9], &[], "9 times"),
        (&["h:1", "h:2"], &["--rounds", "0"], "--rounds 0"),
        (&["h:1", "h:2"], &["--requests", "0"], "nothing to compare"),
    ];
    for (targets, flags, expected) in cases {
        let message = compare(targets, flags).unwrap_err();
        assert!(message.contains(expected), "{message}");
    }
    for flags in [["--target", "h:1"], ["--pid", "1"]] {
        let line = [&["bench", "--compare", "h:1", "--compare", "h:2"], &flags[..]].concat();
        assert!(Command::try_parse_from(line).is_err(), "{flags:?}");
    }
}

/// Two servers whose second needs a quarter, a half and three quarters of the first one's CPU time.
fn made_up() -> Comparison {
    let plan = |target| Plan::check(bench_arguments(&["--target", target])).unwrap();
    let report = |nanos: u64| {
        let mut used = sample_server();
        used.cpu.user = Duration::from_nanos(nanos * 1_000);
        used.cpu.system = Duration::ZERO;
        sample(Some(used))
    };
    let rival = |letter, target, nanos: [u64; 3]| Rival {
        letter,
        plan: plan(target),
        sighting: Sighting::Unseen { reason: String::new() },
        touched: None,
        reports: nanos.map(report).into(),
        turns: vec![0, 1, 0],
    };
    let rivals = vec![rival("A", "redis://:secret@a:1", [400, 1_000, 2_000]), rival("B", "b:2", [100, 500, 1_500])];
    Comparison {
        rivals,
        rounds: 3,
        rounds_asked: 3,
        stopped: None,
        full: Some(("tollgate bench".to_owned(), Machine::look())),
    }
}

#[test]
fn ratios_are_of_one_round() {
    let comparison = made_up();
    let json = comparison.to_json();
    let ratio = &json["targets"][1]["ratios_to_first"]["server_cpu_ns_per_call"];
    let expected = [("median", 0.5), ("least", 0.25), ("most", 0.75), ("quartile_1", 0.375), ("quartile_3", 0.625)];
    for (name, value) in expected {
        assert_eq!(ratio[name].as_f64(), Some(value), "{name}");
    }
    assert_eq!(json["targets"][0]["ratios_to_first"], Value::Object(serde_json::Map::new()));
    assert_eq!(json["targets"][0]["medians"]["server_cpu_ns_per_call"], 1_000.0);
    assert_eq!((json["rows"].as_array().unwrap().len(), &json["command_line"]), (6, &"tollgate bench".into()));
    let table = comparison.to_table();
    for line in ["A                        redis://a:1", "server CPU per call     1.00 µs    500 ns"] {
        assert!(table.contains(line), "{line:?} is not in\n{table}");
    }
    let shown: Vec<&str> = table.lines().filter(|line| line.starts_with("server CPU per call")).collect();
    let cells: Vec<&str> = shown[1].split_whitespace().skip(4).collect();
    assert_eq!(cells, ["0.500", "0.250", "0.375", "0.625", "0.750"]);
}

#[test]
fn every_field_is_documented() {
    let mut comparison = made_up();
    comparison.stopped = Some("it was interrupted".to_owned());
    check_documented(&comparison.to_json());
}

#[test]
fn what_was_denied_is_shown_and_different_work_is_warned_of() {
    let mut comparison = made_up();
    let table = comparison.to_table();
    assert!(table.contains("denied, all rounds") && table.contains("0.7 %     0.7 %"), "{table}");
    assert!(table.contains("errors, all rounds") && !table.contains("same work"), "{table}");
    comparison.rivals[1].reports.iter_mut().for_each(|report| report.denied = Some(18));
    let json = comparison.to_json();
    assert_eq!((&json["targets"][1]["denied"], &json["targets"][1]["denied_percent"]), (&54.into(), &1.8.into()));
    assert_eq!((&json["targets"][1]["calls"], &json["targets"][1]["errors"]), (&3_000.into(), &9.into()));
    let warning = "they denied A 0.7 %, B 1.8 %";
    assert!(json["warnings"][0].as_str().unwrap().contains(warning), "{}", json["warnings"]);
    assert!(comparison.to_table().contains(warning) && comparison.to_html().contains(warning));
    comparison.rivals[1].reports[2].denied = None;
    assert!(comparison.to_table().contains("not known") && comparison.to_json()["targets"][1]["denied"].is_null());
}

#[test]
fn a_comparison_has_a_limit_that_nobody_reaches_unless_one_is_given() {
    let limit_of = |flags: &[&str]| {
        let line = [&["bench", "--compare", "h:1", "--compare", "h:2"], flags].concat();
        let comparison = Comparison::check(&Command::parse_from(line).arguments).unwrap();
        match &comparison.rivals[1].plan.work {
            Work::Workload { terms, .. } => terms.limit,
            Work::Command { .. } => 0,
        }
    };
    let cases: [(&[&str], u64); 5] = [
        (&[], 1_000_000_000),
        (&["--workload", "log"], 100_000),
        (&["--limit", "7"], 7),
        (&["--denied", "0.5"], 1_000_000_000),
        // A bucket refills no faster than 10^9 a second.
        (&["--workload", "token", "--window", "5ms"], 5_000_000),
    ];
    for (flags, limit) in cases {
        assert_eq!(limit_of(flags), limit, "{flags:?}");
    }
}

#[test]
fn each_server_gets_its_own_command_and_script() {
    let file = std::env::temp_dir().join(format!("tollgate-bench-own-{}.lua", std::process::id()));
    std::fs::write(&file, "return 1").unwrap();
    let script = file.to_str().unwrap();
    let answer: Answer = |_, words| match words[0].as_str() {
        "SCRIPT" => "$6\r\nabc123\r\n".to_owned(),
        "EVALSHA" => ":0\r\n".to_owned(),
        _ => five(0, words),
    };
    let servers = [serve_tcp(answer), serve_tcp(answer)];
    let targets = [servers[0].0.as_str(), servers[1].0.as_str()];
    let (native, own) = ("RL.SLIDE {key} 100 60", "EVALSHA {sha} 1 {key}");
    let shape = ["--rounds", "1", "--requests", "20", "--keys", "5", "--connections", "1", "--script", script];
    let flags = [&shape[..], &["--command", native, "--command", own]].concat();
    let compared = compare(&targets, &flags);
    let three = compare(&targets, &[&flags[..], &["--command", own]].concat());
    let two_scripts = compare(&targets, &[&flags[..], &["--script", script]].concat());
    std::fs::remove_file(&file).unwrap();
    let comparison = compared.unwrap();
    let asked = |place: usize| -> HashSet<String> {
        servers[place].1.lock().unwrap().iter().map(|(_, words)| words[0].clone()).collect()
    };
    assert_eq!(asked(0), HashSet::from(["RL.SLIDE".to_owned()]));
    assert_eq!(asked(1), HashSet::from(["SCRIPT".to_owned(), "EVALSHA".to_owned()]));
    assert!(comparison.to_table().contains(&format!("{native} | {own}")));
    assert_eq!(comparison.to_json()["targets"][1]["denied_percent"], 100.0);
    assert!(three.unwrap_err().contains("--command was given 3 times: give one for all of the servers, or 2"));
    assert!(two_scripts.unwrap_err().contains("--script was given 2 times"));
}

#[test]
fn the_page_has_a_curve_for_each_server() {
    let comparison = made_up();
    let html = comparison.to_html();
    assert_eq!(html.matches("<polyline").count(), 2 + 2);
    for part in ["A: redis://a:1", "B: redis://b:2", "0.500 ×", "&lt;script&gt;"] {
        assert!(html.contains(part), "{part}");
    }
    assert!(!html.contains("secret") && !html.contains("<script"));
    assert!(!comparison.to_json().to_string().contains("secret") && !comparison.to_table().contains("secret"));
}
