//! The load generator alone, for driving a server of another build.

use clap::Parser;
use std::process::ExitCode;

/// Drives any RESP server and reports what a call costs it.
#[derive(Parser)]
struct Command {
    #[command(flatten)]
    arguments: tollgate_bench::Arguments,
}

fn main() -> ExitCode {
    tollgate_bench::run(Command::parse().arguments)
}
