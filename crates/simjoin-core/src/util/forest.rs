//! Disjoint sets that many threads unite at once.
//!
//! The scheme is that of Jayanti and Tarjan (A randomized concurrent algorithm for disjoint set
//! union, PODC 2016), linked by the order of ids: a root is linked below a lesser one by
//! compare-and-swap, and searches halve their paths. Where ids have the order of values, the root
//! of a set is its least node.

use std::sync::atomic::{AtomicU32, Ordering};

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
pub struct Forest {
    ids: Vec<AtomicU32>,
}

impl Forest {
    /// Bytes of an id.
    pub const BYTES: usize = size_of::<AtomicU32>();

    /// Sets of one id each, none of which is a node yet.
    pub fn new(len: u32) -> Self {
        Self { ids: atomics(len as usize) }
    }

    /// The bytes of [`Self::new`].
    pub fn footprint(len: u32) -> usize {
        len as usize * Self::BYTES
    }

    /// The number of ids.
    pub fn len(&self) -> u32 {
        self.ids.len() as u32
    }

    /// The forest with more ids, `len` of them.
    pub fn grown(self, len: u32) -> Self {
        let mut grown = Self::new(len);
        grown.ids.iter_mut().zip(self.ids).for_each(|(place, value)| *place = value);
        grown
    }

    /// Whether an id is a node.
    pub fn is_node(&self, id: u32) -> bool {
        self.load(id) != NO_NODE
    }

    /// The parent of an id, unless it is a root or no node.
    #[inline]
    pub fn parent(&self, id: u32) -> Option<u32> {
        self.load(id).checked_sub(PARENT)
    }

    #[inline]
    fn load(&self, id: u32) -> u32 {
        self.ids.get(id as usize).map_or(NO_NODE, |value| value.load(Ordering::Relaxed))
    }

    /// Makes an id a node; true where it was none.
    pub fn declare(&self, id: u32) -> bool {
        let Some(value) = self.ids.get(id as usize) else { return false };
        value.load(Ordering::Relaxed) == NO_NODE
            && value.compare_exchange(NO_NODE, ROOT, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// The root of an id's set.
    pub fn find(&self, mut id: u32) -> u32 {
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

    /// Whether two ids are in one set.
    #[inline]
    pub(crate) fn are_united(&self, a: u32, b: u32) -> bool {
        // Most sets have their root as the parent of all other ids.
        let above = |id| self.parent(id).unwrap_or(id);
        let (a, b) = (above(a), above(b));
        a == b || self.find(a) == self.find(b)
    }

    /// Unites the sets of two ids; true where they were different sets.
    pub fn unite(&self, a: u32, b: u32) -> bool {
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

    /// Unites the sets of pairs whose number `edge` is true, of ids within the forest, and makes all
    /// these ids nodes. Returns how many pairs united two sets.
    pub fn unite_all(&self, left: &[u32], right: &[u32], edge: impl Fn(usize) -> bool) -> usize {
        let mut united = 0;
        for (i, (a, b)) in left.iter().zip(right).enumerate() {
            for ahead in [left.get(i + AHEAD), right.get(i + AHEAD)].into_iter().flatten() {
                if let Some(value) = self.ids.get(*ahead as usize) {
                    prefetch(value);
                }
            }
            self.declare(*a);
            self.declare(*b);
            if edge(i) {
                united += usize::from(self.unite(*a, *b));
            }
        }
        united
    }

    /// Unites what another forest over the same ids has united, of the ids of a range.
    pub fn unite_with(&self, other: &Self, ids: std::ops::Range<u32>) {
        for id in ids {
            if let Some(parent) = other.parent(id) {
                self.unite(id, parent);
            }
        }
    }
}

/// Ids without a node. The memory of those that nobody touches is not touched here either.
pub fn atomics(len: usize) -> Vec<AtomicU32> {
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
        let forest = Forest::new(NODES);
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
}
