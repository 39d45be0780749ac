//! Tests of the crate's structure: the directions in which folders depend on each other, the rings of
//! files within the families, and the smallest family of similarities, which runs through everything above the boundary. [`statements`]
//! holds the statements of a family against nested loops.

mod arrows;
mod near;
mod rings;
pub(crate) mod statements;
