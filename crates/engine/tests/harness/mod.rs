//! A node without sockets: cores that are given commands and the time, and answer in text.
//!
//! Commands are written as at redis-cli, words between blanks; [`Node::call`] takes any bytes.

#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "what a test cannot read or find is a fault of the test"
)]

pub mod cluster;
pub mod value;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use tollgate_engine::all::{self, AllPlan};
use tollgate_engine::asker::with_asker;
use tollgate_engine::bounds::VALUE_BYTES_MAX_DEFAULT;
use tollgate_engine::call::Call;
use tollgate_engine::client_state::ClientState;
use tollgate_engine::command::{Flags, Handler};
use tollgate_engine::core::{Core, Parts};
use tollgate_engine::counters::Counters;
use tollgate_engine::dispatch::{Dispatcher, Ready, Way};
use tollgate_engine::effect::Effect;
use tollgate_engine::keys::scan_goes_on;
use tollgate_engine::registry::rows;
use tollgate_engine::session::{Client, Session};
use tollgate_engine::settings::{PasswordCheck, Process, Settings};
use tollgate_engine::steps::{PlanFn, run_order};
use tollgate_engine::tunables::Tunables;
use tollgate_limits::Micros;
use tollgate_resp::{Args, Protocol, Reply, Span};
use tollgate_store::{Eviction, Hasher, StoreConfig};
use value::Value;

/// The instant `t` of the example table.
pub const T: Micros = 1_751_540_400_000_000;
/// A millisecond.
pub const MS: Micros = 1_000;
/// A second.
pub const S: Micros = 1_000_000;

const HASH_SEED: [u64; 4] = [1, 2, 3, 4];

/// How a node is set up.
pub struct Setup {
    pub cores: u16,
    pub memory_max_bytes: u64,
    pub eviction: Eviction,
    pub password: Option<&'static str>,
    pub test_clock: bool,
    pub top_keys: bool,
    pub cluster: bool,
    pub log_limit_max: u64,
    /// The wall clock minus the node's time.
    pub wall_offset_micros: i64,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            cores: 1,
            memory_max_bytes: 0,
            eviction: Eviction::NoEviction,
            password: None,
            test_clock: true,
            top_keys: true,
            cluster: false,
            log_limit_max: 100_000,
            wall_offset_micros: 0,
        }
    }
}

/// Cores, one session on core 0, and the time.
pub struct Node {
    pub cores: Vec<Core>,
    pub session: Session,
    pub now: Micros,
    pub dispatcher: Dispatcher,
}

struct NoProcess {
    wall_offset_micros: i64,
}

impl Process for NoProcess {
    fn resident_bytes(&self) -> u64 {
        3 << 20
    }
    fn cpu_micros(&self) -> (u64, u64) {
        (1_500_000, 250_000)
    }
    fn uptime_seconds(&self) -> u64 {
        90_000
    }
    fn clock_steps(&self) -> u64 {
        0
    }
    fn wall_offset_micros(&self) -> i64 {
        self.wall_offset_micros
    }
    fn operating_system(&self) -> String {
        "Linux".to_owned()
    }
}

/// A node with one core.
pub fn node() -> Node {
    Node::new(Setup::default())
}

/// A node with so many cores.
pub fn node_of(cores: u16) -> Node {
    Node::new(Setup { cores, ..Setup::default() })
}

impl Node {
    /// An empty node at [`T`].
    pub fn new(setup: Setup) -> Node {
        let settings = Arc::new(settings(&setup));
        let counters: Arc<[_]> = (0..setup.cores).map(|_| Arc::new(Counters::new(rows().len()))).collect();
        let core = |core| {
            let store = StoreConfig {
                hash_seed: HASH_SEED,
                core,
                cores: setup.cores,
                memory_max_bytes: setup.memory_max_bytes / u64::from(setup.cores),
                eviction: setup.eviction,
                random_seed: 1,
            };
            Core::new(Parts { settings: settings.clone(), counters: counters.clone(), store })
        };
        let cores: Vec<_> = (0..setup.cores).map(core).collect();
        let session = Session::new(Rc::new(client()), setup.password.is_none());
        let dispatcher = Dispatcher::new(Hasher::new(HASH_SEED), setup.cores).in_cluster(setup.cluster);
        Node { cores, session, now: T, dispatcher }
    }

    /// Runs a command that is written in words; the reply as text.
    pub fn run(&mut self, line: &str) -> String {
        self.value(line).to_string()
    }

    /// The same, at another time.
    pub fn at(&mut self, now: Micros, line: &str) -> String {
        self.now = now;
        self.run(line)
    }

    /// Runs a command that is written in words; the reply as a value.
    pub fn value(&mut self, line: &str) -> Value {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.call(&words)
    }

