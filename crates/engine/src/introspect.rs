//! COMMAND and its subcommands, and RL.HELP: the table, read aloud.

use crate::call::Call;
use crate::command::{Argument, ArgumentKind, Command, Flags, Handler, Keys};
use crate::core::Core;
use crate::glob::Glob;
use crate::registry::{Entry, registry};
use crate::session::Session;
use tollgate_resp::Reply;

/// COMMAND.
pub fn command(_core: &mut Core, _session: &mut Session, _call: &Call<'_>, reply: &mut Reply<'_>) {
    write_all(reply);
}

fn write_all(reply: &mut Reply<'_>) {
    let entries: Vec<_> = registry().top_level().collect();
    reply.array(entries.len());
    entries.iter().for_each(|entry| write_row(entry.command, reply));
}

/// COMMAND COUNT.
pub fn command_count(_core: &mut Core, _session: &mut Session, _call: &Call<'_>, reply: &mut Reply<'_>) {
    reply.integer(i64::try_from(registry().top_level().count()).unwrap_or(i64::MAX));
}

/// COMMAND INFO [name ...].
pub fn command_info(_core: &mut Core, _session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    if call.args.len() == 2 {
        return write_all(reply);
    }
    reply.array(call.args.len() - 2);
    for name in call.args.iter().skip(2) {
        match registry().find_full_name(name) {
            Some(entry) => write_row(entry.command, reply),
            None => reply.null(),
        }
    }
}

/// COMMAND DOCS [name ...].
pub fn command_docs(_core: &mut Core, _session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    let entries: Vec<&Entry> = match call.args.len() {
        2 => registry().top_level().collect(),
        _ => call.args.iter().skip(2).filter_map(|name| registry().find_full_name(name)).collect(),
    };
    reply.map(entries.len());
    for entry in entries {
        write_docs(entry.command, reply);
    }
}

/// COMMAND LIST [FILTERBY MODULE name | ACLCAT category | PATTERN pattern].
pub fn command_list(_core: &mut Core, _session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    let value = call.argument(4);
    let filter: Box<dyn Fn(&Command) -> bool> = match call.args.len() {
        2 => Box::new(|_| true),
        5 if call.is_word(2, "FILTERBY") && call.is_word(3, "MODULE") => Box::new(|_| false),
        5 if call.is_word(2, "FILTERBY") && call.is_word(3, "ACLCAT") => {
            let wanted = value.to_ascii_lowercase();
            let fits = move |name: &&str| name.strip_prefix('@').is_some_and(|bare| bare.as_bytes() == wanted);
            Box::new(move |command| command.categories.iter().any(&fits))
        }
        5 if call.is_word(2, "FILTERBY") && call.is_word(3, "PATTERN") => match Glob::new(value) {
            Some(glob) => Box::new(move |command| glob.is_match(command.name.as_bytes())),
            None => return reply.error("ERR pattern is too long"),
        },
        _ => return reply.error("ERR syntax error"),
    };
    let names: Vec<_> = registry().top_level().map(|entry| entry.command).filter(|command| filter(command)).collect();
    reply.array(names.len());
    names.iter().for_each(|command| reply.bulk_str(command.name));
}

/// COMMAND GETKEYS command [argument ...].
pub fn command_getkeys(_core: &mut Core, _session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    let args = call.args.tail(2);
    let crate::registry::Found::Row(entry) = registry().find(args) else {
        return reply.error("ERR Invalid command specified");
    };
    if !entry.accepts(args.len()) {
        return reply.error("ERR Invalid number of arguments specified for command");
    }
    let keys: Vec<_> = entry.command.keys.positions(args.len()).filter_map(|position| args.get(position)).collect();
    if keys.is_empty() {
        return reply.error("ERR The command has no key arguments");
    }
    reply.array(keys.len());
    keys.iter().for_each(|key| reply.bulk(key));
}

/// HELP of a container: its subcommands, a line each.
pub fn container_help(_core: &mut Core, _session: &mut Session, call: &Call<'_>, reply: &mut Reply<'_>) {
    let container = registry().find_name(call.argument(0)).map(|entry| entry.command);
    let subcommands = container.map(|command| command.subcommands).unwrap_or_default();
    reply.array(subcommands.len() * 2);
    for subcommand in subcommands {
        reply.simple(&synopsis(subcommand));
        reply.simple(&format!("    {}", subcommand.summary));
    }
}

