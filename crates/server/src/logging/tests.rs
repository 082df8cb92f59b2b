//! Lines as they arrive at the end: limited, counted, in either shape, and never waited for.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use tracing::callsite::Callsite;

use super::limit::{CallsiteLimit, LeftOut, Verdict};
use super::*;

/// A place that lines are written to and read back from.
#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The lines that `work` has logged, after the log has been closed.
fn lines_of(level: LogLevel, style: LineStyle, work: impl FnOnce()) -> Vec<String> {
    let paper = Paper::default();
    let (dispatch, thread) = assemble(level, style, Box::new(paper.clone())).unwrap();
    tracing::dispatcher::with_default(&dispatch, work);
    drop(thread);
    let bytes = paper.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
}

const TEXT: LineStyle = LineStyle::Text { colours: false };

#[test]
fn one_place_is_limited_and_another_is_not_affected() {
    let lines = lines_of(LogLevel::Info, TEXT, || {
        for number in 0..200 {
            tracing::info!(number, "noisy");
        }
        tracing::info!("quiet");
    });
    let count = |word: &str| lines.iter().filter(|line| line.contains(word)).count();
    // A second may end within the loop, which lets one more window through.
    let noisy = count("noisy");
    assert!((20..=40).contains(&noisy), "{noisy} lines");
    assert_eq!(count("quiet"), 1);
    let report = lines.iter().find(|line| line.contains("left out")).unwrap();
    assert!(report.contains(&format!("lines={}", 200 - noisy)) && report.contains("tests.rs:"), "{report}");
}

#[test]
fn lines_are_json_objects_with_the_fields_at_the_top() {
    let lines = lines_of(LogLevel::Info, LineStyle::Json, || tracing::warn!(port = 6_379, "a \"quoted\" word"));
    let [line] = lines.as_slice() else { panic!("{lines:?}") };
    assert!(line.starts_with('{') && line.ends_with('}'), "{line}");
    for part in [r#""level":"WARN""#, r#""message":"a \"quoted\" word""#, r#""port":6379"#, r#""timestamp":"#] {
        assert!(line.contains(part), "{part} in {line}");
    }
}

#[test]
fn the_level_decides_what_is_written() {
    for (level, expected) in [
        (LogLevel::Off, 0),
        (LogLevel::Error, 1),
        (LogLevel::Warn, 2),
        (LogLevel::Info, 3),
        (LogLevel::Debug, 4),
        (LogLevel::Trace, 5),
    ] {
        let lines = lines_of(level, TEXT, || {
            tracing::error!("line");
            tracing::warn!("line");
            tracing::info!("line");
            tracing::debug!("line");
            tracing::trace!("line");
        });
        assert_eq!(lines.len(), expected, "{level:?}: {lines:?}");
    }
}

#[test]
fn the_shape_follows_the_terminal_unless_it_is_named() {
    for (format, is_terminal, expected) in [
        (LogFormat::Auto, true, LineStyle::Text { colours: true }),
        (LogFormat::Auto, false, LineStyle::Json),
        (LogFormat::Text, true, LineStyle::Text { colours: true }),
        (LogFormat::Text, false, LineStyle::Text { colours: false }),
        (LogFormat::Json, true, LineStyle::Json),
    ] {
        assert_eq!(LineStyle::decide(format, is_terminal), expected, "{format:?} {is_terminal}");
    }
}

/// A sink that takes nothing until it is let go.
struct Stuck(std::sync::mpsc::Receiver<()>, Paper);

impl Write for Stuck {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let _ = self.0.recv();
        self.1.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_stuck_standard_error_holds_nobody_up_and_the_loss_is_said() {
    let (let_go, stuck) = std::sync::mpsc::channel();
    let paper = Paper::default();
    let (dispatch, thread) = assemble(LogLevel::Info, TEXT, Box::new(Stuck(stuck, paper.clone()))).unwrap();
    // Lines go straight into the queue, past the limit of one place.
    let mut queue = thread.queue_for_test();
    for _ in 0..3_000 {
        queue.write_all(b"line\n").unwrap();
    }
    drop(dispatch);
    drop(let_go);
    drop(thread);
    let text = String::from_utf8(paper.0.lock().unwrap().clone()).unwrap();
    let written = text.lines().filter(|line| *line == "line").count();
    assert!((1_024..3_000).contains(&written), "{written}");
    assert!(text.contains(&format!("lines={}", 3_000 - written)), "{written}: {}", text.lines().last().unwrap());
}

#[test]
fn a_standard_error_that_stays_stuck_does_not_hold_up_the_end() {
    let (let_go, stuck) = std::sync::mpsc::channel();
    let (dispatch, thread) = assemble(LogLevel::Info, TEXT, Box::new(Stuck(stuck, Paper::default()))).unwrap();
    tracing::dispatcher::with_default(&dispatch, || tracing::info!("line"));
    let began = Instant::now();
    drop(thread);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    drop(let_go);
}

#[test]
fn counts_begin_anew_each_second_and_the_report_takes_them() {
    let callsite = tracing::callsite! { name: "test", kind: tracing::metadata::Kind::EVENT, fields: };
    let place = callsite.metadata();
    let limit = CallsiteLimit::new(2);
    let start = Instant::now();
    let judge = |after_millis: u64| limit.judge(place, start + Duration::from_millis(after_millis));
    let (write, first, more) = (Verdict::Write, Verdict::LeaveOut { first: true }, Verdict::LeaveOut { first: false });
    for (after_millis, expected) in
        [(0, write), (1, write), (2, first), (999, more), (1_000, write), (1_001, write), (1_999, more), (2_000, write)]
    {
        assert_eq!(judge(after_millis), expected, "{after_millis} ms");
    }
    assert!(limit.has_left_out());
    let [LeftOut { lines: 3, .. }] = limit.take_left_out()[..] else { panic!("three were left out") };
    assert!(!limit.has_left_out());
    assert_eq!(judge(2_001), write);
    assert_eq!(judge(2_002), first);
}
