//! Components of a finished forest, read in parts.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use arrow::array::{ArrayRef, Int64Array};
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use super::forest::Forest;
use super::nodes::{NodeType, Nodes};
use crate::util::cancel::CancelFlag;
use crate::util::forest::atomics;
use crate::util::parallel::{self, Threads};

/// Ids that a thread takes on at a time.
const SLICE: u32 = 1 << 16;

/// Nodes, their components and the sizes of these, by level.
#[derive(Debug)]
pub(crate) struct Labels {
    node_type: NodeType,
    nodes: Nodes,
    levels: Vec<Level>,
    /// The ids of nodes by the order of their values, where ids have another order.
    order: Option<Vec<u32>>,
    /// Components of the last level.
    components: AtomicUsize,
    /// The next position that nobody has taken.
    next: AtomicUsize,
    _memory: MemoryReservation,
}

#[derive(Debug)]
struct Level {
    forest: Forest,
    /// By root, the nodes of its set.
    sizes: Vec<AtomicU32>,
    /// By root, the position in the order of the least node of its set, and 1.
    least: Vec<AtomicU32>,
}

impl Level {
    /// Counts `nodes` nodes for a root, the least one of which is at `position`.
    fn add(&self, root: u32, nodes: u32, position: u32) {
        if let Some(size) = self.sizes.get(root as usize) {
            size.fetch_add(nodes, Ordering::Relaxed);
        }
        if let Some(least) = self.least.get(root as usize) {
            // 0 is none: positions are counted down from the greatest number.
            least.fetch_max(u32::MAX - position, Ordering::Relaxed);
        }
    }
}

/// Roots whose nodes a thread counts by itself before it adds them to those of all threads: where most
/// nodes are in one component, threads would wait for each other at its size.
const TALLIED: usize = 1 << 6;

/// Counts of nodes that a thread has not added yet; added when dropped.
struct PendingCounts<'a> {
    level: &'a Level,
    /// Root, nodes, and the position of the least one. No nodes: an empty place.
    counts: [(u32, u32, u32); TALLIED],
}

impl<'a> PendingCounts<'a> {
    fn new(level: &'a Level) -> Self {
        Self { level, counts: [(0, 0, 0); TALLIED] }
    }

    /// Counts the node at a position. Positions rise.
    fn add(&mut self, root: u32, position: usize) {
        let Some(count) = self.counts.get_mut(root as usize % TALLIED) else { return };
        if count.0 == root && count.1 > 0 {
            count.1 += 1;
            return;
        }
        let (former, nodes, least) = std::mem::replace(count, (root, 1, position as u32));
        if nodes > 0 {
            self.level.add(former, nodes, least);
        }
    }
}

impl Drop for PendingCounts<'_> {
    fn drop(&mut self) {
        for (root, nodes, least) in self.counts.into_iter().filter(|(_, nodes, _)| *nodes > 0) {
            self.level.add(root, nodes, least);
        }
    }
}

impl Labels {
    /// Labels of forests over one numbering; each level also unites what those before it unite.
    ///
    /// # Errors
    ///
    /// A resource error where memory for sizes is refused, or an error once the work is cancelled.
    pub(crate) fn try_new(
        node_type: NodeType,
        nodes: Nodes,
        forests: Vec<Forest>,
        threads: Threads,
        memory: MemoryReservation,
        cancel: &CancelFlag,
    ) -> Result<Self> {
        let order = nodes.order(&memory, cancel)?;
        let len = forests.first().map_or(0, Forest::len);
        let arrays = if order.is_some() { 2 } else { 1 };
        memory.try_grow(forests.len() * arrays * len as usize * size_of::<u32>())?;
        let slices =
            || (0..len).step_by(SLICE as usize).map(|at| at..len.min(at + SLICE)).collect();
        for pair in forests.windows(2) {
            let [before, forest] = pair else { continue };
            parallel::for_each(threads, slices(), |ids: Range<u32>| {
                cancel.check()?;
                forest.unite_with(before, ids);
                Ok(())
            })?;
        }
        let level = |forest| {
            let least = if order.is_some() { len } else { 0 };
            Level { forest, sizes: atomics(len as usize), least: atomics(least as usize) }
        };
        let levels: Vec<Level> = forests.into_iter().map(level).collect();
        let this = Self {
            node_type,
            nodes,
            levels,
            order,
            components: AtomicUsize::new(0),
            next: AtomicUsize::new(0),
            _memory: memory,
        };
        let positions = this.positions();
        let parts = (0..positions).step_by(SLICE as usize);
        let parts = parts.map(|at| at..positions.min(at + SLICE as usize)).collect();
        parallel::for_each(threads, parts, |part: Range<usize>| {
            cancel.check()?;
            this.components.fetch_add(this.count(part), Ordering::Relaxed);
            Ok(())
        })?;
        Ok(this)
    }

