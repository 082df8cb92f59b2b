//! CONFIG SET, SLOWLOG, LATENCY, MEMORY, OBJECT, ACL and what comes later, on the engine alone, its clock its own.

#![allow(clippy::expect_used, reason = "what is missing is a test that fails")]

mod harness;

use harness::value::Value;
use harness::{Node, Setup, check, node, node_of};
use std::cell::Cell;
use tollgate_engine::parcel::{NewJob, Parcel, Task};
use tollgate_engine::registry::registry;
use tollgate_resp::Protocol;
use tollgate_store::Eviction;

thread_local! {
    static STEP_MICROS: Cell<u64> = const { Cell::new(0) };
    static SHOWN_MICROS: Cell<u64> = const { Cell::new(0) };
}

/// A clock that goes on by the same step at each look: so long, then, does every timed command take.
fn clock() -> u64 {
    SHOWN_MICROS.set(SHOWN_MICROS.get() + STEP_MICROS.get());
    SHOWN_MICROS.get()
}

fn every_command_takes(micros: u64) {
    STEP_MICROS.set(micros);
}

/// A node whose cores have the clock.
fn timed(cores: u16) -> Node {
    let mut node = node_of(cores);
    node.cores.iter_mut().for_each(|core| core.timing.set_clock(clock));
    node
}

/// Runs a command and has its slow calls signed, as the shell does after each batch.
fn run(node: &mut Node, line: &str) -> String {
    let reply = node.run(line);
    node.cores[0].sign_slow(&node.session.client);
    reply
}

#[test]
fn config_set_takes_all_or_nothing() {
    let failed =
        |name: &str, why: &str| format!("-ERR CONFIG SET failed (possibly related to argument '{name}') - {why}");
    let memory = failed("maxmemory", "argument must be a memory value");
    let (twice, fixed) = (failed("TIMEOUT", "duplicate parameter"), failed("port", "can't set immutable config"));
    let table = [
        ("CONFIG SET maxmemory 100mb timeout 60", "+OK"),
        ("CONFIG GET maxmemory timeout", "[\"maxmemory\", \"104857600\", \"timeout\", \"60\"]"),
        ("CONFIG SET timeout 5 maxmemory x", memory.as_str()),
        ("CONFIG SET timeout 5 TIMEOUT 6", &twice),
        ("CONFIG SET timeout 5 port 6", &fixed),
        ("CONFIG SET timeout 5 nope 6", "-ERR Unknown option or number of arguments for CONFIG SET - 'nope'"),
        ("CONFIG SET timeout 5 maxmemory", "-ERR syntax error"),
        ("CONFIG SET timeout", "-ERR wrong number of arguments for 'config|set' command"),
        ("CONFIG GET timeout", "[\"timeout\", \"60\"]"),
        ("CONFIG REWRITE", "-ERR The server is running without a config file"),
        ("CONFIG SET MaxMemory-Policy evict-least", "+OK"),
        ("CONFIG GET maxmemory-*", "[\"maxmemory-policy\", \"evict-least\"]"),
    ];
    check(&mut node_of(3), &table);
}

#[test]
fn a_changed_bound_on_memory_holds_on_every_core() {
    let mut node = node_of(2);
    assert_eq!(node.run("CONFIG SET maxmemory 1b"), "+OK");
    assert!(node.cores.iter().all(|core| core.store.memory_max() == 1));
    for core in 0..2 {
        let key = node.key_of(core, "k");
        assert!(node.run(&format!("RL.SLIDE {key} 5 60")).starts_with("-OOM"), "core {core}");
    }
    assert_eq!(node.run("CONFIG SET maxmemory 0"), "+OK");
    let key = node.key_of(1, "k");
    assert_eq!(node.run(&format!("RL.SLIDE {key} 5 60")), "[1, 5, 4, 0, 120000]");
}

