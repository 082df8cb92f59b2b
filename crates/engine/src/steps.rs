//! Commands that take several steps on several cores, where one core's answer decides what another does.
//!
//! The problem: RENAME takes a key on one core and makes it on another, and neither core may wait for the other. The
//! idea: such a command is a plan that says who does what next and is told the answers; whoever drives it (a client,
//! or the one core that owns all the keys) carries orders and answers to and fro until there are no more. Room for the
//! orders is held at all cores of a plan before its first step, so that no later step can be refused for want of it.
//!
//! **Invariant:** each step is one uninterrupted step on its core; between the steps others may see what is done.

use crate::call::Call;
use crate::core::Core;
use crate::route::owner;
use tollgate_resp::{OwnedArgs, Reply};
use tollgate_store::{Content, Hasher, Located};

/// One step on one core: writes a fragment that only its plan reads, and may take and give what a key holds.
pub type StepFn = fn(&mut Core, &Call<'_>, Option<Box<Content>>, &mut Vec<u8>) -> Option<Box<Content>>;
/// Checks a call and makes its plan, or says what is wrong: the text of the error reply.
pub type PlanFn = fn(&Call<'_>, &Places) -> Result<Box<dyn Steps>, String>;

/// Where keys lie.
#[derive(Clone, Debug)]
pub struct Places {
    /// Locates keys.
    pub hasher: Hasher,
    /// How many cores there are.
    pub cores: u16,
}

/// A key of a call and where it lies.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Its position among the arguments.
    pub position: usize,
    /// Its slot and hash.
    pub at: Located,
    /// The core that owns it.
    pub core: u16,
}

impl Places {
    /// Where the key at `position` lies.
    pub fn of(&self, call: &Call<'_>, position: usize) -> Place {
        let at = self.hasher.locate(call.argument(position));
        Place { position, at, core: owner(at.slot, self.cores) }
    }
}

/// What one core is to do.
#[derive(Debug)]
pub struct Order {
    /// The core.
    pub core: u16,
    /// What runs there.
    pub run: StepFn,
    /// Which of the call's arguments it gets, by position.
    pub arguments: Vec<usize>,
    /// Where the first key among these lies.
    pub at: Located,
    /// What it is given.
    pub content: Option<Box<Content>>,
}

/// The course of one call.
pub trait Steps {
    /// The cores that any step may need, each once.
    fn cores(&self) -> Vec<u16>;
    /// What is to be done next, at most one order for each core. None: it is over.
    fn next(&mut self) -> Vec<Order>;
    /// Takes in what a core answered to its order.
    fn answered(&mut self, core: u16, fragment: &[u8], content: Option<Box<Content>>);
    /// The reply, once it is over.
    fn reply(&self, reply: &mut Reply<'_>);
}

/// Runs a plan whose keys all lie on this core: all its steps at once.
pub fn run_here(core: &mut Core, plan: PlanFn, call: &Call<'_>, reply: &mut Reply<'_>) {
    let places = Places { hasher: core.store.hasher(), cores: core.cores };
    let mut steps = match plan(call, &places) {
        Ok(steps) => steps,
        Err(text) => return reply.error(&text),
    };
    loop {
        let orders = steps.next();
        if orders.is_empty() {
            break;
        }
        for order in orders {
            let mut fragment = Vec::new();
            let content = run_order(core, &order.arguments, order.run, order.at, call, order.content, &mut fragment);
            steps.answered(order.core, &fragment, content);
        }
    }
    steps.reply(reply);
}

/// Runs one order on the core that it is for, out of the arguments of the whole call.
pub fn run_order(
    core: &mut Core,
    positions: &[usize],
    run: StepFn,
    at: Located,
    call: &Call<'_>,
    content: Option<Box<Content>>,
    fragment: &mut Vec<u8>,
) -> Option<Box<Content>> {
    let picked: OwnedArgs = positions.iter().map(|position| call.argument(*position)).collect();
    run(core, &Call { args: picked.args(), at, now: call.now }, content, fragment)
}
