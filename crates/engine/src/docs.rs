//! docs/commands.md, made from the command table. A test compares the file with what this writes.

use crate::command::{Command, Flags};
use crate::introspect::synopsis;
use crate::registry::rows;
use std::fmt::Write;

/// What stands above the table: the meaning of the limits, for people.
const PREFACE: &str = include_str!("../docs/commands-preface.md");
/// Groups in the order of the page, with their headings.
const GROUPS: [(&str, &str); 7] = [
    ("limits", "Limits"),
    ("string", "Values"),
    ("generic", "Keys"),
    ("transactions", "Transactions"),
    ("connection", "Connection"),
    ("server", "Server"),
    ("cluster", "Cluster"),
];

/// The whole page.
pub fn commands_page() -> String {
    let mut page = PREFACE.to_owned();
    for (group, heading) in GROUPS {
        let _ = write!(page, "\n## {heading}\n");
        for command in rows().into_iter().filter(|command| command.group == group) {
            write_command(&mut page, command);
        }
    }
    page
}

fn write_command(page: &mut String, command: &Command) {
    if !command.subcommands.is_empty() && command.name != "command" {
        return;
    }
    let _ = write!(page, "\n### {}\n\n", command.name.replace('|', " ").to_ascii_uppercase());
    let _ = write!(page, "    {}\n\n{}\n\n", synopsis(command), command.summary);
    let flags: Vec<_> = command.flags.names().collect();
    let flags = if flags.is_empty() { "none".to_owned() } else { flags.join(" ") };
    let _ = writeln!(
        page,
        "Runs on: {}. Cost: {}. Flags: {flags}. Categories: {}. Since: {}.{}",
        command.route.word(),
        command.complexity,
        command.categories.join(" "),
        command.since,
        if command.flags.has(Flags::NO_AUTH) { " Allowed before AUTH." } else { "" },
    );
}
