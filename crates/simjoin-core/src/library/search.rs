//! A search: a predicate over two columns, or over one that meets itself.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};

use super::measure::Measure;
use super::options::Options;
use crate::engine::{
    AnyMatcher, EncodeInput, MatchNeed, MatchSpec, Orders, ProbeRows, StrategyName,
};
use crate::error::{Result, plan_err};
use crate::memory::Budget;
use crate::predicate::{Predicate, Side};

/// The rows of a side.
#[derive(Debug, Clone)]
pub(super) struct SideRows {
    pub array: ArrayRef,
}

impl SideRows {
    /// All rows of a column.
    ///
    /// # Errors
    ///
    /// A plan error for more rows than 32 bits tell apart.
    pub(super) fn try_new(array: ArrayRef) -> Result<Self> {
        match u32::try_from(array.len()) {
            Ok(rows) if rows < u32::MAX => Ok(Self { array }),
            _ => plan_err!(
                "a column of a similarity join has at most {} rows, not {}; join parts of it",
                u32::MAX - 1,
                array.len()
            ),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.array.len()
    }

    /// Calls `each` with some rows.
    pub(super) fn with_slice<T>(
        &self,
        start: usize,
        len: usize,
        each: impl FnOnce(&EncodeInput<'_>) -> T,
    ) -> T {
        let values = self.array.slice(start, len);
        each(&EncodeInput { values: &values, keys: None, filter: None })
    }

    /// The most rows that are encoded together: few bytes beside the memory limit.
    pub(super) fn rows_per_slice(&self, limit: Option<usize>) -> usize {
        const MOST: usize = 8192;
        const LEAST: usize = 256;
        const LEAST_BYTES: usize = 128 << 10;
        const PART_OF_LIMIT: usize = 256;
        let Some(limit) = limit else { return MOST };
        let row_bytes = (self.array.get_array_memory_size() / self.len().max(1)).max(1);
        ((limit / PART_OF_LIMIT).max(LEAST_BYTES) / row_bytes).clamp(LEAST, MOST)
    }
}

/// A search for pairs of rows.
#[derive(Debug)]
pub(super) struct PairSearch<'a> {
    pub measure: Measure,
    pub predicate: Predicate,
    pub matcher: Arc<dyn AnyMatcher>,
    pub options: &'a Options,
    pub memory: Arc<Budget>,
    /// The left and the right rows; the same where [`Self::itself`].
    pub sides: [SideRows; 2],
    /// Whether one column is both sides.
    pub itself: bool,
    /// The side that is not indexed.
    pub probe: Side,
    pub strategy: StrategyName,
    pub need: MatchNeed,
}

impl<'a> PairSearch<'a> {
    /// A search for pairs with their scores. The smaller side is indexed.
    ///
    /// # Errors
    ///
    /// A plan error that names the types when they cannot be joined, or the strategy when there is
    /// none of that name.
    pub(super) fn try_new(
        measure: Measure,
        predicate: Predicate,
        options: &'a Options,
        sides: [SideRows; 2],
        itself: bool,
    ) -> Result<Self> {
        let types = sides.each_ref().map(|rows| rows.array.data_type());
        let matcher = measure.bind(predicate, types, (options.tokenizer()?, options.devices))?;
        let strategy = options.strategy(measure, matcher.as_ref())?;
        let probe = match sides[1].len() > sides[0].len() {
            true => Side::Right,
            false => Side::Left,
        };
        let (memory, need) = (options.memory(), MatchNeed::Scores);
        Ok(Self {
            measure,
            predicate,
            matcher,
            options,
            memory,
            sides,
            itself,
            probe,
            strategy,
            need,
        })
    }

    pub(super) fn rows(&self, side: Side) -> &SideRows {
        &self.sides[side as usize]
    }

    /// Whether each unordered pair of items is decided once.
    pub(super) fn is_unordered(&self) -> bool {
        self.itself && self.measure.is_symmetric()
    }

    pub(super) fn spec(&self) -> MatchSpec {
        let probe_rows = match self.itself {
            true => ProbeRows::UNKNOWN,
            false => ProbeRows::expected(self.rows(self.probe).len() as u64),
        };
        MatchSpec {
            probe: self.probe,
            orders: if self.is_unordered() { Orders::Unordered } else { Orders::Given },
            need: self.need,
            probe_rows,
            tuning: self.options.tuning,
            ..MatchSpec::default()
        }
    }
}
