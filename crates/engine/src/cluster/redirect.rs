//! Whether a call may run on this node, and what it is answered if not.
//!
//! ```text
//! in this order:  unknown, number of arguments    dispatch.rs
//!                 rights                          may_run
//!                 whose slot                      here
//!                 loading, replica, room          may_run, and the command itself
//! ```

use super::{Address, View};
use crate::command::{Flags, Route};
use crate::core::Core;
use crate::dispatch::{Ready, may_run};
use crate::registry::Entry;
use crate::session::Session;
use crate::shared::Standing;
use std::borrow::Cow;
use tollgate_resp::Args;
use tollgate_store::slot_of;

/// The answer to a call for a slot that nobody has.
pub const NOT_SERVED: &str = "CLUSTERDOWN Hash slot not served";
/// The answer to a call with keys of several slots.
pub const CROSS_SLOT: &str = "CROSSSLOT Keys in request don't hash to the same slot";

impl View {
    /// Whether calls with these keys run here: they share a slot, and this node serves it, or follows who does and the
    /// caller is content with a copy (`reads_copies`).
    ///
    /// # Errors
    /// The text of the error reply.
    pub fn check_slots(
        &self,
        slots: impl IntoIterator<Item = u16>,
        reads_copies: bool,
    ) -> Result<(), Cow<'static, str>> {
        let mut slots = slots.into_iter();
        let Some(slot) = slots.next() else { return Ok(()) };
        if self.map.owner_of(slot).is_none() {
            return Err(Cow::Borrowed(NOT_SERVED));
        }
        if slots.any(|other| other != slot) {
            return Err(Cow::Borrowed(CROSS_SLOT));
        }
        if self.serves(slot) || reads_copies && self.follows(slot) {
            return Ok(());
        }
        Err(self.redirection(slot))
    }

    /// What a call for a slot is answered that this node does not serve.
    #[cold]
    pub fn redirection(&self, slot: u16) -> Cow<'static, str> {
        match self.owner_of(slot) {
            Some((_, owner)) => Cow::Owned(format!("MOVED {slot} {}", Address(&owner.info.endpoint))),
            None => Cow::Borrowed(NOT_SERVED),
        }
    }
}

impl Core {
    /// Goes by the last view that the shell has set from here on: at the beginning of a batch.
    #[inline]
    pub fn refresh_view(&mut self) {
        if self.view.is_some() && self.view_version != self.settings.shared.view_version() {
            self.take_view();
        }
    }

    #[cold]
    fn take_view(&mut self) {
        let (version, view) = self.settings.shared.view();
        (self.view_version, self.view) = (version, Some(view));
    }

    /// Whether this node serves a slot.
    #[inline(always)]
    pub(crate) fn serves(&self, slot: u16) -> bool {
        self.view.as_ref().is_none_or(|view| view.serves(slot))
    }

    /// Whether this session may run this command now, with these arguments. `standing`: what keeps the process from
    /// running every command.
    ///
    /// # Errors
    /// The text of the error reply.
    #[inline]
    pub fn may_run<'a>(
        &mut self,
        ready: &Ready,
        session: &Session,
        standing: Standing,
        args: impl FnOnce() -> Args<'a>,
    ) -> Result<(), Cow<'static, str>> {
        if session.authenticated && standing == Standing::default() {
            return Ok(());
        }
        if session.authenticated && standing == Standing::CLUSTER && self.runs_here(ready) {
            return Ok(());
        }
        self.may_run_uncommon(ready, session, standing, args())
    }

    /// Whether a command is for one key, of a slot that this node serves.
    #[inline]
    fn runs_here(&self, ready: &Ready) -> bool {
        ready.entry.route == Route::Key
            && self.view_version == self.settings.shared.view_version()
            && self.serves(ready.at.slot)
    }

    #[inline(never)]
    fn may_run_uncommon(
        &mut self,
        ready: &Ready,
        session: &Session,
        standing: Standing,
        args: Args<'_>,
    ) -> Result<(), Cow<'static, str>> {
        if session.authenticated || ready.entry.before_auth {
            self.check_keys(ready.entry, session.client.state.reads_copies.get(), args)?;
        }
        may_run(ready.entry, session, standing).map_err(Cow::Borrowed)
    }

    /// Whether a command's keys are of a slot that is served here.
    ///
    /// # Errors
    /// The text of the error reply.
    pub fn check_keys(&mut self, entry: &Entry, reads_copies: bool, args: Args<'_>) -> Result<(), Cow<'static, str>> {
        self.refresh_view();
        let Some(view) = &self.view else { return Ok(()) };
        let keys = entry.command.keys.positions(args.len()).filter_map(|position| args.get(position));
        view.check_slots(keys.map(slot_of), reads_copies && entry.command.flags.has(Flags::READONLY))
    }
}
