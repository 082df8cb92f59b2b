//! Values of one type under 32-bit numbers, in pages of 256.
//!
//! The problem: a growing `Vec` moves all it holds, which for millions of values is a stall. The idea: pages that never
//! move, each with its own list of free cells, and a page that is empty gives its memory back.

const PAGE_CELLS: usize = 256;
const NO_CELL: u16 = u16::MAX;

enum Cell<T> {
    Used(T),
    /// The next free cell of the page.
    Free(u16),
}

struct Page<T> {
    cells: Vec<Cell<T>>,
    free: u16,
    live: u16,
}

/// Numbered values.
pub(crate) struct Arena<T> {
    pages: Vec<Page<T>>,
    /// Pages that have room, each once.
    open: Vec<u32>,
    cells_held: u64,
}

impl<T> Arena<T> {
    pub fn new() -> Arena<T> {
        Arena { pages: Vec::new(), open: Vec::new(), cells_held: 0 }
    }

    #[inline(always)]
    pub fn get(&self, id: u32) -> &T {
        match &self.pages[id as usize / PAGE_CELLS].cells[id as usize % PAGE_CELLS] {
            Cell::Used(value) => value,
            Cell::Free(_) => unreachable!("a number outlives its value only by a bug"),
        }
    }

    #[inline]
    pub fn get_mut(&mut self, id: u32) -> &mut T {
        match &mut self.pages[id as usize / PAGE_CELLS].cells[id as usize % PAGE_CELLS] {
            Cell::Used(value) => value,
            Cell::Free(_) => unreachable!("a number outlives its value only by a bug"),
        }
    }

    pub fn insert(&mut self, value: T) -> u32 {
        let number = match self.open.last() {
            Some(number) => *number,
            None => {
                self.pages.push(Page { cells: Vec::new(), free: NO_CELL, live: 0 });
                self.open.push(self.pages.len() as u32 - 1);
                self.pages.len() as u32 - 1
            }
        };
        let page = &mut self.pages[number as usize];
        let capacity_before = page.cells.capacity();
        let cell = match page.cells.get(usize::from(page.free)) {
            Some(Cell::Free(next)) => {
                let cell = page.free;
                page.free = *next;
                page.cells[usize::from(cell)] = Cell::Used(value);
                cell
            }
            _ => {
                page.cells.push(Cell::Used(value));
                page.cells.len() as u16 - 1
            }
        };
        page.live += 1;
        if usize::from(page.live) == PAGE_CELLS {
            self.open.pop();
        }
        self.cells_held += (page.cells.capacity() - capacity_before) as u64;
        number * PAGE_CELLS as u32 + u32::from(cell)
    }

    pub fn remove(&mut self, id: u32) -> T {
        let number = id as usize / PAGE_CELLS;
        let page = &mut self.pages[number];
        if usize::from(page.live) == PAGE_CELLS {
            self.open.push(number as u32);
        }
        let cell = std::mem::replace(&mut page.cells[id as usize % PAGE_CELLS], Cell::Free(page.free));
        page.free = (id as usize % PAGE_CELLS) as u16;
        page.live -= 1;
        if page.live == 0 {
            self.cells_held -= page.cells.capacity() as u64;
            page.cells = Vec::new();
            page.free = NO_CELL;
        }
        match cell {
            Cell::Used(value) => value,
            Cell::Free(_) => unreachable!("a value is removed twice only by a bug"),
        }
    }

    /// Takes one page's values out of an arena that is given up, and drops the rest of the page. `None` at the end.
    pub fn take_page(&mut self) -> Option<Vec<T>> {
        let page = self.pages.pop()?;
        self.open.clear();
        self.cells_held -= page.cells.capacity() as u64;
        let used = page.cells.into_iter().filter_map(|cell| match cell {
            Cell::Used(value) => Some(value),
            Cell::Free(_) => None,
        });
        Some(used.collect())
    }

    /// How much more memory the next [`Arena::insert`] needs, in bytes.
    pub fn growth_bytes(&self) -> u64 {
        // A list of small values begins with room for four and doubles from there.
        let cells = match self.open.last().and_then(|number| self.pages.get(*number as usize)) {
            Some(page) if page.free != NO_CELL || page.cells.len() < page.cells.capacity() => return 0,
            Some(page) => page.cells.capacity().max(4),
            None => 4,
        };
        (cells * size_of::<Cell<T>>() + size_of::<Page<T>>() + 4) as u64
    }

    /// Bytes of all pages, not of what the values hold elsewhere.
    pub fn bytes(&self) -> u64 {
        self.cells_held * size_of::<Cell<T>>() as u64 + self.pages.len() as u64 * (size_of::<Page<T>>() + 4) as u64
    }

    /// [`Arena::bytes`], counted again.
    pub fn bytes_recounted(&self) -> u64 {
        let cells: usize = self.pages.iter().map(|page| page.cells.capacity()).sum();
        cells as u64 * size_of::<Cell<T>>() as u64 + self.pages.len() as u64 * (size_of::<Page<T>>() + 4) as u64
    }

    /// Every value.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.pages.iter().flat_map(|page| &page.cells).filter_map(|cell| match cell {
            Cell::Used(value) => Some(value),
            Cell::Free(_) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_used_again_and_pages_given_back() {
        let mut arena = Arena::new();
        let ids: Vec<u32> = (0..1_000u32).map(|value| arena.insert(value)).collect();
        for (value, id) in ids.iter().enumerate() {
            assert_eq!(*arena.get(*id) as usize, value);
        }
        assert_eq!(arena.remove(ids[300]), 300);
        assert_eq!(arena.insert(7), ids[300]);
        *arena.get_mut(ids[300]) = 8;
        assert_eq!(arena.iter().count(), 1_000);
        assert_eq!(arena.bytes(), arena.bytes_recounted());
        for id in &ids {
            arena.remove(*id);
        }
        assert_eq!(arena.cells_held, 0);
        let again: Vec<u32> = (0..1_000u32).map(|value| arena.insert(value)).collect();
        assert_eq!(arena.pages.len(), 4);
        assert_eq!(again.len(), 1_000);
        let taken: usize = std::iter::from_fn(|| arena.take_page()).map(|page| page.len()).sum();
        assert_eq!((taken, arena.bytes()), (1_000, 0));
    }
}
