//! Links between a primary's core and a replica: bytes in order each way, as slow as the seed wants, none ordered with
//! another, cut off anywhere.

use super::machine::RunId;
use crate::pipe::Pipe;
use tollgate_replication::in_step::LinkId;

/// Bytes that a link takes before it is written no more to.
pub const WIRE_BYTES_MAX: usize = 4_096;

/// A process on a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The machine.
    pub node: usize,
    /// The process.
    pub run: RunId,
}

/// A link.
#[derive(Debug)]
pub struct Wire {
    /// Who tells.
    pub primary: Place,
    /// Which of its cores.
    pub core: usize,
    /// Its name there.
    pub link: LinkId,
    /// Who is told.
    pub replica: Place,
    /// To the replica.
    pub forth: Pipe,
    /// To the primary.
    pub back: Pipe,
}
