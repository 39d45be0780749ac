//! Joins on devices below the operator, held to nested loops. The tests of this crate share it with those of
//! crates whose strategies are made of its parts. It needs the harness of `simjoin-core` beside it.

mod lent;
pub(crate) mod sets;
pub(crate) mod vectors;
pub(crate) mod works;

pub(crate) use self::lent::Lent;
pub(crate) use self::sets::place;
