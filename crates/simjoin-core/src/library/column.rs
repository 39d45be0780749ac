//! The rows of a join, from Arrow arrays and from slices.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, DictionaryArray, FixedSizeListArray, GenericListArray,
    GenericListViewArray, GenericStringArray, LargeListArray, LargeStringArray, OffsetSizeTrait,
    PrimitiveArray, StringViewArray, make_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{
    ArrowDictionaryKeyType, Field, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};

/// A column of rows: sets, texts, vectors or weighted sets.
///
/// | rows | Arrow arrays | slices of |
/// |---|---|---|
/// | sets | lists of any layout over integers, texts or binary, dictionary-encoded or not | `Vec<T>`, `&[T]`, `[T; N]` of integers or texts |
/// | texts | `Utf8`, `LargeUtf8`, `Utf8View`, dictionary-encoded or not | `&str`, `String` |
/// | vectors | lists of any layout over numbers | `Vec<T>`, `&[T]`, `[T; N]` of numbers |
/// | weighted sets | lists of any layout over structs with the fields `token` and `weight`, a whole number | |
///
/// An `ArrayRef` and a `dyn Array` are columns too. Rows of a slice may be `Option`s, of which `None`
/// is NULL. An Arrow array is read where it lies; the rows of a slice are copied into one.
///
/// ```
/// use arrow::array::{Array, StringArray};
/// use simjoin_core::Column;
///
/// assert_eq!(StringArray::from(vec!["a", "b"]).to_array().len(), 2);
/// assert_eq!([vec![1, 2], vec![]].to_array().len(), 2);
/// assert_eq!(vec![Some([0.5_f32, 1.0]), None].to_array().null_count(), 1);
/// ```
pub trait Column {
    /// The rows as an Arrow array.
    fn to_array(&self) -> ArrayRef;
}

/// A row of a slice that is a [`Column`].
pub trait Row: Sized {
    /// The rows as an Arrow array; `None` is NULL.
    fn array<'a>(rows: impl ExactSizeIterator<Item = Option<&'a Self>>) -> ArrayRef
    where
        Self: 'a;
}

/// An element of a list: a number, or a text.
pub trait Element: Sized {
    /// The elements as an Arrow array.
    fn array<'a>(elements: impl Iterator<Item = &'a Self>) -> ArrayRef
    where
        Self: 'a;
}

macro_rules! numbers {
    ($($number:ty => $primitive:ty,)*) => {$(
        impl Element for $number {
            fn array<'a>(elements: impl Iterator<Item = &'a Self>) -> ArrayRef {
                let values = elements.copied();
                Arc::new(PrimitiveArray::<$primitive>::from_iter_values(values))
            }
        }
    )*};
}

numbers! {
    i8 => Int8Type,
    i16 => Int16Type,
    i32 => Int32Type,
    i64 => Int64Type,
    u8 => UInt8Type,
    u16 => UInt16Type,
    u32 => UInt32Type,
    u64 => UInt64Type,
    f32 => Float32Type,
    f64 => Float64Type,
}

impl Element for &str {
    fn array<'a>(elements: impl Iterator<Item = &'a Self>) -> ArrayRef
    where
        Self: 'a,
    {
        // Arrow asks for the number of texts.
        let texts: Vec<&str> = elements.copied().collect();
        Arc::new(LargeStringArray::from_iter_values(texts))
    }
}

impl Element for String {
    fn array<'a>(elements: impl Iterator<Item = &'a Self>) -> ArrayRef {
        let texts: Vec<&str> = elements.map(String::as_str).collect();
        Arc::new(LargeStringArray::from_iter_values(texts))
    }
}

/// Lists with 64-bit offsets, which do not overflow.
fn lists<'a, E: Element + 'a>(rows: impl Iterator<Item = Option<&'a [E]>>) -> ArrayRef {
    let rows: Vec<Option<&[E]>> = rows.collect();
    let elements = E::array(rows.iter().flatten().flat_map(|row| row.iter()));
    let offsets = OffsetBuffer::from_lengths(rows.iter().map(|row| row.map_or(0, <[E]>::len)));
    let nulls = NullBuffer::from_iter(rows.iter().map(Option::is_some));
    let field = Arc::new(Field::new_list_field(elements.data_type().clone(), true));
    Arc::new(LargeListArray::new(field, offsets, elements, Some(nulls)))
}

impl<E: Element> Row for Vec<E> {
    fn array<'a>(rows: impl ExactSizeIterator<Item = Option<&'a Self>>) -> ArrayRef
    where
        Self: 'a,
    {
        lists(rows.map(|row| row.map(Vec::as_slice)))
    }
}

impl<E: Element> Row for &[E] {
    fn array<'a>(rows: impl ExactSizeIterator<Item = Option<&'a Self>>) -> ArrayRef
    where
        Self: 'a,
    {
        lists(rows.map(|row| row.copied()))
    }
}

impl<E: Element, const N: usize> Row for [E; N] {
    fn array<'a>(rows: impl ExactSizeIterator<Item = Option<&'a Self>>) -> ArrayRef
    where
        Self: 'a,
    {
        lists(rows.map(|row| row.map(<[E; N]>::as_slice)))
    }
}

impl Row for &str {
    fn array<'a>(rows: impl ExactSizeIterator<Item = Option<&'a Self>>) -> ArrayRef
    where
        Self: 'a,
    {
        Arc::new(LargeStringArray::from_iter(rows))
    }
}

impl Row for String {
    fn array<'a>(rows: impl ExactSizeIterator<Item = Option<&'a Self>>) -> ArrayRef {
        Arc::new(LargeStringArray::from_iter(rows))
    }
}

impl<R: Row> Row for Option<R> {
    fn array<'a>(rows: impl ExactSizeIterator<Item = Option<&'a Self>>) -> ArrayRef
    where
        Self: 'a,
    {
        R::array(rows.map(|row| row.and_then(Option::as_ref)))
    }
}

impl<R: Row> Column for [R] {
    fn to_array(&self) -> ArrayRef {
        R::array(self.iter().map(Some))
    }
}

impl<R: Row, const N: usize> Column for [R; N] {
    fn to_array(&self) -> ArrayRef {
        self.as_slice().to_array()
    }
}

impl<R: Row> Column for Vec<R> {
    fn to_array(&self) -> ArrayRef {
        self.as_slice().to_array()
    }
}

impl Column for dyn Array {
    fn to_array(&self) -> ArrayRef {
        make_array(self.to_data())
    }
}

impl Column for ArrayRef {
    fn to_array(&self) -> ArrayRef {
        Arc::clone(self)
    }
}

impl<O: OffsetSizeTrait> Column for GenericListArray<O> {
    fn to_array(&self) -> ArrayRef {
        Arc::new(self.clone())
    }
}

impl<O: OffsetSizeTrait> Column for GenericListViewArray<O> {
    fn to_array(&self) -> ArrayRef {
        Arc::new(self.clone())
    }
}

impl Column for FixedSizeListArray {
    fn to_array(&self) -> ArrayRef {
        Arc::new(self.clone())
    }
}

impl<O: OffsetSizeTrait> Column for GenericStringArray<O> {
    fn to_array(&self) -> ArrayRef {
        Arc::new(self.clone())
    }
}

impl Column for StringViewArray {
    fn to_array(&self) -> ArrayRef {
        Arc::new(self.clone())
    }
}

impl<K: ArrowDictionaryKeyType + ArrowPrimitiveType> Column for DictionaryArray<K> {
    fn to_array(&self) -> ArrayRef {
        Arc::new(self.clone())
    }
}
