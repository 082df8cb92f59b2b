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
//!                        -> verify (every reply against the limit), process (CPU, memory) -> report
//!                           scrape, repair: what a server that goes said last, and calls that go on at another
//!              compare: plans of several servers, round after round         live -> progress, intervals
//! ```

mod arguments;
mod compare;
mod connection;
mod crew;
mod dialog;
mod drive;
mod error;
mod errors;
mod format;
mod growth;
mod interrupt;
mod intervals;
mod keys;
mod latency;
mod live;
mod open;
mod output;
mod patience;
mod plan;
mod process;
mod progress;
mod punctual;
mod random;
mod repair;
mod report;
mod ring;
mod run;
mod scan;
mod schedule;
mod scrape;
mod sequence;
mod target;
mod template;
mod verify;
mod workload;
mod zipf;

pub use arguments::Arguments;

use compare::Comparison;
use error::BenchError;
use live::Live;
use output::OutputArguments;
use plan::Plan;
use progress::Watcher;
use report::{Machine, Report};
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// Runs the benchmark and prints its report on stdout, and what went wrong on stderr.
///
/// The exit code is 0 if every call was answered as it should be, 1 if the server could not be used or some
/// replies were errors or of an unexpected shape, and 2 if the arguments do not fit together. After Ctrl-C or SIGTERM
/// the report of what was measured until then is made, and the code is 130 or 143.
pub fn run(arguments: Arguments) -> ExitCode {
    let outcome = interrupt::watch().and_then(|()| measure_and_report(arguments));
    let code = match outcome {
        Ok(true) => 0,
        Ok(false) => 1,
        Err(error) => {
            // Where standard error is closed, the exit code has to say it alone.
            let _ = writeln!(std::io::stderr(), "tollgate bench: {error}");
            if matches!(error, BenchError::Arguments(_)) { 2 } else { 1 }
        }
    };
    ExitCode::from(interrupt::signal().map_or(code, interrupt::exit_code))
}

/// Whether every call was answered as it should be.
fn measure_and_report(arguments: Arguments) -> Result<bool, BenchError> {
    if !arguments.output.compare.is_empty() {
        return compare_and_report(&arguments);
    }
    let plan = Plan::check(arguments)?;
    plan.output.check()?;
    let report = measure(&plan)?;
    let json = report.to_json().map_err(|error| BenchError::System { what: "no JSON", source: error.into() })?;
    let text = if plan.json { format!("{json}\n") } else { report.to_table() };
    publish(&plan.output, &text, &json, || report.to_html())?;
    Ok(report.is_clean())
}

fn measure(plan: &Plan) -> Result<Report, BenchError> {
    let machine = Machine::look();
    let mut plan = plan.clone();
    let sighting = process::sight(plan.pid, &plan.target);
    if let Some(pid) = plan.pid {
        process::Process::open(pid)?;
    }
    plan.pid = sighting.pid();
    let (mut report, live) = watched(&plan.output, plan.output.is_full(), |live| run::run(&plan, live))?;
    report.tell_server(&sighting);
    if plan.output.is_full() {
        let intervals = live.map(|live| live.take_intervals()).unwrap_or_default();
        report.complete(report::command_line(std::env::args()), machine, intervals);
    }
    Ok(report)
}

fn compare_and_report(arguments: &Arguments) -> Result<bool, BenchError> {
    let output = &arguments.output;
    let machine = Machine::look();
    let mut comparison = Comparison::check(arguments)?;
    output.check()?;
    let stopped = watched(output, false, |live| comparison.run(live)).err();
    if let Some(error) = stopped {
        if comparison.has_rounds() {
            publish_comparison(&mut comparison, arguments, machine)?;
        }
        return match error {
            BenchError::Interrupted if comparison.has_rounds() => Ok(comparison.is_clean()),
            other => Err(other),
        };
    }
    publish_comparison(&mut comparison, arguments, machine)?;
    Ok(comparison.is_clean())
}

fn publish_comparison(comparison: &mut Comparison, arguments: &Arguments, machine: Machine) -> Result<(), BenchError> {
    let output = &arguments.output;
    comparison.full = output.is_full().then(|| (report::command_line(std::env::args()), machine));
    let json = comparison.to_json().to_string();
    let text = if arguments.json { format!("{json}\n") } else { comparison.to_table() };
    publish(output, &text, &json, || comparison.to_html())
}

/// Runs `work` with somebody looking, if progress is shown or what they see is wanted afterwards.
fn watched<Done>(
    output: &OutputArguments,
    is_wanted: bool,
    work: impl FnOnce(Option<&Live>) -> Result<Done, BenchError>,
) -> Result<(Done, Option<Arc<Live>>), BenchError> {
    if !is_wanted && !output.progress.shows() {
        return Ok((work(None)?, None));
    }
    let live = Arc::new(Live::new()?);
    let watcher = output.progress.shows().then(|| Watcher::start(live.clone()));
    let done = work(Some(&live));
    // Errors are told on a clean line.
    drop(watcher);
    Ok((done?, Some(live)))
}

/// Prints the text and writes the files that were asked for.
fn publish(output: &OutputArguments, text: &str, json: &str, html: impl FnOnce() -> String) -> Result<(), BenchError> {
    let printed = print(text);
    if let Some(path) = &output.json_file {
        write_file(path, &format!("{json}\n"))?;
    }
    if let Some(path) = &output.html {
        write_file(path, &html())?;
    }
    printed
}

fn print(text: &str) -> Result<(), BenchError> {
    let mut output = std::io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        // A reader that has gone away, such as `head`, wants no more of it.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(BenchError::System { what: "cannot write the report to standard output", source: error })
        }
        _ => Ok(()),
    }
}

fn write_file(path: &Path, text: &str) -> Result<(), BenchError> {
    std::fs::write(path, text).map_err(|source| BenchError::Unwritable { path: path.to_owned(), source })
}
