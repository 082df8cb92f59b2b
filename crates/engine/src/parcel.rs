//! What travels between two cores: the commands that one read of a socket had for another core, and their replies.
//!
//! A parcel goes out with arguments and comes back, the same allocation, with replies, so that in the steady state
//! nothing is allocated for a hop.

use crate::all::{self, UndoLog};
use crate::bounds::OUTPUT_BYTES_MAX;
use crate::call::Call;
use crate::command::{Flags, Handler};
use crate::core::Core;
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
    jobs: Vec<Job>,
    replies: Vec<u8>,
    ends: Vec<usize>,
    is_stopped: bool,
    is_cut: bool,
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
        self.ends.clear();
        self.is_stopped = false;
        self.is_cut = false;
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
        self.jobs.len()
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
        self.jobs.len() - 1
    }

    /// What the other core wrote for the command at `position`.
    pub fn reply(&self, position: usize) -> &[u8] {
        let end = self.ends.get(position).copied().unwrap_or(0);
        let start = position.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
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

    /// The bytes of arguments it carries.
    pub fn argument_bytes(&self) -> usize {
        self.bytes.len()
    }
}

fn span_end(bytes: &[u8]) -> u32 {
    // A parcel carries at most one read's commands, far below 4 GiB; a span that could not be stated would be empty.
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}

impl Core {
    /// Runs all commands of a parcel, in order, and writes their replies into it.
    pub fn run_parcel(&mut self, parcel: &mut Parcel, now: Micros) {
        self.counters.batches.add(1);
        self.top.begin_batch(parcel.jobs.len(), now);
        for job in &parcel.jobs {
            if job.entry.command.keys.first > 0 {
                self.store.prefetch(job.at);
            }
        }
        let times_fast = self.timing.times_fast();
        let Parcel { bytes, spans, jobs, replies, ends, is_stopped, is_cut, slow, .. } = parcel;
        for job in jobs {
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
                Task::Run if times_fast => {
                    self.run_key_timed(job.entry, &call, &mut Reply::new(replies, job.protocol));
                }
                Task::Run => self.run_key(job.entry, &call, &mut Reply::new(replies, job.protocol)),
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
                Task::Step(run) => {
                    let given = match job.cargo.take() {
                        Some(Cargo::Content(content)) => Some(content),
                        _ => None,
                    };
                    job.cargo = run(self, &call, given, replies).map(Cargo::Content);
                }
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
