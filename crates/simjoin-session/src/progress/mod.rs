//! The progress of a plan that runs, as a line of text.
//!
//! [`figures`] derives from the plan how much of how much is done; where that is not known, it says how
//! much. [`line`] puts it into words that fit the terminal.

mod figures;
mod line;

pub use figures::PlanStatus;
