//! Exact set-similarity joins for [Apache DataFusion](https://datafusion.apache.org).
//!
//! A set-similarity join finds the pairs of rows whose token sets are similar: near-duplicate
//! documents, records of one entity in two tables, users with the same taste. In SQL it is a join
//! on a similarity predicate, `a SIMJOIN b ON jaccard(a.toks, b.toks) >= 0.8`. The answer is that
//! of a nested loop over all pairs, bit for bit; the way there is an index over set prefixes.
//!
//! ```text
//! SQL text ──► SIMJOIN sugar ──► DataFusion logical plan ──► similarity predicate recognised
//!               (sql)                                          (plan)      │
//!    build side                                                            ▼
//!    RecordBatches ─► token dictionary ─► token order ─► SetCollection ─► prepare
//!                     (sets)                             (distinct sets,      │
//!                                                         by size)            │
//!    probe side                                                               ▼
//!    each RecordBatch ─► encode ─► strategy: filter ─► candidates ─► verify ─► matched sets
//!                                  (strategy, filter)               (verify)      │
//!                                                                                 ▼
//!               rows of sets, residual filter, join type, score ─► pairs or counts as batches
//!               (exec)
//! ```
//!
//! [`install`] puts it into a session; [`SimJoinContextExt`] and [`SimJoinDataFrameExt`] use it
//! from Rust:
//!
//! ```
//! use datafusion::execution::SessionStateBuilder;
//! use datafusion::prelude::*;
//! use datafusion_simjoin::{SimJoinContextExt, install};
//!
//! # #[tokio::main]
//! # async fn main() -> datafusion::common::Result<()> {
//! let builder = SessionStateBuilder::new_with_default_features();
//! let ctx = SessionContext::new_with_state(install(builder)?.build());
//! ctx.sql("CREATE TABLE name AS VALUES ('Jane Doe'), ('Doe, Jane'), ('John Roe')").await?;
//! let same = ctx
//!     .simjoin_sql(
//!         "SELECT a.column1, b.column1 FROM name a SIMJOIN name b \
//!          ON jaccard(word_tokens(a.column1), word_tokens(b.column1)) >= 0.9 \
//!          AND a.column1 < b.column1",
//!     )
//!     .await?;
//! assert_eq!(same.count().await?, 1);
//! # Ok(())
//! # }
//! ```
//!
//! Programs that parse SQL by themselves hand the text to [`sql::rewrite_sql`] first. The same
//! predicate in a plain `JOIN`, in `WHERE` over a cross join, or in `EXISTS` is recognised without
//! any sugar. The options are in [`config`], the functions in [`functions`]. What does not fit into
//! memory is joined from disk, a piece of the build side at a time (`exec::spill`).

// The prose of a module leads its reader to the private parts as well.
#![allow(rustdoc::private_intra_doc_links)]

pub mod cancel;
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "ballista")]
pub mod cluster;
pub mod config;
pub mod cuda;
pub mod exec;
pub mod filter;
pub mod functions;
pub mod measure;
pub mod plan;
pub mod session;
pub mod sets;
pub mod simd;
pub mod sql;
pub mod strategy;
pub mod verify;

#[cfg(all(test, feature = "cuda"))]
#[path = "../tests/emulator/mod.rs"]
#[allow(dead_code)]
mod emulator;

pub use config::SimJoinOptions;
pub use plan::{SimJoinPlanner, SimJoinQueryPlanner};
pub use session::{SimJoinContextExt, SimJoinDataFrameExt, install, install_parts};
pub use sql::{rewrite_sql, rewrite_sql_with_dialect};

/// The examples of the README and the manual, as doc-tests.
#[cfg(doctest)]
mod manual {
    #[doc = include_str!("../README.md")]
    struct Readme;
    #[doc = include_str!("../docs/benches.md")]
    struct Benches;
    #[doc = include_str!("../docs/cluster.md")]
    struct Cluster;
    #[doc = include_str!("../docs/command-line.md")]
    struct CommandLine;
    #[doc = include_str!("../docs/contributing.md")]
    struct Contributing;
    #[doc = include_str!("../docs/explain.md")]
    struct Explain;
    #[doc = include_str!("../docs/gpu.md")]
    struct Gpu;
    #[doc = include_str!("../docs/limits.md")]
    struct Limits;
    #[doc = include_str!("../docs/memory.md")]
    struct Memory;
    #[doc = include_str!("../docs/options.md")]
    struct Options;
    #[doc = include_str!("../docs/rust.md")]
    struct Rust;
    #[doc = include_str!("../docs/scale.md")]
    struct Scale;
    #[doc = include_str!("../docs/sql.md")]
    struct Sql;
    #[doc = include_str!("../docs/strategies.md")]
    struct Strategies;
}
