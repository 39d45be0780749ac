//! Text columns of any layout, read row by row.

use std::hint::select_unpredictable;
use std::ops::Range;

use arrow::array::{
    Array, ArrayRef, AsArray, GenericStringArray, LargeStringArray, OffsetSizeTrait, StringArray,
    StringViewArray, make_array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};

/// A column of text, dictionary-encoded or not, or of the NULL type.
#[derive(Debug)]
pub(crate) enum Texts {
    /// So many NULL rows.
    Null(usize),
    Utf8(StringArray),
    LargeUtf8(LargeStringArray),
    Utf8View(StringViewArray),
}

impl Texts {
    /// # Errors
    ///
    /// An execution error that names the type when it is no text.
    pub(crate) fn try_new(array: &dyn Array) -> Result<Self> {
        Ok(match array.data_type() {
            DataType::Null => Texts::Null(array.len()),
            DataType::Utf8 => Texts::Utf8(array.as_string().clone()),
            DataType::LargeUtf8 => Texts::LargeUtf8(array.as_string().clone()),
            DataType::Utf8View => Texts::Utf8View(array.as_string_view().clone()),
            DataType::Dictionary(_, values) => {
                // Views point at the values of the dictionary; unpacked `Utf8` would copy them,
                // and could overflow its offsets.
                let views = match values.as_ref() {
                    DataType::Utf8 => &DataType::Utf8View,
                    other => other,
                };
                let array: ArrayRef = make_array(array.to_data());
                return Self::try_new(&cast(&array, views)?);
            }
            other => return exec_err!("expected text, found {other}"),
        })
    }

    /// The number of rows.
    pub(crate) fn len(&self) -> usize {
        match self {
            Texts::Null(rows) => *rows,
            Texts::Utf8(a) => a.len(),
            Texts::LargeUtf8(a) => a.len(),
            Texts::Utf8View(a) => a.len(),
        }
    }

    /// The text of a row, `None` when it is NULL.
    #[inline]
    pub(crate) fn value(&self, row: usize) -> Option<&str> {
        match self {
            Texts::Null(_) => None,
            Texts::Utf8(a) => a.is_valid(row).then(|| a.value(row)),
            Texts::LargeUtf8(a) => a.is_valid(row).then(|| a.value(row)),
            Texts::Utf8View(a) => a.is_valid(row).then(|| a.value(row)),
        }
    }

    /// The rows that are NULL, `None` if there is none.
    pub(crate) fn nulls(&self) -> Option<NullBuffer> {
        match self {
            Texts::Null(rows) => Some(NullBuffer::new_null(*rows)),
            Texts::Utf8(a) => a.nulls().cloned(),
            Texts::LargeUtf8(a) => a.nulls().cloned(),
            Texts::Utf8View(a) => a.nulls().cloned(),
        }
    }

    /// Calls `each` with the text of each of some rows, an empty one for NULL: with the bytes from its first
    /// one on, those that lie behind it in the column included, and its length. Returns whether the texts
    /// are ASCII for sure.
    pub(crate) fn for_each_within<'a>(
        &'a self,
        rows: Range<usize>,
        mut each: impl FnMut(&'a [u8], usize),
    ) -> bool {
        match self {
            Texts::Null(_) => {
                rows.for_each(|_| each(&[], 0));
                true
            }
            Texts::Utf8(a) => each_of_offsets(a, rows, each),
            Texts::LargeUtf8(a) => each_of_offsets(a, rows, each),
            Texts::Utf8View(a) => each_of_views(a, rows, each),
        }
    }
}

fn each_of_offsets<'a, O: OffsetSizeTrait>(
    array: &'a GenericStringArray<O>,
    rows: Range<usize>,
    mut each: impl FnMut(&'a [u8], usize),
) -> bool {
    let (values, nulls) = (array.value_data(), array.nulls());
    let offsets = &array.value_offsets()[rows.start..=rows.end];
    for (row, ends) in rows.zip(offsets.windows(2)) {
        let (start, end) = (ends[0].as_usize(), ends[1].as_usize());
        match nulls.is_some_and(|nulls| nulls.is_null(row)) {
            true => each(&[], 0),
            false => each(&values[start..], end - start),
        }
    }
    let ends = [offsets.first(), offsets.last()].map(|end| end.map_or(0, |end| end.as_usize()));
    values[ends[0]..ends[1]].is_ascii()
}

