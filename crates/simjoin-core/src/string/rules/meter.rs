//! The question whether to go on with a long computation.

use std::fmt;

/// The cells of a matrix after which a function asks whether to stop: about a millisecond at most.
pub(crate) const CELLS: usize = 1 << 20;

/// The end of a computation that its caller no longer wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cancelled;

impl fmt::Display for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a distance between long strings was cancelled")
    }
}

impl std::error::Error for Cancelled {}

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
