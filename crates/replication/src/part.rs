//! The frame that snapshots and flows are made of.
//!
//! ```text
//! part   kind (8) | number (32) | length (32) | body | CRC-32 of all before it in the part
//! ```

use bytes::{Buf, BufMut};
use crc32fast::Hasher;

/// Bytes before the body.
pub(crate) const HEAD_BYTES: usize = 9;
/// Bytes behind it.
pub(crate) const CHECKSUM_BYTES: usize = 4;

/// What a part says of itself before its body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub kind: u8,
    pub number: u32,
    pub length: usize,
}

impl Head {
    pub fn read(bytes: &[u8; HEAD_BYTES]) -> Head {
        let mut fields = bytes.as_slice();
        let (kind, number, length) = (fields.get_u8(), fields.get_u32_le(), fields.get_u32_le());
        // Where a length is wider than an address, nothing so long can be there.
        Head { kind, number, length: usize::try_from(length).unwrap_or(usize::MAX) }
    }
}

/// Appends a part to `out`. `None`, and nothing appended: its body is longer than 4 GiB.
pub(crate) fn write(out: &mut Vec<u8>, kind: u8, number: u32, body: &[&[u8]]) -> Option<()> {
    let length = u32::try_from(body.iter().map(|piece| piece.len()).sum::<usize>()).ok()?;
    let from = out.len();
    out.put_u8(kind);
    out.put_u32_le(number);
    out.put_u32_le(length);
    body.iter().for_each(|piece| out.put_slice(piece));
    let checksum = checksum(&[out.get(from..).unwrap_or_default()]);
    out.put_u32_le(checksum);
    Some(())
}

/// The checksum of a part, given all before it in pieces.
pub(crate) fn checksum(pieces: &[&[u8]]) -> u32 {
    let mut hasher = Hasher::new();
    pieces.iter().for_each(|piece| hasher.update(piece));
    hasher.finalize()
}
