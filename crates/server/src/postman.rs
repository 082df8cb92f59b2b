//! The task that brings a sleeping core its mail.
//!
//! While a core is busy its connections look for mail after each batch. This task is for the other case: it is woken by
//! the core itself right before it would sleep, or by another core while it does.

use crate::worker::Worker;
use std::rc::Rc;
use std::task::Poll;

/// Reads the core's mail whenever it is woken, for ever.
pub async fn deliver(worker: Rc<Worker>) {
    std::future::poll_fn(|context| {
        worker.hub.mesh.set_waker(worker.index, context.waker().clone());
        if worker.read_mail() {
            // More is there: after the connections had their turn.
            context.waker().wake_by_ref();
        }
        Poll::<()>::Pending
    })
    .await;
}