/// As a core that missed a change does at its next tick.
#[test]
fn a_core_follows_what_the_settings_say() {
    let mut node = node();
    node.cores[0].settings.tunables.set_memory_max_bytes(7);
    node.cores[0].settings.tunables.set_eviction(Eviction::EvictLeast);
    node.cores[0].follow_tunables();
    assert_eq!(node.cores[0].store.memory_max(), 7);
}

#[test]
fn the_slow_log_holds_what_took_long() {
    every_command_takes(12_345);
    let mut node = timed(2);
    node.run("CLIENT SETNAME me");
    assert_eq!(run(&mut node, "CONFIG GET port").len(), 16);
    let log = node.value("SLOWLOG GET");
    let first = "[0, 1751540400, 12345, [\"CONFIG\", \"GET\", \"port\"], \"127.0.0.1:50000\", \"me\"]";
    assert_eq!(log.to_string(), format!("[{first}]"));
    assert_eq!(run(&mut node, "SLOWLOG LEN"), "1", "CLIENT SETNAME is flagged as fast");
    let table = [
        ("SLOWLOG GET 1", format!("[{first}]")),
        ("SLOWLOG GET 0", "[]".to_owned()),
        ("SLOWLOG GET -2", "-ERR count should be greater than or equal to -1".to_owned()),
        ("SLOWLOG GET 01", "-ERR count should be greater than or equal to -1".to_owned()),
        ("SLOWLOG GET +1", "-ERR count should be greater than or equal to -1".to_owned()),
        ("SLOWLOG GET x", "-ERR count should be greater than or equal to -1".to_owned()),
        ("SLOWLOG RESET", "+OK".to_owned()),
        ("SLOWLOG GET -1", "[]".to_owned()),
        ("SLOWLOG NOPE", "-ERR unknown subcommand 'NOPE'. Try SLOWLOG HELP.".to_owned()),
    ];
    for (line, expected) in table {
        assert_eq!(node.run(line), expected, "{line}");
    }
}

#[test]
fn fast_commands_are_timed_only_where_that_is_asked_for() {
    every_command_takes(500);
    let mut node = timed(1);
    let logged = |node: &mut Node, setting: &str| {
        assert_eq!(node.run(&format!("CONFIG SET {setting}")), "+OK");
        node.run("SLOWLOG RESET");
        run(node, "RL.SLIDE k 5 60");
        run(node, "PING");
        run(node, "CONFIG GET port");
        node.cores[0].timing.times_fast()
    };
    for (setting, times_fast) in [
        ("slowlog-log-slower-than 1000", false),
        ("slowlog-log-slower-than 999", true),
        ("slowlog-log-slower-than -1", false),
        ("latency-monitor-threshold 1", true),
        ("latency-monitor-threshold 0", false),
    ] {
        assert_eq!(logged(&mut node, setting), times_fast, "{setting}");
    }
    logged(&mut node, "slowlog-log-slower-than 500");
    assert_eq!(node.run("SLOWLOG LEN"), "2", "PING and CONFIG GET: the shell chooses who runs RL.SLIDE");
    let entry = registry().find_name(b"rl.slide").expect("a row");
    assert!(entry.run.is_some() && !entry.is_slow);
}

#[test]
fn the_log_is_bounded_over_all_cores() {
    every_command_takes(20_000);
    let mut node = timed(3);
    node.run("CONFIG SET slowlog-max-len 2");
    for _ in 0..5 {
        run(&mut node, "CONFIG GET port");
        let pending = std::mem::take(&mut node.cores[0].timing.pending);
        node.cores[1].timing.pending = pending;
        run(&mut node, "CONFIG GET port");
        node.cores[1].sign_slow(&node.session.client);
    }
    assert_eq!(node.run("SLOWLOG LEN"), "2");
    assert_eq!(node.value("SLOWLOG GET -1").elements().len(), 2);
    node.run("CONFIG SET slowlog-max-len 0");
    assert_eq!((node.run("SLOWLOG LEN"), node.run("SLOWLOG GET")), ("0".to_owned(), "[]".to_owned()));
}

