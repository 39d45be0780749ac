//! Properties of build rows by their places: ranks of a column, and which rows count.

use std::cmp::Ordering;
use std::mem::size_of;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray, PrimitiveArray, UInt32Array,
    make_comparator,
};
use arrow::compute::{SortOptions, take};
use arrow::datatypes::DataType;
use arrow::downcast_primitive_array;
use datafusion::common::utils::normalize_float_zero;
use datafusion::common::{DataFusionError, Result, internal_datafusion_err, internal_err};

use crate::engine::RowGroups;
use crate::exec::layout::ranked_type;
use crate::exec::rows::payload::{Payload, PayloadBuilder};
use crate::exec::rows::ranked::{RankedRows, RankedText};
use crate::operator::row_bytes::stored_bytes;
use crate::util::cancel::CancelFlag;
use crate::util::parallel::Threads;
use crate::util::unpack::unpacked;

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
    /// Some row is NULL.
    pub has_null: bool,
    /// The same of all rows that meet as of these in [`Self::distinct`], as far as it is known.
    pub all_distinct: bool,
    /// The different values, ascending, by which rows of other collections are ranked: value `i`
    /// has rank `2 i + 2`, and a value between two of them the rank between. `None` where only
    /// build rows are ranked.
    values: Option<ArrayRef>,
}

impl Ranks {
    /// Ranks the rows of `groups` by `values`, the [`comparable`] values of `column` by row in pieces whose first
    /// rows are `starts`, and orders the rows of each item by rank. `others` says whether rows of other collections are ranked as well.
    ///
    /// # Errors
    ///
    /// A resource error where ranks of 32 bits do not suffice for other rows. Fewer build rows
    /// avoid it.
    pub(crate) fn of_rows(
        column: usize,
        values: &ArrayRef,
        starts: &[u32],
        groups: &mut RowGroups,
        others: bool,
        threads: Threads,
        cancel: &CancelFlag,
    ) -> Result<Self> {
        let RankedRows { mut by_row, firsts, different } =
            RankedRows::of(values.as_ref(), starts, others, threads, cancel)?;
        let distinct = different == by_row.len();
        let has_null = !distinct && by_row.contains(&0);
        let mut kept = None;
        if others {
            if different > (u32::MAX / 2) as usize - 2 {
                return Err(DataFusionError::ResourcesExhausted(format!(
                    "a similarity join cannot rank {different} values of a side at once"
                )));
            }
            by_row.iter_mut().for_each(|rank| *rank *= 2);
            let different = take(values, &UInt32Array::from(firsts), None)?;
            kept = Some(match different.as_binary_view_opt() {
                // Without the bytes of other rows.
                Some(views) => Arc::new(views.gc()),
                None => different,
            });
        }
        groups.sort_rows_by_key(|row| by_row[row as usize], threads, cancel)?;
        let by_place = groups.gather(|row| by_row[row as usize], threads, cancel)?;
        Ok(Self { column, by_place, distinct, has_null, all_distinct: false, values: kept })
    }

    /// Whether a row of another collection with this rank is neither NULL nor equal to a ranked row.
    #[inline]
    pub(crate) fn is_apart(rank: u32) -> bool {
        rank % 2 == 1
    }

    /// The ranks, by place in `groups`, of the rows of another collection, whose values are those
    /// of `column`.
    pub(crate) fn of_others(&self, column: &ArrayRef, groups: &RowGroups) -> Result<Vec<u32>> {
        let column = comparable(column)?;
        let Some(values) = self.values.as_deref() else {
            return internal_err!("the ranks of a build side are for its own rows only");
        };
        if column.data_type() != values.data_type() {
            let of = values.data_type();
            return internal_err!("{} values are ranked as {of}", column.data_type());
        }
        let nulls = column.logical_nulls();
        let rows = || groups.rows_at(groups.slots(0..groups.len())).iter().map(|&r| r as usize);
        let ranks = |place: &dyn Fn(usize) -> std::result::Result<usize, usize>| {
            let is_null = |row| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
            rows().map(|row| if is_null(row) { 0 } else { rank(place(row)) }).collect()
        };
        Ok(downcast_primitive_array!(
            values => {
                let place = places_among(values, &column)?;
                ranks(&place)
            }
            DataType::BinaryView => {
                let (values, column) = (values.as_binary_view(), column.as_binary_view());
                let compare = |row| move |at| values.value(at).cmp(column.value(row));
                ranks(&|row| search(values.len(), compare(row)))
            }
            DataType::Boolean => {
                let (values, column) = (values.as_boolean(), column.as_boolean());
                let compare = |row| move |at| values.value(at).cmp(&column.value(row));
                ranks(&|row| search(values.len(), compare(row)))
            }
            other => return internal_err!("values of type {other} have no ranks")
        ))
    }