    /// Runs a command of any bytes.
    pub fn call(&mut self, words: &[&[u8]]) -> Value {
        let (buffer, spans) = packed(words);
        let args = Args::new(&buffer, &spans);
        let mut out = Vec::new();
        let mut reply = Reply::new(&mut out, self.session.protocol);
        let standing = self.cores[0].settings.shared.standing();
        match self.dispatcher.prepare(args) {
            Err(text) => reply.error(&text),
            Ok(ready) => match self.cores[0].may_run(&ready, &self.session, standing, || args) {
                Err(text) => reply.error(&text),
                Ok(()) if ready.entry.command.flags.has(Flags::TOLD_WHO) => {
                    let told = with_asker(args, self.session.client.id);
                    self.dispatch(&ready, told.args(), &mut reply);
                }
                Ok(()) => self.dispatch(&ready, args, &mut reply),
            },
        }
        Value::decode(&out)
    }

    fn dispatch(&mut self, ready: &Ready, args: Args<'_>, reply: &mut Reply<'_>) {
        let call = Call { args, at: ready.at, now: self.now };
        match (ready.way, ready.entry.command.handler) {
            (Way::To(core), _) => self.cores[usize::from(core)].run_key(ready.entry, &call, reply),
            (Way::Here | Way::Process, _) => {
                self.cores[0].run_session(ready.entry, &mut self.session, &call, reply);
            }
            (Way::AllOrNothing, _) => self.run_all(args, reply),
            (Way::Steps, Handler::Steps(plan) | Handler::StepsOrParts(plan, ..)) => self.run_steps(plan, &call, reply),
            // What a connection does with them is the shell's affair.
            (Way::Transaction, Handler::Transaction(_)) => reply.simple("OK"),
            (Way::PerKey, Handler::Spread(part, merge)) => {
                let mut fragments = Vec::new();
                for (core, keys) in self.dispatcher.split(ready.entry, args) {
                    let (buffer, spans) = packed_at(args, std::iter::once(0).chain(keys));
                    let part_call = Call { args: Args::new(&buffer, &spans), ..call };
                    let mut fragment = Vec::new();
                    part(&mut self.cores[usize::from(core)], &part_call, &mut fragment);
                    fragments.push(fragment);
                }
                merge(&slices(&fragments), &call, reply);
            }
            (Way::Every, Handler::Spread(part, merge)) => {
                let run = |core: &mut Core| {
                    let mut fragment = Vec::new();
                    part(core, &call, &mut fragment);
                    fragment
                };
                let fragments: Vec<_> = self.cores.iter_mut().map(run).collect();
                merge(&slices(&fragments), &call, reply);
            }
            (Way::Cursor, Handler::Spread(part, merge)) => {
                let mut fragments = Vec::new();
                let mut cursor = Some(String::from_utf8_lossy(args.get(1).unwrap_or_default()).into_owned());
                while let Some(from) = cursor {
                    let mut words: Vec<&[u8]> = args.iter().collect();
                    words[1] = from.as_bytes();
                    let (buffer, spans) = packed(&words);
                    let core = self.dispatcher.cursor_core(from.as_bytes());
                    let mut fragment = Vec::new();
                    let part_call = Call { args: Args::new(&buffer, &spans), ..call };
                    part(&mut self.cores[usize::from(core)], &part_call, &mut fragment);
                    fragments.push(fragment);
                    cursor = scan_goes_on(&fragments, &call).map(|next| next.to_string());
                }
                merge(&slices(&fragments), &call, reply);
            }
            (way, _) => panic!("{way:?} does not fit the handler of {}", ready.entry.command.name),
        }
    }

    fn run_steps(&mut self, plan: PlanFn, call: &Call<'_>, reply: &mut Reply<'_>) {
        let mut steps = match plan(call, &self.dispatcher.places()) {
            Ok(steps) => steps,
            Err(text) => return reply.error(&text),
        };
        let cores = steps.cores();
        loop {
            let orders = steps.next();
            if orders.is_empty() {
                break;
            }
            for order in orders {
                assert!(cores.contains(&order.core), "a plan names its cores");
                let (mut fragment, core) = (Vec::new(), &mut self.cores[usize::from(order.core)]);
                let content =
                    run_order(core, &order.arguments, order.run, order.at, call, order.content, &mut fragment);
                steps.answered(order.core, &fragment, content);
            }
        }
        steps.reply(reply);
    }

    fn run_all(&mut self, args: Args<'_>, reply: &mut Reply<'_>) {
        match self.plan(args) {
            Err(text) => reply.error(&text),
            Ok(mut plan) => {
                let cores: Vec<_> = plan.cores().collect();
                cores.iter().for_each(|core| self.charge(&mut plan, *core, args));
                self.take_back(&mut plan, args);
                plan.reply(reply);
            }
        }
    }

    /// The plan of an RL.ALL over several cores.
    pub fn plan(&self, args: Args<'_>) -> Result<AllPlan, String> {
        let cores = u16::try_from(self.cores.len()).expect("few cores");
        let plan = AllPlan::new(&self.cores[0].settings, self.dispatcher.hasher(), cores, args);
        plan.map_err(|failure| failure.to_string())
    }

