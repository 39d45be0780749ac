//! Inner products of rows of vectors with panels, compared as they are computed.
//!
//! A panel holds sixteen neighbouring vectors, place by place: a register takes one place of all of
//! them, which is one coordinate as an `f32`, or four as bytes. Rows lie as the products take them:
//!
//! ```text
//! element.rs   places, bounds, rows and panels     layout.rs    where the places of rows lie
//! lanes.rs     products in vector registers        products.rs  all rows with some panels
//! matrix.rs    products in tiles of a matrix unit
//! ```

mod element;
mod lanes;
mod layout;
mod matrix;
mod products;

pub(super) use element::{Element, Heads, PANEL, Panels, Rows};
pub(super) use layout::RowLayout;
pub(super) use products::{for_each_lane, products, products_by_heads, products_of_panels};

#[cfg(test)]
mod tests;
