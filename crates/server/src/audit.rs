//! What operators did to the server while it ran, in the log: who changed settings, ended or held clients, deleted all.
//!
//! The problem: when callers were all let through at 3 a.m., somebody asks whether limits were flushed, and by whom.
//! The idea: the few commands that change the server for everybody are logged after they succeeded, as MONITOR would
//! show them: without passwords, and short.

use crate::run::{is_memory_small, warn_of_small_memory};
use crate::worker::Worker;
use tollgate_engine::command::Command;
use tollgate_engine::redact::{REDACTED, secrets};
use tollgate_engine::session::Client;
use tollgate_resp::{Args, printable};

/// The commands, as their rows name them. SHUTDOWN is not among them: the end of the server is logged where it happens.
const LOGGED: [&str; 7] =
    ["config|set", "config|rewrite", "client|kill", "client|pause", "client|unpause", "flushall", "flushdb"];
/// The most arguments that a line shows.
const ARGUMENTS_MAX: usize = 16;

/// Logs a command that was answered with `reply`, if it is one of those and did what it was asked for.
pub fn note(worker: &Worker, command: &Command, args: Args<'_>, reply: &[u8], client: &Client) {
    if !LOGGED.contains(&command.name) || reply.first() == Some(&b'-') {
        return;
    }
    let (address, name) = (&client.address, client.name.borrow());
    tracing::info!(client = %address, name = %*name, "ran {}", shown(command, args));
    if command.name == "config|set" && args.iter().any(|word| word.eq_ignore_ascii_case(b"maxmemory")) {
        let (bytes, cores) = (worker.hub.settings.tunables.memory_max_bytes(), worker.hub.mesh.cores());
        if is_memory_small(bytes, cores) {
            warn_of_small_memory();
        }
    }
}

fn shown(command: &Command, args: Args<'_>) -> String {
    let is_secret = secrets(command, args);
    let word = |(at, argument): (usize, &[u8])| if is_secret(at) { REDACTED.to_owned() } else { printable(argument) };
    let mut words: Vec<String> = args.iter().enumerate().take(ARGUMENTS_MAX).map(word).collect();
    if args.len() > ARGUMENTS_MAX {
        words.push("...".to_owned());
    }
    words.join(" ")
}
