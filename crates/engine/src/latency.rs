//! LATENCY: when commands took long, by event, over the last samples of each.
//!
//! Every core keeps the samples of what it ran; the parts are lines of text, which the merges read back into one
//! history.

use crate::call::Call;
use crate::core::Core;
use crate::limit_commands::integer;
use crate::tunables::Tunable;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write;
use tollgate_limits::Micros;
use tollgate_resp::{Reply, printable};

/// The event of commands that are not flagged as fast.
pub const COMMAND: &str = "command";
/// The event of commands that are.
pub const FAST_COMMAND: &str = "fast-command";

/// Samples kept for each event, as in Redis.
const SAMPLES_MAX: usize = 160;
/// Columns of LATENCY GRAPH, and its rows of bars.
const GRAPH_COLUMNS: usize = 80;
const GRAPH_ROWS: u64 = 4;

/// The samples of one event: unix seconds and milliseconds, a second at most once, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct History {
    samples: VecDeque<(u64, u64)>,
    max_millis: u64,
}

impl History {
    /// Of one second the longest counts.
    fn add(&mut self, seconds: u64, millis: u64) {
        self.max_millis = self.max_millis.max(millis);
        match self.samples.back_mut() {
            Some((last, longest)) if *last == seconds => *longest = (*longest).max(millis),
            _ => self.samples.push_back((seconds, millis)),
        }
        if self.samples.len() > SAMPLES_MAX {
            self.samples.pop_front();
        }
    }

    /// Both, in the order of time.
    fn merge(&mut self, other: &History) {
        let mut all: Vec<_> = self.samples.iter().chain(&other.samples).copied().collect();
        all.sort_unstable();
        let max_millis = self.max_millis.max(other.max_millis);
        *self = History::default();
        all.iter().for_each(|(seconds, millis)| self.add(*seconds, *millis));
        self.max_millis = max_millis;
    }
}

/// One core's samples.
#[derive(Debug, Default)]
pub struct Latency {
    events: BTreeMap<&'static str, History>,
}

impl Latency {
    /// Adds a sample. Events are few and named in this crate.
    pub fn add(&mut self, event: &'static str, now: Micros, millis: u64) {
        self.events.entry(event).or_default().add(now / 1_000_000, millis);
    }
}

/// One core's part of all that look: the threshold, then a line for each event and each of its samples.
pub fn look_part(core: &mut Core, _call: &Call<'_>, fragment: &mut Vec<u8>) {
    let mut text = format!("threshold {}\n", core.settings.tunables.count(Tunable::LatencyMonitorThreshold));
    for (event, history) in &core.latency.events {
        let _ = writeln!(text, "max {event} {}", history.max_millis);
        for (seconds, millis) in &history.samples {
            let _ = writeln!(text, "{seconds} {event} {millis}");
        }
    }
    fragment.extend_from_slice(text.as_bytes());
}

/// What all parts say together: the threshold and the history of each event.
fn merged(fragments: &[&[u8]]) -> (u64, BTreeMap<String, History>) {
    let (mut threshold, mut events) = (0, BTreeMap::<String, History>::new());
    for fragment in fragments {
        let mut part = BTreeMap::<String, History>::new();
        for line in std::str::from_utf8(fragment).unwrap_or_default().lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |at: usize| words.get(at).and_then(|word| word.parse().ok()).unwrap_or(0);
            match words.as_slice() {
                ["threshold", _] => threshold = number(1),
                ["max", event, _] => part.entry((*event).to_owned()).or_default().max_millis = number(2),
                [_, event, _] => part.entry((*event).to_owned()).or_default().add(number(0), number(2)),
                _ => {}
            }
        }
        part.into_iter().for_each(|(event, history)| events.entry(event).or_default().merge(&history));
    }
    (threshold, events)
}

/// LATENCY LATEST: event, unix seconds and milliseconds of its last sample, the most milliseconds ever.
pub fn latest_merge(fragments: &[&[u8]], _call: &Call<'_>, reply: &mut Reply<'_>) {
    let (_, events) = merged(fragments);
    reply.array(events.len());
    for (event, history) in &events {
        let (seconds, millis) = history.samples.back().copied().unwrap_or_default();
        reply.array(4);
        reply.bulk_str(event);
        [seconds, millis, history.max_millis].into_iter().for_each(|number| reply.integer(integer(number)));
    }
}

fn asked(fragments: &[&[u8]], call: &Call<'_>) -> Option<History> {
    let (_, mut events) = merged(fragments);
    events.remove(call.text(2).as_ref())
}

/// LATENCY HISTORY event: unix seconds and milliseconds of its samples.
pub fn history_merge(fragments: &[&[u8]], call: &Call<'_>, reply: &mut Reply<'_>) {
    let samples = asked(fragments, call).unwrap_or_default().samples;
    reply.array(samples.len());
    for (seconds, millis) in samples {
        reply.array(2);
        reply.integer(integer(seconds));
        reply.integer(integer(millis));
    }
}

/// So many seconds, in words.
fn seconds(count: u64) -> String {
    if count == 1 { "1 second".to_owned() } else { format!("{count} seconds") }
}

