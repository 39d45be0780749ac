//! Tests of the crate's structure: the directions in which folders depend on each other, and a
//! second family of similarities that runs through everything above the boundary.

mod arrows;
mod near;
