//! Sets of integers, read where they lie.
//!
//! A list that ascends strictly is a set already: it is neither copied nor sorted. Any other list
//! is copied, sorted and rid of repeats. Values keep their width, 32 or 64 bits; narrower ones, and
//! those beside wider ones, are widened. Signed numbers beside unsigned ones are compared as
//! unsigned numbers, the negative ones left out.

use std::ops::Range;

use arrow::array::{ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int32Type, Int64Type, UInt32Type, UInt64Type};
use datafusion::common::Result;

use super::columns::ListColumn;
use super::scores::values;
use crate::set::Measure;
use crate::set::intersection::{Key, KeySlice, SignedKey, size, size_if_ascending, sort_distinct};
use crate::simd::Simd;
use crate::util::parallel::{self, Threads};

/// The properties of an integer type that matter for comparisons.
#[derive(Debug, Clone, Copy)]
struct IntegerKind {
    signed: bool,
    /// Whether values take 64 bits.
    wide: bool,
}

fn kind(element: &DataType) -> Option<IntegerKind> {
    let wide = matches!(element, DataType::Int64 | DataType::UInt64);
    element.is_integer().then(|| IntegerKind { signed: element.is_signed_integer(), wide })
}

/// The values of `measure` for `rows` pairs of lists of integers, on up to `threads` threads; `None`
/// if neither side has integers. A side whose elements are of NULL type has none.
pub(super) fn compare(
    measure: Measure,
    a: &ListColumn,
    b: &ListColumn,
    rows: usize,
    threads: Threads,
) -> Option<Result<ArrayRef>> {
    let (kind_a, kind_b) = (kind(a.element_type()), kind(b.element_type()));
    let (kind_a, kind_b) = (kind_a.or(kind_b)?, kind_b.or(kind_a)?);
    let pairs = ListPairs { measure, a, b, rows, threads };
    Some(match (kind_a.wide || kind_b.wide, kind_a.signed, kind_b.signed) {
        (false, true, true) => pairs.alike::<Int32Type>(),
        (false, false, false) => pairs.alike::<UInt32Type>(),
        (false, true, false) => pairs.mixed::<Int32Type, UInt32Type>(),
        (false, false, true) => pairs.mixed_reverse::<UInt32Type, Int32Type>(),
        (true, true, true) => pairs.alike::<Int64Type>(),
        (true, false, false) => pairs.alike::<UInt64Type>(),
        (true, true, false) => pairs.mixed::<Int64Type, UInt64Type>(),
        (true, false, true) => pairs.mixed_reverse::<UInt64Type, Int64Type>(),
    })
}

/// The two sides of a call.
struct ListPairs<'a> {
    measure: Measure,
    a: &'a ListColumn,
    b: &'a ListColumn,
    rows: usize,
    threads: Threads,
}

impl<'a> ListPairs<'a> {
    /// Both sides are of one type.
    fn alike<T: ArrowPrimitiveType<Native: Key>>(&self) -> Result<ArrayRef> {
        self.values(|a: &mut RowSet<'a, T>, b: &mut RowSet<'a, T>, simd, threads| {
            a.overlap(b, simd, threads)
        })
    }

    /// The left side is signed, the right one is not.
    fn mixed<S, U>(&self) -> Result<ArrayRef>
    where
        S: ArrowPrimitiveType<Native: SignedKey<Unsigned = U::Native>>,
        U: ArrowPrimitiveType<Native: Key>,
    {
        self.values(|a: &mut RowSet<'a, S>, b: &mut RowSet<'a, U>, simd, threads| {
            a.overlap_beside_unsigned(b, simd, threads)
        })
    }

    /// The right side is signed, the left one is not.
    fn mixed_reverse<U, S>(&self) -> Result<ArrayRef>
    where
        S: ArrowPrimitiveType<Native: SignedKey<Unsigned = U::Native>>,
        U: ArrowPrimitiveType<Native: Key>,
    {
        self.values(|a: &mut RowSet<'a, U>, b: &mut RowSet<'a, S>, simd, threads| {
            b.overlap_beside_unsigned(a, simd, threads)
        })
    }

    fn values<A, B>(
        &self,
        overlap: impl Fn(&mut RowSet<'a, A>, &mut RowSet<'a, B>, Simd, Threads) -> Result<u64>,
    ) -> Result<ArrayRef>
    where
        A: ArrowPrimitiveType<Native: Key>,
        B: ArrowPrimitiveType<Native: Key>,
    {
        let simd = Simd::detect().without_masks();
        let (mut a, mut b) = (RowSet::<A>::try_new(self.a)?, RowSet::<B>::try_new(self.b)?);
        values(self.measure, self.rows, |row| {
            if !(a.advance(row) && b.advance(row)) {
                return Ok(None);
            }
            let overlap = overlap(&mut a, &mut b, simd, self.threads)?;
            Ok(Some((overlap, a.size(), b.size())))
        })
    }
}

