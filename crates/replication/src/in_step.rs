//! Which replicas are in step, and what all of them know.
//!
//! The problem: a failover must go to a replica that lacks no more than is said, and a replica that hangs must not hang
//! its primary. Who may be waited for no longer must have stopped to call itself in step before that, although nothing
//! may reach it. The idea: each link counts once its copy is whole, until something that it was told has waited too
//! long to be acknowledged; it counts again once it has caught up. While all is well it is promised, again and again,
//! that it counts for a short time on; promises stop long before it is given up, and one that has left counts until its
//! last promise has ended.
//!
//! ```text
//! copying ──copy is whole──> counts ──unacknowledged for `timeout`──> out ──caught up──> counts
//!                              └── in step: it knows what is safe, which is what all that count know
//! age of what is unacknowledged    0 ... timeout/4: no more promises ............. timeout: out
//! a promise, given at any age before        └── holds for timeout/2 ──┘ and its way there, less than timeout/4
//! ```
//!
//! In a cluster a group decides who may take over, and its word is not taken back as fast as a link is lost: who is
//! *kept* is waited for, late or gone, until the group has let it go.
//!
//! **Invariant:** while a replica is promised to be in step, or is kept, nothing counts as safe that it has not
//! acknowledged.

use crate::planted::{Planted, is_planted};
use std::collections::{BTreeMap, VecDeque};

/// Flushes of which it is kept when they were made and what they told: a link that lacks more is out.
const FLUSHES_MAX: usize = 65_536;

/// A link of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub(crate) u64);

/// What a core has admitted since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Admitted {
    /// Units, by limits.
    pub units: u64,
    /// Writes of anything else.
    pub writes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Flush {
    number: u32,
    at: u64,
    admitted: Admitted,
}

#[derive(Debug)]
struct Member {
    /// The last flush that it has acknowledged.
    acknowledged: u32,
    is_copied: bool,
    counts: bool,
    /// The first flush since it counts: that tells all that had left while it was not waited for.
    counts_from: Option<u32>,
    /// Something that it was told has waited too long to be acknowledged.
    is_late: bool,
    is_gone: bool,
    /// It may take over by another's word.
    is_kept: bool,
    promised_until: u64,
    /// Parts that it was told, and that it has acknowledged.
    told: u64,
    heard: u64,
    /// A part whose way there and back is timed, and when it was told.
    probe: Option<(u64, u64)>,
    /// How long the last one took, in microseconds.
    round_trip: Option<u64>,
}

impl Member {
    /// How long a part takes there and back, at least.
    fn round_trip(&self, clock: u64) -> u64 {
        let under_way = self.probe.map(|(_, since)| clock.saturating_sub(since));
        under_way.max(self.round_trip).unwrap_or(u64::MAX)
    }
}

/// The links of a core that count.
#[derive(Debug)]
pub struct InStep {
    /// Microseconds after which who does not acknowledge is out.
    timeout: u64,
    members: BTreeMap<LinkId, Member>,
    /// Those that some whole copy has not acknowledged.
    flushes: VecDeque<Flush>,
    /// The last flush, and what was admitted when it was made.
    last: u32,
    flushed: Admitted,
    /// The last flush that all that count have acknowledged, and what was admitted when it was made.
    safe_number: u32,
    safe: Admitted,
}

impl InStep {
    /// With nobody. `timeout`: microseconds after which who does not acknowledge is waited for no longer.
    pub fn new(timeout: u64) -> InStep {
        let (members, flushes, none) = (BTreeMap::new(), VecDeque::new(), Admitted::default());
        InStep { timeout, members, flushes, last: 0, flushed: none, safe_number: 0, safe: none }
    }

    /// Changes the time after which who does not acknowledge is waited for no longer.
    pub fn set_timeout(&mut self, timeout: u64) {
        self.timeout = timeout;
    }

    /// Nobody is linked, and flushes are counted from 0 again.
    pub(crate) fn renumber(&mut self) {
        self.members.clear();
        self.flushes.clear();
        (self.last, self.safe_number) = (0, 0);
    }

