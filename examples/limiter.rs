//! A limiter that asks Tollgate through the `redis` crate, with a deadline, and says so where it was not answered.

use redis::{Client, Connection, RedisResult, cmd};
use std::time::Duration;

/// What a limit says to a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Go on.
    Pass,
    /// Answer 429, with this Retry-After if there is one: without it the request asks for more than the whole limit.
    Refuse(Option<u64>),
    /// Nobody answered in time. Here the request passes: fail open.
    Unanswered,
}

/// A connection that is made when it is needed.
pub struct Limiter {
    client: Client,
    deadline: Duration,
    connection: Option<Connection>,
}

impl Limiter {
    /// The deadline is for connecting, and for each round trip.
    pub fn new(url: &str, deadline: Duration) -> RedisResult<Limiter> {
        Ok(Limiter { client: Client::open(url)?, deadline, connection: None })
    }

    /// Asks for one call of `limit` in `window`, such as `1m`.
    pub fn check(&mut self, key: &str, limit: u64, window: &str) -> Verdict {
        match self.ask(key, limit, window) {
            Ok((allowed, ..)) if allowed > 0 => Verdict::Pass,
            Ok((_, _, _, retry_ms, _)) => {
                Verdict::Refuse(u64::try_from(retry_ms).ok().map(|wait| wait.div_ceil(1000).max(1)))
            }
            Err(error) => {
                eprintln!("limiter: {error}");
                // A late reply must not be taken for the next call's.
                self.connection = None;
                Verdict::Unanswered
            }
        }
    }

    fn ask(&mut self, key: &str, limit: u64, window: &str) -> RedisResult<(i64, i64, i64, i64, i64)> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => {
                let fresh = self.client.get_connection_with_timeout(self.deadline)?;
                fresh.set_read_timeout(Some(self.deadline))?;
                fresh.set_write_timeout(Some(self.deadline))?;
                none.insert(fresh)
            }
        };
        cmd("RL.SLIDE").arg(key).arg(limit).arg(window).query(connection)
    }
}

fn main() -> RedisResult<()> {
    let mut limiter = Limiter::new("redis://127.0.0.1:6379", Duration::from_millis(50))?;
    println!("{:?}", limiter.check("rl:{ak_42}:orders", 100, "1m"));
    Ok(())
}
