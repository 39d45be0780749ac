//! Properties of build rows by their places: ranks of a column, and which rows count.

use std::cmp::Ordering;
use std::mem::size_of;

use arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray, GenericStringArray,
    OffsetSizeTrait, PrimitiveArray, UInt32Array,
};
use arrow::compute::take;
use arrow::datatypes::DataType;
use arrow::downcast_primitive_array;
use datafusion::common::utils::normalize_float_zero;
use datafusion::common::{DataFusionError, Result, internal_err};

use crate::engine::RowGroups;
use crate::exec::rows::payload::{Payload, slice_bytes};
use crate::util::cancel::{CancelFlag, sort_unstable_by};

/// Ranks of a column of the build side: greater values have greater ranks, equal ones the same,
/// NULL has rank 0.
#[derive(Debug)]
pub(crate) struct Ranks {
    /// The column, in the schema of the build side.
    pub column: usize,
    /// Ascending within the rows of an item.
    pub by_place: Vec<u32>,
    /// No two rows are equal and none is NULL.
    pub distinct: bool,
    /// The different values, ascending, by which rows of other collections are ranked: value `i`
    /// has rank `2 i + 2`, and a value between two of them the rank between. `None` where only
    /// build rows are ranked.
    values: Option<ArrayRef>,
}

impl Ranks {
    /// Ranks the rows of `groups` by `values`, the values of `column` by row, and orders the rows
    /// of each item by rank. `others` says whether rows of other collections are ranked as well.
    ///
    /// # Errors
    ///
    /// A resource error where ranks of 32 bits do not suffice for other rows. Fewer build rows
    /// avoid it.
    pub(crate) fn of_rows(
        column: usize,
        values: &ArrayRef,
        groups: &mut RowGroups,
        others: bool,
        threads: usize,
        cancel: &CancelFlag,
    ) -> Result<Self> {
        let all = normalize_float_zero(values);
        let Ranked { mut by_row, firsts } = Ranked::of(all.as_ref(), cancel)?;
        let distinct = firsts.len() == by_row.len();
        let mut values = None;
        if others {
            if firsts.len() > (u32::MAX / 2) as usize - 2 {
                return Err(DataFusionError::ResourcesExhausted(format!(
                    "a similarity join cannot rank {} values of a side at once",
                    firsts.len()
                )));
            }
            by_row.iter_mut().for_each(|rank| *rank *= 2);
            values = Some(take(&all, &UInt32Array::from(firsts), None)?);
        }
        groups.sort_rows_by_key(|row| by_row[row as usize], threads, cancel)?;
        let by_place = groups.gather(|row| by_row[row as usize], threads, cancel)?;
        Ok(Self { column, by_place, distinct, values })
    }

    /// The ranks, by place in `groups`, of the rows of another collection, whose values are those
    /// of `column`.
    pub(crate) fn of_others(&self, column: &ArrayRef, groups: &RowGroups) -> Result<Vec<u32>> {
        let column = normalize_float_zero(column);
        let Some(values) = self.values.as_deref() else {
            return internal_err!("the ranks of a build side are for its own rows only");
        };
        let places = || groups.rows_at(groups.slots(0..groups.len())).iter().map(|&r| r as usize);
        downcast_primitive_array!(
            values => rank_primitives(values, &column, places()),
            DataType::Utf8 => rank_texts(values.as_string::<i32>(), &column, places()),
            DataType::LargeUtf8 => rank_texts(values.as_string::<i64>(), &column, places()),
            other => internal_err!("values of type {other} have no ranks")
        )
    }

    /// The bytes needed while `rows` rows with values of a type are ranked.
    pub(crate) fn footprint(data_type: &DataType, rows: usize) -> usize {
        let value = data_type.primitive_width().unwrap_or(size_of::<&str>());
        // A value with its row, and its ranks by row and by place.
        rows * (value.next_multiple_of(size_of::<u64>()) + size_of::<u64>() + 3 * size_of::<u32>())
    }

    /// The bytes held.
    pub(crate) fn size_in_bytes(&self) -> usize {
        self.by_place.capacity() * size_of::<u32>() + self.values.as_ref().map_or(0, slice_bytes)
    }
}

/// Rows in the order of their values.
struct Ranked {
    /// Rank `i + 1` for the `i`th different value, 0 for NULL.
    by_row: Vec<u32>,
    /// A row of each different value, ascending by value.
    firsts: Vec<u32>,
}

impl Ranked {
    fn of(column: &dyn Array, cancel: &CancelFlag) -> Result<Self> {
        downcast_primitive_array!(
            column => {
                let values = column.values();
                Self::of_values(column, |row| values[row], |a, b| a.compare(*b), cancel)
            }
            DataType::Utf8 => Self::of_texts(column.as_string::<i32>(), cancel),
            DataType::LargeUtf8 => Self::of_texts(column.as_string::<i64>(), cancel),
            other => internal_err!("values of type {other} have no ranks")
        )
    }