    /// A link comes after this flush.
    pub(crate) fn join(&mut self, link: LinkId, acknowledged: u32) {
        let (told, heard, probe, round_trip) = Default::default();
        let (is_copied, counts, counts_from, is_late, is_gone, is_kept, promised_until) = Default::default();
        let member = Member {
            acknowledged,
            is_copied,
            counts,
            counts_from,
            is_late,
            is_gone,
            is_kept,
            promised_until,
            told,
            heard,
            probe,
            round_trip,
        };
        self.members.insert(link, member);
    }

    /// Whether there is nobody of whom anything is to be expected.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The link is gone; it counts until its promise has ended.
    pub(crate) fn leave(&mut self, link: LinkId) {
        if let Some(member) = self.members.get_mut(&link) {
            member.is_gone = true;
        }
    }

    /// A link was told so many parts more, each of which it acknowledges.
    pub(crate) fn told(&mut self, link: LinkId, parts: u64) {
        if let Some(member) = self.members.get_mut(&link) {
            member.told += parts;
        }
    }

    /// Times the last part that a link was told, unless another is being timed.
    pub(crate) fn probe(&mut self, link: LinkId, clock: u64) {
        if let Some(member) = self.members.get_mut(&link) {
            member.probe.get_or_insert((member.told, clock));
        }
    }

    /// A flush was made, of changes if its number is a new one.
    pub(crate) fn flushed(&mut self, number: u32, admitted: Admitted, clock: u64) {
        self.last = number;
        self.flushed = admitted;
        match self.flushes.back_mut() {
            // Where nothing changed that is told, what was admitted is in the copies that are under way.
            Some(last) if last.number == number => last.admitted = admitted,
            _ => self.flushes.push_back(Flush { number, at: clock, admitted }),
        }
        if self.flushes.len() > FLUSHES_MAX {
            self.flushes.pop_front();
        }
        self.members.values_mut().filter(|member| member.counts).for_each(|member| {
            member.counts_from.get_or_insert(number);
        });
        self.settle();
    }

    /// A link has put all up to a flush.
    pub(crate) fn acknowledged(&mut self, link: LinkId, number: u32, is_copied: bool, clock: u64) {
        let last = self.last;
        let Some(member) = self.members.get_mut(&link) else { return };
        member.acknowledged = member.acknowledged.max(number.min(last));
        member.heard += 1;
        if let Some((_, since)) = member.probe.take_if(|(part, _)| *part <= member.heard) {
            member.round_trip = Some(clock.saturating_sub(since));
        }
        if is_copied && !member.is_copied {
            member.is_copied = true;
            member.counts = true;
        }
        if member.counts {
            self.settle();
        } else if member.is_copied {
            self.look(clock);
        }
    }

    /// Gives up who has not acknowledged for too long, takes back who has caught up, and forgets who is gone. To be
    /// called some times in a quarter of the timeout.
    pub fn look(&mut self, clock: u64) {
        let (timeout, last, flushes) = (self.timeout, self.last, &self.flushes);
        let mut is_any_out = false;
        self.members.retain(|_, member| {
            let age = age(flushes, last, member.acknowledged, clock);
            member.is_late |= age >= timeout;
            if member.counts && age >= timeout && !member.is_kept {
                (member.counts, member.counts_from, is_any_out) = (false, None, true);
            } else if member.is_copied && !member.is_gone && age < timeout / 4 {
                (member.counts, member.is_late) = (true, false);
            }
            let is_over = member.is_gone && member.promised_until <= clock && !member.is_kept;
            is_any_out |= is_over && member.counts;
            !is_over
        });
        if is_any_out || self.members.is_empty() {
            self.settle();
        }
    }

    /// Says whether a link is of a replica that may take over by another's word: then it is waited for until this is
    /// said otherwise. Answers whether it is waited for now.
    pub fn keep(&mut self, link: LinkId, is_kept: bool) -> bool {
        let Some(member) = self.members.get_mut(&link) else { return false };
        member.is_kept = is_kept;
        member.counts
    }

