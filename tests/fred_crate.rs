//! The server as the crate `fred` sees it: one connection that many tasks share, RESP2 and RESP3.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "what a test cannot do is a test that fails")]

mod common;

use common::{Five, PATIENCE, Server};
use fred::cmd;
use fred::prelude::*;
use fred::types::client::ClientKillFilter;
use fred::types::{ExpireOptions, RespVersion};
use std::future::Future;

/// Connects as its users do: calls that lose their connection are tried again, as often as it takes.
async fn connect(server: &Server, version: RespVersion) -> Client {
    let client = builder(server, version).build().expect("a client");
    client.init().await.expect("a connection");
    client
}

fn builder(server: &Server, version: RespVersion) -> Builder {
    let mut builder = Builder::from_config(Config {
        server: ServerConfig::new_centralized("127.0.0.1", server.port),
        version,
        ..Config::default()
    });
    builder.set_policy(ReconnectPolicy::new_constant(0, 10));
    builder.with_performance_config(|config| config.default_command_timeout = PATIENCE);
    builder.with_connection_config(|config| config.max_command_attempts = 1_000);
    builder
}

/// Runs `test` against servers of one and two cores, in both protocols, and ends each server in order.
fn everywhere<F: Future<Output = ()>>(test: impl Fn(Client) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        for cores in [1, 2] {
            let server = Server::start(cores);
            for version in [RespVersion::RESP2, RespVersion::RESP3] {
                let client = connect(&server, version).await;
                let () = client.flushall(false).await.expect("FLUSHALL");
                test(client.clone()).await;
                client.quit().await.expect("QUIT");
            }
            let status = server.end();
            assert_eq!(status.code(), Some(0), "{cores} cores: {status}");
        }
    });
}

/// Sends a command written in words.
async fn command<R: FromValue>(client: &impl ClientLike, line: &str) -> FredResult<R> {
    let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
    client.custom(cmd!(name.to_owned()), rest.split_whitespace().collect::<Vec<_>>()).await
}

type FredResult<R> = Result<R, Error>;

#[test]
fn a_limit_is_refused_waited_for_and_admitted() {
    everywhere(|client| async move {
        for (limit, window) in [("RL.SLIDE s 2 10", 10_000), ("RL.FIXED f 2 10", 10_000), ("RL.TOKEN t 2 1/10", 10_000)]
        {
            for left in [1, 0] {
                let five: Five = command(&client, limit).await.expect(limit);
                assert_eq!((five.0, five.2, five.3), (1, left, 0), "{limit}");
            }
            let (allowed, _, _, retry_ms, _): Five = command(&client, limit).await.expect(limit);
            assert!(allowed == 0 && (1..=window + 1).contains(&retry_ms), "{limit}: {retry_ms}");
            for (step_ms, expected) in [(retry_ms - 1, 0), (1, 1)] {
                let () = command(&client, &format!("RL.CLOCK ADVANCE {step_ms}ms")).await.expect("RL.CLOCK");
                let five: Five = command(&client, limit).await.expect(limit);
                assert_eq!(five.0, expected, "{limit}");
            }
        }
    });
}

#[test]
fn several_limits_are_one_decision() {
    everywhere(|client| async move {
        let line = "RL.ALL {u}:a FIXED 5 60 1 {u}:b TOKEN 1 1/60 1";
        for (allowed, binding) in [(1, 1), (0, 1), (0, 1)] {
            let (seen, index, fixed, token): (i64, i64, Five, Five) = command(&client, line).await.expect(line);
            assert_eq!((seen, index), (allowed, binding));
            assert_eq!((fixed.2, token.0, token.2), (4, allowed, 0));
        }
    });
}

#[test]
fn ordinary_commands() {
    everywhere(|client| async move {
        let () = client.set("k", "one", None, None, false).await.expect("SET");
        let refused: Option<String> = client.set("k", "x", None, Some(SetOptions::NX), false).await.expect("SET NX");
        let old: Option<String> =
            client.set("k", "two", Some(Expiration::EX(100)), Some(SetOptions::XX), true).await.expect("SET GET");
        assert_eq!((refused, old), (None, Some("one".to_owned())));
        let seconds: i64 = client.ttl("k").await.expect("TTL");
        let raised: i64 = client.expire("k", 200, Some(ExpireOptions::GT)).await.expect("EXPIRE GT");
        let kept: i64 = client.expire("k", 300, Some(ExpireOptions::NX)).await.expect("EXPIRE NX");
        let millis: i64 = client.pttl("k").await.expect("PTTL");
        let persisted: i64 = client.persist("k").await.expect("PERSIST");
        let none: i64 = client.ttl("k").await.expect("TTL");
        assert_eq!((seconds, raised, kept, millis, persisted, none), (100, 1, 0, 200_000, 1, -1));

        let bytes: Vec<u8> = (0..=255).collect();
        let () = client.mset(vec![("a", Value::from(1)), ("b", Value::from(bytes.as_slice()))]).await.expect("MSET");
        let several: (i64, Option<String>, Vec<u8>) = client.mget(vec!["a", "nobody", "b"]).await.expect("MGET");
        assert_eq!(several, (1, None, bytes));
        let counted: (i64, i64, f64) = (
            client.incr("a").await.expect("INCR"),
            client.decr_by("a", 10).await.expect("DECRBY"),
            client.incr_by_float("f", 0.5).await.expect("INCRBYFLOAT"),
        );
        assert_eq!(counted, (2, -8, 0.5));
        let there: i64 = client.exists(vec!["a", "b", "nobody"]).await.expect("EXISTS");
        let gone: i64 = client.del(vec!["a", "b", "f", "nobody"]).await.expect("DEL");
        let left: i64 = client.dbsize().await.expect("DBSIZE");
        assert_eq!((there, gone, left), (2, 3, 1));
    });
}

