//! The columns of pairs of rows.

use std::cell::OnceCell;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, Int64Array, RecordBatch, RecordBatchOptions, UInt32Array,
    make_array,
};
use arrow::buffer::{Buffer, ScalarBuffer};
use arrow::compute::{FilterBuilder, FilterPredicate, prep_null_mask_filter};
use arrow::datatypes::{ArrowNativeType, DataType, UInt32Type, i256};
use datafusion::common::cast::as_boolean_array;
use datafusion::common::{Result, internal_err};

use crate::engine::ItemPair;
use crate::exec::answer::blocks::RowPairs;
use crate::exec::layout::JoinLayout;
use crate::exec::rows::payload::Payload;
use crate::spec::{
    Call, OutputColumn, Residual, ResidualColumn, Side, SimilarityJoin, value_array,
};

/// The columns of some pairs of rows, made when they are asked for.
///
/// Columns of fixed width are written block by block: stretches of values copied, single values
/// repeated. The others are taken by the places of the rows, which are spelled out for them only.
pub(crate) struct PairColumns<'a> {
    layout: &'a JoinLayout,
    pairs: &'a RowPairs,
    payloads: [&'a Payload; 2],
    /// The pairs that a residual let through, and their number.
    kept: Option<FilterPredicate>,
    len: usize,
    places: [OnceCell<UInt32Array>; 2],
}

impl<'a> PairColumns<'a> {
    /// `payloads` hold the rows of the left and of the right side.
    pub(crate) fn new(
        layout: &'a JoinLayout,
        pairs: &'a RowPairs,
        payloads: [&'a Payload; 2],
    ) -> Self {
        Self { layout, pairs, payloads, kept: None, len: pairs.len(), places: Default::default() }
    }

    /// The number of pairs.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Drops the pairs that the residual refuses.
    pub(crate) fn filter(&mut self, residual: &Residual) -> Result<()> {
        let fields = residual.schema.fields();
        let columns = residual.columns.iter().zip(fields).map(|(column, field)| match column {
            ResidualColumn::Input(side, index) => self.input(*side, *index),
            ResidualColumn::Score(call) => self.score(*call, field.data_type()),
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.len));
        let schema = Arc::clone(&residual.schema);
        let batch = RecordBatch::try_new_with_options(schema, columns, &options)?;
        let keep = residual.expression.evaluate(&batch)?.into_array(self.len)?;
        let keep = as_boolean_array(&keep)?;
        // A condition that is NULL does not hold.
        let filter = match keep.null_count() {
            0 => FilterBuilder::new(keep),
            _ => FilterBuilder::new(&prep_null_mask_filter(keep)),
        };
        let kept = filter.optimize().build();
        for places in &mut self.places {
            if let Some(all) = places.take() {
                let some = kept.filter(&all)?;
                let _ = places.set(some.as_any().downcast_ref().cloned().unwrap_or(all));
            }
        }
        self.len = kept.count();
        self.kept = Some(kept);
        Ok(())
    }

    /// The pairs that are left: one by one where a residual has refused some.
    pub(crate) fn kept_pairs(&self) -> Result<RowPairs> {
        let Some(kept) = &self.kept else { return Ok(self.pairs.clone()) };
        let all = UInt32Array::from_iter_values(0..self.pairs.len() as u32);
        let left = kept.filter(&all)?;
        let mut left = left.as_primitive::<UInt32Type>().values().iter().copied().peekable();
        let mut pairs = RowPairs::default();
        let mut index = 0;
        for block in self.pairs.blocks() {
            let (inner, outer) = (block.inner(), 1 - block.inner());
            for o in block.places(outer) {
                for i in block.places(inner) {
                    let mut pair = *block;
                    (pair.starts[outer], pair.starts[inner]) = (o as u32, i as u32);
                    pair.lens = [1, 1];
                    if left.next_if_eq(&index).is_some() {
                        pairs.push(pair);
                    }
                    index += 1;
                }
            }
        }
        Ok(pairs)
    }

    /// The output rows of these pairs.
    pub(crate) fn to_batch(&self) -> Result<RecordBatch> {
        let SimilarityJoin { output, schema, .. } = &self.layout.join;
        let columns = output.iter().zip(schema.fields()).map(|(column, field)| match column {
            OutputColumn::Input(side, index) => self.input(*side, *index),
            OutputColumn::Score(call) => self.score(*call, field.data_type()),
            OutputColumn::Count(_) => Ok(Arc::new(Int64Array::from_value(1, self.len)) as ArrayRef),
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.len));
        let schema = Arc::clone(schema);
        Ok(RecordBatch::try_new_with_options(schema, columns, &options)?)
    }

    /// The places of the rows of a side, pair by pair.
    pub(crate) fn places(&self, side: Side) -> Result<&UInt32Array> {
        let cell = &self.places[side as usize];
        if let Some(places) = cell.get() {
            return Ok(places);
        }
        let mut all = Vec::with_capacity(self.pairs.len());
        for block in self.pairs.blocks() {
            let (own, other) = (block.lens[side as usize], block.lens[1 - side as usize]);
            let start = block.starts[side as usize];
            if block.inner() == side as usize {
                (0..other).for_each(|_| all.extend(start..start + own));
            } else {
                (start..start + own)
                    .for_each(|p| all.extend(std::iter::repeat_n(p, other as usize)));
            }
        }
        let mut places = UInt32Array::from(all);
        if let Some(kept) = &self.kept {
            places = UInt32Array::from(kept.filter(&places)?.to_data());
        }
        Ok(cell.get_or_init(|| places))
    }

    /// A column of an input.
    fn input(&self, side: Side, column: usize) -> Result<ArrayRef> {
        let payload = self.payloads[side as usize];
        let Some(carried) = self.layout.carried_index(side, column) else {
            return internal_err!("column {column} of the {side} side is gone");
        };
        if self.kept.is_none()
            && let Some(values) = payload.by_place(carried)?
            && let Some(column) = spread_array(self.pairs, side as usize, values)?
        {
            return Ok(column);
        }
        payload.take(carried, self.places(side)?)
    }

    /// The values of a function, which are of this type.
    fn score(&self, call: Call, data_type: &DataType) -> Result<ArrayRef> {
        let blocks = self.pairs.blocks();
        let pairs: Vec<ItemPair> = blocks.iter().map(|block| block.pair).collect();
        let mut of_blocks = Vec::with_capacity(pairs.len());
        let collections = self.payloads.map(|payload| payload.items());
        self.layout.matcher.scores(call, collections, &pairs, &mut of_blocks)?;
        let mut values = Vec::with_capacity(self.pairs.len());
        for (block, value) in blocks.iter().zip(of_blocks) {
            values.extend(std::iter::repeat_n(value, block.len()));
        }
        let all = value_array(values, data_type)?;
        Ok(match &self.kept {
            Some(kept) => kept.filter(&all)?,
            None => all,
        })
    }
}

/// The values of one side's rows, pair by pair, from the values by place. `None` where they are
/// not all of one width, or some are NULL.
fn spread_array(pairs: &RowPairs, side: usize, values: &ArrayRef) -> Result<Option<ArrayRef>> {
    let data = values.to_data();
    let ([buffer], 0) = (data.buffers(), values.null_count()) else {
        return Ok(None);
    };
    let (from, len) = (data.offset(), data.len());
    let spread = match data.data_type().primitive_width() {
        Some(1) => spread::<i8>(pairs, side, buffer, from, len),
        Some(2) => spread::<i16>(pairs, side, buffer, from, len),
        Some(4) => spread::<i32>(pairs, side, buffer, from, len),
        Some(8) => spread::<i64>(pairs, side, buffer, from, len),
        Some(16) => spread::<i128>(pairs, side, buffer, from, len),
        Some(32) => spread::<i256>(pairs, side, buffer, from, len),
        _ => return Ok(None),
    };
    let array = ArrayData::builder(data.data_type().clone()).len(pairs.len()).add_buffer(spread);
    Ok(Some(make_array(array.build()?)))
}

fn spread<T: ArrowNativeType>(
    pairs: &RowPairs,
    side: usize,
    values: &Buffer,
    from: usize,
    len: usize,
) -> Buffer {
    let values = ScalarBuffer::<T>::new(values.clone(), from, len);
    let mut all: Vec<T> = Vec::with_capacity(pairs.len());
    for block in pairs.blocks() {
        if block.len() == 1 {
            all.push(values[block.starts[side] as usize]);
            continue;
        }
        let own = &values[block.places(side)];
        let other = block.lens[1 - side] as usize;
        if block.inner() == side {
            (0..other).for_each(|_| all.extend_from_slice(own));
        } else {
            own.iter().for_each(|&value| all.extend(std::iter::repeat_n(value, other)));
        }
    }
    Buffer::from_vec(all)
}

#[cfg(test)]
mod tests {
    use arrow::array::{Decimal256Array, Int8Array, StringArray};
    use arrow::compute::take;

