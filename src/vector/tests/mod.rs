//! Vectors against definitions: bounds and kernels against `f64`, statements against DataFusion's
//! nested loops.

mod axis;
mod bounds;
mod sql;
