//! One core and one client in this thread, without a socket between them.
//!
//! The problem: what a batch of commands costs the server cannot be seen under the kernel's share of it. The idea: a
//! connection is generic over its stream, so one is served whose stream is the client itself. It runs what a core of
//! the server runs for a socket, from the bytes of a read to the bytes of a write.

use super::{StartError, assemble, random};
use crate::affinity::bind_thread_to;
use crate::clock::{boot_micros, thread_micros};
use crate::config::Config;
use crate::connection::{Connection, Peer};
use crate::huge_pages::HugePages;
use crate::stream::Stream;
use crate::worker::Worker;
use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::LocalOptions;
use tollgate_engine::core::{Core, Parts};
use tollgate_store::StoreConfig;

/// A client that calls from the server's own thread.
pub trait Client {
    /// Puts what the server reads next into `request`, which is empty. Left empty, the client has gone.
    fn request(&mut self, request: &mut Vec<u8>);
    /// Takes what the server writes.
    fn reply(&mut self, reply: &[u8]);
}

/// Serves one client on one core of `config`, in this thread, until it has gone; gives the client back. This thread
/// stays on `cpu` from then on.
///
/// # Errors
/// The system gives no randomness or no runtime, or there is no such CPU.
pub fn serve<C: Client + 'static>(config: Config, cpu: Option<usize>, client: C) -> Result<C, StartError> {
    let config = Config { cores: 1, ..config };
    let memory_max_bytes = config.memory_max_bytes;
    let eviction = config.eviction;
    let (hub, _deliveries) = assemble(config, 1, 0)?;
    let hash_seed = random().map_err(StartError::Random)?;
    let [random_seed, ..] = random().map_err(StartError::Random)?;
    let store = StoreConfig { hash_seed, core: 0, cores: 1, memory_max_bytes, eviction, random_seed };
    let huge_pages = HugePages::start().map_err(StartError::Thread)?;
    if let Some(cpu) = cpu {
        bind_thread_to(cpu).map_err(StartError::Thread)?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())
        .map_err(StartError::Thread)?;
    let client = Rc::new(RefCell::new(client));
    let lane = Lane { client: client.clone(), request: Vec::new(), read: 0 };
    let served = runtime.block_on(async move {
        let mut core = Core::new(Parts { settings: hub.settings.clone(), counters: hub.counters.clone(), store });
        core.store.set_step_meter(thread_micros);
        core.timing.set_clock(boot_micros);
        let worker = Rc::new(Worker::new(core, hub));
        let renewing = tokio::task::spawn_local(huge_pages.serve(worker.clone()));
        let peer = Peer { address: "in-process:0".to_owned(), local_address: "in-process:0".to_owned() };
        let served = tokio::task::spawn_local(async move { Connection::new(worker, lane, peer).run().await }).await;
        renewing.abort();
        served
    });
    drop(runtime);
    let client = Rc::into_inner(client).map(RefCell::into_inner);
    client.filter(|_| served.is_ok()).ok_or(StartError::CoreFailed)
}

/// The client as a stream: there is always something to read until it has gone, and always room to write.
struct Lane<C> {
    client: Rc<RefCell<C>>,
    request: Vec<u8>,
    read: usize,
}

impl<C: Client> AsyncRead for Lane<C> {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let lane = self.get_mut();
        if lane.read == lane.request.len() {
            lane.request.clear();
            lane.read = 0;
            lane.client.borrow_mut().request(&mut lane.request);
        }
        let rest = lane.request.get(lane.read..).unwrap_or_default();
        let count = rest.len().min(buffer.remaining());
        buffer.put_slice(rest.get(..count).unwrap_or_default());
        lane.read += count;
        Poll::Ready(Ok(()))
    }
}

impl<C: Client> AsyncWrite for Lane<C> {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.client.borrow_mut().reply(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl<C: Client + 'static> Stream for Lane<C> {
    fn descriptor(&self) -> i32 {
        -1
    }

    async fn gone(&self) {
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ServeArguments;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        serve: ServeArguments,
    }

    /// Sends what it holds, one string a read.
    struct Script {
        requests: Vec<Vec<u8>>,
        replies: Vec<u8>,
    }

    impl Client for Script {
        fn request(&mut self, request: &mut Vec<u8>) {
            request.extend(self.requests.pop().unwrap_or_default());
        }

        fn reply(&mut self, reply: &[u8]) {
            self.replies.extend_from_slice(reply);
        }
    }

    #[test]
    fn a_client_without_a_socket_is_served_like_any_other() {
        let arguments = Command::parse_from(["serve", "--test-clock"]);
        let config = arguments.serve.load(std::iter::empty(), &[0]).unwrap().config;
        let value = vec![b'v'; 60_000];
        let mut set = b"*3\r\n$3\r\nSET\r\n$1\r\nb\r\n$60000\r\n".to_vec();
        set.extend_from_slice(&value);
        set.extend_from_slice(b"\r\n*2\r\n$6\r\nSTRLEN\r\n$1\r\nb\r\n");
        let calls = b"RL.SLIDE a 2 10\r\nRL.SLIDE a 2 10\r\nRL.SLIDE a 2 10\r\n".to_vec();
        let served = serve(config, None, Script { requests: vec![set, calls], replies: Vec::new() }).unwrap();
        let five = |five: [i64; 5]| format!("*5\r\n{}", five.map(|number| format!(":{number}\r\n")).concat());
        let [first, second, third] = [[1, 2, 1, 0, 20_000], [1, 2, 0, 0, 20_000], [0, 2, 0, 10_001, 20_000]].map(five);
        let expected = format!("{first}{second}{third}+OK\r\n:60000\r\n");
        assert_eq!(String::from_utf8_lossy(&served.replies), expected);
    }
}
