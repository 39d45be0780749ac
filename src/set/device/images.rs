//! The images of the kernels, which `kernels/build.py` makes.

/// Embeds the images of a program of `kernels/`. For compute capability 9.0 it takes the image of an
/// architecture, `sm_90` unless another one is named.
#[cfg(feature = "cuda")]
macro_rules! images {
    ($name:literal) => {
        images!($name, "sm_90")
    };
    ($name:literal, $hopper:literal) => {{
        use $crate::gpu::{Aligned, Images};
        static SM_90: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(
            "../../../kernels/images/",
            $name,
            ".",
            $hopper,
            ".cubin"
        )));
        static SM_80: &Aligned<[u8]> =
            &Aligned(*include_bytes!(concat!("../../../kernels/images/", $name, ".sm_80.cubin")));
        const PTX: &str =
            concat!(include_str!(concat!("../../../kernels/images/", $name, ".ptx")), "\0");
        Images {
            cubins: &[((9, 0), &SM_90.0), ((8, 0), &SM_80.0)],
            ptx: match std::ffi::CStr::from_bytes_with_nul(PTX.as_bytes()) {
                Ok(text) => text,
                // No image: the driver refuses it.
                Err(_) => c"",
            },
        }
    }};
}

/// A build without devices has no images.
#[cfg(not(feature = "cuda"))]
macro_rules! images {
    ($name:literal $(, $hopper:literal)?) => {
        $crate::gpu::Images { cubins: &[], ptx: c"" }
    };
}

pub(in crate::set) use images;

#[cfg(all(test, feature = "cuda"))]
mod tests {
    use crate::set::device::launch::VERIFY;
    use crate::set::device::published::PUBLISHED;
    use crate::set::indexed::INDEXED;
    use crate::set::tiles::TILES;

    #[test]
    fn images_are_what_their_names_say() {
        for images in [&VERIFY, &PUBLISHED, &TILES, &INDEXED] {
            for (_, cubin) in images.cubins {
                assert!(cubin.starts_with(b"\x7fELF"));
                assert_eq!(cubin.as_ptr() as usize % 16, 0);
            }
            assert!(images.ptx.to_str().unwrap().contains(".version 8.4"));
        }
    }
}