    /// By item of `groups`, the place of its row with the least value in `column`, of equal values the first one.
    /// The ranks of another collection do not tell it: all values between two of the ranked ones share a rank.
    pub(crate) fn least_places(column: &ArrayRef, groups: &RowGroups) -> Result<Vec<u32>> {
        let values = comparable(column)?;
        let compare = make_comparator(&values, &values, SortOptions::default())?;
        let row = |place: u32| groups.row_at(place) as usize;
        let least = |item| {
            let places: Range<u32> = groups.slots(item..item + 1);
            let first = places.start;
            places.min_by(|a, b| compare(row(*a), row(*b))).unwrap_or(first)
        };
        Ok((0..groups.len()).map(least).collect())
    }

    /// The bytes needed while the rows of a column are ranked, of build rows only or of `others` as
    /// well.
    pub(crate) fn footprint(column: &PayloadBuilder, others: bool) -> usize {
        let Some(data_type) = column.data_type() else { return 0 };
        let value = match (data_type.primitive_width(), data_type) {
            (Some(width), _) => width,
            (None, DataType::Boolean) => 1,
            // With its view, in its piece and in the column.
            (None, DataType::FixedSizeBinary(bytes)) => RankedText::BYTES + *bytes as usize,
            (None, _) => RankedText::BYTES,
        };
        // A value with its row, its ranks by row and by place, and first rows, which are collected in parts.
        let row =
            value.next_multiple_of(size_of::<u64>()) + size_of::<u64>() + 4 * size_of::<u32>();
        let kept = if others { column.first_column_bytes() } else { 0 };
        column.row_count() * row + kept
    }

    /// The bytes held.
    pub(crate) fn size_in_bytes(&self) -> usize {
        self.by_place.capacity() * size_of::<u32>() + self.values.as_ref().map_or(0, stored_bytes)
    }
}

/// The values of a column as they are compared: texts and bytes as views of bytes.
pub(crate) fn comparable(column: &ArrayRef) -> Result<ArrayRef> {
    let Some(ranked) = ranked_type(column.data_type()) else {
        return internal_err!("values of type {} have no ranks", column.data_type());
    };
    let views = match ranked == DataType::Utf8View || ranked == DataType::BinaryView {
        true => unpacked(column, &ranked)?,
        false => return Ok(normalize_float_zero(column)),
    };
    Ok(match views.as_string_view_opt() {
        Some(texts) => Arc::new(texts.clone().to_binary_view()),
        None => views,
    })
}

/// The rank of a value that stands, or would stand, at a place among the ranked ones.
fn rank(place: std::result::Result<usize, usize>) -> u32 {
    match place {
        Ok(place) => 2 * place as u32 + 2,
        Err(place) => 2 * place as u32 + 1,
    }
}

/// The place of a value among some that ascend, or where it would stand: `compare` holds the value at
/// a place against it.
fn search(count: usize, compare: impl Fn(usize) -> Ordering) -> std::result::Result<usize, usize> {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low.midpoint(high);
        match compare(middle) {
            Ordering::Less => low = middle + 1,
            Ordering::Equal => return Ok(middle),
            Ordering::Greater => high = middle,
        }
    }
    Err(low)
}

/// The places of the values of a column, which has the type of `values`.
fn places_among<'a, T: ArrowPrimitiveType>(
    values: &'a PrimitiveArray<T>,
    column: &'a ArrayRef,
) -> Result<impl Fn(usize) -> std::result::Result<usize, usize> + 'a> {
    let column = column.as_primitive_opt::<T>().ok_or_else(|| {
        internal_datafusion_err!("{} values are ranked as {}", column.data_type(), T::DATA_TYPE)
    })?;
    Ok(move |row| values.values().binary_search_by(|v| v.compare(column.value(row))))
}

/// The build rows that count as partners: those in which a column is not NULL.
#[derive(Debug)]
pub(crate) struct NonNullRows {
    /// By place, the number of counting rows at earlier places; the last entry is the number of
    /// all.
    before: Vec<u32>,
}

impl NonNullRows {
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

    /// The number of counting rows at some places.
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

    use arrow::array::{
        BooleanArray, FixedSizeBinaryArray, Float64Array, Int64Array, ListArray, StringArray,
        StringViewArray,
    };
    use arrow::compute::cast;
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
        let build = comparable(&build).unwrap();
        let ranks =
            Ranks::of_rows(0, &build, &[], &mut groups, true, Threads::small(3), &cancel).unwrap();
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
        // The ranks among its own rows compare any two rows.
        if probe.logical_null_count() == 0 {
            let least = Ranks::least_places(&probe, &others).unwrap();
            let mut ranked = collection(probe.len() as i64);
            let values = comparable(&probe).unwrap();
            let threads = Threads::small(1);
            Ranks::of_rows(0, &values, &[], &mut ranked, false, threads, &cancel).unwrap();
            for (item, place) in (0..).zip(least) {
                let first = ranked.slots(item..item + 1).start;
                assert_eq!(others.row_at(place), ranked.row_at(first), "{item}");
            }
        }
        let own =
            Ranks::of_rows(0, &build, &[], &mut groups, false, Threads::small(1), &cancel).unwrap();
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

