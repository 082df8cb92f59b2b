//! Whose slot a key is of decides whether its command runs, for every row of the table, every place of a key, one by
//! one, in rows and in parcels.

#![allow(clippy::indexing_slicing, reason = "what is missing is a test that fails")]

mod harness;

use harness::cluster::{
    FIRST, OTHER, OTHER_ADDRESS, REPLICA, changed, healthy, is_of_first, is_of_other, key_where, map, node_in_cluster,
    set_view,
};
use harness::value::Value;
use harness::{Node, Setup, check, packed};
use std::sync::Arc;
use tollgate_engine::cluster::View;
use tollgate_engine::command::{Command, Flags};
use tollgate_engine::dispatch::Way;
use tollgate_engine::parcel::{NewJob, Parcel, Task};
use tollgate_engine::plain::{Order, Plain, PlainCall, Row};
use tollgate_engine::registry::{Entry, registry};
use tollgate_engine::shared::Standing;
use tollgate_resp::{Args, Protocol, Span};
use tollgate_store::slot_of;
use tollgate_topology::RunId;
use tollgate_topology::change::Change;

const CROSS_SLOT: &str = "-CROSSSLOT Keys in request don't hash to the same slot";

/// The rows with keys, each with the words of a call that is long enough for three keys, and the places of its keys.
fn keyed_calls() -> Vec<(&'static Entry, Vec<String>, Vec<usize>)> {
    let entries = registry().top_level().flat_map(|entry| {
        let of_container =
            entry.command.subcommands.iter().filter_map(|row| registry().find_full_name(row.name.as_bytes()));
        std::iter::once(entry).chain(of_container)
    });
    let mut calls = Vec::new();
    for entry in entries.filter(|entry| entry.command.keys.first > 0) {
        let command: &Command = entry.command;
        let fewest = usize::from(command.arity.unsigned_abs());
        let groups = usize::try_from(command.keys.step).unwrap_or(1) * 3 + 1;
        let length = if command.arity > 0 { fewest } else { fewest.max(groups) };
        let names = command.name.split('|').map(str::to_owned);
        let words: Vec<String> = names.chain((1..).map(|number: u32| number.to_string())).take(length).collect();
        let places: Vec<usize> = command.keys.positions(length).collect();
        assert!(!places.is_empty(), "{}", command.name);
        calls.push((entry, words, places));
    }
    calls
}

/// What is on the node: how often anything has changed, its keys, and what was asked of the shell.
fn state(node: &mut Node) -> (Vec<u64>, u64, usize) {
    let changes = node.cores.iter().map(|core| core.store.changes()).collect();
    let keys = node.cores.iter().map(|core| core.store.len()).sum();
    (changes, keys, node.effects().len())
}

fn call(node: &mut Node, words: &[String]) -> String {
    let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
    node.call(&words).to_string()
}

#[test]
fn a_foreign_key_in_any_place_of_any_command_is_sent_on_and_changes_nothing() {
    let (mine, foreign) = (key_where("mine", is_of_first), key_where("foreign", is_of_other));
    let nobodys = key_where("nobodys", |slot| slot > 16_000);
    let moved = format!("-MOVED {} {OTHER_ADDRESS}", slot_of(foreign.as_bytes()));
    for cores in 1..=3 {
        let mut node = node_in_cluster(FIRST, cores);
        node.run(&format!("SET {mine} x"));
        let before = state(&mut node);
        for (entry, words, places) in keyed_calls() {
            let name = entry.command.name;
            let with = |key_at: &dyn Fn(usize) -> String| {
                let mut words = words.clone();
                places.iter().enumerate().for_each(|(number, place)| words[*place] = key_at(number));
                words
            };
            assert_eq!(call(&mut node, &with(&|_| foreign.clone())), moved, "{name}");
            let tagged = |number: usize| format!("{{{foreign}}}{number}");
            assert_eq!(call(&mut node, &with(&tagged)), moved, "{name}, keys of one slot");
            let not_served = call(&mut node, &with(&|_| nobodys.clone()));
            assert_eq!(not_served, "-CLUSTERDOWN Hash slot not served", "{name}");
            for odd in 0..places.len() {
                if places.len() > 1 {
                    let one_foreign = |number| if number == odd { foreign.clone() } else { mine.clone() };
                    assert_eq!(call(&mut node, &with(&one_foreign)), CROSS_SLOT, "{name}, key {odd}");
                }
            }
            // A wrong number of arguments is never sent on.
            let fewest = usize::from(entry.command.arity.unsigned_abs());
            let short = &with(&|_| foreign.clone())[..fewest - 1];
            if !name.contains('|') || short.len() > 2 {
                assert!(call(&mut node, short).contains("wrong number of arguments"), "{name}");
            }
        }
        assert_eq!(state(&mut node), before, "at {cores} cores");
    }
}

