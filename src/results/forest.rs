//! Disjoint sets that many threads unite at once.
//!
//! The scheme is that of Jayanti and Tarjan (A randomized concurrent algorithm for disjoint set
//! union, PODC 2016), linked by the order of ids: a root is linked below a lesser one by
//! compare-and-swap, and searches halve their paths. Where ids have the order of values, the root
//! of a set is its least node.

use std::sync::atomic::{AtomicU32, Ordering};

use super::nodes::{Change, NO_ID, PerNode};
use crate::simd::prefetch;

/// An id that is no node.
const NO_NODE: u32 = 0;
/// A node without a parent.
const ROOT: u32 = 1;
/// Added to the id of a parent.
const PARENT: u32 = 2;

/// Pairs ahead of their turn whose ids are fetched.
const AHEAD: usize = 16;

/// For each id [`NO_NODE`], [`ROOT`], or the id of its parent, a lesser one, and [`PARENT`].
#[derive(Debug, Default)]
pub(crate) struct Forest {
    ids: Vec<AtomicU32>,
}

impl Forest {
    /// Sets of one id each, none of which is a node yet.
    pub(crate) fn new(len: u32) -> Self {
        Self { ids: atomics(len as usize) }
    }

    /// The bytes of [`Self::new`].
    pub(crate) fn footprint(len: u32) -> usize {
        len as usize * Self::BYTES
    }

    fn load(&self, id: u32) -> u32 {
        self.ids.get(id as usize).map_or(NO_NODE, |value| value.load(Ordering::Relaxed))
    }

    /// Makes an id a node; true where it was none.
    pub(crate) fn declare(&self, id: u32) -> bool {
        let Some(value) = self.ids.get(id as usize) else { return false };
        value.load(Ordering::Relaxed) == NO_NODE
            && value.compare_exchange(NO_NODE, ROOT, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// The root of an id's set.
    pub(crate) fn find(&self, mut id: u32) -> u32 {
        loop {
            let parent = self.load(id);
            if parent < PARENT {
                return id;
            }
            let parent = parent - PARENT;
            let above = self.load(parent);
            if above < PARENT {
                return parent;
            }
            // Another thread may have stored a nearer ancestor meanwhile: both are ancestors.
            if let Some(value) = self.ids.get(id as usize) {
                value.store(above, Ordering::Relaxed);
            }
            id = above - PARENT;
        }
    }

    /// Unites the sets of two ids; true where they were different sets.
    pub(crate) fn unite(&self, a: u32, b: u32) -> bool {
        let (mut a, mut b) = (self.find(a), self.find(b));
        loop {
            if a == b {
                return false;
            }
            if a < b {
                (a, b) = (b, a);
            }
            let Some(value) = self.ids.get(a as usize) else { return false };
            let root = value.load(Ordering::Relaxed);
            let linked = root < PARENT
                && value
                    .compare_exchange(root, b + PARENT, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok();
            if linked {
                return true;
            }
            (a, b) = (self.find(a), self.find(b));
        }
    }

    /// Unites the sets of pairs whose number `edge` is true, where neither id is [`NO_ID`], and
    /// makes all their ids nodes. Returns how many pairs united two sets.
    pub(crate) fn unite_all(
        &self,
        left: &[u32],
        right: &[u32],
        edge: impl Fn(usize) -> bool,
    ) -> usize {
        let mut united = 0;
        for (i, (a, b)) in left.iter().zip(right).enumerate() {
            for ahead in [left.get(i + AHEAD), right.get(i + AHEAD)].into_iter().flatten() {
                if let Some(value) = self.ids.get(*ahead as usize) {
                    prefetch(value);
                }
            }
            self.declare(*a);
            self.declare(*b);
            if *a != NO_ID && *b != NO_ID && edge(i) {
                united += usize::from(self.unite(*a, *b));
            }
        }
        united
    }

    /// Unites what another forest over the same ids has united, of the ids of a range.
    pub(crate) fn unite_with(&self, other: &Self, ids: std::ops::Range<u32>) {
        for id in ids {
            let parent = other.load(id);
            if parent >= PARENT {
                self.unite(id, parent - PARENT);
            }
        }
    }
}

impl PerNode for Forest {
    const BYTES: usize = size_of::<AtomicU32>();

    fn len(&self) -> u32 {
        self.ids.len() as u32
    }

    fn change(&mut self, change: &Change) {
        let former = std::mem::replace(self, Self::new(change.len()));
        if let Change::Moved { by: 0, .. } = change {
            self.ids.iter_mut().zip(former.ids).for_each(|(place, value)| *place = value);
            return;
        }
        // A renumbered parent may be greater than its child: sets are united anew.
        for id in 0..former.len() {
            let parent = former.load(id);
            let to = change.id_of(id);
            if parent == NO_NODE || to == NO_ID {
                continue;
            }
            self.declare(to);
            if parent >= PARENT {
                self.unite(to, change.id_of(parent - PARENT));
            }
        }
    }

    fn is_node(&self, id: u32) -> bool {
        self.load(id) != NO_NODE
    }
}

/// Ids without a node. The memory of those that nobody touches is not touched here either.
pub(crate) fn atomics(len: usize) -> Vec<AtomicU32> {
    let mut zeroes = std::mem::ManuallyDrop::new(vec![0_u32; len]);
    // SAFETY: an `AtomicU32` has the size, the alignment and the values of a `u32`; the vector is
    // given up here.
    unsafe { Vec::from_raw_parts(zeroes.as_mut_ptr().cast(), zeroes.len(), zeroes.capacity()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_unite_a_path_in_any_order() {
        use rand::seq::SliceRandom;
        use rand::{SeedableRng, rngs::StdRng};
        const NODES: u32 = 100_000;
        let mut edges: Vec<u32> = (1..NODES).collect();
        edges.shuffle(&mut StdRng::seed_from_u64(3));
        let mut forest = Forest::default();
        forest.change(&Change::Moved { by: 0, len: NODES });
        let united: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = edges
                .chunks(edges.len() / 4 + 1)
                .map(|edges| {
                    let forest = &forest;
                    scope.spawn(move || {
                        let before: Vec<u32> = edges.iter().map(|id| id - 1).collect();
                        forest.unite_all(edges, &before, |_| true)
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(united, NODES as usize - 1);
        assert!((0..NODES).all(|id| forest.find(id) == 0));
    }

    #[test]
    fn ids_move_and_are_renumbered() {
        let mut forest = Forest::default();
        forest.change(&Change::Moved { by: 0, len: 4 });
        assert!(forest.unite(1, 3));
        forest.declare(2);
        forest.change(&Change::Moved { by: 5, len: 20 });
        assert_eq!((forest.find(6), forest.find(8), forest.find(7)), (6, 6, 7));
        assert!(!forest.is_node(5) && forest.is_node(7));
        let mut ids = vec![NO_ID; 20];
        (ids[6], ids[7], ids[8]) = (2, 1, 0);
        forest.change(&Change::Renumbered { ids, len: 3 });
        assert_eq!((forest.find(2), forest.find(0), forest.find(1)), (0, 0, 1));
    }
}
