//! From a listening socket to a served connection: who is let in, and on which core.

use crate::connection::{Connection, Peer};
use crate::flows;
use crate::hub::{Fresh, FreshFlow};
use crate::stream::Stream;
use crate::worker::Worker;
use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tollgate_engine::tunables::Tunable;

/// After a failed accept (no file descriptors left, mostly) the next try waits this long.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// A refused client gets this long to take its refusal.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);

const TOO_MANY: &[u8] = b"-ERR max number of clients reached\r\n";
const DENIED: &[u8] =
    b"-DENIED Tollgate is running in protected mode because no password is set. In this mode connections \
are only accepted from the loopback interface. To serve other hosts, set a password with --requirepass, or switch \
protected mode off with --protected-mode no.\r\n";

/// Accepts TCP connections for ever.
pub async fn accept_tcp(worker: Rc<Worker>, listener: std::net::TcpListener) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "cannot watch a listening socket"),
    };
    loop {
        let accepted = async {
            let (stream, peer) = listener.accept().await?;
            let local = stream.local_addr()?;
            Ok::<_, io::Error>((stream, peer, local))
        };
        match accepted.await {
            Ok((stream, peer, local)) => place_tcp(&worker, stream, peer, local),
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Accepts connections of the Unix socket for ever, on one core, which spreads them.
pub async fn accept_unix(worker: Rc<Worker>, listener: std::os::unix::net::UnixListener) {
    let listener = match UnixListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "cannot watch the unix socket"),
    };
    loop {
        match listener.accept().await {
            Ok((stream, _)) => place_unix(&worker, stream),
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn place_tcp(worker: &Rc<Worker>, stream: TcpStream, peer: SocketAddr, local: SocketAddr) {
    let from_outside = !peer.ip().to_canonical().is_loopback();
    if from_outside && worker.hub.config.protected_mode && worker.hub.config.password.is_none() {
        return refuse(worker, stream, DENIED);
    }
    if worker.hub.clients() >= worker.hub.clients_max {
        return refuse(worker, stream, TOO_MANY);
    }
    prepare(worker, &stream);
    let core = worker.hub.place(worker.index);
    if core == worker.index {
        return serve(worker, stream, tcp_peer(peer, local));
    }
    match stream.into_std() {
        Ok(stream) => hand_over(worker, core, Fresh::Tcp(stream, peer, local)),
        Err(error) => {
            worker.hub.remove_load(core);
            tracing::warn!(%error, "cannot hand a connection over");
        }
    }
}

fn place_unix(worker: &Rc<Worker>, stream: UnixStream) {
    if worker.hub.clients() >= worker.hub.clients_max {
        return refuse(worker, stream, TOO_MANY);
    }
    let core = worker.hub.place(worker.index);
    if core == worker.index {
        let peer = unix_peer(worker);
        return serve(worker, stream, peer);
    }
    match stream.into_std() {
        Ok(stream) => hand_over(worker, core, Fresh::Unix(stream)),
        Err(error) => {
            worker.hub.remove_load(core);
            tracing::warn!(%error, "cannot hand a connection over");
        }
    }
}

fn hand_over(worker: &Rc<Worker>, core: usize, fresh: Fresh) {
    match worker.hub.hand_over(core, fresh) {
        Ok(()) => worker.core.borrow().counters.connections_handed_on.add(1),
        // Too many wait there: it is dropped, and its client comes again.
        Err(_) => {
            worker.hub.remove_load(core);
            worker.core.borrow().counters.connections_rejected.add(1);
        }
    }
}

/// Serves a connection that another core accepted and this one was chosen for.
pub fn spawn(worker: Rc<Worker>, fresh: Fresh) {
    let counts = !matches!(fresh, Fresh::Flow(..));
    let started = match fresh {
        Fresh::Tcp(stream, peer, local) => {
            TcpStream::from_std(stream).map(|stream| serve(&worker, stream, tcp_peer(peer, local)))
        }
        Fresh::Flow(flow) => {
            let FreshFlow { stream, follower, has } = *flow;
            TcpStream::from_std(stream).map(|stream| {
                tokio::task::spawn_local(flows::serve(worker.clone(), stream, follower, has));
            })
        }
        Fresh::Unix(stream) => {
            let peer = unix_peer(&worker);
            UnixStream::from_std(stream).map(|stream| serve(&worker, stream, peer))
        }
    };
    if let Err(error) = started {
        if counts {
            worker.hub.remove_load(worker.index);
        }
        tracing::warn!(%error, "cannot take a connection over");
    }
}

fn serve<S: Stream>(worker: &Rc<Worker>, stream: S, peer: Peer) {
    {
        let core = worker.core.borrow();
        core.counters.connections_accepted.add(1);
        core.counters.connections.set(core.counters.connections.get() + 1);
    }
    // Its future is the task itself: one that only waits for it would be polled each time too.
    tokio::task::spawn_local(Connection::new(worker.clone(), stream, peer).run());
}

fn refuse<S: Stream>(worker: &Rc<Worker>, mut stream: S, text: &'static [u8]) {
    worker.core.borrow().counters.connections_rejected.add(1);
    tokio::task::spawn_local(async move {
        let say = async {
            let _ = stream.write_all(text).await;
            let _ = stream.shutdown().await;
        };
        let _ = tokio::time::timeout(REFUSAL_TIMEOUT, say).await;
    });
}

fn prepare(worker: &Worker, stream: &TcpStream) {
    // Neither can fail in a way that keeps the connection from being served.
    let _ = stream.set_nodelay(true);
    let seconds = worker.hub.settings.tunables.count(Tunable::TcpKeepalive);
    if seconds > 0 {
        let interval = Duration::from_secs(seconds);
        let keepalive = TcpKeepalive::new().with_time(interval).with_interval(interval / 3).with_retries(3);
        let _ = SockRef::from(stream).set_tcp_keepalive(&keepalive);
    }
}

fn tcp_peer(peer: SocketAddr, local: SocketAddr) -> Peer {
    Peer { address: peer.to_string(), local_address: local.to_string() }
}

fn unix_peer(worker: &Worker) -> Peer {
    let path = worker.hub.config.unix_socket.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
    Peer { address: format!("{path}:0"), local_address: format!("{path}:0") }
}
