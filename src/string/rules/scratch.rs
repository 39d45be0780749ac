//! Space that serves one pair of strings after another.

use super::masks::Masks;
use super::queues::Queues;
use super::waves::Waves;

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
