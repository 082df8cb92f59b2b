//! Full regions of the stores go into huge pages, which another thread makes.
//!
//! The problem: a store of millions of keys is read faster from huge pages, and to have one made can take longer than
//! any call may wait. The idea: one thread for all cores makes them and gives the old memory back, when a CPU has
//! nothing else to do; the cores only copy.

use crate::worker::Worker;
use std::io;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use thread_priority::{
    NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
};
use tokio::sync::oneshot;
use tollgate_store::HugeRegion;

/// How often a core looks whether it has a full region.
const PERIOD: Duration = Duration::from_millis(50);

enum Order {
    Make(oneshot::Sender<HugeRegion>),
    Drop(HugeRegion),
}

/// Orders for the thread, which ends with the last one who can order.
#[derive(Clone, Debug)]
pub struct HugePages(Sender<Order>);

impl HugePages {
    /// Starts the thread. It may run on every CPU that the calling thread may.
    ///
    /// # Errors
    /// There can be no further thread.
    pub fn start() -> io::Result<HugePages> {
        let (orders, received) = channel();
        std::thread::Builder::new().name("tollgate-memory".to_owned()).spawn(move || work(&received))?;
        Ok(HugePages(orders))
    }

    /// Has the full regions of a core moved, for as long as the system has huge pages.
    pub async fn serve(self, worker: Rc<Worker>) {
        if !are_offered() {
            return;
        }
        loop {
            tokio::time::sleep(PERIOD).await;
            while worker.core.borrow().store.wants_huge_region() {
                let (made, wanted) = oneshot::channel();
                // An answer fails when there are no huge pages, and always will.
                let Ok(()) = self.0.send(Order::Make(made)) else { return };
                let Ok(region) = wanted.await else { return };
                let old = worker.core.borrow_mut().store.renew_region(region);
                let Ok(()) = self.0.send(Order::Drop(old)) else { return };
                // Connections have their turn.
                tokio::task::yield_now().await;
            }
        }
    }
}

/// Whether the system gives huge pages to those who ask.
fn are_offered() -> bool {
    std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").is_ok_and(|modes| !modes.contains("[never]"))
}

fn work(orders: &Receiver<Order>) {
    let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
    if let Err(error) = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, idle) {
        tracing::debug!(?error, "the thread that makes huge pages runs like any other");
    }
    for order in orders {
        match order {
            Order::Make(wanted) => {
                let Some(region) = HugeRegion::new() else { continue };
                // A core that has ended wants none.
                let _ = wanted.send(region);
            }
            Order::Drop(region) => drop(region),
        }
    }
}
