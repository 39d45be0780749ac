//! Nodes and their forests while pairs are read.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::Int32Type;
use datafusion::common::{DataFusionError, Result, internal_datafusion_err};
use datafusion::execution::memory_pool::MemoryReservation;
use parking_lot::RwLock;

use crate::operator::errors::is_out_of_memory;
use crate::results::forest::Forest;
use crate::results::labels::Labels;
use crate::results::nodes::{NodeColumn, NodeType, Nodes};
use crate::util::cancel::CancelFlag;
use crate::util::parallel::Threads;

/// The nodes and the sets that many threads unite.
#[derive(Debug)]
pub(super) struct United {
    node_type: NodeType,
    state: RwLock<NodeForests>,
    memory: MemoryReservation,
}

#[derive(Debug)]
struct NodeForests {
    nodes: Nodes,
    /// One for each level, with the pairs that count from it on.
    forests: Vec<Forest>,
}

impl United {
    pub(super) fn try_new(
        node: &arrow::datatypes::DataType,
        levels: usize,
        memory: MemoryReservation,
    ) -> Result<Self> {
        let node_type = NodeType::try_new(node)?;
        let forests = (0..levels).map(|_| Forest::default()).collect();
        let state = RwLock::new(NodeForests { nodes: Nodes::new(&node_type), forests });
        Ok(Self { node_type, state, memory })
    }

    /// Unites the nodes of pairs. Returns how many pairs have united two sets.
    pub(super) fn add(&self, batch: &RecordBatch) -> Result<usize> {
        let left = self.node_type.column(batch.column(0))?;
        let right = self.node_type.column(batch.column(1))?;
        let levels = match batch.num_columns() {
            2 => None,
            _ => Some(
                batch
                    .column(2)
                    .as_primitive_opt::<Int32Type>()
                    .ok_or_else(|| internal_datafusion_err!("the level of a pair is no Int32"))?,
            ),
        };
        let (mut left_ids, mut right_ids) = (vec![], vec![]);
        loop {
            let state = self.state.read();
            let left_len = state.nodes.number(&left, &mut left_ids, &self.memory);
            let right_len = state.nodes.number(&right, &mut right_ids, &self.memory);
            let len = match (left_len, right_len) {
                (Ok(left), Ok(right)) => left.zip(right).map(|(left, right)| left.max(right)),
                (Err(error), _) | (_, Err(error)) => return Err(state.told(error)),
            };
            if let Some(len) = len
                && state.forests.iter().all(|forest| forest.len() >= len)
            {
                let unite = |(level, forest): (usize, &Forest)| {
                    let counts = |pair: usize| match levels {
                        None => true,
                        Some(levels) => levels.is_valid(pair) && levels.value(pair) == level as i32,
                    };
                    forest.unite_all(&left_ids, &right_ids, counts)
                };
                return Ok(state.forests.iter().enumerate().map(unite).sum());
            }
            drop(state);
            self.state.write().make_room(&[&left, &right], len, &self.memory)?;
        }
    }

    /// Labels the nodes of all pairs.
    pub(super) fn label(&self, threads: Threads, cancel: &CancelFlag) -> Result<Labels> {
        let mut state = self.state.write();
        let nodes = std::mem::replace(&mut state.nodes, Nodes::new(&self.node_type));
        let forests = std::mem::take(&mut state.forests);
        let memory = self.memory.split(self.memory.size());
        Labels::try_new(self.node_type.clone(), nodes, forests, threads, memory, cancel)
    }
}

impl NodeForests {
    fn make_room(
        &mut self,
        columns: &[&NodeColumn],
        needed: Option<u32>,
        memory: &MemoryReservation,
    ) -> Result<()> {
        let made = self.nodes.make_room(columns, needed, &mut self.forests, memory);
        made.map(drop).map_err(|error| self.told(error))
    }

    /// An error with what was read so far, where memory is short.
    fn told(&self, error: DataFusionError) -> DataFusionError {
        if !is_out_of_memory(&error) {
            return error;
        }
        let forest = self.forests.first();
        let count = |f: &Forest| (0..f.len()).filter(|id| f.is_node(*id)).count();
        error.context(format!(
            "connected_components holds every distinct node in memory, {} so far: raise the memory limit",
            forest.map_or(0, count)
        ))
    }
}