    /// The links of which anything is to be expected, and whether each is gone.
    pub fn links(&self) -> impl Iterator<Item = (LinkId, bool)> {
        self.members.iter().map(|(link, member)| (*link, member.is_gone))
    }

    /// Whether anybody is waited for.
    #[inline]
    pub fn is_anybody_waited_for(&self) -> bool {
        self.members.values().any(|member| member.counts)
    }

    /// Whether a link is in step: it knows all that is safe.
    pub fn is_in_step(&self, link: LinkId) -> bool {
        self.members.get(&link).is_some_and(|member| {
            member.counts && !member.is_late && !member.is_gone && member.acknowledged >= self.safe_number
        })
    }

    /// Whether another may be told of a link that it may take over: it is in step, and knows what had left while it was
    /// not waited for too. A promise need not ask for that, as it comes on the link behind what had left; a word that
    /// goes another way can be taken up before.
    pub fn may_take_over(&self, link: LinkId) -> bool {
        let knows = |member: &Member| member.counts_from.is_some_and(|number| member.acknowledged >= number);
        self.is_in_step(link) && self.members.get(&link).is_some_and(knows)
    }

    /// Promises a link that it is in step for so many microseconds on; 0: it is not.
    pub(crate) fn promise(&mut self, link: LinkId, clock: u64) -> u64 {
        let is_in_step = self.is_in_step(link);
        let Some(member) = self.members.get_mut(&link) else { return 0 };
        // What comes late is a promise that holds too long, and the replica cannot know how late it comes.
        let slowest = age(&self.flushes, self.last, member.acknowledged, clock).max(member.round_trip(clock));
        if !is_in_step || slowest >= self.timeout / 4 {
            return 0;
        }
        let time = self.timeout / 2;
        member.promised_until = clock.saturating_add(time);
        time
    }

    /// What was admitted when the last flush was made that all that count have acknowledged.
    pub fn safe(&self) -> Admitted {
        self.safe
    }

    /// That flush.
    pub fn safe_number(&self) -> u32 {
        self.safe_number
    }

    /// Flushes that not all that count have acknowledged.
    pub(crate) fn flushes_unsafe(&self) -> u64 {
        u64::from(self.last.saturating_sub(self.safe_number))
    }

    /// What was admitted when the last flush was made.
    pub fn flushed_last(&self) -> Admitted {
        self.flushed
    }

    fn settle(&mut self) {
        let known = self.members.values().filter(|member| member.counts).map(|member| member.acknowledged);
        let known = if is_planted(Planted::OvershootReleasedByFirst) { known.max() } else { known.min() };
        if let Some(number) = known
            && number >= self.safe_number
        {
            self.safe_number = number;
            let known = self.flushes.partition_point(|flush| flush.number <= number);
            if let Some(flush) = known.checked_sub(1).and_then(|place| self.flushes.get(place)) {
                self.safe = flush.admitted;
            }
        }
        let copied = self.members.values().filter(|member| member.is_copied && !member.is_gone);
        let needed_from = copied.map(|member| member.acknowledged).min().unwrap_or(self.last);
        while self.flushes.front().is_some_and(|flush| flush.number <= needed_from.min(self.safe_number)) {
            self.flushes.pop_front();
        }
    }
}

/// For how long the first flush after `acknowledged` has not been.
fn age(flushes: &VecDeque<Flush>, last: u32, acknowledged: u32, clock: u64) -> u64 {
    if acknowledged >= last {
        return 0;
    }
    let next = flushes.partition_point(|flush| flush.number <= acknowledged);
    match flushes.get(next) {
        // Numbers rise by one: where the next is another, the one that was is older than what is kept.
        Some(flush) if flush.number == acknowledged + 1 => clock.saturating_sub(flush.at),
        _ => u64::MAX,
    }
}