/// LATENCY GRAPH event: a bar for each of the last samples.
pub fn graph_merge(fragments: &[&[u8]], call: &Call<'_>, reply: &mut Reply<'_>) {
    let Some(history) = asked(fragments, call) else {
        return reply.error(&format!("ERR No samples available for event '{}'", printable(call.argument(2))));
    };
    let shown: Vec<_> = history.samples.iter().skip(history.samples.len().saturating_sub(GRAPH_COLUMNS)).collect();
    let high = shown.iter().map(|(_, millis)| *millis).max().unwrap_or(0).max(1);
    let low = shown.iter().map(|(_, millis)| *millis).min().unwrap_or(0);
    let event = call.text(2);
    let mut text = format!("{event} - high {high} ms, low {low} ms (all time high {} ms)\n", history.max_millis);
    let _ = writeln!(text, "{}", "-".repeat(GRAPH_COLUMNS));
    for row in (0..GRAPH_ROWS).rev() {
        let bars = shown.iter().map(|(_, millis)| if millis * GRAPH_ROWS > row * high { '#' } else { ' ' });
        let line: String = bars.collect();
        let _ = writeln!(text, "{}", line.trim_end());
    }
    let ages = shown.iter().map(|(seconds, _)| call.now / 1_000_000 - seconds.min(&(call.now / 1_000_000)));
    let (oldest, newest) = (ages.clone().max().unwrap_or(0), ages.min().unwrap_or(0));
    let when = match (oldest, newest) {
        (0, _) => "in the last second".to_owned(),
        _ if oldest == newest => format!("{} ago", seconds(oldest)),
        _ => format!("from {oldest} to {} ago", seconds(newest)),
    };
    let _ = writeln!(text, "\n{when}, a sample for each second that had one");
    reply.verbatim_txt(&text);
}

/// LATENCY DOCTOR: the same in words.
pub fn doctor_merge(fragments: &[&[u8]], call: &Call<'_>, reply: &mut Reply<'_>) {
    let (threshold, events) = merged(fragments);
    if threshold == 0 && events.is_empty() {
        return reply.verbatim_txt(
            "Latency is not monitored. CONFIG SET latency-monitor-threshold <milliseconds> starts it; commands that \
             take as long or longer are then kept as samples.\n",
        );
    }
    if events.is_empty() {
        let text = format!("No command has taken {threshold} ms or more since latency is monitored.\n");
        return reply.verbatim_txt(&text);
    }
    let mut text = String::new();
    for (event, history) in &events {
        let count = history.samples.len();
        let sum: u64 = history.samples.iter().map(|(_, millis)| millis).sum();
        let mean = sum / u64::try_from(count).unwrap_or(1).max(1);
        // The second of the first sample and the one that runs now are among them.
        let now_seconds = call.now / 1_000_000;
        let since = history.samples.front().map_or(0, |(first, _)| now_seconds.saturating_sub(*first)) + 1;
        let when = match since {
            1 => "in the last second".to_owned(),
            _ => format!("in {count} of the last {since} seconds"),
        };
        let worst = history.max_millis;
        let _ = writeln!(text, "{event}: spikes {when}, {mean} ms on average; the worst of all took {worst} ms.");
    }
    text.push_str(
        "\nSLOWLOG GET shows which commands took long (CONFIG SET slowlog-log-slower-than <microseconds>). Spikes of \
         fast-command are mostly the machine: more core threads than processors, a busy neighbour, swapping.\n",
    );
    reply.verbatim_txt(&text);
}

/// One core's part of LATENCY RESET: the events that it forgot, a line each.
pub fn reset_part(core: &mut Core, call: &Call<'_>, fragment: &mut Vec<u8>) {
    let all = call.args.len() == 2;
    let is_asked = |event: &str| all || call.args.iter().skip(2).any(|asked| asked == event.as_bytes());
    core.latency.events.retain(|event, _| {
        let forget = is_asked(event);
        if forget {
            fragment.extend_from_slice(event.as_bytes());
            fragment.push(b'\n');
        }
        !forget
    });
}

/// LATENCY RESET [event ...]: how many events were forgotten.
pub fn reset_merge(fragments: &[&[u8]], _call: &Call<'_>, reply: &mut Reply<'_>) {
    let lines = fragments.iter().flat_map(|fragment| fragment.split(|byte| *byte == b'\n'));
    let events: BTreeSet<&[u8]> = lines.filter(|line| !line.is_empty()).collect();
    reply.integer(i64::try_from(events.len()).unwrap_or(i64::MAX));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_one_sample_and_the_newest_stay() {
        let mut history = History::default();
        for second in 0..200 {
            history.add(second, 7);
            history.add(second, 5);
        }
        history.add(200, 3);
        assert_eq!((history.samples.len(), history.max_millis), (SAMPLES_MAX, 7));
        assert_eq!((history.samples.front(), history.samples.back()), (Some(&(41, 7)), Some(&(200, 3))));
    }

    #[test]
    fn cores_merge_by_time() {
        let (mut left, mut right) = (History::default(), History::default());
        [(1, 4), (3, 2)].into_iter().for_each(|(seconds, millis)| left.add(seconds, millis));
        [(1, 9), (2, 5)].into_iter().for_each(|(seconds, millis)| right.add(seconds, millis));
        right.max_millis = 50;
        left.merge(&right);
        assert_eq!(left, History { samples: [(1, 9), (2, 5), (3, 2)].into(), max_millis: 50 });
    }
}
