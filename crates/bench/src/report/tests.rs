//! The figures of made-up phases, in each form of the report.

use super::*;
use crate::open::Punctuality;
use crate::scan::Tally;
use crate::verify::Verdict;
use hdrhistogram::Histogram;
use std::collections::BTreeSet;

/// A report of 1000 calls in two seconds, whose texts hold what must never become markup.
pub(crate) fn sample(server: Option<ServerUse>) -> Report {
    let setting = Setting {
        target: "redis://h:1".into(),
        command: "PING <script>alert(1)</script>".into(),
        connections: 2,
        pipeline: 3,
        keys: 100,
        keys_measured: 100,
        key_bytes: 24,
        own_core: false,
        seed: 1,
        threads: 1,
        workload: None,
        dialect: None,
        key_distribution: "uniform",
        zipf_exponent: None,
        denied_share_asked: None,
        rate: None,
        arrivals: None,
    };
    let mut batch_nanos = Histogram::new_with_bounds(1_000, 60_000_000_000, 3).unwrap();
    (1..=334).for_each(|batch| batch_nanos.record(batch * 6_000).unwrap());
    let mut tally = Tally { replies: 1_000, denied: 7, telling: 997, errors: 3, ..Tally::default() };
    tally.first_error = Some("ERR <script>two\u{1b}[2J".into());
    for text in ["ERR <script>two\u{1b}[2J", "ERR one", "ERR <script>two\u{1b}[2J"] {
        tally.error_texts.count(text.as_bytes());
    }
    let phase = Phase {
        tally,
        elapsed: Duration::from_secs(2),
        batch_nanos,
        punctuality: None,
        longest_silence: None,
        unanswered: 0,
    };
    Report::new(setting, &phase, Duration::from_secs(1), server)
}

pub(crate) fn sample_server() -> ServerUse {
    let cpu = CpuUse { user: Duration::from_millis(2), system: Duration::from_millis(1), is_exact: true };
    ServerUse { cpu, rss_bytes: 6_400, growth: Some(Growth { bytes: 3_200, keys: 100 }) }
}

fn full_sample() -> Report {
    let mut report = sample(Some(sample_server()));
    report.tell_server(&Sighting::Seen { pid: 4_711, name: "<script>".into(), listener: None });
    let interval = |from_seconds: f64| Interval {
        from_seconds,
        to_seconds: from_seconds + 1.0,
        calls_per_second: 500.0,
        p50_us: Some(1_000.0),
        p99_us: Some(2_000.0),
        p999_us: Some(2_000.0),
    };
    let words = ["tollgate", "bench", "--target", "redis://:secret@h:1", "--command", "<script>"];
    let line = command_line(words.map(str::to_owned));
    report.complete(line, Machine::look(), vec![interval(0.0), interval(1.0)]);
    report
}

#[test]
fn the_fields_that_scripts_read() {
    let report = sample(Some(sample_server()));
    let fields: serde_json::Value = serde_json::from_str(&report.to_json().unwrap()).unwrap();
    let expected = [
        ("calls", 1_000.0),
        ("seconds", 2.0),
        ("calls_per_second", 500.0),
        ("errors", 3.0),
        ("denied", 7.0),
        ("client_busy_percent", 50.0),
        ("server_cpu_ns_per_call", 3_000.0),
        ("server_user_ns_per_call", 2_000.0),
        ("server_system_ns_per_call", 1_000.0),
        ("server_rss_bytes", 6_400.0),
        ("server_rss_bytes_per_key", 32.0),
        ("server_keys_made", 100.0),
        ("connections", 2.0),
        ("pipeline", 3.0),
        ("keys", 100.0),
    ];
    assert_eq!(fields["warnings"], serde_json::json!([]));
    for (name, value) in expected {
        assert_eq!(fields[name].as_f64(), Some(value), "{name}");
    }
    assert_eq!(fields["errors_by_text"][0], serde_json::json!({"text": "ERR <script>two\u{1b}[2J", "count": 2}));
    let curve = fields["latency"]["percentiles"].as_array().unwrap();
    assert_eq!(curve.last().unwrap(), &serde_json::json!([100.0, fields["latency"]["max_us"]]));
    assert!(fields["p999_us"].as_f64().unwrap() >= 1_998.0);
    // What only a file holds.
    assert!(["intervals", "machine", "command_line"].iter().all(|name| fields.get(name).is_none()));
}

