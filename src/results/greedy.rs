//! Marks of nodes, for operators that go through sorted pairs once.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::memory_pool::MemoryReservation;

use super::nodes::{Change, NodeType, Nodes, PerNode};
use crate::operator::errors::is_out_of_memory;

/// A mark that a node has; 0 is that of an unknown one.
pub(crate) type Mark = u8;

/// Nodes with a mark each.
#[derive(Debug)]
pub(crate) struct MarkedNodes {
    function: &'static str,
    node_type: NodeType,
    nodes: Nodes,
    marks: Marks,
    memory: MemoryReservation,
}

#[derive(Debug, Default)]
struct Marks(Vec<Mark>);

impl PerNode for Marks {
    const BYTES: usize = size_of::<Mark>();

    fn len(&self) -> u32 {
        self.0.len() as u32
    }

    fn change(&mut self, change: &Change) {
        let former = std::mem::replace(&mut self.0, vec![0; change.len() as usize]);
        for (id, mark) in (0..).zip(former) {
            if let Some(place) = self.0.get_mut(change.id_of(id) as usize) {
                *place = mark;
            }
        }
    }

    fn is_node(&self, id: u32) -> bool {
        self.0.get(id as usize).is_some_and(|mark| *mark != 0)
    }
}

impl MarkedNodes {
    pub(crate) fn try_new(
        function: &'static str,
        data_type: &DataType,
        memory: MemoryReservation,
    ) -> Result<Self> {
        let node_type = NodeType::try_new(data_type)?;
        let nodes = Nodes::new(&node_type);
        Ok(Self { function, node_type, nodes, marks: Marks::default(), memory })
    }

    /// The ids of columns, [`NO_ID`] for NULL. Ids of former columns may have changed where
    /// `moved` is called, which gets the change.
    ///
    /// # Errors
    ///
    /// A resource error that says how many nodes are held, where memory is refused.
    pub(crate) fn number(
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
            if len.is_some_and(|len| len <= self.marks.len()) {
                return Ok(ids);
            }
            let columns: Vec<_> = columns.iter().collect();
            let marks = std::slice::from_mut(&mut self.marks);
            let change = self.nodes.make_room(&columns, len, marks, &self.memory);
            match change.map_err(|error| self.told(error))? {
                Some(change) => moved(&change),
                None => return internal_err!("{} finds no room for nodes", self.function),
            }
        }
    }

    pub(crate) fn mark(&self, id: u32) -> Mark {
        self.marks.0.get(id as usize).copied().unwrap_or(0)
    }

    pub(crate) fn set_mark(&mut self, id: u32, mark: Mark) {
        if let Some(place) = self.marks.0.get_mut(id as usize) {
            *place = mark;
        }
    }

    /// The values at ids, NULL at [`NO_ID`].
    pub(super) fn values(&self, ids: &[u32]) -> Result<ArrayRef> {
        self.nodes.values_at(&self.node_type, ids)
    }

    fn told(&self, error: DataFusionError) -> DataFusionError {
        if !is_out_of_memory(&error) {
            return error;
        }
        let held = self.marks.0.iter().filter(|mark| **mark != 0).count();
        error.context(format!(
            "{} holds every distinct node in memory, {held} so far: raise the memory limit",
            self.function
        ))
    }
}
