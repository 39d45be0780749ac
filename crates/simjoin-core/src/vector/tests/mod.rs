//! Vectors against definitions: bounds and kernels against `f64`, collections against their rows,
//! statements against DataFusion's nested loops.

mod axis;
mod bounds;
mod filters;
mod outliers;
mod places;
