//! What was flushed and waits for being given back.
//!
//! The problem: dropping millions of records at once is a stall of many milliseconds. The idea: a flush only moves the
//! tables, bodies and policies here, which is quick; later sweeps drop them piece by piece. Until then they count as
//! used.

use crate::arena::Arena;
use crate::body::Body;
use crate::index::Index;
use crate::policies::Policies;
use crate::records::Records;
use crate::table::Tables;

/// One page of records given back is as much work as visiting so many.
const PAGE_WORK: usize = 32;
/// A table dropped is as much work as visiting so many records.
const TABLE_WORK: usize = 8;

pub(crate) struct Grave {
    /// Indexes of flushed slots: their records still lie among the living and must be freed one by one.
    orphans: Vec<Index>,
    /// Indexes whose records are gone.
    ruins: Vec<Index>,
    bodies: Vec<Arena<Body>>,
    policies: Vec<Policies>,
}

/// One piece of work done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Buried {
    /// How much work it was, in visits of a record.
    pub work: usize,
    /// Bytes of tables that were given back.
    pub index_bytes: u64,
}

impl Grave {
    pub fn new() -> Grave {
        Grave { orphans: Vec::new(), ruins: Vec::new(), bodies: Vec::new(), policies: Vec::new() }
    }

    /// Takes an index whose records are still held.
    pub fn add_orphans(&mut self, index: Index) {
        self.orphans.push(index);
    }

    /// Takes indexes that are to be dropped with all the records there are.
    pub fn add_all(&mut self, indexes: Vec<Index>, bodies: Arena<Body>, policies: Policies) {
        self.ruins.append(&mut self.orphans);
        if self.ruins.is_empty() {
            self.ruins = indexes;
        } else {
            self.ruins.extend(indexes);
        }
        self.bodies.push(bodies);
        self.policies.push(policies);
    }

    /// Does one piece of work. `None` when there is nothing left.
    pub fn bury_some(&mut self, records: &mut Records, tables: &mut Tables) -> Option<Buried> {
        if let Some((entries, index_bytes)) = take_table(&mut self.orphans, tables, |id| records.free(id)) {
            return Some(Buried { work: TABLE_WORK + entries, index_bytes });
        }
        if let Some((_, index_bytes)) = take_table(&mut self.ruins, tables, |_| ()) {
            return Some(Buried { work: TABLE_WORK, index_bytes });
        }
        if let Some(arena) = self.bodies.last_mut() {
            let Some(page) = arena.take_page() else {
                self.bodies.pop();
                return Some(Buried { work: 1, index_bytes: 0 });
            };
            let heap_bytes: usize = page.iter().map(Body::heap_bytes).sum();
            records.body_heap_bytes -= heap_bytes as u64;
            return Some(Buried { work: page.len() + 1, index_bytes: 0 });
        }
        if let Some(policies) = self.policies.last_mut() {
            if !policies.drop_some() {
                self.policies.pop();
            }
            return Some(Buried { work: TABLE_WORK, index_bytes: 0 });
        }
        let pages = records.slab.trim(1, false);
        (pages > 0).then_some(Buried { work: PAGE_WORK, index_bytes: 0 })
    }

    /// Bytes that are not counted elsewhere: tables count with the index, bodies' heap and pages with the records.
    pub fn bytes(&self) -> u64 {
        let bodies: u64 = self.bodies.iter().map(Arena::bytes).sum();
        let policies: u64 = self.policies.iter().map(Policies::bytes).sum();
        bodies + policies
    }

    /// All bytes of tables, bodies and policies in here, counted again.
    pub fn bytes_recounted(&self) -> u64 {
        let indexes: u64 = self.orphans.iter().chain(&self.ruins).map(Index::bytes).sum();
        let bodies: u64 = self.bodies.iter().map(Arena::bytes_recounted).sum();
        let heaps: usize = self.bodies.iter().flat_map(Arena::iter).map(Body::heap_bytes).sum();
        let policies: u64 = self.policies.iter().map(Policies::bytes_recounted).sum();
        indexes + bodies + heaps as u64 + policies
    }
}

/// See [`Index::take_table`].
fn take_table(indexes: &mut Vec<Index>, tables: &mut Tables, mut visit: impl FnMut(u32)) -> Option<(usize, u64)> {
    while let Some(index) = indexes.last_mut() {
        match index.take_table(tables, &mut visit) {
            Some(taken) => return Some(taken),
            None => indexes.pop(),
        };
    }
    None
}
