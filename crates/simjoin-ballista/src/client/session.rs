//! Prepares the sessions of clients.

use std::sync::Arc;

use ballista_core::extension::{SessionConfigExt, SessionStateExt};
use datafusion::common::Result;
use datafusion::execution::{SessionState, SessionStateBuilder};

use super::planner::ClusterPlanner;
use crate::MAX_MESSAGE_BYTES;
use crate::address::SchedulerAddress;
use crate::secret::Access;
use crate::session::{logical_codec, physical_codec};
use datafusion_simjoin::install_parts;

/// Prepares a session for statements that a scheduler runs: Ballista's settings, planner and
/// functions, and this crate's functions, options and SIMJOIN on top. Connections carry the secret
/// of this account, unless the configuration of the session changes them already
/// ([`Secret::endpoints`](crate::Secret::endpoints)).
///
/// The planner is [`ClusterPlanner`], in place of the one
/// that the session has; Ballista's own sends the same plans.
///
/// # Errors
///
/// A plan error for a URL that is none, or when the session has other functions under the names
/// of this crate's.
pub fn client_session(builder: SessionStateBuilder, scheduler: &str) -> Result<SessionState> {
    let address = SchedulerAddress::parse(scheduler)?;
    let planner = ClusterPlanner::new(address.clone());
    let mut builder = install_parts(builder)?;
    let mut config = std::mem::take(builder.config()).unwrap_or_default();
    if config.ballista_override_create_grpc_client_endpoint().is_none()
        && let Some(endpoints) = Access::Account.endpoints(&address)
    {
        config = config.with_ballista_override_create_grpc_client_endpoint(endpoints);
    }
    let config = config
        .upgrade_for_ballista()
        .with_ballista_grpc_client_max_message_size(MAX_MESSAGE_BYTES as usize)
        .with_ballista_logical_extension_codec(logical_codec())
        .with_ballista_physical_extension_codec(physical_codec())
        .with_ballista_query_planner(Arc::new(planner));
    let state = builder.with_config(config).build().upgrade_for_ballista(address.url().into())?;
    // The upgrade puts Ballista's functions in place of all others.
    Ok(install_parts(SessionStateBuilder::new_from_existing(state))?.build())
}