#[test]
fn memory_per_key_is_told_only_where_it_is_known() {
    let mut report = sample(Some(ServerUse { growth: None, ..sample_server() }));
    assert!(report.to_table().contains("server memory            6.25 KiB in all\n"));
    assert!(report.to_html().contains("Server memory</dt>") && !report.to_html().contains("per key"));
    let fields: serde_json::Value = serde_json::from_str(&report.to_json().unwrap()).unwrap();
    assert_eq!(fields.get("server_rss_bytes_per_key"), Some(&serde_json::Value::Null));
    report.take_memory_per_key(&sample(Some(sample_server())));
    assert!(report.to_table().contains("server memory per key    32.0 bytes"));
}

/// What stands in docs/bench-reports.md between backquotes.
fn documented() -> Vec<&'static str> {
    include_str!("../../../../docs/bench-reports.md").split('`').skip(1).step_by(2).collect()
}

/// Names of all fields, those inside others too.
fn names(value: &serde_json::Value, found: &mut BTreeSet<String>) {
    match value {
        serde_json::Value::Object(fields) => {
            found.extend(fields.keys().cloned());
            fields.values().for_each(|inner| names(inner, found));
        }
        serde_json::Value::Array(elements) => elements.iter().for_each(|element| names(element, found)),
        _ => {}
    }
}

/// Every field that a report can have stands on the page about reports.
pub(crate) fn check_documented(json: &serde_json::Value) {
    let mut found = BTreeSet::new();
    names(json, &mut found);
    let documented = documented();
    let missing: Vec<&String> = found.iter().filter(|name| !documented.contains(&name.as_str())).collect();
    assert!(missing.is_empty(), "docs/bench-reports.md does not explain {missing:?}");
}

#[test]
fn every_field_is_documented() {
    let mut report = full_sample();
    report.setting.workload = Some("slide");
    report.setting.dialect = Some("tollgate");
    report.setting.zipf_exponent = Some(0.99);
    report.setting.denied_share_asked = Some(0.5);
    report.setting.rate = Some(1);
    report.setting.arrivals = Some("even");
    report.seen.server_unseen = Some("it is elsewhere".into());
    let phase = Phase {
        tally: Tally::default(),
        elapsed: Duration::from_secs(1),
        batch_nanos: Histogram::new_with_bounds(1_000, 60_000_000_000, 3).unwrap(),
        punctuality: Some(Punctuality::new(1).unwrap()),
        longest_silence: None,
        unanswered: 0,
    };
    report.longest_silence_seconds = Some(1.0);
    report.schedule = Some(ScheduleReport::new(phase.punctuality.as_ref().unwrap(), &phase));
    report.verify = Some(Verdict {
        first_violation: Some("a fault".into()),
        clock_doubt: Some("it was moved".into()),
        ..Verdict::default()
    });
    let json: serde_json::Value = serde_json::from_str(&report.to_json().unwrap()).unwrap();
    check_documented(&json);
    // As many as there are kinds of fields: a sample that lost some would check nothing.
    assert!(json.as_object().unwrap().len() >= 50, "{}", json.as_object().unwrap().len());
}

#[test]
fn without_a_process_there_are_no_server_fields() {
    let mut report = sample(None);
    assert!(!report.is_clean());
    assert!(!report.to_json().unwrap().contains("server_"));
    report.tell_server(&Sighting::Unseen { reason: "it is elsewhere".into() });
    assert!(report.to_table().contains("server CPU per call      not measured: it is elsewhere"));
    assert!(report.to_json().unwrap().contains("\"server_unseen\":\"it is elsewhere\""));
}

#[test]
fn the_table_leads_with_the_server() {
    let table = full_sample().to_table();
    let expected = [
        "connections x pipeline   2 x 3\n",
        "other settings           keys measured 100, own core no, seed 1, threads 1, key distribution uniform\n",
        "server CPU per call      3.00 µs (2.00 µs user, 1.00 µs system)\n",
        "server memory per key    32.0 bytes of growth by 100 keys (6.25 KiB in all)\n",
        "server process           4711 <script>\n",
        "calls per second         500\n",
        "batch latency       p50       p90       p99     p99.9    p99.99       max\n",
        "denied                   7 (0.7 %)\n",
        "errors                   3\n",
        "                         2 x ERR <script>two [2J\n",
        "                         1 x ERR one\n",
        "client busy              50 %\n",
    ];
    let mut rest = table.as_str();
    for line in expected {
        let (_, after) = rest.split_once(line).unwrap_or_else(|| panic!("{line:?} is not in its place in\n{table}"));
        rest = after;
    }
}

