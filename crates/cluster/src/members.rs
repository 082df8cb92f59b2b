//! Who votes: as many nodes as make the group safe, spread so that what fails together does not vote together.
//!
//! Pure: what is known goes in, the next step comes out, one at a time.
//!
//! **Invariants:** voters are an odd number, at most seven. A voter that is silent goes only if another comes for it.

use crate::bounds;
use std::collections::{BTreeMap, BTreeSet};
use tollgate_topology::NodeId;

/// What is known of a node of the map.
#[derive(Clone, Debug)]
pub struct Known {
    /// The nodes with one copy of the same slots are called so together.
    pub shard: NodeId,
    /// Where it runs.
    pub host: String,
    /// For how long it was not heard of; none: never, by this leader.
    pub silent_micros: Option<u64>,
    /// Whether it lacks next to nothing of the log.
    pub is_caught_up: bool,
}

impl Known {
    fn is_heard(&self) -> bool {
        self.silent_micros.is_some_and(|silent| silent < bounds::VOTER_SILENT_MICROS)
    }

    fn may_come(&self) -> bool {
        self.is_heard() && self.is_caught_up
    }
}

/// A leader's view of its group.
#[derive(Clone, Debug)]
pub struct View {
    /// The leader.
    pub leader: NodeId,
    /// The nodes of the map.
    pub nodes: BTreeMap<NodeId, Known>,
    /// Those that the log is sent to.
    pub members: BTreeSet<NodeId>,
    /// Those of them that vote, or are to vote once a change is through.
    pub voters: BTreeSet<NodeId>,
    /// Whether a change of voters has stopped half way.
    pub is_joint: bool,
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The log is to be sent to this node.
    Learn(NodeId),
    /// These are to vote.
    Vote(BTreeSet<NodeId>),
}

/// The next step; none: all is as it should be, or as good as it can be now.
pub fn next(view: &View) -> Option<Step> {
    if view.is_joint {
        return Some(Step::Vote(view.voters.clone()));
    }
    if let Some(new) = view.nodes.keys().find(|id| !view.members.contains(*id)) {
        return Some(Step::Learn(*new));
    }
    let wanted = odd(view.nodes.len().min(bounds::VOTERS_MAX));
    let mut voters = view.voters.clone();
    while voters.len() > wanted {
        let goes = worst(view, &voters)?;
        voters.remove(&goes);
    }
    while voters.len() < wanted {
        let Some(comes) = best(view, &voters) else { break };
        voters.insert(comes);
    }
    if voters.len().is_multiple_of(2) {
        // One more would make no failure more bearable. Those that have come go first, then whoever is silent.
        let come = voters.difference(&view.voters).last().copied();
        let goes = come.or_else(|| worst(view, &voters))?;
        voters.remove(&goes);
    }
    if voters == view.voters {
        voters = replaced(view)?;
    }
    (voters != view.voters && !voters.is_empty()).then_some(Step::Vote(voters))
}

/// The largest odd number that is not larger.
fn odd(count: usize) -> usize {
    if count.is_multiple_of(2) { count.saturating_sub(1) } else { count }
}

/// A voter that is gone or silent makes room for a node that is there.
fn replaced(view: &View) -> Option<BTreeSet<NodeId>> {
    let is_gone = |id: &&NodeId| **id != view.leader && view.nodes.get(*id).is_none_or(|known| !known.is_heard());
    let goes = view.voters.iter().find(is_gone)?;
    let mut voters = view.voters.clone();
    voters.remove(goes);
    let comes = best(view, &voters).filter(|comes| comes != goes)?;
    voters.insert(comes);
    Some(voters)
}

/// The voter that can be spared first: one that has left, then a silent one, then the last.
fn worst(view: &View, voters: &BTreeSet<NodeId>) -> Option<NodeId> {
    let others = voters.iter().filter(|id| **id != view.leader);
    let worth = |id: &NodeId| view.nodes.get(id).map(Known::is_heard);
    others.copied().min_by_key(|id| (worth(id), std::cmp::Reverse(*id)))
}

