//! The number of rows of a side at each position.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, AsArray, RecordBatch, UInt32Builder, UInt64Builder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt32Type, UInt64Type};
use datafusion::common::{Result, internal_err};

use crate::engine::RowPlace;
use crate::shuffle::heavy::HeavyItems;
use crate::shuffle::place::{KEY_CLASSES, Place, block_of};

/// The resolution to which positions are told apart. Only the balance of the tasks depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolution {
    /// Classes of joins without blocking keys: at most 896.
    Fine,
    /// Classes of each class of keys: at most 124.
    Coarse,
}

impl Resolution {
    /// Positions below `2 << bits` have classes of their own, each further octave `1 << bits`
    /// classes.
    fn bits(self) -> u32 {
        match self {
            Resolution::Fine => 5,
            Resolution::Coarse => 2,
        }
    }

    /// The class of a position.
    pub fn class(self, position: u32) -> u32 {
        let bits = self.bits();
        // The number of low bits that do not count.
        let dropped = (u32::BITS - position.leading_zeros()).saturating_sub(bits + 1);
        (dropped << bits) + (position >> dropped)
    }

    /// Whether some position has this class.
    pub(crate) fn has_class(self, class: u32) -> bool {
        class <= self.class(u32::MAX)
    }

    /// The least and the greatest position of a class.
    pub(crate) fn positions(self, class: u32) -> (u32, u32) {
        let bits = self.bits();
        let dropped = (class >> bits).saturating_sub(1);
        let least = (class - (dropped << bits)) << dropped;
        (least, least + ((1 << dropped) - 1))
    }
}

/// Stands in place of a key's class where an entry is a count for [`HeavyItems`].
const HEAVY: u32 = u32::MAX;
/// Stands in place of a key's class where an entry is a kind of rows.
const KIND: u32 = u32::MAX - 1;

/// The rows of one side that can match something, by the class of their blocking key, by the class
/// of the position of their item, and where many rows have one item, by that item's block of
/// places; 0 stands for all other items of the class.
///
/// Its size is bounded by the number of classes, whatever the rows are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    /// The resolution of the positions.
    pub resolution: Resolution,
    /// The rows by class of key, class of position and block of places.
    pub rows: BTreeMap<(u32, u32, Place), u64>,
    /// The greatest [kind](RowPlace::kind) of a row.
    pub kind: u32,
    heavy: HeavyItems,
}

impl Histogram {
    /// A histogram of no rows; `keyed` says whether the join has blocking keys.
    pub fn new(keyed: bool) -> Self {
        let resolution = if keyed { Resolution::Coarse } else { Resolution::Fine };
        Self { resolution, rows: BTreeMap::new(), kind: 0, heavy: HeavyItems::default() }
    }

    /// The class of a row's key.
    pub(crate) fn key_class(&self, shape: RowPlace) -> u32 {
        match self.resolution {
            Resolution::Fine => 0,
            Resolution::Coarse => shape.key_hash % KEY_CLASSES,
        }
    }

