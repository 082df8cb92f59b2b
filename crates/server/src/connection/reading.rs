//! How a connection waits for what comes next: bytes, or the end.

use super::{AUTHENTICATION_TIME, Connection, Ending, Stream};
use crate::wire::Sending;
use crate::worker::READ_BYTES;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;

/// A command that has begun to arrive must be whole after this long.
const PARTIAL_COMMAND_TIME: Duration = Duration::from_secs(30);

/// What a connection waited for.
pub(super) enum Input {
    /// So many bytes, which are held now, behind those of a command that was not whole.
    Bytes(usize),
    /// The client does not take its replies.
    Stalled,
    /// Nothing more comes.
    End,
}

impl<S: Stream> Connection<S> {
    /// Whether the next event can only be one of its own stream, at whatever time, as it is for nearly every read.
    #[inline]
    pub(super) fn waits_for_bytes_only(&self) -> bool {
        self.session.authenticated
            && self.partial_since.is_none()
            && self.monitor.is_none()
            && self.worker.idle_timeout().is_none()
    }

    /// What comes next otherwise.
    pub(super) async fn uncommon_input(&mut self) -> Input {
        match self.monitor {
            None => self.input_in_time().await,
            Some(_) => self.input_or_lines().await,
        }
    }

    /// Takes note of bytes that have come.
    #[inline]
    pub(super) fn note_input(&mut self, count: usize) {
        let bytes = u64::try_from(count).unwrap_or(0);
        self.worker.core.borrow().counters.net_input_bytes.add(bytes);
        let client = &self.session.client;
        client.input_bytes.set(client.input_bytes.get() + bytes);
        self.note_query(&self.held);
        self.regain_outbox();
    }

    /// Waits for the next bytes and holds them, behind those of a command that is not whole yet.
    pub(super) fn poll_input(&mut self, context: &mut Context<'_>) -> Poll<Input> {
        let is_over = self.worker.is_stopping() || self.is_killed();
        match self.wire.sending() {
            Sending::Done if is_over => {
                if self.worker.is_stopping() {
                    self.ending = Some(Ending::Linger);
                }
                Poll::Ready(Input::End)
            }
            Sending::Done => self.poll_bytes(context),
            // Nothing is read from a client whose replies have not left; for most, nothing more has come by then.
            Sending::InTurn | Sending::Awaited => {
                if is_over || self.wire.poll_readable(context).is_ready() {
                    self.wire.await_turn();
                }
                Poll::Pending
            }
            Sending::Stalled => Poll::Ready(Input::Stalled),
            Sending::Failed => Poll::Ready(Input::End),
        }
    }

    /// Reads into a buffer that it holds only while there is something to read, so that an idle client has none.
    fn poll_bytes(&mut self, context: &mut Context<'_>) -> Poll<Input> {
        // Much is read into where it lies, so that a large command that comes byte by byte is not copied each time;
        // a little is copied, so that a thousand clients with half a command each do not hold a buffer each.
        let holds = self.held.len() >= READ_BYTES;
        let mut buffer = if holds { std::mem::take(&mut self.held) } else { self.worker.take_buffer() };
        buffer.extend_from_slice(&self.held);
        buffer.reserve(READ_BYTES);
        match self.wire.poll_read(context, &mut buffer) {
            Poll::Ready(Ok(count)) if count > 0 => {
                self.held = buffer;
                Poll::Ready(Input::Bytes(count))
            }
            Poll::Ready(_) => Poll::Ready(Input::End),
            Poll::Pending => {
                if holds {
                    self.held = buffer;
                } else {
                    self.worker.give_buffer(buffer);
                }
                Poll::Pending
            }
        }
    }

    /// What comes next, if it comes in time. The time of a client begins when its replies have left.
    pub(super) async fn input_in_time(&mut self) -> Input {
        std::future::poll_fn(|_| match self.wire.sending() {
            Sending::InTurn | Sending::Awaited => {
                self.wire.await_turn();
                Poll::Pending
            }
            Sending::Done | Sending::Stalled | Sending::Failed => Poll::Ready(()),
        })
        .await;
        let authentication = (!self.session.authenticated).then(|| self.unauthenticated_since + AUTHENTICATION_TIME);
        let partial = self.partial_since.map(|since| since + PARTIAL_COMMAND_TIME);
        // Who watches others has nothing to say.
        let idle = self.worker.idle_timeout().filter(|_| !self.session.client.state.monitors.get());
        let idle = idle.map(|timeout| Instant::now() + timeout);
        let deadline = [authentication, partial, idle].into_iter().flatten().min();
        let input = std::future::poll_fn(|context| self.poll_input(context));
        let Some(deadline) = deadline else { return input.await };
        tokio::time::timeout_at(deadline, input).await.unwrap_or_else(|_| {
            self.worker.core.borrow().counters.slow_disconnections.add(1);
            Input::End
        })
    }

    /// Keeps what belongs to a command that is not whole yet, from `start` on: where it lies if it is much, else in
    /// memory of its own size. Nothing else is held now.
    #[inline]
    pub(super) fn hold(&mut self, buffer: Vec<u8>, start: usize) {
        if start == buffer.len() && !self.parser.is_mid_command() {
            // As it is after nearly every read.
            self.worker.give_buffer(buffer);
            self.partial_since = None;
        } else {
            self.hold_partial(buffer, start);
        }
        self.note_query(&self.held);
    }

    #[inline(never)]
    fn hold_partial(&mut self, buffer: Vec<u8>, start: usize) {
        if start == 0 && buffer.len() >= READ_BYTES {
            self.held = buffer;
        } else {
            self.held = buffer.get(start..).unwrap_or_default().to_vec();
            self.worker.give_buffer(buffer);
        }
        self.partial_since = self.partial_since.or_else(|| Some(Instant::now()));
    }
}
