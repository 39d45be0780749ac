//! Candidates that devices verify.

mod chunks;
mod joins;
mod names;

use super::launch::VERIFY;
use super::layouts::PUBLISHED;

#[test]
fn images_are_what_their_names_say() {
    for images in [&VERIFY, &PUBLISHED] {
        for (_, cubin) in images.cubins {
            assert!(cubin.starts_with(b"\x7fELF"));
            assert_eq!(cubin.as_ptr() as usize % 16, 0);
        }
        assert!(images.ptx.ends_with('\0') && images.ptx.contains(".version 8.4"));
    }
}
