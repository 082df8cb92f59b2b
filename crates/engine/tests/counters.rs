//! What is counted, and how the counts of several cores become one.

mod harness;

use harness::{Node, node, node_of};
use std::sync::Arc;
use tollgate_engine::counters::{Counter, Counters, Kind, Merged};
use tollgate_engine::registry::{registry, rows};

/// Two cores with counts that tell sums, maxima and sides apart.
fn two() -> [Arc<Counters>; 2] {
    let cores = [(); 2].map(|()| Arc::new(Counters::new(rows().len())));
    cores[0].connections_accepted.add(3);
    cores[1].connections_accepted.add(4);
    cores[0].connections.set(5);
    cores[1].connections.set(2);
    cores[0].store_longest_step_us.set(70);
    cores[1].store_longest_step_us.set(900);
    cores[0].allowed[0].add(10);
    cores[1].allowed[0].add(20);
    cores[1].denied[4].add(7);
    let ping = registry().find_name(b"ping").map(|entry| entry.index).unwrap_or_default();
    cores.iter().for_each(|core| core.ran(ping));
    cores
}

#[test]
fn counters_are_summed_and_the_largest_is_the_largest() {
    let cores = two();
    let merged = Merged(&cores);
    assert_eq!(merged.sum(|core| &core.connections_accepted), 7);
    assert_eq!(merged.sum(|core| &core.connections), 7);
    assert_eq!(merged.largest(|core| &core.store_longest_step_us), 900);
    assert_eq!((Merged(&[]).sum(|core| &core.hops), Merged(&[]).largest(|core| &core.hops)), (0, 0));
}

#[test]
fn the_exposition_is_what_prometheus_reads() {
    let cores = two();
    let text = Merged(&cores).exposition(&rows());
    for line in [
        "tollgate_connections_accepted_total 7",
        "tollgate_connections 7",
        "tollgate_store_longest_step_us 900",
        "tollgate_decisions_total{algorithm=\"slide\",outcome=\"allowed\"} 30",
        "tollgate_decisions_total{algorithm=\"leak\",outcome=\"denied\"} 7",
        "tollgate_decisions_total{algorithm=\"token\",outcome=\"denied\"} 0",
        "tollgate_command_calls_total{command=\"ping\"} 2",
        "# TYPE tollgate_connections_accepted_total counter",
        "# TYPE tollgate_connections gauge",
        "# TYPE tollgate_store_longest_step_us gauge",
        "# TYPE tollgate_decisions_total counter",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is missing");
    }
    let mut described = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap_or_default();
            assert!(help.ends_with('.') && !described.contains(&name), "{line}");
            described.push(name);
            continue;
        }
        let sample = line.strip_prefix("# TYPE ").unwrap_or(line);
        let name = sample.split([' ', '{']).next().unwrap_or_default();
        assert_eq!(Some(&name), described.last(), "each sample follows its description: {line}");
        let value = line.rsplit(' ').next().unwrap_or_default();
        assert!(line.starts_with('#') || value.parse::<u64>().is_ok(), "{line}");
    }
}

#[test]
fn each_counter_is_named_once() {
    let counters = Counters::new(0);
    let names: Vec<_> = counters.each().map(|(name, ..)| name).collect();
    let mut unique = names.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), names.len());
    assert!(counters.each().all(|(.., value)| value == 0));
    assert_eq!(counters.each().filter(|(_, _, kind, _)| *kind == Kind::Largest).count(), 1);
}

#[test]
fn a_counter_wraps_rather_than_fail() {
    let counter = Counter::default();
    counter.set(u64::MAX);
    counter.add(2);
    assert_eq!(counter.get(), 1);
}

/// Allowed and denied decisions of SLIDE, on all cores.
fn slide_decisions(node: &Node) -> (u64, u64) {
    let all = &node.cores[0].all_counters;
    Merged(all)
        .0
        .iter()
        .fold((0, 0), |(allowed, denied), core| (allowed + core.allowed[0].get(), denied + core.denied[0].get()))
}

#[test]
fn decisions_are_counted_as_they_were_answered() {
    for (line, allowed, denied) in [
        ("RL.SLIDE k 2 1h", 1, 0),
        ("RL.SLIDE k 2 1h COST 2", 1, 0),
        ("RL.SLIDE k 2 1h COST 3", 0, 1),
        ("RL.SLIDE k 2 1h COST 3 PARTIAL", 1, 0),
        ("RL.SLIDE k 0 1h PARTIAL", 0, 1),
        ("RL.SLIDE k x 1h", 0, 0),
        ("RL.ALL k SLIDE 2 1h 1 l SLIDE 2 1h 1", 2, 0),
        // Of a refused call only what refused was denied.
        ("RL.ALL k SLIDE 2 1h 1 l SLIDE 2 1h 3", 0, 1),
    ] {
        let mut node = node();
        node.run(line);
        assert_eq!(slide_decisions(&node), (allowed, denied), "{line}");
    }
}

#[test]
fn giving_back_denies_nobody() {
    let mut node = node();
    node.run("RL.SLIDE k 2 1h COST 2 REFUND");
    assert_eq!(slide_decisions(&node).1, 0, "a refund of a missing key gives back 0 and is no denial");
}

#[test]
fn looks_hits_errors_and_commands_are_counted() {
    let mut node = node_of(2);
    for line in ["RL.SLIDE k 2 60", "RL.SLIDE k 2 60", "RL.SLIDE k 2 x", "RL.TOKEN k 2 1", "PING", "DEL k none"] {
        node.run(line);
    }
    let all = Merged(&node.cores[0].all_counters);
    assert_eq!(all.sum(|core| &core.keyspace_misses), 1);
    assert_eq!(all.sum(|core| &core.keyspace_hits), 2);
    assert_eq!(all.sum(|core| &core.error_replies), 2);
    let calls = |name: &str| {
        let index = registry().find_full_name(name.as_bytes()).map(|entry| entry.index).unwrap_or_default();
        node.cores.iter().map(|core| core.counters.commands[index].get()).sum::<u64>()
    };
    assert_eq!((calls("rl.slide"), calls("rl.token"), calls("ping")), (3, 1, 1));
}

#[test]
fn a_refusal_for_memory_is_counted_on_any_number_of_cores() {
    for cores in [1, 2] {
        let setup =
            harness::Setup { cores, memory_max_bytes: 1_000_000 * u64::from(cores), ..harness::Setup::default() };
        let mut node = Node::new(setup);
        let padding = "x".repeat(500);
        let oom = |node: &Node| Merged(&node.cores[0].all_counters).sum(|core| &core.oom_replies);
        // Until the first refusal, with a key of each core in every call.
        let mut number = 0;
        let refused = loop {
            let keys: Vec<_> = (0..cores).map(|core| node.key_of(core, &format!("{padding}{number}-"))).collect();
            let groups: Vec<_> = keys.iter().map(|key| format!("{key} FIXED 5 1h 1")).collect();
            let reply = node.run(&format!("RL.ALL {}", groups.join(" ")));
            number += 1;
            if !reply.starts_with('[') || number > 5_000 {
                break reply;
            }
        };
        assert!(refused.starts_with("-OOM"), "{refused}");
        assert!(oom(&node) >= 1, "{cores} cores: a refusal for memory is counted as one");
    }
}
