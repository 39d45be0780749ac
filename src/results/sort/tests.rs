//! Sorts of pairs.
