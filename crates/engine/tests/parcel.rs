//! Commands that travel in a parcel answer as those that run where they came in, in order, and the parcel is reusable.

#![allow(clippy::expect_used, reason = "what is missing is a test that fails")]

mod harness;

use harness::{Node, node, node_of};
use tollgate_engine::dispatch::Way;
use tollgate_engine::parcel::{Cargo, NewJob, Parcel, Task};
use tollgate_resp::{Args, Protocol};

/// Runs commands on one key each by a parcel to core 0, and answers their replies.
fn by_parcel(node: &mut Node, parcel: &mut Parcel, lines: &[&str], protocol: Protocol) -> Vec<String> {
    parcel.clear();
    assert!(parcel.is_empty() && parcel.argument_bytes() == 0);
    for (position, line) in lines.iter().enumerate() {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let (buffer, spans) = harness::packed(&words);
        let ready = node.dispatcher.prepare(Args::new(&buffer, &spans)).expect("a good command");
        assert_eq!(ready.way, Way::To(0));
        let job = NewJob { entry: ready.entry, task: Task::Run, at: ready.at, protocol, cargo: None };
        assert_eq!(parcel.push(job, words.iter().copied()), position);
    }
    assert_eq!(parcel.len(), lines.len());
    node.cores[0].run_parcel(parcel, node.now);
    (0..lines.len()).map(|position| harness::value::Value::decode(parcel.reply(position)).to_string()).collect()
}

const LINES: &[&str] = &[
    "RL.SLIDE k 2 1h",
    "RL.SLIDE k 2 1h",
    "RL.SLIDE k 2 1h",
    "RL.TOKEN k 2 1",
    "RL.SLIDE k x 1h",
    "PTTL none",
    "TYPE k",
    "RL.GET none",
    "EXISTS k k none",
    "RL.ALL a FIXED 5 1h 1 b TOKEN 5 1 5",
    "RL.ALL a FIXED 5 1h 1 b TOKEN 5 1 5",
    "CL.THROTTLE c 4 5 5",
    "DEL k a",
    "RL.SLIDE k 2 1h COST 0",
];

#[test]
fn a_parcel_answers_as_the_command_itself_does() {
    let mut parcel = Parcel::default();
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let (mut far, mut near) = (node(), node());
        near.session.set_protocol(protocol);
        let expected: Vec<_> = LINES.iter().map(|line| near.run(line)).collect();
        assert_eq!(by_parcel(&mut far, &mut parcel, LINES, protocol), expected);
        // Once more with the same parcel: nothing of the first journey is left.
        let short = &LINES[5..8];
        let expected: Vec<_> = short.iter().map(|line| near.run(line)).collect();
        assert_eq!(by_parcel(&mut far, &mut parcel, short, protocol), expected);
        assert_eq!(parcel.reply(short.len()), b"", "there is no reply beyond the last");
    }
}

#[test]
fn charges_and_undos_travel_too() {
    let mut node = node_of(2);
    let (a, b) = (node.key_of(0, "a"), node.key_of(0, "b"));
    let line = format!("RL.ALL {a} FIXED 5 1h 2 {b} TOKEN 5 1 5");
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    let (buffer, spans) = harness::packed(&words);
    let ready = node.dispatcher.prepare(Args::new(&buffer, &spans)).expect("a good command");
    let job = |task, undo: Option<_>| {
        let cargo = undo.map(Cargo::Undo);
        NewJob { entry: ready.entry, task, at: ready.at, protocol: Protocol::Resp2, cargo }
    };
    let mut parcel = Parcel::default();
    parcel.push(job(Task::Charge, None), words.iter().copied());
    parcel.push(job(Task::Charge, None), words.iter().copied());
    node.cores[0].run_parcel(&mut parcel, node.now);
    let (first, second) = (parcel.take_undo(0), parcel.take_undo(1));
    assert!(first.is_some() && second.is_none(), "the first was admitted, the second not");
    assert!(parcel.take_undo(0).is_none(), "an undo is handed out once");
    assert_eq!(node.run(&format!("EXISTS {a} {b}")), "2");

    parcel.clear();
    parcel.push(job(Task::Undo, first), words.iter().copied());
    parcel.push(job(Task::Undo, None), words.iter().copied());
    node.cores[0].run_parcel(&mut parcel, node.now);
    assert!(!parcel.reply(0).is_empty() && parcel.reply(1).is_empty());
    assert_eq!(node.run(&format!("EXISTS {a} {b}")), "0");
}
