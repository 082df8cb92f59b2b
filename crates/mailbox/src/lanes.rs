//! The lanes themselves: for each ordered pair of cores one for requests and one for replies.

use crate::wake::WakeFlag;
use crossbeam::queue::ArrayQueue;
use crossbeam::utils::CachePadded;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

/// A message that a full lane did not take, given back whole.
#[derive(Debug)]
pub struct Refused<T>(pub T);

/// All lanes of a process. `T` travels as a request from its origin to a core, and back as a reply.
#[derive(Debug)]
pub struct Mesh<T> {
    cores: usize,
    capacity: usize,
    requests: Box<[ArrayQueue<T>]>,
    replies: Box<[ArrayQueue<T>]>,
    flags: Box<[CachePadded<WakeFlag>]>,
    /// Whether anything was put down for a core since it last looked: one load instead of a look at every lane.
    mail: Box<[CachePadded<AtomicBool>]>,
    wakers: Box<[OnceLock<Waker>]>,
    /// For each ordered pair: whether the one has still to wake the other. Only the first of them reads and writes it.
    due: Box<[AtomicBool]>,
    /// Whether a core has anyone to wake.
    any_due: Box<[CachePadded<AtomicBool>]>,
}

impl<T> Mesh<T> {
    /// Lanes between `cores` cores, each for `capacity` messages. A sender keeps account of what it has outstanding at
    /// each core and never lets that pass `capacity`; then neither kind of lane can be full.
    pub fn new(cores: usize, capacity: usize) -> Mesh<T> {
        let pairs = cores * cores;
        let lanes = || (0..pairs).map(|_| ArrayQueue::new(capacity.max(1))).collect();
        Mesh {
            cores,
            capacity: capacity.max(1),
            requests: lanes(),
            replies: lanes(),
            flags: (0..cores).map(|_| CachePadded::new(WakeFlag::new())).collect(),
            mail: (0..cores).map(|_| CachePadded::new(AtomicBool::new(false))).collect(),
            wakers: (0..cores).map(|_| OnceLock::new()).collect(),
            due: (0..pairs).map(|_| AtomicBool::new(false)).collect(),
            any_due: (0..cores).map(|_| CachePadded::new(AtomicBool::new(false))).collect(),
        }
    }

    /// How many cores there are.
    pub fn cores(&self) -> usize {
        self.cores
    }

    /// How many messages a core may have outstanding at another.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Names the waker of `core`'s postman, once. Later calls change nothing.
    pub fn set_waker(&self, core: usize, waker: Waker) {
        if let Some(place) = self.wakers.get(core) {
            // Only the first postman of a core counts; a second would be a bug that the return value could not mend.
            let _ = place.set(waker);
        }
    }

    /// Puts a request down for `to`. Does not wake it: that is [`Mesh::wake`], once for all messages of a batch.
    pub fn send(&self, from: usize, to: usize, message: T) -> Result<(), Refused<T>> {
        self.put(&self.requests, from, to, message)
    }

    /// Puts a reply down for `to`, which had sent the request to `from`.
    pub fn answer(&self, from: usize, to: usize, message: T) -> Result<(), Refused<T>> {
        self.put(&self.replies, from, to, message)
    }

    fn put(&self, lanes: &[ArrayQueue<T>], from: usize, to: usize, message: T) -> Result<(), Refused<T>> {
        let Some(lane) = lanes.get(from * self.cores + to) else { return Err(Refused(message)) };
        lane.push(message).map_err(Refused)?;
        self.mark(to);
        Ok(())
    }

    /// Tells `core` that something lies there for it, in a lane or elsewhere. Does not wake it.
    pub fn mark(&self, core: usize) {
        if let Some(mail) = self.mail.get(core) {
            // Release: whoever takes the mark sees what was put down before it.
            mail.store(true, Ordering::Release);
        }
    }

    /// Whether something was put down for `core` since the last call. The core then looks at all its lanes.
    pub fn take_mark(&self, core: usize) -> bool {
        self.mail.get(core).is_some_and(|mail| mail.load(Ordering::Relaxed) && mail.swap(false, Ordering::Acquire))
    }

    /// The next request that `from` sent to `at`.
    pub fn take_request(&self, from: usize, at: usize) -> Option<T> {
        self.requests.get(from * self.cores + at).and_then(ArrayQueue::pop)
    }

    /// The next reply that `from` gave to `at`.
    pub fn take_reply(&self, from: usize, at: usize) -> Option<T> {
        self.replies.get(from * self.cores + at).and_then(ArrayQueue::pop)
    }

    /// Whether something was put down for `core` that it has not looked for yet.
    pub fn has_mail(&self, core: usize) -> bool {
        self.mail.get(core).is_some_and(|mail| mail.load(Ordering::Acquire))
    }

