//! Ports that are had by one server only, and sockets in the file system that are not taken from the living.

use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use clap::{Args, FromArgMatches};

use super::*;
use crate::config::ServeArguments;
use crate::testing::Scratch;

fn config(flags: &[&str]) -> Config {
    let command = ServeArguments::augment_args(clap::Command::new("serve").no_binary_name(true));
    let arguments = ServeArguments::from_arg_matches(&command.get_matches_from(flags)).unwrap();
    arguments.load([], &[0]).unwrap().config
}

fn open(flags: &[&str]) -> Result<Listeners, String> {
    Listeners::open(&config(flags)).map_err(|error| error.to_string())
}

/// The connections that wait at a listener.
fn waiting(listener: &TcpListener) -> usize {
    std::iter::from_fn(|| listener.accept().ok()).count()
}

#[test]
fn every_core_has_a_listener_at_every_address_on_one_port() {
    for (cores, bind) in [(1, "127.0.0.1"), (2, "127.0.0.1"), (4, "127.0.0.1 127.0.0.2"), (3, "127.0.0.1 ::1")] {
        let listeners = open(&["--port", "0", "--bind", bind, "--cores", &cores.to_string()]).unwrap();
        assert_ne!(listeners.port, 0);
        assert_eq!(listeners.per_core.len(), cores);
        for core in &listeners.per_core {
            let served: Vec<SocketAddr> = core.iter().map(|listener| listener.local_addr().unwrap()).collect();
            let expected: Vec<SocketAddr> =
                config(&["--bind", bind]).bind.iter().map(|&ip| SocketAddr::new(ip, listeners.port)).collect();
            assert_eq!(served, expected);
        }
    }
}

#[test]
fn connections_reach_every_core() {
    let listeners = open(&["--port", "0", "--cores", "4"]).unwrap();
    let address = SocketAddr::from(([127, 0, 0, 1], listeners.port));
    let clients: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(address).unwrap()).collect();
    let counts: Vec<usize> = listeners.per_core.iter().flatten().map(waiting).collect();
    assert_eq!(counts.iter().sum::<usize>(), clients.len(), "{counts:?}");
    assert!(counts.iter().all(|&count| count > 0), "{counts:?}");
}

#[test]
fn a_second_server_is_refused_whatever_either_has_as_cores() {
    for (first, second) in [("1", "1"), ("1", "4"), ("4", "1"), ("4", "4")] {
        let held = open(&["--port", "0", "--cores", first]).unwrap();
        let port = held.port.to_string();
        for bind in ["127.0.0.1", "0.0.0.0"] {
            let error = open(&["--port", &port, "--cores", second, "--bind", bind]).unwrap_err();
            assert!(error.starts_with(&format!("{bind}:{port} is already in use")), "{error}");
            assert!(error.contains("--port") && error.contains(&format!("redis-cli -p {port} INFO server")), "{error}");
        }
        drop(held);
        open(&["--port", &port, "--cores", second]).unwrap();
    }
}

#[test]
fn of_many_that_start_at_once_one_gets_the_port() {
    for _ in 0..20 {
        let port = open(&["--port", "0"]).unwrap().port.to_string();
        let started: Vec<Result<Listeners, String>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| open(&["--port", &port, "--cores", "3"]))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let winners = started.iter().filter(|result| result.is_ok()).count();
        assert_eq!(winners, 1, "{started:?}");
    }
}

#[test]
fn a_port_of_a_server_that_shares_at_once_is_refused_too() {
    let other = listening_socket(SocketAddr::from(([127, 0, 0, 1], 0)), true).unwrap();
    let port = address_of(&other).unwrap().port().to_string();
    let error = open(&["--port", &port, "--cores", "2"]).unwrap_err();
    assert!(error.contains("already in use"), "{error}");
}

#[test]
fn a_port_can_be_taken_while_old_connections_linger() {
    let held = open(&["--port", "0", "--cores", "2"]).unwrap();
    let port = held.port.to_string();
    let client = TcpStream::connect(("127.0.0.1", held.port)).unwrap();
    let accepted: Vec<_> = held.per_core.iter().flatten().filter_map(|listener| listener.accept().ok()).collect();
    assert_eq!(accepted.len(), 1);
    // The server closes first, so its end of the connection is what lingers.
    drop((accepted, held));
    drop(client);
    open(&["--port", &port, "--cores", "2"]).unwrap();
}

#[test]
fn an_address_of_another_host_is_an_error() {
    let error = open(&["--port", "0", "--bind", "192.0.2.1"]).unwrap_err();
    assert!(error.contains("is not an address of this host") && error.contains("--bind"), "{error}");
}

#[test]
fn listeners_do_not_block() {
    let listeners = open(&["--port", "0", "--cores", "2"]).unwrap();
    for listener in listeners.per_core.iter().flatten() {
        assert_eq!(listener.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}

fn open_path(path: &Path, more: &[&str]) -> Result<Listeners, String> {
    let mut flags = vec!["--bind", "", "--cores", "2", "--unixsocket", path.to_str().unwrap()];
    flags.extend(more);
    open(&flags)
}

#[test]
fn a_unix_socket_alone_is_served_with_its_mode() {
    let scratch = Scratch::new();
    let path = scratch.path().join("t.sock");
    let listeners = open_path(&path, &["--unixsocketperm", "600"]).unwrap();
    assert_eq!((listeners.port, listeners.per_core.iter().flatten().count()), (0, 0));
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    UnixStream::connect(&path).unwrap();
    listeners.unix.as_ref().unwrap().accept().unwrap();
}

#[test]
fn a_living_unix_socket_is_refused_and_a_dead_one_replaced() {
    let scratch = Scratch::new();
    let path = scratch.path().join("t.sock");
    let held = open_path(&path, &[]).unwrap();
    let error = open_path(&path, &[]).unwrap_err();
    assert!(error.contains("is in use by another process") && error.contains("--unixsocket"), "{error}");
    UnixStream::connect(&path).unwrap();
    drop(held);
    assert!(path.exists());
    let held = open_path(&path, &[]).unwrap();
    UnixStream::connect(&path).unwrap();
    drop(held);
    remove_unix_socket(&path);
    assert!(!path.exists());
}

#[test]
fn what_is_no_socket_is_not_touched() {
    let scratch = Scratch::new();
    let path = scratch.path().join("file");
    std::fs::write(&path, "kept").unwrap();
    assert!(open_path(&path, &[]).unwrap_err().contains("exists and is not a socket"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "kept");
    let nowhere = scratch.path().join("none/t.sock");
    assert!(open_path(&nowhere, &[]).unwrap_err().starts_with("cannot listen on the Unix socket"));
}

#[test]
fn there_is_room_for_some_clients_and_never_for_more_than_wanted() {
    for wanted in [1, 100] {
        let room = make_room_for(wanted);
        assert!((1..=wanted).contains(&room), "{room} of {wanted}");
    }
}