/// One side of a comparison: a column and the set of the row that it stands at.
struct RowSet<'a, T: ArrowPrimitiveType> {
    column: &'a ListColumn,
    values: ScalarBuffer<T::Native>,
    /// The validity of `values`, when any of them is NULL.
    nulls: Option<NullBuffer>,
    /// The range of the current row.
    current: Option<Range<usize>>,
    /// The values of the current row, if they are not those in the column.
    own: Option<Vec<T::Native>>,
    /// Whether the values of the current row are known to ascend strictly.
    is_run: bool,
    /// Memory of earlier rows.
    spare: Vec<T::Native>,
    scratch: Vec<T::Native>,
}

impl<'a, T: ArrowPrimitiveType<Native: Key>> RowSet<'a, T> {
    fn try_new(column: &'a ListColumn) -> Result<Self> {
        let elements: PrimitiveArray<T> = match column.element_type() {
            // No row has an element.
            DataType::Null => PrimitiveArray::from_iter_values([]),
            _ => cast(column.elements(), &T::DATA_TYPE)?.as_primitive().clone(),
        };
        let (_, values, nulls) = elements.into_parts();
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        Ok(Self {
            column,
            values,
            nulls,
            current: None,
            own: None,
            is_run: false,
            spare: vec![],
            scratch: vec![],
        })
    }

    /// Goes to row `row`; false when its list is NULL.
    ///
    /// A row equal to the one before costs a comparison only: scalars, and the side of a
    /// nested-loop join that stands still, are checked or sorted once.
    #[inline]
    fn advance(&mut self, row: usize) -> bool {
        let Some(range) = self.column.row(row) else { return false };
        let range = if self.values.is_empty() { 0..0 } else { range };
        if !self.current.as_ref().is_some_and(|before| self.is_repetition(before, &range)) {
            self.read(range);
        }
        true
    }

    /// Whether two ranges surely hold the same values. `false` is always safe.
    #[inline]
    fn is_repetition(&self, before: &Range<usize>, now: &Range<usize>) -> bool {
        before == now
            || self.nulls.is_none()
                && before.len() == now.len()
                && self.values[before.clone()] == self.values[now.clone()]
    }

    /// Takes the values of a range, the NULL elements left out.
    #[inline]
    fn read(&mut self, range: Range<usize>) {
        if let Some(own) = self.own.take() {
            self.spare = own;
        }
        self.is_run = false;
        if let Some(nulls) = &self.nulls
            && nulls.slice(range.start, range.len()).null_count() > 0
        {
            let mut own = std::mem::take(&mut self.spare);
            own.clear();
            own.extend(range.clone().filter(|&i| nulls.is_valid(i)).map(|i| self.values[i]));
            self.own = Some(own);
        }
        self.current = Some(range);
    }

    /// The values of the current row.
    #[inline]
    fn keys(&self) -> &[T::Native] {
        match (&self.own, &self.current) {
            (Some(own), _) => own,
            (None, Some(range)) => &self.values[range.clone()],
            (None, None) => &[],
        }
    }

    #[inline]
    fn run(&self) -> KeySlice<'_, T::Native> {
        KeySlice { keys: self.keys(), known: self.is_run }
    }

    /// The number of distinct values of the current row, once they are known to be a run.
    #[inline]
    fn size(&self) -> u64 {
        self.keys().len() as u64
    }

    /// Makes a run of the values of the current row.
    fn settle(&mut self, simd: Simd) {
        if self.is_run {
            return;
        }
        self.is_run = true;
        if self.own.is_none() {
            if T::Native::ascends(simd, self.keys()) {
                return;
            }
            let mut own = std::mem::take(&mut self.spare);
            own.clear();
            own.extend_from_slice(self.keys());
            self.own = Some(own);
        }
        if let Some(own) = &mut self.own {
            sort_distinct(simd, own, &mut self.scratch);
        }
    }

    /// The number of values that the current rows have in common.
    #[inline]
    fn overlap(&mut self, other: &mut Self, simd: Simd, threads: Threads) -> Result<u64> {
        if let Some(common) = size_if_ascending(simd, self.run(), other.run(), threads) {
            (self.is_run, other.is_run) = (true, true);
            return Ok(common);
        }
        let steps = self.keys().len() + other.keys().len();
        if parallel::threads_for(threads, steps).count() == 1 {
            self.settle(simd);
            other.settle(simd);
        } else {
            parallel::for_each(threads.at_most(2), vec![&mut *self, &mut *other], |side| {
                side.settle(simd);
                Ok(())
            })?;
        }
        Ok(size(simd, self.keys(), other.keys(), threads))
    }

    /// [`Self::overlap`] with values that are never negative.
    #[inline]
    fn overlap_beside_unsigned<U>(
        &mut self,
        other: &mut RowSet<'_, U>,
        simd: Simd,
        threads: Threads,
    ) -> Result<u64>
    where
        T::Native: SignedKey<Unsigned = U::Native>,
        U: ArrowPrimitiveType<Native: Key>,
    {
        self.settle(simd);
        other.settle(simd);
        Ok(size(simd, T::Native::not_negative(self.keys()), other.keys(), threads))
    }
}
