//! Random histories against the slow models, and the properties that hold for every call of every history.

mod common;

use common::history::{Step, histories};
use common::model::Model;
use common::{Key, State, T, five};
use proptest::prelude::*;
use tollgate_limits::{
    AMOUNT_MAX, Ask, Change, Charge, Decision, Micros, Mode, NOW_MICROS_MAX, Policy, REPLY_MS_MAX, Retry, Slide,
    Window, charge_slide, remaining_now, reset_ms, undo,
};

/// Plays a history and hands each call to `check`: the key before it, the call, its time, its decision, the key after.
fn play(steps: &[Step], mut check: impl FnMut(&Key, &Ask, Micros, Decision, &Key)) {
    let (mut key, mut now, mut told_ms) = (Key::new(), T, 0);
    for step in steps {
        now = step.pause.after(now, told_ms);
        let before = key.clone();
        let decision = key.call(&step.ask, now);
        if let Retry::After(ms) = decision.retry {
            told_ms = ms;
        }
        check(&before, &step.ask, now, decision, &key);
    }
}

fn refused(ask: &Ask, decision: Decision) -> bool {
    decision.allowed == 0 && ask.mode != Mode::Refund && ask.cost > 0
}

fn equals_the_model(steps: &[Step]) {
    let mut model = Model::new();
    play(steps, |before, ask, now, decision, after| {
        assert_eq!(before.exists(now), model.exists(now), "before {ask:?} at {now}");
        let verdict = model.check(ask, now, five(decision));
        assert_eq!(verdict, Ok(()), "{ask:?} at {now} on {before:?} answered {decision:?}");
        assert_eq!(after.exists(now), model.exists(now), "after {ask:?} at {now}: {after:?}");
        let (expiry, stays) = (after.expires_at(), after.exists(now));
        if stays && expiry < NOW_MICROS_MAX {
            assert!(model.exists(expiry - 1), "gone before its expiry: {after:?}");
            assert!(!model.exists(expiry), "use after its expiry: {after:?}");
        }
    });
}

fn waiting_as_told_admits(steps: &[Step]) {
    play(steps, |_, ask, now, decision, after| {
        let Retry::After(ms) = decision.retry else { return };
        let at = |ms: u64| now.saturating_add(ms.saturating_mul(1_000));
        if !refused(ask, decision) || ms == REPLY_MS_MAX || at(ms) > NOW_MICROS_MAX {
            return;
        }
        assert_eq!(after.clone().call(ask, at(ms)).allowed.min(1), 1, "after {ms} ms: {ask:?} on {after:?} at {now}");
        assert_eq!(after.clone().call(ask, at(ms - 1)).allowed, 0, "before {ms} ms: {ask:?} on {after:?} at {now}");
    });
}

fn remaining_is_what_is_admitted(steps: &[Step]) {
    play(steps, |_, ask, now, decision, after| {
        let charge = |cost: u64| after.ask(&Ask { policy: ask.policy, cost, mode: Mode::Charge }, now).decision.allowed;
        assert_eq!(charge(decision.remaining), 1, "{decision:?} {ask:?} on {after:?} at {now}");
        assert_eq!(charge(decision.remaining + 1), 0, "{decision:?} {ask:?} on {after:?} at {now}");
    });
}

fn only_what_is_admitted_changes_anything(steps: &[Step]) {
    play(steps, |before, ask, _, decision, after| {
        if refused(ask, decision) || ask.mode == Mode::Peek || ask.cost == 0 {
            assert_eq!(before, after, "{ask:?}");
        }
        if ask.mode == Mode::Refund
            && let (Some((policy_before, _)), Some((policy_after, _))) = (&before.record, &after.record)
        {
            assert_eq!(policy_before, policy_after, "{ask:?}");
        }
    });
}

fn an_outlived_record_is_none(steps: &[Step]) {
    play(steps, |_, ask, now, _, after| {
        for instant in [now, after.expires_at().clamp(now, NOW_MICROS_MAX)] {
            if !after.exists(instant) {
                assert_eq!(after.ask(ask, instant).decision, Key::new().ask(ask, instant).decision, "{after:?}");
            }
        }
    });
}

fn a_charge_given_back_is_as_if_never_made(steps: &[Step]) {
    play(steps, |before, ask, now, decision, after| {
        let charged = matches!(ask.mode, Mode::Charge | Mode::Partial) && decision.allowed > 0 && ask.cost > 0;
        // Where the window or the rate changed, the charge has rounded what it took over.
        let changed = before.exists(now) && before.record.as_ref().is_some_and(|(policy, _)| *policy != ask.policy);
        if !charged || changed {
            return;
        }
        let units = if ask.mode == Mode::Partial { decision.allowed } else { ask.cost };
        let look = Ask { policy: ask.policy, cost: 0, mode: Mode::Peek };
        let expected = before.ask(&look, now).decision;

        let mut refunded = after.clone();
        let given = refunded.call(&Ask { policy: ask.policy, cost: units, mode: Mode::Refund }, now);
        assert_eq!(given.allowed, units);
        assert_eq!(refunded.ask(&look, now).decision, expected, "refund of {units} from {after:?} at {now}");

        let mut undone = after.clone();
        let change = undo(after.stored(), &Charge { policy: ask.policy, units, at: now }, now);
        undone.write(change, &ask.policy);
        assert_ne!(change, Change::Keep);
        assert_eq!(undone.ask(&look, now).decision, expected, "undo of {units} from {after:?} at {now}");
        assert_eq!(undone.exists(now), before.exists(now));
    });
}

