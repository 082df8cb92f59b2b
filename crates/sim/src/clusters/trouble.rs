//! What goes wrong, what operators do, and how it must come right again once nothing goes wrong any more.

use super::check::Fact;
use super::machine::{File, node_id, node_of};
use super::net::{Body, Party};
use super::world::{Event, World};
use tollgate_replication::Export;
use tollgate_replication::snapshot::Stamp;

/// The longest time that a machine is down, in microseconds.
const DOWN_MICROS_MAX: u64 = 1_500_000;
/// How long nodes are paused, at least and at most.
const PAUSE_MICROS: (u64, u64) = (100_000, 10_000_000);
/// The longest time that nodes cannot reach each other.
const CUT_MICROS_MAX: u64 = 2_500_000;
/// The longest that a slow way takes longer.
const SLOW_MICROS_MAX: u64 = 600_000;
/// Of a thousand words to the group, so many are followed by a cut, so much later at most.
const WORST_PERMILLE: u64 = 30;
const WORST_MICROS_MAX: u64 = 12_000;
/// How long everything may take to come right.
const HEALING_MICROS_MAX: u64 = 5_000_000;
/// How often it is looked whether it has.
const HEALING_LOOK_MICROS: u64 = 20_000;
/// An operator who forces a failover tries so often, with so long in between.
const FORCE_TIMES: u64 = 12;
const FORCE_MICROS: u64 = 60_000;
/// Records that a snapshot is made of at most.
const FILE_RECORDS_MAX: usize = 1_000;

impl World {
    /// Something goes wrong.
    pub(super) fn trouble(&mut self) {
        if !self.is_troubled {
            return;
        }
        let at = self.now + self.random.between(10_000, self.plan.trouble_pause_micros_max);
        self.schedule(at, Event::Trouble);
        let node = self.some_victim();
        match self.random.below(100) {
            0..16 => self.kill_for_a_while(node),
            16..19 => self.kill_a_shard(),
            19..36 => self.pause(node),
            36..50 => self.cut_off(node),
            50..62 => self.cut_one_way(node),
            62..74 => self.slow_down(node),
            74..79 => self.break_wires(node),
            79..83 => self.save(node),
            83..87 => self.slow_down_and_cut_off(),
            87..95 => self.fail_over(),
            _ => self.begin_to_force(),
        }
    }

    /// A node: the leader, a primary or any.
    fn some_victim(&mut self) -> usize {
        let any = self.random.position(self.plan.nodes);
        match self.random.below(10) {
            0..3 => self.some_leader().unwrap_or(any),
            3..7 => self.some_primary().unwrap_or(any),
            _ => any,
        }
    }

    /// A node that takes itself for the leader, the one of the highest term.
    pub(super) fn some_leader(&self) -> Option<usize> {
        let leads = |node: &usize| {
            let process = self.machines.get(*node)?.process.as_ref()?;
            process.raft.leads().then(|| process.raft.term())
        };
        (0..self.plan.nodes).filter(|node| leads(node).is_some()).max_by_key(leads)
    }

    /// A node with slots, by the newest map.
    fn some_primary(&mut self) -> Option<usize> {
        let shard = self.random.position(self.plan.shards.len());
        let slot = self.plan.shards.get(shard)?.slots.0;
        let processes = self.machines.iter().filter_map(|machine| machine.process.as_ref());
        let map = processes.map(|process| &process.map).max_by_key(|map| map.epoch)?;
        map.owner_of(slot).map(node_of)
    }

    fn say(&mut self, what: String) {
        self.note(Fact::Trouble { what });
    }

    fn kill_for_a_while(&mut self, node: usize) {
        if self.place(node).is_none() {
            return;
        }
        self.kill(node);
        if self.random.chance(400)
            && let Some(machine) = self.machines.get_mut(node)
        {
            machine.disk.file = None;
        }
        let longest = self.random.choose(&[60_000, 300_000, DOWN_MICROS_MAX], 60_000);
        let at = self.now + self.random.between(5_000, longest);
        self.schedule(at, Event::Start { node });
    }

    fn kill_a_shard(&mut self) {
        let chosen = self.random.position(self.plan.shards.len());
        let Some(shard) = self.plan.shards.get(chosen).cloned() else { return };
        shard.replicas.iter().chain([&shard.primary]).for_each(|node| self.kill_for_a_while(*node));
    }

