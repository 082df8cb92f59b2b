//! What a connection does with a command before any core runs it: look its row up, check it, say where it goes.

use crate::bounds::KEY_BYTES_MAX;
use crate::cluster::NO_CLUSTER;
use crate::cluster::slot_keys::parse_slot;
use crate::command::{Flags, Handler, Keys, Route};
use crate::connection::NOAUTH;
use crate::keys::parse_cursor;
use crate::registry::{Entry, Found, Registry, registry};
use crate::route::{cursor_slot, owner};
use crate::session::Session;
use crate::shared::Standing;
use crate::steps::Places;
use crate::transaction::{ABORTED_BECAUSE, Control};
use tollgate_resp::{Args, printable};
use tollgate_store::{Hasher, Located, Wide};

/// How a checked command travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Whole, to this core.
    To(u16),
    /// Nowhere: it runs with its session.
    Here,
    /// Nowhere, after the connection's outstanding commands, and it has effects.
    Process,
    /// In parts, to the cores that own its keys.
    PerKey,
    /// In parts, to every core.
    Every,
    /// In parts, one core after another, from the one that the cursor names.
    Cursor,
    /// In parts, all or nothing.
    AllOrNothing,
    /// In steps, on the cores that own its keys.
    Steps,
    /// The connection's own affair, after its outstanding commands.
    Transaction,
}

/// A command that may run.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    /// Its row.
    pub entry: &'static Entry,
    /// How it travels.
    pub way: Way,
    /// Where its first key lies.
    pub at: Located,
}

/// Checks commands and says where they go. A copy for each connection's core.
#[derive(Clone, Debug)]
pub struct Dispatcher {
    registry: &'static Registry,
    hasher: Hasher,
    cores: u16,
    in_cluster: bool,
}

/// A place for commands without a key.
const NOWHERE: Located = Located { slot: 0, hash: 0 };

impl Dispatcher {
    /// For stores that hash with `hasher`, on `cores` cores.
    pub fn new(hasher: Hasher, cores: u16) -> Dispatcher {
        Dispatcher { registry: registry(), hasher, cores, in_cluster: false }
    }

    /// The same, of a node of a cluster or not.
    pub fn in_cluster(self, in_cluster: bool) -> Dispatcher {
        Dispatcher { in_cluster, ..self }
    }

    /// Where keys lie.
    pub fn places(&self) -> Places {
        Places { hasher: self.hasher.clone(), cores: self.cores }
    }

    /// The hasher of all cores.
    pub fn hasher(&self) -> &Hasher {
        &self.hasher
    }

    /// Checks a whole command but for its session's rights ([`may_run`]), so that keys of a batch can be located and
    /// fetched before the first command of it runs. `None` if it cannot run: [`Dispatcher::refusal`] says why.
    pub fn check(&self, args: Args<'_>) -> Option<Ready> {
        let Found::Row(entry) = self.registry.find(args) else { return None };
        if !entry.accepts(args.len()) {
            return None;
        }
        let way = match entry.route {
            Route::Key => {
                let (core, at) = self.place(entry, args)?;
                return Some(Ready { entry, way: Way::To(core), at });
            }
            Route::Slot => {
                let at = Located { slot: args.get(2).and_then(parse_slot).unwrap_or(0), hash: 0 };
                return Some(Ready { entry, way: Way::To(owner(at.slot, self.cores)), at });
            }
            Route::Any => Way::Here,
            Route::Process => Way::Process,
            Route::Every => Way::Every,
            Route::Cursor => Way::Cursor,
            Route::Transaction => {
                let checked = self.check_keys(entry, args, Way::Transaction)?;
                return Some(Ready { way: Way::Transaction, ..checked });
            }
            Route::Keys => return self.check_keys(entry, args, Way::PerKey),
            Route::All => return self.check_keys(entry, args, Way::AllOrNothing),
            Route::Steps => return self.check_keys(entry, args, Way::Steps),
        };
        Some(Ready { entry, way, at: NOWHERE })
    }

    /// [`Dispatcher::check`] for a command for one key whose row is known: its core, and where the key lies. `None` if
    /// it cannot run.
    #[inline(always)]
    pub fn place(&self, entry: &Entry, args: Args<'_>) -> Option<(u16, Located)> {
        let key = args.get(1)?;
        if !entry.accepts(args.len()) || key.len() > KEY_BYTES_MAX {
            return None;
        }
        Some(self.locate(key))
    }

    /// A key's core, and where it lies there.
    #[inline(always)]
    pub fn locate(&self, key: &[u8]) -> (u16, Located) {
        let at = self.hasher.locate(key);
        (owner(at.slot, self.cores), at)
    }

    /// [`Dispatcher::locate`] in work that was compiled for a wide CPU.
    #[inline(always)]
    pub fn locate_wide(&self, wide: Wide, key: &[u8]) -> (u16, Located) {
        let at = self.hasher.locate_wide(wide, key);
        (owner(at.slot, self.cores), at)
    }

    /// If all keys lie on one core, the command goes there whole.
    fn check_keys(&self, entry: &'static Entry, args: Args<'_>, spread: Way) -> Option<Ready> {
        let mut first = None;
        let mut way = None;
        for key in entry.command.keys.positions(args.len()).filter_map(|position| args.get(position)) {
            if key.len() > KEY_BYTES_MAX {
                return None;
            }
            let at = self.hasher.locate(key);
            first.get_or_insert(at);
            let here = Way::To(owner(at.slot, self.cores));
            way = match way {
                None => Some(here),
                Some(before) if before == here => Some(here),
                Some(_) => Some(spread),
            };
        }
        Some(Ready { entry, way: way.unwrap_or(Way::Here), at: first.unwrap_or(NOWHERE) })
    }

