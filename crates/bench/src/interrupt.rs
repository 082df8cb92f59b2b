//! Ctrl-C and SIGTERM: a run that is ended early still tells what it has measured.
//!
//! Both signals are blocked in all threads, and one thread does nothing but wait for them. The driver threads look at
//! a flag between waits, stop making calls and end their phase as usual. As long as nothing was measured there is
//! nothing to tell, and a second signal is not asked to wait: the process then ends at once.

use crate::error::BenchError;
use nix::sys::signal::{SigSet, Signal};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread;

/// The signal that came, 0 if none did.
static SIGNAL: AtomicU8 = AtomicU8::new(0);

/// Whether there is something to tell if the run ends now.
static IS_WORTH_TELLING: AtomicBool = AtomicBool::new(false);

/// What shells take for a process that a signal has ended: this and the signal's number.
const EXIT_CODE_BASE: u8 = 128;

/// Begins to wait for the signals. Before any other thread is started, as threads inherit what is blocked.
pub(crate) fn watch() -> Result<(), BenchError> {
    let signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM]);
    let refused = |error: nix::errno::Errno| BenchError::System { what: "signals", source: error.into() };
    signals.thread_block().map_err(refused)?;
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            // A wait that fails leaves the signals blocked, which is no reason to end a run.
            while let Ok(signal) = signals.wait() {
                note(signal);
            }
        })
        .map_err(BenchError::system("no thread for signals"))?;
    Ok(())
}

/// From now on a first signal lets the run end with a report.
pub(crate) fn is_worth_telling() {
    IS_WORTH_TELLING.store(true, Ordering::Relaxed);
}

/// The number of the signal that has come, if any.
#[inline]
pub(crate) fn signal() -> Option<u8> {
    Some(SIGNAL.load(Ordering::Relaxed)).filter(|signal| *signal > 0)
}

/// The exit code of a run that a signal has ended.
pub(crate) fn exit_code(signal: u8) -> u8 {
    EXIT_CODE_BASE.saturating_add(signal)
}

fn note(signal: Signal) {
    let number = u8::try_from(signal as i32).unwrap_or(u8::MAX);
    let was = SIGNAL.swap(number, Ordering::Relaxed);
    if was == 0 && IS_WORTH_TELLING.load(Ordering::Relaxed) {
        return;
    }
    if was == 0 {
        eprintln!("\ntollgate bench: {}", BenchError::Interrupted);
    }
    std::process::exit(i32::from(exit_code(number)));
}
