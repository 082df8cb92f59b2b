//! The load generator behind `tollgate bench`.
//!
//! A limiter's server is so fast that most load generators measure themselves: they render requests and decode
//! replies while the clock runs, and the server waits for them. Here every request is rendered before the clock
//! starts, a batch leaves as one slice of a large buffer, and replies are counted without being decoded, all on one
//! thread that can be pinned to a CPU. The figure that leads is the server's CPU time per call, read from /proc:
//! unlike calls per second it hardly moves when the machine is shared.
//!
//! ```text
//! arguments -> plan -> dialog (connect, AUTH, SCRIPT LOAD) -> template + keys -> ring (rendered calls)
//!                        -> drive (closed loop over connection + scan) -> process (/proc) -> report
//! ```

mod arguments;
mod connection;
mod dialog;
mod drive;
mod error;
mod keys;
mod plan;
mod process;
mod report;
mod ring;
mod run;
mod scan;
mod target;
mod template;

pub use arguments::Arguments;

use error::BenchError;
use plan::Plan;
use report::Report;
use std::process::ExitCode;

/// Runs the benchmark and prints its report on stdout, and what went wrong on stderr.
///
/// The exit code is 0 if every call was answered as it should be, 1 if the server could not be used or some
/// replies were errors or of an unexpected shape, and 2 if the arguments do not fit together.
pub fn run(arguments: Arguments) -> ExitCode {
    let (plan, report) = match measure(arguments) {
        Ok(done) => done,
        Err(error) => {
            eprintln!("tollgate bench: {error}");
            let is_usage = matches!(error, BenchError::Arguments(_));
            return ExitCode::from(if is_usage { 2 } else { 1 });
        }
    };
    if plan.json {
        match report.to_json() {
            Ok(line) => println!("{line}"),
            Err(error) => {
                eprintln!("tollgate bench: the report cannot be written: {error}");
                return ExitCode::FAILURE;
            }
        }
    } else {
        print!("{}", report.to_table());
    }
    if report.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn measure(arguments: Arguments) -> Result<(Plan, Report), BenchError> {
    let mut plan = Plan::check(arguments)?;
    let sighting = process::sight(plan.pid, &plan.target);
    plan.pid = sighting.pid();
    let mut report = run::run(&plan)?;
    report.tell_server(&sighting);
    Ok((plan, report))
}
