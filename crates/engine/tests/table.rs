//! Walks the command table: each row is held to what clients, routing and the documentation rely on.

#![allow(clippy::expect_used, reason = "what is missing is a test that fails")]

mod harness;

use harness::value::Value;
use harness::{Node, node, node_of};
use tollgate_engine::bounds::KEY_BYTES_MAX;
use tollgate_engine::command::{Argument, ArgumentKind, Command, Flags, Handler, Keys, Route};
use tollgate_engine::registry::{Found, registry, rows};
use tollgate_resp::Args;

/// A call's words, the subcommand's own among them, filled up to `length` with small numbers, which every argument's
/// kind takes as text.
fn words_of(command: &Command, length: usize) -> Vec<String> {
    let names = command.name.split('|').map(str::to_owned);
    names.chain((1..).map(|number: u32| number.to_string())).take(length).collect()
}

fn call(node: &mut Node, words: &[String]) -> Value {
    let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
    node.call(&words)
}

fn both_protocols() -> [Node; 2] {
    let mut resp3 = node();
    resp3.speak_resp3();
    [node(), resp3]
}

#[test]
fn wrong_counts_are_refused_and_named() {
    let mut node = node();
    for command in rows() {
        let fewest = usize::from(command.arity.unsigned_abs());
        // A refused EXEC ends its transaction, and says so.
        let code = if command.name == "exec" { "EXECABORT Transaction discarded because of:" } else { "ERR" };
        let refused = format!("-{code} wrong number of arguments for '{}' command", command.name);
        let names = command.name.split('|').count();
        if fewest > names {
            assert_eq!(call(&mut node, &words_of(command, fewest - 1)).to_string(), refused);
        }
        if command.arity > 0 {
            assert_eq!(call(&mut node, &words_of(command, fewest + 1)).to_string(), refused);
        }
        let is_container_only = matches!(command.handler, Handler::Container);
        let right = call(&mut node, &words_of(command, fewest)).to_string();
        assert!(is_container_only || right != refused, "{}: {right}", command.name);
    }
}

#[test]
fn no_row_takes_a_wrong_route() {
    // Whatever the arguments, and on several cores: the harness panics where a handler does not fit its way.
    for mut node in [node(), node_of(3)] {
        for command in rows() {
            for length in 1..=11 {
                let reply = call(&mut node, &words_of(command, length)).to_string();
                // SHUTDOWN has no answer, and what these are told is the shell's.
                let may_be_silent = ["shutdown", "monitor", "rl.flow", "wait"].contains(&command.name);
                assert!(reply != "silence" || may_be_silent, "{} of {length} words", command.name);
                assert!(!reply.contains("internal error"), "{} of {length} words: {reply}", command.name);
            }
        }
    }
}

#[test]
fn handlers_fit_routes_and_keys() {
    for command in rows() {
        let fits = match (command.route, command.handler) {
            (Route::Key, Handler::Key(_)) => command.keys == Keys::ONE,
            (Route::Slot, Handler::Key(_)) => command.keys == Keys::NONE && command.arguments[0].name == "slot",
            (Route::Keys, Handler::Spread(..)) => command.keys == Keys::ALL,
            // A subcommand's one key, behind its name.
            (Route::Keys, Handler::Key(_)) => command.keys == Keys::SECOND && command.name.contains('|'),
            (Route::All, Handler::All) => command.keys == Keys::FIFTHS,
            (Route::Steps, Handler::Steps(_) | Handler::StepsOrParts(..)) => command.keys.first == 1,
            (Route::Transaction, Handler::Transaction(_)) => [Keys::NONE, Keys::ALL].contains(&command.keys),
            (Route::Every | Route::Cursor, Handler::Spread(..)) => command.keys == Keys::NONE,
            (Route::Any | Route::Process, Handler::Session(_)) => command.keys == Keys::NONE,
            (Route::Any, Handler::Container) => command.keys == Keys::NONE && !command.subcommands.is_empty(),
            _ => false,
        };
        assert!(fits, "{}: {:?} {:?}", command.name, command.route, command.keys);
    }
}

