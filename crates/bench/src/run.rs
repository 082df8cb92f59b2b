//! A whole run: prepare, render, touch the keys, warm, measure, report.

use crate::connection::Connection;
use crate::dialog::Dialog;
use crate::drive::{Driver, Limit, Phase};
use crate::error::BenchError;
use crate::keys;
use crate::live::{Goal, Live, Stage};
use crate::plan::Plan;
use crate::process::Process;
use crate::report::{Report, ServerUse, Setting};
use crate::ring::Ring;
use crate::scan::{Denial, Tally};
use crate::template::Template;
use mio::{Poll, Token};
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Keys are touched in parts of this many calls, so that ten million keys need no buffer of their own size.
const TOUCH_CALLS_A_PART: usize = 1 << 17;

/// Runs a plan to its report; `live` is told what happens on the way.
pub(crate) fn run(plan: &Plan, live: Option<&Live>) -> Result<Report, BenchError> {
    begin(live, Stage::Preparing, Goal::Unknown);
    if let Some(cpu) = plan.cpu {
        pin(cpu)?;
    }
    let server = plan.pid.map(Process::open).transpose()?;
    let mut dialogs = Vec::with_capacity(plan.connections);
    for _ in 0..plan.connections {
        dialogs.push(Dialog::open(&plan.target)?);
    }
    let sha = match (&plan.script, dialogs.first_mut()) {
        (Some(script), Some(dialog)) => Some(dialog.load_script(script)?),
        _ => None,
    };
    let template = Template::parse(&plan.command, sha.as_deref(), plan.names.key_bytes())?;
    let placement = Placement::find(plan, &mut dialogs)?;
    let mut driver = connect(plan, &template, &placement, dialogs)?;

    if plan.warm_keys && template.has_key() {
        touch_keys(plan, &template, &mut driver, live)?;
        begin(live, Stage::Preparing, Goal::Unknown);
    }
    let mut rings = placement.render_rings(plan, &template)?;
    if !plan.warmup.is_zero() {
        begin(live, Stage::WarmingUp, Goal::Time(plan.warmup));
        let warmed = driver.run_phase(&mut rings, Limit::Time(plan.warmup), live)?;
        refuse_errors("the warm-up", &warmed.tally)?;
    }
    let (phase, client_cpu, server) = measure(plan, &mut driver, &mut rings, server, live)?;
    let keys_measured = rings.iter().map(Ring::call_count).sum();
    Ok(Report::new(setting(plan, keys_measured), &phase, client_cpu, server))
}

/// Which ring each connection takes its calls from: one for all, or one for each core of the server.
#[derive(Debug)]
struct Placement {
    ring_of_connection: Vec<usize>,
    core_count: usize,
}

impl Placement {
    fn find(plan: &Plan, dialogs: &mut [Dialog]) -> Result<Placement, BenchError> {
        if !plan.own_core {
            return Ok(Placement { ring_of_connection: vec![0; dialogs.len()], core_count: 1 });
        }
        let core_count = match dialogs.first_mut() {
            Some(dialog) => dialog.cores()?.max(1),
            None => 1,
        };
        let mut ring_of_connection = Vec::with_capacity(dialogs.len());
        for dialog in dialogs {
            let core = dialog.core()?;
            if core >= core_count {
                return Err(BenchError::Preparation {
                    command: "CLIENT INFO".into(),
                    reply: format!("core={core} on a server of {core_count} cores"),
                });
            }
            ring_of_connection.push(core);
        }
        Ok(Placement { ring_of_connection, core_count })
    }

    fn render_rings(&self, plan: &Plan, template: &Template) -> Result<Vec<Ring>, BenchError> {
        if plan.only_touches() {
            return Ok(vec![Ring::render(template, &plan.names, &[], plan.pipeline)]);
        }
        let order = plan.names.shuffled(plan.seed);
        if !plan.own_core {
            return Ok(vec![Ring::render(template, &plan.names, &order, plan.pipeline)]);
        }
        let mut orders: Vec<Vec<u32>> = vec![Vec::new(); self.core_count];
        let (mut key, mut server_key) = (Vec::new(), Vec::new());
        for index in &order {
            plan.names.write(*index, &mut key);
            template.server_key(&key, &mut server_key);
            if let Some(own) = orders.get_mut(keys::core_of(&server_key, self.core_count)) {
                own.push(*index);
            }
        }
        for core in &self.ring_of_connection {
            if orders.get(*core).is_none_or(Vec::is_empty) {
                let message = format!("--own-core: none of the {} keys belongs to core {core}", plan.names.count());
                return Err(BenchError::Arguments(message));
            }
        }
        Ok(orders.iter().map(|own| Ring::render(template, &plan.names, own, plan.pipeline)).collect())
    }
}

