//! The library, compared with nested loops over the scalar functions.

mod columns;
mod errors;
mod limits;
mod nearest;
mod oracle;
mod random;
mod sets;
mod texts;
mod vectors;