#[test]
fn what_spoils_a_figure_is_said() {
    let busy = CpuUse { is_exact: false, ..sample_server().cpu };
    let mut report = sample(Some(ServerUse { cpu: busy, rss_bytes: 1, growth: None }));
    assert_eq!(report.warnings().len(), 1);
    report.client_busy_percent = 97.0;
    report.unexpected_replies = 2;
    report.tell_server(&Sighting::Seen { pid: 1, name: "init".into(), listener: Some(4_711) });
    let warnings = report.warnings();
    assert_eq!(warnings.len(), 4);
    assert!(warnings[2].contains("process 1, as --pid says, but it is process 4711"), "{warnings:?}");
    assert!(report.to_json().unwrap().contains("it is process 4711"));
    assert!(warnings[0].contains("busy 97 %"), "{warnings:?}");
    assert!(report.to_table().contains(&warnings[0]) && report.to_html().contains("class=\"warning\""));
}

#[test]
fn the_page_holds_everything_and_no_markup_from_outside() {
    let report = full_sample();
    let html = report.to_html();
    let expected =
        ["3.00 µs", "32.0 bytes", "id=\"latency\"", "id=\"rate\"", "key bytes", "CREDENTIALS@h:1", "ERR one"];
    for part in expected {
        assert!(html.contains(part), "{part}");
    }
    for part in ["<script", "secret", "src=", "http://", "https://", "url(", "@import", "\u{1b}"] {
        assert!(!html.contains(part), "{part}");
    }
    let points = report.latency.curve().len() + 2;
    assert_eq!(html.matches("<circle").count(), points);
    assert_eq!(html.matches("<tbody>").count(), html.matches("<figure").count());
}

#[test]
fn a_run_without_calls_has_a_report_too() {
    let batch_nanos = Histogram::new_with_bounds(1_000, 60_000_000_000, 3).unwrap();
    let phase = Phase {
        tally: Tally::default(),
        elapsed: Duration::ZERO,
        batch_nanos,
        punctuality: None,
        longest_silence: None,
        unanswered: 0,
    };
    let setting = sample(None).setting;
    let mut report = Report::new(setting, &phase, Duration::ZERO, Some(sample_server()));
    report.complete(String::new(), Machine::look(), Vec::new());
    assert!(report.is_clean());
    let table = report.to_table();
    assert!(table.contains("calls per second         0\n") && table.contains("CPU per call      – (– user"), "{table}");
    assert!(table.contains("denied                   not known: no reply says"), "{table}");
    let latencies = table.lines().skip_while(|line| !line.starts_with("batch latency")).nth(1).unwrap();
    assert!(latencies.split_whitespace().all(|figure| figure == "–"), "{table}");
    let json: serde_json::Value = serde_json::from_str(&report.to_json().unwrap()).unwrap();
    for name in ["p50_us", "p99_us", "p999_us", "denied", "server_cpu_ns_per_call", "server_user_ns_per_call"] {
        assert_eq!(json.get(name), Some(&serde_json::Value::Null), "{name}");
    }
    assert!(json["latency"]["max_us"].is_null() && json["latency"]["mean_us"].is_null());
    assert!(report.to_html().contains("</html>") && report.to_json().unwrap().contains("\"percentiles\":[]"));
}

#[test]
fn limits_that_could_not_be_checked_are_not_taken_for_kept() {
    let verdict = |clock_doubt: Option<&str>| Verdict {
        limits_checked: clock_doubt.is_none(),
        clock_doubt: clock_doubt.map(str::to_owned),
        clock_slack_us: 85,
        ..Verdict::default()
    };
    let mut report = sample(None);
    (report.errors, report.unexpected_replies) = (0, 0);
    for (doubt, is_clean) in [(None, true), (Some("the clock was moved"), false)] {
        let report = report.clone().with_verdict(Some(verdict(doubt)), None);
        assert_eq!(report.is_clean(), is_clean);
        let table = report.to_table();
        assert!(table.contains("server's clock           known to within 85.0 µs"), "{table}");
        let warning = "WARNING: The limits could not be checked: the clock was moved.";
        assert_eq!(table.contains(warning), !is_clean, "{table}");
        assert_eq!(report.to_html().contains("could not be checked"), !is_clean);
    }
}

#[test]
fn a_process_that_ended_has_no_figures_and_the_report_says_so() {
    let mut report = sample(None);
    report.tell_server(&Sighting::Seen { pid: 4_711, name: "tollgate".into(), listener: None });
    let table = report.to_table();
    assert!(table.contains("not measured: process 4711 tollgate ended before the measuring did"), "{table}");
    assert!(!report.to_json().unwrap().contains("server_pid"));
}
