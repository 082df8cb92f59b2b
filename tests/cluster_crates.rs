//! Clusters as the crates `redis` and `fred` see them: calls on 1,000 keys while a replica takes over and while a
//! primary is killed.
//!
//! Nobody sees an error as an operator lets a replica take over; errors of a kill are of calls that began while nobody
//! served the slots; no limit is passed by more than the nodes were told to hold to.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "what a test cannot do is a test that fails")]

#[path = "common/cluster.rs"]
mod cluster;
#[allow(dead_code, reason = "a server alone is for other tests")]
mod common;

use cluster::{Cluster, ask, wait_until};
use common::{Five, PATIENCE};
use fred::cmd as fred_command;
use fred::prelude::{Builder, ClientLike, Config, ReconnectPolicy, ServerConfig};
use fred::types::RespVersion;
use redis::ProtocolVersion;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const KEYS: usize = 1_000;
/// The limit of every other key, and that of the rest, which is never reached.
const SMALL: i64 = 5;
const FAR: i64 = 1_000_000_000;
/// The next window of this length begins in years.
const WINDOW: &str = "3650d";
/// Units that the nodes may admit twice.
const OVERSHOOT: u64 = 50;
const TASKS: usize = 16;
/// Between two calls of a task.
const PAUSE: Duration = Duration::from_millis(4);
/// Calls that are seen to be made before and after each event.
const BETWEEN: usize = 1_500;
/// What is measured of an outage by another client may be so much less than what a client saw of it.
const SLACK: Duration = Duration::from_millis(200);
const CALLS_PATIENCE: Duration = Duration::from_secs(60);

/// What a load has seen.
#[derive(Default)]
struct Seen {
    is_ending: AtomicBool,
    calls: AtomicUsize,
    next: AtomicUsize,
    errors: Mutex<Vec<(Instant, Instant, String)>>,
    /// Admitted and denied, by key.
    counts: Mutex<HashMap<String, (i64, i64)>>,
}

impl Seen {
    /// Takes down what came of a call; gives whether it was denied.
    fn note(&self, key: &str, began: Instant, answer: Result<Five, String>) -> bool {
        self.calls.fetch_add(1, SeqCst);
        match answer {
            Ok(five) => {
                let mut counts = self.counts.lock().unwrap();
                let count = counts.entry(key.to_owned()).or_default();
                if five.0 == 1 {
                    count.0 += 1
                } else {
                    count.1 += 1
                };
                five.0 == 0
            }
            Err(text) => {
                self.errors.lock().unwrap().push((began, Instant::now(), text));
                false
            }
        }
    }

    fn wait_for_calls(&self) {
        let wanted = self.calls.load(SeqCst) + BETWEEN;
        wait_until("calls are made", CALLS_PATIENCE, || self.calls.load(SeqCst) >= wanted);
    }

    fn check(&self, keys: &[(String, i64)], (began, ended): (Instant, Instant)) {
        let errors = self.errors.lock().unwrap();
        for (invoked, failed, text) in errors.iter() {
            let is_in_outage = *invoked + SLACK >= began && *invoked <= ended + SLACK;
            let (at, until) = (invoked.saturating_duration_since(began), failed.saturating_duration_since(began));
            assert!(is_in_outage, "{text}: {at:?} to {until:?} after the kill; outage {:?}", ended - began);
            assert!(!text.starts_with("MOVED"), "{text}");
        }
        let counts = self.counts.lock().unwrap();
        let mut above = 0;
        for (key, limit) in keys {
            let (admitted, denied) = counts[key];
            assert!(admitted > 0, "{key} was never admitted");
            assert_eq!(denied > 0, *limit == SMALL, "{key}: {admitted} admitted, {denied} denied");
            above += (admitted - limit).max(0);
        }
        assert!(above <= i64::try_from(OVERSHOOT).unwrap(), "{above} units above the limits");
    }
}

