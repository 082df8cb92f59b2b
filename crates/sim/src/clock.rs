//! The time of the limits as each core sees it.
//!
//! All cores read one clock, but each reads it once for a batch and then works with that reading: so a core's time lies
//! behind the true one by up to a batch, never runs backwards, and two cores never quite agree.

use crate::random::Random;
use tollgate_limits::Micros;

/// Where simulated time begins: some moment in 2025 that is the start of no window.
const START_MICROS: Micros = 1_751_540_412_345_678;

/// The clocks of one node.
#[derive(Debug)]
pub struct Clocks {
    /// The true time when the simulation's own was 0.
    base_micros: Micros,
    /// Whether the true time stands still but for leaps.
    is_still: bool,
    lag_micros_max: u64,
    readings: Vec<Micros>,
}

impl Clocks {
    /// Of `cores` cores.
    pub fn new(cores: usize, is_still: bool, lag_micros_max: u64) -> Clocks {
        Clocks { base_micros: START_MICROS, is_still, lag_micros_max, readings: vec![START_MICROS; cores] }
    }

    /// What `core` reads when the simulation's own time is `now_micros`.
    pub fn read(&mut self, core: usize, now_micros: u64, random: &mut Random) -> Micros {
        let lag = if self.is_still { 0 } else { random.between(0, self.lag_micros_max) };
        let passed = if self.is_still { 0 } else { now_micros };
        let behind = (self.base_micros + passed).saturating_sub(lag);
        let Some(reading) = self.readings.get_mut(core) else { return behind };
        *reading = behind.max(*reading);
        *reading
    }

    /// Lets so much time pass at once, for all cores.
    pub fn leap(&mut self, micros: u64) {
        self.base_micros += micros;
    }
}