#[test]
fn a_key_ends_when_the_clock_says_so() {
    everywhere(|client| async move {
        let () = client.set("k", "v", Some(Expiration::PX(1_500)), None, false).await.expect("SET PX");
        for (line, expected) in [("RL.CLOCK ADVANCE 1499ms", Some("v")), ("RL.CLOCK ADVANCE 1ms", None)] {
            let () = command(&client, line).await.expect(line);
            let value: Option<String> = client.get("k").await.expect("GET");
            assert_eq!(value.as_deref(), expected, "{line}");
        }
    });
}

#[test]
fn transactions_and_watched_keys() {
    everywhere(|client| async move {
        let transaction = client.multi();
        let () = transaction.set("a", 1, None, None, false).await.expect("queued");
        let () = transaction.incr_by("a", 2).await.expect("queued");
        let () = command(&transaction, "RL.FIXED f 5 60").await.expect("queued");
        let answers: (String, i64, Five) = transaction.exec(true).await.expect("EXEC");
        assert_eq!(answers, ("OK".to_owned(), 3, (1, 5, 4, 0, 60_000)));

        let other = client.clone_new();
        other.init().await.expect("a connection");
        for (is_raced, expected) in [(false, Some(4)), (true, None)] {
            client.watch("a").await.expect("WATCH");
            if is_raced {
                let () = other.set("a", 100, None, None, false).await.expect("SET");
            }
            let transaction = client.multi();
            let () = transaction.incr("a").await.expect("queued");
            let answer: Option<Vec<i64>> = transaction.exec(true).await.expect("EXEC");
            assert_eq!(answer, expected.map(|number| vec![number]), "raced: {is_raced}");
        }
        other.quit().await.expect("QUIT");
    });
}

#[test]
fn a_pipeline_answers_in_order() {
    everywhere(|client| async move {
        let pipeline = client.pipeline();
        for number in 0..300 {
            let () = pipeline.set(format!("k{number}"), number, None, None, false).await.expect("queued");
            let () = pipeline.incr(format!("k{number}")).await.expect("queued");
            let () = command(&pipeline, "RL.FIXED shared 100 1h").await.expect("queued");
        }
        let answers: Vec<Value> = pipeline.all().await.expect("a pipeline");
        let (mut counted, mut allowed) = (Vec::new(), 0);
        for triple in answers.as_chunks::<3>().0 {
            counted.push(triple[1].as_i64().expect("a number"));
            allowed += triple[2].clone().convert::<Five>().expect("a limit").0;
        }
        assert_eq!(counted, (1..=300).collect::<Vec<_>>());
        assert_eq!(allowed, 100);
    });
}

#[test]
fn an_error_is_an_error_and_keeps_the_connection() {
    everywhere(|client| async move {
        let number: i64 = client.client_id().await.expect("CLIENT ID");
        let () = client.set("text", "ten", None, None, false).await.expect("SET");
        let _: Five = command(&client, "RL.SLIDE s 5 60").await.expect("a limit");
        for (line, part) in [
            ("NO.SUCH a b", "unknown command 'NO.SUCH'"),
            ("INCR text", "not an integer"),
            ("GET s", "wrong kind of value"),
            ("RL.SLIDE text 5 60", "wrong kind of value"),
            ("RL.SLIDE s five 60", "limit must be a whole number"),
            ("EXEC", "EXEC without MULTI"),
        ] {
            let error = command::<Value>(&client, line).await.expect_err(line);
            assert!(error.details().contains(part), "{line}: {error}");
        }
        let after: i64 = client.client_id().await.expect("CLIENT ID");
        assert_eq!(after, number);
    });
}

#[test]
fn it_comes_back_from_a_killed_connection_and_a_restart() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        for version in [RespVersion::RESP2, RespVersion::RESP3] {
            let server = Server::start(2);
            let client = connect(&server, version.clone()).await;
            let other = connect(&server, version).await;
            let () = client.set("before", 1, None, None, false).await.expect("SET");
            let number: i64 = client.client_id().await.expect("CLIENT ID");
            let filter = vec![ClientKillFilter::ID(number.to_string())];
            let killed: i64 = other.client_kill(filter).await.expect("CLIENT KILL");
            let kept: i64 = client.get("before").await.expect("GET");
            assert_eq!((killed, kept), (1, 1));

            let port = server.port;
            assert_eq!(server.end().code(), Some(0));
            let server = Server::start_at(2, port);
            for (client, expected) in [(&client, 1), (&other, 2)] {
                let counted: i64 = client.incr("after").await.expect("INCR");
                let lost: Option<i64> = client.get("before").await.expect("GET");
                assert_eq!((counted, lost), (expected, None));
            }
            client.quit().await.expect("QUIT");
            other.quit().await.expect("QUIT");
            assert_eq!(server.end().code(), Some(0));
        }
    });
}

#[test]
fn fifty_connections_of_a_pool_share_one_limit() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let server = Server::start(2);
        let pool = builder(&server, RespVersion::RESP3).build_pool(50).expect("a pool");
        pool.init().await.expect("fifty connections");
        let calls: Vec<_> = (0..400)
            .map(|_| {
                let client = pool.next().clone();
                tokio::spawn(
                    async move { command::<Five>(&client, "RL.SLIDE shared 100 1h").await.expect("a limit").0 },
                )
            })
            .collect();
        let mut allowed = 0;
        for call in calls {
            allowed += call.await.expect("a task");
        }
        assert_eq!(allowed, 100);
        let listed: String = command(pool.next(), "CLIENT LIST").await.expect("CLIENT LIST");
        assert_eq!(listed.lines().count(), 50);
        pool.quit().await.expect("QUIT");
        assert_eq!(server.end().code(), Some(0));
    });
}