    /// [`Dispatcher::check`] and [`Dispatcher::refusal`] in one.
    ///
    /// # Errors
    /// The text of the error reply.
    pub fn prepare(&self, args: Args<'_>) -> Result<Ready, String> {
        self.check(args).ok_or_else(|| self.refusal(args))
    }

    /// Why a command that [`Dispatcher::check`] did not take cannot run: the text of the error reply.
    #[cold]
    pub fn refusal(&self, args: Args<'_>) -> String {
        match self.registry.find(args) {
            Found::Row(entry) if !entry.accepts(args.len()) => wrong_number(entry),
            Found::Row(_) => key_too_long(),
            Found::UnknownCommand | Found::UnknownSubcommand(_) => self.unknown(args),
        }
    }

    /// The core that a SCAN's cursor names. One that is no cursor names the first: the command says so itself.
    pub fn cursor_core(&self, cursor: &[u8]) -> u16 {
        owner(parse_cursor(cursor).map_or(0, cursor_slot), self.cores)
    }

    /// The cores that own keys of a [`Way::PerKey`] command, each with the positions of its keys.
    pub fn split(&self, entry: &Entry, args: Args<'_>) -> Vec<(u16, Vec<usize>)> {
        let mut parts: Vec<(u16, Vec<usize>)> = Vec::new();
        for position in entry.command.keys.positions(args.len()) {
            let key = args.get(position).unwrap_or_default();
            let core = owner(self.hasher.locate(key).slot, self.cores);
            match parts.iter_mut().find(|(of, _)| *of == core) {
                Some((_, positions)) => positions.push(position),
                None => parts.push((core, vec![position])),
            }
        }
        parts
    }

    /// Whether a command may be refused by its name alone, while its arguments are still to come: the text if so. (An
    /// unknown command is not: its answer shows the arguments.)
    pub fn refuse_early(&self, name: &[u8], session: &Session, standing: Standing) -> Option<&'static str> {
        let entry = self.registry.find_name(name)?;
        let by_keys = standing.has(Standing::CLUSTER) && entry.command.keys.first > 0;
        // In a cluster a call's slot comes before what else may keep it from running, and its key is still to come.
        may_run(entry, session, if by_keys { Standing::default() } else { standing }).err()
    }

    fn unknown(&self, args: Args<'_>) -> String {
        if let Found::UnknownSubcommand(container) = self.registry.find(args) {
            if container.name == "cluster" && !self.in_cluster {
                return NO_CLUSTER.to_owned();
            }
            let word = printable(args.get(1).unwrap_or_default());
            let name = container.name.to_ascii_uppercase();
            return format!("ERR unknown subcommand '{word}'. Try {name} HELP.");
        }
        let name = printable(args.get(0).unwrap_or_default());
        let mut shown = String::new();
        for argument in args.iter().skip(1) {
            let room = ECHO_BYTES_MAX.saturating_sub(shown.len());
            if room == 0 {
                break;
            }
            shown.push_str(&format!("'{}' ", printable(argument.get(..room).unwrap_or(argument))));
        }
        format!("ERR unknown command '{name}', with args beginning with: {shown}")
    }
}

/// Where Redis stops showing arguments of an unknown command; the last of them is cut to what is left.
const ECHO_BYTES_MAX: usize = 128;

/// The answer to what needs keys before all that were kept are there, in Redis's words but for the name.
pub const LOADING: &str = "LOADING Tollgate is loading the dataset in memory";

/// The answer of a replica to what may change keys.
pub const READONLY: &str = "READONLY You can't write against a read only replica.";

/// The answer of a primary to the same, where fewer replicas are in step than must be.
pub const NOREPLICAS: &str = "NOREPLICAS Not enough good replicas to write.";

/// The answer of a node of a cluster that may not serve now what is its own.
pub const FENCED: &str = "CLUSTERDOWN The cluster is down";

/// Whether this session may run the command; `standing`: what keeps the process from it.
///
/// # Errors
/// The text of the error reply.
#[inline]
pub fn may_run(entry: &Entry, session: &Session, standing: Standing) -> Result<(), &'static str> {
    if !session.authenticated && !entry.before_auth {
        return Err(NOAUTH);
    }
    if standing.has(Standing::LOADING) && !entry.command.flags.has(Flags::LOADING) {
        return Err(LOADING);
    }
    if standing.has(Standing::FENCED) && (entry.command.keys != Keys::NONE || entry.command.flags.has(Flags::WRITE)) {
        return Err(FENCED);
    }
    if !entry.command.flags.has(Flags::WRITE) {
        return Ok(());
    }
    match standing {
        replica if replica.has(Standing::REPLICA) => Err(READONLY),
        lonely if lonely.has(Standing::LACKS_REPLICAS) => Err(NOREPLICAS),
        _ => Ok(()),
    }
}

fn wrong_number(entry: &Entry) -> String {
    let text = format!("wrong number of arguments for '{}' command", entry.command.name);
    match entry.command.handler {
        Handler::Transaction(Control::Exec) => format!("{ABORTED_BECAUSE}{text}"),
        _ => format!("ERR {text}"),
    }
}

fn key_too_long() -> String {
    format!("ERR key is longer than {KEY_BYTES_MAX} bytes")
}
