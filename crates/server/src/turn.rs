//! The replies of a turn, written together at its end.
//!
//! The problem: the first reply that is written wakes a client, which then competes with the work that is left. Written
//! after all connections that are ready have run, answers cost the kernel 10 to 20 % less. But a connection that gives
//! way before it writes is polled twice for each request, and that is a large part of what a request costs. The idea: a
//! connection with replies puts itself on its core's list and goes on to wait for its next bytes. One task of the core,
//! woken by the first on the list, has its turn behind all connections that were ready then, and writes for all.

use crate::gate::Tells;
use crate::worker::Worker;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// So many connections are written for in one go, before those that became ready meanwhile have their turn.
const WRITES_IN_A_ROW: usize = 256;

/// Other cores wait for at most so many writes until they are woken.
const WRITES_PER_WAKE: usize = 8;

/// A connection that has replies.
pub trait Due {
    /// What they tell of keys.
    fn tells(&self) -> Tells;
    /// Writes them, once they may leave.
    fn write(self: Rc<Self>, worker: &Rc<Worker>);
    /// Writes them: they may leave.
    fn leave(&self, worker: &Worker);
    /// Writes an error for each of them instead.
    fn refuse(&self, worker: &Worker, text: &str);
}

/// The connections of one core that have replies.
#[derive(Default)]
pub struct Turn {
    due: RefCell<VecDeque<Rc<dyn Due>>>,
    is_started: Cell<bool>,
    /// Of the task that writes.
    waker: OnceCell<Waker>,
}

impl Turn {
    /// Has a connection written for at the end of this turn.
    #[inline]
    pub fn add(&self, due: Rc<dyn Due>) {
        let mut list = self.due.borrow_mut();
        // Where others are on the list the task was woken; before its first turn it needs no waking.
        if list.is_empty()
            && let Some(waker) = self.waker.get()
        {
            waker.wake_by_ref();
        }
        list.push_back(due);
    }

    fn next(&self) -> Option<Rc<dyn Due>> {
        self.due.borrow_mut().pop_front()
    }
}

/// Starts the task of a core that writes, if there is none yet.
pub fn start(worker: &Rc<Worker>) {
    if !worker.turn.is_started.replace(true) {
        tokio::task::spawn_local(end_turns(worker.clone()));
    }
}

async fn end_turns(worker: Rc<Worker>) {
    std::future::poll_fn(|context| {
        worker.turn.waker.get_or_init(|| context.waker().clone());
        for number in 0..WRITES_IN_A_ROW {
            if number % WRITES_PER_WAKE == 0 {
                worker.hub.wake_due(worker.index);
            }
            let Some(due) = worker.turn.next() else { return Poll::<()>::Pending };
            due.write(&worker);
            worker.read_mail();
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests;
