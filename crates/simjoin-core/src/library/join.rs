//! Joins by a threshold.

use std::ops::ControlFlow;

use arrow::array::ArrayRef;

use super::collect::{Callback, Collected};
use super::column::Column;
use super::expand::{Expansion, PairCounter, PairSink};
use super::index::BuildIndex;
use super::measure::Measure;
use super::options::{Options, option_methods};
use super::pairs::{Pair, Pairs, SelfPairs};
use super::probe::run;
use super::search::{PairSearch, SideRows};
use crate::engine::MatchNeed;
use crate::error::Result;

/// A join by a threshold: all pairs of rows that are similar enough. Every pair is found, and its
/// score is exact.
///
/// ```
/// use simjoin_core::{Join, Measure};
///
/// let left = ["Berlin", "Paris", "Vienna"];
/// let right = [Some("Wien"), Some("Pari"), None, Some("Berlim")];
/// let pairs = Join::new(Measure::Levenshtein, 1.0).join(&left, &right)?;
/// // left | right | score
/// //    0 |     3 |     1
/// //    1 |     1 |     1
/// let found: Vec<_> = pairs.iter().map(|pair| (pair.left, pair.right, pair.score)).collect();
/// assert_eq!(found, [(0, 3, 1.0), (1, 1, 1.0)]);
/// # Ok::<(), simjoin_core::Error>(())
/// ```
///
/// # Errors
///
/// The methods that join fail where
///
/// * the measure does not take the type of a column ([`Error::Plan`](crate::Error::Plan), which names
///   the type), or compare the types of both: sets of integers with sets of texts;
/// * all pairs would match, since the least similar ones satisfy the threshold;
/// * the strategy has no such name, a column has 2³² − 1 rows or more, or q-grams have no character;
/// * vectors of different lengths meet, or texts of different lengths by [`Measure::Hamming`]
///   ([`Error::Execution`](crate::Error::Execution)); which pairs meet depends on the strategy;
/// * memory is refused ([`Error::ResourcesExhausted`](crate::Error::ResourcesExhausted), behind a text
///   that says what would work), or the search was cancelled.
///
/// A threshold that no value reaches, and one that is NaN, are no errors: nothing matches.
#[derive(Debug, Clone)]
#[must_use = "a join does nothing before one of its methods joins"]
pub struct Join {
    measure: Measure,
    threshold: f64,
    is_strict: bool,
    self_pairs: SelfPairs,
    options: Options,
}

option_methods!(Join);

impl Join {
    /// Pairs whose measure is at least `threshold`, or at most, where the measure [is a
    /// distance](Measure::is_distance).
    pub fn new(measure: Measure, threshold: f64) -> Self {
        Self {
            measure,
            threshold,
            is_strict: false,
            self_pairs: SelfPairs::default(),
            options: Options::default(),
        }
    }

    /// Leaves out pairs whose measure is exactly the threshold: `>` in place of `>=`, and `<` in place
    /// of `<=`.
    pub fn strict(mut self) -> Self {
        self.is_strict = true;
        self
    }

