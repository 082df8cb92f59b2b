//! A whole run: prepare, render, touch the keys, warm, measure, check, report.

use crate::connection::{Connection, Counter};
use crate::crew::{self, Crew, Orders};
use crate::dialog::Dialog;
use crate::drive::{Driver, Limit, Phase, token};
use crate::error::BenchError;
use crate::growth::Holding;
use crate::interrupt;
use crate::keys;
use crate::live::{Goal, Live, Stage};
use crate::plan::{Plan, Work};
use crate::process::{CpuTime, Process};
use crate::repair::Repair;
use crate::report::{Report, ServerUse, Setting};
use crate::ring::{Rendered, Ring, Wording};
use crate::scan::Denial;
use crate::scrape::Scraper;
use crate::sequence::distinct;
use crate::template::Template;
use crate::verify::{Capture, ClockReading, Failover, RECORDS_MAX, Recorder, Scrape, TRIAL, Verdict, Watch};
use crate::workload::{Chosen, Dialect, Terms};
use mio::Poll;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Keys are touched in parts of this many calls, so that ten million keys need no buffer of their own size.
const TOUCH_CALLS_A_PART: usize = 1 << 17;

/// Runs a plan to its report; `live` is told what is being done.
pub(crate) fn run(plan: &Plan, live: Option<&Live>) -> Result<Report, BenchError> {
    let epoch = Instant::now();
    begin(live, Stage::Preparing, Goal::Unknown);
    if let [cpu] = plan.cpus.as_slice() {
        crew::pin(*cpu)?;
    }
    // A server that ends, or is another process afterwards, has no figures; the report says so.
    let server = plan.pid.and_then(|pid| Process::open(pid).ok());
    let mut dialogs = Vec::with_capacity(plan.connections);
    for _ in 0..plan.connections {
        dialogs.push(Dialog::open(&plan.target)?);
    }
    let first = dialogs.first_mut().ok_or_else(|| BenchError::Arguments("--connections 0".into()))?;
    let speech = Speech::find(plan, first)?;
    let clock = speech.try_clock(first, epoch)?;
    let placement = Placement::find(plan, &mut dialogs)?;
    let mut crew = speech.gather(plan, &placement, dialogs, epoch)?;
    let scraper = plan.failover.as_ref().map(|_| Scraper::start(&plan.target, epoch)).transpose()?;

    let sequence = if plan.only_touches() { Vec::new() } else { plan.draw.sequence() };
    let wording = &speech.wording;
    let places = wording.fitting(&sequence);
    let mut growth = None;
    if plan.warm_keys && wording.admitted.has_key() {
        let before = Holding::look(plan, server)?;
        touch(plan, wording, &keys::shuffled(plan.draw.keys, !plan.draw.seed), &mut crew, live)?;
        let after = Holding::look(plan, server)?;
        growth = before.zip(after).and_then(|(before, after)| after.growth_since(before, u64::from(plan.draw.keys)));
    }
    if plan.draw.denied.is_some() {
        // One call spends the limit of such a key for good.
        let spent: Vec<u32> = distinct(places).into_iter().filter(|key| *key >= wording.first_denied).collect();
        touch(plan, wording, &spent, &mut crew, live)?;
    }
    begin(live, Stage::Preparing, Goal::Unknown);
    let rendered = placement.render(plan, wording, places)?;
    let mut rings = crew.deal(&rendered);
    if !plan.warmup.is_zero() {
        begin(live, Stage::WarmingUp, Goal::Time(plan.warmup));
        let orders = Orders { limit: Limit::Time(plan.warmup), pace: plan.pace, live };
        let (warmed, _) = crew.run_phase(&mut rings, orders)?;
        refuse_failed(plan, "the warm-up", &warmed)?;
    }
    refuse_interrupted()?;
    let (phase, client_cpu, server) = measure(plan, &mut crew, &mut rings, server, live)?;
    let server = server.map(|server| ServerUse { growth, ..server });
    let keys_measured = rendered.iter().map(|ring| distinct(ring.keys()).len()).sum();
    let scrape = scraper.and_then(Scraper::finish);
    let (verdict, failover) = speech.verdict(plan, clock, crew, scrape, epoch);
    Ok(Report::new(speech.setting(plan, keys_measured), &phase, client_cpu, server).with_verdict(verdict, failover))
}

