//! Commands about the connection and the server: PING to CLIENT, CONFIG GET, INFO, TIME, RL.CLOCK, SHUTDOWN.

mod harness;

use harness::{MS, Node, S, Setup, T, check, node, node_of};
use tollgate_engine::effect::Effect;

const NOAUTH: &str = "-NOAUTH Authentication required.";
const WRONGPASS: &str = "-WRONGPASS invalid username-password pair or user is disabled.";
const BAD_NAME: &str = "-ERR Client names cannot contain spaces, newlines or special characters.";
const NO_INDEX: &str = "-ERR value is not an integer or out of range";
const GREETING_2: &str = "[\"server\", \"redis\", \"version\", \"7.2.4\", \"proto\", 2, \"id\", 7, \"mode\", \
                          \"standalone\", \"role\", \"master\", \"modules\", []]";
const GREETING_3: &str = "{\"server\": \"redis\", \"version\": \"7.2.4\", \"proto\": 3, \"id\": 7, \"mode\": \
                          \"standalone\", \"role\": \"master\", \"modules\": []}";

#[test]
fn small_commands_answer_as_redis_does() {
    let table = [
        ("PING", "+PONG"),
        ("PING hi", "\"hi\""),
        ("PING a b", "-ERR wrong number of arguments for 'ping' command"),
        ("ECHO hi", "\"hi\""),
        ("ECHO", "-ERR wrong number of arguments for 'echo' command"),
        ("SELECT 0", "+OK"),
        ("SELECT 1", "-ERR DB index is out of range"),
        ("SELECT x", "-ERR value is not an integer or out of range"),
        ("CLIENT ID", "7"),
        ("CLIENT GETNAME", "nil"),
        ("CLIENT SETNAME gateway-1", "+OK"),
        ("CLIENT GETNAME", "\"gateway-1\""),
        ("CLIENT SETINFO LIB-NAME redis-py", "+OK"),
        ("CLIENT SETINFO lib-ver 8.0.0", "+OK"),
        ("CLIENT SETINFO lib-x 8.0.0", "-ERR Unrecognized option 'lib-x'"),
        ("CLIENT", "-ERR wrong number of arguments for 'client' command"),
        ("CLIENT ID x", "-ERR wrong number of arguments for 'client|id' command"),
        ("CLIENT MAINT_NOTIFICATIONS ON", "-ERR unknown subcommand 'MAINT_NOTIFICATIONS'. Try CLIENT HELP."),
        ("CLIENT LIST TYPE x", "-ERR Unknown client type 'x'"),
        ("CLIENT LIST ID 0", "-ERR Invalid client ID"),
        ("CLIENT LIST FOO", "-ERR syntax error"),
        ("CLUSTER KEYSLOT 123456789", "12739"),
        ("CLUSTER KEYSLOT {user1000}.following", "3443"),
        ("CLUSTER INFO", "-ERR This instance has cluster support disabled"),
        ("CONFIG GET databases", "[\"databases\", \"1\"]"),
        ("CONFIG GET MAX*y p?rt", "[\"maxmemory\", \"0\", \"maxmemory-policy\", \"noeviction\", \"port\", \"6379\"]"),
        ("CONFIG GET nothing", "[]"),
        ("TIME", "[\"1751540400\", \"0\"]"),
        ("NOPE a b", "-ERR unknown command 'NOPE', with args beginning with: 'a' 'b' "),
        ("EVAL x 0", "-ERR unknown command 'EVAL', with args beginning with: 'x' '0' "),
        ("SELECT 05", NO_INDEX),
        ("SELECT -0", NO_INDEX),
        ("SELECT +0", NO_INDEX),
        ("SELECT 4294967296", "-ERR value is out of range, value must between -2147483648 and 2147483647"),
    ];
    check(&mut node(), &table);
}

#[test]
fn an_unknown_command_is_shown_as_far_as_redis_shows_it() {
    let name = "n".repeat(200);
    let words = [name.as_bytes()].into_iter().chain([&b"word"[..]; 40]).collect::<Vec<_>>();
    let shown = format!("{}'wo' ", "'word' ".repeat(18));
    let expected = format!("-ERR unknown command '{}', with args beginning with: {shown}", "n".repeat(128));
    assert_eq!(node().call(&words).to_string(), expected);
}

