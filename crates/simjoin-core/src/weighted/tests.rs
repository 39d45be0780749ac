//! The family by itself.
