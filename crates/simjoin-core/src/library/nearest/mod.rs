//! The nearest rows of each row.
//!
//! ```text
//! batches   a column as the engine reads it
//! ranked    the neighbours of each row, ordered, filled up with rows of the least similarity
//! ```

mod batches;
mod ranked;

use arrow::array::ArrayRef;

use self::ranked::{RankedSearch, Ranking};
use super::column::Column;
use super::measure::Measure;
use super::options::{Options, option_methods};
use super::pairs::Pairs;
use super::search::SideRows;
use crate::error::{Result, plan_err};

/// A search for the nearest rows of each row: of the least distance, or of the greatest similarity.
///
/// A left row gets min(k, n) of `n` right rows with a value. NULL, NaN, and for sets a similarity of
/// 0, are no values. Which of several right rows that tie with the k-th one stay is not specified, and
/// may differ from run to run; their scores are, and [`Nearest::with_ties`] keeps them all.
///
/// ```
/// use simjoin_core::{Measure, Nearest};
///
/// let (cities, spellings) = (["Vienna", "Paris"], ["Wien", "Viena", "Pariis"]);
/// let pairs = Nearest::new(Measure::Levenshtein, 2).join(&cities, &spellings)?;
/// // left | right | score
/// //    0 |     1 |     1
/// //    0 |     0 |     4    (or row 2)
/// //    1 |     2 |     1
/// //    1 |     0 |     4    (or row 1)
/// assert_eq!((pairs[0].right, pairs[0].score), (1, 1.0));
/// assert_eq!(pairs.len(), 4);
/// # Ok::<(), simjoin_core::Error>(())
/// ```
///
/// # Errors
///
/// The errors of a [`Join`](crate::Join), and a plan error for `k` of 0.
#[derive(Debug, Clone)]
#[must_use = "a search does nothing before one of its methods joins"]
pub struct Nearest {
    measure: Measure,
    count: usize,
    with_ties: bool,
    within: Option<f64>,
    options: Options,
}

option_methods!(Nearest);

impl Nearest {
    /// The `k` nearest rows by a measure.
    pub fn new(measure: Measure, k: usize) -> Self {
        let options = Options::default();
        Self { measure, count: k, with_ties: false, within: None, options }
    }

    /// Keeps every right row whose score is that of the k-th.
    pub fn with_ties(mut self) -> Self {
        self.with_ties = true;
        self
    }

    /// Leaves out neighbours that are less similar than this score: a row has fewer than `k` then.
    pub fn within(mut self, score: f64) -> Self {
        self.within = Some(score);
        self
    }

    /// The nearest right rows of each left row, ordered by left row, the nearest first, ties by right
    /// row. See [`Nearest`] for an example and errors.
    pub fn join(
        &self,
        left: &(impl Column + ?Sized),
        right: &(impl Column + ?Sized),
    ) -> Result<Pairs> {
        self.find([left.to_array(), right.to_array()], false)
    }

    /// The nearest other rows of each row of one column, in the same order. A row is no neighbour of
    /// itself.
    ///
    /// ```
    /// use simjoin_core::{Measure, Nearest};
    ///
    /// let points = [[0.0, 0.0], [0.0, 1.0], [5.0, 5.0]];
    /// let pairs = Nearest::new(Measure::Euclidean, 1).self_join(&points)?;
    /// let nearest: Vec<_> = pairs.iter().map(|pair| (pair.left, pair.right)).collect();
    /// assert_eq!(nearest, [(0, 1), (1, 0), (2, 1)]);
    /// # Ok::<(), simjoin_core::Error>(())
    /// ```
    pub fn self_join(&self, rows: &(impl Column + ?Sized)) -> Result<Pairs> {
        let array = rows.to_array();
        self.find([array.clone(), array], true)
    }

    fn find(&self, [left, right]: [ArrayRef; 2], itself: bool) -> Result<Pairs> {
        if self.count == 0 {
            return plan_err!("a search for the nearest rows finds at least 1 of a row, not 0");
        }
        let sides = [SideRows::try_new(left)?, SideRows::try_new(right)?];
        let ranking = Ranking {
            // A row is mostly its own nearest one.
            count: self.count.min(sides[1].len()).max(1).saturating_add(usize::from(itself)),
            wanted: self.count,
            with_ties: self.with_ties,
            itself,
            order: self.measure.function().info().order,
        };
        let search =
            RankedSearch::try_new(self.measure, &self.options, ranking, sides, self.within)?;
        search.run().map_err(|error| self.options.explained(error))
    }
}
