//! Calls that are rendered before the clock starts.
//!
//! A ring holds calls one after another in one buffer, so a batch is a slice of it and sending is one write with
//! nothing copied. The first calls follow once more behind the last ones: a batch never has to be put together at
//! the seam, and a ring of one key still gives whole batches. The buffer is shared by all threads; each has a place in
//! it of its own.

use crate::keys::KeyNames;
use crate::template::Template;
use std::ops::Range;
use std::sync::Arc;

/// A ring's bytes stay under this; with more keys than fit, the ring holds a random part of them.
pub(crate) const RING_BYTES_MAX: usize = 512 << 20;

/// How calls are written: their keys, and the command of each family of keys.
#[derive(Debug)]
pub(crate) struct Wording {
    pub(crate) names: KeyNames,
    /// The command of the keys below `first_denied`.
    pub(crate) admitted: Template,
    /// The command of the others.
    pub(crate) denied: Template,
    pub(crate) first_denied: u32,
}

impl Wording {
    /// The command that a key is called with.
    pub(crate) fn template(&self, key: u32) -> &Template {
        if key < self.first_denied { &self.admitted } else { &self.denied }
    }

    /// Bytes of the longest call.
    fn call_bytes(&self) -> usize {
        let key_bytes = self.names.key_bytes();
        self.admitted.call_bytes(key_bytes).max(self.denied.call_bytes(key_bytes)).max(1)
    }

    /// As many calls of `order` as a ring holds.
    pub(crate) fn fitting<'a>(&self, order: &'a [u32]) -> &'a [u32] {
        order.get(..RING_BYTES_MAX / self.call_bytes()).unwrap_or(order)
    }
}

/// Calls in one buffer.
#[derive(Debug)]
pub(crate) struct Rendered {
    bytes: Vec<u8>,
    /// Where each call ends; the first entry is 0.
    ends: Vec<usize>,
    /// The key of each call.
    keys: Vec<u32>,
    /// Different calls; behind them the first ones are repeated.
    call_count: usize,
}

/// One thread's place in the calls, taken batch by batch without an end.
#[derive(Debug, Clone)]
pub(crate) struct Ring {
    rendered: Arc<Rendered>,
    cursor: usize,
}

/// Calls that leave together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Batch {
    /// Where their bytes lie.
    pub(crate) place: Range<usize>,
    /// The ring's number of the first call.
    pub(crate) first_call: usize,
}

impl Rendered {
    /// Renders one call for each key of `order` (as many as fit), in that order; `batch_calls` is the largest batch to
    /// be taken. An empty order gives an empty ring.
    pub(crate) fn new(wording: &Wording, order: &[u32], batch_calls: usize) -> Rendered {
        let order = wording.fitting(order);
        let call_count = order.len();
        let repeats = batch_calls.saturating_sub(1);
        let whole = if call_count == 0 { 0 } else { call_count.saturating_add(repeats) };
        let mut ring = Rendered {
            bytes: Vec::with_capacity(whole.saturating_mul(wording.call_bytes())),
            ends: Vec::with_capacity(whole.saturating_add(1)),
            keys: order.to_vec(),
            call_count,
        };
        ring.ends.push(0);
        let mut key = Vec::with_capacity(wording.names.key_bytes());
        for index in order.iter().cycle().take(whole) {
            wording.names.write(*index, &mut key);
            wording.template(*index).render(&key, &mut ring.bytes);
            ring.ends.push(ring.bytes.len());
        }
        ring
    }

    /// Calls in the ring.
    pub(crate) fn call_count(&self) -> usize {
        self.call_count
    }

    /// The key of each call, in order.
    pub(crate) fn keys(&self) -> &[u32] {
        &self.keys
    }
}

impl Ring {
    /// Begins at call number `cursor`, which is counted round.
    pub(crate) fn new(rendered: Arc<Rendered>, cursor: usize) -> Ring {
        let cursor = cursor.checked_rem(rendered.call_count).unwrap_or_default();
        Ring { rendered, cursor }
    }

    /// The next `calls` calls, at most as many as the ring was rendered for.
    pub(crate) fn next_batch(&mut self, calls: usize) -> Batch {
        let first_call = self.cursor;
        let last = first_call.saturating_add(calls);
        let start = self.rendered.ends.get(first_call).copied().unwrap_or_default();
        let end = self.rendered.ends.get(last).copied().unwrap_or(start);
        self.cursor = last.checked_rem(self.rendered.call_count).unwrap_or_default();
        Batch { place: start..end, first_call }
    }

    /// The bytes of a part of the buffer.
    pub(crate) fn slice(&self, place: &Range<usize>) -> &[u8] {
        self.rendered.bytes.get(place.clone()).unwrap_or_default()
    }

    /// The key of a call, by its number counted on over the end.
    pub(crate) fn key(&self, call: usize) -> Option<u32> {
        let call = call.checked_rem(self.rendered.call_count)?;
        self.rendered.keys.get(call).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wording() -> Wording {
        let template = Template::parse("{key}", None, 1).unwrap();
        let denied = Template::parse("-{key}", None, 1).unwrap();
        Wording { names: KeyNames::new("", 1, 10, false).unwrap(), admitted: template, denied, first_denied: 8 }
    }

    fn batches(order: &[u32], batch_calls: usize, takes: &[usize]) -> Vec<String> {
        let mut ring = Ring::new(Arc::new(Rendered::new(&wording(), order, batch_calls)), 0);
        let take = |calls: &usize| {
            let batch = ring.next_batch(*calls);
            let text = String::from_utf8(ring.slice(&batch.place).to_vec()).unwrap();
            text.replace("*1\r\n$1\r\n", "").replace("*1\r\n$2\r\n", "").replace("\r\n", "")
        };
        takes.iter().map(take).collect()
    }

    #[test]
    fn batches_go_round_without_a_seam() {
        assert_eq!(batches(&[3, 1, 2], 2, &[2, 2, 2, 1, 2]), ["31", "23", "12", "3", "12"]);
        assert_eq!(batches(&[7], 4, &[4, 1, 4]), ["7777", "7", "7777"]);
        assert_eq!(batches(&[1, 2], 5, &[5, 5]), ["12121", "21212"]);
        assert_eq!(batches(&[], 3, &[3]), [""]);
        assert_eq!(batches(&[1, 9], 2, &[2, 2]), ["1-9", "1-9"]);
    }

    #[test]
    fn the_key_of_a_call_is_known() {
        let rendered = Arc::new(Rendered::new(&wording(), &[4, 5, 6], 4));
        let mut ring = Ring::new(rendered.clone(), 5);
        let batch = ring.next_batch(4);
        let keys: Vec<Option<u32>> = (0..4).map(|call| ring.key(batch.first_call + call)).collect();
        assert_eq!(keys, [Some(6), Some(4), Some(5), Some(6)]);
        assert_eq!(Ring::new(rendered, 0).key(0), Some(4));
    }
}