/// How the server is spoken to, and what its replies are held against.
struct Speech {
    wording: Wording,
    script: Option<String>,
    denial: Denial,
    /// The command line as the report shows it.
    line: String,
    workload: Option<&'static str>,
    dialect: Option<Dialect>,
    watch: Option<Watch>,
}

impl Speech {
    fn find(plan: &Plan, dialog: &mut Dialog) -> Result<Speech, BenchError> {
        let key_bytes = plan.names.key_bytes();
        let (lines, script, chosen) = match &plan.work {
            Work::Command { line, script } => ([line.clone(), line.clone()], script.clone(), None),
            Work::Workload { workload, dialect, terms } => {
                let row = workload.row();
                let chosen = row.choose(*dialect, dialog)?;
                // Where no call is to be denied, the second family has no keys.
                let spent = plan.draw.denied.map_or(*terms, |_| Terms::spent(row));
                let lines = [terms.fill(&chosen.line)?, spent.fill(&chosen.line)?];
                (lines, chosen.script.map(str::to_owned), Some((row, chosen, [*terms, spent])))
            }
        };
        let sha = script.as_ref().map(|script| dialog.load_script(script)).transpose()?;
        let [admitted, denied] = &lines;
        let wording = Wording {
            names: plan.names.clone(),
            admitted: Template::parse(admitted, sha.as_deref(), key_bytes)?,
            denied: Template::parse(denied, sha.as_deref(), key_bytes)?,
            first_denied: plan.draw.keys,
        };
        let mut watch = None;
        if let (Some(overshoot), Some((row, chosen, [terms, spent]))) = (plan.verify, chosen.as_ref()) {
            let policies = |terms: &Terms| row.rules.iter().map(|rule| terms.policy(*rule)).collect::<Result<_, _>>();
            refuse_inexact(chosen, terms)?;
            watch = Some(Watch {
                form: chosen.line.form,
                admitted: policies(terms)?,
                denied: policies(spent)?,
                first_denied: plan.draw.keys,
                names: plan.names.clone(),
                overshoot,
                fails_over: plan.failover.is_some(),
                // Its remaining and reset follow rules of its own.
                checks_fields: chosen.dialect != Dialect::Throttlecrab,
            });
        }
        let denial = match &chosen {
            Some((_, chosen, _)) => chosen.line.form.denial(),
            None => Denial::of_command(wording.admitted.name()),
        };
        let workload = chosen.as_ref().map(|(row, ..)| row.name);
        let dialect = chosen.as_ref().map(|(_, chosen, _)| chosen.dialect);
        let [line, _] = lines;
        Ok(Speech { wording, script, denial, line, workload, dialect, watch })
    }

    /// How far the server's clock is from this one, if replies are checked. A server without one is refused where it
    /// matters, and so is a clock that does not run.
    fn try_clock(&self, dialog: &mut Dialog, epoch: Instant) -> Result<Option<ClockReading>, BenchError> {
        let Some(first) = self.read_clock(dialog, epoch)? else {
            if !self.watch.as_ref().is_some_and(Watch::needs_clock) {
                return Ok(None);
            }
            return Err(BenchError::Preparation {
                command: if self.dialect == Some(Dialect::Tollgate) { "RL.CLOCK" } else { "TIME" }.into(),
                reply: "no time, which --verify needs to know where windows begin".into(),
            });
        };
        std::thread::sleep(TRIAL);
        match self.read_clock(dialog, epoch)? {
            Some(second) if first.runs_until(second) => Ok(Some(second)),
            _ => Err(BenchError::ClockStill),
        }
    }

    /// Asks the server for its time, if replies are checked and it can tell.
    fn read_clock(&self, dialog: &mut Dialog, epoch: Instant) -> Result<Option<ClockReading>, BenchError> {
        match (&self.watch, self.dialect) {
            (None, _) | (_, Some(Dialect::Throttlecrab)) => Ok(None),
            (Some(_), dialect) => ClockReading::ask(dialog, dialect == Some(Dialect::Tollgate), epoch),
        }
    }

