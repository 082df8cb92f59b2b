//! Commands that concern several cores: each core's part goes to it, the connection puts the answers together.

use crate::worker::{Room, Worker};
use std::rc::Rc;
use tollgate_engine::all::{self, AllPlan, BUSY, UndoLog};
use tollgate_engine::call::Call;
use tollgate_engine::cluster::slot_keys::holds_any;
use tollgate_engine::command::Handler;
use tollgate_engine::dispatch::{NOREPLICAS, Ready, Way};
use tollgate_engine::keys::scan_goes_on;
use tollgate_engine::parcel::{Cargo, NewJob, Parcel, Task};
use tollgate_engine::registry::registry;
use tollgate_engine::steps::run_order;
use tollgate_resp::{Args, OwnedArgs, Protocol, Reply};
use tollgate_store::Located;

/// One core's part: where it goes and which arguments it takes, by position.
struct Part {
    core: usize,
    arguments: Vec<usize>,
}

/// A command whose keys lie on several cores, each of which answers for its own.
pub async fn per_key(worker: &Rc<Worker>, ready: &Ready, args: Args<'_>, reply: &mut Reply<'_>) {
    let parts = worker
        .dispatcher
        .split(ready.entry, args)
        .into_iter()
        .map(|(core, keys)| Part { core: usize::from(core), arguments: std::iter::once(0).chain(keys).collect() });
    gather(worker, ready, args, parts.collect(), reply).await;
}

/// A command that every core answers a part of.
pub async fn every(worker: &Rc<Worker>, ready: &Ready, args: Args<'_>, reply: &mut Reply<'_>) {
    let cores = worker.hub.mesh.cores();
    let parts = (0..cores).map(|core| Part { core, arguments: (0..args.len()).collect() });
    gather(worker, ready, args, parts.collect(), reply).await;
}

/// SCAN: one core after another, until enough keys were met.
pub async fn walk(worker: &Rc<Worker>, ready: &Ready, args: Args<'_>, room: Room, reply: &mut Reply<'_>) {
    let Handler::Spread(run_part, merge) = ready.entry.command.handler else {
        return reply.error("ERR internal error: command took a wrong route");
    };
    let whole = Call { args, at: ready.at, now: worker.now() };
    let mut fragments: Vec<Vec<u8>> = Vec::new();
    let mut cursor = args.get(1).unwrap_or_default().to_vec();
    // Wherever it goes, it is one call, which its connection's core counts.
    worker.core.borrow().counters.ran(ready.entry.index);
    loop {
        let to = usize::from(worker.dispatcher.cursor_core(&cursor));
        let arguments =
            args.iter().enumerate().map(|(at, argument)| if at == 1 { cursor.as_slice() } else { argument });
        let mut fragment = Vec::new();
        if to == worker.index {
            let mut core = worker.core.borrow_mut();
            with_arguments(arguments, |args| run_part(&mut core, &Call { args, ..whole }, &mut fragment));
        } else if room == Room::Held || worker.wait_for_room([to]).await {
            let ticket = worker.new_ticket(1);
            let mut parcel = worker.take_parcel();
            parcel.push(new_job(ready, Task::Part, None), arguments);
            worker.send(to, parcel, ticket, room);
            worker.wake(to);
            let answered = worker.collect(ticket).await;
            answered.iter().for_each(|(_, parcel)| fragment.extend_from_slice(parcel.reply(0)));
            if give_back(worker, answered, room) {
                return reply.error(NOREPLICAS);
            }
        } else {
            worker.core.borrow().counters.busy_replies.add(1);
            return reply.error(BUSY);
        }
        fragments.push(fragment);
        match scan_goes_on(&fragments, &whole) {
            Some(next) => cursor = next.to_string().into_bytes(),
            None => break,
        }
    }
    let parts: Vec<&[u8]> = fragments.iter().map(Vec::as_slice).collect();
    merge(&parts, &whole, reply);
}

