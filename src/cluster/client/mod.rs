//! Sending statements to a scheduler, and reading their results.
//!
//! [`connect`] gives a session whose statements run on a cluster. Its planner, [`ClusterPlanner`],
//! turns a statement into one operator, [`ClusterQueryExec`], which submits the logical plan as a
//! [`Job`], waits for it and streams the rows from the executors. A stream that is dropped cancels
//! its job.

mod address;
mod explain;
mod job;
mod planner;
mod query;
mod reason;

use ballista_core::extension::SessionConfigExt;
use datafusion::common::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;

pub use address::SchedulerAddress;
pub use job::{Job, Phase};
pub use planner::ClusterPlanner;
pub use query::ClusterQueryExec;

/// A session whose statements run on the cluster of `scheduler`, such as `localhost:50050`.
///
/// Tables, views and settings live in this session: `SET` travels with each statement, files are
/// named by it and read by the executors, which must see them under the same path. No connection
/// is made before the first statement.
///
/// # Errors
///
/// A plan error for an address that is none, or when the session has other functions under the
/// names of this crate's.
pub fn connect(scheduler: &str, builder: SessionStateBuilder) -> Result<SessionContext> {
    let state = super::client_session(builder, scheduler)?;
    debug_assert!(state.config().ballista_query_planner().is_some());
    Ok(SessionContext::new_with_state(state))
}