/// What RL.HELP says below the commands.
const HELP_NOTES: [&str; 8] = [
    "RL.SLIDE, RL.TOKEN, RL.FIXED, RL.LOG, RL.LEAK answer: allowed, limit, remaining, retry_after_ms (0 if allowed, \
     -1: never), reset_after_ms. RL.LEAK, allowed: retry_after_ms is how long to hold the request.",
    "RL.ALL answers: allowed, index of the limit that decides, then five integers for each group.",
    "CL.THROTTLE answers: limited (1 or 0), limit, remaining, retry_after_s (-1 if not limited), reset_after_s.",
    "THROTTLE answers: allowed (1 or 0), limit, remaining, reset_after_s, retry_after_s (0 if allowed, -1: never).",
    "COST n: units, 1 if not given. PEEK: answer, change nothing. PARTIAL: take as much of the cost as there is. \
     REFUND: give the cost back.",
    "Limits, capacities, costs: whole, 0 to 10^12.",
    "Windows: seconds, or with a unit us ms s m (minute) h d w: 60, 1.5, 500ms, 1m. From 1 ms to 3650 d.",
    "Rates: tokens a second, or count/duration: 10, 0.5, 100/1m. From 1 a year to 10^9 a second.",
];

/// RL.HELP.
pub fn rl_help(_core: &mut Core, _session: &mut Session, _call: &Call<'_>, reply: &mut Reply<'_>) {
    let mut lines = Vec::new();
    for command in registry().top_level().map(|entry| entry.command).filter(|command| command.group == "limits") {
        lines.push(synopsis(command));
        lines.push(format!("    {}", command.summary));
    }
    lines.extend(HELP_NOTES.map(str::to_owned));
    reply.array(lines.len());
    lines.iter().for_each(|line| reply.simple(line));
}

/// A row of COMMAND: ten elements, always.
fn write_row(command: &Command, reply: &mut Reply<'_>) {
    reply.array(10);
    reply.bulk_str(command.name);
    reply.integer(i64::from(command.arity));
    let flags: Vec<_> = command.flags.names().collect();
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.simple(flag));
    for position in [command.keys.first, command.keys.last, command.keys.step] {
        reply.integer(i64::from(position));
    }
    reply.set(command.categories.len());
    command.categories.iter().for_each(|category| reply.simple(category));
    // No tips: a request policy would make cluster clients split calls that are not to be split.
    reply.set(0);
    write_key_spec(command, reply);
    // As Redis does, an empty list of them is a set and any other an array.
    match command.subcommands.len() {
        0 => reply.set(0),
        count => reply.array(count),
    }
    command.subcommands.iter().for_each(|subcommand| write_row(subcommand, reply));
}

fn write_key_spec(command: &Command, reply: &mut Reply<'_>) {
    if command.keys == Keys::NONE {
        return reply.set(0);
    }
    reply.set(1);
    reply.map(3);
    reply.bulk_str("flags");
    let flags: &[&str] =
        if command.flags.has(Flags::READONLY) { &["RO", "access"] } else { &["RW", "access", "update"] };
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.simple(flag));
    reply.bulk_str("begin_search");
    write_search("index", &[("index", i64::from(command.keys.first))], reply);
    reply.bulk_str("find_keys");
    let last = i64::from(command.keys.last);
    // A last key counted from the front is stated from the first key on.
    let last = if last >= 0 { last - i64::from(command.keys.first) } else { last };
    write_search("range", &[("lastkey", last), ("keystep", i64::from(command.keys.step)), ("limit", 0)], reply);
}

fn write_search(kind: &str, spec: &[(&str, i64)], reply: &mut Reply<'_>) {
    reply.map(2);
    reply.bulk_str("type");
    reply.bulk_str(kind);
    reply.bulk_str("spec");
    reply.map(spec.len());
    for (name, value) in spec {
        reply.bulk_str(name);
        reply.integer(*value);
    }
}

