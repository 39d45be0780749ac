//! The pairs of a one-to-one match: from the best score on, ties by their nodes, each node once.
//!
//! All pairs of better scores decide before the others do. So a join by a strict bound finds the first pairs
//! that are taken, and a join of the rows that are left by a wider bound the next ones.
//!
//! Rows with equal arguments and keys are joined once. At each score the pair with the least nodes is
//! one of the least left nodes and the least right nodes of its two items; where the join compares the nodes of
//! a pair, of the least ones for which that holds. Another condition tells rows apart by what it reads.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_plan::expressions::Column;

use super::items::{Head, PartnerItems, SideExpressions, has_ranks};
use super::search::{BestPairSearch, ScoreSample, SearchOutcome};
use super::top::{Pair, Picked, Top};
use crate::exec::SetSimilarityJoinExec;
use crate::exec::layout::row_order_of;
use crate::memory::CountedVec;
use crate::nearest::alike::common_ranks;
use crate::spec::{ResidualColumn, Side, SimilarityJoin};
use crate::top::ScoreKey;
use crate::tuning::Size;

/// Pairs of the join, at least, for each row of the sides: below that, all pairs are made.
const FEW_TIMES: Size<f64> = Size { usual: 4.0, small: 0.5 };

/// Pairs that the first round is to find for each row of the smaller side.
pub(super) const PAIRS_OF_ROW: usize = 2;

impl BestPairSearch {
    /// Finds the pairs of a one-to-one match, where a sample says that the join has many others. `nodes` are
    /// the columns of the output with the left and the right node.
    ///
    /// # Errors
    ///
    /// The errors of the joins, and when memory is refused.
    pub(super) async fn run_one_to_one(&self, nodes: [usize; 2]) -> Result<SearchOutcome> {
        let widest = self.join.predicate.bound;
        let Some(columns) = columns_of(&self.join, nodes) else {
            return Ok(SearchOutcome::Within(widest));
        };
        if self.has_few_pairs() || !self.has_all_scores() {
            return Ok(SearchOutcome::Within(widest));
        }
        let [left, right] = [0, 1].map(|side| self.tables[side].rows());
        let wanted = PAIRS_OF_ROW.saturating_mul(left.min(right));
        let sample = self.sample(wanted).await?;
        if self.makes_few_pairs(&sample, [left, right]) {
            return Ok(SearchOutcome::Within(widest));
        }
        let compared = self.compared_nodes(columns.of_sides)?;
        let (operator, ranks) = match compared {
            Some((operator, [left, right])) => (Some(operator), [Some(left), Some(right)]),
            None => (None, [None, None]),
        };
        let [of_left, of_right] = ranks;
        let is_free = operator.is_some();
        let left = self.items(Side::Left, columns.of_sides[0], of_left, is_free);
        let right = self.items(Side::Right, columns.of_sides[1], of_right, is_free);
        // Items are joined by a row of each, whose nodes tell nothing of those of others.
        let search = if is_free { &self.without_condition() } else { self };
        let mut matching = Matching {
            sides: [left?, right?],
            right_first: columns.right_first,
            operator,
            pairs: CountedVec::new(&self.memory),
            memory: self.memory.new_empty(),
        };
        for bound in sample.bounds(wanted, widest, self.order()) {
            let rows = matching.sides.each_mut().map(PartnerItems::heads);
            let [left, right] = &rows;
            if left.is_empty() || right.is_empty() {
                break;
            }
            let held = self.memory.new_empty();
            held.try_grow((left.len() + right.len()) * size_of::<u32>())?;
            let all = Arc::new(Top::new(usize::MAX, false, None, &self.memory, self.tuning()));
            let plan = search.join(bound, [Some(left), Some(right)], &all).await?;
            let text =
                format!("{bound}: {} pairs of {} x {}", all.offered(), left.len(), right.len());
            (self.on_round)(text, Some(plan));
            let (Picked::Few(pairs) | Picked::Pairs(pairs)) = all.take() else {
                return Ok(SearchOutcome::Within(widest));
            };
            matching.take(&pairs).await?;
        }
        Ok(SearchOutcome::Pairs(matching.pairs))
    }