    /// How many requests wait at `core`.
    pub fn depth(&self, core: usize) -> usize {
        (0..self.cores).filter_map(|from| self.requests.get(from * self.cores + core)).map(ArrayQueue::len).sum()
    }

    /// Called by `core` right before it sleeps: wakes whom it still has to wake, and its own postman instead if a
    /// message came meanwhile. Answers how many others it woke.
    pub fn before_sleep(&self, core: usize) -> u64 {
        let woken = self.wake_due(core);
        if let Some(flag) = self.flags.get(core)
            && !flag.may_sleep(|| self.has_mail(core))
        {
            self.wake_now(core);
        }
        woken
    }

    /// Called by `core` when it no longer sleeps.
    pub fn after_sleep(&self, core: usize) {
        if let Some(flag) = self.flags.get(core) {
            flag.awake();
        }
    }

    /// Has `from` wake `to` with its next [`Mesh::wake_due`], at the latest before it sleeps: once for all that it puts
    /// down until then. A core that is woken for each message works it off and sleeps again before the next comes.
    pub fn wake_later(&self, from: usize, to: usize) {
        if let (Some(due), Some(any)) = (self.due.get(from * self.cores + to), self.any_due.get(from)) {
            due.store(true, Ordering::Relaxed);
            any.store(true, Ordering::Relaxed);
        }
    }

    /// Wakes all whom `from` has to wake and who sleep. Answers how many did.
    pub fn wake_due(&self, from: usize) -> u64 {
        let Some(any) = self.any_due.get(from).filter(|any| any.load(Ordering::Relaxed)) else { return 0 };
        any.store(false, Ordering::Relaxed);
        let of_core = self.due.iter().skip(from * self.cores).take(self.cores).enumerate();
        let due = of_core.filter(|(_, due)| due.load(Ordering::Relaxed));
        due.map(|(to, due)| {
            due.store(false, Ordering::Relaxed);
            u64::from(self.wake(to))
        })
        .sum()
    }

    /// Wakes `core` if it sleeps. Answers whether it did.
    pub fn wake(&self, core: usize) -> bool {
        let must = self.flags.get(core).is_some_and(|flag| flag.must_wake());
        if must {
            self.wake_now(core);
        }
        must
    }

    fn wake_now(&self, core: usize) {
        if let Some(waker) = self.wakers.get(core).and_then(OnceLock::get) {
            waker.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_lane_gives_the_message_back_whole() {
        let mesh = Mesh::new(2, 2);
        assert!(mesh.send(0, 1, "a").is_ok());
        assert!(mesh.send(0, 1, "b").is_ok());
        assert_eq!(mesh.send(0, 1, "c").unwrap_err().0, "c");
        assert_eq!(mesh.depth(1), 2);
        assert!(mesh.has_mail(1) && !mesh.has_mail(0));
        assert_eq!(
            (mesh.take_request(0, 1), mesh.take_request(0, 1), mesh.take_request(0, 1)),
            (Some("a"), Some("b"), None)
        );
    }

    #[test]
    fn replies_and_requests_do_not_share_room() {
        let mesh = Mesh::new(3, 1);
        mesh.send(0, 2, 1).unwrap();
        mesh.answer(0, 2, 2).unwrap();
        assert!(mesh.send(0, 2, 3).is_err() && mesh.answer(0, 2, 4).is_err());
        assert_eq!((mesh.take_reply(0, 2), mesh.take_request(0, 2)), (Some(2), Some(1)));
        assert_eq!(mesh.take_request(1, 2), None);
    }

    #[test]
    fn who_is_to_be_woken_later_is_woken_once_and_before_the_waker_sleeps() {
        let mesh: Mesh<u32> = Mesh::new(3, 4);
        mesh.before_sleep(1);
        mesh.before_sleep(2);
        mesh.wake_later(0, 1);
        mesh.wake_later(0, 1);
        mesh.wake_later(0, 2);
        // Of others' wakes a core knows nothing.
        assert_eq!((mesh.wake_due(1), mesh.wake_due(0), mesh.wake_due(0)), (0, 2, 0));
        mesh.before_sleep(1);
        mesh.wake_later(0, 1);
        assert_eq!(mesh.before_sleep(0), 1);
        // One that is awake needs no waking.
        mesh.after_sleep(1);
        mesh.wake_later(0, 1);
        assert_eq!(mesh.wake_due(0), 0);
    }

    #[test]
    fn only_a_sleeping_core_is_woken_and_once() {
        let mesh: Mesh<u32> = Mesh::new(2, 4);
        assert!(!mesh.wake(1));
        mesh.before_sleep(1);
        assert!(mesh.wake(1));
        assert!(!mesh.wake(1));
        mesh.before_sleep(1);
        mesh.after_sleep(1);
        assert!(!mesh.wake(1));
    }
}
