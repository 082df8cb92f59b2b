//! What a person sees while a run goes on: the stage, the rate and the latencies of the last moment, and how long it
//! will take.
//!
//! A thread of its own looks at the counts four times a second. It sleeps in between, is not pinned with the client,
//! and the driver threads do no more for it than hand over their counts. On a terminal it draws a bar that is gone at
//! the end; elsewhere, if it was asked for, it writes a line a second.

use crate::format;
use crate::live::{Goal, Live, Look, Stage};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often the counts are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How often a line is written where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// Stage, bar, figures.
const WIDE: &str = "{prefix} {wide_bar:.cyan/black.bright} {msg}";

/// Where there is no room for a bar; what does not fit even so is cut off, as a second line could not be cleared.
const NARROW: &str = "{prefix} {wide_msg}";

/// The bar and the blanks around it.
const BAR_CHARS_MIN: usize = 6;

/// Whether progress is shown on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum When {
    /// If standard error is a terminal.
    Auto,
    /// In any case: a line a second if it is no terminal.
    Always,
    /// Not at all.
    Never,
}

/// The thread that looks; it ends with this.
#[derive(Debug)]
pub(crate) struct Watcher {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
enum Display {
    Bar(ProgressBar),
    /// With the time of the last line.
    Lines(Instant),
}

impl When {
    /// Whether there will be anything to see.
    pub(crate) fn shows(self) -> bool {
        match self {
            When::Auto => std::io::stderr().is_terminal(),
            When::Always => true,
            When::Never => false,
        }
    }
}

impl Watcher {
    /// Begins to look at `live` and to show it on standard error.
    pub(crate) fn start(live: Arc<Live>) -> Watcher {
        let (stop, stopped) = mpsc::channel::<()>();
        let mut display = Display::new();
        let thread = thread::Builder::new().name("progress".to_owned()).spawn(move || {
            while matches!(stopped.recv_timeout(LOOK_EVERY), Err(RecvTimeoutError::Timeout)) {
                display.show(&live.look());
            }
            display.clear();
        });
        // A machine that has no thread left runs without progress.
        Watcher { stop: Some(stop), thread: thread.ok() }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A watcher that has panicked has said so.
            let _ = thread.join();
        }
    }
}

impl Display {
    fn new() -> Display {
        if !std::io::stderr().is_terminal() {
            return Display::Lines(Instant::now());
        }
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
        Display::Bar(bar)
    }

    fn show(&mut self, look: &Look) {
        match self {
            Display::Bar(bar) => {
                let (position, length) = way(look);
                let (heading, figures) = (heading(look), figures(look));
                let chars = heading.chars().count().saturating_add(figures.chars().count());
                let template = if chars.saturating_add(BAR_CHARS_MIN) > terminal_columns() { NARROW } else { WIDE };
                if let Ok(style) = ProgressStyle::with_template(template) {
                    bar.set_style(style.progress_chars("━━─"));
                }
                bar.set_length(length);
                bar.set_position(position);
                bar.set_prefix(heading);
                bar.set_message(figures);
            }
            Display::Lines(last) => {
                if last.elapsed() >= LINE_EVERY {
                    *last = Instant::now();
                    // Whoever closed standard error does not want to see it.
                    let _ = writeln!(std::io::stderr(), "{} {}", heading(look), figures(look));
                }
            }
        }
    }