/// Calls keys in turn until it is ended, then uses up what is left of the small limits.
async fn load<F: Future<Output = Result<Five, String>>>(
    seen: Arc<Seen>,
    keys: Arc<Vec<(String, i64)>>,
    task: usize,
    call: impl Fn(String, i64) -> F,
) {
    while !seen.is_ending.load(SeqCst) {
        let (key, limit) = &keys[seen.next.fetch_add(1, SeqCst) % keys.len()];
        let began = Instant::now();
        let answer = call(key.clone(), *limit).await;
        seen.note(key, began, answer);
        tokio::time::sleep(PAUSE).await;
    }
    let mine = keys.iter().enumerate().filter(|(place, (_, limit))| place % TASKS == task && *limit == SMALL);
    for (_, (key, limit)) in mine {
        for _ in 0..=2 * SMALL {
            let began = Instant::now();
            let answer = call(key.clone(), *limit).await;
            if seen.note(key, began, answer) {
                break;
            }
        }
    }
}

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Runs a client's load on a thread of its own, and both events meanwhile. `clients` connects and gives what calls.
fn story<C, F>(name: &str, clients: impl FnOnce(Vec<u16>) -> C + Send + 'static)
where
    C: Future<Output: Fn(String, i64) -> F + Clone + 'static>,
    F: Future<Output = Result<Five, String>> + 'static,
{
    // Six nodes and a client are enough for a machine at a time.
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut cluster = Cluster::start(name, OVERSHOOT);
    let key = |place: usize| (format!("{name}:{place}"), if place % 2 == 1 { SMALL } else { FAR });
    let keys: Arc<Vec<_>> = Arc::new((0..KEYS).map(key).collect());
    let seen = Arc::new(Seen::default());
    let ports = cluster.nodes.iter().map(|node| node.port).collect();
    let (seen_there, keys_there) = (Arc::clone(&seen), Arc::clone(&keys));
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let tasks = tokio::task::LocalSet::new();
        tasks.block_on(&runtime, async move {
            let call = clients(ports).await;
            let spawn = |task| {
                let (seen, keys, call) = (Arc::clone(&seen_there), Arc::clone(&keys_there), call.clone());
                tokio::task::spawn_local(load(seen, keys, task, call))
            };
            let all: Vec<_> = (0..TASKS).map(spawn).collect();
            for task in all {
                task.await.expect("a task");
            }
        });
    });
    let owners = cluster.owners();
    seen.wait_for_calls();
    cluster.fail_over(owners[0]);
    seen.wait_for_calls();
    let outage = cluster.kill(owners[1], &call_on_key_of(&cluster, owners[1]));
    seen.wait_for_calls();
    cluster.restart(owners[1]);
    seen.wait_for_calls();
    seen.is_ending.store(true, SeqCst);
    thread.join().expect("the load");
    seen.check(&keys, outage);
}

/// A call on a key whose slot a node has.
fn call_on_key_of(cluster: &Cluster, place: usize) -> String {
    let node = &cluster.nodes[place];
    let slots = node.myself().expect("it answers").slots;
    let has = |slot: u16| slots.iter().any(|(first, last)| (*first..=*last).contains(&slot));
    let slot_of = |key: &String| ask::<u16>(node.port, &format!("CLUSTER KEYSLOT {key}")).expect("a slot");
    let key = (0..).map(|number| format!("probe:{number}")).find(|key| has(slot_of(key))).expect("some key");
    format!("RL.SLIDE {key} {FAR} {WINDOW}")
}

fn redis_crate(name: &str, protocol: ProtocolVersion) {
    story(name, move |ports| async move {
        let addresses: Vec<_> = ports.iter().map(|port| format!("redis://127.0.0.1:{port}")).collect();
        let client = redis::cluster::ClusterClient::builder(addresses).use_protocol(protocol).build();
        let connection = client.expect("addresses").get_async_connection().await.expect("a connection");
        move |key: String, limit: i64| {
            let mut connection = connection.clone();
            async move {
                let mut command = redis::cmd("RL.SLIDE");
                command.arg(key).arg(limit).arg(WINDOW);
                command.query_async(&mut connection).await.map_err(|error| error.to_string())
            }
        }
    });
}

fn fred_crate(name: &str, version: RespVersion) {
    story(name, move |ports| async move {
        let hosts = ports.iter().map(|port| ("127.0.0.1", *port)).collect();
        let server = ServerConfig::new_clustered(hosts);
        let mut builder = Builder::from_config(Config { server, version, ..Config::default() });
        builder.set_policy(ReconnectPolicy::new_constant(0, 10));
        builder.with_performance_config(|config| config.default_command_timeout = PATIENCE);
        builder.with_connection_config(|config| config.max_command_attempts = 1_000);
        let client = builder.build().expect("a client");
        client.init().await.expect("a connection");
        move |key: String, limit: i64| {
            let client = client.clone();
            async move {
                let words = vec![key, limit.to_string(), WINDOW.to_owned()];
                client.custom(fred_command!("RL.SLIDE"), words).await.map_err(|error| error.to_string())
            }
        }
    });
}

#[test]
fn the_crate_redis_in_resp2() {
    redis_crate("redis-resp2", ProtocolVersion::RESP2);
}

#[test]
fn the_crate_redis_in_resp3() {
    redis_crate("redis-resp3", ProtocolVersion::RESP3);
}

#[test]
fn the_crate_fred_in_resp2() {
    fred_crate("fred-resp2", RespVersion::RESP2);
}

#[test]
fn the_crate_fred_in_resp3() {
    fred_crate("fred-resp3", RespVersion::RESP3);
}
