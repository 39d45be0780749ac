//! From matching pairs of items to the rows of the answer.
//!
//! ```text
//!  matches of an open batch ─► note: counts, marks
//!          │                                              batch complete ─► rows one by one ─┐
//!          └─► blocks of row pairs ─► residual, columns ─► output batches ◄─────────────────┘
//! ```
//!
//! [`Answer`] holds the open [`ProbeBatch`]es of one partition and everything that becomes of
//! their matches. It knows nothing of the cursor that finds these.

pub(crate) mod batch;
pub(crate) mod blocks;
pub(crate) mod consume;
pub(crate) mod emit;
mod marks;
pub(crate) mod output;
pub(crate) mod pairs;
mod state;

pub(crate) use batch::ProbeBatch;
pub(crate) use consume::Taken;
pub(crate) use state::Answer;
