//! The pairs of a one-to-one match: from the best score on, ties by their nodes, each node once.
//!
//! All pairs of better scores decide before the others do. So a join by a strict bound finds the first pairs
//! that are taken, and a join of the rows that are left by a wider bound the next ones.
//!
//! Rows with equal arguments and keys are joined once. At each score the pair with the least nodes is
//! one of the least left nodes and the least right nodes of its two items.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;

use super::items::{Head, Items, Parts, has_ranks};
use super::search::{Found, MOST_ROUNDS, Search};
use super::top::{Pair, Picked, Top};
use crate::exec::{ProcessCores, SetSimilarityJoinExec};
use crate::nearest::best::ScoreKey;
use crate::spec::{Side, SimilarityJoin};

/// Pairs of the join, at least, for each row of the sides: below that, all pairs are made.
const FEW_TIMES: f64 = if cfg!(test) { 0.5 } else { 4.0 };

/// Pairs that the first round is to find for each row of the smaller side.
const PAIRS_OF_ROW: usize = 2;

impl Search {
    /// Finds the pairs of a one-to-one match, where a sample says that the join has many others. `nodes` are
    /// the columns of the output with the left and the right node.
    ///
    /// # Errors
    ///
    /// The errors of the joins, and when memory is refused.
    pub(super) async fn run_one_to_one(&self, nodes: [usize; 2]) -> Result<Found> {
        let widest = self.join.predicate.bound;
        let Some(columns) = columns_of(&self.join, nodes) else { return Ok(Found::Within(widest)) };
        if self.has_few_pairs() || !self.has_all_scores() {
            return Ok(Found::Within(widest));
        }
        let [left, right] = [0, 1].map(|side| self.tables[side].rows());
        let wanted = PAIRS_OF_ROW.saturating_mul(left.min(right));
        let sample = self.sample(wanted).await?;
        if sample.pairs() < FEW_TIMES * (left as f64 + right as f64) {
            return Ok(Found::Within(widest));
        }
        let items = [0, 1].map(|side| self.items(side, columns.of_sides[side]));
        let [left, right] = items;
        let mut matching = Matching {
            sides: [left?, right?],
            right_first: columns.right_first,
            pairs: vec![],
            memory: self.memory.new_empty(),
        };
        let mut former = None;
        for round in 0..=MOST_ROUNDS {
            let bound = match round {
                MOST_ROUNDS => None,
                round => sample.bound(wanted, round, self.order()),
            };
            let bound = bound.filter(|bound| self.is_wider(widest, *bound)).unwrap_or(widest);
            if former.is_some_and(|former| !self.is_wider(bound, former)) {
                continue;
            }
            former = Some(bound);
            let rows = matching.sides.each_mut().map(Items::heads);
            let [left, right] = &rows;
            if left.is_empty() || right.is_empty() {
                break;
            }
            let held = self.memory.new_empty();
            held.try_grow((left.len() + right.len()) * size_of::<u32>())?;
            let all = Arc::new(Top::new(usize::MAX, false, None, self.memory.new_empty()));
            let plan = self.join(bound, [Some(left), Some(right)], &all).await?;
            let text =
                format!("{bound}: {} pairs of {} x {}", all.offered(), left.len(), right.len());
            (self.on_round)(text, Some(plan));
            let (Picked::Few(pairs) | Picked::Pairs(pairs)) = all.take() else {
                return Ok(Found::Within(widest));
            };
            matching.take(&pairs).await?;
            if bound == widest {
                break;
            }
        }
        Ok(Found::Pairs(matching.pairs))
    }

    /// The items of a side, whose nodes are in a column of its input.
    fn items(&self, side: usize, node: usize) -> Result<Items> {
        let join = &self.join;
        // A condition of the pair tells rows apart.
        let alike = join.residual.is_none().then(|| {
            let keys = join.on.iter().map(|(left, right)| [left, right][side]);
            std::iter::once(&join.arguments[side]).chain(keys).collect()
        });
        let parts = Parts { node, filter: join.side_filters[side].as_ref(), alike };
        let threads = ProcessCores::threads(self.context.session_config());
        Items::try_new(&self.tables[side], &parts, threads, self.memory.new_empty())
    }
}

/// The columns of the inputs with the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NodeColumns {
    /// By side of the join.
    of_sides: [usize; 2],
    /// Whether the right side of the join has the left nodes.
    right_first: bool,
}

/// The columns of the inputs that two columns of the output are read from, if they are one of each side.
fn columns_of(join: &SimilarityJoin, nodes: [usize; 2]) -> Option<NodeColumns> {
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
    /// By side of the join.
    sides: [Items; 2],
    right_first: bool,
    pairs: Vec<Pair>,
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
        let [lefts, rights] = &mut self.sides;
        let heads = [lefts.head(items[0])?, rights.head(items[1])?];
        let mut nodes = heads.map(|head| head.node);
        if self.right_first {
            nodes.reverse();
        }
        Some((Reverse((nodes, items)), heads))
    }

    fn take_pair(&mut self, key: ScoreKey, heads: [Head; 2]) -> Result<()> {
        for (side, head) in self.sides.iter_mut().zip(heads) {
            side.take(head.node);
        }
        let [left, right] = heads;
        self.pairs.push((key, left.row, right.row));
        self.memory.try_resize(self.pairs.capacity() * size_of::<Pair>())
    }
}
