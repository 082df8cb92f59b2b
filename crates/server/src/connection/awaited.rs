//! What a command waits for before it is answered: replicas, a snapshot, the cluster.

use super::{Connection, Ending, Stream};
use crate::{flows, wishes};
use tollgate_engine::cluster::wish::ClusterWish;

/// What a command is answered after.
#[derive(Clone, Debug)]
pub(super) enum Awaited {
    /// So many replicas that know, or so many milliseconds.
    Replicas { count: u64, timeout: u64 },
    /// The snapshot of this number.
    Snapshot(u64),
    /// What an operator wants of the cluster.
    Wish(Box<ClusterWish>),
}

/// What came of it.
enum Answer {
    Number(u64),
    Simple(String),
    Error(String),
}

const NOT_WRITTEN: &str = "ERR the snapshot could not be written: the server's log says why";

impl<S: Stream> Connection<S> {
    /// Answers WAIT in the middle of a transaction, where nothing is waited for.
    pub(crate) fn answer_at_once(&mut self) {
        if let Some(Awaited::Replicas { .. }) = self.awaited.take() {
            let known = self.worker.hub.replicas.known_now();
            self.reply().integer(i64::try_from(known).unwrap_or(0));
        }
    }

    /// Answers what has to be waited for, unless the client leaves before. What was answered before it leaves at once.
    #[expect(clippy::await_holding_refcell_ref, reason = "a connection that waits neither reads nor writes")]
    pub(super) async fn answer_after(&mut self, awaited: Awaited) {
        if self.flush().await.is_err() {
            self.ending = Some(Ending::Cut);
            return;
        }
        let (worker, wire) = (self.worker.clone(), self.wire.clone());
        let stream = wire.stream().borrow();
        let happens = async {
            match awaited {
                Awaited::Replicas { count, timeout } => Answer::Number(flows::wait(&worker, count, timeout).await),
                Awaited::Snapshot(number) => match worker.hub.saving.wait(number).await {
                    true => Answer::Simple("OK".to_owned()),
                    false => Answer::Error(NOT_WRITTEN.to_owned()),
                },
                Awaited::Wish(wish) => match wishes::carry_out(&worker, *wish).await {
                    Ok(text) => Answer::Simple(text),
                    Err(text) => Answer::Error(text),
                },
            }
        };
        tokio::select! {
            biased;
            () = stream.gone() => self.ending = Some(Ending::Cut),
            answer = happens => match answer {
                Answer::Number(known) => self.reply().integer(i64::try_from(known).unwrap_or(0)),
                Answer::Simple(text) => self.reply().simple(&text),
                Answer::Error(text) => self.answer_text(&text),
            },
        }
    }
}
