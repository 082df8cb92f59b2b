//! A cluster of Tollgate servers as child processes, made by CLUSTER ADDSLOTSRANGE, MEET and REPLICATE.

use crate::common::{Five, PATIENCE};
use redis::{Client, FromRedisValue, cmd};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

/// Primaries, each of which has one replica.
pub const PRIMARIES: usize = 3;
const SLOTS: usize = 16_384;
/// How long all nodes may take, on a busy machine, to be one cluster that is well.
const AGREE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(10);

/// A node: its process, which may be none for a while, and where it is.
pub struct Node {
    process: Option<Child>,
    /// The port that clients reach it at, at 127.0.0.1.
    pub port: u16,
    peer_port: u16,
    folder: PathBuf,
}

/// A line of CLUSTER NODES.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    id: String,
    port: u16,
    flags: Vec<String>,
    primary: String,
    /// First and last, of each range.
    pub slots: Vec<(u16, u16)>,
}

impl Line {
    fn of(line: &str) -> Line {
        let words: Vec<&str> = line.split(' ').collect();
        let address = words[1].split('@').next().unwrap();
        let range = |word: &&str| {
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            (first.parse().unwrap(), last.parse().unwrap())
        };
        Line {
            id: words[0].to_owned(),
            port: address.rsplit(':').next().unwrap().parse().unwrap(),
            flags: words[2].split(',').map(str::to_owned).collect(),
            primary: words[3].to_owned(),
            slots: words[8..].iter().map(range).collect(),
        }
    }

    fn is_healthy(&self) -> bool {
        !self.flags.iter().any(|flag| ["fail", "fail?", "handshake", "noaddr"].contains(&flag.as_str()))
    }
}

/// One command at a port, on a connection of its own.
pub fn ask<T: FromRedisValue>(port: u16, line: &str) -> Result<T, redis::RedisError> {
    let mut connection = Client::open(("127.0.0.1", port))?.get_connection_with_timeout(PATIENCE)?;
    connection.set_read_timeout(Some(PATIENCE))?;
    let mut words = line.split(' ');
    let mut command = cmd(words.next().unwrap());
    words.for_each(|word| {
        command.arg(word);
    });
    command.query(&mut connection)
}

/// Asks again and again until it is so.
pub fn wait_until(what: &str, patience: Duration, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < patience, "not within {patience:?}: {what}");
        std::thread::sleep(LOOK);
    }
}

impl Node {
    fn new(folder: PathBuf) -> Node {
        let [port, peer_port] = [(); 2].map(|()| free_port());
        Node { process: None, port, peer_port, folder }
    }

    /// Starts a process of it, which holds to a bound of `overshoot` units that a failover may forget.
    pub fn start(&mut self, overshoot: u64) {
        std::fs::create_dir_all(&self.folder).unwrap();
        let (port, peer_port, overshoot) = (self.port.to_string(), self.peer_port.to_string(), overshoot.to_string());
        let process = Command::new(binary())
            .args(["serve", "--bind", "127.0.0.1", "--admin-port", "0", "--cores", "1", "--port", &port])
            .args(["--cluster-enabled", "yes", "--cluster-port", &peer_port, "--failover-overshoot-max", &overshoot])
            .arg("--dir")
            .arg(&self.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.process = Some(process.expect("the server starts"));
        let port = self.port;
        wait_until("a node answers", AGREE, || ask::<String>(port, "PING").is_ok());
    }

    /// Ends its process as a crash does.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// CLUSTER NODES, as this node says it; none if it does not answer.
    pub fn lines(&self) -> Vec<Line> {
        let text: String = ask(self.port, "CLUSTER NODES").unwrap_or_default();
        text.lines().map(Line::of).collect()
    }

    /// Its own line.
    pub fn myself(&self) -> Option<Line> {
        self.lines().into_iter().find(|line| line.flags.iter().any(|flag| flag == "myself"))
    }

    fn says(&self, command: &str, field: &str, value: &str) -> bool {
        let text: String = ask(self.port, command).unwrap_or_default();
        text.lines().any(|line| line.split_once(':') == Some((field, value)))
    }

    fn is_in_step(&self) -> bool {
        self.says("INFO replication", "role", "master") || self.says("INFO replication", "master_link_status", "up")
    }
}

/// A port that nobody has. Those that the kernel gives to whoever connects anywhere are no good: it may have given one
/// away before a node listens there.
fn free_port() -> u16 {
    static TRIED: AtomicU16 = AtomicU16::new(0);
    let begin = 18_000 + u16::try_from(std::process::id() % 100).unwrap() * 100;
    let mut ports = std::iter::repeat_with(|| begin + TRIED.fetch_add(1, Ordering::SeqCst) % 4_000).take(4_000);
    ports.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).expect("a free port")
}

/// Another binary may be named for the tests over the wire, as `tests/run` says.
fn binary() -> std::ffi::OsString {
    std::env::var_os("TOLLGATE_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_tollgate").into())
}