    fn clear(&self) {
        if let Display::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

/// The terminal may be made wider or narrower at any time. One that does not tell is taken for a usual one.
fn terminal_columns() -> usize {
    match rustix::termios::tcgetwinsize(std::io::stderr()) {
        Ok(size) if size.ws_col > 0 => usize::from(size.ws_col),
        _ => 80,
    }
}

fn heading(look: &Look) -> String {
    let stage = match look.stage {
        Stage::Preparing => "preparing",
        Stage::TouchingKeys => "touching keys",
        Stage::WarmingUp => "warm-up",
        Stage::Measuring => "measuring",
    };
    if look.label.is_empty() { stage.to_owned() } else { format!("{}: {stage}", look.label) }
}

/// The rate and latencies of the last moment, and the time that is left.
fn figures(look: &Look) -> String {
    if look.stage == Stage::Preparing {
        return String::new();
    }
    let [p50, p99, p999] = [look.p50_us, look.p99_us, look.p999_us].map(format::micros);
    let rate = format::short(look.calls_per_second);
    let mut text = format!("{rate} calls/s  p50 {p50}  p99 {p99}  p99.9 {p999}");
    if let Some(left) = time_left(look) {
        text.push_str("  ");
        text.push_str(&format::rough(left));
        text.push_str(" left");
    }
    text
}

/// How far the stage is, and how far it has to go, in the unit of its goal.
fn way(look: &Look) -> (u64, u64) {
    let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    match look.goal {
        Goal::Unknown => (0, 1),
        Goal::Calls(calls) => (look.calls.min(calls), calls),
        Goal::Time(time) => (milliseconds(look.elapsed.min(time)), milliseconds(time)),
    }
}

/// None if it cannot be told, or not yet.
fn time_left(look: &Look) -> Option<Duration> {
    match look.goal {
        Goal::Unknown => None,
        Goal::Time(time) => Some(time.saturating_sub(look.elapsed)),
        Goal::Calls(goal) => {
            // The rate since the beginning is steadier than that of the last moment.
            let rate = look.calls as f64 / look.elapsed.as_secs_f64();
            let left = goal.saturating_sub(look.calls) as f64;
            Duration::try_from_secs_f64(left / rate).ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(stage: Stage, goal: Goal, elapsed_millis: u64, calls: u64) -> Look {
        Look {
            label: String::new(),
            stage,
            goal,
            elapsed: Duration::from_millis(elapsed_millis),
            calls,
            calls_per_second: 1_234_567.0,
            p50_us: 312.0,
            p99_us: 801.0,
            p999_us: 1_250.0,
        }
    }

    #[test]
    fn a_look_in_words() {
        let five = Goal::Time(Duration::from_secs(5));
        let cases = [
            (look(Stage::Preparing, Goal::Unknown, 0, 0), "preparing", ""),
            (
                look(Stage::Measuring, five, 2_000, 9),
                "measuring",
                "1.23M calls/s  p50 312 µs  p99 801 µs  p99.9 1.25 ms  3 s left",
            ),
            (
                look(Stage::TouchingKeys, Goal::Calls(1_000), 1_000, 250),
                "touching keys",
                "1.23M calls/s  p50 312 µs  p99 801 µs  p99.9 1.25 ms  3 s left",
            ),
            (
                look(Stage::WarmingUp, Goal::Calls(1_000), 1_000, 0),
                "warm-up",
                "1.23M calls/s  p50 312 µs  p99 801 µs  p99.9 1.25 ms",
            ),
        ];
        for (look, expected_heading, expected_figures) in cases {
            assert_eq!((heading(&look).as_str(), figures(&look).as_str()), (expected_heading, expected_figures));
        }
        let labelled = Look { label: "round 2 of 7, b".to_owned(), ..look(Stage::Measuring, five, 0, 0) };
        assert_eq!(heading(&labelled), "round 2 of 7, b: measuring");
    }

    #[test]
    fn how_far_a_stage_is() {
        let cases = [
            (Goal::Unknown, 100, 5, (0, 1)),
            (Goal::Calls(10), 100, 5, (5, 10)),
            (Goal::Calls(10), 100, 11, (10, 10)),
            (Goal::Time(Duration::from_secs(2)), 1_500, 5, (1_500, 2_000)),
            (Goal::Time(Duration::from_secs(2)), 2_500, 5, (2_000, 2_000)),
        ];
        for (goal, elapsed_millis, calls, expected) in cases {
            assert_eq!(way(&look(Stage::Measuring, goal, elapsed_millis, calls)), expected, "{goal:?}");
        }
    }

    #[test]
    fn a_watcher_ends_when_it_is_dropped() {
        let live = Arc::new(Live::new().unwrap());
        let started = Instant::now();
        drop(Watcher::start(live.clone()));
        assert!(started.elapsed() < Duration::from_secs(5));
        assert_eq!(Arc::strong_count(&live), 1);
    }
}