    /// Deals the connections among the threads.
    fn gather(
        &self,
        plan: &Plan,
        placement: &Placement,
        dialogs: Vec<Dialog>,
        epoch: Instant,
    ) -> Result<Crew, BenchError> {
        let mut hands: Vec<Vec<(Dialog, usize)>> = (0..plan.threads).map(|_| Vec::new()).collect();
        for (place, (dialog, ring)) in dialogs.into_iter().zip(&placement.ring_of_connection).enumerate() {
            if let Some(hand) = place.checked_rem(plan.threads).and_then(|thread| hands.get_mut(thread)) {
                hand.push((dialog, *ring));
            }
        }
        let most = RECORDS_MAX / plan.threads.max(1);
        let mut drivers = Vec::with_capacity(plan.threads);
        for hand in hands {
            let poll = Poll::new().map_err(BenchError::system("no epoll"))?;
            let mut connections = Vec::with_capacity(hand.len());
            for (place, (dialog, ring)) in hand.into_iter().enumerate() {
                let capture = self.watch.as_ref().map(|watch| Capture::new(watch.form, watch.rules()));
                let socket = dialog.into_socket();
                let connection = Connection::new(socket, ring, self.denial, capture, poll.registry(), token(place));
                connections.push(connection.map_err(BenchError::system("a connection cannot be watched"))?);
            }
            let recorder = self.watch.as_ref().map(|watch| Recorder::new(watch, epoch, most));
            let (target, failover) = (plan.target.clone(), plan.failover.clone());
            let repair = Repair::new(target, failover, self.script.clone(), plan.reconnect);
            drivers.push(Driver::new(poll, connections, plan.pipeline, Counter::new(recorder)?, repair));
        }
        let cpus = if plan.cpus.len() > 1 { plan.cpus.clone() } else { Vec::new() };
        Ok(Crew::new(drivers, cpus))
    }

    /// Holds every reply of the run against its limit, and counts what a failover cost, if one was foreseen.
    fn verdict(
        &self,
        plan: &Plan,
        before: Option<ClockReading>,
        crew: Crew,
        scrape: Option<Scrape>,
        epoch: Instant,
    ) -> (Option<Verdict>, Option<Failover>) {
        let Some(watch) = self.watch.as_ref() else { return (None, None) };
        let transfer = crew.transfer();
        let recorders = crew.recorders();
        // The server that answered last has the clock that the last windows were aligned to. One that is gone by now
        // has still answered what was checked.
        let last = plan.failover.as_ref().filter(|_| transfer.lost_at.is_some()).unwrap_or(&plan.target);
        let asked = Dialog::open(last).and_then(|mut dialog| self.read_clock(&mut dialog, epoch));
        let failover = plan
            .failover
            .as_ref()
            .map(|target| Failover::count(target.to_string(), &recorders, watch.rules(), transfer, scrape, epoch));
        let verdict = watch.judge(recorders, before, asked.ok().flatten());
        let failover = failover.map(|failover| failover.with_verdict(&verdict));
        (Some(verdict), failover)
    }

    fn setting(&self, plan: &Plan, keys_measured: usize) -> Setting {
        Setting {
            target: plan.target.to_string(),
            command: self.line.clone(),
            connections: plan.connections,
            pipeline: plan.pipeline,
            keys: plan.draw.keys,
            keys_measured,
            key_bytes: plan.names.key_bytes(),
            own_core: plan.own_core,
            seed: plan.draw.seed,
            threads: plan.threads,
            workload: self.workload,
            dialect: self.dialect.map(Dialect::name),
            key_distribution: if plan.draw.zipf.is_some() { "zipf" } else { "uniform" },
            zipf_exponent: plan.draw.zipf,
            denied_share_asked: plan.draw.denied,
            rate: plan.pace.map(|pace| pace.calls_per_second),
            arrivals: plan.pace.map(|pace| pace.arrivals.name()),
        }
    }
}

