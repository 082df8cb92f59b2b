//! The Rust client of docs/from-redis.md is examples/limiter.rs to the letter, and does what the page says.
//!
//! The page is for copying from. Code in a page that nothing compiles goes stale, so the page holds the example's text
//! and this test runs the example's code against a server of its own.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "what a test cannot do is a test that fails")]

#[allow(dead_code, reason = "the example's `main` is its own program")]
#[path = "../examples/limiter.rs"]
mod limiter;

use limiter::{Limiter, Verdict};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PAGE: &str = include_str!("../docs/from-redis.md");
const EXAMPLE: &str = include_str!("../examples/limiter.rs");

/// A server whose clock stands still, on a port of its own, ended when it goes out of scope.
struct Server {
    process: Child,
    port: u16,
}

impl Server {
    fn start() -> Server {
        let flags = "serve --bind 127.0.0.1 --port 0 --admin-port 0 --test-clock --log-format text --cores 2";
        let mut process = Command::new(env!("CARGO_BIN_EXE_tollgate"))
            .args(flags.split(' '))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut lines = BufReader::new(process.stderr.take().expect("a pipe")).lines();
        let port = lines.by_ref().map_while(Result::ok).find_map(|line| {
            let (_, rest) = line.split_once("serves on 127.0.0.1:")?;
            rest.split(|character: char| !character.is_ascii_digit()).next()?.parse().ok()
        });
        // Read on to the end, so that the server never waits for its log to be read.
        std::thread::spawn(move || lines.for_each(drop));
        Server { process, port: port.expect("the banner names the port") }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn the_page_holds_the_example() {
    let block = PAGE.split("```rust\n").nth(1).and_then(|rest| rest.split("```\n").next());
    assert!(block == Some(EXAMPLE), "docs/from-redis.md must hold examples/limiter.rs to the letter");
}

#[test]
fn it_passes_refuses_and_goes_on_without_a_server() {
    let server = Server::start();
    let url = format!("redis://127.0.0.1:{}", server.port);
    let mut limiter = Limiter::new(&url, Duration::from_secs(5)).expect("an address");
    let verdicts: Vec<Verdict> = (0..3).map(|_| limiter.check("rl:{ak_42}:orders", 2, "60")).collect();
    // The window's two calls are all in its first microsecond, so the next fits one tick after the window's end.
    assert_eq!(verdicts, [Verdict::Pass, Verdict::Pass, Verdict::Refuse(Some(61))]);
    assert_eq!(limiter.check("nothing", 0, "60"), Verdict::Refuse(None));
    assert_eq!(limiter.check("a wrong call", 1, "sixty"), Verdict::Unanswered);
    assert_eq!(limiter.check("another caller", 1, "60"), Verdict::Pass);
    drop(server);
    let begun = Instant::now();
    assert_eq!(limiter.check("another caller", 1, "60"), Verdict::Unanswered);
    assert!(begun.elapsed() < Duration::from_secs(5), "a server that is gone is noticed at once");
}

#[test]
fn a_server_that_hangs_costs_the_deadline_and_no_more() {
    // A listener that nobody accepts from: connected, and never answered.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("redis://{}", silent.local_addr().expect("an address"));
    let deadline = Duration::from_millis(100);
    let mut limiter = Limiter::new(&url, deadline).expect("an address");
    let begun = Instant::now();
    assert_eq!(limiter.check("a caller", 1, "60"), Verdict::Unanswered);
    assert!(begun.elapsed() >= deadline, "{:?}", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}
