//! One client's session: what it said about itself and what it may do. No socket: the shell owns that.

use crate::client_state::{ClientState, Replies};
use crate::transaction::Transactions;
use std::cell::{Cell, RefCell};
use std::fmt::Write;
use std::rc::Rc;
use tollgate_limits::Micros;
use tollgate_resp::Protocol;

/// What CLIENT LIST shows of a client. Shared between its session and its core's list.
#[derive(Debug)]
pub struct Client {
    /// Unique in the process, growing.
    pub id: u64,
    /// `ip:port`, or the path of the Unix socket and `:0`.
    pub address: String,
    /// The server's end, likewise.
    pub local_address: String,
    /// The socket's descriptor.
    pub descriptor: i32,
    /// When it came, on the core's timeline.
    pub since: Micros,
    /// The core that serves it.
    pub core: u16,
    /// When it last sent something.
    pub active: Cell<Micros>,
    /// Its protocol.
    pub protocol: Cell<Protocol>,
    /// The name of the last command, its container's part included.
    pub last_command: Cell<&'static str>,
    /// CLIENT SETNAME.
    pub name: RefCell<String>,
    /// CLIENT SETINFO LIB-NAME.
    pub lib_name: RefCell<String>,
    /// CLIENT SETINFO LIB-VER.
    pub lib_version: RefCell<String>,
    /// Bytes it sent.
    pub input_bytes: Cell<u64>,
    /// Bytes it was sent.
    pub output_bytes: Cell<u64>,
    /// Commands it sent.
    pub commands: Cell<u64>,
    /// What it is at the moment.
    pub state: ClientState,
}

impl Client {
    /// One line of CLIENT LIST without the line's end: Redis's fields in Redis's order, then `core`.
    pub fn line(&self, now: Micros) -> String {
        let seconds_since = |then: Micros| now.saturating_sub(then) / 1_000_000;
        let mut line = String::new();
        let protocol = if self.protocol.get() == Protocol::Resp3 { 3 } else { 2 };
        let _ = write!(
            line,
            "id={} addr={} laddr={} fd={} name={} age={} idle={} flags={} db=0 sub=0 psub=0 ssub=0 multi={} qbuf={} \
             qbuf-free={} argv-mem=0 multi-mem={} rbs=0 rbp=0 obl=0 oll=0 omem={} tot-mem={} events={} cmd={} \
             user=default redir=-1 resp={} lib-name={} lib-ver={} tot-net-in={} tot-net-out={} tot-cmds={} core={}",
            self.id,
            self.address,
            self.local_address,
            self.descriptor,
            self.name.borrow(),
            seconds_since(self.since),
            seconds_since(self.active.get()),
            self.state.flags(self.address.starts_with('/')),
            self.state.queued.get().and_then(|queued| i64::try_from(queued).ok()).unwrap_or(-1),
            self.state.query_bytes.get(),
            self.state.query_room_bytes.get(),
            self.state.queued_bytes.get(),
            self.state.unsent_bytes.get(),
            self.memory_bytes(),
            if self.state.unsent_bytes.get() > 0 { "rw" } else { "r" },
            self.last_command.get(),
            protocol,
            self.lib_name.borrow(),
            self.lib_version.borrow(),
            self.input_bytes.get(),
            self.output_bytes.get(),
            self.commands.get(),
            self.core,
        );
        line
    }

    /// What it takes, in bytes: its record, its texts and its buffers.
    fn memory_bytes(&self) -> u64 {
        let texts = [&self.name, &self.lib_name, &self.lib_version].map(|text| text.borrow().capacity());
        let own = size_of::<Client>() + self.address.capacity() + self.local_address.capacity();
        let fixed = u64::try_from(own + texts.iter().sum::<usize>()).unwrap_or(u64::MAX);
        let state = &self.state;
        let fixed = fixed.saturating_add(u64::try_from(state.queued_bytes.get()).unwrap_or(u64::MAX));
        let buffers = [&state.query_bytes, &state.query_room_bytes, &state.unsent_bytes];
        buffers.iter().fold(fixed, |sum, bytes| sum.saturating_add(bytes.get()))
    }
}

/// The state that commands of one connection read and change.
#[derive(Debug)]
pub struct Session {
    /// What others see of it.
    pub client: Rc<Client>,
    /// The protocol of its replies.
    pub protocol: Protocol,
    /// Whether it may run commands that need a password. True from the start if none is set.
    pub authenticated: bool,
    /// Between MULTI and EXEC, and between WATCH and EXEC.
    pub transactions: Transactions,
    /// Which replies it gets.
    pub replies: Replies,
}

impl Session {
    /// Of a client that just came.
    pub fn new(client: Rc<Client>, authenticated: bool) -> Session {
        let transactions = Transactions::default();
        Session { client, protocol: Protocol::Resp2, authenticated, transactions, replies: Replies::On }
    }

    /// Sets the protocol for this session's next replies.
    pub fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
        self.client.protocol.set(protocol);
    }
}
