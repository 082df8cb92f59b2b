//! Log lines to standard error: text for a person, JSON for a machine, and never in the way of serving.
//!
//! Two things go wrong with plain logging in a server. A fault that happens on every request writes a line on every
//! request, and the log is what brings the server down. And standard error may be a pipe whose reader has stopped: the
//! next line then blocks the core that writes it. So each place in the source may log a bounded number of lines a
//! second; and lines go over a bounded queue to a thread of their own, which alone waits for standard error. What is
//! left out either way is counted, and said as soon as there is room.
//!
//! ```text
//!   event -> level -> limit per place and second -> formatted -> queue (bounded) -> thread -> standard error
//!                       └ counted                     full: counted ┘                 └ says what was left out
//! ```

mod limit;
mod queue;

use std::io::{IsTerminal, Write};
use std::sync::Arc;

use tracing::Dispatch;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;

use crate::config::{LogFormat, LogLevel};
use limit::{CallsiteLimit, LimitFilter};
use queue::{LineQueue, LogThread};

/// Lines that one place in the source may write in one second.
pub const LINES_PER_SECOND_MAX: u32 = 20;

/// The shape of lines, decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineStyle {
    /// Text, with colours for a terminal.
    Text {
        /// Colours are written.
        colours: bool,
    },
    /// One JSON object a line.
    Json,
}

impl LineStyle {
    /// What `format` means for a standard error that is a terminal or is not.
    pub fn decide(format: LogFormat, is_terminal: bool) -> LineStyle {
        match format {
            LogFormat::Text => LineStyle::Text { colours: is_terminal },
            LogFormat::Auto if is_terminal => LineStyle::Text { colours: true },
            LogFormat::Auto | LogFormat::Json => LineStyle::Json,
        }
    }

    /// The shape of lines on this process's standard error.
    pub fn on_standard_error(format: LogFormat) -> LineStyle {
        LineStyle::decide(format, std::io::stderr().is_terminal())
    }
}

/// The running log. Dropping it writes what is queued, within a second: keep it until the process ends.
#[derive(Debug)]
pub struct Logging {
    _thread: LogThread,
}

/// Sends the events of this process to standard error.
///
/// # Errors
///
/// There can be no further thread, or the process logs somewhere already.
pub fn start(level: LogLevel, format: LogFormat) -> std::io::Result<Logging> {
    let (dispatch, thread) = assemble(level, LineStyle::on_standard_error(format), Box::new(std::io::stderr()))?;
    tracing::dispatcher::set_global_default(dispatch).map_err(std::io::Error::other)?;
    Ok(Logging { _thread: thread })
}

/// Everything but the global default: a dispatch for events, and the thread that writes their lines to `sink`.
fn assemble(level: LogLevel, style: LineStyle, sink: Box<dyn Write + Send>) -> std::io::Result<(Dispatch, LogThread)> {
    let limit = Arc::new(CallsiteLimit::new(LINES_PER_SECOND_MAX));
    let (queue, lines) = LineQueue::new();
    let filter = LimitFilter::new(limit.clone(), queue.clone());
    let formatted = tracing_subscriber::fmt::layer().with_writer(queue.clone());
    let layer = match style {
        LineStyle::Text { colours } => formatted.with_ansi(colours).with_filter(filter).boxed(),
        LineStyle::Json => formatted.json().flatten_event(true).with_filter(filter).boxed(),
    };
    let dispatch = Dispatch::new(tracing_subscriber::registry().with(layer).with(targets(level)));
    let thread = LogThread::start(queue, lines, limit, dispatch.clone(), sink)?;
    Ok((dispatch, thread))
}

/// Events of this weight. The library that a cluster agrees by says much that means nothing to an operator: what
/// matters of it the cluster says in its own words.
fn targets(level: LogLevel) -> Targets {
    let of_library = match level {
        LogLevel::Debug | LogLevel::Trace => level_filter(level),
        LogLevel::Off | LogLevel::Error | LogLevel::Warn | LogLevel::Info => LevelFilter::OFF,
    };
    Targets::new().with_default(level_filter(level)).with_target("openraft", of_library)
}

fn level_filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

#[cfg(test)]
mod tests;
