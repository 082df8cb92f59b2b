//! A Tollgate server as a child process, for the tests that speak to one through a Rust client.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "what a test cannot do is a test that fails")]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take before the test gives up.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// The five integers of a limit.
pub type Five = (i64, i64, i64, i64, i64);

/// A running server, ended when it goes out of scope.
pub struct Server {
    process: Child,
    /// The port that it serves on, at 127.0.0.1.
    pub port: u16,
}

impl Server {
    /// Starts one at a time that stands still, on a free port, and waits until it says where it serves.
    pub fn start(cores: u16) -> Server {
        Server::start_at(cores, 0)
    }

    /// As `start`, on the port of one that has ended.
    pub fn start_at(cores: u16, port: u16) -> Server {
        let mut process = Command::new(env!("CARGO_BIN_EXE_tollgate"))
            .args(["serve", "--bind", "127.0.0.1", "--admin-port", "0", "--test-clock", "--log-format", "text"])
            .args(["--port", &port.to_string(), "--cores", &cores.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut lines = BufReader::new(process.stderr.take().expect("a pipe")).lines();
        let port = lines.by_ref().map_while(Result::ok).find_map(|line| port_in(&line));
        // Read on to the end, so that the server never waits for its log to be read.
        std::thread::spawn(move || lines.for_each(drop));
        Server { process, port: port.expect("the banner names the port") }
    }

    /// Asks it to end, and how it did.
    pub fn end(mut self) -> ExitStatus {
        let asked = Command::new("sh").args(["-c", &format!("kill -TERM {}", self.process.id())]).status();
        assert!(asked.expect("a shell runs").success());
        let begun = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait().expect("a child") {
                return status;
            }
            assert!(begun.elapsed() < PATIENCE, "the server does not end");
            std::thread::yield_now();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The port in the banner's first line, `... serves on 127.0.0.1:PORT ...`.
fn port_in(line: &str) -> Option<u16> {
    let (_, rest) = line.split_once("serves on 127.0.0.1:")?;
    rest.split(|character: char| !character.is_ascii_digit()).next()?.parse().ok()
}