fn write_docs(command: &Command, reply: &mut Reply<'_>) {
    reply.bulk_str(command.name);
    let fields = 4 + usize::from(!command.arguments.is_empty()) + usize::from(!command.subcommands.is_empty());
    reply.map(fields);
    let texts = [
        ("summary", command.summary),
        ("since", command.since),
        ("group", if command.group == "limits" { "module" } else { command.group }),
        ("complexity", command.complexity),
    ];
    for (field, text) in texts {
        reply.bulk_str(field);
        reply.bulk_str(text);
    }
    if !command.arguments.is_empty() {
        reply.bulk_str("arguments");
        reply.array(command.arguments.len());
        command.arguments.iter().for_each(|argument| write_argument(argument, reply));
    }
    if !command.subcommands.is_empty() {
        reply.bulk_str("subcommands");
        reply.map(command.subcommands.len());
        command.subcommands.iter().for_each(|subcommand| write_docs(subcommand, reply));
    }
}

fn write_argument(argument: &Argument, reply: &mut Reply<'_>) {
    let flags: Vec<&str> = [(argument.optional, "optional"), (argument.multiple, "multiple")]
        .into_iter()
        .filter_map(|(is_set, name)| is_set.then_some(name))
        .collect();
    let (kind, inner): (&str, &[Argument]) = match argument.kind {
        ArgumentKind::Key => ("key", &[]),
        ArgumentKind::Text => ("string", &[]),
        ArgumentKind::Integer => ("integer", &[]),
        ArgumentKind::Pattern => ("pattern", &[]),
        ArgumentKind::Token => ("pure-token", &[]),
        ArgumentKind::OneOf(inner) => ("oneof", inner),
        ArgumentKind::Block(inner) => ("block", inner),
    };
    let is_key = argument.kind == ArgumentKind::Key;
    let has_text = inner.is_empty() && argument.kind != ArgumentKind::Token;
    let fields = 2
        + usize::from(has_text)
        + usize::from(is_key)
        + usize::from(!argument.token.is_empty())
        + usize::from(!flags.is_empty())
        + usize::from(!inner.is_empty());
    reply.map(fields);
    write_text("name", argument.name, reply);
    write_text("type", kind, reply);
    if has_text {
        write_text("display_text", argument.name, reply);
    }
    if is_key {
        reply.bulk_str("key_spec_index");
        reply.integer(0);
    }
    if !argument.token.is_empty() {
        write_text("token", argument.token, reply);
    }
    if !flags.is_empty() {
        reply.bulk_str("flags");
        reply.set(flags.len());
        flags.iter().for_each(|flag| reply.simple(flag));
    }
    if !inner.is_empty() {
        reply.bulk_str("arguments");
        reply.array(inner.len());
        inner.iter().for_each(|argument| write_argument(argument, reply));
    }
}

fn write_text(name: &str, value: &str, reply: &mut Reply<'_>) {
    reply.bulk_str(name);
    reply.bulk_str(value);
}

/// The command as one writes it: `RL.SLIDE key limit window [COST n] [PEEK | PARTIAL | REFUND]`.
pub fn synopsis(command: &Command) -> String {
    let mut words = vec![command.name.replace('|', " ").to_ascii_uppercase()];
    words.extend(command.arguments.iter().map(argument_words));
    if matches!(command.handler, Handler::Container) {
        words.push("subcommand ...".to_owned());
    }
    words.join(" ")
}

fn with_token(argument: &Argument, words: String) -> String {
    if argument.token.is_empty() { words } else { format!("{} {words}", argument.token) }
}

fn argument_words(argument: &Argument) -> String {
    let inner = match argument.kind {
        ArgumentKind::Token => argument.token.to_owned(),
        ArgumentKind::OneOf(choices) => {
            let choices = choices.iter().map(argument_words).collect::<Vec<_>>().join(" | ");
            // An optional argument has brackets around it anyway.
            with_token(
                argument,
                if argument.optional && argument.token.is_empty() { choices } else { format!("<{choices}>") },
            )
        }
        ArgumentKind::Block(parts) => {
            with_token(argument, parts.iter().map(argument_words).collect::<Vec<_>>().join(" "))
        }
        _ if argument.token.is_empty() => argument.name.to_owned(),
        _ => format!("{} {}", argument.token, argument.name),
    };
    let repeated = if argument.multiple { format!("{inner} [{inner} ...]") } else { inner };
    if argument.optional { format!("[{repeated}]") } else { repeated }
}
