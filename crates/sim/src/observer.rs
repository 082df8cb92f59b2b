//! Takes in what happens, keeps the books, asks the checkers, remembers the last facts.

use crate::books::Books;
use crate::check::{self, Checker, Fact, Scene};
use crate::plan::Plan;
use crate::world::Run;
use std::collections::VecDeque;

/// Facts that a report shows.
const REMEMBERED: usize = 80;
/// Characters of a fact that a report shows.
const SHOWN_CHARACTERS: usize = 2_000;

/// What is wrong with a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The checker that saw it.
    pub checker: &'static str,
    /// In words.
    pub text: String,
}

/// Watches a run.
pub(crate) struct Observer {
    books: Books,
    checkers: Vec<Box<dyn Checker>>,
    last: VecDeque<Fact>,
    seen: u64,
    found: Option<Finding>,
}

impl Observer {
    /// Of a run that begins.
    pub fn new(plan: &Plan, run: &Run) -> Observer {
        let mut checkers = check::all();
        checkers.retain(|checker| run.only.is_none_or(|only| only == checker.name()));
        let books = Books::new(plan);
        Observer { books, checkers, last: VecDeque::new(), seen: 0, found: None }
    }

    /// Takes in a fact.
    pub fn note(&mut self, plan: &Plan, fact: Fact) {
        if self.found.is_some() {
            return;
        }
        self.seen += 1;
        match &fact {
            Fact::Done(step) => {
                if step.evicted {
                    // In which order records went and were made within the step cannot be told.
                    step.note.keys.iter().for_each(|key| self.books.give_up(*key));
                }
                self.books.post(step);
            }
            Fact::Settled(id, admitted) => self.books.settle(*id, *admitted),
            Fact::Lost(key) => self.books.lose(*key),
            _ => {}
        }
        let overdrafts = self.books.take_overdrafts();
        let scene = Scene { plan, books: &self.books, overdrafts: &overdrafts };
        for checker in &mut self.checkers {
            if let Err(text) = checker.see(&fact, &scene) {
                self.found.get_or_insert(Finding { checker: checker.name(), text });
            }
        }
        if matches!(fact, Fact::Memory { .. } | Fact::Queued { .. }) {
            return;
        }
        if self.last.len() == REMEMBERED {
            self.last.pop_front();
        }
        self.last.push_back(fact);
    }

    /// What is wrong, if anything.
    pub fn found(&self) -> Option<&Finding> {
        self.found.as_ref()
    }

    /// How many facts were seen.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// The last facts, oldest first, one line each.
    pub fn last(&self) -> Vec<String> {
        self.last.iter().map(|fact| fact.to_string().chars().take(SHOWN_CHARACTERS).collect()).collect()
    }
}
