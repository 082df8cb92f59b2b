//! What does not fit the words of a record: a log's entries, a value's bytes.

use tollgate_limits::Log;

/// What a record's number names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    Log(Log),
    Bytes(Box<[u8]>),
}

impl Body {
    /// Bytes that it holds beyond its cell.
    pub fn heap_bytes(&self) -> usize {
        match self {
            Body::Log(log) => log.heap_bytes(),
            Body::Bytes(bytes) => bytes.len(),
        }
    }
}