async fn gather(worker: &Rc<Worker>, ready: &Ready, args: Args<'_>, parts: Vec<Part>, reply: &mut Reply<'_>) {
    let Handler::Spread(run_part, merge) = ready.entry.command.handler else {
        return reply.error("ERR internal error: command took a wrong route");
    };
    let others: Vec<usize> = parts.iter().map(|part| part.core).filter(|core| *core != worker.index).collect();
    if !worker.wait_for_room(others.iter().copied()).await {
        worker.core.borrow().counters.busy_replies.add(1);
        return reply.error(BUSY);
    }
    // Wherever its keys lie, it is one call, which its connection's core counts.
    worker.core.borrow().counters.ran(ready.entry.index);
    let ticket = worker.new_ticket(others.len());
    for part in parts.iter().filter(|part| part.core != worker.index) {
        send_part(worker, ready, Task::Part, args, part, ticket, Room::Take, None);
    }
    others.iter().for_each(|core| worker.wake(*core));
    let mut own = Vec::new();
    if let Some(part) = parts.iter().find(|part| part.core == worker.index) {
        let mut core = worker.core.borrow_mut();
        with_arguments(at_positions(args, &part.arguments), |args| {
            run_part(&mut core, &Call { args, at: ready.at, now: worker.now() }, &mut own);
            worker.carry_out(&mut core);
        });
    }
    let answered = worker.collect(ticket).await;
    let mut fragments: Vec<&[u8]> = answered.iter().map(|(_, parcel)| parcel.reply(0)).collect();
    fragments.push(&own);
    if !answered.iter().any(|(_, parcel)| parcel.is_refused()) {
        merge(&fragments, &Call { args, at: ready.at, now: worker.now() }, reply);
    }
    if give_back(worker, answered, Room::Take) {
        reply.error(NOREPLICAS);
    }
}

/// RL.ALL over several cores: all charge, or those that did take it back before the reply is written.
pub async fn all_or_nothing(worker: &Rc<Worker>, ready: &Ready, args: Args<'_>, room: Room, reply: &mut Reply<'_>) {
    let (settings, hasher) = (worker.hub.settings.clone(), worker.dispatcher.hasher().clone());
    let cores = u16::try_from(worker.hub.mesh.cores()).unwrap_or(u16::MAX);
    let mut plan = match AllPlan::new(&settings, &hasher, cores, args) {
        Ok(plan) => plan,
        Err(failure) => {
            return reply.error(&failure.to_string());
        }
    };
    worker.core.borrow().counters.ran(ready.entry.index);
    let parts: Vec<Part> =
        plan.cores().map(|core| Part { core: usize::from(core), arguments: plan.arguments(core).collect() }).collect();
    let others: Vec<usize> = parts.iter().map(|part| part.core).filter(|core| *core != worker.index).collect();
    if room == Room::Take && !worker.wait_for_room(others.iter().copied()).await {
        worker.core.borrow().counters.busy_replies.add(1);
        return reply.error(BUSY);
    }
    let ticket = worker.new_ticket(others.len());
    for part in parts.iter().filter(|part| part.core != worker.index) {
        send_part(worker, ready, Task::Charge, args, part, ticket, room, None);
    }
    others.iter().for_each(|core| worker.wake(*core));
    if let Some(part) = parts.iter().find(|part| part.core == worker.index) {
        let mut fragment = Vec::new();
        let undo = with_arguments(at_positions(args, &part.arguments), |args| {
            let call = Call { args, at: ready.at, now: worker.now() };
            all::charge(&mut worker.core.borrow_mut(), &call, &mut fragment)
        });
        plan.charged(number(part.core), &fragment, undo);
    }
    // The room of each message stays held until its undo is done or known not to be needed: an undo always finds room.
    let mut is_refused = false;
    for (core, mut parcel) in worker.collect(ticket).await {
        is_refused |= parcel.is_refused();
        let undo = parcel.take_undo(0);
        plan.charged(number(core), parcel.reply(0), undo);
        worker.give_parcel(parcel);
    }
    undo_where_needed(worker, ready, args, &parts, &mut plan).await;
    if room == Room::Take {
        others.iter().for_each(|core| worker.free_room(*core));
    }
    // What was charged stays charged: nobody may be told that it was admitted.
    if is_refused { reply.error(NOREPLICAS) } else { plan.reply(reply) }
}