/// Scripts count in floats, which are exact only up to 2^53: what they would round is not checked.
fn refuse_inexact(chosen: &Chosen, terms: &Terms) -> Result<(), BenchError> {
    let largest = u128::from(terms.limit) * u128::from(terms.window.micros());
    if chosen.script.is_none() || largest < 1 << 53 {
        return Ok(());
    }
    let text =
        "--verify of a script needs a --limit times --window in microseconds below 2^53, where Lua counts exactly";
    Err(BenchError::Arguments(text.into()))
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

    fn render(&self, plan: &Plan, wording: &Wording, places: &[u32]) -> Result<Vec<Arc<Rendered>>, BenchError> {
        if plan.only_touches() || !plan.own_core {
            return Ok(vec![Arc::new(Rendered::new(wording, places, plan.pipeline))]);
        }
        let mut orders: Vec<Vec<u32>> = vec![Vec::new(); self.core_count];
        let (mut key, mut server_key) = (Vec::new(), Vec::new());
        for index in places {
            wording.names.write(*index, &mut key);
            wording.template(*index).server_key(&key, &mut server_key);
            if let Some(own) = orders.get_mut(keys::core_of(&server_key, self.core_count)) {
                own.push(*index);
            }
        }
        for core in &self.ring_of_connection {
            if orders.get(*core).is_none_or(Vec::is_empty) {
                let message = format!("--own-core: none of the {} keys belongs to core {core}", plan.draw.keys);
                return Err(BenchError::Arguments(message));
            }
        }
        Ok(orders.iter().map(|own| Arc::new(Rendered::new(wording, own, plan.pipeline))).collect())
    }
}

/// Calls each of these keys once, from all connections: the point is that the keys exist, or that their limit is spent.
///
/// The order is not the one that is measured. A server places its records in the order in which they are made, so
/// calling them in that same order would walk through its memory and find everything in the caches.
fn touch(
    plan: &Plan,
    wording: &Wording,
    order: &[u32],
    crew: &mut Crew,
    live: Option<&Live>,
) -> Result<(), BenchError> {
    begin(live, Stage::TouchingKeys, Goal::Calls(u64::try_from(order.len()).unwrap_or(u64::MAX)));
    for part in order.chunks(TOUCH_CALLS_A_PART) {
        let rendered = Arc::new(Rendered::new(wording, part, plan.pipeline));
        let calls = u64::try_from(part.len()).unwrap_or(u64::MAX);
        let mut rings = crew.deal(&[rendered]);
        let (touched, _) = crew.run_phase(&mut rings, Orders { limit: Limit::Calls(calls), pace: None, live })?;
        refuse_failed(plan, "touching the keys", &touched)?;
    }
    Ok(())
}

fn measure(
    plan: &Plan,
    crew: &mut Crew,
    rings: &mut [Vec<Ring>],
    server: Option<Process>,
    live: Option<&Live>,
) -> Result<(Phase, Duration, Option<ServerUse>), BenchError> {
    let server_before = server.and_then(|process| process.cpu_time().ok());
    interrupt::is_worth_telling();
    begin(live, Stage::Measuring, Goal::from(plan.limit));
    let (phase, client_cpu) = crew.run_phase(rings, Orders { limit: plan.limit, pace: plan.pace, live })?;
    let used = match (server, server_before) {
        (Some(process), Some(before)) => {
            let (after, rss) = (process.cpu_time().ok(), process.rss_bytes().ok());
            let used =
                |(after, rss_bytes): (CpuTime, u64)| ServerUse { cpu: after.since(before), rss_bytes, growth: None };
            after.zip(rss).map(used)
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

/// Errors before the clock starts end the run, unless it is meant to live through them. Silence ends it in any case.
fn refuse_failed(plan: &Plan, stage: &'static str, phase: &Phase) -> Result<(), BenchError> {
    refuse_interrupted()?;
    if phase.unanswered > 0 {
        let silence = phase.longest_silence.unwrap_or(phase.elapsed);
        return Err(BenchError::Stalled { seconds: silence.as_secs(), waiting: phase.unanswered });
    }
    match &phase.tally.first_error {
        Some(reply) if !plan.reconnect => {
            Err(BenchError::Warming { stage, errors: phase.tally.errors, reply: reply.clone() })
        }
        _ => Ok(()),
    }
}

/// What a signal has cut short before the clock starts is nothing to go on from.
fn refuse_interrupted() -> Result<(), BenchError> {
    if interrupt::signal().is_some() { Err(BenchError::Interrupted) } else { Ok(()) }
}

#[cfg(test)]
pub(crate) mod tests;
