//! Every interleaving of the wake handshake, by loom: no message is ever left lying while its core sleeps.
//! Run by `cargo test -p tollgate-mailbox --features loom --release --test wake`.
#![cfg(feature = "loom")]

use loom::sync::Arc;
use loom::sync::Notify;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use tollgate_mailbox::wake::WakeFlag;

struct Shared {
    flag: WakeFlag,
    lane: AtomicUsize,
    bell: Notify,
}

fn receive(shared: &Shared, expected: usize) {
    let mut received = 0;
    while received < expected {
        received += shared.lane.swap(0, Ordering::Acquire);
        if received == expected {
            return;
        }
        if shared.flag.may_sleep(|| shared.lane.load(Ordering::Acquire) > 0) {
            // loom reports a deadlock if nobody ever rings.
            shared.bell.wait();
            shared.flag.awake();
        }
    }
}

fn send(shared: &Shared) {
    shared.lane.fetch_add(1, Ordering::Release);
    if shared.flag.must_wake() {
        shared.bell.notify();
    }
}

fn check(senders: usize, messages: usize) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let shared = Arc::new(Shared { flag: WakeFlag::new(), lane: AtomicUsize::new(0), bell: Notify::new() });
        let threads: Vec<_> = (0..senders)
            .map(|_| {
                let shared = shared.clone();
                thread::spawn(move || (0..messages).for_each(|_| send(&shared)))
            })
            .collect();
        receive(&shared, senders * messages);
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

#[test]
fn one_sender_two_messages() {
    check(1, 2);
}

#[test]
fn two_senders_one_message_each() {
    check(2, 1);
}
