//! What travels between two cores: the commands that one read of a socket had for another core, and their replies.
//!
//! A parcel goes out with arguments and comes back, the same allocation, with replies, so that in the steady state
//! nothing is allocated for a hop.

use crate::all::{self, UndoLog};
use crate::bounds::OUTPUT_BYTES_MAX;
use crate::call::Call;
use crate::command::{Command, Flags, Handler};
use crate::core::Core;
use crate::plain::{Order, Plain, PlainCall, ROW_CALLS_MAX, Row};
use crate::registry::Entry;
use crate::slowlog::SlowCall;
use crate::steps::StepFn;
use std::ops::Range;
use tollgate_limits::Micros;
use tollgate_resp::{Args, Protocol, Reply, Span};
use tollgate_store::{Content, Located, Watch};

/// What the other core is to do with a command.
#[derive(Clone, Copy, Debug)]
pub enum Task {
    /// Run it and write its reply.
    Run,
    /// Run its part and write a fragment.
    Part,
    /// Charge the groups of an RL.ALL and write a fragment.
    Charge,
    /// Take such a charge back and write a fragment.
    Undo,
    /// Run one step of a plan and write a fragment.
    Step(StepFn),
    /// Begin to watch its keys.
    Watch,
    /// Run nothing of the parcel unless what is watched is unchanged.
    Guard,
    /// Run a row of plain calls and write their replies.
    Row,
}

/// What goes with a command besides its arguments, or comes back besides its reply.
#[derive(Debug)]
pub enum Cargo {
    /// From [`Task::Charge`]: what would undo it. To [`Task::Undo`]: what to undo.
    Undo(Box<UndoLog>),
    /// To and from [`Task::Step`]: what a key holds.
    Content(Box<Content>),
    /// From [`Task::Watch`] and to [`Task::Guard`]: keys and how they were.
    Watches(Vec<Watch>),
}

/// One command in a parcel.
#[derive(Debug)]
pub struct Job {
    entry: &'static Entry,
    task: Task,
    /// Its arguments; of a [`Task::Row`], its calls.
    spans: Range<usize>,
    at: Located,
    protocol: Protocol,
    cargo: Option<Cargo>,
}

/// What a job is made of.
#[derive(Debug)]
pub struct NewJob {
    /// The command.
    pub entry: &'static Entry,
    /// What to do with it.
    pub task: Task,
    /// Where its first key lies.
    pub at: Located,
    /// The protocol of its reply.
    pub protocol: Protocol,
    /// What goes with it.
    pub cargo: Option<Cargo>,
}

/// Commands for one core, and later their replies.
#[derive(Debug, Default)]
pub struct Parcel {
    /// The core that sent it.
    pub origin: u16,
    /// Whatever the sender needs to find the connection again.
    pub ticket: u64,
    bytes: Vec<u8>,
    spans: Vec<Span>,
    /// What the plain calls are, if there are any.
    plain: Option<Plain>,
    plain_calls: Vec<PlainCall>,
    jobs: Vec<Job>,
    /// Commands: jobs, but each call of a row.
    commands: usize,
    replies: Vec<u8>,
    ends: Vec<usize>,
    is_stopped: bool,
    is_cut: bool,
    is_refused: bool,
    /// Calls of it that took long, for the connection that sent them to sign.
    pub slow: Vec<SlowCall>,
}

/// A parcel whose buffers grew beyond this gives them back when it is emptied.
const KEPT_BYTES_MAX: usize = 256 * 1024;

impl Parcel {
    /// Empties it for another use.
    pub fn clear(&mut self) {
        self.jobs.clear();
        self.spans.clear();
        self.plain = None;
        self.plain_calls.clear();
        self.commands = 0;
        self.ends.clear();
        self.is_stopped = false;
        self.is_cut = false;
        self.is_refused = false;
        self.slow.clear();
        for bytes in [&mut self.bytes, &mut self.replies] {
            bytes.clear();
            bytes.shrink_to(KEPT_BYTES_MAX);
        }
    }

    /// Whether it holds no command.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// How many commands it holds.
    pub fn len(&self) -> usize {
        self.commands
    }

