//! From pairs of sets to pairs of rows.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchOptions, UInt32Array,
};
use datafusion::common::Result;
use datafusion::common::cast::as_boolean_array;

use super::build::Ranks;
use super::layout::{Layout, RowOrder};
use super::payload::Payload;
use super::spec::{MeasureCall, OutputColumn, Residual, ResidualColumn, Side};
use crate::sets::{SetCollection, SetId};
use crate::strategy::{Match, Pairing};

/// Pairs of rows with what their scores need, column by column.
#[derive(Debug, Default)]
pub(super) struct RowPairs {
    pub rows: [Vec<u32>; 2],
    /// Per side, the places of the rows among those that have sets.
    pub places: [Vec<u32>; 2],
    overlaps: Vec<u32>,
    sizes: [Vec<u32>; 2],
}

impl RowPairs {
    pub fn len(&self) -> usize {
        self.rows[0].len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn clear(&mut self) {
        for side in 0..2 {
            self.rows[side].clear();
            self.places[side].clear();
            self.sizes[side].clear();
        }
        self.overlaps.clear();
    }

    /// Keeps the pairs for which `keep` is true (not NULL).
    fn retain(&mut self, keep: &BooleanArray) {
        let keep = |i: usize| {
            use datafusion::arrow::array::Array;
            keep.is_valid(i) && keep.value(i)
        };
        let columns = self.rows.iter_mut().chain(&mut self.places).chain(&mut self.sizes);
        for column in columns.chain([&mut self.overlaps]) {
            let mut i = 0;
            column.retain(|_| {
                i += 1;
                keep(i - 1)
            });
        }
    }

    fn score(&self, call: MeasureCall) -> ArrayRef {
        let sizes = self.sizes[0].iter().zip(&self.sizes[1]);
        let values = self.overlaps.iter().zip(sizes).map(|(&o, (&left, &right))| {
            call.value(u64::from(o), u64::from(left), u64::from(right))
        });
        if call.measure.is_integer() {
            Arc::new(Int64Array::from_iter_values(values.map(|v| v as i64)))
        } else {
            Arc::new(Float64Array::from_iter_values(values))
        }
    }

    /// Drops the pairs that the residual refuses.
    pub fn filter(&mut self, residual: &Residual, payloads: &SidePayloads<'_>) -> Result<()> {
        let rows = self.row_arrays();
        let columns = residual.columns.iter().map(|column| match column {
            ResidualColumn::Input(side, index) => {
                payloads.take(*side, *index, &rows[*side as usize])
            }
            ResidualColumn::Score(call) => Ok(self.score(*call)),
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.len()));
        let schema = Arc::clone(&residual.schema);
        let batch = RecordBatch::try_new_with_options(schema, columns, &options)?;
        let keep = residual.expression.evaluate(&batch)?.into_array(self.len())?;
        self.retain(as_boolean_array(&keep)?);
        Ok(())
    }

    /// The output rows of these pairs.
    pub fn to_batch(&self, layout: &Layout, payloads: &SidePayloads<'_>) -> Result<RecordBatch> {
        let rows = self.row_arrays();
        let columns = layout.join.output.iter().map(|column| match column {
            OutputColumn::Input(side, index) => payloads.take(*side, *index, &rows[*side as usize]),
            OutputColumn::Score(call) => Ok(self.score(*call)),
            OutputColumn::Count(_) => {
                Ok(Arc::new(Int64Array::from_value(1, self.len())) as ArrayRef)
            }
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.len()));
        let schema = Arc::clone(&layout.join.schema);
        Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
    }

    fn row_arrays(&self) -> [UInt32Array; 2] {
        self.rows.each_ref().map(|rows| UInt32Array::from(rows.clone()))
    }
}

/// The carried columns of both sides.
pub(super) struct SidePayloads<'a> {
    pub layout: &'a Layout,
    pub payloads: [&'a Payload; 2],
}

impl SidePayloads<'_> {
    fn take(&self, side: Side, column: usize, rows: &UInt32Array) -> Result<ArrayRef> {
        match self.layout.carried_index(side, column) {
            Some(place) => self.payloads[side as usize].take(place, rows),
            None => datafusion::common::internal_err!("column {column} of the {side} side is gone"),
        }
    }
}

/// Expands matches to pairs of rows, a bounded number at a time.
#[derive(Debug, Default)]
pub(super) struct Expansion {
    /// The match being expanded, and the next of its row pairs.
    next: usize,
    probe_row: usize,
    build_row: usize,
}

/// What expanding looks at.
pub(super) struct ExpansionInput<'a> {
    pub layout: &'a Layout,
    pub probe: &'a SetCollection,
    pub build: &'a SetCollection,
    pub ranks: Option<&'a Ranks>,
}

impl Expansion {
    /// Starts with the first match again.
    pub fn restart(&mut self) {
        *self = Self::default();
    }

    /// Adds pairs until `pairs` holds `limit` or more (one more at most) or no match is left, which
    /// it says by `true`.
    pub fn fill(
        &mut self,
        input: &ExpansionInput<'_>,
        matches: &[Match],
        limit: usize,
        pairs: &mut RowPairs,
    ) -> bool {
        let layout = input.layout;
        let unordered = layout.spec.pairing == Pairing::Unordered;
        let order = layout.row_order.zip(input.ranks);
        while let Some(&found) = matches.get(self.next) {
            let probe = Rows::of(input.probe, found.probe);
            let build = Rows::of(input.build, found.build);
            let sizes = (input.probe.size(found.probe), input.build.size(found.build));
            let mirrored = unordered && found.probe != found.build;
            while self.probe_row < probe.rows.len() {
                while self.build_row < build.rows.len() {
                    if pairs.len() >= limit {
                        return false;
                    }
                    let (i, j) = (self.probe_row, self.build_row);
                    self.build_row += 1;
                    let pair = ((probe.rows[i], probe.at(i)), (build.rows[j], build.at(j)));
                    let (left, right) = layout.left_right(pair.0, pair.1);
                    let (left_size, right_size) = layout.left_right(sizes.0, sizes.1);
                    push(pairs, order, left, right, found.overlap, left_size, right_size);
                    if mirrored {
                        push(pairs, order, right, left, found.overlap, right_size, left_size);
                    }
                }
                self.build_row = 0;
                self.probe_row += 1;
            }
            self.probe_row = 0;
            self.next += 1;
        }
        true
    }
}

struct Rows<'a> {
    rows: &'a [u32],
    first_place: u32,
}

impl<'a> Rows<'a> {
    fn of(sets: &'a SetCollection, set: SetId) -> Self {
        let places = sets.row_places(set..set + 1);
        Self { first_place: places.start, rows: sets.rows_at(places) }
    }

    fn at(&self, row: usize) -> u32 {
        self.first_place + row as u32
    }
}

#[inline]
fn push(
    pairs: &mut RowPairs,
    order: Option<(RowOrder, &Ranks)>,
    (left, left_place): (u32, u32),
    (right, right_place): (u32, u32),
    overlap: u32,
    left_size: u32,
    right_size: u32,
) {
    if let Some((order, ranks)) = order
        && !order.holds(ranks.by_row[left as usize], ranks.by_row[right as usize])
    {
        return;
    }
    pairs.rows[0].push(left);
    pairs.rows[1].push(right);
    pairs.places[0].push(left_place);
    pairs.places[1].push(right_place);
    pairs.overlaps.push(overlap);
    pairs.sizes[0].push(left_size);
    pairs.sizes[1].push(right_size);
}
