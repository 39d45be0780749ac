//! Space that serves one pair of strings after another, and the question whether to go on.

use std::fmt;

use super::masks::Masks;
use super::queues::Queues;
use super::waves::Waves;

/// The cells of a matrix after which a function asks whether to stop: about a millisecond at most.
pub(crate) const CELLS: usize = 1 << 20;

/// The end of a computation that its caller no longer wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cancelled;

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a distance between long strings was cancelled")
    }
}

impl std::error::Error for Cancelled {}

/// Space for the functions of this module; it grows with the longest string that it has served.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scratch {
    pub(super) masks: Masks,
    /// The carries at the bottom of a row of blocks, one for each column.
    pub(super) carries: Vec<u8>,
    pub(super) queues: Queues,
    pub(super) waves: Waves,
}

impl Scratch {
    /// Space that has served no pair yet.
    pub(crate) fn new() -> Self {
        Self::default()
    }
}

/// A count of cells that asks `stop` whenever it has grown by [`CELLS`].
pub(crate) struct Meter<'a, F> {
    stop: &'a mut F,
    cells: usize,
}

impl<'a, F: FnMut() -> bool> Meter<'a, F> {
    pub(super) fn new(stop: &'a mut F) -> Self {
        Self { stop, cells: 0 }
    }

    /// Counts cells that are about to be computed.
    #[inline]
    pub(super) fn add(&mut self, cells: usize) -> Result<(), Cancelled> {
        self.cells += cells;
        if self.cells >= CELLS {
            self.cells = 0;
            if (self.stop)() {
                return Err(Cancelled);
            }
        }
        Ok(())
    }
}