#[test]
fn a_slow_call_comes_home_with_its_parcel() {
    every_command_takes(50_000);
    let mut node = timed(2);
    let key = node.key_of(1, "k");
    let words = ["MEMORY", "USAGE", &key].map(str::as_bytes);
    let (buffer, spans) = harness::packed(&words);
    let ready = node.dispatcher.prepare(tollgate_resp::Args::new(&buffer, &spans)).expect("it may run");
    let mut parcel = Parcel::default();
    let job = NewJob { entry: ready.entry, task: Task::Run, at: ready.at, protocol: Protocol::Resp2, cargo: None };
    parcel.push(job, words.into_iter());
    let now = node.now;
    node.cores[1].run_parcel(&mut parcel, now);
    assert!(node.cores[1].timing.pending.is_empty());
    node.cores[0].timing.pending.append(&mut parcel.slow);
    node.cores[0].sign_slow(&node.session.client);
    assert_eq!(node.run("SLOWLOG LEN"), "1");
    assert!(node.run("SLOWLOG GET").contains(&format!("50000, [\"MEMORY\", \"USAGE\", \"{key}\"]")));
}

#[test]
fn latency_samples_are_kept_by_event() {
    every_command_takes(3_000);
    let mut node = timed(2);
    let nothing = "-ERR No samples available for event 'command'";
    check(
        &mut node,
        &[("LATENCY LATEST", "[]"), ("LATENCY HISTORY command", "[]"), ("LATENCY GRAPH command", nothing)],
    );
    assert!(node.value("LATENCY DOCTOR").words().contains("Latency is not monitored"));
    node.run("CONFIG SET latency-monitor-threshold 3");
    assert!(node.value("LATENCY DOCTOR").words().contains("No command has taken 3 ms"));
    run(&mut node, "PING");
    run(&mut node, "CONFIG GET port");
    every_command_takes(7_000);
    node.now += 5_000_000;
    run(&mut node, "CONFIG GET port");
    every_command_takes(0);
    assert!(node.value("LATENCY DOCTOR").words().starts_with("command: spikes in 2 of the last 6 seconds, 5 ms on"));
    assert!(node.value("LATENCY GRAPH fast-command").words().contains("\n5 seconds ago, a sample"));
    let table = [
        ("LATENCY LATEST", "[[\"command\", 1751540405, 7, 7], [\"fast-command\", 1751540400, 3, 3]]"),
        ("LATENCY HISTORY command", "[[1751540400, 3], [1751540405, 7]]"),
        ("LATENCY HISTORY nope", "[]"),
        ("LATENCY RESET fast-command nope", "1"),
        ("LATENCY LATEST", "[[\"command\", 1751540405, 7, 7]]"),
    ];
    check(&mut node, &table);
    assert!(node.value("LATENCY GRAPH command").words().starts_with("command - high 7 ms, low 3 ms"));
    let doctor = node.value("LATENCY DOCTOR").words();
    assert!(doctor.contains("the worst of all took 7 ms"), "{doctor}");
    check(&mut node, &[("LATENCY RESET", "1"), ("LATENCY RESET", "0"), ("LATENCY LATEST", "[]")]);
}

#[test]
fn counters_are_set_to_zero_and_gauges_stay() {
    let mut node = node_of(2);
    node.run("RL.SLIDE a 1 60");
    node.run("RL.SLIDE a 1");
    node.run("SELECT x");
    node.run("CL.THROTTLE a 1 1 1");
    let errors = node.value("INFO errorstats commandstats").words();
    assert!(errors.contains("errorstat_ERR:count=1\r\n") && errors.contains("errorstat_WRONGTYPE:count=1\r\n"));
    assert!(errors.contains("cmdstat_select:calls=1,usec=0,usec_per_call=0.00,rejected_calls=0,failed_calls=1\r\n"));
    assert_eq!(node.run("CONFIG RESETSTAT"), "+OK");
    node.cores.iter_mut().for_each(tollgate_engine::core::Core::publish);
    let after = node.value("INFO everything").words();
    for line in ["slide_allowed:0", "total_error_replies:0", "keyspace_misses:0", "db0:keys=1,expires=1,avg_ttl=0"] {
        assert!(after.contains(&format!("{line}\r\n")), "{line} in {after}");
    }
    assert!(!after.contains("errorstat_") && after.contains("cmdstat_info:calls=1,"));
}