#[test]
fn flags_and_categories_agree() {
    for command in rows() {
        let (name, flags) = (command.name, command.flags);
        let has_category = |category| command.categories.contains(&category);
        assert!(!(flags.has(Flags::WRITE) && flags.has(Flags::READONLY)), "{name} writes and only reads");
        assert!(
            !flags.has(Flags::DENYOOM) || flags.has(Flags::WRITE),
            "{name} may be refused for memory, so it writes"
        );
        assert_eq!(has_category("@write"), flags.has(Flags::WRITE), "{name}");
        assert_eq!(has_category("@read"), flags.has(Flags::READONLY), "{name}");
        assert_eq!(has_category("@fast"), flags.has(Flags::FAST), "{name}");
        assert_ne!(has_category("@slow"), has_category("@fast"), "{name} is one of fast and slow");
        assert_eq!(has_category("@admin"), flags.has(Flags::ADMIN), "{name}");
        assert!(command.categories.iter().all(|category| category.starts_with('@')), "{name}");
    }
    // Whatever consumes must never be sent to a replica.
    for name in ["rl.slide", "rl.token", "rl.fixed", "rl.log", "rl.leak", "rl.all", "cl.throttle", "del", "flushall"] {
        let flags = registry().find_name(name.as_bytes()).expect("a row").command.flags;
        assert!(flags.has(Flags::WRITE) && !flags.has(Flags::READONLY), "{name}");
    }
}

#[test]
fn rows_are_written_as_people_read_them() {
    for command in rows() {
        let name = command.name;
        assert_eq!(name, name.to_ascii_lowercase());
        assert!(command.summary.ends_with('.') && command.summary.len() < 120, "{name}: {}", command.summary);
        assert!(command.complexity.starts_with("O("), "{name}");
        assert!(!command.group.is_empty() && !command.since.is_empty(), "{name}");
        assert_eq!(name.matches('|').count(), usize::from(is_subcommand(command)), "{name}");
        for subcommand in command.subcommands {
            assert!(subcommand.name.starts_with(&format!("{name}|")), "{}", subcommand.name);
        }
    }
}

fn is_subcommand(command: &Command) -> bool {
    rows().iter().any(|container| container.subcommands.iter().any(|row| row.name == command.name))
}

#[test]
fn command_rows_have_ten_elements_of_the_right_kinds() {
    for mut node in both_protocols() {
        let reply = node.value("COMMAND");
        assert_eq!(reply, node.value("COMMAND INFO"));
        assert_eq!(node.run("COMMAND COUNT"), reply.elements().len().to_string());
        assert_eq!(node.value("COMMAND LIST").elements().len(), reply.elements().len());
        let is_resp3 = matches!(node.value("CONFIG GET x"), Value::Map(_));
        reply.elements().iter().for_each(|row| check_row(row, is_resp3));
    }
}

fn check_row(row: &Value, is_resp3: bool) {
    let [name, arity, flags, first, last, step, categories, tips, key_specs, subcommands] = row.elements() else {
        panic!("ten elements: {row}");
    };
    assert!(matches!(name, Value::Bulk(bytes) if !bytes.iter().any(u8::is_ascii_uppercase)), "{name}");
    assert!(matches!(arity, Value::Integer(number) if *number != 0), "{name}: arity {arity}");
    for set in [flags, categories, tips, key_specs] {
        assert_eq!(matches!(set, Value::Set(_)), is_resp3, "{name}: {set}");
    }
    for words in [flags, categories] {
        assert!(words.elements().iter().all(|word| matches!(word, Value::Simple(_))), "{name}: {words}");
    }
    assert!(!flags.elements().contains(&Value::Simple("movablekeys".to_owned())), "{name}");
    assert!(tips.elements().is_empty(), "{name}: no tips");
    for position in [first, last, step] {
        assert!(matches!(position, Value::Integer(-1..=127)), "{name}: {position}");
    }
    assert_eq!(*first == Value::Integer(0), *step == Value::Integer(0), "{name}: keys have a step");
    assert_eq!(*first == Value::Integer(0), key_specs.elements().is_empty(), "{name}: {key_specs}");
    key_specs.elements().iter().for_each(|spec| check_key_spec(spec, first, is_resp3));
    subcommands.elements().iter().for_each(|subcommand| check_row(subcommand, is_resp3));
}

fn check_key_spec(spec: &Value, first: &Value, is_resp3: bool) {
    assert_eq!(matches!(spec, Value::Map(_)), is_resp3);
    let field = |of: &Value, name: &str| of.field(name).unwrap_or_else(|| panic!("{name} in {of}"));
    assert_eq!(matches!(field(spec, "flags"), Value::Set(_)), is_resp3);
    let (search, find) = (field(spec, "begin_search"), field(spec, "find_keys"));
    assert_eq!((field(&search, "type").words(), field(&find, "type").words()), ("index".into(), "range".into()));
    assert_eq!(&field(&field(&search, "spec"), "index"), first);
    for name in ["lastkey", "keystep", "limit"] {
        assert!(matches!(field(&field(&find, "spec"), name), Value::Integer(_)));
    }
}