#[test]
fn keys_of_one_slot_run_whatever_their_command() {
    let key = key_where("mine", is_of_first);
    for cores in 1..=3 {
        let mut node = node_in_cluster(FIRST, cores);
        for (entry, mut words, places) in keyed_calls() {
            places.iter().enumerate().for_each(|(number, place)| words[*place] = format!("{{{key}}}{number}"));
            let reply = call(&mut node, &words);
            let is_sent_on = ["-MOVED", "-CROSSSLOT", "-CLUSTERDOWN"].iter().any(|code| reply.starts_with(code));
            assert!(!is_sent_on, "{}: {reply}", entry.command.name);
        }
    }
}

#[test]
fn what_has_no_keys_acts_on_this_node() {
    let mut node = node_in_cluster(FIRST, 2);
    let key = key_where("mine", is_of_first);
    node.run(&format!("SET {key} x"));
    let name = format!("{key:?}");
    check(
        &mut node,
        &[
            ("DBSIZE", "1"),
            ("RANDOMKEY", &name),
            ("KEYS *", &format!("[{name}]")),
            ("SCAN 0 COUNT 100000", &format!("[\"0\", [{name}]]")),
            ("READONLY", "+OK"),
            ("READWRITE", "+OK"),
            ("ASKING", "+OK"),
            ("FLUSHALL", "+OK"),
            ("DBSIZE", "0"),
        ],
    );
}

#[test]
fn a_replica_sends_on_and_reads_where_that_is_wanted() {
    let (of_primary, foreign) = (key_where("mine", is_of_first), key_where("foreign", is_of_other));
    let to_primary = format!("-MOVED {} 10.0.0.1:7001", slot_of(of_primary.as_bytes()));
    let to_other = format!("-MOVED {} {OTHER_ADDRESS}", slot_of(foreign.as_bytes()));
    for cores in 1..=3 {
        let mut node = node_in_cluster(FIRST, cores);
        node.run(&format!("SET {of_primary} x"));
        set_view(&node, View::new(REPLICA, Arc::new(map()), healthy()));
        node.cores[0].settings.shared.set_replica(true);
        let before = state(&mut node);
        for (entry, mut words, places) in keyed_calls() {
            places.iter().for_each(|place| words[*place].clone_from(&of_primary));
            assert_eq!(call(&mut node, &words), to_primary, "{}", entry.command.name);
            assert_eq!(node.run("READONLY"), "+OK");
            let reply = call(&mut node, &words);
            let is_read = entry.command.flags.has(Flags::READONLY);
            assert_eq!(reply == to_primary, !is_read, "{}: {reply}", entry.command.name);
            places.iter().for_each(|place| words[*place].clone_from(&foreign));
            assert_eq!(call(&mut node, &words), to_other, "{}", entry.command.name);
            assert_eq!(node.run("READWRITE"), "+OK");
        }
        assert_eq!(node.run("FLUSHALL"), "-READONLY You can't write against a read only replica.");
        assert_eq!(node.run("READONLY"), "+OK");
        assert_eq!(node.run(&format!("GET {of_primary}")), "\"x\"");
        assert!(node.session.client.line(node.now).contains(" flags=r "));
        assert_eq!(node.run("RESET"), "+RESET");
        node.effects();
        assert_eq!(node.run(&format!("GET {of_primary}")), to_primary);
        assert_eq!(state(&mut node), before);
    }
}

