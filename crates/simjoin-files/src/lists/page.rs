//! Pages of a column chunk as entries: a place for each element, and one for each list without any.

use std::ops::Range;

use bytes::Bytes;
use datafusion::common::{Result, exec_err};
use datafusion::parquet::basic::Encoding;
use datafusion::parquet::column::page::Page;

use super::column::ListColumn;
use super::levels::{definitions, indexes, row_starts};

/// A data page.
#[derive(Debug)]
pub(super) struct ListPage {
    pub entries: usize,
    /// The places of the entries that begin a row.
    pub starts: Vec<u32>,
    /// The definition level of each entry; `None` where each is an element that is not NULL.
    pub definitions: Option<Vec<u8>>,
    /// The elements that are not NULL, one behind the other.
    pub values: Bytes,
}

/// The parts of a page.
struct EncodedPage {
    entries: usize,
    encoding: Encoding,
    repetition: Bytes,
    definition: Bytes,
    values: Bytes,
}

/// Levels behind their length, and what follows.
fn levels_of(mut bytes: Bytes) -> Result<(Bytes, Bytes)> {
    let len = bytes.first_chunk().map(|len| u32::from_le_bytes(*len) as usize);
    match len.filter(|len| *len <= bytes.len() - 4) {
        Some(len) => {
            let rest = bytes.split_off(4 + len);
            Ok((bytes.slice(4..), rest))
        }
        None => exec_err!("a page ends before its levels"),
    }
}

impl EncodedPage {
    /// `None` of a page that is no data page.
    fn of(page: Page) -> Result<Option<Self>> {
        Ok(match page {
            Page::DictionaryPage { .. } => None,
            Page::DataPage {
                buf,
                num_values,
                encoding,
                def_level_encoding,
                rep_level_encoding,
                ..
            } => {
                if [def_level_encoding, rep_level_encoding] != [Encoding::RLE; 2] {
                    return exec_err!(
                        "a page has levels in the encodings {rep_level_encoding} and \
                         {def_level_encoding}, and only RLE can be read"
                    );
                }
                let (repetition, rest) = levels_of(buf)?;
                let (definition, values) = levels_of(rest)?;
                let entries = num_values as usize;
                Some(Self { entries, encoding, repetition, definition, values })
            }
            Page::DataPageV2 {
                buf,
                num_values,
                encoding,
                def_levels_byte_len,
                rep_levels_byte_len,
                ..
            } => {
                let repetition = rep_levels_byte_len as usize;
                let levels = repetition.saturating_add(def_levels_byte_len as usize);
                if levels > buf.len() {
                    return exec_err!("a page ends before its levels");
                }
                Some(Self {
                    entries: num_values as usize,
                    encoding,
                    repetition: buf.slice(..repetition),
                    definition: buf.slice(repetition..levels),
                    values: buf.slice(levels..),
                })
            }
        })
    }
}

impl ListPage {
    /// A page of a column, of which `dictionary` has been read; `None` of a page that is no data
    /// page.
    ///
    /// # Errors
    ///
    /// When the page does not hold what it says.
    pub(super) fn of(page: Page, column: &ListColumn, dictionary: &Bytes) -> Result<Option<Self>> {
        let Some(parts) = EncodedPage::of(page)? else { return Ok(None) };
        let entries = parts.entries;
        let starts = row_starts(&parts.repetition, entries)?;
        let definitions = definitions(&parts.definition, entries, column.most)?;
        let count = match &definitions {
            None => entries,
            Some(levels) => levels.iter().filter(|level| **level == column.most).count(),
        };
        let width = column.width;
        let bytes = count.saturating_mul(width);
        let values = match parts.encoding {
            Encoding::PLAIN => parts.values,
            Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY => {
                from_dictionary(&parts.values, count, dictionary, width)?
            }
            Encoding::BYTE_STREAM_SPLIT => from_streams(&parts.values, count, width),
            other => return exec_err!("a page has values in the encoding {other}"),
        };
        match values.len() >= bytes {
            true => Ok(Some(Self { entries, starts, definitions, values })),
            false => exec_err!("a page ends before its values"),
        }
    }

    /// The number of elements that are not NULL, of definition level `most`, among entries.
    pub(super) fn values_of(&self, entries: Range<usize>, most: u8) -> usize {
        match &self.definitions {
            None => entries.len(),
            Some(levels) => levels[entries].iter().filter(|level| **level == most).count(),
        }
    }
}

/// The values that indexes name.
fn from_dictionary(page: &[u8], count: usize, dictionary: &[u8], width: usize) -> Result<Bytes> {
    // Counts of a damaged page may be anything.
    let mut values = Vec::with_capacity(count.saturating_mul(width).min(1 << 24));
    indexes(page, count, |index, times| {
        let start = index as usize * width;
        let Some(value) = dictionary.get(start..start + width) else {
            let known = dictionary.len() / width;
            return exec_err!("a page names value {index} of a dictionary of {known}");
        };
        (0..times).for_each(|_| values.extend_from_slice(value));
        Ok(())
    })?;
    Ok(values.into())
}

/// The values whose first, second and other bytes lie together.
fn from_streams(page: &[u8], count: usize, width: usize) -> Bytes {
    let count = count.min(page.len() / width);
    let mut values = vec![0; count * width];
    // The streams have as many bytes each as the page has values.
    let stream = page.len() / width;
    for byte in 0..width {
        let own = &page[byte * stream..][..count];
        values.iter_mut().skip(byte).step_by(width).zip(own).for_each(|(to, from)| *to = *from);
    }
    values.into()
}
