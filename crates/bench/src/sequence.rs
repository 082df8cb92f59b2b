//! Which key each call goes to, decided before the clock starts.
//!
//! A sequence of key numbers is drawn once from the seed and then called round and round. Uniform: every key once, in
//! a random order. Zipf: ranks are drawn, and a shuffle says which key has which rank, so that hot keys lie anywhere.
//! With a share of denied calls, so many places of the sequence, chosen at random, go to a second family of keys: the
//! same numbers, counted on from the number of keys.

use crate::keys::shuffled;
use crate::random::Random;
use crate::zipf::Zipf;

/// Draws and denied shares need this many places, or their proportions are too coarse.
const PLACES_MIN: usize = 1 << 16;

/// How a sequence is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Draw {
    /// Keys of the first family: 1 to 10^8.
    pub(crate) keys: u32,
    /// The exponent of Zipf's law, none for uniform.
    pub(crate) zipf: Option<f64>,
    /// Share of the places that go to the second family, 0 to 1; none if there is no such family.
    pub(crate) denied: Option<f64>,
    pub(crate) seed: u64,
}

impl Draw {
    /// The sequence: key numbers, those of the second family from `keys` on.
    pub(crate) fn sequence(&self) -> Vec<u32> {
        let order = shuffled(self.keys, self.seed);
        let mut random = Random::new(self.seed ^ 0x5eed_0f5e_90e4_ce51);
        let mut places = match self.zipf {
            None if self.denied.is_none() => order,
            None => {
                let passes = PLACES_MIN.div_ceil(order.len().max(1));
                order.repeat(passes)
            }
            Some(exponent) => {
                let zipf = Zipf::new(self.keys, exponent);
                let ranks = (0..order.len().max(PLACES_MIN)).map(|_| zipf.draw(&mut random).saturating_sub(1));
                ranks.filter_map(|rank| order.get(usize::try_from(rank).ok()?).copied()).collect()
            }
        };
        if let Some(share) = self.denied {
            self.deny(&mut places, share, &mut random);
        }
        places
    }

    /// Moves exactly the share of the places, chosen at random, to the second family.
    fn deny(&self, places: &mut [u32], share: f64, random: &mut Random) {
        // At most 2 * 10^8 places: exact in a float, and a product of them is in range.
        let mut wanted = (places.len() as f64 * share).round() as usize;
        let mut left = places.len();
        for place in places {
            // Of those left, `wanted` are still to be chosen: each choice of places is equally likely.
            if random.below(left) < wanted {
                *place = place.saturating_add(self.keys);
                wanted = wanted.saturating_sub(1);
            }
            left = left.saturating_sub(1);
        }
    }
}

/// Different keys among the first `places` of a sequence, in rising order.
pub(crate) fn distinct(places: &[u32]) -> Vec<u32> {
    let mut keys = places.to_vec();
    keys.sort_unstable();
    keys.dedup();
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(keys: u32, zipf: Option<f64>, denied: Option<f64>) -> Vec<u32> {
        Draw { keys, zipf, denied, seed: 3 }.sequence()
    }

    #[test]
    fn uniform_calls_every_key_once() {
        assert_eq!(distinct(&draw(1_000, None, None)), (0..1_000).collect::<Vec<u32>>());
        assert_eq!(draw(1_000, None, None).len(), 1_000);
        assert_eq!(draw(1_000, None, None), draw(1_000, None, None));
    }

    #[test]
    fn zipf_calls_few_keys_often() {
        let places = draw(1_000, Some(1.0), None);
        assert_eq!(places.len(), PLACES_MIN);
        let mut counts = vec![0_u32; 1_000];
        places.iter().for_each(|key| counts[*key as usize] += 1);
        counts.sort_unstable();
        // The first of a thousand ranks has 1 / 7.485 of the calls.
        let hottest = f64::from(counts[999]) / places.len() as f64;
        assert!((hottest - 1.0 / 7.485).abs() < 0.01, "{hottest}");
    }

    #[test]
    fn the_denied_share_is_exact_over_the_whole_sequence() {
        for (keys, zipf, share) in [(1, None, 0.3), (1_000, None, 0.0), (70_000, None, 1.0), (500, Some(0.99), 0.25)] {
            let places = draw(keys, zipf, Some(share));
            assert!(places.len() >= PLACES_MIN);
            let denied = places.iter().filter(|key| **key >= keys).count();
            assert!((denied as f64 - places.len() as f64 * share).abs() <= 0.5, "{keys} {share}: {denied}");
            assert!(places.iter().all(|key| *key < 2 * keys));
        }
    }
}
