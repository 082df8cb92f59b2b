//! What a row of the command table holds.
//!
//! A command is one row in `table.rs` and one function. Routing, COMMAND, COMMAND DOCS, docs/commands.md, the counters
//! of each command and (later) access control all read the row, so that none of them can disagree.

use crate::call::Call;
use crate::core::Core;
use crate::session::Session;
use crate::steps::PlanFn;
use crate::transaction::Control;
use tollgate_resp::Reply;

/// How a command travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// To the core that owns its first key.
    Key,
    /// To each core that owns some of its keys; the parts are merged.
    Keys,
    /// Several limits, all or nothing: charged at each owner, undone where another refuses.
    All,
    /// To the core that owns the slot it names.
    Slot,
    /// To the core that the cursor names.
    Cursor,
    /// To the cores of its keys in turn: what one answers, another is told.
    Steps,
    /// To every core; the parts are merged.
    Every,
    /// Nowhere: any core can answer it, so the connection's own does.
    Any,
    /// Nowhere, and it acts on the process: clock, shutdown. It waits for the connection's outstanding commands.
    Process,
    /// The connection's own affair: how its next commands are run. It waits likewise.
    Transaction,
}

impl Route {
    /// The word that docs/commands.md shows.
    pub const fn word(self) -> &'static str {
        match self {
            Route::Key => "the key's core",
            Route::Keys => "each key's core",
            Route::All => "each key's core, all or nothing",
            Route::Steps => "its keys' cores in turn",
            Route::Slot => "the slot's core",
            Route::Cursor => "the cursor's core",
            Route::Every => "every core",
            Route::Any => "any core",
            Route::Process => "off the data path",
            Route::Transaction => "the connection",
        }
    }
}

/// Where the keys are among the arguments, as COMMAND states it. All zero: no keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys {
    /// Position of the first key; the command's name is position 0.
    pub first: i8,
    /// Position of the last key; negative counts from the end.
    pub last: i8,
    /// From one key to the next.
    pub step: i8,
}

impl Keys {
    /// No keys.
    pub const NONE: Keys = Keys { first: 0, last: 0, step: 0 };
    /// One key, right after the name.
    pub const ONE: Keys = Keys { first: 1, last: 1, step: 1 };
    /// One key, after a subcommand's name.
    pub const SECOND: Keys = Keys { first: 2, last: 2, step: 1 };
    /// All arguments are keys.
    pub const ALL: Keys = Keys { first: 1, last: -1, step: 1 };
    /// The first two arguments are keys.
    pub const TWO: Keys = Keys { first: 1, last: 2, step: 1 };
    /// Every second argument is a key.
    pub const HALVES: Keys = Keys { first: 1, last: -1, step: 2 };
    /// Every fifth argument is a key.
    pub const FIFTHS: Keys = Keys { first: 1, last: -1, step: 5 };

    /// The positions of the keys of a call with `arguments` arguments (the name included).
    pub fn positions(self, arguments: usize) -> impl Iterator<Item = usize> {
        let first = usize::try_from(self.first).unwrap_or(0);
        let last = match usize::try_from(self.last) {
            Ok(last) => last,
            Err(_) => arguments.saturating_sub(usize::from(self.last.unsigned_abs())),
        };
        let step = usize::try_from(self.step).unwrap_or(0).max(1);
        let end = if first == 0 { 0 } else { (last + 1).min(arguments) };
        (first..end).step_by(step)
    }
}

/// Flags of a row, as COMMAND names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(u16);

impl Flags {
    /// None.
    pub const NONE: Flags = Flags(0);
    /// May change data.
    pub const WRITE: Flags = Flags(1);
    /// Only reads.
    pub const READONLY: Flags = Flags(2);
    /// May be refused for memory.
    pub const DENYOOM: Flags = Flags(4);
    /// Takes constant or logarithmic time.
    pub const FAST: Flags = Flags(8);
    /// For administrators.
    pub const ADMIN: Flags = Flags(16);
    /// Allowed before AUTH.
    pub const NO_AUTH: Flags = Flags(32);
    /// Allowed while data is loading.
    pub const LOADING: Flags = Flags(64);
    /// Allowed on a replica whose link is down.
    pub const STALE: Flags = Flags(128);
    /// Not shown: what follows may be read, run or answered otherwise, so a batch ends with it.
    pub const ENDS_BATCH: Flags = Flags(256);
    /// Not allowed between MULTI and EXEC.
    pub const NO_MULTI: Flags = Flags(2048);
    /// Not shown: CLIENT PAUSE does not hold it, so that an operator can end the pause.
    pub const NEVER_HELD: Flags = Flags(512);
    /// Not shown: its parts are told who asks, see [`crate::asker`].
    pub const TOLD_WHO: Flags = Flags(1024);

