//! Vectors against definitions: bounds and kernels against `f64`, statements against DataFusion's
//! nested loops.

mod bounds;
mod sql;
