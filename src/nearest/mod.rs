//! Nearest neighbours: for each left row its best right rows.
//!
//! ```text
//! left, right ─► tables (rows with numbers) ─► equal rows become one
//!                                                     │
//!                                                     ▼
//!           the best of each row ◄── neighbours ◄── the engine: items, strategies, bounds
//!                   │ carried to the next window of right rows
//!                   ▼
//!                output
//! ```
//!
//! The engine finds the neighbours of rows in memory (`ask`), with the condition on pairs (`condition`). Pairs that no
//! bound gives (texts without a common character), and scores that no family knows, are computed pair by pair (`pairs`).
//! Scores of several functions are found by joins with ever wider bounds (`rounds`).
//!
//! Before all that, rows that are equal are made one (`distinct`): what is found of one row holds for all that
//! are equal to it (`expand`).
//!
//! The best pairs of a whole join are found by joins with bounds, see `best_pairs`.

mod alike;
mod argument;
mod ask;
mod best_pairs;
mod budget;
mod condition;
mod distinct;
mod expand;
mod keys;
mod left;
mod nan_rows;
mod node;
mod numbered;
mod output;
mod pairs;
mod right;
mod rounds;
mod run;
mod search;
mod table;
mod tasks;
#[cfg(test)]
mod tests;

pub use best_pairs::BestPairsExec;
pub use node::NearestJoinExec;
