//! The texts of some rows.

use std::ops::Range;

use super::TextColumn;
use crate::string::lanes::pairs::{LONGEST, Text};
use crate::values::Texts;

/// Gathers the texts of some rows, an empty one for NULL. Returns whether all are ASCII.
/// `has_ascii_buffers` is what [`Texts::has_ascii_buffers`] says.
pub(super) fn gather<'a>(
    texts: &'a Texts,
    rows: Range<usize>,
    has_ascii_buffers: bool,
    to: &mut Vec<Text<'a>>,
) -> bool {
    to.clear();
    to.resize(rows.len(), Text::empty());
    let mut slots = to.iter_mut();
    texts.for_each_within(rows, has_ascii_buffers, |rest, len| {
        if let Some(slot) = slots.next() {
            *slot = Text::new(rest, len);
        }
    })
}

/// The text of a scalar, and space behind it.
#[derive(Debug)]
pub(super) struct Padded {
    bytes: Vec<u8>,
    len: usize,
}

impl Padded {
    pub(super) fn of(column: &TextColumn<'_>) -> Self {
        let text = if column.is_scalar { column.value(0) } else { None }.unwrap_or_default();
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(text.len() + LONGEST, 0);
        Self { bytes, len: text.len() }
    }

    /// The text for each of some rows, as [`gather`].
    pub(super) fn gather<'a>(&'a self, rows: Range<usize>, to: &mut Vec<Text<'a>>) -> bool {
        to.resize(rows.len(), Text::new(&self.bytes, self.len));
        self.bytes.is_ascii()
    }
}
