//! Text and binary tokens as bytes, the short ones as a machine word.

use std::mem::size_of;

use arrow::array::{Array, FixedSizeBinaryArray, GenericByteArray, GenericByteViewArray};
use arrow::datatypes::{ArrowNativeType, ByteArrayType, ByteViewType};

/// Byte strings up to this length are packed into a word together with their length.
pub(crate) const PACKED_LEN: usize = 7;

/// Byte strings by their positions, without NULLs among the ones read.
pub trait ByteTokens {
    /// The number of tokens.
    fn count(&self) -> usize;

    fn bytes(&self, index: usize) -> &[u8];

    /// The token as a word, if it has at most [`PACKED_LEN`] bytes.
    fn packed(&self, index: usize) -> Option<u64>;

    /// The bytes of all tokens.
    fn total_bytes(&self) -> usize;
}

impl<T: ByteArrayType> ByteTokens for GenericByteArray<T> {
    fn count(&self) -> usize {
        self.len()
    }

    #[inline]
    fn bytes(&self, index: usize) -> &[u8] {
        self.value(index).as_ref()
    }

    #[inline]
    fn packed(&self, index: usize) -> Option<u64> {
        let offsets = self.value_offsets();
        let (start, end) = (offsets[index].as_usize(), offsets[index + 1].as_usize());
        pack_at(self.value_data(), start, end - start)
    }

    fn total_bytes(&self) -> usize {
        let offsets = self.value_offsets();
        offsets[self.len()].as_usize() - offsets[0].as_usize()
    }
}

impl<T: ByteViewType + ?Sized> ByteTokens for GenericByteViewArray<T> {
    fn count(&self) -> usize {
        self.len()
    }

    #[inline]
    fn bytes(&self, index: usize) -> &[u8] {
        self.value(index).as_ref()
    }

    #[inline]
    fn packed(&self, index: usize) -> Option<u64> {
        // A view starts with the length; short strings follow in the view itself.
        let view = self.views()[index];
        let len = view as u32 as usize;
        (len <= PACKED_LEN).then(|| with_length((view >> 32) as u64, len))
    }

    fn total_bytes(&self) -> usize {
        self.views().iter().map(|&view| view as u32 as usize).sum()
    }
}

impl ByteTokens for FixedSizeBinaryArray {
    fn count(&self) -> usize {
        self.len()
    }

    #[inline]
    fn bytes(&self, index: usize) -> &[u8] {
        self.value(index)
    }

    #[inline]
    fn packed(&self, index: usize) -> Option<u64> {
        pack(self.value(index))
    }

    fn total_bytes(&self) -> usize {
        self.len() * self.value_length() as usize
    }
}

/// The bytes and their number in one word, for at most [`PACKED_LEN`] bytes.
#[inline]
pub fn pack(bytes: &[u8]) -> Option<u64> {
    if bytes.len() > PACKED_LEN {
        return None;
    }
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    Some(with_length(u64::from_le_bytes(word), bytes.len()))
}

/// Like [`pack`] of `data[start..start + len]`, reading one word where the data has as many bytes.
#[inline]
pub(crate) fn pack_at(data: &[u8], start: usize, len: usize) -> Option<u64> {
    if len > PACKED_LEN {
        return None;
    }
    // The last word of the data also holds the bytes behind its first one.
    let Some(last) = data.len().checked_sub(size_of::<u64>()) else {
        return pack(&data[start..start + len]);
    };
    let at = start.min(last);
    let word = data[at..at + size_of::<u64>()].try_into().map(u64::from_le_bytes).ok()?;
    // A token that starts at the end of the data is empty: its shift is one of a whole word.
    Some(with_length(word.unbounded_shr(8 * (start - at) as u32), len))
}

/// The first `len` bytes of a word, and `len` in its last one.
#[inline]
fn with_length(word: u64, len: usize) -> u64 {
    (word & ((1 << (8 * len)) - 1)) | (len as u64) << (8 * PACKED_LEN)
}

/// The bytes of a packed word, and how many of them count.
#[inline]
pub fn unpack(word: u64) -> ([u8; 8], usize) {
    (word.to_le_bytes(), (word >> (8 * PACKED_LEN)) as usize)
}

#[cfg(test)]
mod tests {
    use arrow::array::{BinaryViewArray, LargeStringArray, StringArray};

    use super::*;

    #[test]
    fn every_layout_packs_alike() {
        let texts = ["", "a", "\0", "ab\0", "abcdefg", "abcdefgh", "xyz", "", "gfedcba", "q"];
        let plain = StringArray::from_iter_values(texts);
        let large = LargeStringArray::from_iter_values(texts);
        let views = BinaryViewArray::from_iter_values(texts);
        for (i, text) in texts.iter().enumerate() {
            let expected = pack(text.as_bytes());
            assert_eq!(expected.is_some(), text.len() <= PACKED_LEN);
            if let Some((bytes, len)) = expected.map(unpack) {
                assert_eq!(&bytes[..len], text.as_bytes());
            }
            assert_eq!(plain.packed(i), expected, "{text:?}");
            assert_eq!(large.packed(i), expected, "{text:?}");
            assert_eq!(views.packed(i), expected, "{text:?}");
            assert_eq!(ByteTokens::bytes(&plain, i), text.as_bytes());
            assert_eq!(ByteTokens::bytes(&views, i), text.as_bytes());
        }
    }
}