    /// The columns of [`Self::to_batch`].
    pub(crate) fn schema() -> SchemaRef {
        static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
            Arc::new(Schema::new(vec![
                Field::new("key_class", DataType::UInt32, false),
                Field::new("position_class", DataType::UInt32, false),
                Field::new("block", DataType::UInt64, false),
                Field::new("rows", DataType::UInt64, false),
            ]))
        });
        Arc::clone(&SCHEMA)
    }

    /// One row for each entry, before [heavy items](Self::with_heavy_items) are told apart.
    pub(crate) fn to_batch(&self) -> Result<RecordBatch> {
        let (mut keys, mut positions) = (UInt32Builder::new(), UInt32Builder::new());
        let (mut blocks, mut rows) = (UInt64Builder::new(), UInt64Builder::new());
        for (&(key, position, block), &count) in &self.rows {
            keys.append_value(key);
            positions.append_value(position);
            blocks.append_value(block);
            rows.append_value(count);
        }
        let heavy = self.heavy.counts().map(|(number, count)| (HEAVY, number, count));
        let kind = (self.kind > 0).then_some((KIND, self.kind, 1));
        for (key, number, count) in heavy.chain(kind) {
            keys.append_value(key);
            positions.append_value(number);
            blocks.append_value(0);
            rows.append_value(count);
        }
        let columns: Vec<ArrayRef> = vec![
            Arc::new(keys.finish()),
            Arc::new(positions.finish()),
            Arc::new(blocks.finish()),
            Arc::new(rows.finish()),
        ];
        Ok(RecordBatch::try_new(Self::schema(), columns)?)
    }

    /// Adds another histogram of the same side. The order does not matter.
    pub(crate) fn merge(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.schema().fields().len() != Self::schema().fields().len() {
            return internal_err!("this is no histogram of positions: {}", batch.schema());
        }
        let class = |column: usize| batch.column(column).as_primitive_opt::<UInt32Type>();
        let number = |column: usize| batch.column(column).as_primitive_opt::<UInt64Type>();
        let (Some(keys), Some(positions), Some(blocks), Some(rows)) =
            (class(0), class(1), number(2), number(3))
        else {
            return internal_err!("this is no histogram of positions: {}", batch.schema());
        };
        let key_classes = match self.resolution {
            Resolution::Fine => 1,
            Resolution::Coarse => KEY_CLASSES,
        };
        for row in 0..batch.num_rows() {
            let entry = (keys.value(row), positions.value(row), blocks.value(row));
            if entry.0 == KIND {
                self.kind = self.kind.max(entry.1);
            } else if entry.0 != HEAVY {
                let (key, position, block) = entry;
                // Histograms of other tasks tell no heavy items apart yet.
                if key >= key_classes || !self.resolution.has_class(position) || block != 0 {
                    return internal_err!("a histogram of positions has no class {entry:?}");
                }
                let count = self.rows.entry(entry).or_default();
                *count = count.saturating_add(rows.value(row));
            } else if !self.heavy.merge(entry.1, rows.value(row)) {
                return internal_err!("a histogram of positions has no count {}", entry.1);
            }
        }
        Ok(())
    }

    /// Makes each row count as `times` rows.
    pub(crate) fn scale(&mut self, times: u64) {
        self.rows.values_mut().for_each(|rows| *rows = rows.saturating_mul(times));
        self.heavy.scale(times);
    }

    /// Tells items that many rows have apart from the others of their class, once all rows are
    /// counted.
    pub fn with_heavy_items(mut self) -> Self {
        for ((key, block), rows) in std::mem::take(&mut self.heavy).found() {
            let class = self.resolution.class((block >> 32) as u32);
            if let Some(all) = self.rows.get_mut(&(key, class, 0)) {
                let rows = rows.min(*all);
                *all -= rows;
                self.rows.insert((key, class, block), rows);
            }
        }
        self
    }
}

/// Counts rows into a [`Histogram`]. The result does not depend on the order of the rows, nor on
/// their division among partitions: every task that counts the same rows gets the same histogram.
#[derive(Debug)]
pub struct Counter {
    histogram: Histogram,
}

impl Counter {
    /// A counter of no rows; `keyed` says whether the join has blocking keys.
    pub fn new(keyed: bool) -> Self {
        Self { histogram: Histogram::new(keyed) }
    }

    /// Adds rows, unless they cannot match anything.
    pub fn add(&mut self, shapes: &[RowPlace]) {
        let Histogram { resolution, .. } = self.histogram;
        for &shape in shapes.iter().filter(|shape| shape.position > 0) {
            let key = self.histogram.key_class(shape);
            let class = resolution.class(shape.position);
            *self.histogram.rows.entry((key, class, 0)).or_default() += 1;
            self.histogram.heavy.add(key, block_of(shape));
            self.histogram.kind = self.histogram.kind.max(shape.kind);
        }
    }

