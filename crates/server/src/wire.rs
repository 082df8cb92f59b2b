//! A client's stream, and the replies that are on their way to it.
//!
//! Two write to a stream: its connection, and at the end of a turn the core, for all connections that have replies
//! ([`crate::turn`]). They share this. One of the two has it at a time: from when the connection hands replies over
//! until all of them have left, the connection neither reads nor runs anything.

use crate::gate::{Held, Tells};
use crate::stream::Stream;
use crate::turn::Due;
use crate::worker::Worker;
use std::cell::{Cell, RefCell};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::io::AsyncReadExt;
use tollgate_engine::session::Client;
use tollgate_resp::{Protocol, Reply, count_replies};

/// Replies of a client that take more memory than this give it back after they have left.
const KEPT_BYTES_MAX: usize = 16 * 1024;

/// Where the replies are that were handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sending {
    /// All have left.
    Done,
    /// They leave at the end of this turn, or once they may.
    InTurn,
    /// As above, and then the connection is to be woken.
    Awaited,
    /// The stream did not take all of them at once: the connection writes the rest.
    Stalled,
    /// They cannot leave, and the connection is over.
    Failed,
}

/// A client's stream and the replies on their way to it.
pub struct Wire<S> {
    stream: RefCell<S>,
    client: Rc<Client>,
    sending: Cell<Sending>,
    tells: Cell<Tells>,
    replies: Cell<Vec<u8>>,
    /// How many bytes of them the stream has taken.
    written: Cell<usize>,
}

impl<S: Stream> Wire<S> {
    /// With no replies on their way.
    pub fn new(stream: S, client: Rc<Client>) -> Wire<S> {
        let (stream, sending) = (RefCell::new(stream), Cell::new(Sending::Done));
        Wire { stream, client, sending, tells: Cell::default(), replies: Cell::default(), written: Cell::new(0) }
    }

    /// The stream, for the connection, as long as no replies are on their way.
    pub fn stream(&self) -> &RefCell<S> {
        &self.stream
    }

    /// Where the replies are.
    #[inline]
    pub fn sending(&self) -> Sending {
        self.sending.get()
    }

    /// Takes replies over; `tells`: of keys, so that they may have to wait. Those before them have left.
    #[inline]
    pub fn hand_over(&self, replies: Vec<u8>, tells: Tells) {
        self.replies.set(replies);
        self.tells.set(tells);
        self.written.set(0);
    }

    /// The memory of replies that have left, for the next ones.
    #[inline]
    pub fn take_back(&self) -> Vec<u8> {
        self.replies.take()
    }

    /// Leaves the replies to the end of the turn.
    #[inline]
    pub fn wait_for_turn(self: &Rc<Self>, worker: &Worker) {
        self.sending.set(Sending::InTurn);
        worker.turn.add(self.clone());
    }

    /// Has the connection woken when the replies have left at the end of this turn.
    pub fn await_turn(&self) {
        self.sending.set(Sending::Awaited);
    }

    /// Writes the replies, if they may leave; else that is done once they may.
    #[inline(always)]
    pub fn write(self: &Rc<Self>, worker: &Rc<Worker>) {
        if worker.gate.lets_out(worker, self.tells.get(), || self.keep_back()) {
            self.write_out(worker);
        }
    }

    #[cold]
    fn keep_back(self: &Rc<Self>) -> Held {
        // Whoever waits for them looks at this only, and finds it so until they have left.
        if self.sending.get() == Sending::Done {
            self.sending.set(Sending::InTurn);
        }
        Held::Replies(self.clone())
    }

    /// Writes the replies, as far as the stream takes them at once.
    #[inline]
    fn write_out(&self, worker: &Worker) {
        let replies = self.replies.take();
        let is_awaited = self.sending.get() == Sending::Awaited;
        let written = match self.stream.borrow_mut().try_write(&replies) {
            Ok(written) => written,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(_) => return self.stop(worker, Sending::Failed, replies),
        };
        if written < replies.len() {
            self.written.set(written);
            return self.stop(worker, Sending::Stalled, replies);
        }
        self.finish(worker, replies);
        if is_awaited {
            worker.wake_client(self.client.id);
        }
    }

    #[cold]
    fn stop(&self, worker: &Worker, why: Sending, replies: Vec<u8>) {
        self.replies.set(replies);
        self.sending.set(why);
        worker.wake_client(self.client.id);
    }

    #[inline]
    fn finish(&self, worker: &Worker, mut replies: Vec<u8>) {
        let bytes = u64::try_from(replies.len()).unwrap_or(0);
        worker.core.borrow().counters.net_output_bytes.add(bytes);
        self.client.output_bytes.set(self.client.output_bytes.get() + bytes);
        replies.clear();
        replies.shrink_to(KEPT_BYTES_MAX);
        self.replies.set(replies);
        self.sending.set(Sending::Done);
    }

    /// How many bytes a stalled stream has yet to take.
    pub fn unsent(&self) -> usize {
        let replies = self.replies.take();
        let unsent = replies.len().saturating_sub(self.written.get());
        self.replies.set(replies);
        unsent
    }

    /// Writes some of what a stalled stream has yet to take.
    pub fn poll_write(&self, worker: &Worker, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let (replies, written) = (self.replies.take(), self.written.get());
        let rest = replies.get(written..).unwrap_or_default();
        let poll = Pin::new(&mut *self.stream.borrow_mut()).poll_write(context, rest);
        let is_all = matches!(poll, Poll::Ready(Ok(count)) if count == rest.len());
        if is_all {
            self.finish(worker, replies);
        } else {
            self.replies.set(replies);
        }
        let count = ready!(poll)?;
        self.written.set(written + count);
        Poll::Ready(if count > 0 { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) })
    }

    /// Reads what has come, behind what is in `buffer`. No bytes: the client has ended its side.
    #[inline]
    pub fn poll_read(&self, context: &mut Context<'_>, buffer: &mut Vec<u8>) -> Poll<io::Result<usize>> {
        // The future of read_buf keeps nothing between polls, so a new one for each poll is as good.
        pin!(self.stream.borrow_mut().read_buf(buffer)).poll(context)
    }

    /// Whether something may have come. If not, the calling task is woken when it does.
    #[inline]
    pub fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()> {
        self.stream.borrow().poll_readable(context)
    }

    /// Tells the client that nothing more comes.
    pub async fn shut_down(&self) -> io::Result<()> {
        std::future::poll_fn(|context| Pin::new(&mut *self.stream.borrow_mut()).poll_shutdown(context)).await
    }
}

impl<S: Stream> Due for Wire<S> {
    fn write(self: Rc<Self>, worker: &Rc<Worker>) {
        Wire::write(&self, worker);
    }

    fn tells(&self) -> Tells {
        self.tells.get()
    }

    fn leave(&self, worker: &Worker) {
        self.write_out(worker);
    }

    fn refuse(&self, worker: &Worker, text: &str) {
        let replies = self.replies.take();
        let mut errors = Vec::new();
        for _ in 0..count_replies(&replies) {
            // An error is the same in both protocols.
            Reply::new(&mut errors, Protocol::Resp2).error(text);
            worker.core.borrow().counters.replied_error(text.as_bytes());
        }
        self.replies.set(errors);
        self.write_out(worker);
    }
}