#[test]
fn rights_come_first_and_what_else_is_in_the_way_last() {
    let foreign = key_where("foreign", is_of_other);
    let mine = key_where("mine", is_of_first);
    let mut node = Node::new(Setup { cluster: true, password: Some("secret"), ..Setup::default() });
    set_view(&node, View::new(FIRST, Arc::new(map()), healthy()));
    let get = format!("GET {foreign}");
    assert_eq!(node.run(&get), "-NOAUTH Authentication required.");
    assert_eq!(node.run("AUTH secret"), "+OK");
    let moved = format!("-MOVED {} {OTHER_ADDRESS}", slot_of(foreign.as_bytes()));
    assert_eq!(node.run(&get), moved);
    let shared = &node.cores[0].settings.clone().shared;
    shared.begin_loading(1);
    assert_eq!(node.run(&get), moved, "who else serves may have loaded all");
    assert!(node.run(&format!("GET {mine}")).starts_with("-LOADING"));
    shared.core_has_loaded();
    shared.set_lacks_replicas(true);
    assert_eq!(node.run(&format!("SET {foreign} x")), moved);
    assert!(node.run(&format!("SET {mine} x")).starts_with("-NOREPLICAS"));
    // By its name alone nothing is refused that may be sent on.
    let early = |standing| node.dispatcher.refuse_early(b"SET", &node.session, standing);
    assert_eq!(early(shared.standing()), None);
    assert!(early(Standing::LACKS_REPLICAS).is_some());
    node.session.authenticated = false;
    assert!(node.dispatcher.refuse_early(b"SET", &node.session, shared.standing()).is_some());
}

/// A row's replies and those of its parcels, in the order of the calls.
struct Sorted<'a> {
    plain: &'a Plain,
    parcels: Vec<Parcel>,
    answers: Vec<(usize, usize)>,
}

impl Order for Sorted<'_> {
    fn elsewhere(&mut self, call: &PlainCall, key: &[u8], _end: usize) {
        let core = usize::from(call.core);
        let position = self.parcels[core].push_plain(self.plain, call, key, Protocol::Resp2);
        self.answers.push((core, position));
    }

    fn answered(&mut self, end: usize) {
        self.answers.push((usize::MAX, end));
    }
}

/// Runs a row that came to core 0; `between` happens before the parcels run.
fn run_row(node: &mut Node, keys: &[String], between: impl FnOnce(&mut Node)) -> Vec<String> {
    let (buffer, spans) = packed(&[b"RL.SLIDE", b"k", b"100", b"60"]);
    let args = Args::new(&buffer, &spans);
    let plain =
        Plain::of(node.dispatcher.prepare(args).map(|ready| ready.entry).unwrap_or_else(|text| panic!("{text}")), args);
    let Some(plain) = plain else { panic!("a plain call") };
    let words: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
    let (buffer, spans) = packed(&words);
    let calls: Vec<PlainCall> = spans
        .iter()
        .map(|span: &Span| {
            let (core, at) = node.dispatcher.locate(span.of(&buffer));
            PlainCall { at, core, key: *span }
        })
        .collect();
    let parcels = node.cores.iter().map(|_| Parcel::default()).collect();
    let mut order = Sorted { plain: &plain, parcels, answers: Vec::new() };
    let (mut out, now) = (Vec::new(), node.now);
    let row = Row { plain: &plain, calls: &calls, buffer: &buffer, now };
    node.cores[0].refresh_view();
    node.cores[0].run_plain(row, Protocol::Resp2, &mut out, &mut order);
    let Sorted { mut parcels, answers, .. } = order;
    between(node);
    for (core, parcel) in parcels.iter_mut().enumerate().filter(|(_, parcel)| !parcel.is_empty()) {
        node.cores[core].run_parcel(parcel, now);
    }
    let mut start = 0;
    let reply = |(core, position): &(usize, usize)| match parcels.get(*core) {
        Some(parcel) => Value::decode(parcel.reply(*position)).to_string(),
        None => Value::decode(&out[std::mem::replace(&mut start, *position)..*position]).to_string(),
    };
    let replies: Vec<_> = answers.iter().map(reply).collect();
    assert_eq!(replies.len(), keys.len());
    replies
}

