//! Nearest neighbours: for each left row its best right rows.
//!
//! ```text
//! left, right ─► tables (rows with numbers)
//!        ┌──────────────────────────────────────────────────────────────┐
//!        ▼                                                              │ rows with fewer than k
//!   bound of the round ─► similarity join ─► matches ─► the best of each row
//!                                                                       │ rows with k
//!                                                                       ▼
//!                                                           neighbours ─► output
//! ```
//!
//! A join by a bound finds every pair whose score is within the bound. A left row that has k matches
//! then has its neighbours among them: its k-th best score is within the bound. The other left rows go
//! through a join by a wider bound (`rounds`). The last round takes the widest one that the operator
//! runs; pairs that no bound gives (texts without a common character), and
//! scores that no family knows, are computed pair by pair (`pairs`). So every strategy, device, key and
//! memory limit of similarity joins serves neighbours as well.
//!
//! Before the rounds the family of the score is asked whether it finds the neighbours at once
//! (`at_once`): that of sets does by a strategy, that of vectors by a search of its own, on the CPU or on a GPU.
//!
//! Before all that, rows that are equal are made one (`distinct`): what is found of one row holds for all that
//! are equal to it (`expand`).
//!
//! The best pairs of a whole join are found in the same way, see `best_pairs`.

mod alike;
mod argument;
mod at_once;
mod best_pairs;
mod budget;
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
mod stored;
mod table;
mod tasks;
#[cfg(test)]
mod tests;

pub use best_pairs::BestPairsExec;
pub use node::NearestJoinExec;