#[test]
fn names_hold_nothing_that_breaks_a_line() {
    let mut node = node();
    for name in [&b"a b"[..], b"a\nb", b"\xc3\xbc", b"\x7f", &[b'x'; 129]] {
        assert_eq!(node.call(&[b"CLIENT", b"SETNAME", name]).to_string(), BAD_NAME);
    }
    assert_eq!(node.call(&[b"CLIENT", b"SETINFO", b"LIB-NAME", b"a b"]).to_string(), bad_info("lib-name"));
    assert_eq!(node.call(&[b"CLIENT", b"SETINFO", b"LIB-VER", b"\n"]).to_string(), bad_info("lib-ver"));
    assert_eq!(node.run("CLIENT GETNAME"), "nil");
    assert_eq!(node.run(&format!("CLIENT SETNAME {}", "x".repeat(128))), "+OK");
    assert_eq!(node.call(&[b"CLIENT", b"SETNAME", b""]).to_string(), "+OK");
    assert_eq!(node.run("CLIENT GETNAME"), "nil");
}

fn bad_info(field: &str) -> String {
    format!("-ERR {field} cannot contain spaces, newlines or special characters.")
}

#[test]
fn hello_greets_and_chooses_the_protocol() {
    let table = [
        ("HELLO", GREETING_2),
        ("HELLO 3", GREETING_3),
        ("HELLO", GREETING_3),
        ("HELLO 4", "-NOPROTO unsupported protocol version"),
        ("HELLO x", "-ERR Protocol version is not an integer or out of range"),
        ("HELLO 2 FOO", "-ERR Syntax error in HELLO option 'FOO'"),
        ("HELLO 2 SETNAME", "-ERR Syntax error in HELLO option 'SETNAME'"),
        ("HELLO 2 AUTH default", "-ERR Syntax error in HELLO option 'AUTH'"),
        ("CLIENT GETNAME", "nil"),
        ("HELLO 2 SETNAME me AUTH default any", GREETING_2),
        ("CLIENT GETNAME", "\"me\""),
        ("HELLO 3 AUTH nobody any", WRONGPASS),
        ("CONFIG GET port", "[\"port\", \"6379\"]"),
        ("RESET", "+RESET"),
        ("CLIENT GETNAME", "nil"),
    ];
    check(&mut node(), &table);
}

#[test]
fn a_password_stands_before_everything_that_needs_one() {
    let mut node = Node::new(Setup { password: Some("secret"), ..Setup::default() });
    let before = [
        ("PING", NOAUTH),
        ("RL.SLIDE k 1 1", NOAUTH),
        ("CLIENT ID", NOAUTH),
        ("NOPE", "-ERR unknown command 'NOPE', with args beginning with: "),
        ("RL.SLIDE k", "-ERR wrong number of arguments for 'rl.slide' command"),
        ("AUTH wrong", WRONGPASS),
        ("AUTH nobody secret", WRONGPASS),
        ("AUTH a b c", "-ERR syntax error"),
        ("HELLO 3 AUTH default wrong", WRONGPASS),
        ("PING", NOAUTH),
    ];
    check(&mut node, &before);
    assert!(node.run("HELLO 3").starts_with("-NOAUTH HELLO must be called with the client already authenticated"));
    let after = [
        ("HELLO 3 AUTH default secret", GREETING_3),
        ("RL.SLIDE k 1 1", "[1, 1, 0, 0, 2000]"),
        ("RESET", "+RESET"),
        ("PING", NOAUTH),
        ("AUTH secret", "+OK"),
        ("PING", "+PONG"),
        ("AUTH wrong", WRONGPASS),
        ("PING", "+PONG"),
    ];
    check(&mut node, &after);
    let none_set = "-ERR AUTH <password> called without any password configured for the default user. Are you sure \
                    your configuration is correct?";
    check(&mut harness::node(), &[("AUTH secret", none_set), ("AUTH default any", "+OK")]);
}

