//! The one place that replies leave through.
//!
//! A reply tells a caller that units are his. Whether it may be told can depend on more than the command: on how much
//! the replicas have yet to acknowledge (tollgate_replication::bound says when), and in a cluster on the lease that
//! this node serves under (`tenure`). Both are looked at when replies are released, not when the command ran, so all
//! that clients and other cores are answered passes here. Where nothing is bounded that costs one look at a flag.

use crate::clock::boot_micros;
use crate::turn::Due;
use crate::worker::Worker;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;
use tollgate_engine::command::{Command, Flags};
use tollgate_engine::dispatch::FENCED;
use tollgate_engine::parcel::Parcel;
use tollgate_replication::bound;
use tollgate_replication::outflow::Outflow;

/// How long an answer, or a call, waits for a lease.
pub const FENCED_MICROS_MAX: u64 = 50_000;
/// Between two looks whether there is one.
pub const FENCED_PAUSE: Duration = Duration::from_millis(1);

/// The answers of one core.
pub struct Gate {
    /// Whether answers leave without a look: nothing bounds them, and no replica waits for what changes.
    is_open: Cell<bool>,
    /// Those that may not leave yet, and when they may.
    pub bounded: RefCell<bound::Gate<Held>>,
    /// Whether answers leave only under a lease.
    is_leased: bool,
    /// Those that may leave only under a lease, and until when they wait for one.
    fenced: RefCell<VecDeque<(u64, Held)>>,
}

/// What an answer tells of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tells {
    /// Nothing: it leaves whatever replicas know.
    #[default]
    Nothing,
    /// What is there.
    Looks,
    /// What was done to them.
    Changes,
}

/// An answer that may not leave yet.
pub enum Held {
    /// To a client.
    Replies(Rc<dyn Due>),
    /// To the core that sent the commands.
    Parcel(usize, Box<Parcel>),
}

impl Gate {
    /// Of a core whose answers may be any number of units ahead of its replicas. `is_leased`: whether they leave only
    /// under a lease.
    pub fn new(is_leased: bool) -> Gate {
        let bounded = RefCell::new(bound::Gate::new(None));
        Gate { is_open: Cell::new(true), bounded, is_leased, fenced: RefCell::default() }
    }

    /// Bounds what may be ahead of replicas, by all cores together; `None`: any number of units.
    pub fn set_bound(&self, units: Option<u64>, cores: usize) {
        let cores = u64::try_from(cores).unwrap_or(u64::MAX).max(1);
        self.bounded.borrow_mut().set_bound(units.map(|units| units / cores));
    }

    /// Asked once for each batch of answers, right before it leaves. If it may not, it is kept until it may.
    #[inline(always)]
    pub fn lets_out(&self, worker: &Rc<Worker>, tells: Tells, answer: impl FnOnce() -> Held) -> bool {
        if self.is_leased && tells == Tells::Changes && !worker.hub.tenure.holds() {
            self.fence(worker, answer());
            return false;
        }
        self.is_open.get() || tells == Tells::Nothing || self.lets_out_by_mark(worker, tells, answer)
    }

    /// Whether answers leave only under a lease.
    #[inline]
    pub fn is_leased(&self) -> bool {
        self.is_leased
    }

    /// Keeps an answer until there is a lease, or it has waited long enough.
    #[cold]
    #[inline(never)]
    fn fence(&self, worker: &Rc<Worker>, held: Held) {
        let mut fenced = self.fenced.borrow_mut();
        if fenced.is_empty() {
            tokio::task::spawn_local(wait_for_lease(worker.clone()));
        }
        fenced.push_back((boot_micros().saturating_add(FENCED_MICROS_MAX), held));
    }

    /// As above, for the parcel of a core.
    #[inline]
    pub fn lets_out_parcel(&self, worker: &Worker, to: usize, parcel: Box<Parcel>) -> Option<Box<Parcel>> {
        let mut parcel = Some(parcel);
        let tells = parcel.as_ref().filter(|_| !self.is_open.get()).map_or(Tells::Nothing, |parcel| tells(parcel));
        if tells > Tells::Nothing {
            self.lets_out_by_mark(worker, tells, || Held::Parcel(to, parcel.take().unwrap_or_default()));
        }
        parcel
    }

    #[inline(never)]
    fn lets_out_by_mark(&self, worker: &Worker, tells: Tells, answer: impl FnOnce() -> Held) -> bool {
        let outflow = worker.flows.outflow.borrow();
        let Some(outflow) = &*outflow else { return true };
        let core = worker.core.borrow();
        let units = core.counters.units_admitted();
        let mark = bound::Mark { units, flush: outflow.number_to_tell_all(&core.store) };
        let mut gate = self.bounded.borrow_mut();
        // What was charged just before too few replicas were left is kept, and refused with what was kept before.
        let is_late = tells == Tells::Changes && gate.bound().is_some() && worker.hub.settings.shared.lacks_replicas();
        let leaves = !is_late && gate.may_leave(mark, &outflow.in_step);
        if is_late {
            worker.flows.flush_soon();
        }
        if !leaves {
            gate.hold(mark, answer());
            core.counters.answers_kept_back.add(1);
            core.counters.answers_waiting.set(u64::try_from(gate.held()).unwrap_or(u64::MAX));
        }
        let is_first = worker.flows.is_quiet() && core.store.has_untaken_changes();
        if is_first || gate.is_near(units, &outflow.in_step) {
            worker.flows.flush_soon();
        }
        leaves
    }

