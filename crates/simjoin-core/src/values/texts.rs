//! Text columns of any layout, read row by row.

use std::hint::select_unpredictable;
use std::ops::Range;

use arrow::array::{
    Array, ArrayRef, AsArray, GenericStringArray, LargeStringArray, OffsetSizeTrait, StringArray,
    StringViewArray, make_array,
};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;

use crate::error::{Result, exec_err};
use crate::util::unpack::unpacked;

/// A column of text, dictionary-encoded or not, or of the NULL type.
#[derive(Debug)]
pub enum Texts {
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
    pub fn try_new(array: &dyn Array) -> Result<Self> {
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
                return Self::try_new(&unpacked(&array, views)?);
            }
            other => return exec_err!("expected text, found {other}"),
        })
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        match self {
            Texts::Null(rows) => *rows,
            Texts::Utf8(a) => a.len(),
            Texts::LargeUtf8(a) => a.len(),
            Texts::Utf8View(a) => a.len(),
        }
    }

    /// The text of a row, `None` when it is NULL.
    #[inline]
    pub fn value(&self, row: usize) -> Option<&str> {
        match self {
            Texts::Null(_) => None,
            Texts::Utf8(a) => a.is_valid(row).then(|| a.value(row)),
            Texts::LargeUtf8(a) => a.is_valid(row).then(|| a.value(row)),
            Texts::Utf8View(a) => a.is_valid(row).then(|| a.value(row)),
        }
    }

    /// The rows that are NULL, `None` if there is none.
    pub fn nulls(&self) -> Option<NullBuffer> {
        match self {
            Texts::Null(rows) => Some(NullBuffer::new_null(*rows)),
            Texts::Utf8(a) => a.nulls().cloned(),
            Texts::LargeUtf8(a) => a.nulls().cloned(),
            Texts::Utf8View(a) => a.nulls().cloned(),
        }
    }

    /// Whether the buffers to which views point are ASCII for sure, where they hold the texts: what
    /// [`Self::for_each_within`] need not find out for some rows.
    pub(crate) fn has_ascii_buffers(&self) -> bool {
        match self {
            Texts::Null(_) | Texts::Utf8(_) | Texts::LargeUtf8(_) => false,
            Texts::Utf8View(a) => has_ascii_buffers(a),
        }
    }

    /// Calls `each` with the text of each of some rows, an empty one for NULL: with the bytes from its first
    /// one on, those that lie behind it in the column included, and its length. Returns whether the texts
    /// are ASCII for sure; `has_ascii_buffers` is what the function of this name says.
    pub(crate) fn for_each_within<'a>(
        &'a self,
        rows: Range<usize>,
        has_ascii_buffers: bool,
        mut each: impl FnMut(&'a [u8], usize),
    ) -> bool {
        match self {
            Texts::Null(_) => {
                rows.for_each(|_| each(&[], 0));
                true
            }
            Texts::Utf8(a) => each_of_offsets(a, rows, each),
            Texts::LargeUtf8(a) => each_of_offsets(a, rows, each),
            Texts::Utf8View(a) => each_of_views(a, rows, has_ascii_buffers, each),
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
    has_ascii_buffers: bool,
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
    inline & HIGH == 0 && (has_ascii_buffers || is_ascii_elsewhere(views, &sources[1..]))
}

/// The bytes of a buffer that are looked at for each text in it: as quick as to look at the text.
const BYTES_A_TEXT: usize = 256;

/// The part of a buffer that holds texts.
#[derive(Clone)]
struct TextExtent {
    low: usize,
    high: usize,
    texts: usize,
}

/// Whether the buffers of an array are ASCII from the first to the last text, which is looked for only where texts lie
/// near each other. A page of a dictionary has the texts of many rows in any order.
fn has_ascii_buffers(array: &StringViewArray) -> bool {
    let buffers = array.data_buffers();
    // The last one is that of the texts which lie in their views.
    let mut parts = vec![TextExtent { low: usize::MAX, high: 0, texts: 0 }; buffers.len() + 1];
    for view in array.views() {
        let [len, at, start] = [0, 2, 3].map(|i| part(*view, i));
        // The view of a NULL row may be anything.
        let at = select_unpredictable(len > INLINE, at.min(buffers.len()), buffers.len());
        let part = &mut parts[at];
        part.low = part.low.min(start);
        part.high = part.high.max(start + len);
        part.texts += 1;
    }
    buffers.iter().zip(&parts).filter(|(_, part)| part.texts > 0).all(|(buffer, part)| {
        let is_near = part.high - part.low <= BYTES_A_TEXT * part.texts;
        is_near && buffer.get(part.low..part.high).is_some_and(<[u8]>::is_ascii)
    })
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
    one.and_then(|buffer| buffer.get(low..high)).is_some_and(<[u8]>::is_ascii)
}