async fn undo_where_needed(worker: &Rc<Worker>, ready: &Ready, args: Args<'_>, parts: &[Part], plan: &mut AllPlan) {
    let undos = plan.to_undo();
    let elsewhere = undos.iter().filter(|(core, _)| usize::from(*core) != worker.index).count();
    if undos.is_empty() {
        return;
    }
    let ticket = worker.new_ticket(elsewhere);
    let mut woken = Vec::with_capacity(elsewhere);
    for (core, log) in undos {
        let core = usize::from(core);
        let Some(part) = parts.iter().find(|part| part.core == core) else { continue };
        if core != worker.index {
            send_part(worker, ready, Task::Undo, args, part, ticket, Room::Held, Some(log));
            woken.push(core);
            continue;
        }
        let mut fragment = Vec::new();
        with_arguments(at_positions(args, &part.arguments), |args| {
            let call = Call { args, at: ready.at, now: worker.now() };
            all::undo(&mut worker.core.borrow_mut(), &call, *log, &mut fragment);
        });
        plan.undone(number(core), &fragment);
    }
    woken.iter().for_each(|core| worker.wake(*core));
    for (core, parcel) in worker.collect(ticket).await {
        plan.undone(number(core), parcel.reply(0));
        worker.give_parcel(parcel);
    }
}

/// A command that takes several steps. Room at all its cores is held from the first step to the last, so that none is
/// refused when others are done.
pub async fn in_steps(worker: &Rc<Worker>, ready: &Ready, args: Args<'_>, room: Room, reply: &mut Reply<'_>) {
    let (Handler::Steps(plan) | Handler::StepsOrParts(plan, ..)) = ready.entry.command.handler else {
        return reply.error("ERR internal error: command took a wrong route");
    };
    worker.core.borrow().counters.ran(ready.entry.index);
    let whole = Call { args, at: ready.at, now: worker.now() };
    let mut steps = match plan(&whole, &worker.dispatcher.places()) {
        Ok(steps) => steps,
        Err(text) => return reply.error(&text),
    };
    let others: Vec<usize> = steps.cores().into_iter().map(usize::from).filter(|core| *core != worker.index).collect();
    if room == Room::Take {
        if !worker.wait_for_room(others.iter().copied()).await {
            worker.core.borrow().counters.busy_replies.add(1);
            return reply.error(BUSY);
        }
        others.iter().for_each(|core| worker.hold_room(*core));
    }
    let mut is_refused = false;
    loop {
        let orders = steps.next();
        if orders.is_empty() {
            break;
        }
        let (own, away): (Vec<_>, Vec<_>) =
            orders.into_iter().partition(|order| usize::from(order.core) == worker.index);
        let ticket = worker.new_ticket(away.len());
        for order in away {
            let mut parcel = worker.take_parcel();
            let cargo = order.content.map(Cargo::Content);
            let job = NewJob { at: order.at, ..new_job(ready, Task::Step(order.run), cargo) };
            parcel.push(job, at_positions(args, &order.arguments));
            worker.send(usize::from(order.core), parcel, ticket, Room::Held);
            worker.wake(usize::from(order.core));
        }
        for order in own {
            let mut fragment = Vec::new();
            let (core, call) = (&mut worker.core.borrow_mut(), Call { now: worker.now(), ..whole });
            let content = run_order(core, &order.arguments, order.run, order.at, &call, order.content, &mut fragment);
            steps.answered(order.core, &fragment, content);
        }
        for (core, mut parcel) in worker.collect(ticket).await {
            let content = match parcel.take_cargo(0) {
                Some(Cargo::Content(content)) => Some(content),
                _ => None,
            };
            is_refused |= parcel.is_refused();
            steps.answered(number(core), parcel.reply(0), content);
            worker.give_parcel(parcel);
        }
    }
    if room == Room::Take {
        others.iter().for_each(|core| worker.free_room(*core));
    }
    if is_refused { reply.error(NOREPLICAS) } else { steps.reply(reply) }
}

