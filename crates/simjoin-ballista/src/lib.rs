//! The join on a cluster of [Apache DataFusion Ballista](https://datafusion.apache.org/ballista/).
//!
//! ```text
//!  client                     scheduler                              executors
//!  SQL ─► logical plan ─────► session: SimJoinQueryPlanner           task: a stage of the plan for
//!  (client, logical codec)    ─► physical plan ─► stages ──────────► some of its partitions
//!                             (session)          (codec)             (codec, function registry)
//!       ◄──────────────────────────── rows of the last stage, by Arrow Flight
//! ```
//!
//! The client sends a logical plan, in which a similarity join is still a join of SQL. The
//! scheduler plans it with [`SimJoinQueryPlanner`](datafusion_simjoin::SimJoinQueryPlanner), which knows from
//! the session that tasks share nothing, and cuts it into stages; the tasks of a stage travel to
//! the executors by [`SimJoinPhysicalCodec`]. So all three must know this crate, in the same
//! version.
//!
//! The program `simjoin` starts all three ([`scheduler`], [`executor`] and [`client`] are what it
//! runs). Programs that have a scheduler and executors of their own prepare them with
//! [`configure_scheduler`] and [`configure_executor`], and connect with [`client::connect`] or
//! prepare a session of theirs with [`client_session`]:
//!
//! ```no_run
//! use ballista_executor::executor_process::ExecutorProcessConfig;
//! use ballista_scheduler::config::SchedulerConfig;
//! use datafusion::execution::SessionStateBuilder;
//! use simjoin_ballista::{client, configure_executor, configure_scheduler};
//!
//! # async fn run() -> datafusion::common::Result<()> {
//! let scheduler: SchedulerConfig = configure_scheduler(SchedulerConfig::default());
//! let executor: ExecutorProcessConfig = configure_executor(ExecutorProcessConfig::default());
//! let builder = SessionStateBuilder::new_with_default_features();
//! let ctx = client::connect("localhost:50050", builder)?;
//! # let _ = (scheduler, executor, ctx);
//! # Ok(())
//! # }
//! ```

// The prose of a module leads its reader to the private parts as well.
#![allow(rustdoc::private_intra_doc_links)]
#![warn(missing_docs, unreachable_pub)]

mod address;
pub mod client;
mod codec;
pub mod control;
pub mod executor;
mod explain;
pub mod log;
mod memory_table;
mod nearest_node;
mod pairs_node;
mod reason;
pub mod scheduler;
mod secret;
mod session;
mod state;

pub use client::client_session;
pub use codec::SimJoinPhysicalCodec;
pub use memory_table::SimJoinLogicalCodec;
pub use secret::{Access, Secret, is_readable_by_others};
pub use session::{
    configure_executor, configure_scheduler, function_registry, logical_codec, physical_codec,
    scheduler_session, session_config,
};

/// The greatest gRPC message between the processes, in bytes. A statement with its tables in
/// memory is one message, and so is each task.
pub const MAX_MESSAGE_BYTES: u32 = 64 << 20;
