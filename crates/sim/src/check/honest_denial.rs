//! A denial is honest when it is made: what was admitted, or what lay there undecided, really left no room.

use super::{Checker, Fact, Scene};
use crate::answer::{Answer, Five, Part};
use crate::errand::{Duty, Step};
use crate::request::{Group, Request};
use tollgate_limits::Mode;

/// Watches denials on keys whose use can be told, and the errors that stand for a refusal.
pub(super) struct HonestDenial;

impl Checker for HonestDenial {
    fn name(&self) -> &'static str {
        "honest denial"
    }

    fn see(&mut self, fact: &Fact, scene: &Scene<'_>) -> Result<(), String> {
        let Fact::Done(step) = fact else { return Ok(()) };
        match (&*step.note.request, step.note.duty) {
            (Request::Limit(group, mode), Duty::Whole) => match Answer::whole(&step.output) {
                Some(Answer::Error(text)) => error_has_cause(&text, step, scene),
                Some(answer) => {
                    let five = answer.five().ok_or("a limit's reply is not five integers")?;
                    let wanted = if *mode == Mode::Partial { group.cost.min(1) } else { group.cost };
                    let is_denied = five[0] == 0 && *mode != Mode::Refund && wanted > 0;
                    if is_denied { had_no_room(step, *group, wanted, scene) } else { Ok(()) }
                }
                None => Err("a limit's reply is no reply".to_owned()),
            },
            (Request::All(groups), Duty::Whole) => match Answer::whole(&step.output) {
                Some(Answer::Error(text)) => error_has_cause(&text, step, scene),
                Some(answer) => {
                    let (_, _, fives) = answer.all().ok_or("the reply of an RL.ALL has another form")?;
                    each_had_no_room(step, groups.iter().copied(), &fives, scene)
                }
                None => Err("the reply of an RL.ALL is no reply".to_owned()),
            },
            (Request::All(_), Duty::Charge) => match Part::read(&step.output) {
                Some(Part::Failed(text)) => error_has_cause(&text, step, scene),
                Some(Part::Denied(fives)) => {
                    let groups = step.note.keys.iter().filter_map(|key| step.note.request.group(*key));
                    each_had_no_room(step, groups, &fives, scene)
                }
                Some(Part::Charged(_)) => Ok(()),
                None => Err("a fragment of an RL.ALL is none".to_owned()),
            },
            _ => Ok(()),
        }
    }
}

fn each_had_no_room(
    step: &Step,
    groups: impl Iterator<Item = Group>,
    fives: &[Five],
    scene: &Scene<'_>,
) -> Result<(), String> {
    for (group, five) in groups.zip(fives) {
        if five[0] == 0 {
            had_no_room(step, group, group.cost, scene)?;
        }
    }
    Ok(())
}

fn had_no_room(step: &Step, group: Group, wanted: u64, scene: &Scene<'_>) -> Result<(), String> {
    let Some(account) = scene.books.account(group.key).filter(|account| account.is_exact()) else { return Ok(()) };
    let used = account.upper(step.now);
    if used + wanted > group.rule.limit {
        return Ok(());
    }
    Err(format!(
        "key {} refused {wanted} at {} although {used} of {} are in use",
        group.key, step.now, group.rule.limit
    ))
}

fn error_has_cause(text: &str, step: &Step, scene: &Scene<'_>) -> Result<(), String> {
    let code = text.split(' ').next().unwrap_or_default();
    let has_cause = match code {
        "OOM" => scene.plan.memory_max_bytes > 0,
        "WRONGTYPE" => step.note.keys.iter().any(|key| scene.books.account(*key).is_none()),
        _ => false,
    };
    if has_cause { Ok(()) } else { Err(format!("a call that is right was answered with {text:?}")) }
}