#[test]
fn some_rows_as_they_are_sent() {
    let mut node = node();
    let slide = "[[\"rl.slide\", -4, [+write, +denyoom, +fast], 1, 1, 1, [+@write, +@fast, +@ratelimit], [], \
                 [[\"flags\", [+RW, +access, +update], \
                 \"begin_search\", [\"type\", \"index\", \"spec\", [\"index\", 1]], \
                 \"find_keys\", [\"type\", \"range\", \
                 \"spec\", [\"lastkey\", 0, \"keystep\", 1, \"limit\", 0]]]], []]]";
    assert_eq!(node.run("COMMAND INFO RL.SLIDE"), slide);
    assert!(node.run("COMMAND INFO rl.all").contains("1, -1, 5, "));
    assert!(node.run("COMMAND INFO rl.all").contains("\"lastkey\", -1, \"keystep\", 5"));
    let table = [
        ("COMMAND INFO nope", "[nil]"),
        ("COMMAND NOPE", "-ERR unknown subcommand 'NOPE'. Try COMMAND HELP."),
        ("COMMAND GETKEYS RL.SLIDE k 5 1", "[\"k\"]"),
        ("COMMAND GETKEYS RL.ALL a SLIDE 5 1 1 b TOKEN 5 1 1", "[\"a\", \"b\"]"),
        ("COMMAND GETKEYS DEL a b c", "[\"a\", \"b\", \"c\"]"),
        ("COMMAND GETKEYS PING", "-ERR The command has no key arguments"),
        ("COMMAND GETKEYS CLIENT ID", "-ERR The command has no key arguments"),
        ("COMMAND GETKEYS RL.SLIDE k", "-ERR Invalid number of arguments specified for command"),
        ("COMMAND GETKEYS NOPE", "-ERR Invalid command specified"),
        ("COMMAND LIST FILTERBY PATTERN rl.s*", "[\"rl.slide\"]"),
        ("COMMAND LIST FILTERBY MODULE any", "[]"),
        ("COMMAND LIST FILTERBY ACLCAT nope", "[]"),
        ("COMMAND LIST FILTERBY ACLCAT", "-ERR syntax error"),
        ("COMMAND DOCS nope", "[]"),
    ];
    harness::check(&mut node, &table);
    let limits = node.value("COMMAND LIST FILTERBY ACLCAT ratelimit");
    assert!(limits.elements().iter().all(|name| name.words().starts_with("rl.") || name.words().ends_with("throttle")));
}

#[test]
fn docs_have_the_shapes_that_redis_cli_asserts() {
    for mut node in both_protocols() {
        let docs = node.value("COMMAND DOCS");
        assert_eq!(docs.pairs().len(), node.value("COMMAND").elements().len());
        let is_resp3 = matches!(docs, Value::Map(_));
        docs.pairs().iter().for_each(|(name, row)| check_docs(name, row, is_resp3));
    }
}

fn check_docs(name: &Value, row: &Value, is_resp3: bool) {
    assert!(matches!(name, Value::Bulk(_)), "{name}");
    assert_eq!(matches!(row, Value::Map(_)), is_resp3, "{name}");
    for field in ["summary", "since", "group", "complexity"] {
        assert!(matches!(row.field(field), Some(Value::Bulk(text)) if !text.is_empty()), "{name}: {field}");
    }
    let arguments = row.field("arguments").unwrap_or(Value::Array(Vec::new()));
    arguments.elements().iter().for_each(|argument| check_argument(name, argument, is_resp3));
    if let Some(subcommands) = row.field("subcommands") {
        subcommands.pairs().iter().for_each(|(name, row)| check_docs(name, row, is_resp3));
    }
}

fn check_argument(command: &Value, argument: &Value, is_resp3: bool) {
    assert_eq!(matches!(argument, Value::Map(_)), is_resp3, "{command}");
    let kind = argument.field("type").expect("a type").words();
    let known = ["string", "integer", "key", "pattern", "pure-token", "oneof", "block"];
    assert!(known.contains(&kind.as_str()), "{command}: {kind}");
    assert!(matches!(argument.field("name"), Some(Value::Bulk(_))), "{command}");
    for field in ["display_text", "token"] {
        assert!(argument.field(field).is_none_or(|text| matches!(text, Value::Bulk(_))), "{command}: {field}");
    }
    if let Some(flags) = argument.field("flags") {
        assert!(flags.elements().iter().all(|flag| matches!(flag, Value::Simple(_))), "{command}: {flags}");
        assert_eq!(matches!(flags, Value::Set(_)), is_resp3, "{command}: {flags}");
    }
    let has = |field| argument.field(field).is_some();
    assert!(kind != "pure-token" || has("token") && !has("display_text"), "{command}: {argument}");
    assert_eq!(kind == "oneof" || kind == "block", argument.field("arguments").is_some(), "{command}");
    let inner = argument.field("arguments").unwrap_or(Value::Array(Vec::new()));
    inner.elements().iter().for_each(|inner| check_argument(command, inner, is_resp3));
}