fn moved(key: &str) -> String {
    let slot = slot_of(key.as_bytes());
    if is_of_other(slot) {
        format!("-MOVED {slot} {OTHER_ADDRESS}")
    } else {
        "-CLUSTERDOWN Hash slot not served".to_owned()
    }
}

#[test]
fn a_row_runs_what_is_served_here_and_sends_the_rest_on() {
    let names: Vec<String> = (0..3_000).map(|number| format!("key:{number}")).collect();
    let served = |name: &&String| is_of_first(slot_of(name.as_bytes()));
    let (mine, others): (Vec<&String>, Vec<&String>) = names.iter().partition(served);
    for cores in 1..=3 {
        let mut node = node_in_cluster(FIRST, cores);
        // Every pattern of six calls, each served here or not.
        for pattern in 0u32..64 {
            let is_mine = |place: usize| pattern >> place & 1 == 1;
            let at = |place: usize| usize::try_from(pattern).unwrap_or(0) * 6 + place;
            let keys: Vec<String> =
                (0..6).map(|place| if is_mine(place) { mine[at(place)] } else { others[at(place)] }.clone()).collect();
            let before: u64 = node.cores.iter().map(|core| core.store.len()).sum();
            let replies = run_row(&mut node, &keys, |_| {});
            for (place, (key, reply)) in keys.iter().zip(&replies).enumerate() {
                match is_mine(place) {
                    true => assert!(reply.starts_with("[1, 100, 99,"), "{reply}"),
                    false => assert_eq!(*reply, moved(key)),
                }
            }
            let after: u64 = node.cores.iter().map(|core| core.store.len()).sum();
            assert_eq!(after - before, u64::from(pattern.count_ones()), "pattern {pattern:b} at {cores} cores");
        }
    }
}

#[test]
fn what_is_on_its_way_to_a_core_is_looked_at_there_again() {
    // The replica takes over while calls are on their way to the second core.
    let since = map().leading(FIRST).map_or(0, |leading| leading.since);
    let promote = Change::Promote { from: FIRST, since, to: REPLICA, run: RunId([3; 20]), is_forced: false };
    let after = Arc::new(changed(map(), &[promote]));
    let mut node = node_in_cluster(FIRST, 2);
    let on_second = |prefix: &str| key_where(prefix, |slot| is_of_first(slot) && slot / 64 % 2 == 1);
    let keys: Vec<String> = (0..4).map(|number| on_second(&format!("row{number}:"))).collect();
    let moved = |key: &str| format!("-MOVED {} 10.0.0.3:7003", slot_of(key.as_bytes()));
    let replies = run_row(&mut node, &keys, |node| set_view(node, View::new(FIRST, after.clone(), healthy())));
    assert_eq!(replies, keys.iter().map(|key| moved(key)).collect::<Vec<_>>());
    set_view(&node, View::new(FIRST, Arc::new(map()), healthy()));
    for (name, value) in [("SET", Some("x")), ("GET", None)] {
        let words: Vec<&[u8]> = [name, keys[0].as_str()].into_iter().chain(value).map(str::as_bytes).collect();
        let (buffer, spans) = packed(&words);
        let args = Args::new(&buffer, &spans);
        let ready = node.dispatcher.prepare(args).unwrap_or_else(|text| panic!("{text}"));
        assert_eq!(ready.way, Way::To(1));
        let mut parcel = Parcel::default();
        let job = NewJob { entry: ready.entry, task: Task::Run, at: ready.at, protocol: Protocol::Resp2, cargo: None };
        parcel.push(job, args.iter());
        set_view(&node, View::new(OTHER, after.clone(), healthy()));
        let now = node.now;
        node.cores[1].run_parcel(&mut parcel, now);
        assert_eq!(Value::decode(parcel.reply(0)).to_string(), moved(&keys[0]), "{name}");
    }
    assert_eq!(node.cores.iter().map(|core| core.store.len()).sum::<u64>(), 0);
}
