//! The verification kernels. `kernels/build.py` compiles them.

use std::ffi::CStr;

use crate::gpu::{Aligned, Form, Images, Layout};

/// Embeds the images of a program of `kernels/`.
macro_rules! images {
    ($name:literal) => {{
        static SM_90: &Aligned<[u8]> =
            &Aligned(*include_bytes!(concat!("../../kernels/images/", $name, ".sm_90.cubin")));
        static SM_80: &Aligned<[u8]> =
            &Aligned(*include_bytes!(concat!("../../kernels/images/", $name, ".sm_80.cubin")));
        const PTX: &str =
            concat!(include_str!(concat!("../../kernels/images/", $name, ".ptx")), "\0");
        Images {
            cubins: &[((9, 0), &SM_90.0), ((8, 0), &SM_80.0)],
            ptx: match CStr::from_bytes_with_nul(PTX.as_bytes()) {
                Ok(text) => text,
                // No image: the driver refuses it.
                Err(_) => c"",
            },
        }
    }};
}

/// The kernels that joins choose from.
pub(crate) static VERIFY: Images = images!("verify");
/// The kernels of the literature, for measurements.
static PUBLISHED: Images = images!("published");

/// The program and the name of a kernel.
pub(crate) fn kernel(layout: Layout, form: Form) -> (&'static Images, &'static str) {
    let (program, [pairs, count]) = match layout {
        Layout::LanesPerPair => {
            (&VERIFY, ["verify_lanes_per_pair_pairs", "verify_lanes_per_pair_count"])
        }
        Layout::BlockPerPair => {
            (&VERIFY, ["verify_block_per_pair_pairs", "verify_block_per_pair_count"])
        }
        Layout::ThreadPerProbe => {
            (&PUBLISHED, ["verify_thread_per_probe_pairs", "verify_thread_per_probe_count"])
        }
        Layout::ThreadPerPair => {
            (&PUBLISHED, ["verify_thread_per_pair_pairs", "verify_thread_per_pair_count"])
        }
    };
    (program, if form == Form::Pairs { pairs } else { count })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_what_their_names_say() {
        for images in [&VERIFY, &PUBLISHED] {
            for (_, cubin) in images.cubins {
                assert!(cubin.starts_with(b"\x7fELF") && cubin.as_ptr() as usize % 16 == 0);
            }
            assert!(images.ptx.to_str().unwrap().contains(".version 8.4"));
        }
    }
}