    fn of_texts<O: OffsetSizeTrait>(
        column: &GenericStringArray<O>,
        cancel: &CancelFlag,
    ) -> Result<Self> {
        Self::of_values(column, |row| column.value(row), |a, b| a.cmp(b), cancel)
    }

    fn of_values<T: Copy>(
        column: &dyn Array,
        value: impl Fn(usize) -> T,
        compare: impl Fn(&T, &T) -> Ordering + Copy,
        cancel: &CancelFlag,
    ) -> Result<Self> {
        let nulls = column.logical_nulls();
        let mut rows: Vec<(T, u32)> = Vec::with_capacity(column.len());
        for row in 0..column.len() {
            cancel.check_at(row)?;
            if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
                rows.push((value(row), row as u32));
            }
        }
        // As many columns are.
        if !rows.is_sorted_by(|a, b| compare(&a.0, &b.0).is_le()) {
            sort_unstable_by(&mut rows, cancel, |a, b| compare(&a.0, &b.0).then(a.1.cmp(&b.1)))?;
        }
        let (mut by_row, mut firsts) = (vec![0; column.len()], vec![]);
        let mut last: Option<&T> = None;
        for (place, (value, row)) in rows.iter().enumerate() {
            cancel.check_at(place)?;
            if last.is_none_or(|last| compare(last, value).is_ne()) {
                firsts.push(*row);
                last = Some(value);
            }
            by_row[*row as usize] = firsts.len() as u32;
        }
        Ok(Self { by_row, firsts })
    }
}

/// The rank of a value that stands, or would stand, at a place among the ranked ones.
fn rank(place: std::result::Result<usize, usize>) -> u32 {
    match place {
        Ok(place) => 2 * place as u32 + 2,
        Err(place) => 2 * place as u32 + 1,
    }
}

fn rank_primitives<T: ArrowPrimitiveType>(
    values: &PrimitiveArray<T>,
    column: &ArrayRef,
    rows: impl Iterator<Item = usize>,
) -> Result<Vec<u32>> {
    let Some(column) = column.as_primitive_opt::<T>() else {
        return internal_err!("{} values are ranked as {}", column.data_type(), T::DATA_TYPE);
    };
    let place = |row| values.values().binary_search_by(|v| v.compare(column.value(row)));
    Ok(rows.map(|row| if column.is_null(row) { 0 } else { rank(place(row)) }).collect())
}

fn rank_texts<O: OffsetSizeTrait>(
    values: &GenericStringArray<O>,
    column: &ArrayRef,
    rows: impl Iterator<Item = usize>,
) -> Result<Vec<u32>> {
    let Some(column) = column.as_string_opt::<O>() else {
        return internal_err!("{} values are ranked as text", column.data_type());
    };
    let place = |row: usize| {
        let (mut low, mut high) = (0, values.len());
        while low < high {
            let middle = low.midpoint(high);
            match values.value(middle).cmp(column.value(row)) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Ok(middle),
                Ordering::Greater => high = middle,
            }
        }
        Err(low)
    };
    Ok(rows.map(|row| if column.is_null(row) { 0 } else { rank(place(row)) }).collect())
}

/// Which build rows count as partners: those in which a column is not NULL.
#[derive(Debug)]
pub(crate) struct Partners {
    /// By place, the number of counting rows at earlier places; the last entry is the number of
    /// all.
    before: Vec<u32>,
}

impl Partners {
    /// `None` when the column has no NULL.
    pub(crate) fn of_column(
        groups: &RowGroups,
        payload: &Payload,
        column: usize,
        cancel: &CancelFlag,
    ) -> Result<Option<Self>> {
        let Some(nulls) = payload.nulls(column) else { return Ok(None) };
        let mut before = Vec::with_capacity(groups.row_count() + 1);
        let mut count = 0;
        for place in 0..groups.row_count() as u32 {
            cancel.check_at(place as usize)?;
            before.push(count);
            count += u32::from(!nulls.is_null(place));
        }
        before.push(count);
        Ok(Some(Self { before }))
    }

    /// How many rows at some places count.
    #[inline]
    pub(crate) fn among(&self, places: std::ops::Range<u32>) -> u32 {
        self.before[places.end as usize] - self.before[places.start as usize]
    }

