//! The instructions of a matrix unit by their definition.

use std::cell::Cell;

use super::{MatrixUnit, TILE};

thread_local! {
    /// Whether the thread has its tiles.
    static IS_TAKEN: Cell<bool> = const { Cell::new(false) };
}

pub struct Emulated([[[i32; TILE]; TILE]; 8]);

/// The sum, and the products of four signed bytes with four unsigned ones.
pub(super) fn sum(sum: i32, signed: i32, unsigned: i32) -> i32 {
    let signed = signed.to_ne_bytes().map(|byte| i32::from(byte as i8));
    let unsigned = unsigned.to_ne_bytes().map(i32::from);
    signed.iter().zip(unsigned).fold(sum, |sum, (a, b)| sum.wrapping_add(a * b))
}

impl MatrixUnit for Emulated {
    unsafe fn begin() -> Self {
        assert!(!IS_TAKEN.replace(true), "the thread has its tiles already");
        Self([[[0; TILE]; TILE]; 8])
    }

    unsafe fn zero<const TO: usize>(&mut self) {
        self.0[TO] = [[0; TILE]; TILE];
    }

    unsafe fn load<const TO: usize>(&mut self, from: *const i32, stride: usize) {
        for (row, places) in self.0[TO].iter_mut().enumerate() {
            // SAFETY: the caller promises that the rows are readable.
            *places = unsafe { from.add(row * stride).cast::<[i32; TILE]>().read() };
        }
    }

    unsafe fn store<const FROM: usize>(&mut self, to: *mut i32, stride: usize) {
        for (row, places) in self.0[FROM].iter().enumerate() {
            // SAFETY: the caller promises that the rows are writable.
            unsafe { to.add(row * stride).cast::<[i32; TILE]>().write(*places) };
        }
    }

    unsafe fn add_products<const TO: usize, const ROWS: usize, const COLUMNS: usize>(&mut self) {
        let (rows, columns) = (self.0[ROWS], self.0[COLUMNS]);
        for (places, sums) in rows.iter().zip(&mut self.0[TO]) {
            for (place, others) in places.iter().zip(&columns) {
                for (to, other) in sums.iter_mut().zip(others) {
                    *to = sum(*to, *place, *other);
                }
            }
        }
    }
}

impl Drop for Emulated {
    fn drop(&mut self) {
        IS_TAKEN.set(false);
    }
}
