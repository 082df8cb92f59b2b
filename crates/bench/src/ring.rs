//! Calls that are rendered before the clock starts.
//!
//! A ring holds calls one after another in one buffer, so a batch is a slice of it and sending is one write with
//! nothing copied. The first calls follow once more behind the last ones: a batch never has to be put together at
//! the seam, and a ring of one key still gives whole batches.

use crate::keys::KeyNames;
use crate::template::Template;
use std::ops::Range;

/// A ring's bytes stay under this; with more keys than fit, the ring holds a random part of them.
pub(crate) const RING_BYTES_MAX: usize = 512 << 20;

/// Calls in one buffer, taken batch by batch without an end.
#[derive(Debug)]
pub(crate) struct Ring {
    bytes: Vec<u8>,
    /// Where each call ends; the first entry is 0.
    ends: Vec<usize>,
    /// Different calls; behind them the first ones are repeated.
    call_count: usize,
    cursor: usize,
}

impl Ring {
    /// Renders one call for each key of `order`, in that order; `batch_calls` is the largest batch to be taken.
    /// An empty order gives an empty ring.
    pub(crate) fn render(template: &Template, names: &KeyNames, order: &[u32], batch_calls: usize) -> Ring {
        let call_bytes = template.call_bytes(names.key_bytes()).max(1);
        let call_count = order.len().min(RING_BYTES_MAX / call_bytes);
        let repeats = batch_calls.saturating_sub(1);
        let whole = call_count.saturating_add(repeats);
        let mut ring = Ring {
            bytes: Vec::with_capacity(whole.saturating_mul(call_bytes)),
            ends: Vec::with_capacity(whole.saturating_add(1)),
            call_count,
            cursor: 0,
        };
        ring.ends.push(0);
        let mut key = Vec::with_capacity(names.key_bytes());
        for index in order.iter().take(call_count).cycle().take(whole) {
            names.write(*index, &mut key);
            template.render(&key, &mut ring.bytes);
            ring.ends.push(ring.bytes.len());
        }
        ring
    }

    /// Different calls in the ring.
    pub(crate) fn call_count(&self) -> usize {
        self.call_count
    }

    /// The place in the buffer of the next `calls` calls, at most as many as the ring was rendered for.
    pub(crate) fn next_batch(&mut self, calls: usize) -> Range<usize> {
        let last = self.cursor.saturating_add(calls);
        let start = self.ends.get(self.cursor).copied().unwrap_or_default();
        let end = self.ends.get(last).copied().unwrap_or(start);
        self.cursor = last.checked_rem(self.call_count).unwrap_or_default();
        start..end
    }

    /// The bytes of a part of the buffer.
    pub(crate) fn slice(&self, place: &Range<usize>) -> &[u8] {
        self.bytes.get(place.clone()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batches(order: &[u32], batch_calls: usize, takes: &[usize]) -> Vec<String> {
        let template = Template::parse("{key}", None, 1).unwrap();
        let names = KeyNames::new("", 1, 10).unwrap();
        let mut ring = Ring::render(&template, &names, order, batch_calls);
        let take = |calls: &usize| {
            let place = ring.next_batch(*calls);
            String::from_utf8(ring.slice(&place).to_vec()).unwrap().replace("*1\r\n$1\r\n", "").replace("\r\n", "")
        };
        takes.iter().map(take).collect()
    }

    #[test]
    fn batches_go_round_without_a_seam() {
        assert_eq!(batches(&[3, 1, 2], 2, &[2, 2, 2, 1, 2]), ["31", "23", "12", "3", "12"]);
        assert_eq!(batches(&[7], 4, &[4, 1, 4]), ["7777", "7", "7777"]);
        assert_eq!(batches(&[1, 2], 5, &[5, 5]), ["12121", "21212"]);
        assert_eq!(batches(&[], 3, &[3]), [""]);
    }
}
