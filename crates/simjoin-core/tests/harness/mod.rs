//! Joins below the operator, held to nested loops. The tests of this crate share it with those of crates whose
//! strategies are made of its parts.

pub(crate) mod sets;