    pub(crate) fn footprint(groups: &RowGroups) -> usize {
        (groups.row_count() + 1) * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Float64Array, Int64Array, ListArray, StringArray};
    use arrow::datatypes::Int64Type;
    use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, UnboundedMemoryPool};

    use super::*;
    use crate::engine::EncodeInput;
    use crate::set::BuildEncoder;

    /// Rows of two items, every third row without one.
    fn collection(rows: i64) -> RowGroups {
        let lists = (0..rows).map(|row| (row % 3 > 0).then(|| vec![Some(row % 3)]));
        let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(lists);
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        let reservation = MemoryConsumer::new("test").register(&pool);
        let mut encoder = BuildEncoder::default();
        let input = EncodeInput { values: &lists, keys: None, filter: None };
        encoder.push(&input, &mut Default::default(), &reservation, 0).unwrap();
        let cancel = CancelFlag::default();
        let mut sets = encoder.finish(&reservation, 0, &|| {}, &cancel).unwrap().0;
        std::mem::take(sets.groups_mut())
    }

    /// Ranks compare as the values do, of build rows with each other and with other rows; NULL
    /// compares with nothing.
    fn check(build: ArrayRef, probe: ArrayRef, compare: impl Fn(usize, usize) -> Ordering) {
        let cancel = CancelFlag::default();
        let mut groups = collection(build.len() as i64);
        let others = collection(probe.len() as i64);
        let ranks = Ranks::of_rows(0, &build, &mut groups, true, 3, &cancel).unwrap();
        let of_others = ranks.of_others(&probe, &others).unwrap();
        assert_eq!(of_others.len(), others.row_count());
        for (place, &rank) in of_others.iter().enumerate() {
            let row = others.row_at(place as u32) as usize;
            assert_eq!(rank == 0, probe.is_null(row));
            for (build_place, &build_rank) in ranks.by_place.iter().enumerate() {
                let build_row = groups.row_at(build_place as u32) as usize;
                assert_eq!(build_rank == 0, build.is_null(build_row));
                if rank > 0 && build_rank > 0 {
                    assert_eq!(rank.cmp(&build_rank), compare(row, build_row), "{row} {build_row}");
                }
            }
        }
        for item in 0..groups.len() {
            let places = groups.slots(item..item + 1);
            assert!(ranks.by_place[places.start as usize..places.end as usize].is_sorted());
        }
        let own = Ranks::of_rows(0, &build, &mut groups, false, 1, &cancel).unwrap();
        assert!(own.by_place.iter().zip(&ranks.by_place).all(|(one, two)| 2 * one == *two));
        assert!(own.of_others(&probe, &others).is_err());
    }

    #[test]
    fn ranks_compare_as_values() {
        let build = [Some(5), None, Some(-7), Some(5), Some(i64::MAX), Some(0), Some(i64::MIN)];
        let probe = [Some(4), Some(5), Some(6), None, Some(i64::MIN), Some(i64::MAX), Some(-8)];
        let arrays =
            [build, probe].map(|values| Arc::new(Int64Array::from_iter(values)) as ArrayRef);
        let [a, b] = arrays.clone();
        check(a, b, |row, other| probe[row].cmp(&build[other]));

        let build = [Some(0.0), Some(f64::NAN), None, Some(-0.0), Some(1.5), Some(-f64::NAN)];
        let probe = [Some(-0.0), Some(f64::INFINITY), Some(f64::NAN), Some(1.5), None, Some(-9.0)];
        let arrays = [build, probe].map(|v| Arc::new(Float64Array::from_iter(v)) as ArrayRef);
        let [a, b] = arrays.clone();
        let value = |v: Option<f64>| v.map_or(0.0, |v| if v == 0.0 { 0.0 } else { v });
        check(a, b, |row, other| value(probe[row]).total_cmp(&value(build[other])));

        let build = [Some("b"), None, Some(""), Some("ba"), Some("b"), Some("ü")];
        let probe = [Some("a"), Some("b"), Some("bb"), Some("z"), None, Some("")];
        let arrays = [build, probe].map(|v| Arc::new(StringArray::from_iter(v)) as ArrayRef);
        let [a, b] = arrays.clone();
        check(a, b, |row, other| probe[row].cmp(&build[other]));
    }

    #[test]
    fn no_rows_and_no_repeats() {
        let cancel = CancelFlag::default();
        let empty: ArrayRef = Arc::new(Int64Array::from_iter_values([]));
        let ranks = Ranks::of_rows(0, &empty, &mut collection(0), true, 2, &cancel).unwrap();
        assert!(ranks.distinct && ranks.by_place.is_empty());
        for (values, distinct) in [(vec![Some(3), Some(1)], true), (vec![Some(3), None], false)] {
            let column: ArrayRef = Arc::new(Int64Array::from(values));
            let ranks = Ranks::of_rows(0, &column, &mut collection(2), false, 2, &cancel).unwrap();
            assert_eq!(ranks.distinct, distinct);
        }
    }
}