/// However late an undo comes, and whatever was charged meanwhile, at least as much is used as if the charge had never
/// been made.
fn a_late_undo_never_frees_others(steps: &[Step]) {
    let Some((first, rest)) = steps.split_first() else { return };
    let policy = first.ask.policy;
    let (mut with, mut without, mut now) = (Key::new(), Key::new(), T);
    let charged = with.call(&Ask { policy, cost: first.ask.cost, mode: Mode::Charge }, now);
    if charged.allowed == 0 || first.ask.cost == 0 {
        return;
    }
    let charge = Charge { policy, units: first.ask.cost, at: now };
    for step in rest {
        now = step.pause.after(now, 0);
        let ask = Ask { policy, cost: step.ask.cost, mode: Mode::Charge };
        // Both keys take the same calls: those that the fuller one admits.
        if with.call(&ask, now).allowed == 1 {
            without.call(&ask, now);
        }
        let mut undone = with.clone();
        undone.write(undo(with.stored().filter(|_| with.exists(now)), &charge, now), &policy);
        let look = Ask { policy, cost: 0, mode: Mode::Peek };
        let (left, expected) = (undone.ask(&look, now).decision, without.ask(&look, now).decision);
        assert!(left.remaining <= expected.remaining, "{left:?} {expected:?} {with:?} {charge:?} at {now}");
        assert!(left.reset_ms >= expected.reset_ms, "{left:?} {expected:?} {with:?} {charge:?} at {now}");
    }
}

fn what_is_shown_of_a_record_is_what_a_look_answers(steps: &[Step]) {
    play(steps, |_, _, now, _, after| {
        let Some((policy, state)) = after.stored() else { return };
        let look = after.ask(&Ask { policy: *policy, cost: 0, mode: Mode::Peek }, now).decision;
        assert_eq!(remaining_now(policy, state, now), look.remaining);
        assert_eq!(reset_ms(policy, state, now), look.reset_ms);
        assert_eq!(reset_ms(policy, state, now) > 0, after.exists(now));
    });
}

fn the_short_way_answers_as_decide_does(steps: &[Step]) {
    play(steps, |before, ask, now, decision, after| {
        let Some((Policy::Slide { .. }, State::Slide(state))) = &before.record else { return };
        let Policy::Slide { limit, window } = ask.policy else { return };
        // The short way knows of no other policy and of no other mode.
        if ask.mode != Mode::Charge || before.record.as_ref().is_some_and(|(policy, _)| *policy != ask.policy) {
            return;
        }
        let mut words = state.pack();
        let charged = charge_slide(&mut words, limit, window, ask.cost, now);
        if let Some(answer) = charged {
            assert!(before.exists(now), "{ask:?} on {before:?} at {now}");
            assert_eq!(answer, decision, "{ask:?} on {before:?} at {now}");
            assert_eq!(after.record, Some((ask.policy, State::Slide(Slide::unpack(words)))));
        }
        assert!(charged.is_some() || words == state.pack(), "{ask:?} on {before:?} at {now}");
        let is_common = decision.allowed == 1 && ask.cost > 0 && state.cur > 0 && before.exists(now);
        assert_eq!(charged.is_some(), is_common, "{ask:?} on {before:?} at {now}");
    });
}

fn every_property(steps: &[Step]) {
    equals_the_model(steps);
    waiting_as_told_admits(steps);
    remaining_is_what_is_admitted(steps);
    only_what_is_admitted_changes_anything(steps);
    an_outlived_record_is_none(steps);
    a_charge_given_back_is_as_if_never_made(steps);
    a_late_undo_never_frees_others(steps);
    what_is_shown_of_a_record_is_what_a_look_answers(steps);
    the_short_way_answers_as_decide_does(steps);
}

#[test]
fn the_short_way_leaves_what_is_not_common() {
    let window = Window::new(1_000_000).unwrap_or_else(|| unreachable!());
    let words = |index, cur, prev| Slide { index, cur, prev }.pack();
    let index = T / 1_000_000;
    let limit = 100;
    let cases = [
        ("common", words(index, 1, 5), limit, 1, T, true),
        ("the last microsecond", words(index, 1, 5), limit, 1, T + 1_999_999, true),
        ("outlived", words(index, 1, 5), limit, 1, T + 2_000_000, false),
        ("no use in its window", words(index, 0, 5), limit, 1, T, false),
        ("free", words(index, 1, 5), limit, 0, T, false),
        ("refused", words(index, 95, 5), limit, 1, T, false),
        ("just admitted", words(index, 94, 5), limit, 1, T, true),
        ("a cost beyond all", words(index, 1, 5), limit, u64::MAX, T, false),
        ("not begun", words(index + 1, 1, 5), limit, 1, T, false),
        ("damaged", [u64::MAX; 2], limit, 1, T, false),
        ("a limit beyond all", words(index, 1, 5), AMOUNT_MAX + 1, 1, T, false),
        ("time beyond all", words(NOW_MICROS_MAX / 1_000_000, 1, 5), limit, 1, NOW_MICROS_MAX + 1, false),
    ];
    for (case, mut words, limit, cost, now, is_common) in cases {
        let before = words;
        assert_eq!(charge_slide(&mut words, limit, window, cost, now).is_some(), is_common, "{case}");
        assert_eq!(words != before, is_common, "{case}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn slide(steps in histories("SLIDE", 40)) {
        every_property(&steps);
    }

    #[test]
    fn token(steps in histories("TOKEN", 40)) {
        every_property(&steps);
    }

    #[test]
    fn fixed(steps in histories("FIXED", 40)) {
        every_property(&steps);
    }

    #[test]
    fn log(steps in histories("LOG", 60)) {
        every_property(&steps);
    }

    #[test]
    fn leak(steps in histories("LEAK", 40)) {
        every_property(&steps);
    }
}