        // Rows of one item whose ranks among the build rows are the same.
        let build = [Some(50), None, Some(70)];
        let probe = [Some(9), Some(60), Some(58), Some(8), Some(55), Some(90), Some(7), Some(80)];
        let arrays =
            [build.to_vec(), probe.to_vec()].map(|v| Arc::new(Int64Array::from(v)) as ArrayRef);
        let [a, b] = arrays;
        check(a, b, |row, other| probe[row].cmp(&build[other]));

        let build = [Some(true), None, Some(false), Some(true)];
        let probe = [Some(false), Some(true), None];
        let arrays = [build.to_vec(), probe.to_vec()];
        let [a, b] = arrays.map(|v| Arc::new(BooleanArray::from(v)) as ArrayRef);
        check(a, b, |row, other| probe[row].cmp(&build[other]));
    }

    /// Texts of every form, and those of one form among those of another, with what views keep of a
    /// text in common.
    #[test]
    fn ranks_compare_texts_and_bytes_of_every_form() {
        let twelve = "abcdefghijkl";
        let build = [Some("b"), None, Some(""), Some("abcd"), Some("abcdx"), Some("b"), Some("ü")]
            .into_iter()
            .chain([Some(twelve), Some("abcdefghijklm"), Some("abcdefghijklnop"), Some("a\0")])
            .collect::<Vec<_>>();
        let probe = [Some("a"), Some("b"), Some("abcde"), Some("abcd"), None, Some(""), Some("z")]
            .into_iter()
            .chain([Some("abcdefghijkln"), Some("abcdefghijklm"), Some("abcdefgh"), Some("a")])
            .collect::<Vec<_>>();
        let of = |texts: &[Option<&str>], form: &DataType| {
            let texts = StringArray::from(texts.to_vec());
            let bytes = match ranked_type(form) {
                Some(DataType::BinaryView) => cast(&texts, &DataType::Binary).unwrap(),
                _ => Arc::new(texts),
            };
            cast(&bytes, form).unwrap()
        };
        let dictionary = |key, values| DataType::Dictionary(Box::new(key), Box::new(values));
        let texts = [
            DataType::Utf8,
            DataType::LargeUtf8,
            DataType::Utf8View,
            dictionary(DataType::Int8, DataType::Utf8),
            dictionary(DataType::UInt32, DataType::LargeUtf8),
        ];
        let bytes = [
            DataType::Binary,
            DataType::LargeBinary,
            DataType::BinaryView,
            dictionary(DataType::Int32, DataType::Binary),
        ];
        for forms in [&texts[..], &bytes] {
            for a in forms {
                for b in forms {
                    let compare = |row: usize, other: usize| probe[row].cmp(&build[other]);
                    check(of(&build, a), of(&probe, b), compare);
                }
            }
        }
        let sized = |values: &[Option<&str>]| {
            let values: Vec<_> = values.iter().map(|v| v.map(|v| format!("{v:\0<16}"))).collect();
            let bytes = values.iter().map(|v| v.as_ref().map(|v| &v.as_bytes()[..16]));
            let array = FixedSizeBinaryArray::try_from_sparse_iter_with_size(bytes, 16).unwrap();
            Arc::new(array) as ArrayRef
        };
        let padded = |v: Option<&str>| v.map(|v| format!("{v:\0<16}").into_bytes()[..16].to_vec());
        let compare = |row: usize, other: usize| padded(probe[row]).cmp(&padded(build[other]));
        check(sized(&build), sized(&probe), compare);
    }

    /// Ranks keep the bytes of their own values, not those of a batch.
    #[test]
    fn ranks_keep_no_bytes_of_other_rows() {
        let cancel = CancelFlag::default();
        let texts = (0..1000).map(|row| format!("{:0>100}", row % 3));
        let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values(texts));
        let (texts, mut groups) = (comparable(&texts).unwrap(), collection(1000));
        let ranks =
            Ranks::of_rows(0, &texts, &[], &mut groups, true, Threads::small(1), &cancel).unwrap();
        let values = ranks.values.as_ref().unwrap();
        assert!(values.get_buffer_memory_size() < 1000, "{}", values.get_buffer_memory_size());
    }

    #[test]
    fn no_rows_and_no_repeats() {
        let cancel = CancelFlag::default();
        let empty: ArrayRef = Arc::new(Int64Array::from_iter_values([]));
        let ranks =
            Ranks::of_rows(0, &empty, &[], &mut collection(0), true, Threads::small(2), &cancel)
                .unwrap();
        assert!(ranks.distinct && ranks.by_place.is_empty());
        for (values, distinct) in [(vec![Some(3), Some(1)], true), (vec![Some(3), None], false)] {
            let column: ArrayRef = Arc::new(Int64Array::from(values));
            let ranks = Ranks::of_rows(
                0,
                &column,
                &[],
                &mut collection(2),
                false,
                Threads::small(2),
                &cancel,
            )
            .unwrap();
            assert_eq!(ranks.distinct, distinct);
        }
    }
}
