//! CLIENT KILL and its kin, PAUSE, REPLY, MONITOR, DEBUG SLEEP: what the engine decides and asks of the shell.

mod harness;

use harness::{Node, S, T, check, client, node, node_of};
use std::rc::Rc;
use tollgate_engine::client_state::{Killed, Replies};
use tollgate_engine::effect::Effect;
use tollgate_engine::session::Client;

/// A node of two cores with clients 1 to 4, two on each, come a second apart; the session's own is client 7 on core 0.
fn crowded() -> (Node, Vec<Rc<Client>>) {
    let mut node = node_of(2);
    let mut crowd = Vec::new();
    for id in 1..=4 {
        let core = usize::from(id > 2);
        let address = format!("10.0.0.{id}:50");
        let local_address = format!("10.0.1.{core}:6379");
        let other = Rc::new(Client { id, address, local_address, since: T - id * S, ..client() });
        node.cores[core].clients.insert(id, other.clone());
        crowd.push(other);
    }
    let own = node.session.client.clone();
    node.cores[0].clients.insert(own.id, own);
    (node, crowd)
}

fn killed(crowd: &[Rc<Client>]) -> Vec<u64> {
    crowd.iter().filter(|client| client.state.killed.get() == Killed::AtOnce).map(|client| client.id).collect()
}

#[test]
fn kill_meets_whom_all_filters_mean() {
    let table: [(&str, &str, &[u64]); 14] = [
        ("CLIENT KILL ID 2", "1", &[2]),
        ("CLIENT KILL 10.0.0.3:50", "+OK", &[3]),
        ("CLIENT KILL ADDR 10.0.0.4:50", "1", &[4]),
        ("CLIENT KILL LADDR 10.0.1.1:6379", "2", &[3, 4]),
        ("client kill laddr 10.0.1.1:6379 id 3", "1", &[3]),
        ("CLIENT KILL LADDR 10.0.1.1:6379 ID 1", "0", &[]),
        ("CLIENT KILL TYPE normal", "4", &[1, 2, 3, 4]),
        ("CLIENT KILL TYPE slave", "0", &[]),
        ("CLIENT KILL TYPE slave TYPE normal ID 1", "1", &[1]),
        ("CLIENT KILL USER default SKIPME yes", "4", &[1, 2, 3, 4]),
        ("CLIENT KILL MAXAGE 3", "2", &[3, 4]),
        ("CLIENT KILL MAXAGE 5", "0", &[]),
        ("CLIENT KILL ID 7", "0", &[]),
        ("CLIENT KILL 10.0.0.9:50", "-ERR No such client", &[]),
    ];
    for (line, reply, ids) in table {
        let (mut node, crowd) = crowded();
        assert_eq!((node.run(line).as_str(), killed(&crowd).as_slice()), (reply, ids), "{line}");
        assert_eq!(node.session.client.state.killed.get(), Killed::No, "{line}");
        let woken = node.cores.iter().flat_map(|core| core.effects.clone()).collect::<Vec<_>>();
        assert_eq!(woken, ids.iter().map(|id| Effect::WakeClient(*id)).collect::<Vec<_>>(), "{line}");
    }
}

#[test]
fn who_kills_itself_ends_after_its_reply() {
    let own = [("CLIENT KILL ID 7 SKIPME no", "1"), ("CLIENT KILL 127.0.0.1:50000", "+OK")];
    for (line, reply) in own {
        let (mut node, crowd) = crowded();
        assert_eq!(node.run(line), reply);
        assert_eq!((node.session.client.state.killed.get(), killed(&crowd)), (Killed::AfterReply, vec![]), "{line}");
        assert_eq!(node.effects(), []);
    }
}

