//! MONITOR: who asks is shown the commands of all clients.
//!
//! The problem: the one who watches must not slow what is watched. The idea: while nobody watches, a batch pays one
//! load. While somebody does, the lines of a batch are made once and put, by reference, into a queue for each watcher
//! that never blocks and never waits; a watcher that reads too slowly loses lines, and is told how many. It takes what
//! has come at most every few milliseconds, so that its core is not woken for each command of the others. While
//! none takes any lines, none are made.

use bytes::Bytes;
use crossbeam::queue::ArrayQueue;
use std::io::Write;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use tollgate_engine::redact::{REDACTED, secrets};
use tollgate_engine::registry::Entry;
use tollgate_limits::Micros;
use tollgate_resp::Args;

/// The most clients that may watch at once.
pub const MONITORS_MAX: usize = 64;
/// Batches that may wait for a watcher.
const SHEETS_MAX: usize = 8192;
/// Bytes that may wait for a watcher.
const WAITING_BYTES_MAX: usize = 1024 * 1024;
/// What a sheet takes besides its text, in the account of those bytes.
const SHEET_BYTES: usize = 64;
/// A watcher takes about so much at once, and writes it before it takes more.
const TAKEN_BYTES_MAX: usize = 256 * 1024;
/// A watcher takes what has come no more often than this.
const TAKE_PAUSE: Duration = Duration::from_millis(2);
/// Bytes of arguments that one line shows.
const LINE_BYTES_MAX: usize = 1024;

/// All who watch.
#[derive(Debug, Default)]
pub struct Monitors {
    count: AtomicUsize,
    queues: RwLock<Vec<Arc<Queue>>>,
}

/// What waits for one watcher.
#[derive(Debug)]
struct Queue {
    /// Each with the number of lines that were lost right before it.
    sheets: ArrayQueue<(u64, Sheet)>,
    bytes: AtomicUsize,
    lost: AtomicU64,
    more: Notify,
}

/// The lines of a batch.
#[derive(Clone, Debug)]
struct Sheet {
    text: Bytes,
    lines: u64,
}

impl Monitors {
    /// Whether anybody watches.
    #[inline]
    pub fn are_there(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Shows lines to all who watch. Answers how many lines were lost, over all of them.
    pub fn show(&self, page: Page) -> u64 {
        let sheet = Sheet { text: page.text.into(), lines: page.lines };
        if sheet.lines == 0 {
            return 0;
        }
        let queues = self.queues.read().unwrap_or_else(PoisonError::into_inner);
        queues.iter().filter(|queue| !queue.put(&sheet)).map(|_| sheet.lines).sum()
    }

    /// Whether any who watch would take lines now, so that it is worth making them.
    pub fn take_lines(&self) -> bool {
        let queues = self.queues.read().unwrap_or_else(PoisonError::into_inner);
        queues.iter().any(|queue| !queue.is_choked())
    }

    /// Counts lines that were not made, since nobody takes any. Answers how many were lost, over all who watch.
    pub fn lose(&self, lines: u64) -> u64 {
        let queues = self.queues.read().unwrap_or_else(PoisonError::into_inner);
        let lose = |queue: &Arc<Queue>| {
            queue.lost.fetch_add(lines, Ordering::AcqRel);
            lines
        };
        queues.iter().map(lose).sum()
    }

    fn enter(&self) -> Option<Arc<Queue>> {
        let mut queues = self.queues.write().unwrap_or_else(PoisonError::into_inner);
        if queues.len() >= MONITORS_MAX {
            return None;
        }
        let queue = Arc::new(Queue {
            sheets: ArrayQueue::new(SHEETS_MAX),
            bytes: AtomicUsize::new(0),
            lost: AtomicU64::new(0),
            more: Notify::new(),
        });
        queues.push(queue.clone());
        self.count.store(queues.len(), Ordering::Relaxed);
        Some(queue)
    }

    fn leave(&self, queue: &Arc<Queue>) {
        let mut queues = self.queues.write().unwrap_or_else(PoisonError::into_inner);
        queues.retain(|other| !Arc::ptr_eq(other, queue));
        self.count.store(queues.len(), Ordering::Relaxed);
    }
}

impl Queue {
    /// Whether it takes nothing until who watches has read half of what waits.
    fn is_choked(&self) -> bool {
        self.lost.load(Ordering::Acquire) > 0 && self.bytes.load(Ordering::Acquire) > WAITING_BYTES_MAX / 2
    }