/// Three primaries with a replica each, ended when they go out of scope.
pub struct Cluster {
    /// The primaries as it was made, and after them their replicas in the same order.
    pub nodes: Vec<Node>,
    folder: PathBuf,
    overshoot: u64,
}

impl Cluster {
    /// Starts one; each node holds to `overshoot`.
    pub fn start(name: &str, overshoot: u64) -> Cluster {
        let folder = std::env::temp_dir().join(format!("tollgate-{}-{name}", std::process::id()));
        let nodes = (0..2 * PRIMARIES).map(|place| Node::new(folder.join(place.to_string()))).collect();
        let mut cluster = Cluster { nodes, folder, overshoot };
        cluster.nodes.iter_mut().for_each(|node| node.start(overshoot));
        cluster.create();
        cluster
    }

    fn create(&self) {
        let ok =
            |node: &Node, line: &str| ask::<String>(node.port, line).unwrap_or_else(|error| panic!("{line}: {error}"));
        let first = &self.nodes[0];
        for (place, node) in self.nodes.iter().enumerate() {
            if place < PRIMARIES {
                let (from, to) = (SLOTS * place / PRIMARIES, SLOTS * (place + 1) / PRIMARIES - 1);
                ok(node, &format!("CLUSTER ADDSLOTSRANGE {from} {to}"));
            }
            ok(node, &format!("CLUSTER SET-CONFIG-EPOCH {}", place + 1));
            if place > 0 {
                let met =
                    ask::<String>(node.port, &format!("CLUSTER MEET 127.0.0.1 {} {}", first.port, first.peer_port));
                // On a machine that is busy it may go on when its answer is due.
                assert!(met.as_ref().err().is_none_or(|error| error.to_string().contains("it goes on")), "{met:?}");
            }
        }
        wait_until("all know all", AGREE, || self.nodes.iter().all(|node| self.knows_all(node)));
        for (primary, replica) in self.nodes[..PRIMARIES].iter().zip(&self.nodes[PRIMARIES..]) {
            let line = format!("CLUSTER REPLICATE {}", primary.myself().expect("it answers").id);
            wait_until("a replica follows", AGREE, || ask::<String>(replica.port, &line).is_ok());
        }
        self.wait_until_well();
    }

    fn knows_all(&self, node: &Node) -> bool {
        let lines = node.lines();
        lines.len() == self.nodes.len() && lines.iter().all(Line::is_healthy)
    }

    /// Waits until all nodes know all, all slots are served and all replicas are in step.
    pub fn wait_until_well(&self) {
        let is_well =
            |node: &Node| node.says("CLUSTER INFO", "cluster_state", "ok") && self.knows_all(node) && node.is_in_step();
        let are_half_replicas =
            |node: &Node| node.lines().iter().filter(|line| line.primary != "-").count() == PRIMARIES;
        wait_until("all are well", AGREE, || self.nodes.iter().all(|node| is_well(node) && are_half_replicas(node)));
    }

    /// The places of the nodes that have slots, in the order of the slots, by what a node says that runs.
    pub fn owners(&self) -> Vec<usize> {
        let lines = self.nodes.iter().map(Node::lines).find(|lines| !lines.is_empty()).expect("a node answers");
        let mut owned: Vec<_> = lines.iter().filter(|line| !line.slots.is_empty()).collect();
        owned.sort_by_key(|line| line.slots[0]);
        owned.iter().map(|line| self.place_of(line.port)).collect()
    }

    fn place_of(&self, port: u16) -> usize {
        self.nodes.iter().position(|node| node.port == port).expect("a node of the cluster")
    }

    /// Lets the replica of a node take over, and waits until it has.
    pub fn fail_over(&self, primary: usize) {
        let id = self.nodes[primary].myself().expect("it answers").id;
        let lines = self.nodes[primary].lines();
        let replica = lines.iter().find(|line| line.primary == id).expect("it has a replica");
        let replica = &self.nodes[self.place_of(replica.port)];
        assert_eq!(ask::<String>(replica.port, "CLUSTER FAILOVER").expect("a replica"), "OK");
        let has_slots = || replica.myself().is_some_and(|line| !line.slots.is_empty());
        wait_until("the replica takes over", AGREE, has_slots);
    }

    /// Kills a primary and waits until another node answers a call on a key of its slots: from when to when.
    pub fn kill(&mut self, primary: usize, line: &str) -> (Instant, Instant) {
        let is_answered = |node: &Node| ask::<Five>(node.port, line).is_ok();
        assert!(is_answered(&self.nodes[primary]), "its own key");
        let began = Instant::now();
        self.nodes[primary].kill();
        wait_until("another takes over", AGREE, || self.nodes.iter().any(is_answered));
        (began, Instant::now())
    }

    /// Starts a node again that was killed, and waits until all are well.
    pub fn restart(&mut self, place: usize) {
        self.nodes[place].start(self.overshoot);
        self.wait_until_well();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.nodes.iter_mut().for_each(Node::kill);
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