    const NAMES: [(Flags, &'static str); 9] = [
        (Flags::WRITE, "write"),
        (Flags::READONLY, "readonly"),
        (Flags::DENYOOM, "denyoom"),
        (Flags::ADMIN, "admin"),
        (Flags::LOADING, "loading"),
        (Flags::STALE, "stale"),
        (Flags::FAST, "fast"),
        (Flags::NO_AUTH, "no_auth"),
        (Flags::NO_MULTI, "no_multi"),
    ];

    /// Both.
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// Whether all of `other` are set.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// The names, in Redis's order.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Flags::NAMES.into_iter().filter(move |(flag, _)| self.has(*flag)).map(|(_, name)| name)
    }
}

/// One argument, for COMMAND DOCS and the documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Its name, in lower case.
    pub name: &'static str,
    /// What it is.
    pub kind: ArgumentKind,
    /// The word that goes before it or that it is, if any.
    pub token: &'static str,
    /// Whether it can be left out.
    pub optional: bool,
    /// Whether it can come several times.
    pub multiple: bool,
}

/// The kinds of arguments that COMMAND DOCS knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentKind {
    /// A key.
    Key,
    /// A word.
    Text,
    /// A whole number.
    Integer,
    /// A glob pattern.
    Pattern,
    /// The token alone.
    Token,
    /// One of these.
    OneOf(&'static [Argument]),
    /// These, one after another.
    Block(&'static [Argument]),
}

/// Runs on the core that owns the key.
pub type KeyFn = fn(&mut Core, &Call<'_>, &mut Reply<'_>);
/// Runs where the connection is, with its session.
pub type SessionFn = fn(&mut Core, &mut Session, &Call<'_>, &mut Reply<'_>);
/// One core's part of a command for several: writes a fragment that only its merge function reads.
pub type PartFn = fn(&mut Core, &Call<'_>, &mut Vec<u8>);
/// Makes one reply of the fragments.
pub type MergeFn = fn(&[&[u8]], &Call<'_>, &mut Reply<'_>);

/// What runs a command.
#[derive(Clone, Copy)]
pub enum Handler {
    /// [`Route::Key`] and [`Route::Slot`].
    Key(KeyFn),
    /// [`Route::Any`] and [`Route::Process`].
    Session(SessionFn),
    /// [`Route::Keys`], [`Route::Cursor`] and [`Route::Every`].
    Spread(PartFn, MergeFn),
    /// [`Route::All`].
    All,
    /// [`Route::Steps`].
    Steps(PlanFn),
    /// [`Route::Steps`]; in a transaction, which holds its cores anyway, as parts.
    StepsOrParts(PlanFn, PartFn, MergeFn),
    /// [`Route::Transaction`].
    Transaction(Control),
    /// Only its subcommands run.
    Container,
}

/// One row.
pub struct Command {
    /// In lower case; a subcommand's is `container|name`.
    pub name: &'static str,
    /// Number of arguments with the name; negative: at least.
    pub arity: i16,
    /// Flags.
    pub flags: Flags,
    /// Where the keys are.
    pub keys: Keys,
    /// How it travels.
    pub route: Route,
    /// ACL categories, each with its `@`.
    pub categories: &'static [&'static str],
    /// Its group in the documentation.
    pub group: &'static str,
    /// One sentence, for people.
    pub summary: &'static str,
    /// The version that brought it.
    pub since: &'static str,
    /// Its cost in time.
    pub complexity: &'static str,
    /// The arguments after the name.
    pub arguments: &'static [Argument],
    /// What runs it.
    pub handler: Handler,
    /// Rows of a container.
    pub subcommands: &'static [Command],
}

impl Command {
    /// A subcommand's own word; a command's name.
    pub fn word(&self) -> &'static str {
        self.name.split_once('|').map_or(self.name, |(_, word)| word)
    }
}

impl std::fmt::Debug for Command {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Command").field("name", &self.name).finish_non_exhaustive()
    }
}
