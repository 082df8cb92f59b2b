//! What a key takes of the server's memory, told only where it is known.
//!
//! Resident memory divided by `--keys` says little: part of it is the empty server's, part may be left from keys that
//! are gone, and the keys may have been there before. The idea: while every key is called once, nothing else happens.
//! What the process grows by meanwhile belongs to the keys that came meanwhile, of which the server itself has a count
//! (DBSIZE). Where it has none, where keys were there before, or where the growth is not far above what a process grows
//! by for other reasons, there is no figure.

use crate::dialog::Dialog;
use crate::error::BenchError;
use crate::plan::Plan;
use crate::process::Process;

/// Buffers of connections, pages that an allocator takes beforehand: a process grows by some megabytes without a key.
const NOISE_BYTES: u64 = 8 << 20;

/// The server's memory and keys at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Holding {
    /// Resident memory.
    pub(crate) rss_bytes: u64,
    /// All keys of all clients.
    pub(crate) keys: u64,
}

/// Memory that came together with keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Growth {
    /// More resident memory than before: at least 8 MiB.
    pub(crate) bytes: u64,
    /// Keys that were not there before: at least one.
    pub(crate) keys: u64,
}

impl Holding {
    /// Looks at the server; none where its process is not seen or it does not count its keys.
    pub(crate) fn look(plan: &Plan, server: Option<Process>) -> Result<Option<Holding>, BenchError> {
        let Some(process) = server else { return Ok(None) };
        // A server that refuses one connection more is measured without this figure.
        let Ok(mut dialog) = Dialog::open(&plan.target) else { return Ok(None) };
        let Some(keys) = dialog.key_count()? else { return Ok(None) };
        // Nor is one that has just ended a reason to say no more.
        Ok(process.rss_bytes().ok().map(|rss_bytes| Holding { rss_bytes, keys }))
    }

    /// What came since `before`, while `touched` different keys were called; none if some of them were there already,
    /// or if the growth is not above the noise.
    pub(crate) fn growth_since(self, before: Holding, touched: u64) -> Option<Growth> {
        let bytes = self.rss_bytes.saturating_sub(before.rss_bytes);
        let keys = self.keys.saturating_sub(before.keys);
        (keys >= touched.max(1) && bytes >= NOISE_BYTES).then_some(Growth { bytes, keys })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_figure_only_where_all_keys_are_new_and_the_growth_is_far_above_noise() {
        let before = Holding { rss_bytes: 10 << 20, keys: 5 };
        let after = |mebibytes: u64, keys| Holding { rss_bytes: mebibytes << 20, keys };
        let cases = [
            (after(18, 105), Some(Growth { bytes: 8 << 20, keys: 100 })),
            // RL.ALL makes two keys a call.
            (after(30, 205), Some(Growth { bytes: 20 << 20, keys: 200 })),
            (after(17, 105), None),
            (after(9, 105), None),
            (after(30, 104), None),
            (after(30, 5), None),
            (after(30, 0), None),
        ];
        for (later, expected) in cases {
            assert_eq!(later.growth_since(before, 100), expected, "{later:?}");
        }
    }
}
