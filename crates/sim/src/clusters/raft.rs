//! A small Raft, without a clock and without sockets: it stands for the library that real nodes use.
//!
//! Plain on purpose: the log is kept whole, the voters never change, messages may be lost, late and out of order. What
//! a node must not forget is [`Stable`]: who restarts goes on with it. Beside the votes and the log there are rounds: a
//! leader that has heard a majority answer a round has led when the round began.
//!
//! ```text
//! follower ──nothing heard──> candidate ──votes of a majority──> leader ──a higher term──> follower
//!                                                     first an entry of its own; once that is committed, it is ready
//! ```

use crate::random::Random;
use std::collections::BTreeSet;
use tollgate_topology::Change;

/// A leader is heard of as often as this, in microseconds.
pub const BEAT_MICROS: u64 = 50_000;
/// Who has not heard of a leader for this long, and as much again by chance, asks for votes.
const ELECTION_MICROS: u64 = 250_000;
/// The most entries of a message.
const ENTRIES_MAX: usize = 16;

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The term of the leader that made it.
    pub term: u64,
    /// What it changes; `None`: a leader has begun.
    pub change: Option<Change>,
}

/// What outlives a process.
#[derive(Clone, Debug, Default)]
pub struct Stable {
    /// The highest term that was heard of.
    pub term: u64,
    /// Who was voted for in it.
    pub voted_for: Option<usize>,
    /// Entries: the first has the index 1.
    pub log: Vec<Entry>,
}

/// What nodes say to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Asks for a vote; `last` are index and term of the candidate's last entry.
    Candidate { term: u64, last: (usize, u64) },
    /// Answers that.
    Vote { term: u64, is_granted: bool },
    /// A leader's entries behind the one of index and term `previous`, and up to where entries are committed.
    Append { term: u64, round: u64, previous: (usize, u64), entries: Vec<Entry>, committed: usize },
    /// Answers that: up to where the log is the leader's, or where to try next.
    Appended { term: u64, round: u64, is_like: bool, until: usize },
}

/// What is to be sent, and to whom.
pub type Out = Vec<(usize, Message)>;

#[derive(Debug)]
enum Role {
    Follower,
    Candidate { votes: BTreeSet<usize> },
    Leader(Leading),
}

#[derive(Debug)]
struct Leading {
    /// By node: the entry to send next, and up to where its log is known to be like this one's.
    next: Vec<usize>,
    matched: Vec<usize>,
    /// The last round that was begun, and by node the last that it answered.
    round: u64,
    answered: Vec<u64>,
    beat_at: u64,
    /// The entry that it began with.
    first: usize,
}

/// One node's.
#[derive(Debug)]
pub struct Raft {
    me: usize,
    nodes: usize,
    voters: BTreeSet<usize>,
    /// What it keeps.
    pub stable: Stable,
    role: Role,
    leader: Option<usize>,
    committed: usize,
    heard_at: u64,
    gives_up_at: u64,
}

impl Raft {
    /// Of a process that starts at `now`, of so many nodes.
    pub fn new(me: usize, nodes: usize, voters: &BTreeSet<usize>, stable: Stable, committed: usize, now: u64) -> Raft {
        let mut raft = Raft {
            me,
            nodes,
            voters: voters.clone(),
            stable,
            role: Role::Follower,
            leader: None,
            committed,
            heard_at: 0,
            gives_up_at: 0,
        };
        raft.gives_up_at = now + ELECTION_MICROS;
        raft
    }

    /// Whether it takes itself for the leader.
    pub fn leads(&self) -> bool {
        matches!(self.role, Role::Leader(_))
    }

    /// Whether it leads and has committed an entry of its own.
    pub fn is_ready(&self) -> bool {
        matches!(&self.role, Role::Leader(leading) if self.committed >= leading.first)
    }

    /// Whom it takes for the leader.
    pub fn leader(&self) -> Option<usize> {
        self.leader
    }

    /// Its term.
    pub fn term(&self) -> u64 {
        self.stable.term
    }

    /// Up to where entries are committed, as far as it knows.
    pub fn committed(&self) -> usize {
        self.committed
    }

    /// The entry at an index from 1 on.
    pub fn entry(&self, index: usize) -> Option<&Entry> {
        self.stable.log.get(index.checked_sub(1)?)
    }

