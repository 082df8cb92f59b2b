//! An RL.ALL is answered as admitted if every core charged its part and none took it back, else as denied or failed.

use super::{Checker, Fact, Scene};
use crate::answer::{Answer, Five, Part};
use crate::errand::{Duty, RequestId};
use crate::request::Request;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Watches each RL.ALL from its parts to its reply.
#[derive(Default)]
pub(super) struct AllOrNothing {
    calls: BTreeMap<RequestId, Course>,
}

#[derive(Debug)]
struct Course {
    request: Rc<Request>,
    charged: BTreeSet<usize>,
    undone: BTreeSet<usize>,
    refused: bool,
    /// The errors of parts that failed, or of charges whose key was of another type when they were taken back.
    errors: Vec<String>,
}

impl Checker for AllOrNothing {
    fn name(&self) -> &'static str {
        "all or nothing"
    }

    fn see(&mut self, fact: &Fact, _scene: &Scene<'_>) -> Result<(), String> {
        match fact {
            Fact::Asked(id, request) if matches!(**request, Request::All(_)) => {
                let course = Course {
                    request: request.clone(),
                    charged: BTreeSet::new(),
                    undone: BTreeSet::new(),
                    refused: false,
                    errors: Vec::new(),
                };
                self.calls.insert(*id, course);
            }
            Fact::Done(step) => {
                let Some(course) = self.calls.get_mut(&step.note.id) else { return Ok(()) };
                let part = Part::read(&step.output);
                if step.note.duty == Duty::Undo && !course.undo(step.core) {
                    return Err(format!("core {} undid what it had not charged: {course:?}", step.core));
                }
                match (step.note.duty, part) {
                    (Duty::Charge, Some(Part::Charged(_))) => course.charged.extend([step.core]),
                    (Duty::Charge, Some(Part::Denied(_)) | None) => course.refused = true,
                    (Duty::Charge, Some(Part::Failed(text))) => {
                        course.refused = true;
                        course.errors.push(text);
                    }
                    (Duty::Undo, Some(Part::Failed(text))) => course.errors.push(text),
                    _ => {}
                }
            }
            Fact::Made(id, reply) => {
                if let Some(course) = self.calls.remove(id) {
                    return course.fits(reply);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

impl Course {
    /// Notes an undo; false if there was nothing to undo.
    fn undo(&mut self, core: usize) -> bool {
        self.undone.insert(core) && self.charged.contains(&core)
    }

    fn fits(&self, reply: &[u8]) -> Result<(), String> {
        let Request::All(groups) = &*self.request else { return Ok(()) };
        let answer = Answer::whole(reply).ok_or("the reply of an RL.ALL is no reply")?;
        let is_undone = self.charged == self.undone;
        let Some((admitted, binding, fives)) = answer.all() else {
            let is_right = is_undone && self.has_cause(&answer);
            return if is_right { Ok(()) } else { Err(format!("{answer} after {self:?}")) };
        };
        let limits_fit = groups.iter().zip(&fives).all(|(group, five)| i64::try_from(group.rule.limit) == Ok(five[1]));
        if fives.len() != groups.len() || !limits_fit {
            return Err(format!("the fives are not those of the groups: {answer} after {self:?}"));
        }
        let is_as_done = if admitted { !self.refused && self.undone.is_empty() } else { is_undone };
        // A group that is refused says so; where all ran on one core there is no charge to compare with.
        let is_refused = fives.iter().any(|five| five[0] == 0);
        let is_consistent = admitted != is_refused && usize::try_from(binding) == Ok(binding_of(&fives));
        if is_as_done && is_consistent && self.errors.is_empty() {
            Ok(())
        } else {
            Err(format!("{answer} after {self:?}"))
        }
    }

    /// Whether this is the error of one of the parts. Where no core heard of the call, or one alone ran it, there is
    /// no part to compare with.
    fn has_cause(&self, answer: &Answer) -> bool {
        let has_parts = self.refused || !self.charged.is_empty();
        matches!(answer, Answer::Error(text) if !has_parts || self.errors.contains(text))
    }
}

/// The limit that decides: of those that refuse the one with the longest wait, else the one with the least left.
fn binding_of(fives: &[Five]) -> usize {
    let refused = fives.iter().enumerate().filter(|(_, five)| five[0] == 0);
    // Never is the longest wait; among equals the first one counts.
    let wait_ms = |five: &Five| if five[3] < 0 { i64::MAX } else { five[3] };
    if let Some((index, _)) = refused.rev().max_by_key(|(_, five)| wait_ms(five)) {
        return index;
    }
    let share = |five: &Five| if five[1] == 0 { (0, 1) } else { (i128::from(five[2]), i128::from(five[1])) };
    let less =
        |(left, of): (i128, i128), (other_left, other_of): (i128, i128)| (left * other_of).cmp(&(other_left * of));
    let least = fives.iter().enumerate().min_by(|(_, one), (_, other)| less(share(one), share(other)));
    least.map_or(0, |(index, _)| index)
}
