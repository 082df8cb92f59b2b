//! Where a key lies: its slot, and its hash within the slot.
//!
//! The problem: a connection's core must know a key's slot and hash before the key's own core sees it, so that a
//! message can carry both. The idea: all cores of a process share one secret seed, and the small [`Hasher`] that holds
//! it can be copied to anyone.

use crate::slot::{slot_of, slot_of_wide};
use crate::wide::Wide;
use ahash::RandomState;
use std::hash::{BuildHasher, Hasher as _};

/// A key's slot and keyed hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Located {
    /// The slot, below [`crate::SLOTS`].
    pub slot: u16,
    /// The keyed hash of the whole key, the same on every core of a process.
    pub hash: u64,
}

/// Locates keys. A clone is as good as the original.
#[derive(Clone)]
pub struct Hasher {
    state: RandomState,
}

impl Hasher {
    /// The hasher of a process whose secret is `seed`. Whoever knows the seed can choose keys that collide.
    pub fn new(seed: [u64; 4]) -> Hasher {
        let [first, second, third, fourth] = seed;
        Hasher { state: RandomState::with_seeds(first, second, third, fourth) }
    }

    /// The slot and hash of `key`.
    #[inline(always)]
    pub fn locate(&self, key: &[u8]) -> Located {
        Located { slot: slot_of(key), hash: self.hash(key) }
    }

    /// [`Hasher::locate`] in work that was compiled for a wide CPU.
    #[inline(always)]
    pub fn locate_wide(&self, wide: Wide, key: &[u8]) -> Located {
        Located { slot: slot_of_wide(wide, key), hash: self.hash(key) }
    }

    #[inline(always)]
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        let mut hasher = self.state.build_hasher();
        match (key.first_chunk::<16>(), key.last_chunk::<8>(), key.len()) {
            // The usual length, without a loop. The two pieces overlap; with the length they are the key.
            (Some(first), Some(last), bytes @ 17..=24) => {
                hasher.write_u128(u128::from_le_bytes(*first));
                hasher.write_u64(u64::from_le_bytes(*last).rotate_left(8) ^ bytes as u64);
            }
            _ => hasher.write(key),
        }
        hasher.finish()
    }

    /// The state that other values than keys are hashed with.
    #[inline]
    pub(crate) fn state(&self) -> &RandomState {
        &self.state
    }
}

impl std::fmt::Debug for Hasher {
    /// Keeps the seed out of logs.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Hasher").finish_non_exhaustive()
    }
}
