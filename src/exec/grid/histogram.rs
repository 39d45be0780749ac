//! How many rows of a side have a set of which size.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{
    ArrayRef, AsArray, RecordBatch, UInt32Array, UInt32Builder, UInt64Builder,
};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt32Type, UInt64Type};
use datafusion::common::{Result, internal_err};

use crate::sets::RowShape;

/// Rows with blocking keys are told apart by this many classes of their keys' hashes.
pub(super) const KEY_CLASSES: u32 = 256;

/// How finely sizes are told apart. Only the balance of the tasks depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resolution {
    /// Of joins without blocking keys: at most 896 classes.
    Fine,
    /// Of each class of keys: at most 124 classes.
    Coarse,
}

impl Resolution {
    /// Sizes below `2 << bits` have classes of their own, each further octave `1 << bits` classes.
    fn bits(self) -> u32 {
        match self {
            Resolution::Fine => 5,
            Resolution::Coarse => 2,
        }
    }

    /// The class of a size.
    pub fn class(self, size: u32) -> u32 {
        let bits = self.bits();
        // The number of low bits that do not count.
        let dropped = (u32::BITS - size.leading_zeros()).saturating_sub(bits + 1);
        (dropped << bits) + (size >> dropped)
    }

    /// The least and the greatest size of a class.
    pub fn sizes(self, class: u32) -> (u32, u32) {
        let bits = self.bits();
        let dropped = (class >> bits).saturating_sub(1);
        let least = (class - (dropped << bits)) << dropped;
        (least, least + ((1 << dropped) - 1))
    }
}

/// The rows of one side that can match something, by class of their blocking key and of the size
/// of their set.
///
/// What it holds is bounded by the number of classes, whatever the rows are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Histogram {
    pub resolution: Resolution,
    pub rows: BTreeMap<(u32, u32), u64>,
}

impl Histogram {
    pub fn new(keyed: bool) -> Self {
        let resolution = if keyed { Resolution::Coarse } else { Resolution::Fine };
        Self { resolution, rows: BTreeMap::new() }
    }

    /// The class of a row's key.
    pub fn key_class(&self, shape: RowShape) -> u32 {
        match self.resolution {
            Resolution::Fine => 0,
            Resolution::Coarse => shape.key_hash % KEY_CLASSES,
        }
    }

    /// Adds rows, unless they cannot match anything.
    pub fn add(&mut self, shapes: &[RowShape]) {
        for shape in shapes.iter().filter(|shape| shape.size > 0) {
            let class = (self.key_class(*shape), self.resolution.class(shape.size));
            *self.rows.entry(class).or_default() += 1;
        }
    }

    /// The columns of [`Self::to_batch`].
    pub fn schema() -> SchemaRef {
        static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
            Arc::new(Schema::new(vec![
                Field::new("key_class", DataType::UInt32, false),
                Field::new("size_class", DataType::UInt32, false),
                Field::new("rows", DataType::UInt64, false),
            ]))
        });
        Arc::clone(&SCHEMA)
    }

    /// One row for each class.
    pub fn to_batch(&self) -> Result<RecordBatch> {
        let (mut keys, mut sizes) = (UInt32Builder::new(), UInt32Builder::new());
        let mut rows = UInt64Builder::new();
        for (&(key, size), &count) in &self.rows {
            keys.append_value(key);
            sizes.append_value(size);
            rows.append_value(count);
        }
        let columns: Vec<ArrayRef> =
            vec![Arc::new(keys.finish()), Arc::new(sizes.finish()), Arc::new(rows.finish())];
        Ok(RecordBatch::try_new(Self::schema(), columns)?)
    }

    /// Adds what another histogram of the same side says: the order does not matter.
    pub fn merge(&mut self, batch: &RecordBatch) -> Result<()> {
        let class = |column: usize| -> Option<&UInt32Array> {
            batch.column(column).as_primitive_opt::<UInt32Type>()
        };
        if batch.num_columns() != 3 {
            return internal_err!("a histogram of set sizes has {} columns", batch.num_columns());
        }
        let rows = batch.column(2).as_primitive_opt::<UInt64Type>();
        let (Some(keys), Some(sizes), Some(rows)) = (class(0), class(1), rows) else {
            return internal_err!("this is no histogram of set sizes: {}", batch.schema());
        };
        for ((key, size), rows) in keys.values().iter().zip(sizes.values()).zip(rows.values()) {
            *self.rows.entry((*key, *size)).or_default() += rows;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::MAX_SET_SIZE;

    #[test]
    fn every_size_is_in_the_range_of_its_class() {
        for resolution in [Resolution::Fine, Resolution::Coarse] {
            let mut next = 0;
            let last = resolution.class(MAX_SET_SIZE);
            for class in 0..=last {
                let (least, greatest) = resolution.sizes(class);
                assert_eq!(least, next, "{class}");
                for size in [least, least.midpoint(greatest), greatest] {
                    assert_eq!(resolution.class(size), class, "{size}");
                }
                next = greatest.wrapping_add(1);
            }
            assert_eq!(next, 0, "all sizes have a class");
            assert_eq!(last + 1, if resolution == Resolution::Fine { 896 } else { 124 });
        }
    }

    #[test]
    fn partial_histograms_add_up() {
        let shapes: Vec<RowShape> =
            (0..1000).map(|i| RowShape { size: i % 97, hash: i, key_hash: i % 7 }).collect();
        for keyed in [false, true] {
            let mut all = Histogram::new(keyed);
            all.add(&shapes);
            assert_eq!(all.rows.values().sum::<u64>(), 1000 - 11);
            let mut merged = Histogram::new(keyed);
            for part in shapes.chunks(300).rev() {
                let mut histogram = Histogram::new(keyed);
                histogram.add(part);
                merged.merge(&histogram.to_batch().unwrap()).unwrap();
            }
            assert_eq!(merged, all);
        }
        let mut histogram = Histogram::new(false);
        assert!(histogram.merge(&RecordBatch::new_empty(Arc::new(Schema::empty()))).is_err());
    }
}
