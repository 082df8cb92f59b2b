//! Why a benchmark could not start or had to stop, in words that say what to do.

use std::io;
use std::path::PathBuf;

/// A failure that ends the run. Error replies to single calls are none: they are counted in the report.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    /// The flags do not fit together, or a value is out of range.
    #[error("{0}")]
    Arguments(String),
    /// Nothing listens at the target.
    #[error("no server answers at {target}: {source}")]
    Unreachable { target: String, source: io::Error },
    /// The server wants a password, or refused the one that was given.
    #[error("{target} refused to authenticate: {reply} (give a password with --target redis://:password@host:port)")]
    Authentication { target: String, reply: String },
    /// The server answered a command of the preparation with something else than was asked for.
    #[error("{command} was answered by: {reply}")]
    Preparation { command: String, reply: String },
    /// The server has no way to do what the workload needs.
    #[error("{target} cannot do the workload {workload}: as a server of the dialect {dialect} it has {has}")]
    NotOffered { workload: &'static str, target: String, dialect: &'static str, has: &'static str },
    /// No limit can be held against a clock that does not run.
    #[error(
        "the server's clock stands still, or does not run as this one's (is it a server with --test-clock?): \
         --verify needs one that runs"
    )]
    ClockStill,
    /// Checking every reply needs memory for every call.
    #[error(
        "--verify keeps 32 bytes for every limit of every call, and {most} are the most it keeps: \
         use --requests, or a shorter --duration and --warmup"
    )]
    TooManyToVerify { most: usize },
    /// Calls before the clock starts failed, which would make every figure meaningless.
    #[error("{errors} calls of {stage} failed, the first with: {reply}")]
    Warming { stage: &'static str, errors: u64, reply: String },
    /// A connection ended before its replies had come.
    #[error("the server closed a connection{}", said_before(.said))]
    Closed { said: Option<String> },
    /// Calls are on the way, and no reply has come for a long time.
    #[error("no reply for {seconds} s while {} {}", counted(*.waiting, "connection"), waits(*.waiting))]
    Stalled { seconds: u64, waiting: usize },
    /// A signal came before anything was measured.
    #[error("interrupted before anything was measured")]
    Interrupted,
    /// A server whose process was seen is no longer there.
    #[error("the server at this address has ended: process {pid} {name} is gone")]
    Ended { pid: u32, name: String },
    /// The bytes that came are no replies, or more replies came than calls were sent.
    #[error("the server broke the protocol: {0}")]
    Protocol(String),
    /// A file could not be read.
    #[error("cannot read {}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    /// One of the compared servers could not be measured.
    #[error("the comparison stopped at {target}, {stage}: {source}")]
    Compared { target: String, stage: String, source: Box<BenchError> },
    /// A report could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Unwritable { path: PathBuf, source: io::Error },
    /// The operating system refused something that the client needs.
    #[error("{what}: {source}")]
    System { what: &'static str, source: io::Error },
}

impl BenchError {
    /// Wraps an I/O error with what was being done.
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> BenchError {
        move |source| BenchError::System { what, source }
    }
}

/// A number of things in words: `1 connection`, `4 connections`.
fn counted(count: usize, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

fn waits(count: usize) -> &'static str {
    if count == 1 { "waits" } else { "wait" }
}

/// The last error text is what explains a closed connection best.
fn said_before(said: &Option<String>) -> String {
    said.as_ref().map(|text| format!(" after saying: {text}")).unwrap_or_default()
}