    /// The rows counted.
    pub fn finish(self) -> Histogram {
        self.histogram
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::seq::SliceRandom;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::set::measure::MAX_SET_SIZE;

    #[test]
    fn every_position_is_in_the_range_of_its_class() {
        for resolution in [Resolution::Fine, Resolution::Coarse] {
            let mut next = 0;
            let last = resolution.class(MAX_SET_SIZE);
            for class in 0..=last {
                let (least, greatest) = resolution.positions(class);
                assert_eq!(least, next, "{class}");
                for position in [least, least.midpoint(greatest), greatest] {
                    assert_eq!(resolution.class(position), class, "{position}");
                }
                next = greatest.wrapping_add(1);
            }
            assert_eq!(next, 0, "all positions have a class");
            assert_eq!(last + 1, if resolution == Resolution::Fine { 896 } else { 124 });
        }
    }

    #[test]
    fn partial_histograms_add_up() {
        // Every third row has the same item.
        let shapes: Vec<RowPlace> = (0..9_000_u32)
            .map(|i| match i % 3 {
                0 => RowPlace { position: 40, kind: 0, hash: 77 << 20, key_hash: 5 },
                _ => RowPlace {
                    position: i % 97,
                    kind: 0,
                    hash: i.wrapping_mul(0x9E37_79B9),
                    key_hash: i % 7,
                },
            })
            .collect();
        let with_item = shapes.iter().filter(|shape| shape.position > 0).count() as u64;
        for keyed in [false, true] {
            let mut merged = Histogram::new(keyed);
            for part in shapes.chunks(3000).rev() {
                let mut counter = Counter::new(keyed);
                counter.add(part);
                merged.merge(&counter.finish().to_batch().unwrap()).unwrap();
            }
            let merged = merged.with_heavy_items();
            assert_eq!(merged.rows.values().sum::<u64>(), with_item);
            let heavy: Vec<_> = merged.rows.iter().filter(|((.., block), _)| *block > 0).collect();
            let [((key, _, block), rows)] = heavy.as_slice() else { panic!("{heavy:?}") };
            assert_eq!((*key, *block), (if keyed { 5 } else { 0 }, 40 << 32 | 77 << 20));
            assert!((2_900..=3_100).contains(*rows), "{rows}");
        }
        // Nor does anything else depend on how rows are ordered and divided.
        let mut rng = StdRng::seed_from_u64(7);
        let mut shapes = shapes;
        shapes.extend((0..3000).map(|i| RowPlace {
            position: 3 + i % 9,
            kind: 0,
            hash: 5 << 20,
            key_hash: 9,
        }));
        for keyed in [false, true] {
            let histograms: Vec<Histogram> = (0..9)
                .map(|_| {
                    shapes.shuffle(&mut rng);
                    let mut merged = Histogram::new(keyed);
                    let mut rest = shapes.as_slice();
                    while !rest.is_empty() {
                        let (part, others) = rest.split_at(rng.random_range(1..=rest.len()));
                        let mut counter = Counter::new(keyed);
                        counter.add(part);
                        merged.merge(&counter.finish().to_batch().unwrap()).unwrap();
                        rest = others;
                    }
                    merged.with_heavy_items()
                })
                .collect();
            assert!(histograms[0].rows.keys().filter(|(.., block)| *block > 0).count() > 5);
            assert!(histograms.iter().all(|other| *other == histograms[0]));
        }
        let mut histogram = Histogram::new(false);
        assert!(histogram.merge(&RecordBatch::new_empty(Arc::new(Schema::empty()))).is_err());
    }

    #[test]
    fn classes_that_cannot_be_are_refused() {
        let batch = |entry: (u32, u32, Place)| {
            let rows = BTreeMap::from([(entry, 3)]);
            Histogram { rows, ..Histogram::new(true) }.to_batch().unwrap()
        };
        for keyed in [false, true] {
            let (keys, positions) = if keyed { (KEY_CLASSES, 124) } else { (1, 896) };
            let merged = |entry| Histogram::new(keyed).merge(&batch(entry));
            for entry in [(0, 0, 0), (keys - 1, positions - 1, 0)] {
                assert!(merged(entry).is_ok(), "{entry:?}");
            }
            for entry in [(keys, 0, 0), (0, positions, 0), (0, u32::MAX, 0), (0, 5, 1 << 40)] {
                let error = merged(entry).unwrap_err().to_string();
                assert!(error.contains("has no class"), "{error}");
            }
        }
    }
}