    /// Whether a change is in the log and not committed yet.
    pub fn is_under_way(&self, change: &Change) -> bool {
        self.stable.log.iter().skip(self.committed).any(|entry| entry.change.as_ref() == Some(change))
    }

    /// Appends a change, if it leads. Answers its index.
    pub fn propose(&mut self, change: Change) -> Option<usize> {
        if !self.leads() {
            return None;
        }
        self.stable.log.push(Entry { term: self.stable.term, change: Some(change) });
        self.advance();
        Some(self.last().0)
    }

    /// Begins a round. Answers which, and what is to be sent.
    pub fn begin_round(&mut self, now: u64) -> (u64, Out) {
        let Role::Leader(leading) = &mut self.role else { return (0, Vec::new()) };
        leading.round += 1;
        leading.beat_at = now + BEAT_MICROS;
        let round = leading.round;
        if let Some(own) = leading.answered.get_mut(self.me) {
            *own = round;
        }
        let others = (0..self.nodes).filter(|node| *node != self.me);
        (round, others.filter_map(|node| Some((node, self.append_for(node)?))).collect())
    }

    /// The last round that a majority has answered in this term.
    pub fn round_answered(&self) -> u64 {
        let Role::Leader(leading) = &self.role else { return 0 };
        let of = |node: &usize| leading.answered.get(*node).copied().unwrap_or(0);
        majority_of(self.voters.iter().map(of).collect())
    }

    /// Time passes.
    pub fn tick(&mut self, now: u64, random: &mut Random) -> Out {
        match &self.role {
            Role::Leader(leading) if now >= leading.beat_at => self.begin_round(now).1,
            Role::Leader(_) => Vec::new(),
            _ if now >= self.gives_up_at && self.voters.contains(&self.me) => self.ask_for_votes(now, random),
            _ => Vec::new(),
        }
    }

    fn ask_for_votes(&mut self, now: u64, random: &mut Random) -> Out {
        self.stable.term += 1;
        self.stable.voted_for = Some(self.me);
        self.leader = None;
        self.role = Role::Candidate { votes: BTreeSet::from([self.me]) };
        self.gives_up_at = now + random.between(ELECTION_MICROS, 2 * ELECTION_MICROS);
        let message = Message::Candidate { term: self.stable.term, last: self.last() };
        let others = self.voters.iter().filter(|voter| **voter != self.me);
        others.map(|voter| (*voter, message.clone())).collect()
    }

    /// A message has come.
    pub fn hear(&mut self, from: usize, message: Message, now: u64, random: &mut Random) -> Out {
        match message {
            Message::Candidate { term, last } => self.vote(from, term, last, now),
            Message::Vote { term, is_granted } => {
                self.note_term(term);
                self.count_vote(from, term, is_granted, now)
            }
            Message::Append { term, round, previous, entries, committed } => {
                self.note_term(term);
                if term < self.stable.term {
                    // Rounds of a term that is over say nothing about this one.
                    return vec![(
                        from,
                        Message::Appended { term: self.stable.term, round: 0, is_like: false, until: 0 },
                    )];
                }
                (self.role, self.leader, self.heard_at) = (Role::Follower, Some(from), now);
                self.gives_up_at = now + random.between(ELECTION_MICROS, 2 * ELECTION_MICROS);
                let until = self.take_over(previous, entries, committed);
                let (is_like, until) = (until.is_ok(), until.unwrap_or_else(|until| until));
                vec![(from, Message::Appended { term: self.stable.term, round, is_like, until })]
            }
            Message::Appended { term, round, is_like, until } => {
                self.note_term(term);
                if term == self.stable.term {
                    self.count_answer(from, round, is_like, until);
                }
                Vec::new()
            }
        }
    }

    /// A higher term ends whatever this node was in its own.
    fn note_term(&mut self, term: u64) {
        if term > self.stable.term {
            self.stable.term = term;
            self.stable.voted_for = None;
            self.role = Role::Follower;
            self.leader = None;
        }
    }

