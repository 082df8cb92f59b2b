//! The way of a finished line to standard error: a bounded queue and the thread behind it.
//!
//! Whoever logs only puts a line into the queue, and never waits: where the queue is full the line is dropped and
//! counted. The thread sleeps while there is nothing to write and nothing to report.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

use tracing::Dispatch;
use tracing_subscriber::fmt::MakeWriter;

use super::limit::{CallsiteLimit, WINDOW};

/// Lines that may wait for standard error.
const QUEUE_LINES_MAX: usize = 1_024;

/// How long the end of the process waits for lines to be written. Standard error may be a pipe that nobody reads any
/// more, and then the process must end all the same.
const CLOSING_TIME_MAX: Duration = Duration::from_secs(1);

/// The target of the lines that say what was left out; the limit does not hold for it.
pub(super) const REPORT_TARGET: &str = "tollgate::log";

/// The sending end.
#[derive(Debug, Clone)]
pub(super) struct LineQueue {
    sender: SyncSender<Message>,
    dropped: Arc<AtomicU64>,
}

/// What the thread gets.
#[derive(Debug)]
pub(super) enum Message {
    /// A finished line, or a part of one.
    Line(Vec<u8>),
    /// There is something to look at beside lines: a report to be made in a while, or the end.
    Wake,
}

impl LineQueue {
    /// An empty queue and its receiving end.
    pub(super) fn new() -> (LineQueue, Receiver<Message>) {
        let (sender, receiver) = sync_channel(QUEUE_LINES_MAX);
        (LineQueue { sender, dropped: Arc::new(AtomicU64::new(0)) }, receiver)
    }

    /// Lets the thread look at what has changed beside the queue.
    pub(super) fn wake(&self) {
        // A full queue keeps the thread awake anyway, and it looks by itself after each message.
        let _ = self.sender.try_send(Message::Wake);
    }
}

impl Write for LineQueue {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.sender.try_send(Message::Line(bytes.to_vec())).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for LineQueue {
    type Writer = LineQueue;

    fn make_writer(&self) -> LineQueue {
        self.clone()
    }
}

/// The thread that writes lines. Dropping it writes what is queued, for [`CLOSING_TIME_MAX`] at most.
#[derive(Debug)]
pub(super) struct LogThread {
    queue: LineQueue,
    closing: Arc<AtomicBool>,
    ended: Receiver<()>,
}

impl LogThread {
    /// Starts it. `dispatch` is where its own reports go.
    pub(super) fn start(
        queue: LineQueue,
        lines: Receiver<Message>,
        limit: Arc<CallsiteLimit>,
        dispatch: Dispatch,
        sink: Box<dyn Write + Send>,
    ) -> io::Result<LogThread> {
        let (dropped, closing) = (queue.dropped.clone(), Arc::new(AtomicBool::new(false)));
        let (at_end, ended) = channel();
        let mut work =
            LogWork { lines, limit, dropped, dispatch, sink, report_due: None, closing: closing.clone(), at_end };
        std::thread::Builder::new().name("tollgate-log".to_owned()).spawn(move || work.run())?;
        Ok(LogThread { queue, closing, ended })
    }

    /// The queue before the thread.
    #[cfg(test)]
    pub(super) fn queue_for_test(&self) -> LineQueue {
        self.queue.clone()
    }
}

impl Drop for LogThread {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Release);
        self.queue.wake();
        // The thread is not joined: one that is stuck in a write ends with the process.
        let _ = self.ended.recv_timeout(CLOSING_TIME_MAX);
    }
}

struct LogWork {
    lines: Receiver<Message>,
    limit: Arc<CallsiteLimit>,
    dropped: Arc<AtomicU64>,
    dispatch: Dispatch,
    sink: Box<dyn Write + Send>,
    report_due: Option<Instant>,
    closing: Arc<AtomicBool>,
    at_end: Sender<()>,
}

impl LogWork {
    fn run(&mut self) {
        while !self.closing.load(Ordering::Acquire) {
            match self.next() {
                Ok(Message::Line(line)) => self.write(&line),
                Ok(Message::Wake) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.report_if_due(Instant::now());
        }
        self.write_queued();
        self.report();
        self.write_queued();
        let _ = self.sink.flush();
        // Whoever closes may have stopped waiting.
        let _ = self.at_end.send(());
    }

    fn write_queued(&mut self) {
        while let Ok(message) = self.lines.try_recv() {
            if let Message::Line(line) = message {
                self.write(&line);
            }
        }
    }

    /// Waits for the next message, or until a report is due.
    fn next(&self) -> Result<Message, RecvTimeoutError> {
        match self.report_due {
            Some(due) => self.lines.recv_timeout(due.saturating_duration_since(Instant::now())),
            None => self.lines.recv().map_err(|_| RecvTimeoutError::Disconnected),
        }
    }

    fn write(&mut self, line: &[u8]) {
        // Where standard error is closed there is nowhere left to say so.
        let _ = self.sink.write_all(line);
    }

    fn report_if_due(&mut self, now: Instant) {
        match self.report_due {
            Some(due) if now >= due => {
                self.report_due = None;
                self.report();
            }
            Some(_) => {}
            None if self.dropped.load(Ordering::Relaxed) > 0 || self.limit.has_left_out() => {
                self.report_due = Some(now + WINDOW);
            }
            None => {}
        }
    }

    /// Says what was left out. The lines go the way of all lines: into the queue that this thread empties.
    fn report(&self) {
        tracing::dispatcher::with_default(&self.dispatch, || {
            for left_out in self.limit.take_left_out() {
                let (place, lines) = (left_out.place, left_out.lines);
                tracing::warn!(target: REPORT_TARGET, place, lines, "log lines left out: too many in a second");
            }
            let lines = self.dropped.swap(0, Ordering::Relaxed);
            if lines > 0 {
                tracing::warn!(target: REPORT_TARGET, lines, "log lines dropped: standard error is too slow");
            }
        });
    }
}
