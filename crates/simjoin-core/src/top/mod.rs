//! The best partners of each row, while a search finds them.
//!
//! [`ScoreKey`] orders scores by nearness, [`TopK`] holds the best `k` of each row. Any search offers it pairs, in
//! any order and from any number of threads, and asks it for the [worst key](TopK::worst) of a row that has enough:
//! pairs that are worse change nothing.

mod key;
mod rows;
mod sample;

pub use key::{ScoreKey, key_of, keyed, score_of};
pub use rows::{Entry, TopK};
pub use sample::RoundSample;