    /// The process of a machine is gone.
    fn kill(&mut self, node: usize) {
        let Some(place) = self.place(node) else { return };
        let delay = self.plan.delay_micros_max;
        let mut ends = Vec::new();
        for (id, wire) in &mut self.wires {
            let ended = if wire.primary == place {
                (wire.forth.end(self.now, delay, &mut self.random), true)
            } else if wire.replica == place {
                (wire.back.end(self.now, delay, &mut self.random), false)
            } else {
                continue;
            };
            ends.extend(ended.0.map(|at| (at, Event::Arrive { wire: *id, is_forth: ended.1 })));
        }
        ends.into_iter().for_each(|(at, event)| self.schedule(at, event));
        if let Some(machine) = self.machines.get_mut(node)
            && let Some(process) = machine.process.take()
        {
            process.end(&mut machine.disk);
            machine.paused_until = 0;
        }
        self.wake(node);
        self.summary.kills += 1;
        self.note(Fact::Died { place });
    }

    fn pause(&mut self, node: usize) {
        let longest = self.random.choose(&[600_000, 1_500_000, 3_000_000, PAUSE_MICROS.1], 600_000);
        let micros = self.random.between(PAUSE_MICROS.0, longest);
        let until = self.now + micros;
        self.say(format!("node {node} is paused for {micros}"));
        if let Some(machine) = self.machines.get_mut(node) {
            machine.paused_until = until.max(machine.paused_until);
        }
        self.schedule(until, Event::Wake { node });
        self.summary.pauses += 1;
    }

    /// A node, and some others with it, cannot be reached by the rest.
    pub(super) fn cut_off(&mut self, node: usize) {
        let until = self.now + self.random.between(50_000, CUT_MICROS_MAX);
        let side: Vec<bool> = (0..self.plan.nodes).map(|other| other == node || self.random.chance(250)).collect();
        self.say(format!("cut off until {until}: {side:?}"));
        for (one, is_one) in side.iter().enumerate() {
            for (other, _) in side.iter().enumerate().filter(|(_, is_other)| *is_other != is_one) {
                self.net.cut((one, other), until);
            }
        }
        self.summary.cuts += 1;
    }

    /// A primary is told late, and a little later cut off.
    fn slow_down_and_cut_off(&mut self) {
        let Some(node) = self.some_primary() else { return };
        let (extra, cut) = (self.random.between(50_000, 300_000), self.now + self.random.between(50_000, 600_000));
        self.say(format!("node {node} is told late by {extra}, and cut off at {cut}"));
        for other in (0..self.plan.nodes).filter(|other| *other != node) {
            self.net.slow((other, node), extra, cut);
        }
        self.schedule(cut, Event::CutOff { node });
    }

    /// Something has just been said that others are to take up: the worst moment for who has said it to be cut off.
    pub(super) fn maybe_cut_off_soon(&mut self, node: usize) {
        if self.is_troubled && self.random.chance(WORST_PERMILLE) {
            let at = self.now + self.random.between(200, WORST_MICROS_MAX);
            self.schedule(at, Event::CutOff { node });
        }
    }

    /// What a node sends does not come through, or what it is sent, to some or all others.
    fn cut_one_way(&mut self, node: usize) {
        let until = self.now + self.random.between(50_000, CUT_MICROS_MAX);
        let (is_out, all) = (self.random.chance(500), self.random.chance(600));
        self.say(format!("node {node} is cut one way until {until}, out {is_out}, all {all}"));
        for other in (0..self.plan.nodes).filter(|other| *other != node) {
            if all || self.random.chance(400) {
                self.net.cut(if is_out { (node, other) } else { (other, node) }, until);
            }
        }
        self.summary.cuts += 1;
    }

    fn slow_down(&mut self, node: usize) {
        let until = self.now + self.random.between(100_000, CUT_MICROS_MAX);
        let extra = self.random.between(5_000, SLOW_MICROS_MAX);
        let (is_out, is_in) = (self.random.chance(700), self.random.chance(700));
        self.say(format!("node {node} is slow by {extra} until {until}"));
        for other in (0..self.plan.nodes).filter(|other| *other != node) {
            if is_out {
                self.net.slow((node, other), extra, until);
            }
            if is_in {
                self.net.slow((other, node), extra, until);
            }
        }
    }

    fn break_wires(&mut self, node: usize) {
        let delay = self.plan.delay_micros_max;
        let mut ends = Vec::new();
        for (id, wire) in &mut self.wires {
            if wire.primary.node == node || wire.replica.node == node {
                let forth = wire.forth.break_off(self.now, delay, &mut self.random);
                let back = wire.back.break_off(self.now, delay, &mut self.random);
                ends.extend(forth.map(|at| (at, Event::Arrive { wire: *id, is_forth: true })));
                ends.extend(back.map(|at| (at, Event::Arrive { wire: *id, is_forth: false })));
            }
        }
        ends.into_iter().for_each(|(at, event)| self.schedule(at, event));
    }

    /// A node writes a snapshot.
    fn save(&mut self, node: usize) {
        let (now, clock) = (self.time(node), self.now);
        let Some(machine) = self.machines.get_mut(node) else { return };
        let wall = machine.wall(clock);
        let Some(process) = &mut machine.process else { return };
        let mut records = Vec::new();
        let mut walk = Export::new(&process.core.store);
        while !walk.is_done() {
            walk.step(&mut process.core.store, FILE_RECORDS_MAX, now, &mut records);
        }
        machine.disk.file = Some(File { records, stamp: Stamp { timeline: now, wall } });
    }