    /// Puts a sheet down, if there is room. Once something was lost, everything is until half of what waits was taken:
    /// one large gap is worth more to who reads than many small ones.
    fn put(&self, sheet: &Sheet) -> bool {
        let bytes = sheet.text.len() + SHEET_BYTES;
        let lost = self.lost.swap(0, Ordering::AcqRel);
        let bound = if lost > 0 { WAITING_BYTES_MAX / 2 } else { WAITING_BYTES_MAX };
        let before = self.bytes.fetch_add(bytes, Ordering::AcqRel);
        if before + bytes > bound || self.sheets.push((lost, sheet.clone())).is_err() {
            self.bytes.fetch_sub(bytes, Ordering::AcqRel);
            self.lost.fetch_add(lost + sheet.lines, Ordering::AcqRel);
            return false;
        }
        self.more.notify_one();
        true
    }
}

/// One watcher's end. Dropped, it watches no more.
#[derive(Debug)]
pub struct Monitor {
    all: Arc<Monitors>,
    queue: Arc<Queue>,
    taken: Instant,
}

impl Monitor {
    /// Watches from now on. `None`: too many do.
    pub fn new(all: Arc<Monitors>) -> Option<Monitor> {
        let queue = all.enter()?;
        Some(Monitor { all, queue, taken: Instant::now() })
    }

    /// Waits until there is something to take. Nothing is lost if the wait is given up.
    pub async fn ready(&self) {
        tokio::time::sleep_until(self.taken + TAKE_PAUSE).await;
        while self.queue.sheets.is_empty() && self.queue.lost.load(Ordering::Acquire) == 0 {
            self.queue.more.notified().await;
        }
    }