/// The longest text that lies in its view, behind the length. Zeros follow it.
const INLINE: usize = 12;

/// The highest bits of the bytes of such a text.
const HIGH: u128 = ((u128::MAX / 255) << 7) & !(u32::MAX as u128);

/// A part of a view: the length of the text; of one longer than [`INLINE`], behind its first four bytes, the
/// buffer and the place there.
#[inline(always)]
fn part(view: u128, i: u32) -> usize {
    (view >> (32 * i)) as u32 as usize
}

fn each_of_views<'a>(
    array: &'a StringViewArray,
    rows: Range<usize>,
    mut each: impl FnMut(&'a [u8], usize),
) -> bool {
    let mut sources = vec![array.views().inner().as_slice()];
    sources.extend(array.data_buffers().iter().map(|buffer| &**buffer));
    let (nulls, views) = (array.nulls(), &array.views()[rows.clone()]);
    let mut inline = 0;
    // Without a branch for each text: columns have short and long ones in any order.
    for (row, &view) in rows.zip(views) {
        let len = part(view, 0);
        let is_long = len > INLINE;
        let here = (0, size_of::<u128>() * row + size_of::<u32>());
        let place = (part(view, 2).wrapping_add(1), part(view, 3));
        let (source, start) = select_unpredictable(is_long, place, here);
        if nulls.is_some_and(|nulls| nulls.is_null(row)) {
            each(&[], 0);
            continue;
        }
        inline |= select_unpredictable(is_long, 0, view);
        each(&sources[source][start..], len);
    }
    inline & HIGH == 0 && is_ascii_elsewhere(views, &sources[1..])
}

/// Whether the texts of some views that do not lie in them are ASCII for sure.
fn is_ascii_elsewhere(views: &[u128], buffers: &[&[u8]]) -> bool {
    let is_long = |view: &&u128| part(**view, 0) > INLINE;
    let Some(first) = views.iter().find(is_long) else { return true };
    let buffer = part(*first, 2);
    // Mostly they lie one behind another: then they are looked at as one text.
    let (mut low, mut high, mut total, mut is_one) = (usize::MAX, 0, 0, true);
    for view in views {
        let is_long = is_long(&view);
        let [len, at, start] = [0, 2, 3].map(|i| part(*view, i));
        is_one &= !is_long | (at == buffer);
        low = low.min(select_unpredictable(is_long, start, usize::MAX));
        high = high.max(select_unpredictable(is_long, start + len, 0));
        total += select_unpredictable(is_long, len, 0);
    }
    let one = buffers.get(buffer).filter(|_| is_one && high - low <= 2 * total);
    match one.and_then(|buffer| buffer.get(low..high)) {
        Some(texts) => texts.is_ascii(),
        None => views.iter().filter(is_long).all(|view| {
            let [len, at, start] = [0, 2, 3].map(|i| part(*view, i));
            let bytes = buffers.get(at).and_then(|buffer| buffer.get(start..));
            bytes.is_some_and(|bytes| begins_ascii(bytes, len))
        }),
    }
}

/// Whether the first `len` bytes are ASCII, for texts of many lengths: no branch tells these.
#[inline]
fn begins_ascii(bytes: &[u8], len: usize) -> bool {
    match bytes.first_chunk::<64>() {
        Some(chunk) if len <= 64 => {
            let within = |i: usize| u8::from((i as u8) < len as u8).wrapping_neg();
            chunk.iter().enumerate().fold(0, |all, (i, byte)| all | byte & within(i)) < 128
        }
        _ => bytes.get(..len).is_some_and(<[u8]>::is_ascii),
    }
}
