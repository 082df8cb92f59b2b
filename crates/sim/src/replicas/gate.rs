//! Answers on their way out of a core of a primary, as the server's `gate` lets them out.

use super::machine::{Flows, Process};
use super::wire::Place;
use super::world::{Event, World};
use tollgate_replication::bound::Mark;

/// The longest time from when something is to be told soon until it is, in microseconds.
const SOON_MICROS_MAX: u64 = 200;

impl World {
    /// What a core has done for a call leaves it, now or once it may.
    pub(super) fn pass_gate(&mut self, place: Place, core: usize, call: u64) {
        let Some(process) = self.process_of(place) else { return };
        let (leaves, hurries) = lets_out(process, core, call);
        if hurries {
            let at = self.now + self.random.between(1, SOON_MICROS_MAX);
            self.schedule(at, Event::Soon { place, core });
        }
        if leaves {
            self.go_on(call);
        } else {
            self.summary.held += 1;
        }
    }

    /// Lets out of a core what may leave now.
    pub(super) fn open_gate(&mut self, place: Place, core: usize) {
        loop {
            let Some(process) = self.process_of(place) else { return };
            let Some(Flows { outflow: Some(outflow), .. }) = process.flows.get(core) else { return };
            let Some(call) = process.gates.get_mut(core).and_then(|gate| gate.release(&outflow.in_step)) else {
                return;
            };
            self.go_on(call);
        }
    }
}

/// Whether it may leave; if not, it is held. And whether replicas are to be told soon.
fn lets_out(process: &mut Process, core: usize, call: u64) -> (bool, bool) {
    let Process { flows, cores, gates, .. } = process;
    let (Some(flows), Some(engine), Some(gate)) = (flows.get_mut(core), cores.get(core), gates.get_mut(core)) else {
        return (true, false);
    };
    let Some(outflow) = &flows.outflow else { return (true, false) };
    let units = engine.counters.units_admitted();
    let mark = Mark { units, flush: outflow.number_to_tell_all(&engine.store) };
    let leaves = gate.may_leave(mark, &outflow.in_step);
    if !leaves {
        gate.hold(mark, call);
    }
    let is_first = flows.is_quiet && engine.store.has_untaken_changes();
    let hurries = is_first || gate.is_near(units, &outflow.in_step);
    flows.is_quiet &= !hurries;
    (leaves, hurries)
}