    /// Takes what has come, or a good part of it, with a line wherever something was lost.
    pub fn take(&mut self, out: &mut Vec<u8>, now: Micros, own_address: &str) {
        self.taken = Instant::now();
        let tell = |out: &mut Vec<u8>, lost: u64| {
            if lost > 0 {
                begin_line(out, now, own_address);
                let _ = write!(out, " \"monitor\" \"lost\" \"{lost}\"\r\n");
            }
        };
        while let Some((lost, sheet)) = self.queue.sheets.pop() {
            self.queue.bytes.fetch_sub(sheet.text.len() + SHEET_BYTES, Ordering::AcqRel);
            tell(out, lost);
            out.extend_from_slice(&sheet.text);
            if out.len() > TAKEN_BYTES_MAX {
                return;
            }
        }
        tell(out, self.queue.lost.swap(0, Ordering::AcqRel));
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.all.leave(&self.queue);
    }
}

/// Lines that are being written.
#[derive(Debug, Default)]
pub struct Page {
    text: Vec<u8>,
    lines: u64,
}

impl Page {
    /// Adds a command of the client at `address`.
    pub fn add(&mut self, now: Micros, address: &str, entry: &Entry, args: Args<'_>) {
        begin_line(&mut self.text, now, address);
        let is_secret = secrets(entry.command, args);
        let mut room = LINE_BYTES_MAX;
        for (position, argument) in args.iter().enumerate() {
            let argument = if is_secret(position) { REDACTED.as_bytes() } else { argument };
            if room == 0 {
                let _ = write!(self.text, " \"... ({} more arguments)\"", args.len() - position);
                break;
            }
            let shown = argument.get(..room).unwrap_or(argument);
            room -= shown.len();
            self.text.extend_from_slice(b" \"");
            quote(&mut self.text, shown);
            if shown.len() < argument.len() {
                let _ = write!(self.text, "... ({} more bytes)", argument.len() - shown.len());
            }
            self.text.push(b'"');
        }
        self.text.extend_from_slice(b"\r\n");
        self.lines += 1;
    }
}

/// The time, the database and the address, as Redis writes them; a Unix socket's is its path behind `unix:`.
fn begin_line(out: &mut Vec<u8>, now: Micros, address: &str) {
    let unix = if address.starts_with('/') { "unix:" } else { "" };
    let shown = if unix.is_empty() { address } else { address.strip_suffix(":0").unwrap_or(address) };
    let _ = write!(out, "+{}.{:06} [0 {unix}{shown}]", now / 1_000_000, now % 1_000_000);
}

/// Bytes between quotes, so that a line stays a line and shows each byte.
fn quote(out: &mut Vec<u8>, bytes: &[u8]) {
    for byte in bytes {
        match byte {
            b'\\' | b'"' => out.extend_from_slice(&[b'\\', *byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x07 => out.extend_from_slice(b"\\a"),
            0x08 => out.extend_from_slice(b"\\b"),
            b' '..=b'~' => out.push(*byte),
            _ => {
                let _ = write!(out, "\\x{byte:02x}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_engine::registry::registry;
    use tollgate_resp::Span;

    const NOW: Micros = 1_339_518_083_107_412;
    const ME: &str = "127.0.0.1:9";

    fn page(words: &[&[u8]]) -> Page {
        let bytes = words.concat();
        let mut start = 0;
        let mut spans = Vec::new();
        for word in words {
            let end = start + u32::try_from(word.len()).unwrap();
            spans.push(Span { start, end });
            start = end;
        }
        let args = Args::new(&bytes, &spans);
        let mut page = Page::default();
        page.add(NOW, "127.0.0.1:60866", registry().find_name(words[0]).unwrap(), args);
        page
    }

    fn line(words: &[&[u8]]) -> String {
        String::from_utf8(page(words).text).unwrap()
    }

    fn taken(monitor: &mut Monitor) -> String {
        let mut out = Vec::new();
        monitor.take(&mut out, NOW, ME);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn lines_are_as_redis_writes_them() {
        let begin = "+1339518083.107412 [0 127.0.0.1:60866]";
        let odd: &[u8] = b"a\"\\\n\r\t\x07\x08\x00\xff ~";
        let table: [(&[&[u8]], &str); 4] = [
            (&[b"PING"], "\"PING\""),
            (&[b"Echo", odd], "\"Echo\" \"a\\\"\\\\\\n\\r\\t\\a\\b\\x00\\xff ~\""),
            (&[b"AUTH", b"default", b"secret"], "\"AUTH\" \"(redacted)\" \"(redacted)\""),
            (&[b"ECHO", b""], "\"ECHO\" \"\""),
        ];
        for (words, shown) in table {
            assert_eq!(line(words), format!("{begin} {shown}\r\n"));
        }
        let mut out = Vec::new();
        begin_line(&mut out, 5, "/run/tollgate.sock:0");
        assert_eq!(out, b"+0.000005 [0 unix:/run/tollgate.sock]");
    }

    #[test]
    fn lines_are_bounded() {
        let long = line(&[b"ECHO", &[b'x'; 5000]]);
        assert!(long.ends_with("xxx... (3980 more bytes)\"\r\n"), "{long}");
        let many = line(&[&b"DEL"[..], &[b'x'; 1021], b"b", b"c"]);
        assert!(many.ends_with("xxx\" \"... (2 more arguments)\"\r\n"), "{many}");
        assert!(line(&[b"ECHO", &[0; 60_000]]).len() < 5 * LINE_BYTES_MAX);
    }

    #[tokio::test]
    async fn who_watches_is_shown_what_comes_and_who_left_nothing() {
        let all = Arc::new(Monitors::default());
        assert!(!all.are_there());
        let (mut one, mut other) = (Monitor::new(all.clone()).unwrap(), Monitor::new(all.clone()).unwrap());
        assert!(all.are_there());
        assert_eq!((all.show(page(&[b"PING"])), all.show(Page::default())), (0, 0));
        one.ready().await;
        assert_eq!(taken(&mut one), line(&[b"PING"]));
        assert_eq!(taken(&mut one), "");
        drop(one);
        all.show(page(&[b"PING"]));
        assert_eq!(taken(&mut other), line(&[b"PING"]).repeat(2));
        drop(other);
        assert!(!all.are_there());
    }

    #[tokio::test]
    async fn who_does_not_read_loses_lines_and_is_told() {
        let all = Arc::new(Monitors::default());
        let mut monitor = Monitor::new(all.clone()).unwrap();
        let lost: u64 = (0..2 * SHEETS_MAX).map(|_| all.show(page(&[b"ECHO", &[b'x'; 100]]))).sum();
        // The gap is one, though a short line would find room.
        let lost = lost + all.show(page(&[b"PING"]));
        assert!(lost > 1 && monitor.queue.bytes.load(Ordering::Relaxed) <= WAITING_BYTES_MAX);
        while monitor.queue.bytes.load(Ordering::Relaxed) > WAITING_BYTES_MAX / 3 {
            assert!(taken(&mut monitor).ends_with("xxx\"\r\n"));
        }
        // What comes once there is room stands behind the gap.
        assert_eq!(all.show(page(&[b"PING"])), 0);
        let rest: Vec<String> =
            std::iter::from_fn(|| Some(taken(&mut monitor)).filter(|text| !text.is_empty())).collect();
        let notice = format!("+1339518083.107412 [0 {ME}] \"monitor\" \"lost\" \"{lost}\"\r\n");
        assert!(rest.concat().ends_with(&(notice + &line(&[b"PING"]))));
        assert_eq!(monitor.queue.bytes.load(Ordering::Relaxed), 0);
        assert_eq!(all.show(page(&[b"PING"])), 0);
    }

    #[test]
    fn so_many_and_no_more_watch() {
        let all = Arc::new(Monitors::default());
        let mut crowd: Vec<_> = (0..MONITORS_MAX).map(|_| Monitor::new(all.clone()).unwrap()).collect();
        assert!(Monitor::new(all.clone()).is_none());
        crowd.pop();
        assert!(Monitor::new(all).is_some());
    }
}
