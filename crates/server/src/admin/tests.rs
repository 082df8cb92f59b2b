//! The admin port as seen from a raw socket.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::AtomicUsize;

use super::*;

/// An admin port whose metrics count the scrapes.
fn start(is_ready: bool) -> (AdminHandle, Arc<AtomicBool>) {
    let ready = Arc::new(AtomicBool::new(is_ready));
    let scrapes = AtomicUsize::new(0);
    let metrics = Arc::new(move || format!("scrapes_total {}\n", scrapes.fetch_add(1, Ordering::Relaxed)));
    let handle = spawn(
        SocketAddr::from(([127, 0, 0, 1], 0)),
        AdminState { ready: ready.clone(), hindrance: Arc::new(|| None), metrics },
    )
    .unwrap();
    (handle, ready)
}

fn connect(handle: &AdminHandle) -> TcpStream {
    let socket = TcpStream::connect(handle.address()).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket
}

/// Everything that comes back for `request` until the port closes the connection.
fn exchange(handle: &AdminHandle, request: &str) -> String {
    let mut socket = connect(handle);
    // A request that is refused early may find the connection closed while it is still being written.
    let _ = socket.write_all(request.as_bytes());
    let mut answer = Vec::new();
    let _ = socket.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

fn request(method: &str, path: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: tollgate\r\n\r\n")
}

#[test]
fn paths_and_methods_get_their_answers() {
    let (handle, _ready) = start(true);
    for (method, path, status, part) in [
        ("GET", "/livez", "200 OK", "\r\n\r\nalive\n"),
        ("GET", "/readyz", "200 OK", "\r\n\r\nready\n"),
        ("GET", "/metrics", "200 OK", "\r\n\r\nscrapes_total 0\n"),
        ("GET", "/metrics?name=x", "200 OK", "\r\n\r\nscrapes_total 1\n"),
        ("GET", "/", "200 OK", "/livez    200 while the process lives"),
        ("HEAD", "/livez", "200 OK", "content-length: 6"),
        ("GET", "/nothing", "404 Not Found", "not found"),
        ("GET", "/metrics/", "404 Not Found", "not found"),
        ("GET", "//", "404 Not Found", "not found"),
        ("POST", "/metrics", "405 Method Not Allowed", "allow: GET,HEAD"),
        ("DELETE", "/", "405 Method Not Allowed", "only GET"),
        ("OPTIONS", "/livez", "405 Method Not Allowed", "only GET"),
    ] {
        let answer = exchange(&handle, &request(method, path));
        let expected = format!("HTTP/1.1 {status}\r\n");
        assert!(answer.starts_with(&expected) && answer.contains(part), "{method} {path}: {answer}");
    }
}

#[test]
fn metrics_have_the_media_type_of_the_exposition_format() {
    let (handle, _ready) = start(true);
    let answer = exchange(&handle, &request("GET", "/metrics"));
    assert!(answer.contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{answer}");
}

#[test]
fn readiness_follows_the_flag_and_liveness_does_not() {
    let (handle, ready) = start(false);
    let status = |path: &str| exchange(&handle, &request("GET", path))[9..12].to_owned();
    assert_eq!((status("/readyz"), status("/livez")), ("503".to_owned(), "200".to_owned()));
    ready.store(true, Ordering::Release);
    assert_eq!((status("/readyz"), status("/livez")), ("200".to_owned(), "200".to_owned()));
    ready.store(false, Ordering::Release);
    let answer = exchange(&handle, &request("GET", "/readyz"));
    assert!(answer.contains("not ready: the server is starting or stopping"), "{answer}");
}

#[test]
fn too_large_or_broken_heads_are_refused() {
    let (handle, _ready) = start(true);
    let long_line = format!("GET /livez HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(100_000));
    let many_lines = format!("GET /livez HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(100));
    for (bad, status) in [
        (long_line.as_str(), "431"),
        (many_lines.as_str(), "431"),
        ("*1\r\n$4\r\nPING\r\n", "400"),
        ("\0\0\r\n\r\n", "400"),
    ] {
        let answer = exchange(&handle, bad);
        // Where much was still unread the kernel may throw the answer away with the connection.
        assert!(answer.is_empty() || answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    }
    assert!(exchange(&handle, &request("GET", "/livez")).contains("alive"));
}

#[test]
fn a_client_that_closes_its_sending_side_still_gets_its_answer() {
    let (handle, _ready) = start(true);
    let mut socket = connect(&handle);
    socket.write_all(request("GET", "/livez").as_bytes()).unwrap();
    socket.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("alive\n"), "{answer}");
}

#[test]
fn silent_clients_are_cut_off_and_others_are_served_after_them() {
    let (handle, _ready) = start(true);
    // As many as there are places say nothing or half of something; the next one waits until they are cut off.
    let mut silent: Vec<TcpStream> = (0..CONNECTIONS_MAX).map(|_| connect(&handle)).collect();
    for socket in silent.iter_mut().step_by(2) {
        socket.write_all(b"GET /livez HTTP/1.1\r\nX-Slow: ").unwrap();
    }
    let began = std::time::Instant::now();
    assert!(exchange(&handle, &request("GET", "/livez")).contains("alive"));
    let waited = began.elapsed();
    assert!(waited < CONNECTION_TIME_MAX * 2, "{waited:?}");
    for mut socket in silent {
        let mut rest = Vec::new();
        socket.read_to_end(&mut rest).unwrap();
    }
}

#[test]
fn stopping_closes_the_port() {
    let (handle, _ready) = start(true);
    let address = handle.address();
    assert!(exchange(&handle, &request("GET", "/livez")).contains("alive"));
    handle.stop();
    assert!(TcpStream::connect(address).is_err());
    // And the address is free for the next one.
    TcpListener::bind(address).unwrap();
}

#[test]
fn a_silent_client_does_not_hold_up_the_end() {
    let (handle, _ready) = start(true);
    let _silent = connect(&handle);
    let began = std::time::Instant::now();
    handle.stop();
    assert!(began.elapsed() < CONNECTION_TIME_MAX, "{:?}", began.elapsed());
}

#[test]
fn an_address_in_use_is_an_error() {
    let (handle, _ready) = start(true);
    let state = AdminState {
        ready: Arc::new(AtomicBool::new(true)),
        hindrance: Arc::new(|| None),
        metrics: Arc::new(String::new),
    };
    let error = spawn(handle.address(), state).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    let text = error.to_string();
    assert!(text.contains(&handle.address().to_string()) && text.contains("--admin-port"), "{text}");
}