#[test]
fn an_argument_is_called_a_key_where_there_is_one() {
    for command in rows() {
        let is_key = |argument: &Argument| argument.kind == ArgumentKind::Key;
        let has_key = command.arguments.iter().any(|argument| match argument.kind {
            ArgumentKind::Block(parts) => parts.iter().any(is_key),
            _ => is_key(argument),
        });
        assert_eq!(has_key, command.keys != Keys::NONE, "{}: an argument of type key needs a key spec", command.name);
    }
}

#[test]
fn the_page_shows_every_word_that_is_typed() {
    let page = tollgate_engine::docs::commands_page();
    for command in rows().into_iter().filter(|command| !matches!(command.handler, Handler::Container)) {
        let name = format!("    {}", command.name.replace('|', " ").to_ascii_uppercase());
        let is_of_command = |rest: &&str| rest.is_empty() || rest.starts_with(' ');
        let synopsis = page.lines().find_map(|line| line.strip_prefix(&name).filter(is_of_command)).unwrap_or_default();
        for token in tokens(command.arguments) {
            assert!(synopsis.contains(token), "{}: {token} is missing in {synopsis:?}", command.name);
        }
    }
}

fn tokens(arguments: &'static [Argument]) -> Vec<&'static str> {
    let mut found = Vec::new();
    for argument in arguments {
        found.extend(Some(argument.token).filter(|token| !token.is_empty()));
        if let ArgumentKind::OneOf(inner) | ArgumentKind::Block(inner) = argument.kind {
            found.extend(tokens(inner));
        }
    }
    found
}

#[test]
fn a_key_is_bounded_at_every_position() {
    let longest = "k".repeat(KEY_BYTES_MAX);
    let longer = "k".repeat(KEY_BYTES_MAX + 1);
    for mut node in [node(), node_of(4)] {
        for command in rows().into_iter().filter(|command| command.keys != Keys::NONE) {
            let length =
                if command.keys == Keys::FIFTHS { 16 } else { usize::from(command.arity.unsigned_abs()).max(4) };
            let length = if command.arity > 0 { usize::from(command.arity.unsigned_abs()) } else { length };
            for position in command.keys.positions(length) {
                let mut words = words_of(command, length);
                words[position].clone_from(&longer);
                let refused = "-ERR key is longer than 1024 bytes";
                assert_eq!(call(&mut node, &words).to_string(), refused, "{} at {position}", command.name);
                words[position].clone_from(&longest);
                let taken = call(&mut node, &words).to_string();
                assert!(!taken.contains("longer"), "{} at {position}: {taken}", command.name);
            }
        }
    }
}

#[test]
fn names_are_found_in_any_case_and_nothing_else_is() {
    for row in rows().into_iter().filter(|row| !is_subcommand(row)) {
        let name = row.name;
        let mixed: String =
            name.char_indices().map(|(at, c)| if at % 2 == 0 { c.to_ascii_uppercase() } else { c }).collect();
        for spelled in [name.to_owned(), name.to_ascii_uppercase(), mixed] {
            assert_eq!(registry().find_name(spelled.as_bytes()).map(|entry| entry.command.name), Some(name));
        }
        for wrong in
            [format!("{name}\0"), format!("{name}\0\0"), format!("{name} "), format!("\0{name}"), name[1..].to_owned()]
        {
            let found = registry().find_name(wrong.as_bytes()).map(|entry| entry.command.name);
            assert!(found != Some(name), "{wrong:?} is found as {name}");
        }
    }
}

#[test]
fn indexes_number_the_rows() {
    for (index, row) in rows().into_iter().enumerate() {
        let entry = registry().find_full_name(row.name.as_bytes()).expect("a row");
        assert_eq!((entry.index, entry.command.name), (index, row.name));
        let words = words_of(row, 8);
        let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        let (buffer, spans) = harness::packed(&words);
        let found = registry().find(Args::new(&buffer, &spans));
        let is_container_only = matches!(row.handler, Handler::Container);
        let is_it = matches!(found, Found::Row(found) if found.command.name == row.name);
        assert!(is_it || is_container_only || row.name == "command", "{}", row.name);
    }
}
