//! Beginnings and ends of calls in order, and how many lie before a moment.
//!
//! Questions come nearly in order, so each kind of question keeps the place of its last answer and gallops from there:
//! what a key's calls cost together is in proportion to their number.

/// Moments in rising order.
#[derive(Debug, Default)]
pub(crate) struct Sorted {
    moments: Vec<i64>,
    /// The last answer to each kind of question.
    last: [usize; KINDS],
}

/// Kinds of questions that are told apart.
pub(crate) const KINDS: usize = 3;

/// Beginnings and ends of the same calls.
#[derive(Debug, Default)]
pub(crate) struct Times {
    starts: Sorted,
    ends: Sorted,
}

impl Sorted {
    /// Holds these moments instead, in whatever order they come.
    pub(crate) fn fill(&mut self, moments: impl Iterator<Item = i64>) {
        self.moments.clear();
        self.moments.extend(moments);
        // Nearly sorted already, which costs little more than looking.
        self.moments.sort();
        self.last = [0; KINDS];
    }

    /// One more.
    pub(crate) fn insert(&mut self, moment: i64) {
        let place = self.moments.partition_point(|other| *other <= moment);
        self.moments.insert(place, moment);
    }

    /// How many are at or before `moment`.
    pub(crate) fn through(&mut self, kind: usize, moment: i64) -> u64 {
        let from = self.last.get(kind).copied().unwrap_or_default();
        let found = gallop(&self.moments, from, moment);
        if let Some(last) = self.last.get_mut(kind) {
            *last = found;
        }
        u64::try_from(found).unwrap_or(u64::MAX)
    }
}

impl Times {
    /// Holds these calls instead: beginning and end of each.
    pub(crate) fn fill(&mut self, calls: impl Iterator<Item = (i64, i64)> + Clone) {
        self.starts.fill(calls.clone().map(|(start, _)| start));
        self.ends.fill(calls.map(|(_, end)| end));
    }

    /// One more call.
    pub(crate) fn insert(&mut self, start: i64, end: i64) {
        self.starts.insert(start);
        self.ends.insert(end);
    }

    /// Calls that had begun at `moment`.
    pub(crate) fn begun(&mut self, kind: usize, moment: i64) -> u64 {
        self.starts.through(kind, moment)
    }

    /// The beginning that comes at place `number` from 1, in order: of any so many calls, one began then or later.
    pub(crate) fn start_of(&self, number: u64) -> Option<i64> {
        let place = usize::try_from(number).ok()?.checked_sub(1)?;
        self.starts.moments.get(place).copied()
    }

    /// Calls that had ended at `moment`.
    pub(crate) fn ended(&mut self, kind: usize, moment: i64) -> u64 {
        self.ends.through(kind, moment)
    }
}

/// How many of the sorted `moments` are at most `moment`, looked for in steps that double from `from` on.
fn gallop(moments: &[i64], from: usize, moment: i64) -> usize {
    let is_before = |place: usize| moments.get(place).is_some_and(|other| *other <= moment);
    let (mut low, mut high) = (from.min(moments.len()), from.min(moments.len()));
    let mut step = 1;
    if is_before(low) {
        while is_before(high) {
            low = high;
            high = high.saturating_add(step);
            step = step.saturating_mul(2);
        }
    } else {
        while low > 0 && !is_before(low) {
            high = low;
            low = low.saturating_sub(step);
            step = step.saturating_mul(2);
        }
    }
    let high = high.min(moments.len());
    let part = moments.get(low..high).unwrap_or_default();
    low.saturating_add(part.partition_point(|other| *other <= moment))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_right_from_any_place() {
        for length in 0..12_i64 {
            let moments: Vec<i64> = (0..length).map(|index| index / 2 * 10).collect();
            for from in 0..14 {
                for moment in -1..70 {
                    let expected = moments.iter().filter(|other| **other <= moment).count();
                    assert_eq!(gallop(&moments, from, moment), expected, "{moments:?} from {from} at {moment}");
                }
            }
        }
    }

    #[test]
    fn times_are_filled_in_any_order() {
        let mut times = Times::default();
        times.fill([(5, 9), (1, 7), (3, 20)].into_iter());
        times.insert(4, 8);
        let counts: Vec<(u64, u64)> =
            [0, 4, 8, 30].iter().map(|at| (times.begun(0, *at), times.ended(0, *at))).collect();
        assert_eq!(counts, [(0, 0), (3, 0), (4, 2), (4, 4)]);
    }
}
