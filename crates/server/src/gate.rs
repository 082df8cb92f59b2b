//! The one place that replies leave through.
//!
//! A reply tells a caller that units are his. Whether it may be told can depend on more than the command: on the lease
//! that this node serves under, and on how much the replicas have yet to acknowledge. Both are compared with a fresh
//! reading when replies are released, not when the command ran, so every batch passes here. Neither leases nor replicas
//! exist yet: a node that is alone always may answer.

/// Whether replies may leave.
#[derive(Debug, Default)]
pub struct Gate;

impl Gate {
    /// Asked once for each batch of replies, right before it is written.
    #[inline]
    pub fn may_leave(&self) -> bool {
        true
    }
}
