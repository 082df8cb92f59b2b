//! The admin port: is the process alive, may traffic come, and what do the counters say.
//!
//! These questions come from machines (an orchestrator, a metrics collector) over HTTP, and they must be answered also
//! while every core is busy, and must never make one busy. So the admin port has a thread and a runtime of its own,
//! which touches no core: it reads a flag and calls a function that renders the counters. It is bounded in every way:
//! how many connections, how large a request, how long it may all take. One connection carries one request.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::sync::{Semaphore, oneshot};

/// Connections served at a time; further ones wait in the listener's queue.
const CONNECTIONS_MAX: usize = 64;

/// How long one connection may take from its first byte to the last of the answer.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(5);

/// How long stopping waits for connections that are still open.
const STOP_TIME_MAX: Duration = Duration::from_secs(1);

/// The most bytes of a request's head. It is also the least that the HTTP library takes.
const HEAD_BYTES_MAX: usize = 8_192;

/// The most header lines of a request: collectors and probes send about ten.
const HEADER_LINES_MAX: usize = 64;

/// The pause after a refused accept. It is refused where file descriptors have run out, and asking again at once would
/// only burn the CPU that others need to give some back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The media type of the text exposition format, with the version that collectors look for.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

const INDEX: &str = "Tollgate\n\n\
    /livez    200 while the process lives\n\
    /readyz   200 while it serves clients, 503 otherwise\n\
    /metrics  counters in the Prometheus text format\n";

/// What the admin port answers from.
#[derive(Clone)]
pub struct AdminState {
    /// True while clients are served: not before every core has started, and not while the server stops.
    pub ready: Arc<AtomicBool>,
    /// What keeps clients from being served, in words that end a line; nothing: `None`. Called on the admin thread.
    pub hindrance: Arc<dyn Fn() -> Option<&'static str> + Send + Sync>,
    /// Renders the counters in the text exposition format 0.0.4. Called on the admin thread, once for each scrape.
    pub metrics: Arc<dyn Fn() -> String + Send + Sync>,
}

impl fmt::Debug for AdminState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("AdminState").field("ready", &self.ready).finish_non_exhaustive()
    }
}

/// The running admin port. Dropping it stops the port as [`AdminHandle::stop`] does.
#[derive(Debug)]
pub struct AdminHandle {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Serves the admin port on `address`; port 0 takes any that is free.
///
/// # Errors
///
/// The address is in use or not of this host, or there can be no further thread. The error names the address and the
/// setting to change.
pub fn spawn(address: SocketAddr, state: AdminState) -> io::Result<AdminHandle> {
    let listener = TcpListener::bind(address).map_err(|error| refusal(address, &error))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (stop, stopped) = oneshot::channel();
    let thread = std::thread::Builder::new().name("tollgate-admin".to_owned()).spawn(move || {
        if let Err(error) = runtime.block_on(serve(listener, routes(state), stopped)) {
            tracing::error!(%error, "the admin port has failed");
        }
    })?;
    Ok(AdminHandle { address, stop: Some(stop), thread: Some(thread) })
}

/// What the system said, with the address and what can be done about it.
fn refusal(address: SocketAddr, error: &io::Error) -> io::Error {
    let advice = "choose another with --admin-port or --admin-bind; --admin-port 0 is none";
    io::Error::new(error.kind(), format!("cannot serve the admin port on {address}: {error}; {advice}"))
}

impl AdminHandle {
    /// The address that is served, with its real port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no further connection, lets the open ones finish (1 s at most), and returns when the thread has ended.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if let Some(stop) = self.stop.take() {
            // A thread that has ended by itself is not there to be told.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            // It has nothing to give back, and a panic in it has said so itself.
            let _ = thread.join();
        }
    }
}

impl Drop for AdminHandle {
    fn drop(&mut self) {
        self.end();
    }
}

fn routes(state: AdminState) -> Router {
    Router::new()
        .route("/", get(|| async { INDEX }))
        .route("/livez", get(|| async { "alive\n" }))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .fallback(|| async { (StatusCode::NOT_FOUND, "not found; / lists what is here\n") })
        .method_not_allowed_fallback(|| async { (StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are served\n") })
        .with_state(state)
}

async fn readyz(State(state): State<AdminState>) -> Response {
    let hindrance = match state.ready.load(Ordering::Acquire) {
        true => (state.hindrance)(),
        false => Some("the server is starting or stopping"),
    };
    match hindrance {
        None => (StatusCode::OK, "ready\n").into_response(),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {why}\n")).into_response(),
    }
}

async fn metrics(State(state): State<AdminState>) -> Response {
    ([(header::CONTENT_TYPE, METRICS_TYPE)], (state.metrics)()).into_response()
}

/// Accepts until told to stop, then waits for what is open.
async fn serve(listener: TcpListener, routes: Router, mut stopped: oneshot::Receiver<()>) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = tokio::select! {
            biased;
            _ = &mut stopped => break,
            accepted = accept(&listener, &places) => accepted,
        };
        let Some((socket, place)) = accepted else { continue };
        let routes = routes.clone();
        tokio::spawn(async move {
            answer(socket, routes).await;
            drop(place);
        });
    }
    drop(listener);
    // Every place free again means that every connection has ended.
    let all_places = u32::try_from(CONNECTIONS_MAX).unwrap_or(u32::MAX);
    let _ = tokio::time::timeout(STOP_TIME_MAX, places.acquire_many(all_places)).await;
    Ok(())
}

/// The next connection and its place among [`CONNECTIONS_MAX`]; none if accepting was refused.
async fn accept(
    listener: &tokio::net::TcpListener,
    places: &Arc<Semaphore>,
) -> Option<(tokio::net::TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let place = places.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((socket, _)) => Some((socket, place)),
        Err(error) => {
            tracing::warn!(%error, "a connection to the admin port could not be accepted");
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}

async fn answer(socket: tokio::net::TcpStream, routes: Router) {
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(CONNECTION_TIME_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADER_LINES_MAX)
        .keep_alive(false)
        // A client that has said all it wants to say still gets its answer.
        .half_close(true)
        .serve_connection(TokioIo::new(socket), TowerToHyperService::new(routes));
    // Whoever is too slow, too large or gone is cut off; there is nobody left to tell.
    let _: Result<Result<(), hyper::Error>, _> = tokio::time::timeout(CONNECTION_TIME_MAX, connection).await;
}

#[cfg(test)]
mod tests;