    fn positions(&self) -> usize {
        let ids = || self.levels.first().map_or(0, |level| level.forest.len() as usize);
        self.order.as_ref().map_or_else(ids, Vec::len)
    }

    /// The id at a position, where it is that of a node.
    fn id_at(&self, position: usize) -> Option<u32> {
        match &self.order {
            Some(order) => order.get(position).copied(),
            None => {
                let id = position as u32;
                self.levels.iter().any(|level| level.forest.is_node(id)).then_some(id)
            }
        }
    }

    /// Counts the nodes at some positions for their components. Returns how many of them are roots at the last
    /// level.
    fn count(&self, positions: Range<usize>) -> usize {
        let mut tallies: Vec<PendingCounts<'_>> =
            self.levels.iter().map(PendingCounts::new).collect();
        let mut roots = 0;
        for position in positions {
            let Some(id) = self.id_at(position) else { continue };
            let mut is_root = false;
            for tally in &mut tallies {
                let root = tally.level.forest.find(id);
                is_root = root == id;
                tally.add(root, position);
            }
            roots += usize::from(is_root);
        }
        roots
    }

    /// Takes the ids of up to `count` nodes that no other reader has taken; `None` at the end.
    pub(crate) fn take(&self, count: usize) -> Option<Vec<u32>> {
        let positions = self.positions();
        let mut ids = vec![];
        while ids.is_empty() {
            let from = self.next.fetch_add(count, Ordering::Relaxed);
            if from >= positions {
                return None;
            }
            ids.extend((from..positions.min(from + count)).filter_map(|at| self.id_at(at)));
        }
        Some(ids)
    }

    pub(crate) fn levels(&self) -> usize {
        self.levels.len()
    }

    /// Components of the last level.
    pub(crate) fn components(&self) -> usize {
        self.components.load(Ordering::Relaxed)
    }

    /// The values of nodes.
    pub(crate) fn values(&self, ids: &[u32]) -> Result<ArrayRef> {
        self.nodes.values_at(&self.node_type, ids)
    }

    /// The id of the least node of each id's set.
    pub(crate) fn least_of(&self, level: usize, ids: &[u32]) -> Vec<u32> {
        let Some(level) = self.levels.get(level) else { return ids.to_vec() };
        let least = |id: &u32| {
            let root = level.forest.find(*id);
            let Some(order) = &self.order else { return root };
            let at = level.least.get(root as usize).map_or(0, |at| at.load(Ordering::Relaxed));
            order.get((u32::MAX - at) as usize).copied().unwrap_or(root)
        };
        ids.iter().map(least).collect()
    }

    /// The size of each id's set.
    pub(crate) fn sizes_of(&self, level: usize, ids: &[u32]) -> ArrayRef {
        let size = |id: &u32| {
            let level = self.levels.get(level)?;
            let size = level.sizes.get(level.forest.find(*id) as usize)?;
            Some(i64::from(size.load(Ordering::Relaxed)))
        };
        let sizes = ids.iter().map(|id| size(id).unwrap_or_default());
        std::sync::Arc::new(Int64Array::from_iter_values(sizes))
    }
}
