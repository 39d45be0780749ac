//! Tests of the crate's structure: the directions in which folders depend on each other, and the smallest family of similarities, which runs through everything above the boundary. [`statements`]
//! holds the statements of a family against nested loops.

mod arrows;
mod families;
mod near;
pub(crate) mod statements;
