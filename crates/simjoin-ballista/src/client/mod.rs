//! Sending statements to a scheduler, and reading their results.
//!
//! [`connect`] gives a session whose statements run on a cluster. Its planner, [`ClusterPlanner`],
//! turns a statement into one operator, [`ClusterQueryExec`], which submits the logical plan as a
//! [`Job`], waits for it and streams the rows from the executors. A stream that is dropped cancels
//! its job.

mod explain;
mod job;
mod planner;
mod query;
mod session;

use ballista_core::extension::SessionConfigExt;
use datafusion::common::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};

use super::secret::Access;
use super::session::session_config;

pub use super::address::SchedulerAddress;
pub use explain::{Stage, StageOperator};
pub use job::{Job, JobPhase};
pub use planner::ClusterPlanner;
pub use query::ClusterQueryExec;
pub use session::client_session;

/// The configuration of a session that talks to `scheduler`, with what its connections carry.
pub fn session(scheduler: &SchedulerAddress, access: &Access) -> SessionConfig {
    match access.endpoints(scheduler) {
        Some(endpoints) => {
            session_config().with_ballista_override_create_grpc_client_endpoint(endpoints)
        }
        None => session_config(),
    }
}

/// [`connect`] with the secret of `access`.
///
/// # Errors
///
/// The errors of [`connect`].
pub fn connect_with(
    scheduler: &str,
    access: &Access,
    mut builder: SessionStateBuilder,
) -> Result<SessionContext> {
    let address = SchedulerAddress::parse(scheduler)?;
    if let Some(endpoints) = access.endpoints(&address) {
        let config = std::mem::take(builder.config()).unwrap_or_default();
        let config = config.with_ballista_override_create_grpc_client_endpoint(endpoints);
        builder = builder.with_config(config);
    }
    connect(scheduler, builder)
}

/// A session whose statements run on the cluster of `scheduler`, such as `localhost:50050`.
///
/// Tables, views and settings live in this session: `SET` travels with each statement, files are
/// named by it and read by the executors, which must see them under the same path. No connection
/// is made before the first statement. A scheduler of the same account on this machine is given the
/// secret that it has left; [`connect_with`] gives others theirs.
///
/// # Errors
///
/// A plan error for an address that is none, or when the session has other functions under the
/// names of this crate's.
pub fn connect(scheduler: &str, builder: SessionStateBuilder) -> Result<SessionContext> {
    let state = client_session(builder, scheduler)?;
    debug_assert!(state.config().ballista_query_planner().is_some());
    Ok(SessionContext::new_with_state(state))
}
