//! Which CPUs this process may use, and a thread bound to one of them.
//!
//! A container, `taskset` or a service manager may have given the process a part of the machine: its affinity mask.
//! The mask is read once, before any thread is bound, and no thread is ever bound outside of it. Threads are bound only
//! if there is a CPU for each: two of them on one CPU while another idles would be worse than what the scheduler does.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The CPUs of the affinity mask that this thread has inherited, ascending, never empty. Where the kernel does not tell
/// (a host with more CPUs than the mask's 1,024), as many as the standard library counts, from 0.
pub fn inherited_cpus() -> Vec<usize> {
    let cpus: Vec<usize> = match sched_getaffinity(None) {
        Ok(mask) => (0..CpuSet::MAX_CPU).filter(|&cpu| mask.is_set(cpu)).collect(),
        Err(_) => Vec::new(),
    };
    if cpus.is_empty() { (0..std::thread::available_parallelism().map_or(1, usize::from)).collect() } else { cpus }
}

/// The CPU of each of `cores` threads: thread i has the i-th of `cpus` if there is one for every thread, and otherwise
/// no thread has one.
pub fn placement(cores: usize, cpus: &[usize]) -> Vec<Option<usize>> {
    (0..cores).map(|core| if cores <= cpus.len() { cpus.get(core).copied() } else { None }).collect()
}

/// Binds the calling thread to `cpu`, which should be one of [`inherited_cpus`].
///
/// # Errors
///
/// The kernel refused: the CPU is offline or outside of the container's set. The thread then runs where it ran before.
pub fn bind_thread_to(cpu: usize) -> io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the CPU's number is above what a mask holds"));
    }
    let mut mask = CpuSet::new();
    mask.set(cpu);
    Ok(sched_setaffinity(None, &mask)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_placed_only_if_each_has_a_cpu() {
        for (cores, cpus, expected) in [
            (1, &[3, 5][..], vec![Some(3)]),
            (2, &[3, 5], vec![Some(3), Some(5)]),
            (3, &[3, 5], vec![None, None, None]),
            (1, &[], vec![None]),
        ] {
            assert_eq!(placement(cores, cpus), expected, "{cores} cores on {cpus:?}");
        }
    }

    #[test]
    fn a_bound_thread_sees_one_cpu_and_others_are_untouched() {
        let before = inherited_cpus();
        let last = *before.last().unwrap();
        let seen = std::thread::spawn(move || bind_thread_to(last).map(|()| inherited_cpus())).join().unwrap();
        assert_eq!(seen.unwrap(), [last]);
        assert_eq!(inherited_cpus(), before);
    }

    #[test]
    fn an_impossible_cpu_is_an_error() {
        assert!(bind_thread_to(usize::MAX).is_err());
    }
}
