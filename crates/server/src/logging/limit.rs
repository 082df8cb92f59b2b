//! How much one place in the source may log.
//!
//! Each place (a callsite) has a count for the current second. What comes above it is left out and counted until the
//! report takes the count. There are as many entries as there are log statements in the program, so the table is
//! bounded by the source.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::callsite::Identifier;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Filter};

use super::queue::{LineQueue, REPORT_TARGET};

/// The time in which lines are counted, and after which what was left out is said.
pub(super) const WINDOW: Duration = Duration::from_secs(1);

/// Lines that one place wanted to write and was not let.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LeftOut {
    /// The place: file and line.
    pub(super) place: String,
    /// How many.
    pub(super) lines: u64,
}

/// The counts of every place that has logged.
#[derive(Debug)]
pub(super) struct CallsiteLimit {
    lines_per_window_max: u32,
    windows: Mutex<HashMap<Identifier, Window>>,
}

#[derive(Debug)]
struct Window {
    began: Instant,
    lines: u32,
    left_out: u64,
    place: String,
}

/// Whether a line may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It may.
    Write,
    /// It is left out. `first` if nothing else waits to be reported for its place.
    LeaveOut {
        /// It is the first one since the last report.
        first: bool,
    },
}

impl CallsiteLimit {
    pub(super) fn new(lines_per_window_max: u32) -> CallsiteLimit {
        CallsiteLimit { lines_per_window_max, windows: Mutex::new(HashMap::new()) }
    }

    /// Counts a line of the place that `metadata` describes.
    pub(super) fn judge(&self, metadata: &Metadata<'_>, now: Instant) -> Verdict {
        let mut windows = self.lock();
        let window = windows.entry(metadata.callsite()).or_insert_with(|| Window::new(metadata, now));
        if now.saturating_duration_since(window.began) >= WINDOW {
            window.began = now;
            window.lines = 0;
        }
        if window.lines < self.lines_per_window_max {
            window.lines += 1;
            return Verdict::Write;
        }
        window.left_out = window.left_out.saturating_add(1);
        Verdict::LeaveOut { first: window.left_out == 1 }
    }

    /// What has been left out since the last call, by place.
    pub(super) fn take_left_out(&self) -> Vec<LeftOut> {
        let mut reports: Vec<LeftOut> = Vec::new();
        for window in self.lock().values_mut().filter(|window| window.left_out > 0) {
            reports.push(LeftOut { place: window.place.clone(), lines: std::mem::take(&mut window.left_out) });
        }
        reports.sort_by(|left, right| left.place.cmp(&right.place));
        reports
    }

    /// Is there anything that [`CallsiteLimit::take_left_out`] would give?
    pub(super) fn has_left_out(&self) -> bool {
        self.lock().values().any(|window| window.left_out > 0)
    }

    /// The counts stay whole whatever a thread did while it held them, so a poisoned lock is as good as another.
    fn lock(&self) -> MutexGuard<'_, HashMap<Identifier, Window>> {
        self.windows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Window {
    fn new(metadata: &Metadata<'_>, now: Instant) -> Window {
        let place = match (metadata.file(), metadata.line()) {
            (Some(file), Some(line)) => format!("{file}:{line}"),
            _ => metadata.target().to_owned(),
        };
        Window { began: now, lines: 0, left_out: 0, place }
    }
}

/// The limit as a filter of the formatting layer.
pub(super) struct LimitFilter {
    limit: std::sync::Arc<CallsiteLimit>,
    queue: LineQueue,
}

impl LimitFilter {
    pub(super) fn new(limit: std::sync::Arc<CallsiteLimit>, queue: LineQueue) -> LimitFilter {
        LimitFilter { limit, queue }
    }
}

impl<S: Subscriber> Filter<S> for LimitFilter {
    fn enabled(&self, _metadata: &Metadata<'_>, _context: &Context<'_, S>) -> bool {
        true
    }

    fn event_enabled(&self, event: &Event<'_>, _context: &Context<'_, S>) -> bool {
        // The report of what was left out comes at most once a second and is not itself left out.
        if event.metadata().target() == REPORT_TARGET {
            return true;
        }
        match self.limit.judge(event.metadata(), Instant::now()) {
            Verdict::Write => true,
            Verdict::LeaveOut { first } => {
                if first {
                    self.queue.wake();
                }
                false
            }
        }
    }
}