/// The node that adds most to these voters: on a host that has the fewest of them, then of a shard that has.
fn best(view: &View, voters: &BTreeSet<NodeId>) -> Option<NodeId> {
    let known_voters = || voters.iter().filter_map(|id| view.nodes.get(id));
    let crowd = |known: &Known| {
        let on_host = known_voters().filter(|voter| voter.host == known.host).count();
        let of_shard = known_voters().filter(|voter| voter.shard == known.shard).count();
        (on_host, of_shard)
    };
    let may = |(id, known): &(&NodeId, &Known)| !voters.contains(*id) && view.members.contains(*id) && known.may_come();
    let candidates = view.nodes.iter().filter(may);
    candidates.map(|(id, known)| (crowd(known), *id)).min().map(|(_, id)| id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn id(number: u8) -> NodeId {
        NodeId([number; 20])
    }

    fn ids(numbers: &[u8]) -> BTreeSet<NodeId> {
        numbers.iter().map(|number| id(*number)).collect()
    }

    /// Nodes as (number, shard, host, heard); all that are not new are members.
    fn view(nodes: &[(u8, u8, &str, bool)], voters: &[u8]) -> View {
        let known = |(number, shard, host, heard): &(u8, u8, &str, bool)| {
            let silent_micros = Some(if *heard { 0 } else { bounds::VOTER_SILENT_MICROS });
            let known = Known { shard: id(*shard), host: (*host).to_owned(), silent_micros, is_caught_up: true };
            (id(*number), known)
        };
        let nodes: BTreeMap<NodeId, Known> = nodes.iter().map(known).collect();
        let members = nodes.keys().copied().chain(ids(voters)).collect();
        View { leader: id(1), nodes, members, voters: ids(voters), is_joint: false }
    }

    fn check(view: &View, step: Option<&[u8]>) {
        assert_eq!(next(view), step.map(|voters| Step::Vote(ids(voters))));
    }

    #[test]
    fn a_pair_has_one_voter_and_three_have_three() {
        check(&view(&[(1, 1, "a", true), (2, 1, "b", true)], &[1]), None);
        let three = [(1, 1, "a", true), (2, 1, "b", true), (3, 3, "c", true)];
        check(&view(&three, &[1]), Some(&[1, 2, 3]));
        check(&view(&three, &[1, 2, 3]), None);
        let mut new = view(&three, &[1]);
        new.members.remove(&id(3));
        assert_eq!(next(&new), Some(Step::Learn(id(3))));
    }

    #[test]
    fn voters_are_spread_over_hosts_and_then_shards() {
        let six = [
            (1, 1, "a", true),
            (2, 2, "a", true),
            (3, 3, "b", true),
            (4, 1, "b", true),
            (5, 2, "c", true),
            (6, 3, "c", true),
        ];
        check(&view(&six, &[1]), Some(&[1, 2, 3, 4, 5]));
        let one_host: Vec<_> = six.iter().map(|(number, shard, _, heard)| (*number, *shard, "h", *heard)).collect();
        check(&view(&one_host[..4], &[1]), Some(&[1, 2, 3]));
    }

    #[test]
    fn a_silent_voter_goes_when_another_comes_for_it() {
        let four = [(1, 1, "a", true), (2, 2, "b", false), (3, 3, "c", true), (4, 1, "d", true)];
        check(&view(&four, &[1, 2, 3]), Some(&[1, 3, 4]));
        check(&view(&four[..3], &[1, 2, 3]), None);
        let mut late = view(&four, &[1, 2, 3]);
        late.nodes.get_mut(&id(4)).unwrap().is_caught_up = false;
        check(&late, None);
    }

    #[test]
    fn what_stopped_half_way_is_ended_first() {
        let mut joint = view(&[(1, 1, "a", true), (2, 2, "b", true), (3, 3, "c", true)], &[1, 2, 3]);
        joint.is_joint = true;
        check(&joint, Some(&[1, 2, 3]));
    }

    proptest! {
        #[test]
        fn every_step_is_odd_keeps_the_leader_and_the_steps_end(
            nodes in prop::collection::vec((0u8..4, 0u8..3, any::<bool>()), 1..12), extra in 0u8..3
        ) {
            let hosts = ["a", "b", "c"];
            let of = |(number, (shard, host, heard)): (usize, &(u8, u8, bool))| {
                let number = u8::try_from(number + 1).unwrap();
                (number, *shard, hosts[usize::from(*host)], *heard || number == 1)
            };
            let nodes: Vec<_> = nodes.iter().enumerate().map(of).collect();
            let voters: Vec<u8> = std::iter::once(1).chain(100..100 + extra * 2).collect();
            let mut view = view(&nodes, &voters);
            for _ in 0..20 {
                let Some(Step::Vote(voters)) = next(&view) else { break };
                prop_assert!(voters.len() % 2 == 1 && voters.len() <= bounds::VOTERS_MAX);
                prop_assert!(voters.contains(&view.leader));
                view.voters = voters;
            }
            prop_assert_eq!(next(&view), None);
        }
    }
}