    /// Whether the join makes so few pairs of so many rows, as a sample has it, that all are made.
    pub(super) fn makes_few_pairs(&self, sample: &ScoreSample, rows: [usize; 2]) -> bool {
        let [left, right] = rows.map(|rows| rows as f64);
        sample.pairs() < self.tuning().size(FEW_TIMES) * (left + right)
    }

    /// The items of a side, whose nodes are in a column of its input, and have `ranks` where those of both sides
    /// are compared. `is_free` says that a condition of the pair tells no rows apart.
    fn items(
        &self,
        side: Side,
        node: usize,
        ranks: Option<Vec<u32>>,
        is_free: bool,
    ) -> Result<PartnerItems> {
        let (join, table) = (&self.join, &self.tables[side as usize]);
        let read = join.residual.iter().filter(|_| !is_free).flat_map(|residual| &residual.columns);
        let read = read.filter_map(|column| match column {
            ResidualColumn::Input(of, index) if *of == side => {
                let column = Column::new(table.schema().field(*index).name(), *index);
                Some(Arc::new(column) as PhysicalExprRef)
            }
            _ => None,
        });
        let read: Vec<PhysicalExprRef> = read.collect();
        let keys = join.on.iter().map(|(left, right)| [left, right][side as usize]);
        let alike = std::iter::once(&join.arguments[side as usize]).chain(keys).chain(&read);
        let filter = join.side_filters[side as usize].as_ref();
        let parts = SideExpressions { node, filter, alike: alike.collect(), ranks };
        PartnerItems::try_new(table, parts, self.threads(), self.memory.new_empty())
    }

    /// The comparison of the nodes of a pair that is the whole condition of the join, with the ranks of the
    /// nodes of each side.
    fn compared_nodes(&self, nodes: [usize; 2]) -> Result<Option<(Operator, [Vec<u32>; 2])>> {
        let Some(residual) = &self.join.residual else { return Ok(None) };
        match row_order_of(residual) {
            Some((order, None)) if order.columns == nodes => {
                let [left, right] = &self.tables;
                // The ranks are as large as those that items hold in any case.
                let ranks = common_ranks([left, right], nodes, &self.memory.new_empty())?;
                Ok(ranks.map(|ranks| (order.operator, ranks)))
            }
            _ => Ok(None),
        }
    }
}

/// The columns of the inputs with the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NodeColumns {
    /// The column of each side of the join.
    of_sides: [usize; 2],
    /// Whether the right side of the join has the left nodes.
    right_first: bool,
}

impl NodeColumns {
    /// The side and the column there of the left nodes and of the right ones.
    pub(super) fn sources(self) -> [(Side, usize); 2] {
        let [left, right] = self.of_sides;
        match self.right_first {
            true => [(Side::Right, right), (Side::Left, left)],
            false => [(Side::Left, left), (Side::Right, right)],
        }
    }
}

/// The columns of the inputs that two columns of the output are read from, if they are one of each side.
pub(super) fn columns_of(join: &SimilarityJoin, nodes: [usize; 2]) -> Option<NodeColumns> {
    let [first, second] = nodes.map(|node| join.output.get(node)?.source());
    match (first?, second?) {
        ((Side::Left, left), (Side::Right, right)) => {
            Some(NodeColumns { of_sides: [left, right], right_first: false })
        }
        ((Side::Right, right), (Side::Left, left)) => {
            Some(NodeColumns { of_sides: [left, right], right_first: true })
        }
        _ => None,
    }
}

/// Whether a one-to-one match by the nodes in two columns of the output is made apart from other pairs.
pub(super) fn is_matched(plain: &SetSimilarityJoinExec, nodes: [usize; 2]) -> bool {
    columns_of(plain.join(), nodes).is_some()
        && nodes.iter().all(|node| has_ranks(plain.join().schema.field(*node).data_type()))
}