    fn vote(&mut self, from: usize, term: u64, last: (usize, u64), now: u64) -> Out {
        // Who hears a leader does not help another to be one: else a node that was cut off would depose it.
        let hears = self.leads() || self.heard_at > 0 && now < self.heard_at + ELECTION_MICROS;
        if hears {
            return Vec::new();
        }
        self.note_term(term);
        let own = self.last();
        let is_behind = (last.1, last.0) < (own.1, own.0);
        let is_free = self.stable.voted_for.is_none_or(|voted_for| voted_for == from);
        let is_granted = term == self.stable.term && is_free && !is_behind;
        if is_granted {
            self.stable.voted_for = Some(from);
            self.gives_up_at = self.gives_up_at.max(now + ELECTION_MICROS);
        }
        vec![(from, Message::Vote { term: self.stable.term, is_granted })]
    }

    fn count_vote(&mut self, from: usize, term: u64, is_granted: bool, now: u64) -> Out {
        let needed = self.voters.len() / 2 + 1;
        let Role::Candidate { votes } = &mut self.role else { return Vec::new() };
        if term != self.stable.term || !is_granted {
            return Vec::new();
        }
        votes.insert(from);
        if votes.len() < needed {
            return Vec::new();
        }
        self.stable.log.push(Entry { term: self.stable.term, change: None });
        let first = self.stable.log.len();
        self.leader = Some(self.me);
        self.role = Role::Leader(Leading {
            next: vec![first; self.nodes],
            matched: vec![0; self.nodes],
            round: 0,
            answered: vec![0; self.nodes],
            beat_at: now,
            first,
        });
        self.begin_round(now).1
    }

    fn append_for(&self, node: usize) -> Option<Message> {
        let Role::Leader(leading) = &self.role else { return None };
        let next = leading.next.get(node).copied().unwrap_or(1).max(1);
        let previous = (next - 1, self.entry(next - 1).map_or(0, |entry| entry.term));
        let entries = self.stable.log.iter().skip(next - 1).take(ENTRIES_MAX).cloned().collect();
        let (term, round, committed) = (self.stable.term, leading.round, self.committed);
        Some(Message::Append { term, round, previous, entries, committed })
    }

    /// Takes a leader's entries. Answers up to where the logs are alike, or where they may be.
    fn take_over(&mut self, previous: (usize, u64), entries: Vec<Entry>, committed: usize) -> Result<usize, usize> {
        let (before, term) = previous;
        if before > 0 && self.entry(before).is_none_or(|entry| entry.term != term) {
            return Err(self.stable.log.len().min(before - 1));
        }
        let until = before + entries.len();
        for (index, entry) in (before + 1..).zip(entries) {
            if self.entry(index).is_some_and(|own| own.term == entry.term) {
                continue;
            }
            // What another leader had appended there was never committed.
            self.stable.log.truncate(index - 1);
            self.stable.log.push(entry);
        }
        self.committed = self.committed.max(committed.min(until));
        Ok(until)
    }

    fn count_answer(&mut self, from: usize, round: u64, is_like: bool, until: usize) {
        let Role::Leader(leading) = &mut self.role else { return };
        let (Some(next), Some(matched), Some(answered)) =
            (leading.next.get_mut(from), leading.matched.get_mut(from), leading.answered.get_mut(from))
        else {
            return;
        };
        *answered = round.max(*answered);
        if is_like {
            *matched = until.max(*matched);
            *next = *matched + 1;
        } else {
            *next = (until + 1).min((*next).saturating_sub(1)).max(*matched + 1);
        }
        self.advance();
    }

    /// Commits what a majority has, up to an entry of the own term.
    fn advance(&mut self) {
        let last = self.stable.log.len();
        let Role::Leader(leading) = &self.role else { return };
        let of = |node: &usize| if *node == self.me { last } else { leading.matched.get(*node).copied().unwrap_or(0) };
        let had = usize::try_from(majority_of(self.voters.iter().map(|node| of(node) as u64).collect())).unwrap_or(0);
        if self.entry(had).is_some_and(|entry| entry.term == self.stable.term) {
            self.committed = self.committed.max(had);
        }
    }

    /// Index and term of the last entry.
    fn last(&self) -> (usize, u64) {
        (self.stable.log.len(), self.stable.log.last().map_or(0, |entry| entry.term))
    }
}

/// The highest number that more than half of them have reached.
fn majority_of(mut numbers: Vec<u64>) -> u64 {
    numbers.sort_unstable_by(|one, other| other.cmp(one));
    numbers.get(numbers.len() / 2).copied().unwrap_or(0)
}