#[test]
fn a_reset_of_counters_leaves_the_peak_of_memory() {
    let mut node = node_of(2);
    node.run("RL.SLIDE a 1 60");
    let peak = |node: &mut Node| {
        node.cores.iter_mut().for_each(tollgate_engine::core::Core::publish);
        let text = node.value("INFO memory").words();
        text.lines().find_map(|line| line.strip_prefix("used_memory_peak:")?.parse::<u64>().ok()).unwrap()
    };
    let before = peak(&mut node);
    check(&mut node, &[("FLUSHALL", "+OK"), ("CONFIG RESETSTAT", "+OK")]);
    assert!(before > 0 && peak(&mut node) >= before);
}

#[test]
fn the_keyspace_tells_which_keys_expire() {
    let mut node = node_of(2);
    let mut expect = |commands: &[&str], expected: &str| {
        commands.iter().for_each(|command| drop(node.run(command)));
        node.cores.iter_mut().for_each(tollgate_engine::core::Core::publish);
        let text = node.value("INFO keyspace").words();
        assert!(text.contains(&format!("{expected},avg_ttl=0\r\n")), "{commands:?}: {text}");
    };
    expect(&["RL.SLIDE a 1 60", "SET b 1", "SET c text", "SET d 1 EX 100"], "keys=4,expires=2");
    expect(&["EXPIRE b 100"], "keys=4,expires=3");
    expect(&["PERSIST d", "APPEND c s", "INCR e"], "keys=5,expires=2");
    expect(&["RENAME c {x}c", "COPY d f", "GETEX d EX 5", "SET b 1 KEEPTTL"], "keys=6,expires=3");
    expect(&["DEL e f", "SET {x}c 1"], "keys=4,expires=3");
}

#[test]
fn objects_tell_how_they_are_kept() {
    let mut node = node_of(2);
    node.run("RL.SLIDE k 5 60");
    let table = [
        ("OBJECT ENCODING k", "\"record\""),
        ("SET number 12", "+OK"),
        ("OBJECT ENCODING number", "\"int\""),
        ("SET short hello", "+OK"),
        ("OBJECT ENCODING short", "\"embstr\""),
        ("OBJECT REFCOUNT k", "1"),
        ("OBJECT ENCODING none", "nil"),
        ("OBJECT FREQ none", "nil"),
        ("OBJECT ENCODING", "-ERR wrong number of arguments for 'object|encoding' command"),
        ("OBJECT NOPE k", "-ERR unknown subcommand 'NOPE'. Try OBJECT HELP."),
    ];
    check(&mut node, &table);
    for (length, encoding) in [(44, "\"embstr\""), (45, "\"raw\"")] {
        node.run(&format!("SET long {}", "x".repeat(length)));
        assert_eq!(node.run("OBJECT ENCODING long"), encoding);
    }
    assert!(node.run("OBJECT FREQ k").starts_with("-ERR An LFU maxmemory policy is not selected, access frequency"));
    assert!(node.run("OBJECT IDLETIME k").starts_with("-ERR idle time is not tracked"));
}