/// The pairs taken so far, and the rows that are left.
struct Matching {
    /// The items of each side of the join.
    sides: [PartnerItems; 2],
    right_first: bool,
    /// The comparison of the left with the right node of the join that a pair must meet.
    operator: Option<Operator>,
    pairs: CountedVec<Pair>,
    /// The memory of pairs that wait.
    memory: MemoryReservation,
}

/// The ranks of the least nodes of two items that are not taken, the left node first, and the items by side
/// of the join.
type Candidate = Reverse<([u32; 2], [u32; 2])>;

/// Steps between two points at which other tasks may run.
const STEPS: usize = 1 << 16;

impl Matching {
    /// Takes pairs of the items of some pairs of rows, which are sorted by score.
    async fn take(&mut self, pairs: &[Pair]) -> Result<()> {
        let held = self.memory.new_empty();
        let mut open: BinaryHeap<Candidate> = BinaryHeap::new();
        let mut steps = 0;
        for tied in pairs.chunk_by(|(a, ..), (b, ..)| a == b) {
            held.try_resize(open.capacity().max(tied.len()) * size_of::<Candidate>())?;
            for (_, left, right) in tied {
                let [lefts, rights] = &self.sides;
                let items = [lefts.item_of(*left), rights.item_of(*right)];
                open.extend(self.candidate(items).map(|(candidate, _)| candidate));
            }
            let key = tied[0].0;
            while let Some(candidate) = open.pop() {
                let Reverse((_, items)) = candidate;
                if let Some((now, heads)) = self.candidate(items) {
                    if now == candidate {
                        self.take_pair(key, heads)?;
                    }
                    // Otherwise one of its nodes is taken since.
                    open.extend(self.candidate(items).map(|(candidate, _)| candidate));
                }
                steps += 1;
                if steps % STEPS == 0 {
                    tokio::task::yield_now().await;
                }
            }
        }
        Ok(())
    }

    /// The candidate of two items, and its rows by side of the join.
    fn candidate(&mut self, items: [u32; 2]) -> Option<(Candidate, [Head; 2])> {
        let heads = self.heads(items)?;
        let mut nodes = heads.map(|head| head.node);
        if self.right_first {
            nodes.reverse();
        }
        Some((Reverse((nodes, items)), heads))
    }

    /// The rows of the pair of two items that has the least nodes, by side of the join.
    fn heads(&mut self, items: [u32; 2]) -> Option<[Head; 2]> {
        let [lefts, rights] = &mut self.sides;
        let [left, right] = items;
        let heads = [lefts.head(left)?, rights.head(right)?];
        let or_equal = matches!(self.operator, Some(Operator::LtEq | Operator::GtEq));
        match self.operator {
            None => Some(heads),
            // The greater node is the least one above the least of the other side.
            Some(Operator::Lt | Operator::LtEq) => {
                Some([heads[0], rights.above(right, heads[0].node, or_equal)?])
            }
            Some(Operator::Gt | Operator::GtEq) => {
                Some([lefts.above(left, heads[1].node, or_equal)?, heads[1]])
            }
            Some(_) if heads[0].node != heads[1].node => Some(heads),
            // One of the two is the next one: the node that counts less for the order, if it has one.
            Some(_) => {
                let node = heads[0].node;
                let of_left = lefts.above(left, node, false).map(|head| [head, heads[1]]);
                let of_right = rights.above(right, node, false).map(|head| [heads[0], head]);
                match self.right_first {
                    true => of_left.or(of_right),
                    false => of_right.or(of_left),
                }
            }
        }
    }

    fn take_pair(&mut self, key: ScoreKey, heads: [Head; 2]) -> Result<()> {
        for (side, head) in self.sides.iter_mut().zip(heads) {
            side.take(head.node);
        }
        let [left, right] = heads;
        Ok(self.pairs.try_push((key, left.row, right.row))?)
    }
}