#[test]
fn nobody_is_killed_twice_or_by_a_call_that_is_refused() {
    let (mut node, crowd) = crowded();
    check(&mut node, &[("CLIENT KILL ID 1", "1"), ("CLIENT KILL ID 1", "0"), ("CLIENT KILL TYPE normal", "3")]);
    assert_eq!(killed(&crowd), [1, 2, 3, 4]);
    let (mut node, crowd) = crowded();
    let refused = [
        ("CLIENT KILL ID 1 ADDR", "-ERR syntax error"),
        ("CLIENT KILL ID 1 SKIPME maybe", "-ERR syntax error"),
        ("CLIENT KILL ID 01 USER default", "-ERR client-id should be greater than 0"),
        ("CLIENT KILL ID 1 MAXAGE -1", "-ERR maxage should be greater than 0"),
        ("CLIENT KILL ID +1 TYPE normal", "-ERR client-id should be greater than 0"),
        ("CLIENT KILL ID 1 TYPE robot", "-ERR Unknown client type 'robot'"),
        ("CLIENT KILL ID 1 USER nobody", "-ERR No such user 'nobody'"),
    ];
    check(&mut node, &refused);
    assert_eq!((killed(&crowd), node.effects()), (vec![], vec![]));
}

#[test]
fn list_is_in_the_order_of_coming_or_as_asked() {
    let (mut node, _) = crowded();
    let ids = |text: String| {
        let numbers = text.split("id=").skip(1).filter_map(|rest| rest.split(' ').next()?.parse::<u64>().ok());
        numbers.collect::<Vec<_>>()
    };
    assert_eq!(ids(node.run("CLIENT LIST")), [1, 2, 3, 4, 7]);
    assert_eq!(ids(node.run("CLIENT LIST TYPE NORMAL")), [1, 2, 3, 4, 7]);
    assert_eq!(ids(node.run("CLIENT LIST ID 4 9 1 4")), [4, 1, 4]);
    assert_eq!(ids(node.run("CLIENT LIST TYPE pubsub")), []);
}

#[test]
fn what_is_asked_of_the_shell() {
    let pause = |milliseconds, all| vec![Effect::Pause { milliseconds, all }];
    let table = [
        ("CLIENT PAUSE 100", "+OK", pause(100, true)),
        ("CLIENT PAUSE 0 all", "+OK", pause(0, true)),
        ("CLIENT PAUSE 9223372036854775807 WRITE", "+OK", pause(i64::MAX.unsigned_abs(), false)),
        ("CLIENT PAUSE -1 WRITE", "-ERR timeout is negative", vec![]),
        ("CLIENT PAUSE 1 WRITE 2", "-ERR wrong number of arguments for 'client|pause' command", vec![]),
        ("CLIENT UNPAUSE", "+OK", vec![Effect::Unpause]),
        ("MONITOR", "silence", vec![Effect::Monitor]),
        ("DEBUG SLEEP 1.5", "+OK", vec![Effect::Sleep(1_500_000)]),
        ("DEBUG SLEEP 0.0000019", "+OK", vec![Effect::Sleep(1)]),
        ("DEBUG SLEEP 60", "+OK", vec![Effect::Sleep(60_000_000)]),
        ("DEBUG SLEEP 61", "-ERR seconds must be a decimal number from 0 to 60", vec![]),
        ("DEBUG SLEEP 1.", "-ERR seconds must be a decimal number from 0 to 60", vec![]),
        ("DEBUG SLEEP 99999999999999999999", "-ERR seconds must be a decimal number from 0 to 60", vec![]),
    ];
    let mut node = node();
    for (line, reply, effects) in table {
        assert_eq!((node.run(line), node.effects()), (reply.to_owned(), effects), "{line}");
    }
    node.session.client.state.monitors.set(true);
    assert_eq!((node.run("MONITOR"), node.effects()), ("silence".to_owned(), vec![]));
}

#[test]
fn replies_follow_the_last_word() {
    let mut node = node();
    let table = [
        ("CLIENT REPLY SKIP", "silence", Replies::SkipNext),
        ("CLIENT REPLY on", "+OK", Replies::On),
        ("CLIENT REPLY OFF", "silence", Replies::Off),
        ("CLIENT REPLY SKIP", "silence", Replies::Off),
        ("CLIENT REPLY MAYBE", "-ERR syntax error", Replies::Off),
        ("RESET", "+RESET", Replies::On),
    ];
    for (line, reply, replies) in table {
        assert_eq!((node.run(line).as_str(), node.session.replies), (reply, replies), "{line}");
    }
}
