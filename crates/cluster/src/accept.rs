//! The peer port: who is let in, and how requests come to the node.

use crate::bounds;
use crate::frame::{Channel, FrameError, Side};
use crate::hello::{self, HelloError};
use crate::peer::Peers;
use crate::wire::{Reply, Request};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tollgate_topology::NodeId;

/// Between two lines about connections that were closed, at least.
const LOG_EVERY_MICROS: u64 = 10_000_000;
/// After an accept that failed, for want of file descriptors for one.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// Who answers requests.
pub trait Answers: Send + Sync + 'static {
    /// Answers a request of a node; `group` is the one that the node says it is in.
    fn answer(&self, from: NodeId, group: &str, request: Request) -> impl Future<Output = Reply> + Send;
    /// A clock, in microseconds.
    fn now(&self) -> u64;
}

/// The door of the peer port.
pub struct Door<A> {
    peers: Arc<Peers>,
    answers: A,
    places: Arc<Semaphore>,
    unproven: Arc<Semaphore>,
    logged_at: AtomicU64,
}

/// Why a connection ended that somebody may want to know of.
#[derive(Debug, thiserror::Error)]
enum Closed {
    #[error("there is no cluster secret, so only nodes of this machine are let in")]
    NotLoopback,
    #[error("there are too many connections")]
    Full,
    #[error(transparent)]
    Hello(#[from] HelloError),
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("a request is not understood: {0}")]
    NotUnderstood(#[from] serde_json::Error),
    #[error("a request took too long")]
    Late,
}

impl<A: Answers> Door<A> {
    /// A door with nobody in it.
    pub fn new(peers: Arc<Peers>, answers: A) -> Door<A> {
        Door {
            peers,
            answers,
            places: Arc::new(Semaphore::new(bounds::CONNECTIONS_MAX)),
            unproven: Arc::new(Semaphore::new(bounds::UNPROVEN_MAX)),
            logged_at: AtomicU64::new(0),
        }
    }

    /// Lets nodes in, until the task ends.
    pub async fn attend(self: Arc<Self>, listener: TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, from)) => {
                    tokio::spawn(Arc::clone(&self).welcome(stream, from));
                }
                Err(error) => {
                    tracing::warn!(%error, "peer port: no connection can be taken");
                    tokio::time::sleep(ACCEPT_AGAIN_AFTER).await;
                }
            }
        }
    }

    async fn welcome(self: Arc<Self>, stream: TcpStream, from: SocketAddr) {
        if let Err(closed) = self.serve(stream, from).await {
            let now = self.answers.now();
            let last = self.logged_at.load(Ordering::Relaxed);
            if last == 0 || now.saturating_sub(last) >= LOG_EVERY_MICROS {
                self.logged_at.store(now, Ordering::Relaxed);
                tracing::warn!(%from, reason = %closed, "peer port: connection closed");
            }
        }
    }

    async fn serve(&self, stream: TcpStream, from: SocketAddr) -> Result<(), Closed> {
        if self.peers.secret().is_none() && !from.ip().to_canonical().is_loopback() {
            return Err(Closed::NotLoopback);
        }
        let _place = self.places.try_acquire().map_err(|_| Closed::Full)?;
        let unproven = self.unproven.try_acquire().map_err(|_| Closed::Full)?;
        stream.set_nodelay(true).map_err(FrameError::Io)?;
        let mut channel = Channel::new(stream, Side::Answers);
        let group = self.peers.group();
        let hello = hello::greet(&mut channel, &group, self.peers.id(), self.peers.secret()).await?;
        drop(unproven);
        loop {
            // A node that goes or has nothing to say for long is nothing to speak of.
            let waiting = tokio::time::timeout(bounds::IDLE_TIME_MAX, channel.receive_length(bounds::FRAME_BYTES_MAX));
            let length = match waiting.await {
                Err(_) | Ok(Err(FrameError::Io(_))) => return Ok(()),
                Ok(length) => length?,
            };
            let turn = tokio::time::timeout(bounds::REQUEST_TIME_MAX, self.take_turn(&mut channel, &hello, length));
            turn.await.map_err(|_| Closed::Late)??;
        }
    }

    async fn take_turn(
        &self,
        channel: &mut Channel<TcpStream>,
        hello: &hello::Hello,
        length: usize,
    ) -> Result<(), Closed> {
        let json = channel.receive_rest(length).await?;
        let request: Request = serde_json::from_slice(&json)?;
        let reply = self.answers.answer(hello.id, &hello.group, request).await;
        Ok(channel.send(&serde_json::to_vec(&reply)?).await?)
    }
}