#[test]
fn there_is_one_user() {
    let open = "[\"flags\", [\"on\", \"nopass\"], \"passwords\", [], \"commands\", \"+@all\", \"keys\", \"~*\", \
                \"channels\", \"&*\", \"selectors\", []]";
    let table = [
        ("ACL WHOAMI", "\"default\""),
        ("ACL USERS", "[\"default\"]"),
        ("ACL LIST", "[\"user default on nopass ~* &* +@all\"]"),
        ("ACL GETUSER default", open),
        ("ACL GETUSER nobody", "nil"),
        ("ACL CAT nope", "-ERR Unknown category 'nope'"),
        ("ACL CAT a b", "-ERR unknown subcommand or wrong number of arguments for 'CAT'. Try ACL HELP."),
        ("ACL GENPASS x", "-ERR value is not an integer or out of range"),
        ("ACL GENPASS", "-ERR the system gives no random bytes"),
        (
            "ACL DRYRUN default get k",
            "-ERR ACL DRYRUN is not there yet: the only user is 'default', with --requirepass",
        ),
    ];
    check(&mut node(), &table);
    let categories = node().value("ACL CAT");
    assert!(categories.elements().contains(&Value::Bulk(b"ratelimit".to_vec())), "{categories}");
    assert!(node().run("ACL CAT ratelimit").contains("\"rl.slide\""));
    let mut closed = Node::new(Setup { password: Some("secret"), ..Setup::default() });
    closed.run("AUTH secret");
    check(&mut closed, &[("ACL LIST", "[\"user default on #(hidden) ~* &* +@all\"]")]);
}

#[test]
fn memory_is_told_apart() {
    let mut node = node_of(2);
    assert!(node.value("MEMORY STATS").field("db.0").is_none());
    (0..50).for_each(|number| drop(node.run(&format!("RL.SLIDE key:{number} 5 60"))));
    let stats = node.value("MEMORY STATS");
    assert_eq!(stats.field("keys.count"), Some(Value::Integer(50)));
    let bytes = |name: &str| match stats.field(name) {
        Some(Value::Integer(bytes)) => bytes,
        other => panic!("{name}: {other:?}"),
    };
    assert_eq!(bytes("total.allocated"), bytes("overhead.total") + bytes("dataset.bytes"));
    assert!(bytes("peak.allocated") >= bytes("total.allocated") && bytes("dataset.bytes") > 0);
    assert!(node.value("MEMORY DOCTOR").words().starts_with("50 keys hold "));
    check(&mut node, &[("MEMORY PURGE", "+OK")]);
}

#[test]
fn the_doctor_of_memory_names_the_policy_and_how_far_it_is() {
    let mut node = node_of(2);
    let mut expect = |setup: &[&str], parts: &[&str]| {
        setup.iter().for_each(|line| assert!(!node.run(line).starts_with('-'), "{line}"));
        let words = node.value("MEMORY DOCTOR").words();
        parts.iter().for_each(|part| assert!(words.contains(part), "{part} in {words}"));
    };
    expect(&[], &["There are no keys; ", "maxmemory is 0"]);
    expect(&["RL.SLIDE k 5 60", "CONFIG SET maxmemory 1gb"], &["1 key holds ", "maxmemory is 1073741824 bytes, 0.0 %"]);
    expect(&["CONFIG SET maxmemory 1"], &["maxmemory is 1 bytes, and ", "more are in use: new keys are refused (noev"]);
    expect(&["CONFIG SET maxmemory-policy evict-least"], &["in use: new keys drop others (evict-least) until"]);
}

#[test]
fn what_comes_later_says_so() {
    let cluster = "-ERR This instance has cluster support disabled";
    let table = [
        ("READONLY", cluster),
        ("READWRITE", cluster),
        ("ASKING", cluster),
        ("CLUSTER NODES", cluster),
        ("CLUSTER addslots 1", cluster),
        ("REPLICAOF NO ONE", "-ERR this process has no replication"),
        ("slaveof a 1", "-ERR this process has no replication"),
        ("slaveof a 65536", "-ERR Invalid master port"),
        ("RL.FLOW 2 0 7000", "-ERR this Tollgate tells replicas in version 1, not 2"),
        ("WAIT x 0", "-ERR value is not an integer or out of range"),
        ("WAIT 0 x", "-ERR timeout is not an integer or out of range"),
        ("WAIT 0 -1", "-ERR timeout is negative"),
        ("SAVE", "-ERR no snapshot can be written without --dir"),
        ("BGSAVE SCHEDULE", "-ERR no snapshot can be written without --dir"),
        ("BGSAVE NOW", "-ERR syntax error"),
        ("LASTSAVE", "0"),
        ("ROLE", "[\"master\", 0, []]"),
    ];
    check(&mut node(), &table);
}
