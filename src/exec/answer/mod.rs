//! From matching pairs of items to the rows of the answer.
//!
//! ```text
//!  take ─► run of matches ─► counts and marks of items ─► items suffice: total
//!    │                           └─► blocks of row pairs ─► residual ─► counts and marks of rows, total,
//!    │                                                                  output batches ◄─┐
//!    ├─► complete unit ─► its rows one by one ───────────────────────────────────────────┤
//!    └─► end ─► total, build rows one by one ────────────────────────────────────────────┘
//! ```
//!
//! [`Answer`] holds the open [`ProbeBatch`]es of one partition and everything that becomes of
//! their matches, by the [`Sink`](crate::exec::sink::Sink) of the join. It knows nothing of the
//! cursor that finds them: its door is [`Answer::take`]. A sink acts at four places: on matches of
//! items (`consume`), on pairs of rows that match (`gather`), when a batch closes and at the end
//! (`state`).

pub(crate) mod batch;
pub(crate) mod blocks;
mod consume;
mod emit;
mod gather;
mod links;
mod listing;
mod marks;
pub(crate) mod output;
pub(crate) mod pairs;
mod state;
pub(crate) mod totals;

pub(crate) use batch::ProbeBatch;
pub(crate) use state::Answer;
