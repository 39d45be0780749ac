//! Pairs of rows that match.

use std::ops::Deref;
use std::sync::Arc;

use arrow::array::{Float64Array, RecordBatch, UInt32Array};
use arrow::datatypes::{DataType, Field, Schema};

use crate::error::Result;

/// A pair of rows that match.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    /// The number of the left row, from 0 on.
    pub left: u32,
    /// The number of the right row, from 0 on.
    pub right: u32,
    /// The value of the measure, exact.
    pub score: f64,
}

/// The pairs of a column with itself that are wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SelfPairs {
    /// Each pair of two different rows once, the lesser row number on the left. Of a measure that is
    /// not symmetric that is the order in which it is computed.
    #[default]
    Once,
    /// Both orders of each pair of two different rows, where the measure qualifies in them.
    BothOrders,
    /// All of these, and each row with itself where that qualifies.
    All,
}

impl SelfPairs {
    /// Whether a pair is wanted as given, and whether it is with its sides exchanged, where the
    /// match stands `for_both`.
    #[inline]
    pub(super) fn orders(self, left: u32, right: u32, for_both: bool) -> [bool; 2] {
        match self {
            Self::Once => [left < right, for_both && right < left],
            Self::BothOrders => [left != right, for_both],
            Self::All => [true, for_both],
        }
    }
}

/// The pairs that a join found; a slice of [`Pair`]s.
///
/// ```
/// use simjoin_core::{Join, Measure, Pair};
///
/// let pairs = Join::new(Measure::Jaccard, 0.5).self_join(&[vec![1, 2], vec![1, 2, 3], vec![9]])?;
/// assert_eq!(pairs[..], [Pair { left: 0, right: 1, score: 2.0 / 3.0 }]);
/// assert_eq!(pairs.to_record_batch()?.num_rows(), 1);
/// # Ok::<(), simjoin_core::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Pairs(Vec<Pair>);

impl Pairs {
    pub(super) fn new(pairs: Vec<Pair>) -> Self {
        Self(pairs)
    }

    /// The pairs as a vector.
    pub fn into_vec(self) -> Vec<Pair> {
        self.0
    }

    /// The pairs as columns `left` and `right` (`UInt32`) and `score` (`Float64`), none of which has a
    /// NULL. They are copies.
    ///
    /// # Errors
    ///
    /// None that is known: Arrow checks the columns against the schema.
    pub fn to_record_batch(&self) -> Result<RecordBatch> {
        let field = |name: &str, data_type| Field::new(name, data_type, false);
        let schema = Schema::new(vec![
            field("left", DataType::UInt32),
            field("right", DataType::UInt32),
            field("score", DataType::Float64),
        ]);
        let left = UInt32Array::from_iter_values(self.iter().map(|pair| pair.left));
        let right = UInt32Array::from_iter_values(self.iter().map(|pair| pair.right));
        let score = Float64Array::from_iter_values(self.iter().map(|pair| pair.score));
        let columns = vec![Arc::new(left) as _, Arc::new(right) as _, Arc::new(score) as _];
        Ok(RecordBatch::try_new(Arc::new(schema), columns)?)
    }
}

impl Deref for Pairs {
    type Target = [Pair];

    fn deref(&self) -> &[Pair] {
        &self.0
    }
}

impl IntoIterator for Pairs {
    type Item = Pair;
    type IntoIter = std::vec::IntoIter<Pair>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Pairs {
    type Item = &'a Pair;
    type IntoIter = std::slice::Iter<'a, Pair>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}
