//! What a node says of its cluster, in the shapes that a redis-server 7.0 was seen to answer in, and what operators
//! want of it.

#![allow(clippy::indexing_slicing, reason = "what is missing is a test that fails")]

mod harness;

use harness::cluster::{FIRST, FRESH, OTHER, REPLICA, changed, healthy, key_where, map, node_in_cluster, set_view};
use harness::{Node, Setup, T, check, node};
use std::sync::Arc;
use tollgate_engine::call::Call;
use tollgate_engine::cluster::slot_keys::holds_any;
use tollgate_engine::cluster::wish::{ClusterWish, Failover, answer_to};
use tollgate_engine::cluster::{Health, NO_CLUSTER, View};
use tollgate_engine::effect::Effect;
use tollgate_engine::registry::rows;
use tollgate_resp::Args;
use tollgate_store::slot_of;
use tollgate_topology::change::Change;
use tollgate_topology::map::Info;
use tollgate_topology::slots::SlotSet;
use tollgate_topology::{NodeId, SlotMap};

const FIRST_ID: &str = "1111111111111111111111111111111111111111";
const OTHER_ID: &str = "2222222222222222222222222222222222222222";
const REPLICA_ID: &str = "3333333333333333333333333333333333333333";
const FRESH_ID: &str = "4444444444444444444444444444444444444444";

fn silent(nodes: &[NodeId]) -> Health {
    Health { has_leader: true, silent: nodes.to_vec(), ..Health::default() }
}

fn seen_by(id: NodeId, map: SlotMap, health: Health) -> Node {
    let node = node_in_cluster(id, 1);
    set_view(&node, View::new(id, Arc::new(map), health));
    node
}

/// A map as the harness shows it.
fn shown_map(pairs: &[(&str, String)]) -> String {
    let pairs: Vec<String> = pairs.iter().map(|(key, value)| format!("{key:?}: {value}")).collect();
    format!("{{{}}}", pairs.join(", "))
}

