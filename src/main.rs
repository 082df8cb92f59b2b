//! The `tollgate` binary: arguments become a checked configuration, and that becomes a running server.
//!
//! Nothing is decided here but what to start and how the process ends. Exit codes: 0 it did what was asked and ended in
//! order; 1 it could not start (or `--check-config` found mistakes); 2 the arguments or settings are wrong.

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tollgate_server::config::{ConfigErrors, Loaded, ServeArguments};
use tollgate_server::{StartError, affinity, logging};

const ABOUT: &str = "Tollgate: a rate-limit server that speaks RESP";

const LONG_ABOUT: &str = "\
Tollgate: a rate-limit server that speaks RESP.

It counts for API gateways: \"may this caller go on?\" is one native command on the core that owns the key, and any \
Redis client can send it. Without a subcommand it serves.";

const EXAMPLES: &str = "\
Try it:
  tollgate                                            serve on 127.0.0.1:6379, on every CPU
  redis-cli RL.SLIDE 'rl:{ak_42}:orders' 100 1        100 a second: allowed, limit, remaining, retry, reset
  tollgate --port 7000 --cores 2 --maxmemory 1gb      the same as `tollgate serve …`
  tollgate serve --config tollgate.toml --check-config

Every setting can stand in a TOML file (port = 7000), in the environment (TOLLGATE_PORT=7000) or be a flag \
(--port 7000). A flag wins over the environment, and that over the file.";

#[derive(Debug, Parser)]
#[command(name = "tollgate", version, about = ABOUT, long_about = LONG_ABOUT, after_help = EXAMPLES)]
#[command(args_conflicts_with_subcommands = true)]
struct CommandLine {
    #[command(flatten)]
    serve: ServeArguments,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Serve clients (what happens without a subcommand too)
    #[command(long_about = "Serve clients until SIGTERM, SIGINT or SHUTDOWN. This is what happens without a \
                            subcommand too.", after_help = EXAMPLES)]
    Serve(ServeArguments),
    /// Measure a server: calls a second, latency, and its CPU time for each call
    #[command(version)]
    Bench(Box<tollgate_bench::Arguments>),
}

/// Why the process ends without having done what was asked.
#[derive(Debug)]
enum Failure {
    /// The arguments, the environment or the file are wrong.
    Settings(ConfigErrors),
    /// They were to be checked, and are wrong.
    Checked(ConfigErrors),
    /// There is no log to write to.
    Logging(std::io::Error),
    /// The server could not start, or not go on.
    Start(StartError),
}

fn main() -> ExitCode {
    let command_line = CommandLine::parse();
    let outcome = match command_line.action {
        Some(Action::Bench(arguments)) => return tollgate_bench::run(*arguments),
        Some(Action::Serve(arguments)) => serve(&arguments),
        None => serve(&command_line.serve),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => end(&failure),
    }
}

fn serve(arguments: &ServeArguments) -> Result<(), Failure> {
    let loaded = arguments.load(std::env::vars_os(), &affinity::inherited_cpus());
    if arguments.check_config {
        return print_checked(&loaded.map_err(Failure::Checked)?);
    }
    let Loaded { config, notices } = loaded.map_err(Failure::Settings)?;
    // Kept to the end of this function, so that everything that was logged is written.
    let _logging = logging::start(config.log_level, config.log_format).map_err(Failure::Logging)?;
    for notice in notices {
        tracing::warn!("{notice}");
    }
    tollgate_server::run(config).map_err(Failure::Start)
}

fn print_checked(loaded: &Loaded) -> Result<(), Failure> {
    // Notices are comments, so that the whole output is a file that can be used. A reader that has gone away, such as
    // `head`, wants no more of it.
    let mut output = std::io::stdout().lock();
    for notice in &loaded.notices {
        let _ = writeln!(output, "# note: {notice}");
    }
    let _ = output.write_all(loaded.config.to_toml().as_bytes());
    Ok(())
}

/// The one place where errors become words on standard error and an exit code.
fn end(failure: &Failure) -> ExitCode {
    let (code, text) = match failure {
        Failure::Settings(errors) => (2, errors.to_string()),
        Failure::Checked(errors) => (1, errors.to_string()),
        Failure::Logging(error) => (1, format!("cannot start the log: {error}")),
        Failure::Start(error) => (1, error.to_string()),
    };
    let mut output = std::io::stderr().lock();
    for line in text.lines() {
        // Where standard error is closed, the exit code has to say it alone.
        let _ = writeln!(output, "tollgate: {line}");
    }
    ExitCode::from(code)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn serving_needs_no_subcommand_and_takes_the_same_flags() {
        let bare = CommandLine::try_parse_from(["tollgate", "--port", "7", "--test-clock"]).unwrap();
        let named = CommandLine::try_parse_from(["tollgate", "serve", "--port", "7", "--test-clock"]).unwrap();
        assert!(bare.action.is_none());
        assert!(matches!(named.action, Some(Action::Serve(arguments)) if arguments == bare.serve));
    }

    #[test]
    fn flags_do_not_stand_before_a_subcommand() {
        assert!(CommandLine::try_parse_from(["tollgate", "--port", "7", "bench"]).is_err());
        assert!(matches!(CommandLine::try_parse_from(["tollgate", "bench"]).unwrap().action, Some(Action::Bench(_))));
    }
}