    use super::*;
    use crate::engine::ItemPair;
    use crate::exec::answer::blocks::Block;

    /// Columns written by block hold what taking by places gives.
    #[test]
    fn spreading_values_takes_them() {
        let pair = ItemPair { items: [0, 0], detail: 0 };
        let block = |starts, lens| Block { starts, lens, pair };
        let mut pairs = RowPairs::default();
        pairs.push(block([0, 1], [1, 1]));
        pairs.push(block([2, 0], [3, 4]));
        pairs.push(block([0, 3], [5, 2]));
        pairs.push(block([4, 0], [1, 3]));
        let columns: [ArrayRef; 4] = [
            Arc::new(Int64Array::from_iter_values(100..107)),
            Arc::new(Int64Array::from_iter_values(0..9).slice(1, 7)),
            Arc::new(Int8Array::from_iter_values(0..7)),
            Arc::new(Decimal256Array::from_iter_values((0..7).map(i256::from))),
        ];
        let mut left = vec![];
        let mut right = vec![];
        for block in pairs.blocks() {
            let outer = 1 - block.inner();
            for o in block.places(outer) {
                for i in block.places(1 - outer) {
                    let (l, r) = if outer == 0 { (o, i) } else { (i, o) };
                    left.push(l as u32);
                    right.push(r as u32);
                }
            }
        }
        for column in &columns {
            for (side, places) in [(0, &left), (1, &right)] {
                let expected = take(column, &UInt32Array::from(places.clone()), None).unwrap();
                let found = spread_array(&pairs, side, column).unwrap().unwrap();
                assert_eq!(&found, &expected);
            }
        }
        let nullable: ArrayRef = Arc::new(Int64Array::from(vec![None, Some(1)]));
        assert!(spread_array(&pairs, 0, &nullable).unwrap().is_none());
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
        assert!(spread_array(&pairs, 0, &texts).unwrap().is_none());
    }
}
