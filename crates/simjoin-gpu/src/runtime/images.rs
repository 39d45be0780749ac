//! The programs of devices.

/// Machine code, aligned as its format has it.
#[repr(C, align(16))]
#[doc(hidden)]
pub struct Aligned<B: ?Sized>(pub B);

/// A program, compiled ahead by `kernels/build.py` for several kinds of devices.
#[derive(Debug)]
pub struct Images {
    /// Machine code, each for the devices of one major capability from its minor one up.
    pub cubins: &'static [((i32, i32), &'static [u8])],
    /// PTX, which the driver compiles for all other devices, with a NUL at its end.
    pub ptx: &'static str,
}

/// Embeds the images of a program of `kernels/` in a crate of `crates/`; for
/// compute capability 9.0 it takes the image of an architecture, `sm_90` unless another one is named.
#[macro_export]
macro_rules! images {
    ($name:literal) => {
        $crate::images!($name, "sm_90")
    };
    ($name:literal, $hopper:literal) => {{
        use $crate::runtime::{Aligned, Images};
        static SM_90: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../kernels/images/",
            $name,
            ".",
            $hopper,
            ".cubin"
        )));
        static SM_80: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../kernels/images/",
            $name,
            ".sm_80.cubin"
        )));
        Images {
            cubins: &[((9, 0), &SM_90.0), ((8, 0), &SM_80.0)],
            ptx: concat!(
                include_str!(concat!(
                    env!("CARGO_MANIFEST_DIR"),
                    "/../../kernels/images/",
                    $name,
                    ".ptx"
                )),
                "\0"
            ),
        }
    }};
}

pub use images;