#[test]
fn effects_are_asked_of_the_shell() {
    let moved = |micros| vec![Effect::SetClock(micros)];
    let table: [(&str, &str, Vec<Effect>); 18] = [
        ("QUIT", "+OK", vec![Effect::Close]),
        ("RESET", "+RESET", vec![Effect::SessionChanged]),
        ("SHUTDOWN", "silence", vec![Effect::Shutdown { saves: None }, Effect::Close]),
        ("SHUTDOWN NOSAVE NOW FORCE", "silence", vec![Effect::Shutdown { saves: Some(false) }, Effect::Close]),
        ("SHUTDOWN SAVE", "-ERR no snapshot can be written without --dir", vec![]),
        ("SHUTDOWN ABORT", "-ERR No shutdown in progress.", vec![]),
        ("SHUTDOWN NOW LATER", "-ERR syntax error", vec![]),
        ("RL.CLOCK", "1751540400000000", vec![]),
        ("RL.CLOCK SET 1751540401", "+OK", moved(T + S)),
        ("RL.CLOCK SET 1751540400s", "+OK", moved(T)),
        ("RL.CLOCK ADVANCE 137us", "+OK", moved(T + 137)),
        ("RL.CLOCK advance 1.5ms", "+OK", moved(T + MS + 500)),
        ("RL.CLOCK SET 1751540399", "-ERR the clock never runs backwards", vec![]),
        ("RL.CLOCK SET 253402300801", "-ERR the clock cannot be set beyond the year 9999", vec![]),
        ("RL.CLOCK SET", "-ERR wrong number of arguments for 'rl.clock' command", vec![]),
        ("RL.CLOCK ADVANCE 1 2", "-ERR wrong number of arguments for 'rl.clock' command", vec![]),
        ("RL.CLOCK BACK 1", "-ERR syntax error: RL.CLOCK takes SET or ADVANCE, not 'BACK'", vec![]),
        ("RL.CLOCK SET now", "-ERR unix time must be a time since the epoch such as 1751540400", vec![]),
    ];
    let mut node = node();
    for (line, reply, effects) in table {
        assert_eq!((node.run(line), node.effects()), (reply.to_owned(), effects), "{line}");
    }
    let mut still = Node::new(Setup { test_clock: false, ..Setup::default() });
    let refused = "-ERR the clock can be moved only on a server started with --test-clock";
    assert_eq!((still.run("RL.CLOCK ADVANCE 1"), still.effects()), (refused.to_owned(), vec![]));
}

#[test]
fn info_has_the_lines_that_clients_look_for() {
    let mut node = node_of(2);
    node.run("RL.SLIDE a 1 60");
    node.run("RL.SLIDE a 1 60");
    node.cores.iter_mut().for_each(tollgate_engine::core::Core::publish);
    let text = node.value("INFO").words();
    assert!(text.split_inclusive('\n').all(|line| line.ends_with("\r\n")), "every line ends in CRLF");
    // Tools take the first place where a name stands, and read on to the line's end.
    for (name, value) in [
        ("redis_version:", "7.2.4"),
        ("loading:", "0"),
        ("cluster_enabled:", "0"),
        ("connected_clients:", "0"),
        ("blocked_clients:", "0"),
        ("bgsave_in_progress:", "0"),
        ("aof_rewrite_in_progress:", "0"),
        ("role:", "master"),
        ("db0:", "keys=1,expires=1,avg_ttl=0"),
        ("slide_allowed:", "1"),
        ("slide_denied:", "1"),
        ("process_id:", "42"),
    ] {
        let first = text.split_once(name).and_then(|(_, rest)| rest.split_once("\r\n")).map(|(value, _)| value);
        assert_eq!(first, Some(value), "{name}");
    }
    for name in ["used_memory:", "total_commands_processed:", "total_connections_received:"] {
        let first = text.split_once(name).and_then(|(_, rest)| rest.split_once("\r\n"));
        assert!(first.is_some_and(|(value, _)| value.parse::<u64>().is_ok()), "{name}");
    }
    node.run("FLUSHALL");
    node.cores.iter_mut().for_each(tollgate_engine::core::Core::publish);
    assert!(!node.value("INFO").words().contains("db0:"));
    assert!(node.value("INFO server").words().starts_with("# Server\r\n"));
    assert_eq!(node.run("INFO nothing"), "\"\"");
    assert!(node.value("INFO commandstats").words().contains("cmdstat_rl.slide:calls=2,usec=0,usec_per_call=0.00,"));
    node.speak_resp3();
    assert!(node.run("INFO clients").starts_with("txt:\"# Clients"));
}

#[test]
fn what_a_client_sent_is_echoed_short_and_harmless() {
    let mut node = node();
    let long = vec![b'x'; 5_000];
    let reply = node.call(&[&long, b"a\r\n+OK\r\n", &long]).to_string();
    assert!(reply.len() < 600 && !reply.contains('\n'), "{reply}");
    assert!(node.call(&[b"CLIENT", &long]).to_string().len() < 300);
    assert!(!node.call(&[b"RL.SLIDE", b"k", b"1", b"1", b"\x1b[2J"]).to_string().contains('\x1b'));
}
