//! The nested loop on the CPU: every probe vector with every build vector of its key.
//!
//! Tiles of products in `f32`, or of bytes, reject and accept pairs; `f64` decides those between.
//!
//! ```text
//! panels.rs    the build side, written for products
//! block.rs     vectors that meet panels
//! second.rs    f32 where bytes do not do
//! counts.rs    matches that are only counted
//! cursor.rs    one partition's vectors
//! prepared.rs  the join that opens cursors
//! ```

mod block;
mod counts;
mod cursor;
mod panels;
mod prepared;
mod second;

pub use block::{BLOCK, least_block_bytes};
pub use cursor::CURSOR_BYTES;
pub use prepared::prepare;
pub(super) use prepared::{prepare_with, prepared_bytes};