    /// The names of the strategies that the join may [ask for](Self::strategy), besides `auto`. They
    /// depend on the measure and on the threshold. Strategies that need a GPU are left out.
    ///
    /// ```
    /// use simjoin_core::{Join, Measure};
    ///
    /// assert!(Join::new(Measure::Jaccard, 0.8).strategies().contains(&"ppjoin"));
    /// assert!(Join::new(Measure::Levenshtein, 1.0).strategies().contains(&"deletions"));
    /// ```
    pub fn strategies(&self) -> Vec<&'static str> {
        let bound = self.measure.bound(self.threshold, self.is_strict);
        self.measure.strategies(self.measure.predicate(bound))
    }

    /// Sets which pairs of a column with itself are wanted; each pair once by default.
    ///
    /// ```
    /// use simjoin_core::{Join, Measure, SelfPairs};
    ///
    /// let rows = [vec![1, 2], vec![1, 2], vec![]];
    /// let join = Join::new(Measure::Jaccard, 1.0);
    /// assert_eq!(join.self_count(&rows)?, 1);
    /// assert_eq!(join.clone().self_pairs(SelfPairs::BothOrders).self_count(&rows)?, 2);
    /// // The empty set is similar to no set, not to itself either.
    /// assert_eq!(join.self_pairs(SelfPairs::All).self_count(&rows)?, 4);
    /// # Ok::<(), simjoin_core::Error>(())
    /// ```
    pub fn self_pairs(mut self, wanted: SelfPairs) -> Self {
        self.self_pairs = wanted;
        self
    }

    /// The pairs that a callback gets at once, at most; 8,192 by default, at least 1 and no more than 2²⁰.
    pub fn batch_pairs(mut self, pairs: usize) -> Self {
        self.options.batch_pairs = pairs.clamp(1, 1 << 20);
        self
    }

    /// All pairs of left and right rows that qualify, ordered by left, then by right row. See
    /// [`Join`] for an example and errors.
    pub fn join(
        &self,
        left: &(impl Column + ?Sized),
        right: &(impl Column + ?Sized),
    ) -> Result<Pairs> {
        self.ask([left.to_array(), right.to_array()], None, |question| question.collect())
    }

    /// All pairs of rows of one column that qualify, ordered by left, then by right row.
    ///
    /// ```
    /// use simjoin_core::{Join, Measure};
    ///
    /// let titles = ["The Raven", "the raven!", "Annabel Lee"];
    /// let pairs = Join::new(Measure::Jaccard, 0.9).words().self_join(&titles)?;
    /// assert_eq!((pairs[0].left, pairs[0].right, pairs[0].score), (0, 1, 1.0));
    /// # Ok::<(), simjoin_core::Error>(())
    /// ```
    pub fn self_join(&self, rows: &(impl Column + ?Sized)) -> Result<Pairs> {
        let array = rows.to_array();
        self.ask([array.clone(), array], Some(self.self_pairs), |question| question.collect())
    }

    /// The number of pairs that [`Self::join`] would give. No pair is made.
    pub fn count(
        &self,
        left: &(impl Column + ?Sized),
        right: &(impl Column + ?Sized),
    ) -> Result<u64> {
        self.ask([left.to_array(), right.to_array()], None, |question| question.count())
    }

    /// The number of pairs that [`Self::self_join`] would give. No pair is made.
    pub fn self_count(&self, rows: &(impl Column + ?Sized)) -> Result<u64> {
        let array = rows.to_array();
        self.ask([array.clone(), array], Some(self.self_pairs), |question| question.count())
    }

    /// Calls `each` with the pairs that [`Self::join`] would give, a batch at a time, in no order, and
    /// never with an empty batch. Threads take turns; while one calls, those that have a batch ready
    /// wait. A break ends the join: its value is returned.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    ///
    /// use simjoin_core::{Join, Measure};
    ///
    /// let (left, right) = ([[0.0_f32, 1.0], [3.0, 4.0]], [[0.0_f32, 1.5], [9.0, 9.0]]);
    /// let mut total = 0;
    /// let ended = Join::new(Measure::Euclidean, 5.0).for_each(&left, &right, |pairs| {
    ///     total += pairs.len();
    ///     if total >= 1_000 { ControlFlow::Break("enough") } else { ControlFlow::Continue(()) }
    /// })?;
    /// assert_eq!((ended, total), (ControlFlow::Continue(()), 2));
    /// # Ok::<(), simjoin_core::Error>(())
    /// ```
    pub fn for_each<B: Send>(
        &self,
        left: &(impl Column + ?Sized),
        right: &(impl Column + ?Sized),
        each: impl FnMut(&[Pair]) -> ControlFlow<B> + Send,
    ) -> Result<ControlFlow<B>> {
        self.ask([left.to_array(), right.to_array()], None, |question| question.call(each))
    }

    /// Calls `each` with the pairs that [`Self::self_join`] would give, as [`Self::for_each`] does.
    pub fn self_for_each<B: Send>(
        &self,
        rows: &(impl Column + ?Sized),
        each: impl FnMut(&[Pair]) -> ControlFlow<B> + Send,
    ) -> Result<ControlFlow<B>> {
        let array = rows.to_array();
        let wanted = Some(self.self_pairs);
        self.ask([array.clone(), array], wanted, |question| question.call(each))
    }

    fn ask<T>(
        &self,
        arrays: [ArrayRef; 2],
        of_itself: Option<SelfPairs>,
        answer: impl FnOnce(Question<'_>) -> Result<T>,
    ) -> Result<T> {
        let predicate = self.measure.threshold(self.threshold, self.is_strict)?;
        let [left, right] = arrays;
        let sides = [SideRows::try_new(left)?, SideRows::try_new(right)?];
        let (options, itself) = (&self.options, of_itself.is_some());
        let search = PairSearch::try_new(self.measure, predicate, options, sides, itself)?;
        answer(Question { search, of_itself }).map_err(|error| options.explained(error))
    }
}

/// A search with the pairs that are wanted of it.
struct Question<'a> {
    search: PairSearch<'a>,
    of_itself: Option<SelfPairs>,
}

impl Question<'_> {
    fn collect(self) -> Result<Pairs> {
        let memory = &self.search.memory;
        let all = self.expand(|| Collected::new(&memory.reservation()))?;
        Collected::sorted(all, &self.search, |pair| (pair.left, pair.right))
    }

    fn call<B: Send>(
        self,
        each: impl FnMut(&[Pair]) -> ControlFlow<B> + Send,
    ) -> Result<ControlFlow<B>> {
        let callback = Callback::new(each);
        self.expand(|| callback.clone())?;
        Ok(callback.broken().map_or(ControlFlow::Continue(()), ControlFlow::Break))
    }

    /// Gives the pairs to sinks, one for each thread.
    fn expand<S: PairSink>(&self, sink: impl Fn() -> S) -> Result<Vec<S>> {
        let index = BuildIndex::build(&self.search)?;
        let expansion = || Expansion::new(&self.search, &index, self.of_itself, sink());
        let all = run(&self.search, &index, expansion)?;
        Ok(all.into_iter().map(Expansion::into_sink).collect())
    }

    fn count(mut self) -> Result<u64> {
        self.search.need =
            match PairCounter::is_of_items(self.of_itself, self.search.is_unordered()) {
                true => MatchNeed::Count,
                false => MatchNeed::Pairs,
            };
        let index = BuildIndex::build(&self.search)?;
        let all =
            run(&self.search, &index, || PairCounter::new(&self.search, &index, self.of_itself))?;
        Ok(all.iter().map(|count| count.total).sum())
    }
}