    /// Adds a command, and its arguments by copy. Answers its position.
    pub fn push<'a>(&mut self, job: NewJob, arguments: impl Iterator<Item = &'a [u8]>) -> usize {
        let first = self.spans.len();
        for argument in arguments {
            let start = span_end(&self.bytes);
            self.bytes.extend_from_slice(argument);
            self.spans.push(Span { start, end: span_end(&self.bytes) });
        }
        let NewJob { entry, task, at, protocol, cargo } = job;
        self.jobs.push(Job { entry, task, spans: first..self.spans.len(), at, protocol, cargo });
        self.commands += 1;
        self.commands - 1
    }

    /// Adds a call of a row, its key by copy. All rows of a parcel are of the same plain call. Answers its position.
    #[inline]
    pub fn push_plain(&mut self, plain: &Plain, call: &PlainCall, key: &[u8], protocol: Protocol) -> usize {
        let start = span_end(&self.bytes);
        self.bytes.extend_from_slice(key);
        self.plain_calls.push(PlainCall { key: Span { start, end: span_end(&self.bytes) }, ..*call });
        let end = self.plain_calls.len();
        match self.jobs.last_mut() {
            Some(row) if matches!(row.task, Task::Row) && end - row.spans.start <= ROW_CALLS_MAX => row.spans.end = end,
            _ => self.begin_row(plain, end - 1..end, protocol),
        }
        self.commands += 1;
        self.commands - 1
    }

    #[inline(never)]
    fn begin_row(&mut self, plain: &Plain, calls: Range<usize>, protocol: Protocol) {
        self.plain.get_or_insert_with(|| plain.clone());
        let at = Located { slot: 0, hash: 0 };
        self.jobs.push(Job { entry: plain.entry(), task: Task::Row, spans: calls, at, protocol, cargo: None });
    }

    /// What the other core wrote for the command at `position`.
    pub fn reply(&self, position: usize) -> &[u8] {
        self.replies(position..position.saturating_add(1))
    }

    /// What the other core wrote for the commands at `positions`. Of those that it did not come to, nothing.
    pub fn replies(&self, positions: Range<usize>) -> &[u8] {
        let end_of = |count: usize| count.min(self.ends.len()).checked_sub(1).and_then(|last| self.ends.get(last));
        let [start, end] = [positions.start, positions.end].map(|count| end_of(count).copied().unwrap_or(0));
        self.replies.get(start..end).unwrap_or_default()
    }

    /// What would undo the charge at `position`. Taken once.
    pub fn take_undo(&mut self, position: usize) -> Option<Box<UndoLog>> {
        match self.take_cargo(position) {
            Some(Cargo::Undo(log)) => Some(log),
            _ => None,
        }
    }

    /// What came back with the command at `position`. Taken once.
    pub fn take_cargo(&mut self, position: usize) -> Option<Cargo> {
        self.jobs.get_mut(position).and_then(|job| job.cargo.take())
    }

    /// Whether a [`Task::Guard`] found a change, so that nothing behind it was run.
    pub fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Whether its replies passed [`OUTPUT_BYTES_MAX`], so that those behind are missing: the client must be ended.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// The commands that it carries; a row is one.
    pub fn commands(&self) -> impl Iterator<Item = &'static Command> {
        self.jobs.iter().map(|job| job.entry.command)
    }

    /// Answers all its commands with an error instead of what was written; what they did stays done. Fragments stay as
    /// they are, for who merges them to see [`Parcel::is_refused`].
    pub fn refuse(&mut self, text: &str) {
        let (mut replies, mut ends, mut position) = (Vec::new(), Vec::new(), 0);
        for job in &self.jobs {
            let commands = if matches!(job.task, Task::Row) { job.spans.len() } else { 1 };
            for _ in 0..commands {
                match job.task {
                    Task::Run | Task::Row => Reply::new(&mut replies, job.protocol).error(text),
                    _ => replies.extend_from_slice(self.reply(position)),
                }
                ends.push(replies.len());
                position += 1;
            }
        }
        (self.replies, self.ends, self.is_refused) = (replies, ends, true);
    }

    /// Whether its commands were answered with an error by [`Parcel::refuse`].
    pub fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// The bytes of arguments it carries.
    pub fn argument_bytes(&self) -> usize {
        self.bytes.len()
    }
}

fn span_end(bytes: &[u8]) -> u32 {
    // A parcel carries at most one read's commands, far below 4 GiB; a span that could not be stated would be empty.
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}

