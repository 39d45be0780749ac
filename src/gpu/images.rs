//! The programs of devices, in every build.

use std::ffi::CStr;

/// Machine code, aligned as its format has it.
#[cfg(feature = "cuda")]
#[repr(C, align(16))]
pub(crate) struct Aligned<B: ?Sized>(pub B);

/// A program, compiled ahead by `kernels/build.py` for several kinds of devices.
#[derive(Debug)]
pub struct Images {
    /// Machine code, each for the devices of one major capability from its minor one up.
    pub cubins: &'static [((i32, i32), &'static [u8])],
    /// PTX, which the driver compiles for all other devices.
    pub ptx: &'static CStr,
}