    /// An operator has a replica take over from its primary, by CLUSTER FAILOVER.
    fn fail_over(&mut self) {
        let Some((primary, to)) = self.some_replica() else { return };
        self.say(format!("node {primary} is to hand over to node {to}"));
        self.send(Party::Node(to), Party::Node(primary), Body::FailOver { to });
        self.summary.hand_overs += 1;
    }

    /// An operator has a replica take over whatever it knows, and does not give up at once.
    fn begin_to_force(&mut self) {
        let Some((_, to)) = self.some_replica() else { return };
        self.say(format!("node {to} is to take over, whatever it knows"));
        self.force_again(to, FORCE_TIMES);
    }

    pub(super) fn force_again(&mut self, to: usize, times: u64) {
        if times > 0 && self.is_troubled {
            self.force(to);
            self.schedule(self.now + FORCE_MICROS, Event::Force { to, times: times - 1 });
        }
    }

    /// A primary and a node that follows it, by the newest map.
    fn some_replica(&mut self) -> Option<(usize, usize)> {
        let primary = self.some_primary()?;
        let processes = self.machines.iter().filter_map(|machine| machine.process.as_ref());
        let map = processes.map(|process| &process.map).max_by_key(|map| map.epoch)?;
        let replicas: Vec<usize> = map.replicas_of(node_id(primary)).map(|(id, _)| node_of(id)).collect();
        let to = self.random.choose(&replicas, primary);
        (to != primary).then_some((primary, to))
    }

    /// Nothing goes wrong any more: soon each slot is served by one node, and calls are answered.
    pub(super) fn heal(&mut self) {
        if self.observer.found.is_some() {
            return;
        }
        self.is_troubled = false;
        self.net.heal();
        for machine in &mut self.machines {
            machine.paused_until = machine.paused_until.min(self.now);
        }
        for wire in self.wires.values_mut() {
            (wire.forth.held_until, wire.back.held_until) = (0, 0);
        }
        for node in 0..self.plan.nodes {
            self.wake(node);
            self.start(node);
        }
        let since = self.now;
        self.say("nothing goes wrong any more".to_owned());
        while self.observer.found.is_none() {
            let ill = self.what_is_not_healed(since);
            let micros = self.now - since;
            if ill.is_empty() {
                self.summary.healed += 1;
                self.summary.healed_micros_max = micros.max(self.summary.healed_micros_max);
                return self.note(Fact::Healed { micros });
            }
            if micros > HEALING_MICROS_MAX {
                let text = ill.join("; ");
                self.observer.found.get_or_insert(("heals", text));
            }
            self.let_happen(self.now + HEALING_LOOK_MICROS);
        }
    }

    /// What is not as it should be.
    fn what_is_not_healed(&self, since: u64) -> Vec<String> {
        let mut ill = Vec::new();
        let Some(leader) = self.some_leader() else { return vec!["nobody leads".to_owned()] };
        let process = |node: usize| self.machines.get(node).and_then(|machine| machine.process.as_ref());
        let Some(map) = process(leader).map(|process| &process.map) else { return vec!["nobody leads".to_owned()] };
        for node in 0..self.plan.nodes {
            let epoch = process(node).map(|process| process.map.epoch);
            if epoch != Some(map.epoch) {
                ill.push(format!("node {node} has the map {epoch:?}, and the leader {}", map.epoch));
            }
        }
        for shard in &self.plan.shards {
            let serves = |node: &usize| {
                let owns = |process: &super::machine::Process| {
                    process.map.owner_of(shard.slots.0) == Some(node_id(*node))
                        && process.reign.is_some()
                        && process.holder.until() > self.boot(*node)
                };
                process(*node).is_some_and(owns)
            };
            let who: Vec<usize> = (0..self.plan.nodes).filter(serves).collect();
            if who.len() != 1 {
                let owner = map.owner_of(shard.slots.0).and_then(|id| map.nodes.get_key_value(&id));
                ill.push(format!("the slots of {shard:?} are served by {who:?}, and by the map {owner:?}"));
            }
        }
        for (id, node) in &map.nodes {
            let followed = map.followed_by(*id).and_then(|primary| map.leading(primary));
            if followed.is_some_and(|leading| leading.in_step.get(id) != Some(&node.info.run)) {
                ill.push(format!("node {id} is not in step"));
            }
        }
        for (key, at) in self.answered.iter().enumerate().filter(|(_, at)| **at <= since) {
            ill.push(format!("no call on key {key} was answered since {at}"));
        }
        ill
    }
}