fn connect(
    plan: &Plan,
    template: &Template,
    placement: &Placement,
    dialogs: Vec<Dialog>,
) -> Result<Driver, BenchError> {
    let poll = Poll::new().map_err(BenchError::system("no epoll"))?;
    let denial = Denial::of_command(template.name());
    let mut connections = Vec::with_capacity(dialogs.len());
    for (place, (dialog, ring)) in dialogs.into_iter().zip(&placement.ring_of_connection).enumerate() {
        let connection = Connection::new(dialog.into_socket(), *ring, denial, poll.registry(), Token(place))
            .map_err(BenchError::system("a connection cannot be watched"))?;
        connections.push(connection);
    }
    Ok(Driver::new(poll, connections, plan.pipeline))
}

/// Calls every key once. Connections of any core take any key here: the point is that the keys exist.
///
/// The order is not the one that is measured. A server places its records in the order in which they are made, so
/// calling them in that same order would walk through its memory and find everything in the caches.
fn touch_keys(plan: &Plan, template: &Template, driver: &mut Driver, live: Option<&Live>) -> Result<(), BenchError> {
    begin(live, Stage::TouchingKeys, Goal::Calls(u64::from(plan.names.count())));
    let order = plan.names.shuffled(!plan.seed);
    for part in order.chunks(TOUCH_CALLS_A_PART) {
        let mut ring = Ring::render(template, &plan.names, part, plan.pipeline);
        let calls = u64::try_from(part.len()).unwrap_or(u64::MAX);
        let touched = driver.run_phase(std::slice::from_mut(&mut ring), Limit::Calls(calls), live)?;
        refuse_errors("touching the keys", &touched.tally)?;
    }
    Ok(())
}

fn measure(
    plan: &Plan,
    driver: &mut Driver,
    rings: &mut [Ring],
    server: Option<Process>,
    live: Option<&Live>,
) -> Result<(Phase, Duration, Option<ServerUse>), BenchError> {
    let server_before = server.map(Process::cpu_time).transpose()?;
    let client_before = thread_cpu();
    begin(
        live,
        Stage::Measuring,
        match plan.limit {
            Limit::Calls(calls) => Goal::Calls(calls),
            Limit::Time(time) => Goal::Time(time),
        },
    );
    let phase = driver.run_phase(rings, plan.limit, live)?;
    let client_cpu = thread_cpu().saturating_sub(client_before);
    let used = match (server, server_before) {
        (Some(process), Some(before)) => {
            Some(ServerUse { cpu: process.cpu_time()?.since(before), rss_bytes: process.rss_bytes()? })
        }
        _ => None,
    };
    Ok((phase, client_cpu, used))
}

fn begin(live: Option<&Live>, stage: Stage, goal: Goal) {
    if let Some(live) = live {
        live.begin(stage, goal);
    }
}

/// Errors before the clock starts end the run.
fn refuse_errors(stage: &'static str, tally: &Tally) -> Result<(), BenchError> {
    match &tally.first_error {
        Some(reply) => Err(BenchError::Warming { stage, errors: tally.errors, reply: reply.clone() }),
        None => Ok(()),
    }
}

fn setting(plan: &Plan, keys_measured: usize) -> Setting {
    Setting {
        target: plan.target.to_string(),
        command: plan.command.clone(),
        connections: plan.connections,
        pipeline: plan.pipeline,
        keys: plan.names.count(),
        keys_measured,
        key_bytes: plan.names.key_bytes(),
        own_core: plan.own_core,
        seed: plan.seed,
    }
}

fn pin(cpu: usize) -> Result<(), BenchError> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(BenchError::Arguments(format!("--cpu {cpu} is not below {}", CpuSet::MAX_CPU)));
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).map_err(|error| BenchError::System { what: "--cpu", source: error.into() })
}

/// CPU time of this thread, on which the whole client runs.
fn thread_cpu() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

#[cfg(test)]
pub(crate) mod tests;
