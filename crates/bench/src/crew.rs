//! The threads of a run: connections dealt among them, phases run by all at once, their counts put together.

use crate::drive::{Driver, Limit, Phase};
use crate::error::BenchError;
use crate::live::Live;
use crate::ring::{Rendered, Ring};
use crate::schedule::{Pace, Schedule};
use crate::verify::{Recorder, Transfer};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// All threads of a run. A single one is the thread that asks.
#[derive(Debug)]
pub(crate) struct Crew {
    drivers: Vec<Driver>,
    /// The CPU of each thread, where they have one each.
    cpus: Vec<usize>,
}

/// How a phase is run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Orders<'a> {
    pub(crate) limit: Limit,
    /// An open loop's pace; none for a closed loop.
    pub(crate) pace: Option<Pace>,
    /// Who watches.
    pub(crate) live: Option<&'a Live>,
}

impl Crew {
    /// One driver a thread, and a CPU for each, or none.
    pub(crate) fn new(drivers: Vec<Driver>, cpus: Vec<usize>) -> Crew {
        Crew { drivers, cpus }
    }

    /// Each thread's places in the rings, spread over them evenly.
    pub(crate) fn deal(&self, rendered: &[Arc<Rendered>]) -> Vec<Vec<Ring>> {
        let threads = self.drivers.len();
        let of_thread = |thread: usize| {
            let ring = |rendered: &Arc<Rendered>| {
                let calls = u64::try_from(rendered.call_count()).unwrap_or(u64::MAX);
                Ring::new(rendered.clone(), usize::try_from(begin_of_share(calls, thread, threads)).unwrap_or_default())
            };
            rendered.iter().map(ring).collect()
        };
        (0..threads).map(of_thread).collect()
    }

    /// Runs one phase on all threads. Answers what it did, and the CPU time of the thread that was busiest.
    pub(crate) fn run_phase(
        &mut self,
        rings: &mut [Vec<Ring>],
        orders: Orders<'_>,
    ) -> Result<(Phase, Duration), BenchError> {
        let threads = self.drivers.len();
        let started = Instant::now();
        if let ([driver], [rings]) = (self.drivers.as_mut_slice(), &mut *rings) {
            return run_one(driver, rings, orders, (0, 1), started);
        }
        let cpus = &self.cpus;
        let outcomes: Vec<Result<(Phase, Duration), BenchError>> = thread::scope(|scope| {
            let mut handles = Vec::with_capacity(threads);
            for (index, (driver, rings)) in self.drivers.iter_mut().zip(rings).enumerate() {
                let cpu = cpus.get(index).copied();
                handles.push(scope.spawn(move || {
                    cpu.map_or(Ok(()), pin)?;
                    run_one(driver, rings, orders, (index, threads), started)
                }));
            }
            let panicked =
                || BenchError::System { what: "a thread of this client", source: std::io::Error::other("ended") };
            handles.into_iter().map(|handle| handle.join().unwrap_or_else(|_| Err(panicked()))).collect()
        });
        merge(outcomes)
    }

    /// How connections were lost, on all threads.
    pub(crate) fn transfer(&self) -> Transfer {
        let mut all = Transfer::default();
        self.drivers.iter().for_each(|driver| all.add(driver.repair.transfer()));
        all
    }

    /// Takes out what was recorded for the verification.
    pub(crate) fn recorders(self) -> Vec<Recorder> {
        self.drivers.into_iter().filter_map(|driver| driver.counter.recorder).collect()
    }
}

fn run_one(
    driver: &mut Driver,
    rings: &mut [Ring],
    orders: Orders<'_>,
    (index, threads): (usize, usize),
    started: Instant,
) -> Result<(Phase, Duration), BenchError> {
    let limit = match orders.limit {
        Limit::Time(time) => Limit::Time(time),
        Limit::Calls(calls) => {
            let (begin, end) = (begin_of_share(calls, index, threads), begin_of_share(calls, index + 1, threads));
            Limit::Calls(end.saturating_sub(begin))
        }
    };
    let before = thread_cpu();
    let phase = match orders.pace {
        None => driver.run_closed(rings, limit, started, orders.live)?,
        Some(pace) => {
            let place = (u64::try_from(index).unwrap_or_default(), u64::try_from(threads).unwrap_or(1));
            let schedule = Schedule::new(pace, driver.pipeline, place, limit, started);
            driver.run_open(rings, schedule, limit, started, orders.live)?
        }
    };
    Ok((phase, thread_cpu().saturating_sub(before)))
}

fn merge(outcomes: Vec<Result<(Phase, Duration), BenchError>>) -> Result<(Phase, Duration), BenchError> {
    let mut merged: Option<(Phase, Duration)> = None;
    for outcome in outcomes {
        let (phase, cpu) = outcome?;
        let Some((sum, busiest)) = &mut merged else {
            merged = Some((phase, cpu));
            continue;
        };
        sum.tally.add(phase.tally);
        sum.elapsed = sum.elapsed.max(phase.elapsed);
        sum.longest_silence = sum.longest_silence.max(phase.longest_silence);
        sum.unanswered = sum.unanswered.saturating_add(phase.unanswered);
        // Equal bounds: nothing can be out of range.
        let _ = sum.batch_nanos.add(&phase.batch_nanos);
        if let (Some(all), Some(one)) = (&mut sum.punctuality, &phase.punctuality) {
            all.add(one);
        }
        *busiest = (*busiest).max(cpu);
    }
    merged.ok_or_else(|| BenchError::Arguments("--threads 0".into()))
}

/// Where a thread's share of `whole` begins; the shares follow one another without a gap.
fn begin_of_share(whole: u64, thread: usize, threads: usize) -> u64 {
    let (thread, threads) = (u128::try_from(thread).unwrap_or_default(), u128::try_from(threads.max(1)).unwrap_or(1));
    u64::try_from(u128::from(whole) * thread / threads).unwrap_or(whole)
}

/// Lets the calling thread run on one CPU only.
pub(crate) fn pin(cpu: usize) -> Result<(), BenchError> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(BenchError::Arguments(format!("--cpu {cpu} is not below {}", CpuSet::MAX_CPU)));
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).map_err(|_| BenchError::Arguments(format!("--cpu {cpu} is none of {}", own_cpus())))
}

/// The CPUs that this thread may use, in words.
fn own_cpus() -> String {
    let set = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    let own: Vec<String> = (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).map(|cpu| cpu.to_string()).collect();
    format!("the CPUs that this program may use: {}", own.join(", "))
}

/// CPU time of this thread.
fn thread_cpu() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_follow_one_another_and_add_up() {
        for (whole, threads) in [(0, 3), (1, 3), (10, 3), (131_072, 7)] {
            let begins: Vec<u64> = (0..=threads).map(|thread| begin_of_share(whole, thread, threads)).collect();
            assert_eq!((begins[0], begins[threads]), (0, whole));
            let shares: Vec<u64> = begins.windows(2).map(|pair| pair[1] - pair[0]).collect();
            assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1, "{whole} {threads}: {shares:?}");
        }
    }
}