/// Whether any core holds a key that has not expired.
///
/// # Errors
/// The text of the error reply: a core is too busy to say.
pub async fn holds_keys(worker: &Rc<Worker>) -> Result<bool, &'static str> {
    let Some(entry) = registry().find_full_name(b"cluster|replicate") else { return Ok(true) };
    let others: Vec<usize> = (0..worker.hub.mesh.cores()).filter(|core| *core != worker.index).collect();
    if !worker.wait_for_room(others.iter().copied()).await {
        worker.core.borrow().counters.busy_replies.add(1);
        return Err(BUSY);
    }
    let ready = Ready { entry, way: Way::Every, at: Located { slot: 0, hash: 0 } };
    let ticket = worker.new_ticket(others.len());
    for core in others {
        let mut parcel = worker.take_parcel();
        parcel.push(new_job(&ready, Task::Step(holds_any), None), std::iter::empty());
        worker.send(core, parcel, ticket, Room::Take);
        worker.wake(core);
    }
    let mut fragment = Vec::new();
    let call = Call { args: Args::new(&[], &[]), at: ready.at, now: worker.now() };
    holds_any(&mut worker.core.borrow_mut(), &call, None, &mut fragment);
    let answered = worker.collect(ticket).await;
    answered.iter().for_each(|(_, parcel)| fragment.extend_from_slice(parcel.reply(0)));
    let is_refused = give_back(worker, answered, Room::Take);
    // A count of nothing is nothing but zeros; who did not say may hold some.
    Ok(is_refused || fragment.iter().any(|byte| *byte != 0))
}

#[expect(clippy::too_many_arguments, reason = "each is a different thing and none belongs to another")]
fn send_part(
    worker: &Worker,
    ready: &Ready,
    task: Task,
    args: Args<'_>,
    part: &Part,
    ticket: u64,
    room: Room,
    undo: Option<Box<UndoLog>>,
) {
    let mut parcel: Box<Parcel> = worker.take_parcel();
    let job = new_job(ready, task, undo.map(Cargo::Undo));
    parcel.push(job, at_positions(args, &part.arguments));
    worker.send(part.core, parcel, ticket, room);
}

fn new_job(ready: &Ready, task: Task, cargo: Option<Cargo>) -> NewJob {
    // Fragments are in a form of their own; the protocol matters only where the reply is written.
    NewJob { entry: ready.entry, task, at: ready.at, protocol: Protocol::Resp2, cargo }
}

/// The arguments at `positions`.
fn at_positions<'a>(args: Args<'a>, positions: &'a [usize]) -> impl Iterator<Item = &'a [u8]> {
    positions.iter().map(move |position| args.get(*position).unwrap_or_default())
}

/// Calls `run` with other arguments than those that came.
fn with_arguments<'a, R>(arguments: impl Iterator<Item = &'a [u8]>, run: impl FnOnce(Args<'_>) -> R) -> R {
    let owned: OwnedArgs = arguments.collect();
    run(owned.args())
}

/// There are at most 256 cores.
fn number(core: usize) -> u16 {
    u16::try_from(core).unwrap_or(u16::MAX)
}

/// Keeps emptied parcels, and frees their room unless the caller holds it. Answers whether one was refused.
fn give_back(worker: &Worker, answered: Vec<(usize, Box<Parcel>)>, room: Room) -> bool {
    let refused = answered.iter().any(|(_, parcel)| parcel.is_refused());
    for (core, parcel) in answered {
        if room == Room::Take {
            worker.free_room(core);
        }
        worker.give_parcel(parcel);
    }
    refused
}
