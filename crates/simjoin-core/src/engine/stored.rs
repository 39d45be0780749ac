//! Rows as they lie on disk.

use std::any::Any;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BinaryArray};
use arrow::datatypes::DataType;

use super::EncodeInput;
use super::collection::another_family;
use crate::error::Result;

/// Some rows of a side, in stored form.
#[derive(Debug)]
pub struct StoredRows {
    /// The range of these rows among the rows of the call.
    pub rows: Range<usize>,
    /// The values, NULL for a row that can match nothing.
    pub values: ArrayRef,
    /// The blocking key, NULL where the value is. `None` when the join has no key.
    pub keys: Option<BinaryArray>,
}

/// The form in which a family stores the values of one side.
///
/// Stored values compare as the values of the input do, and the encoders of the matcher read them in
/// their place. A row that can match nothing (its value or its key is NULL, a filter refuses it) is
/// stored as NULL.
pub trait StoredForm: Debug + Send + Sync {
    /// The type of the stored values.
    fn data_type(&self) -> DataType;

    /// Converts the rows of a batch, as many at a time as fit one array.
    ///
    /// # Errors
    ///
    /// When a row is too large to be stored.
    fn store(&self, input: &EncodeInput<'_>) -> Result<Vec<StoredRows>>;

    /// The positions of stored values on the family's [`Axis`](super::Axis), among values of their kind;
    /// 0 for NULL.
    fn positions(&self, values: &dyn Array) -> Vec<u32>;

    /// The [kinds](super::RowPlace::kind) of stored values; `None` where all are of one.
    fn kinds(&self, _values: &dyn Array) -> Option<Vec<u32>> {
        None
    }

    /// Hashes of stored values, the same for equal values of either side; asked for where the
    /// [`Axis`](super::Axis) has positions of rows that match only equal ones.
    fn hashes(&self, values: &dyn Array) -> Vec<u32> {
        vec![0; values.len()]
    }

    /// The size of the [`Domain`] of stored values; `None` where a domain is of no use for them.
    /// The size for several arrays is the greatest one, or `None` if one is `None`.
    fn domain_size(&self, _values: &dyn Array) -> Option<u64> {
        None
    }

    /// The bytes of a domain of a size.
    fn domain_bytes(&self, _size: u64) -> u64 {
        0
    }

    /// An empty domain for values of a size; `None` where the family has no use for one.
    fn domain(&self, _size: u64) -> Option<Box<dyn Domain>> {
        None
    }
}

/// All values of some stored rows, gathered by reading them once before they are encoded.
pub trait Domain: Any + Debug + Send + Sync {
    /// Adds stored values.
    fn add(&mut self, values: &dyn Array);

    /// Ends the gathering of values.
    fn close(&mut self);
}

impl dyn Domain {
    /// The domain as its family knows it.
    ///
    /// # Errors
    ///
    /// An internal error when another family made it.
    pub fn shared<T: Domain>(self: &Arc<Self>) -> Result<Arc<T>> {
        let this: Arc<dyn Any + Send + Sync> = Arc::<Self>::clone(self);
        this.downcast().map_err(|_| another_family::<T>())
    }
}

/// The rows that a [`BuildEncoder`](super::BuildEncoder) has read, to be stored.
pub trait Unload: Send {
    /// The number of calls that added rows. A failed call does not count.
    fn pushes(&self) -> usize;

    /// The rows added by one call, as many at a time as fit one array.
    ///
    /// # Errors
    ///
    /// When a row is too large to be stored.
    fn rows(&self, push: usize) -> Result<Vec<StoredRows>>;
}