#[test]
fn slots_are_ranges_with_who_serves_them() {
    let first = format!(r#"["10.0.0.1", 7001, "{FIRST_ID}", []], ["10.0.0.3", 7003, "{REPLICA_ID}", []]"#);
    let other = format!(r#"["10.0.0.2", 7002, "{OTHER_ID}", []]"#);
    let expected = format!(
        "[[0, 100, {first}], [101, 199, {other}], [200, 8191, {first}], [8192, 15999, {other}], \
         [16000, 16000, {first}]]"
    );
    for id in [FIRST, OTHER, REPLICA] {
        assert_eq!(node_in_cluster(id, 1).run("CLUSTER SLOTS"), expected);
    }
    let mut resp3 = node_in_cluster(FIRST, 2);
    resp3.speak_resp3();
    assert_eq!(resp3.run("cluster slots"), expected.replace("[]", "{}"));
    let mut without = seen_by(FIRST, map(), silent(&[REPLICA]));
    assert!(!without.run("CLUSTER SLOTS").contains(REPLICA_ID), "nobody is sent to who does not answer");
    assert_eq!(seen_by(FIRST, SlotMap::default(), healthy()).run("CLUSTER SLOTS"), "[]");
}

#[test]
fn nodes_are_lines() {
    let now_ms = T / 1_000;
    let lines = format!(
        "{FIRST_ID} 10.0.0.1:7001@17000 myself,master - 0 0 5 connected 0-100 200-8191 16000\n\
         {OTHER_ID} 10.0.0.2:7002@17000 master - 0 {now_ms} 7 connected 101-199 8192-15999\n\
         {REPLICA_ID} 10.0.0.3:7003@17000 slave {FIRST_ID} 0 {now_ms} 5 connected\n\
         {FRESH_ID} 10.0.0.4:7004@17000 slave {FIRST_ID} 0 {now_ms} 5 connected\n"
    );
    assert_eq!(node_in_cluster(FIRST, 1).run("CLUSTER NODES"), format!("{lines:?}"));
    let mut resp3 = node_in_cluster(FIRST, 1);
    resp3.speak_resp3();
    assert_eq!(resp3.run("CLUSTER NODES"), format!("txt:{lines:?}"));
    let mut node = seen_by(REPLICA, map(), silent(&[OTHER, FRESH, REPLICA]));
    let text = node.value("CLUSTER NODES").words();
    let expected = [
        format!("{OTHER_ID} 10.0.0.2:7002@17000 master,fail - 0 0 7 disconnected 101-199 8192-15999"),
        format!("{REPLICA_ID} 10.0.0.3:7003@17000 myself,slave {FIRST_ID} 0 0 5 connected"),
        format!("{FRESH_ID} 10.0.0.4:7004@17000 slave,fail {FIRST_ID} 0 0 5 disconnected"),
    ];
    assert_eq!(text.lines().skip(1).collect::<Vec<_>>(), expected);
    let lines = text.lines().collect::<Vec<_>>();
    let replicas = format!("[{:?}, {:?}]", lines[2], lines[3]);
    for name in ["REPLICAS", "SLAVES", "replicas"] {
        assert_eq!(node.run(&format!("CLUSTER {name} {FIRST_ID}")), replicas);
    }
    check(
        &mut node,
        &[
            (&format!("CLUSTER REPLICAS {OTHER_ID}"), "[]"),
            (&format!("CLUSTER REPLICAS {REPLICA_ID}"), "-ERR The specified node is not a master"),
            ("CLUSTER REPLICAS abc", "-ERR Unknown node abc"),
            (&format!("CLUSTER COUNT-FAILURE-REPORTS {OTHER_ID}"), "1"),
            (&format!("CLUSTER COUNT-FAILURE-REPORTS {FIRST_ID}"), "0"),
            ("CLUSTER COUNT-FAILURE-REPORTS abc", "-ERR Unknown node abc"),
            ("CLUSTER MYID", &format!("{REPLICA_ID:?}")),
            ("CLUSTER MYSHARDID", &format!("{FIRST_ID:?}")),
            ("CLUSTER SAVECONFIG", "+OK"),
        ],
    );
}

#[test]
fn a_host_that_is_a_name_is_shown_as_one() {
    let mut info = Info::default();
    (info.endpoint.host, info.endpoint.port, info.endpoint.peer_port) = ("gate.example".to_owned(), 6_379, 16_379);
    let named = changed(map(), &[Change::Announce { id: OTHER, info }]);
    let mut node = seen_by(FIRST, named, healthy());
    assert!(node.run("CLUSTER NODES").contains(&format!("{OTHER_ID} gate.example:6379@16379,gate.example master")));
    let text = node.run("CLUSTER SHARDS");
    let shown = r#""ip", "gate.example", "endpoint", "gate.example", "hostname", "gate.example", "role", "master""#;
    assert!(text.contains(shown), "{text}");
    assert_eq!(node.run("GET foo"), "-MOVED 12182 gate.example:6379");
}

#[test]
fn shards_are_primaries_with_their_replicas() {
    let mut node = seen_by(FIRST, map(), silent(&[OTHER]));
    node.speak_resp3();
    let shown = |id: &str, number: u8, role: &str, health: &str| {
        let ip = format!("\"10.0.0.{number}\"");
        let text = |text: &str| format!("{text:?}");
        shown_map(&[
            ("id", text(id)),
            ("port", format!("700{number}")),
            ("ip", ip.clone()),
            ("endpoint", ip),
            ("role", text(role)),
            ("replication-offset", "0".to_owned()),
            ("health", text(health)),
        ])
    };
    let first = [
        shown(FIRST_ID, 1, "master", "online"),
        shown(REPLICA_ID, 3, "replica", "online"),
        shown(FRESH_ID, 4, "replica", "loading"),
    ];
    let other = shown(OTHER_ID, 2, "master", "fail");
    let shard =
        |slots: &str, nodes: String| shown_map(&[("slots", format!("[{slots}]")), ("nodes", format!("[{nodes}]"))]);
    let first = shard("0, 100, 200, 8191, 16000, 16000", first.join(", "));
    let expected = format!("[{first}, {}]", shard("101, 199, 8192, 15999", other));
    assert_eq!(node.run("CLUSTER SHARDS"), expected);
}

#[test]
fn links_go_to_and_come_from_who_is_heard() {
    let mut node = seen_by(FIRST, map(), silent(&[OTHER, FRESH]));
    node.speak_resp3();
    let link = |direction: &str| {
        let nothing = || "0".to_owned();
        shown_map(&[
            ("direction", format!("{direction:?}")),
            ("node", format!("{REPLICA_ID:?}")),
            ("create-time", nothing()),
            ("events", "\"r\"".to_owned()),
            ("send-buffer-allocated", nothing()),
            ("send-buffer-used", nothing()),
        ])
    };
    assert_eq!(node.run("CLUSTER LINKS"), format!("[{}, {}]", link("to"), link("from")));
}

#[test]
fn info_counts_slots_and_nodes() {
    let text = |node: &mut Node| node.value("CLUSTER INFO").words();
    let expected = "cluster_state:ok\r\ncluster_slots_assigned:16001\r\ncluster_slots_ok:16001\r\n\
                    cluster_slots_pfail:0\r\ncluster_slots_fail:0\r\ncluster_known_nodes:4\r\ncluster_size:2\r\n\
                    cluster_current_epoch:7\r\ncluster_my_epoch:5\r\ncluster_stats_messages_sent:0\r\n\
                    cluster_stats_messages_received:0\r\ntotal_cluster_links_buffer_limit_exceeded:0\r\n";
    assert_eq!(text(&mut node_in_cluster(FIRST, 1)), expected);
    assert_eq!(text(&mut node_in_cluster(REPLICA, 1)), expected, "a replica's epoch is its primary's");
    let failing = text(&mut seen_by(FIRST, map(), silent(&[OTHER, FRESH])));
    assert!(failing.starts_with("cluster_state:ok\r\ncluster_slots_assigned:16001\r\ncluster_slots_ok:8094\r\n"));
    assert!(failing.contains("cluster_slots_fail:7907\r\n"), "{failing}");
    let alone = text(&mut seen_by(FIRST, map(), Health::default()));
    assert!(alone.starts_with("cluster_state:fail\r\n"), "it hears nobody");
    let empty = text(&mut seen_by(FIRST, SlotMap::default(), healthy()));
    assert!(empty.starts_with("cluster_state:fail\r\ncluster_slots_assigned:0\r\n"), "{empty}");
    let mut node = node_in_cluster(FIRST, 1);
    assert!(node.value("INFO cluster").words().contains("cluster_enabled:1\r\n"));
    assert!(node.value("INFO server").words().contains("redis_mode:cluster\r\n"));
    assert!(node.run("HELLO 3").contains(r#""mode": "cluster""#));
}

#[test]
fn keys_of_a_slot_are_those_that_have_not_expired() {
    for cores in 1..=3 {
        let mut node = node_in_cluster(FIRST, cores);
        let slot = slot_of(b"{b}");
        for number in 0..20 {
            node.run(&format!("SET {{b}}{number} x"));
        }
        node.run("SET {b}gone x PX 5");
        node.run("RL.SLIDE {b}limit 5 1");
        assert_eq!(node.run(&format!("CLUSTER COUNTKEYSINSLOT {slot}")), "22");
        node.now += 5_000;
        assert_eq!(node.run(&format!("CLUSTER COUNTKEYSINSLOT {slot}")), "21");
        let keys = node.value(&format!("CLUSTER GETKEYSINSLOT {slot} 100"));
        assert_eq!(keys.elements().len(), 21);
        assert!(!keys.to_string().contains("gone"));
        assert_eq!(node.value(&format!("CLUSTER GETKEYSINSLOT {slot} 3")).elements().len(), 3);
        for key in keys.elements() {
            node.run(&format!("DEL {}", key.words()));
        }
        assert_eq!(node.run(&format!("CLUSTER GETKEYSINSLOT {slot} 100")), "[]");
        check(
            &mut node,
            &[
                ("CLUSTER COUNTKEYSINSLOT 16383", "0"),
                ("CLUSTER COUNTKEYSINSLOT x", "-ERR value is not an integer or out of range"),
                ("CLUSTER COUNTKEYSINSLOT 16384", "-ERR Invalid slot"),
                ("CLUSTER COUNTKEYSINSLOT -1", "-ERR Invalid slot"),
                ("CLUSTER GETKEYSINSLOT 16384 1", "-ERR Invalid slot or number of keys"),
                ("CLUSTER GETKEYSINSLOT 1 -1", "-ERR Invalid slot or number of keys"),
                ("CLUSTER GETKEYSINSLOT x 1", "-ERR value is not an integer or out of range"),
                ("CLUSTER GETKEYSINSLOT 1 x", "-ERR value is not an integer or out of range"),
                ("CLUSTER GETKEYSINSLOT 1 0", "[]"),
            ],
        );
    }
}

#[test]
fn without_a_cluster_only_keyslot_and_help_answer() {
    let mut node = node();
    for command in rows().into_iter().filter(|command| command.name.starts_with("cluster|")) {
        let words = command.name.replace('|', " ");
        let arguments = usize::from(command.arity.unsigned_abs()) - 2;
        let reply = node.run(&format!("{words}{}", " 7".repeat(arguments)));
        let is_answered = ["cluster keyslot", "cluster help"].contains(&words.as_str());
        assert_eq!(reply == format!("-{NO_CLUSTER}"), !is_answered, "{words}: {reply}");
        assert_eq!(node.effects(), [], "{words}");
    }
    for line in ["CLUSTER FOO", "CLUSTER SETSLOT 1 NODE x", "CLUSTER RESET", "READONLY", "READWRITE", "ASKING"] {
        assert_eq!(node.run(line), format!("-{NO_CLUSTER}"), "{line}");
    }
    assert_eq!(node_in_cluster(FIRST, 1).run("CLUSTER FOO"), "-ERR unknown subcommand 'FOO'. Try CLUSTER HELP.");
    check(
        &mut node_in_cluster(FIRST, 1),
        &[
            ("SELECT 1", "-ERR SELECT is not allowed in cluster mode"),
            ("SELECT 0", "+OK"),
            ("REPLICAOF NO ONE", "-ERR REPLICAOF not allowed in cluster mode."),
            ("REPLICAOF 10.0.0.1 7000", "-ERR REPLICAOF not allowed in cluster mode."),
        ],
    );
}

/// Runs each line, which is answered with what is expected or is a wish.
fn check_wishes(id: NodeId, table: &[(&str, Result<ClusterWish, &str>)]) {
    for (line, expected) in table {
        let mut node = node_in_cluster(id, 2);
        let reply = node.run(line);
        match expected {
            Ok(wish) => {
                assert_eq!(node.effects(), [Effect::Cluster(Box::new(wish.clone()))], "{line}: {reply}");
                assert_eq!(reply, "silence", "{line}: the shell answers");
            }
            Err(text) => {
                assert_eq!(reply, format!("-ERR {text}"), "{line}");
                assert_eq!(node.effects(), [], "{line}");
            }
        }
    }
}

fn propose(change: Change) -> Result<ClusterWish, &'static str> {
    Ok(ClusterWish::Propose(change))
}

#[test]
fn slots_are_named_one_by_one_or_by_their_bounds() {
    let set = |slots: &[u16]| SlotSet::new(slots.iter().copied());
    let add = |slots: &[u16]| propose(Change::AddSlots { id: FIRST, slots: set(slots) });
    let del = |slots: &[u16]| propose(Change::DelSlots { by: FIRST, lapsed: Default::default(), slots: set(slots) });
    check_wishes(
        FIRST,
        &[
            ("CLUSTER ADDSLOTS 5 3 16383", add(&[3, 5, 16_383])),
            ("cluster delslots 5", del(&[5])),
            ("CLUSTER ADDSLOTSRANGE 3 5 7 7", add(&[3, 4, 5, 7])),
            ("CLUSTER DELSLOTSRANGE 7 9", del(&[7, 8, 9])),
            ("CLUSTER ADDSLOTS x", Err("Invalid or out of range slot")),
            ("CLUSTER ADDSLOTS 1 16384", Err("Invalid or out of range slot")),
            ("CLUSTER DELSLOTS -1", Err("Invalid or out of range slot")),
            ("CLUSTER ADDSLOTS 5 6 5", Err("Slot 5 specified multiple times")),
            ("CLUSTER DELSLOTS 5 5", Err("Slot 5 specified multiple times")),
            ("CLUSTER ADDSLOTSRANGE 5 3", Err("start slot number 5 is greater than end slot number 3")),
            ("CLUSTER ADDSLOTSRANGE 1 5 5 6", Err("Slot 5 specified multiple times")),
            ("CLUSTER ADDSLOTSRANGE 1 16384", Err("Invalid or out of range slot")),
            ("CLUSTER ADDSLOTSRANGE 5 6 7", Err("wrong number of arguments for 'cluster|addslotsrange' command")),
            ("CLUSTER DELSLOTSRANGE 5 6 7", Err("wrong number of arguments for 'cluster|delslotsrange' command")),
            ("CLUSTER ADDSLOTSRANGE 5", Err("wrong number of arguments for 'cluster|addslotsrange' command")),
        ],
    );
    let all: Vec<String> = (0..16_384).map(|slot: u16| slot.to_string()).collect();
    check_wishes(
        FIRST,
        &[
            (
                &format!("CLUSTER ADDSLOTS {}", all.join(" ")),
                propose(Change::AddSlots { id: FIRST, slots: SlotSet::new(0..16_384) }),
            ),
            (&format!("CLUSTER ADDSLOTSRANGE{}", " 0 16383".repeat(8_192)), Err("Slot 0 specified multiple times")),
        ],
    );
}

#[test]
fn nodes_meet_at_an_address() {
    let meet = |host: &str, port, peer_port| Ok(ClusterWish::Meet { host: host.to_owned(), port, peer_port });
    check_wishes(
        FIRST,
        &[
            ("CLUSTER MEET 127.0.0.1 7000", meet("127.0.0.1", 7_000, None)),
            ("CLUSTER MEET ::1 7000 17001", meet("::1", 7_000, Some(17_001))),
            ("CLUSTER MEET gate-1.example 7000", meet("gate-1.example", 7_000, None)),
            ("CLUSTER MEET a b", Err("Invalid TCP base port specified: b")),
            ("CLUSTER MEET 127.0.0.1 7000 x", Err("Invalid TCP bus port specified: x")),
            ("CLUSTER MEET 127.0.0.1 0", Err("Invalid node address specified: 127.0.0.1:0")),
            ("CLUSTER MEET 127.0.0.1 70000", Err("Invalid node address specified: 127.0.0.1:70000")),
            ("CLUSTER MEET 127.0.0.1 7000 0", Err("Invalid node address specified: 127.0.0.1:7000")),
            ("CLUSTER MEET 127.0.0.256 7000", Err("Invalid node address specified: 127.0.0.256:7000")),
            ("CLUSTER MEET a/b 7000", Err("Invalid node address specified: a/b:7000")),
            ("CLUSTER MEET 127.0.0.1", Err("wrong number of arguments for 'cluster|meet' command")),
            (
                "CLUSTER MEET 127.0.0.1 1 2 3",
                Err("unknown subcommand or wrong number of arguments for 'MEET'. Try CLUSTER HELP."),
            ),
        ],
    );
}

#[test]
fn replicas_follow_and_take_over() {
    let replicate = |of: &str| format!("CLUSTER REPLICATE {of}");
    check_wishes(
        FRESH,
        &[
            (&replicate(OTHER_ID), propose(Change::Replicate { id: FRESH, of: OTHER })),
            (&replicate(FIRST_ID), propose(Change::Replicate { id: FRESH, of: FIRST })),
            (&replicate(FRESH_ID), Err("Can't replicate myself")),
            (&replicate(REPLICA_ID), Err("I can only replicate a master, not a replica.")),
            (&replicate("abc"), Err("Unknown node abc")),
            ("CLUSTER FAILOVER", Ok(ClusterWish::FailOver(Failover::Asked))),
            ("CLUSTER FAILOVER force", Ok(ClusterWish::FailOver(Failover::Forced))),
            ("CLUSTER FAILOVER TAKEOVER", Ok(ClusterWish::FailOver(Failover::TakenOver))),
            ("CLUSTER FAILOVER now", Err("syntax error")),
        ],
    );
    check_wishes(
        FIRST,
        &[
            (&replicate(OTHER_ID), Err("To set a master the node must be empty and without assigned slots.")),
            (&replicate(REPLICA_ID), Err("I can only replicate a master, not a replica.")),
            ("CLUSTER FAILOVER", Err("You should send CLUSTER FAILOVER to a replica")),
            ("CLUSTER FAILOVER FORCE", Err("You should send CLUSTER FAILOVER to a replica")),
            (
                "CLUSTER FAILOVER FORCE x",
                Err("unknown subcommand or wrong number of arguments for 'FAILOVER'. Try CLUSTER HELP."),
            ),
        ],
    );
    let mut cut_off = seen_by(REPLICA, map(), silent(&[FIRST]));
    let down = "-ERR Master is down or failed, please use CLUSTER FAILOVER FORCE";
    assert_eq!(cut_off.run("CLUSTER FAILOVER"), down);
    assert_eq!(cut_off.run("CLUSTER FAILOVER FORCE"), "silence");
}

#[test]
fn a_primary_that_holds_keys_follows_nobody() {
    let slots = SlotSet::new((0..=16_000).filter(|slot| harness::cluster::is_of_first(*slot)));
    let without_slots = changed(map(), &[Change::DelSlots { by: FIRST, lapsed: Default::default(), slots }]);
    for cores in 1..=3 {
        let mut node = node_in_cluster(FIRST, cores);
        let holds_keys = |node: &mut Node| {
            let (args, now) = (Args::new(&[], &[]), node.now);
            let call = Call { args, at: node.dispatcher.hasher().locate(b""), now };
            let mut fragment = Vec::new();
            node.cores.iter_mut().for_each(|core| drop(holds_any(core, &call, None, &mut fragment)));
            fragment.iter().any(|byte| *byte != 0)
        };
        assert!(!holds_keys(&mut node));
        let key = key_where("k", harness::cluster::is_of_first);
        assert_eq!(node.run(&format!("SET {key} x PX 5")), "+OK");
        assert!(holds_keys(&mut node));
        node.now += 5_000;
        assert!(!holds_keys(&mut node), "it has expired");
        set_view(&node, View::new(FIRST, Arc::new(without_slots.clone()), healthy()));
        assert_eq!(node.run(&format!("CLUSTER REPLICATE {OTHER_ID}")), "silence");
        let change = Change::Replicate { id: FIRST, of: OTHER };
        assert_eq!(node.effects(), [Effect::Cluster(Box::new(ClusterWish::ProposeIfEmpty(change)))]);
    }
}

#[test]
fn epochs_are_set_and_raised() {
    check_wishes(
        FIRST,
        &[
            ("CLUSTER SET-CONFIG-EPOCH -1", Err("Invalid config epoch specified: -1")),
            ("CLUSTER SET-CONFIG-EPOCH x", Err("value is not an integer or out of range")),
            (
                "CLUSTER SET-CONFIG-EPOCH 9",
                Err("The user can assign a config epoch only when the node does not know any other node."),
            ),
            ("CLUSTER BUMPEPOCH", propose(Change::BumpEpoch { id: FIRST })),
        ],
    );
    let bump = Change::BumpEpoch { id: OTHER };
    assert_eq!(answer_to(&bump, true, &map()), "BUMPED 7");
    assert_eq!(answer_to(&bump, false, &map()), "STILL 7");
    assert_eq!(answer_to(&Change::SetLease { ms: 500 }, true, &map()), "OK");
    let join = Change::Join { id: FIRST, info: Info::default(), slots: SlotSet::default(), config_epoch: 0 };
    let mut alone = seen_by(FIRST, changed(SlotMap::default(), &[join]), healthy());
    assert_eq!(alone.run("CLUSTER SET-CONFIG-EPOCH 9"), "silence");
    let set = ClusterWish::Propose(Change::SetConfigEpoch { id: FIRST, epoch: 9 });
    assert_eq!(alone.effects(), [Effect::Cluster(Box::new(set))]);
}

#[test]
fn before_there_is_a_view_nothing_is_served() {
    let mut node = Node::new(Setup { cores: 2, cluster: true, ..Setup::default() });
    check(
        &mut node,
        &[
            ("GET a", "-CLUSTERDOWN Hash slot not served"),
            ("RL.SLIDE a 5 1", "-CLUSTERDOWN Hash slot not served"),
            ("PING", "+PONG"),
            ("DBSIZE", "0"),
            ("CLUSTER SLOTS", "[]"),
        ],
    );
}