fn run_step(
    core: &mut Core,
    run: StepFn,
    call: &Call<'_>,
    cargo: Option<Cargo>,
    replies: &mut Vec<u8>,
) -> Option<Cargo> {
    let given = match cargo {
        Some(Cargo::Content(content)) => Some(content),
        _ => None,
    };
    run(core, call, given, replies).map(Cargo::Content)
}

/// Notes where the replies of a parcel's row end.
struct Ends<'a>(&'a mut Vec<usize>);

impl Order for Ends<'_> {
    #[inline]
    fn elsewhere(&mut self, _call: &PlainCall, _key: &[u8], end: usize) {
        // Cannot be: a parcel's calls are all for its core. The reply is empty then.
        self.0.push(end);
    }

    #[inline]
    fn answered(&mut self, end: usize) {
        self.0.push(end);
    }
}

impl Core {
    /// Whether a command's slot is served here, as it was when its connection's core looked. If not it is answered.
    pub fn still_runs(&mut self, entry: &Entry, call: &Call<'_>, protocol: Protocol, replies: &mut Vec<u8>) -> bool {
        // Whoever was let read from a replica was asked by the core that sent the command.
        let Err(text) = self.check_keys(entry, true, call.args) else { return true };
        self.counters.rejected(entry.index, &text);
        Reply::new(replies, protocol).error(&text);
        false
    }

    /// Runs all commands of a parcel, in order, and writes their replies into it.
    pub fn run_parcel(&mut self, parcel: &mut Parcel, now: Micros) {
        self.counters.batches.add(1);
        self.top.begin_batch(parcel.commands, now);
        self.refresh_view();
        for job in &parcel.jobs {
            if !matches!(job.task, Task::Row) && job.entry.command.keys.first > 0 {
                self.store.sight(job.at);
            }
        }
        let times_fast = self.timing.times_fast();
        let Parcel { bytes, spans, plain, plain_calls, jobs, replies, ends, is_stopped, is_cut, slow, .. } = parcel;
        for job in jobs {
            if let Task::Row = job.task
                && let (Some(plain), Some(calls)) = (plain.as_ref(), plain_calls.get(job.spans.clone()))
            {
                *is_cut |= replies.len() > OUTPUT_BYTES_MAX;
                self.run_plain(Row { plain, calls, buffer: bytes, now }, job.protocol, replies, &mut Ends(ends));
                continue;
            }
            let args = Args::new(bytes, spans.get(job.spans.clone()).unwrap_or_default());
            let call = Call { args, at: job.at, now };
            let full = replies.len() > OUTPUT_BYTES_MAX;
            *is_cut |= full;
            if full && job.entry.command.flags.has(Flags::READONLY) {
                // Nobody will get the reply, and there is nothing else to it.
                ends.push(replies.len());
                continue;
            }
            let kept = replies.len();
            match job.task {
                Task::Run if self.view.is_some() && !self.still_runs(job.entry, &call, job.protocol, replies) => {}
                Task::Run if times_fast => {
                    self.run_key_timed(job.entry, &call, &mut Reply::new(replies, job.protocol));
                }
                Task::Run => self.run_key(job.entry, &call, &mut Reply::new(replies, job.protocol)),
                Task::Row => {}
                Task::Part => {
                    if let Handler::Spread(part, _) | Handler::StepsOrParts(_, part, _) = job.entry.command.handler {
                        part(self, &call, replies);
                    }
                }
                Task::Charge => job.cargo = all::charge(self, &call, replies).map(Cargo::Undo),
                Task::Undo => {
                    if let Some(Cargo::Undo(log)) = job.cargo.take() {
                        all::undo(self, &call, *log, replies);
                    }
                }
                Task::Step(run) => job.cargo = run_step(self, run, &call, job.cargo.take(), replies),
                Task::Watch => job.cargo = Some(Cargo::Watches(self.watch(&call))),
                Task::Guard => {
                    let watches = match &job.cargo {
                        Some(Cargo::Watches(watches)) => watches.as_slice(),
                        _ => &[],
                    };
                    *is_stopped = !self.is_unchanged(watches, now);
                }
            }
            if full {
                replies.truncate(kept);
            }
            ends.push(replies.len());
            if *is_stopped {
                break;
            }
        }
        // Nobody's calls but those of this parcel wait here: a connection signs its own before it lets others run.
        slow.append(&mut self.timing.pending);
        self.publish_changes();
    }
}