    /// Decides anew whether answers leave without a look. `lacks`: whether too few replicas are in step; `tells`:
    /// whether there are links that nothing waits for.
    pub fn look(&self, outflow: &Outflow, lacks: bool, tells: bool) {
        let gate = self.bounded.borrow();
        let bounds = gate.bound().is_some() && (!outflow.in_step.is_empty() || gate.held() > 0 || lacks);
        self.is_open.set(!bounds && !tells);
    }

    /// Lets out what may leave now.
    pub fn release(&self, worker: &Rc<Worker>) {
        while let Some(held) = self.next_to_leave(worker) {
            if held.is_to_client_of_changes() && !worker.hub.tenure.holds() {
                self.fence(worker, held);
            } else {
                held.leave(worker);
            }
        }
    }

    /// The next answer that waits no more for a lease: there is one, or it has waited long enough.
    fn next_unfenced(&self, now: u64, holds: bool) -> Option<(Held, bool)> {
        let mut fenced = self.fenced.borrow_mut();
        let is_due = fenced.front().is_some_and(|(until, _)| holds || *until <= now);
        if is_due { fenced.pop_front().map(|(_, held)| (held, holds)) } else { None }
    }

    /// An answer that waited for a lease leaves, unless it has to wait for replicas too.
    fn let_out_late(&self, worker: &Worker, held: Held) {
        let tells = held.tells();
        let mut held = Some(held);
        let leaves = self.is_open.get()
            || self.lets_out_by_mark(worker, tells, || held.take().unwrap_or(Held::Parcel(0, Box::default())));
        if let Some(held) = held.filter(|_| leaves) {
            held.leave(worker);
        }
    }

    fn next_to_leave(&self, worker: &Worker) -> Option<Held> {
        let (outflow, mut gate) = (worker.flows.outflow.borrow(), self.bounded.borrow_mut());
        let held = gate.release(&outflow.as_ref()?.in_step)?;
        let waiting = u64::try_from(gate.held()).unwrap_or(u64::MAX);
        worker.core.borrow().counters.answers_waiting.set(waiting);
        Some(held)
    }

    /// Too few are there any more to know what is kept: what was changed is answered with an error.
    pub fn refuse_all(&self, worker: &Worker, text: &str) {
        loop {
            let held = self.bounded.borrow_mut().give_up();
            let Some(held) = held else { break };
            if held.tells() == Tells::Changes { held.refuse(worker, text) } else { held.leave(worker) }
        }
        worker.core.borrow().counters.answers_waiting.set(0);
    }
}

impl Held {
    fn tells(&self) -> Tells {
        match self {
            Held::Replies(due) => due.tells(),
            Held::Parcel(_, parcel) => tells(parcel),
        }
    }

    fn leave(self, worker: &Worker) {
        match self {
            Held::Replies(due) => due.leave(worker),
            Held::Parcel(to, parcel) => worker.answer(to, parcel),
        }
    }

    /// Answers of this core's own clients: another core looks at the lease when it lets out what it was given.
    fn is_to_client_of_changes(&self) -> bool {
        matches!(self, Held::Replies(due) if due.tells() == Tells::Changes)
    }

    fn refuse(self, worker: &Worker, text: &str) {
        match self {
            Held::Replies(due) => due.refuse(worker, text),
            Held::Parcel(to, mut parcel) => {
                parcel.refuse(text);
                worker.answer(to, parcel);
            }
        }
    }
}

/// Lets out what waits for a lease once there is one, and refuses what has waited too long, until nothing waits.
async fn wait_for_lease(worker: Rc<Worker>) {
    loop {
        tokio::time::sleep(FENCED_PAUSE).await;
        let now = boot_micros();
        let holds = worker.hub.tenure.holds();
        while let Some(held) = worker.gate.next_unfenced(now, holds) {
            match held {
                (held, true) => worker.gate.let_out_late(&worker, held),
                (held, false) => held.refuse(&worker, FENCED),
            }
        }
        if worker.gate.fenced.borrow().is_empty() {
            return;
        }
    }
}

fn tells(parcel: &Parcel) -> Tells {
    parcel.commands().map(Tells::of).max().unwrap_or_default()
}

impl Tells {
    /// What the answer of a command tells that runs where keys are.
    pub fn of(command: &Command) -> Tells {
        match command.flags {
            flags if flags.has(Flags::WRITE) => Tells::Changes,
            // Who administers must see clients and the like at all times.
            flags if flags.has(Flags::ADMIN) => Tells::Nothing,
            _ => Tells::Looks,
        }
    }
}
