//! Marks of nodes, for operators that go through sorted pairs once.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result, internal_datafusion_err};
use datafusion::execution::memory_pool::MemoryReservation;

use super::nodes::{Change, NO_ID, NodeType, Nodes, PerNode};
use crate::util::errors::is_out_of_memory;

/// A mark that a node has; 0 is that of an unknown one.
pub(super) type Mark = u8;

/// Nodes with a mark each.
#[derive(Debug)]
pub(super) struct MarkedNodes {
    function: &'static str,
    node_type: NodeType,
    nodes: Nodes,
    marks: [Marks; 1],
    memory: MemoryReservation,
}

#[derive(Debug, Default)]
struct Marks(Vec<Mark>);

impl PerNode for Marks {
    const BYTES: usize = size_of::<Mark>();

    fn change(&mut self, change: &Change) {
        let (Change::Moved { len, .. } | Change::Renumbered { len, .. }) = change;
        let former = std::mem::replace(&mut self.0, vec![0; *len as usize]);
        for (id, mark) in former.into_iter().enumerate() {
            let to = match change {
                Change::Moved { by, .. } => id + *by as usize,
                Change::Renumbered { ids, .. } => {
                    ids.get(id).map_or(NO_ID as usize, |to| *to as usize)
                }
            };
            if let Some(place) = self.0.get_mut(to) {
                *place = mark;
            }
        }
    }

    fn is_node(&self, id: u32) -> bool {
        self.0.get(id as usize).is_some_and(|mark| *mark != 0)
    }
}

impl MarkedNodes {
    pub(super) fn try_new(
        function: &'static str,
        data_type: &DataType,
        memory: MemoryReservation,
    ) -> Result<Self> {
        let node_type = NodeType::try_new(data_type)?;
        let nodes = Nodes::new(&node_type);
        Ok(Self { function, node_type, nodes, marks: [Marks::default()], memory })
    }

    /// The ids of columns, [`NO_ID`] for NULL. Ids of former columns may have changed where
    /// `moved` is called, which gets the change.
    ///
    /// # Errors
    ///
    /// A resource error that says how many nodes are held, where memory is refused.
    pub(super) fn number(
        &mut self,
        columns: &[&ArrayRef],
        mut moved: impl FnMut(&Change),
    ) -> Result<Vec<Vec<u32>>> {
        let columns = columns.iter().map(|column| self.node_type.column(column));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let mut ids = vec![vec![]; columns.len()];
        loop {
            let mut len = Some(0);
            for (column, ids) in columns.iter().zip(&mut ids) {
                let needed = self.nodes.number(column, ids, &self.memory);
                let needed = needed.map_err(|error| self.told(error))?;
                len = len.zip(needed).map(|(len, needed)| len.max(needed));
            }
            let held = self.marks.first().map_or(0, |marks| marks.0.len());
            let change = match len {
                Some(len) if len as usize <= held => return Ok(ids),
                Some(len) => {
                    let len = (len as usize).max(held + held / 2);
                    let grown = self.memory.try_grow(len);
                    grown.map_err(|error| self.told(error))?;
                    self.memory.shrink(held);
                    Some(Change::Moved { by: 0, len: len as u32 })
                }
                None => {
                    let columns: Vec<_> = columns.iter().collect();
                    let change = self.nodes.make_room(&columns, &self.marks, &self.memory);
                    change.map_err(|error| self.told(error))?
                }
            };
            let change = change.ok_or_else(|| internal_datafusion_err!("no room for nodes"))?;
            self.marks.iter_mut().for_each(|marks| marks.change(&change));
            moved(&change);
        }
    }

    pub(super) fn mark(&self, id: u32) -> Mark {
        self.marks.first().and_then(|marks| marks.0.get(id as usize)).copied().unwrap_or(0)
    }

    pub(super) fn set_mark(&mut self, id: u32, mark: Mark) {
        let place = self.marks.first_mut().and_then(|marks| marks.0.get_mut(id as usize));
        place.into_iter().for_each(|place| *place = mark);
    }

    /// The values at ids, NULL at [`NO_ID`].
    pub(super) fn values(&self, ids: &[u32]) -> Result<ArrayRef> {
        self.nodes.values_at(&self.node_type, ids)
    }

    fn told(&self, error: DataFusionError) -> DataFusionError {
        if !is_out_of_memory(&error) {
            return error;
        }
        let held = self.marks.iter().flat_map(|marks| &marks.0).filter(|mark| **mark != 0).count();
        error.context(format!(
            "{} holds every distinct node in memory, {held} so far: raise the memory limit",
            self.function
        ))
    }
}
