//! Arrays in the memory of works.

use std::mem::MaybeUninit;
use std::slice;

use crate::runtime::{DeviceError, Pod, Results};

/// Arrays begin at multiples of this.
pub const ALIGNMENT: u64 = 256;

/// Lays arrays out one behind the other.
#[derive(Debug, Default)]
pub struct ArrayLayout {
    end: u64,
}

impl ArrayLayout {
    /// The place of `count` items of `bytes` bytes.
    pub fn add(&mut self, count: u64, bytes: u64) -> u64 {
        let place = self.end;
        self.end += (count * bytes).next_multiple_of(ALIGNMENT);
        place
    }

    /// The bytes of all arrays.
    pub fn end(&self) -> u64 {
        self.end
    }
}

/// The bytes of some values.
pub fn bytes_of<T: Pod>(values: &[T]) -> &[u8] {
    // SAFETY: without padding all bytes are initialised.
    unsafe { slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// Copies `count` values from place `at` of the memory of a work.
pub fn fetch<T: Pod>(
    results: &mut Results<'_>,
    at: u64,
    count: usize,
) -> Result<Vec<T>, DeviceError> {
    let mut values: Vec<T> = Vec::with_capacity(count);
    let room: &mut [MaybeUninit<T>] = &mut values.spare_capacity_mut()[..count];
    results.fetch(at, room)?;
    // SAFETY: they have just been fetched.
    unsafe { values.set_len(count) };
    Ok(values)
}
