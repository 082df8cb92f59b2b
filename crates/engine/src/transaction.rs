//! MULTI, EXEC, DISCARD, WATCH, UNWATCH: what a connection keeps between them.
//!
//! The problem: the commands of a transaction run together, each core's part of them as one step, and only if what was
//! watched is unchanged; but they come one by one, and their keys lie anywhere. The idea: they are checked and kept as
//! they come, and EXEC hands them to the shell, which sends each core all of its part in one message, with the watched
//! keys in front where that core owns them. Cores are not isolated from one another, so that watched keys must share a
//! slot: then one core says whether the transaction runs, before any other has heard of it.

use crate::command::Flags;
use crate::dispatch::Ready;
use tollgate_resp::{Args, OwnedArgs};
use tollgate_store::Watch;

/// The most commands between MULTI and EXEC.
pub const COMMANDS_MAX: usize = 65_536;
/// The most bytes of arguments between MULTI and EXEC.
pub const BYTES_MAX: usize = 16 * 1024 * 1024;

/// EXEC after a command that was refused.
pub const ABORTED: &str = "EXECABORT Transaction discarded because of previous errors.";
/// EXEC that was itself refused, which ends the transaction; the reason follows.
pub const ABORTED_BECAUSE: &str = "EXECABORT Transaction discarded because of: ";
/// A command that cannot be part of a transaction.
pub const NOT_ALLOWED: &str = "ERR Command not allowed inside a transaction";
/// A second MULTI.
pub const NESTED: &str = "ERR MULTI calls can not be nested";
/// EXEC by itself.
pub const EXEC_ALONE: &str = "ERR EXEC without MULTI";
/// DISCARD by itself.
pub const DISCARD_ALONE: &str = "ERR DISCARD without MULTI";
/// WATCH too late.
pub const WATCH_INSIDE: &str = "ERR WATCH inside MULTI is not allowed";
/// WATCH of keys on more than one slot.
pub const WATCH_SLOTS: &str = "ERR WATCHed keys must share a slot, give them a common {tag}";
/// More than a transaction holds.
pub const TOO_MUCH: &str = "ERR the transaction is too large";
/// More than all transactions of a core may hold.
pub const TOO_MUCH_OF_ALL: &str = "ERR the open transactions of all clients are too large, try again";
/// The most bytes that open transactions of the connections of one core hold.
pub const CORE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The refusal of an EXEC whose guard would not hold to its end.
pub fn unguarded(name: &str) -> String {
    let name = name.to_ascii_uppercase();
    format!("ERR EXEC with WATCHed keys cannot run {name} in several steps, give its keys a common {{tag}}")
}

/// A command that is about the transaction itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// MULTI.
    Multi,
    /// EXEC.
    Exec,
    /// DISCARD.
    Discard,
    /// WATCH.
    Watch,
    /// UNWATCH, which between MULTI and EXEC is kept like any other.
    Unwatch,
}

/// A command that waits for EXEC.
#[derive(Clone, Debug)]
pub struct Queued {
    /// Its row and where it goes.
    pub ready: Ready,
    /// Its arguments.
    pub arguments: OwnedArgs,
}

/// What came since MULTI.
#[derive(Debug, Default)]
pub struct Transaction {
    commands: Vec<Queued>,
    bytes: usize,
    is_broken: bool,
}

impl Transaction {
    /// Keeps a command for EXEC.
    ///
    /// # Errors
    /// The text of the error reply, if it is too much; EXEC will then refuse.
    pub fn queue(&mut self, ready: Ready, args: Args<'_>) -> Result<(), &'static str> {
        let arguments: OwnedArgs = args.iter().collect();
        let bytes = self.bytes.saturating_add(arguments.held_bytes());
        if bytes > BYTES_MAX || self.commands.len() >= COMMANDS_MAX {
            self.break_off();
            return Err(TOO_MUCH);
        }
        self.bytes = bytes;
        self.commands.push(Queued { ready, arguments });
        Ok(())
    }

    /// A command was refused: EXEC will run nothing. What is kept is given back at once.
    pub fn break_off(&mut self) {
        self.is_broken = true;
        self.commands = Vec::new();
        self.bytes = 0;
    }

    /// Whether EXEC may change data.
    pub fn writes(&self) -> bool {
        self.commands.iter().any(|command| command.ready.entry.command.flags.has(Flags::WRITE))
    }

    /// How many bytes they take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// How many commands are kept.
    pub fn len(&self) -> usize {
        self.commands.len()
    }

    /// Whether none is kept.
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// The commands, for EXEC. `None` if one was refused.
    pub fn into_commands(self) -> Option<Vec<Queued>> {
        (!self.is_broken).then_some(self.commands)
    }
}

/// What a connection's transactions need.
#[derive(Debug, Default)]
pub struct Transactions {
    /// Since MULTI.
    pub open: Option<Transaction>,
    /// Keys that EXEC looks at first, all of one slot.
    pub watched: Vec<Watch>,
}