    /// Charges `core`'s part of a plan, now.
    pub fn charge(&mut self, plan: &mut AllPlan, core: u16, args: Args<'_>) {
        let (buffer, spans) = packed_at(args, plan.arguments(core));
        let call = self.part_call(&buffer, &spans);
        let mut fragment = Vec::new();
        let undo = all::charge(&mut self.cores[usize::from(core)], &call, &mut fragment);
        plan.charged(core, &fragment, undo);
    }

    /// Takes back, now, what a plan that was not admitted has charged.
    pub fn take_back(&mut self, plan: &mut AllPlan, args: Args<'_>) {
        for (core, log) in plan.to_undo() {
            let (buffer, spans) = packed_at(args, plan.arguments(core));
            let call = self.part_call(&buffer, &spans);
            let mut fragment = Vec::new();
            all::undo(&mut self.cores[usize::from(core)], &call, *log, &mut fragment);
            plan.undone(core, &fragment);
        }
    }

    fn part_call<'a>(&self, buffer: &'a [u8], spans: &'a [Span]) -> Call<'a> {
        let args = Args::new(buffer, spans);
        Call { args, at: self.dispatcher.hasher().locate(args.get(1).unwrap_or_default()), now: self.now }
    }

    /// The core that owns `key`.
    pub fn owner(&self, key: &str) -> u16 {
        let cores = u16::try_from(self.cores.len()).expect("few cores");
        tollgate_engine::route::owner(self.dispatcher.hasher().locate(key.as_bytes()).slot, cores)
    }

    /// The first key of `prefix0`, `prefix1`, ... that `core` owns.
    pub fn key_of(&self, core: u16, prefix: &str) -> String {
        let mut names = (0..).map(|number| format!("{prefix}{number}"));
        names.find(|name| self.owner(name) == core).expect("some key lies there")
    }

    /// What the shell is asked to do, and forgets it.
    pub fn effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.cores[0].effects)
    }

    /// Answers in RESP3 from here on.
    pub fn speak_resp3(&mut self) {
        self.session.set_protocol(Protocol::Resp3);
    }
}

/// Each command with the reply that is expected, at the node's time.
pub fn check(node: &mut Node, table: &[(&str, &str)]) {
    for (line, expected) in table {
        assert_eq!(node.run(line), *expected, "{line}");
    }
}

/// Words as a request buffer.
pub fn packed(words: &[&[u8]]) -> (Vec<u8>, Vec<Span>) {
    let mut buffer = Vec::new();
    let mut spans = Vec::new();
    let position = |buffer: &Vec<u8>| u32::try_from(buffer.len()).expect("small");
    for word in words {
        let start = position(&buffer);
        buffer.extend_from_slice(word);
        spans.push(Span { start, end: position(&buffer) });
    }
    (buffer, spans)
}

fn packed_at(args: Args<'_>, positions: impl Iterator<Item = usize>) -> (Vec<u8>, Vec<Span>) {
    let words: Vec<&[u8]> = positions.map(|position| args.get(position).expect("a part names its arguments")).collect();
    packed(&words)
}

fn slices(fragments: &[Vec<u8>]) -> Vec<&[u8]> {
    fragments.iter().map(Vec::as_slice).collect()
}

fn settings(setup: &Setup) -> Settings {
    let tunables = Tunables::default();
    tunables.set_memory_max_bytes(setup.memory_max_bytes);
    tunables.set_eviction(setup.eviction);
    let parameters = [("maxmemory", "0"), ("port", "6379"), ("databases", "1")];
    let password =
        setup.password.map(|password| -> PasswordCheck { Box::new(move |given| given == password.as_bytes()) });
    Settings {
        password,
        parameters: parameters.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        log_limit_max: setup.log_limit_max,
        value_bytes_max: VALUE_BYTES_MAX_DEFAULT,
        test_clock: setup.test_clock,
        tunables,
        shared: Default::default(),
        top_keys: setup.top_keys,
        cluster: setup.cluster,
        clients_max: 10_000,
        port: 6379,
        run_id: "0123456789abcdef0123456789abcdef01234567".to_owned(),
        process_id: 42,
        config_file: String::new(),
        process: Box::new(NoProcess { wall_offset_micros: setup.wall_offset_micros }),
    }
}

/// The client of a node's session.
pub fn client() -> Client {
    Client {
        id: 7,
        address: "127.0.0.1:50000".to_owned(),
        local_address: "127.0.0.1:6379".to_owned(),
        descriptor: 9,
        since: T,
        core: 0,
        active: Cell::new(T),
        protocol: Cell::new(Protocol::Resp2),
        last_command: Cell::new("ping"),
        name: RefCell::new(String::new()),
        lib_name: RefCell::new(String::new()),
        lib_version: RefCell::new(String::new()),
        input_bytes: Cell::new(0),
        output_bytes: Cell::new(0),
        commands: Cell::new(0),
        state: ClientState::default(),
    }
}
