//! How replies leave: with those of the others at the end of the turn, or at once.

use super::modes::{note_unsent, unless_killed};
use super::{AUTHENTICATION_TIME, Connection, Ending, Stream};
use crate::wire::Sending;
use std::io;
use std::task::Poll;
use std::time::Duration;
use tokio::time::Instant;
use tollgate_engine::bounds::OUTPUT_BYTES_MAX;

/// A client that takes none of its answers for this long is ended: what it does not read is memory.
const UNREAD_OUTPUT_TIME: Duration = Duration::from_secs(30);

impl<S: Stream> Connection<S> {
    /// Has all replies written at the end of this turn.
    pub(super) fn flush_in_turn(&mut self) -> io::Result<()> {
        if self.hand_over()? {
            self.wire.wait_for_turn(&self.worker);
        } else {
            self.worker.read_mail();
        }
        Ok(())
    }

    /// Writes all replies now.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        if !self.hand_over()? {
            return Ok(());
        }
        self.wire.write(&self.worker);
        if self.wire.sending() == Sending::InTurn {
            Box::pin(self.until_they_leave()).await?;
        }
        match self.wire.sending() {
            Sending::Stalled => Box::pin(self.write_rest()).await?,
            Sending::Failed => return Err(io::ErrorKind::BrokenPipe.into()),
            Sending::Done | Sending::InTurn | Sending::Awaited => {}
        }
        self.regain_outbox();
        Ok(())
    }

    /// Waits until replies that are kept back have left, or the client is ended.
    async fn until_they_leave(&mut self) -> io::Result<()> {
        std::future::poll_fn(|_| {
            let is_over = self.is_killed() || self.worker.is_halted();
            match self.wire.sending() {
                Sending::InTurn | Sending::Awaited if is_over => Poll::Ready(Err(io::ErrorKind::Interrupted.into())),
                Sending::InTurn | Sending::Awaited => {
                    self.wire.await_turn();
                    Poll::Pending
                }
                Sending::Done | Sending::Stalled | Sending::Failed => Poll::Ready(Ok(())),
            }
        })
        .await
    }

    /// Hands the replies over to where they leave from. Answers whether there were any.
    fn hand_over(&mut self) -> io::Result<bool> {
        if self.silent {
            self.outbox.clear();
        }
        if self.outbox.bytes.is_empty() || self.ending == Some(Ending::Cut) {
            return Ok(false);
        }
        if self.outbox.bytes.len() > OUTPUT_BYTES_MAX {
            self.cut_for_output();
            return Err(io::Error::other("the client's unread output passed its bound"));
        }
        let tells = std::mem::take(&mut self.tells);
        self.wire.hand_over(std::mem::take(&mut self.outbox.bytes), tells);
        Ok(true)
    }

    /// Takes the outbox's memory back, if it was handed over with the replies.
    pub(super) fn regain_outbox(&mut self) {
        if self.outbox.bytes.capacity() == 0 {
            self.outbox.bytes = self.wire.take_back();
        }
    }

    /// Writes what the client did not take at once. Only here is there a timer for it.
    pub(super) async fn write_rest(&mut self) -> io::Result<()> {
        while self.wire.sending() == Sending::Stalled {
            let stalled = Instant::now() + UNREAD_OUTPUT_TIME;
            let idle = self.worker.idle_timeout().map(|timeout| Instant::now() + timeout);
            let authentication = self.unauthenticated_since + AUTHENTICATION_TIME;
            let authentication = (!self.session.authenticated).then_some(authentication);
            let deadline = [idle, authentication].into_iter().flatten().fold(stalled, Instant::min);
            note_unsent(&self.session.client, self.wire.unsent());
            let write = std::future::poll_fn(|context| self.wire.poll_write(&self.worker, context));
            let write = unless_killed(&self.worker, &self.session.client, write);
            match tokio::time::timeout_at(deadline, write).await {
                Ok(result) => result?,
                Err(_) => {
                    self.worker.core.borrow().counters.slow_disconnections.add(1);
                    self.ending = Some(Ending::Cut);
                    return Err(io::ErrorKind::TimedOut.into());
                }
            }
            note_unsent(&self.session.client, 0);
        }
        Ok(())
    }
}
