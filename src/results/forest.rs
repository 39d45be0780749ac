//! The forest of the nodes of pairs, whose ids change while it grows.

use super::nodes::{Change, NO_ID, PerNode};
pub(super) use crate::util::forest::Forest;

impl PerNode for Forest {
    const BYTES: usize = Self::BYTES;

    fn len(&self) -> u32 {
        self.len()
    }

    fn change(&mut self, change: &Change) {
        let former = std::mem::take(self);
        if let Change::Moved { by: 0, len } = change {
            *self = former.grown(*len);
            return;
        }
        *self = Self::new(change.len());
        // A renumbered parent may be greater than its child: sets are united anew.
        for id in (0..former.len()).filter(|id| former.is_node(*id)) {
            let to = change.id_of(id);
            if to == NO_ID {
                continue;
            }
            self.declare(to);
            if let Some(parent) = former.parent(id) {
                self.unite(to, change.id_of(parent));
            }
        }
    }

    fn is_node(&self, id: u32) -> bool {
        self.is_node(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
