//! The load generator behind `tollgate bench`.
//!
//! A limiter's server is so fast that most load generators measure themselves: they render requests and decode
//! replies while the clock runs, and the server waits for them. Here every request is rendered before the clock
//! starts, a batch leaves as one slice of a large buffer, and replies are counted without being decoded, on one thread
//! or several that can be pinned to CPUs. The figure that leads is the server's CPU time per call, read from /proc:
//! unlike calls per second it hardly moves when the machine is shared.
//!
//! ```text
//! arguments -> plan -> dialog (connect, AUTH) -> workload (which words the server knows, SCRIPT LOAD)
//!                        -> sequence (which key, uniform or zipf) + template -> ring (rendered calls)
//!                        -> crew (threads) of drive (closed loop) or open (schedule), over connection + scan
//!                        -> verify (every reply against the limit), process (/proc) -> report
//! ```

mod arguments;
mod connection;
mod crew;
mod dialog;
mod drive;
mod error;
mod keys;
mod latency;
mod live;
mod open;
mod plan;
mod process;
mod punctual;
mod random;
mod repair;
mod report;
mod ring;
mod run;
mod scan;
mod schedule;
mod sequence;
mod target;
mod template;
mod verify;
mod workload;
mod zipf;

pub use arguments::Arguments;

use std::process::ExitCode;

/// Runs the benchmark and prints its report on stdout, and what went wrong on stderr.
///
/// The exit code is 0 if every call was answered as it should be, 1 if the server could not be used or some
/// replies were errors or of an unexpected shape, and 2 if the arguments do not fit together.
pub fn run(arguments: Arguments) -> ExitCode {
    let outcome = plan::Plan::check(arguments).and_then(|plan| run::run(&plan, None).map(|report| (plan, report)));
    let (plan, report) = match outcome {
        Ok(done) => done,
        Err(error) => {
            eprintln!("tollgate bench: {error}");
            let is_usage = matches!(error, error::BenchError::Arguments(_));
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
